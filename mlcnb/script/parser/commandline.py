"""Programs that have no file: `python -c "…"`, and `python < program.py`.

Python forgets such a text when it has compiled it. It is found again on the command line or at the
start of the standard input, and is taken only if it compiles to the very code that is running: a
text that somebody passed to `exec` is another one.
"""

from __future__ import annotations

import os
import stat
import sys
from types import CodeType

#: no program on the standard input is longer
MAX_BYTES = 10_000_000


def text_behind(code: CodeType) -> str:
    """The text that `code` (of a module, or inside of one) was compiled from, or ''."""
    text = {"<string>": _argument, "<stdin>": _standard_input}.get(code.co_filename, str)()
    if not text:
        return ""
    try:
        made = compile(text, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return text if _holds(made, code) else ""


def _argument() -> str:
    """What stands after -c."""
    words = getattr(sys, "orig_argv", [])
    for at, word in enumerate(words[1:], start=1):
        if word == "-c" and at + 1 < len(words):
            return words[at + 1]
        if not word.startswith("-"):
            break
    return ""


def _standard_input() -> str:
    """The standard input from its start, where it is a file: a pipe cannot be read again."""
    try:
        about = os.fstat(0)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_BYTES:
            return ""
        return os.pread(0, about.st_size, 0).decode(errors="replace")
    except (OSError, AttributeError):  # closed, or a system without pread
        return ""


def _holds(module: CodeType, code: CodeType) -> bool:
    stack = [module]
    while stack:
        one = stack.pop()
        if one == code:
            return True
        stack.extend(c for c in one.co_consts if isinstance(c, CodeType))
    return False
