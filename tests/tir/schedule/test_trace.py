"""Trace: as Python that runs, as JSON, replayed, edited."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings

from mlcnb import tir
from mlcnb.core.errors import MLCError, ScheduleError
from mlcnb.ir import IRModule
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.tir.schedule import BlockRV, Instruction, InstructionKind, LoopRV, Schedule, Trace
from mlcnb.tir.schedule.testing import (
    assert_structural_equal_ignore_global_symbol,
    verify_trace_roundtrip,
)
from tests.ir.damage import damaged
from tests.tir.programs import FUZZ
from tests.tir.schedule.programs import elementwise, matmul, matmul_relu, replays, row_sum


def tiled(sch: Schedule) -> None:
    """A schedule with a bit of everything."""
    C = sch.get_block("C")
    copy = sch.cache_write(C, 0, "local")
    i, j, k = sch.get_loops(C)
    a, b = sch.sample_perfect_tile(i, n=2, max_innermost_factor=4)
    i0, i1 = sch.split(i, [a, b])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i0, j0, k, i1, j1)
    sch.reverse_compute_at(copy, j0)
    sch.decompose_reduction(C, k)
    sch.vectorize(j1)
    u = sch.sample_categorical([16, 64], [0.5, 0.5])
    sch.annotate(sch.fuse(i0, j0), "pragma_auto_unroll_max_step", u)


def test_as_python():
    sch = Schedule(elementwise(), seed=1)
    i0, _i1 = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.unroll(i0)
    u = sch.sample_categorical([16, 64], [0.0, 1.0])
    sch.annotate(i0, "steps", u)
    lines = str(sch.trace).splitlines()
    assert lines == [
        "# from tvm import tir",
        "def apply_trace(sch: tir.Schedule) -> None:",
        '  b0 = sch.get_block(name="B", func_name="main")',
        "  l1, = sch.get_loops(block=b0)",
        "  l2, l3 = sch.split(loop=l1, factors=[None, 4], preserve_unit_iters=True, "
        "disable_predication=False)",
        "  sch.unroll(loop=l2)",
        "  v4 = sch.sample_categorical(candidates=[16, 64], probs=[0.0, 1.0], decision=1)",
        '  sch.annotate(block_or_loop=l2, ann_key="steps", ann_val=v4)',
    ]


def test_the_python_runs():
    sch = Schedule(matmul(8, 8, 8), seed=7)
    tiled(sch)
    again = Schedule(matmul(8, 8, 8))
    space: dict = {"tir": tir}
    exec(str(sch.trace), space)  # noqa: S102
    space["apply_trace"](again)
    assert_structural_equal(again.mod, sch.mod)
    assert again.trace.as_python() == sch.trace.as_python()


def test_replay_on_another_module():
    sch = Schedule(matmul(8, 8, 8), seed=7)
    tiled(sch)
    again = Schedule(matmul(8, 8, 8))
    sch.trace.apply_to_schedule(again)
    assert_structural_equal(again.mod, sch.mod)


def test_layouts_are_written_as_functions():
    sch = Schedule(elementwise())
    sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=None)
    again = Schedule(elementwise())
    space: dict = {"tir": tir}
    exec(str(sch.trace), space)  # noqa: S102
    space["apply_trace"](again)
    assert_structural_equal(again.mod, sch.mod)
    assert "index_map=lambda i: (i // 4, i % 4)" in str(sch.trace)


def test_as_json():
    sch = Schedule(elementwise(), seed=1)
    i0, _i1 = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.parallel(i0)
    sch.sample_categorical([1, 2], [1.0, 0.0])
    assert sch.trace.as_json() == [
        [
            ["GetBlock", [], ["B", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1"]],
            ["Split", ["l1", "None", 4], [True, False], ["l2", "l3"]],
            ["Parallel", ["l2"], [], []],
            ["SampleCategorical", [], [[1, 2], [1.0, 0.0]], ["v4"]],
        ],
        [[4, 0]],
    ]


@pytest.mark.parametrize(
    ("steps", "names"),
    [
        ([["Split", ["l1", "None", 4], [1, 0], ["l4", "l5"]]], "C"),
        ([["Split", ["l1", None, 4], [True, False], ["l4", "l5"]]], "C"),
        ([["Split", ["l3", "None", 2], [1, 0], ["l4", "l5"]],
          ["RFactor", ["l5"], [0], ["b6"]]], "C C_rf"),
        ([["ReIndex", ["b0"], [0, 1], ["b4"]]], "C C_reindex"),
        ([["ReIndex", ["b0"], [0, 0], ["b4"]]], "A_reindex C"),
        ([["UnsafeHideBufferAccess", ["b0", '"read"', [1]], [], []]], "C"),
        ([["ReorderBlockIterVar", ["b0", [1, 0, 2]], [], []]], "C"),
        ([["Annotate", ["b0", {"a": [1, 2]}], ["k"], []]], "C"),
    ],
)  # fmt: skip
def test_json_as_tvm_writes_it(steps, names):
    """Kinds, None, True as 1, what are inputs and what a buffer is told by."""
    start = [["GetBlock", [], ["C", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]]]
    sch = Schedule(matmul(8, 8, 8))
    Trace.apply_json_to_schedule([start + steps, []], sch)
    made = [b.name_hint for b in sch.state.tree("main").blocks if b.name_hint != "root"]
    assert sorted(made) == names.split()
    written = [[kind, inputs] for kind, inputs, _, _ in sch.trace.as_json()[0]][2:]
    given = [[kind, ["None" if x is None else x for x in inputs]] for kind, inputs, _, _ in steps]
    if steps[0][0] != "Annotate":
        assert written == given
    replays(sch)


def test_other_decisions():
    sch = Schedule(matmul(8, 8, 8), seed=7)
    tiled(sch)
    tile = next(x for x in sch.trace if x.name == "sample_perfect_tile")
    again = Schedule(matmul(8, 8, 8))
    other = sch.trace.with_decision(tile, [4, 2])
    assert other.get_decision(tile) == [4, 2]
    assert sch.trace.get_decision(tile) == tile.decision
    assert other.get_decision(sch.trace.insts[0]) is None
    other.apply_to_schedule(again)
    assert "range(2)" in str(again) or "(2" in str(again)
    third = Schedule(matmul(8, 8, 8))
    chosen = lambda inst, _inputs, _attrs, old: [2, 4] if inst is tile else old
    sch.trace.apply_to_schedule(third, decision_provider=chosen)
    assert third.trace.decisions[third.trace.insts[3]] == [2, 4]


def test_simplified_leaves_out_what_nothing_uses():
    sch = Schedule(matmul_relu())
    sch.get_block("D")
    i, _j, _k = sch.get_loops("C")
    sch.parallel(i)
    sch.get_loops("D")
    names = [x.name for x in sch.trace.simplified()]
    assert names == ["get_block", "get_loops", "parallel"]


def test_postprocessing_can_be_left_out():
    sch = Schedule(row_sum())
    i, k = sch.get_loops("B")
    sch.split(k, [2, 4])
    sch.enter_postproc()
    sch.parallel(i)
    again = Schedule(row_sum())
    sch.trace.apply_to_schedule(again, remove_postproc=True)
    assert again.position == 1


def test_same_seed_same_draws():
    draws = []
    for _ in range(2):
        sch = Schedule(matmul(8, 8, 8), seed=11)
        i, _j, _k = sch.get_loops("C")
        draws.append([int(sch.get(x)) for x in sch.sample_perfect_tile(i, n=3)])
    assert draws[0] == draws[1]
    sch = Schedule(matmul(), seed=5)
    assert sch.fork_seed() != sch.fork_seed()


def test_json_keeps_text_apart_from_names():
    sch = Schedule(elementwise())
    (i,) = sch.get_loops("B")
    sch.annotate(i, "l1", "l1")
    sch.annotate(i, "numbers", [1, 2.5, "a\nb"])
    data = sch.trace.as_json()
    assert data[0][2:] == [
        ["Annotate", ["l1", '"l1"'], ["l1"], []],
        ["Annotate", ["l1", [1, 2.5, '"a\\nb"']], ["numbers"], []],
    ]
    replays(sch)


def test_json_that_is_no_trace_is_refused():
    sch = Schedule(elementwise())
    for data, message in (
        ([], "the JSON is no trace"),
        ([[["Close", [], [], []]], []], "there is no instruction kind 'Close'"),
        ([[["__init__", [], [], []]], []], "there is no instruction kind '__init__'"),
        (
            [[["Parallel", ["l1"], [], []]], []],
            "the trace uses 'l1', which no earlier instruction gives",
        ),
        (
            [[["GetBlock", [], ["B", "main"], []]], []],
            "instruction 0, GetBlock, gives 1 results, the trace names 0",
        ),
        (
            [[["Parallel", [], [], []]], []],
            "instruction 0, parallel: missing a required argument: 'loop'",
        ),
        (
            [[["EnterPostproc", [], [1], []]], []],
            "EnterPostproc is told more than it takes: 1",
        ),
    ):
        with pytest.raises(ScheduleError) as caught:
            Trace.apply_json_to_schedule(data, sch)
        assert caught.value.message == message


def drawn_and_laid_out() -> list:
    """The trace of a schedule with decisions and a layout, as JSON."""
    sch = Schedule(matmul_relu(), seed=3)
    tiled(sch)
    sch.transform_layout("C_update", ("read", 1), lambda i, j: (j, i))
    sch.sample_compute_location("D")
    return json.loads(json.dumps(sch.trace.as_json()))


@settings(max_examples=100 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged(drawn_and_laid_out()))
def test_random_damage_is_refused_or_done(data):
    """What JSON says is done, or refused with a typed error, and the program stays what it was."""
    sch = Schedule(matmul_relu())
    try:
        Trace.apply_json_to_schedule(data, sch)
    except MLCError:
        pass
    assert tir.analysis.verify_well_formed(sch.mod["main"], assert_mode=False)


def test_what_is_drawn_is_told_in_whole_numbers():
    sch = Schedule(elementwise())
    (i,) = sch.get_loops("B")
    for step in (
        lambda: sch.sample_perfect_tile(i, 2, decision=["a", 2]),
        lambda: sch.sample_perfect_tile(i, 2, decision=[1.5, 2]),
        lambda: sch.sample_categorical([2, "a"], [0.5, 0.5]),
        lambda: sch.sample_categorical([2, 4], [0.5, 0.5], decision="x"),
    ):
        with pytest.raises(ScheduleError, match="is no whole number"):
            step()


def test_instructions_by_their_two_lists():
    block, loop = BlockRV(), LoopRV()
    found = [
        Instruction(InstructionKind.get("GetBlock"), [], ["B", "main"], [block]),
        Instruction(kind=InstructionKind.get("GetLoops"), inputs=[block], outputs=[loop]),
        Instruction(InstructionKind.get("Annotate"), [loop, '"'], ["key"], []),
        Instruction(InstructionKind.get("EnterPostproc")),
        Instruction("Split", [loop, None, tir.IntImm("int32", 4)], [True, False], [LoopRV()] * 2),
    ]
    trace = Trace(found, {})
    assert str(found[0]) == '_ = sch.get_block(name="B", func_name="main")'
    assert str(found[1]) == "_ = sch.get_loops(block=_)"
    assert found[1].kind.same_as(InstructionKind.get("GetLoops")) and found[1].kind.is_pure
    assert found[2].inputs == [loop, '"'] and found[2].attrs == ["key"]
    assert str(trace) == (
        "# from tvm import tir\n"
        "def apply_trace(sch: tir.Schedule) -> None:\n"
        '  b0 = sch.get_block(name="B", func_name="main")\n'
        "  l1, = sch.get_loops(block=b0)\n"
        '  sch.annotate(block_or_loop=l1, ann_key="key", ann_val="\\"")\n'
        "  sch.enter_postproc()\n"
        "  l2, l3 = sch.split(loop=l1, factors=[None, 4], preserve_unit_iters=True, "
        "disable_predication=False)"
    )
    assert trace.decisions == {} and trace.pop() is found[-1] and str(Trace()).endswith("  pass")
    sch = Schedule(elementwise())
    trace.apply_to_schedule(sch)
    assert sch.get(sch.get_loops("B")[0]).annotations == {"key": '"'}
    verify_trace_roundtrip(sch, elementwise())


def test_a_loop_or_block_at_its_place():
    sch = Schedule(elementwise())
    other = sch.copy()
    (i,) = sch.get_loops("B")
    at = sch.get_sref(i)
    assert at.stmt is sch.get(i) and at.parent.stmt.name_hint == "root" and at.parent.parent is None
    assert sch.state.get_sref(at.stmt).same_as(at) and not other.state.get_sref(at.stmt) == at
    for handle in (i, sch.split(i, [None, 4])[0]):
        with pytest.raises(IndexError):
            other.get(handle)


def test_several_functions_want_to_be_told_which():
    sch = Schedule(IRModule({"f": elementwise(), "g": elementwise()}))
    with pytest.raises(ValueError, match="does not know which function to be working on"):
        sch.get_block("B")


def test_the_function_of_a_schedule_is_main():
    func = elementwise().with_attr({"global_symbol": "scaled", "tir.noalias": True})
    sch = Schedule(func)
    assert [v.name_hint for v in sch.mod] == ["main"]
    assert sch.mod["main"].attrs == {"global_symbol": "scaled", "tir.noalias": True}
    assert_structural_equal_ignore_global_symbol(
        sch.mod["main"], elementwise().with_attr("tir.noalias", True)
    )


def test_steps_of_a_program_with_other_loops():
    """The error is typed: who tries the steps on another program can go on."""
    sch = Schedule(matmul())
    sch.get_loops(sch.get_block("C"))
    with pytest.raises(
        ScheduleError, match="instruction 1, GetLoops, gives 1 results, the trace names 3"
    ):
        sch.trace.apply_to_schedule(Schedule(elementwise()))
