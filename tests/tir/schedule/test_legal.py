"""legal_steps: what can be done at a place, complete and true."""

from __future__ import annotations

import pytest

from mlcnb import te
from mlcnb.arith.isl import SECOND_OPINION
from mlcnb.core import display
from mlcnb.core.errors import ScheduleError
from mlcnb.tir import legal_steps
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.legality.polyhedral import answers
from mlcnb.tir.schedule.offers.candidates import calls, missing_argument
from mlcnb.tir.schedule.offers.legal import primitives
from mlcnb.tir.schedule.record.site import Site
from tests.tir.schedule.carried import CARRIED
from tests.tir.schedule.programs import elementwise, matmul, matmul_relu, same_numbers, softmax

#: primitives whose arguments only the caller can give, and which argument that is
FREE = {
    "annotate": "ann_val",
    "annotate_buffer_access": "buf_type",
    "reindex_cache_read": "index_map",
    "reindex_cache_write": "index_map",
    "set_axis_separator": "buffer",
    "set_dtype": "dtype",
    "transform_block_layout": "index_map",
    "transform_layout": "buffer",
    "unsafe_hide_buffer_access": "buf_type",
    "unsafe_set_dtype": "dtype",
}


def test_what_only_the_caller_can_give():
    found = {q.name: missing_argument(q) for q in primitives()}
    assert {name: found[name] for name in FREE} == FREE
    for name in ("split", "fuse", "reorder", "bind", "compute_at", "cache_read", "rfactor"):
        assert found[name] is None


def test_every_other_primitive_is_tried():
    free = {q.name for q in primitives() if missing_argument(q)}
    sch = Schedule(matmul_relu(8, 8, 8))
    sch.annotate(sch.get_loops("C")[0], "note", 1)
    tree = sch.state.tree("main")
    nodes = [n for n in tree.position if type(n).__name__ in ("For", "Block")]
    found = {q.name for q in primitives() for n in nodes for _ in calls(q, Site.of(tree, n))}
    none = {q.name for q in primitives()} - found - free
    assert none <= {"tensorize"}, "tensorize is tried with the intrinsics that are registered"


def test_loops_of_a_scan():
    sch = Schedule(CARRIED["scan"])
    found = legal_steps(sch, sch.get_loops("B")[0])
    assert found.where == "loop i in 0..8 of block B"
    loop_steps = "add_unit_loop blockize loop_partition parallel split unroll vectorize".split()
    assert [x.text for x in found if x.primitive in loop_steps] == [
        'sch.add_unit_loop(sch.get_loops("B")[0])',
        'sch.blockize(sch.get_loops("B")[0])',
        'sch.loop_partition(sch.get_loops("B")[0], factors=[2, None])',
        'sch.loop_partition(sch.get_loops("B")[0], factors=[4, None])',
        'sch.split(sch.get_loops("B")[0], factors=[None, 2])',
        'sch.split(sch.get_loops("B")[0], factors=[None, 4])',
        'sch.unroll(sch.get_loops("B")[0])',
    ]
    assert found.refused["parallel"] == (
        "loop i is not parallel: its iterations may touch the same elements of B, which block B "
        "writes"
    )


@pytest.mark.parametrize("make", [elementwise, softmax])
def test_each_call_runs_and_computes_the_same(make):
    sch = Schedule(make())
    places = [b.name_hint for b in sch.state.tree("main").blocks if b.name_hint != "root"]
    for place in [*places, *(sch.get_loops(b)[0] for b in places)]:
        for step in legal_steps(sch, place):
            other = sch.copy()
            exec(step.text, {"sch": other})  # noqa: S102
            assert other.steps[-1].name == step.primitive
            if step.primitive not in ("bind", "pad_einsum"):
                same_numbers(make(), other.mod["main"])


def test_what_is_legal_only_by_proof_says_so():
    sch = Schedule(CARRIED["scan_rows"])
    (step,) = legal_steps(sch, sch.get_loops("B")[1]).of("parallel")
    assert step.proof == "proved (islpy)"


def test_the_schedule_is_as_it_was():
    sch = Schedule(matmul_relu())
    (i, *_rest) = sch.get_loops("C")
    before, trace, seed = sch.mod, str(sch.trace), sch.state.seed
    handles = len(sch.state.handles)
    legal_steps(sch, i)
    legal_steps(sch, "D")
    assert sch.mod is before and str(sch.trace) == trace and sch.state.seed == seed
    assert len(sch.state.handles) == handles and sch.position == 0


@pytest.fixture
def asked(monkeypatch):
    """The answers to questions whether two programs take the same steps, none of them kept yet."""
    found = []
    answer = answers.why_not_the_same_steps

    def heard(before, after, operations):
        found.append(answer(before, after, operations))
        return found[-1]

    monkeypatch.setattr(answers, "why_not_the_same_steps", heard)
    monkeypatch.setattr(answers._local, "alike", [], raising=False)
    return found


def test_scopes_are_one_question(asked):
    sch = Schedule(matmul(16, 16, 16))
    outer, inner = zip(*(sch.split(x, [None, 4]) for x in sch.get_loops("C")), strict=True)
    sch.reorder(*outer, *inner)
    sch.decompose_reduction("C", outer[2])
    found = legal_steps(sch, sch.get_loops("C_update")[5])
    assert found.refused["write_at"] == "block C_init is not under loop k_1"
    assert len(asked) == 1 and asked[0] is not None
    found = legal_steps(sch, "C_update")
    assert len(found.of("write_at")) == 2 * 3, "under i_0 and j_0, in three scopes"
    assert len(asked) == 4 + 2, "under k_0, i_1 and j_1 too, once each; and merge, with C_init's"


def test_where_an_update_waits_no_question_is_asked(asked):
    """write_at copies behind the last iteration of the reduction: legal under each loop."""
    sch = Schedule(matmul(16, 16, 16))
    outer, inner = zip(*(sch.split(x, [None, 4]) for x in sch.get_loops("C")), strict=True)
    sch.reorder(*outer, *inner)
    assert len(legal_steps(sch, "C").of("write_at")) == 6 * 3 and not asked


def test_programs_that_differ_in_more_than_memory_are_two_questions(asked):
    def program(scope, factor):
        A = te.placeholder((8,), name="A")
        B = te.compute((8,), lambda i: A[i] * factor, name="B")
        C = te.compute((8,), lambda i: B[i] + 1.0, name="C")
        sch = Schedule(te.create_prim_func([A, C]))
        sch.set_scope("B", 0, scope)
        return sch.mod["main"]

    before = program("global", 2.0)
    pairs = [("local", 2.0), ("shared", 2.0), ("shared", 3.0), ("local", 3.0)]
    told = [answers.are_the_same_steps(before, program(*x), SECOND_OPINION) for x in pairs]
    assert told == [True, True, False, False] and len(asked) == 2


def test_how_it_shows():
    sch = Schedule(elementwise())
    found = legal_steps(sch, "B")
    shown = display.mimebundle(found)
    assert "legal at block B" in shown["text/plain"]
    assert "sch.compute_inline" in shown["text/html"].replace("<wbr>", "")
    assert "not legal: decompose_reduction: block B" in repr(found) or found.refused


def test_only_blocks_and_loops():
    sch = Schedule(elementwise())
    with pytest.raises(ScheduleError, match="there is no block 'X'"):
        legal_steps(sch, "X")
