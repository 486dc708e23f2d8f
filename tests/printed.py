"""What a program is expected to be, as text: the one place that knows how programs are printed.

An expectation is read by the parser and printed again, and then compared as a whole, names of
variables included. So it says `T.reads` and `T.writes` only where they are others than what the
statements of the block touch, and it need not be spelt as the printer spells it today (what the
printer writes, letter by letter, is tested in tests/script).
"""

from __future__ import annotations

from textwrap import dedent, indent

from mlcnb.core import display
from mlcnb.script import parse
from mlcnb.tir import PrimFunc


def split_text(func: PrimFunc) -> tuple[str, str]:
    """The text of a function in two: up to its root block, and the statements in that."""
    lines = display.text(func).splitlines()
    start = next(n for n, line in enumerate(lines) if 'with T.block("root")' in line) + 1
    return "\n".join(lines[:start]), dedent("\n".join(lines[start:]))


def as_printed(func: PrimFunc, body: str) -> str:
    """Statements as they would print in the root block of a function, in place of its own."""
    head, _ = split_text(func)
    last = head.splitlines()[-1]
    depth = len(last) - len(last.lstrip()) + (0 if "# with" in last else 4)
    source = f"{head}\n{indent(dedent(body).strip(), ' ' * depth)}\n"
    return split_text(parse(source, check_well_formed=False))[1]


def has_body(func: PrimFunc, expected: str) -> None:
    """The statements of a function are these."""
    assert split_text(func)[1] == as_printed(func, expected)
