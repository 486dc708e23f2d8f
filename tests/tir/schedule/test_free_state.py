"""ScheduleState.replace: statements exchanged, places that follow."""

from __future__ import annotations

import pytest

from mlcnb import tir
from mlcnb.core.errors import ArgumentError, UnknownHandleError
from mlcnb.ir import IRModule, structural_equal
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import elementwise, matmul


def around(stmt: tir.Stmt) -> tir.BlockRealize:
    """A block without axes around a statement."""
    return tir.BlockRealize([], True, tir.Block([], [], [], "target", stmt))


def start():
    """A state, the root block and its two nests."""
    state = tir.ScheduleState(elementwise(16), debug_mask="all")
    root = state.mod["main"].body.block
    return state, root, *root.body.seq


def test_a_loop_becomes_a_block_around_itself():
    state, root, first, second = start()
    loop, before = state.get_sref(second), state.get_sref(first)
    held = state.mod["main"]
    state.replace(loop, around(second))
    now = state.mod["main"].body.block
    assert now.body.seq[1].block.name_hint == "target"
    assert loop.stmt is second
    assert before.stmt is first
    assert held.body.block is root
    assert not structural_equal(held, state.mod["main"])
    assert loop.parent.stmt.name_hint == "target"


def test_what_is_gone_has_no_statement():
    state, _, first, second = start()
    loop, block = state.get_sref(first), state.get_sref(first.body.block)
    root = state.get_sref(state.mod["main"].body.block)
    state.replace(loop, around(second))
    assert loop.stmt is None
    assert block.stmt is None
    assert root.stmt is state.mod["main"].body.block
    with pytest.raises(UnknownHandleError):
        state.replace(block, first.body.block)


def test_a_block_is_remapped():
    state, _, first, _ = start()
    old = first.body.block
    place = state.get_sref(old)
    new = matmul().body.block.body.body.body.body.block
    state.replace(place, new, {old: new})
    found = state.mod["main"].body.block.body.seq[0].body.block
    assert found is new
    assert place.stmt is new
    assert state.get_sref(found) is place
    assert hash(state.get_sref(found)) == hash(place)


def test_a_loop_follows_its_variable():
    state, _, first, _ = start()
    place = state.get_sref(first)
    new = tir.For(first.loop_var, 0, 16, tir.ForKind.PARALLEL, first.body)
    state.replace(place, new)
    assert place.stmt is new
    assert state.mod["main"].body.block.body.seq[0] is new


def test_the_root_and_other_functions():
    func = elementwise(16)
    mod = IRModule({"main": func, "other": elementwise(8)})
    state = tir.ScheduleState(mod)
    other = state.mod["other"]
    root = state.get_sref(state.mod["main"].body.block)
    target = around(state.mod["main"].body.block.body.seq[1]).block
    state.replace(root, target)
    assert state.mod["main"].body.block is target
    assert state.mod["other"] is other
    assert structural_equal(mod["main"], func)


def test_a_statement_of_another_kind_is_refused():
    state, root, first, second = start()
    with pytest.raises(ArgumentError, match="a Block cannot stand where a For is"):
        state.replace(state.get_sref(first), root)
    with pytest.raises(ArgumentError, match="a For cannot stand where a Block is"):
        state.replace(state.get_sref(first.body.block), second)
    assert state.mod["main"].body.block is root


def test_a_schedule_has_no_replace():
    assert not hasattr(Schedule(elementwise(16)).state, "replace")
