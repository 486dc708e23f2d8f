"""show, cprint: a program in colours, as rich as the place allows.

A notebook gets HTML, a terminal ANSI colours, a file or pipe plain text.
"""

from __future__ import annotations

import sys
from typing import Any

from mlcnb.core import display
from mlcnb.script.printer import document


def show(
    obj: Any,
    style: str | None = None,
    black_format: bool | None = None,
    *,
    line_numbers: bool = False,
    **options: Any,
) -> None:
    """Print the TVMScript text of `obj`; options as in `mlcnb.script.script`.

    style and black_format are taken for the sake of TVM's callers: the place chooses the colours,
    and the text has one form.
    """
    page = document(obj, **options)
    if display.in_notebook() and display.wants_html():
        from IPython.display import display as put

        put({"text/plain": page.text, "text/html": page.html(line_numbers)}, raw=True)
    elif sys.stdout.isatty():
        print(page.ansi(line_numbers))
    else:
        print(page.text)


def cprint(printable: Any, style: str | None = None, black_format: bool | None = None) -> None:
    """Print the TVMScript text of a module or function, or a text as it is.

    style and black_format are taken for the sake of TVM's callers: the place chooses the colours,
    and the text has one form.
    """
    if isinstance(printable, str):
        print(printable)
    else:
        show(printable, style, black_format)
