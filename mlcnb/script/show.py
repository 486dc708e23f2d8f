"""show(obj): the text in colours, as rich as the place allows.

A notebook gets HTML, a terminal ANSI colours, a file or pipe plain text.
"""

from __future__ import annotations

import sys
from typing import Any

from mlcnb.script.printer import document


def show(obj: Any, *, line_numbers: bool = False, **options: Any) -> None:
    """Print the TVMScript text of `obj`; options as in `mlcnb.script.script`."""
    page = document(obj, **options)
    if in_notebook():
        from IPython.display import HTML, display

        display(HTML(page.html(line_numbers)))
    elif sys.stdout.isatty():
        print(page.ansi(line_numbers))
    else:
        print(page.text)


def in_notebook() -> bool:
    """True where an IPython kernel runs this code (a terminal IPython is none)."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and shell.has_trait("kernel")
