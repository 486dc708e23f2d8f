"""cprint: a program or any text, highlighted where the place has colours."""

from __future__ import annotations

from typing import Any

from mlcnb.script.display import show


def cprint(printable: Any, style: str | None = None, black_format: bool | None = None) -> None:
    """Print the TVMScript text of a module or function, or a text as it is.

    style and black_format are taken for the sake of TVM's callers: the place chooses the colours,
    and the text has one form.
    """
    if isinstance(printable, str):
        print(printable)
    else:
        show(printable, style, black_format)
