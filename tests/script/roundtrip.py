"""What the tests of TVMScript share: text -> object -> text, both ways, in both spellings."""

from __future__ import annotations

from textwrap import dedent, indent
from typing import Any

from mlcnb.ir import assert_structural_equal
from mlcnb.script import parse, script

PRIM_FUNC = """\
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16, 16), "float32"), n: T.int32, m: T.int64):
"""


def assert_round_trip(obj: Any, dialects: tuple[str, ...] = ("0.21", "0.27")) -> str:
    """`parse(script(obj))` is `obj`, and prints the same again; the text without header lines."""
    for dialect in dialects:
        text = script(obj, dialect=dialect, show_meta=True)
        again = parse(text)
        assert_structural_equal(obj, again)
        assert script(again, dialect=dialect, show_meta=True) == text
    return script(obj, header=False)


def assert_text(text: str, dialects: tuple[str, ...] = ("0.21", "0.27")) -> Any:
    """A text in its printed form: what it parses to prints as the same text."""
    text = dedent(text).strip("\n")
    obj = parse(text)
    shown = assert_round_trip(obj, dialects)
    assert shown == text
    return obj


def assert_lines(lines: str, dialects: tuple[str, ...] = ("0.21", "0.27")) -> Any:
    """As `assert_text`, for lines of a PrimFunc with buffers A and B and scalars n and m."""
    return assert_text(PRIM_FUNC + indent(dedent(lines).strip("\n"), "    "), dialects)
