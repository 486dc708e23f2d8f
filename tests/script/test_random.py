"""Random programs: `parse(script(x))` is x, and the text of 0.27 parses too."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from mlcnb.core.node import walk
from mlcnb.ir import assert_structural_equal, load_json, save_json
from mlcnb.script import document, parse, script
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import BlockRealize, Stmt
from tests.script.programs import prim_funcs

BUSY = settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def has_root(func: PrimFunc) -> bool:
    """What the parser makes of blocks: they stand in a root block."""
    is_root = isinstance(func.body, BlockRealize) and not func.body.block.iter_vars
    return is_root or not any(isinstance(n, BlockRealize) for n in walk(func.body))


@BUSY
@given(prim_funcs())
def test_the_text_of_any_program_reads_back(func: PrimFunc) -> None:
    text = script(func)
    again = parse(text)
    assert script(again) == text or not has_root(func)
    if has_root(func):
        assert_structural_equal(func, again)


@BUSY
@given(prim_funcs())
def test_the_0_27_text_of_any_program_reads_back(func: PrimFunc) -> None:
    text = script(func, dialect="0.27")
    once = parse(text)
    assert_structural_equal(parse(script(once, dialect="0.27")), once)


@BUSY
@given(prim_funcs())
def test_any_program_is_saved_and_loaded(func: PrimFunc) -> None:
    text = save_json(func)
    again = load_json(text)
    assert_structural_equal(again, func)
    assert script(again) == script(func)
    assert save_json(again) == text


@BUSY
@given(prim_funcs())
def test_the_places_of_nodes_hold_their_text(func: PrimFunc) -> None:
    page = document(func)
    lines = page.text_lines
    for node in walk(func):
        for where in page.spans_of(node):
            assert 1 <= where.line <= where.end_line <= len(lines)
            assert lines[where.line - 1][where.column - 1 : where.column].strip()
            if isinstance(node, Stmt):
                before = lines[where.line - 1][: where.column - 1].strip()
                assert before in ("", "for") or before.startswith("for ")  # a loop of T.grid
