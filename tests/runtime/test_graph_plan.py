"""The native form of a graph: memory that never overlaps while it is alive, the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.expr import Var, const, tensor_info
from mlcnb.relax.transform import LegalizeOps
from mlcnb.runtime.graph_call import BoundPlan
from mlcnb.runtime.graph_plan import Layout, Place
from mlcnb.runtime.vm import bind_arguments
from mlcnb.runtime.whole import is_straight
from mlcnb.testing import assert_same_results, evaluate
from tests.relax.graphs import graphs
from tests.relax.harness import inputs_of
from tests.runtime.programs import HEAD, compiled, module, random

SLOW = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def layout_of(ex: Any, *args: Any) -> Layout:
    """The plan for the sizes of these inputs."""
    _, dims = bind_arguments(ex.mod["main"], "main", args)
    return ex.plans().layout(dims)


def storages(layout: Layout) -> list[list[Any]]:
    """For each call, the pieces of memory that it uses."""
    return [[a.storage for a in c.args if isinstance(a, Place)] for c in layout.calls]


def lives(layout: Layout) -> dict[Any, tuple[int, int]]:
    """First and last call that uses each piece of the arena; results are used to the end."""
    found: dict[Any, tuple[int, int]] = {}
    for number, used in enumerate(storages(layout)):
        for storage in used:
            if storage.kind == "arena":
                first, _ = found.get(storage, (number, number))
                found[storage] = (first, number)
    for place in flat(layout.result):
        if isinstance(place, Place) and place.storage.kind == "arena":
            found[place.storage] = (found[place.storage][0], len(layout.calls))
    return found


def flat(form: Any) -> list[Any]:
    return [p for f in form for p in flat(f)] if isinstance(form, tuple) else [form]


def check_memory(layout: Layout) -> None:
    """No two pieces alive at once share bytes, but for one that ends where the other begins."""
    found = list(lives(layout).items())
    for i, (one, (first, last)) in enumerate(found):
        assert one.offset >= 0 and one.offset % 64 == 0
        assert one.offset + one.size <= layout.arena_bytes
        for other, (begin, end) in found[:i]:
            apart = one.offset + one.size <= other.offset or other.offset + other.size <= one.offset
            if apart or last < begin or end < first:
                continue
            takes_over = one.offset == other.offset and (last == begin or end == first)
            assert takes_over, (one, (first, last), other, (begin, end))


def check_workspaces(ex: Any, layout: Layout) -> int:
    """While a call runs, what it works in is nobody else's; the number of such calls."""
    found, count = lives(layout), 0
    for number, call in enumerate(layout.calls):
        size = ex.kernels[call.kernel].signature.workspace
        start, stop = call.workspace, call.workspace + size
        assert start % 64 == 0 and stop <= layout.arena_bytes
        for storage, (first, last) in found.items():
            if size and first <= number <= last:
                assert stop <= storage.offset or storage.offset + storage.size <= start
        count += size > 0
    return count


def test_kernels_work_in_the_free_part_of_the_arena():
    """Three convolutions by Winograd's algorithm, each with transformed inputs of its own."""
    rng = np.random.default_rng(0)
    bb = BlockBuilder()
    x = y = Var("x", tensor_info((1, 64, 30, 30), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            for channels in (256, 64, 64):
                inner = y.struct_info.shape.values[1].value
                w = const(rng.standard_normal((channels, inner, 3, 3)).astype("float32") / 50)
                y = bb.emit(op.nn.relu(op.nn.conv2d(y, w, padding=1)))
            gv = bb.emit_output(op.negative(y))
        bb.emit_func_output(gv)
    mod, given = bb.get(), rng.standard_normal((1, 64, 30, 30)).astype("float32")
    ex = mlc.compile(mod)
    layout = layout_of(ex, given)
    assert check_workspaces(ex, layout) >= 1
    check_memory(layout)
    np.testing.assert_allclose(ex(given), evaluate(mod, given), rtol=0, atol=1e-4)
    np.testing.assert_array_equal(ex(given), ex.vm["main"](given))


@SLOW
@given(mod=graphs())
def test_random_graphs(mod):
    """Memory is sound; the native run, the machine and the reference agree."""
    for pipeline in ("default", LegalizeOps()):
        ex = mlc.compile(mod, relax_pipeline=pipeline)
        args = inputs_of(mod["main"])
        for _ in range(2):
            result = ex(*args)
            assert_same_results(evaluate(mod, *args), result, 1e-4, 1e-5)
            assert_same_results(ex.vm["main"](*args), result, 0, 0)
        if ex.plans().straight:
            check_memory(layout_of(ex, *args))
            check_workspaces(ex, layout_of(ex, *args))


def test_random_graphs_are_mostly_straight():
    """Else the test above would say little."""
    kinds = [compiled(n).plans().straight for n in ("relu_add", "chain", "three_results")]
    assert kinds == [True, True, True]
    assert [compiled(n).plans().straight for n in ("branch", "match_cast", "packed")] == [False] * 3
    assert not compiled("chain", "interp").plans().straight
    assert is_straight(module("identity")["main"])


def steps_in_place(size: int, steps: int) -> mlc.IRModule:
    """A chain of elementwise calls that are kept apart, so that each may take over memory."""
    bb = BlockBuilder()
    x = Var("x", tensor_info((size,), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = x
            for i in range(steps):
                y = bb.emit((op.tanh, op.nn.relu, op.sigmoid, op.exp)[i % 4](y))
            gv = bb.emit_output(op.negative(y))
        bb.emit_func_output(gv)
    return bb.get()


@pytest.mark.parametrize("size", [1, 7, 16, 33, 100, 1001, 40_001])
def test_results_that_take_the_place_of_an_operand(size):
    """A kernel that reads where it writes: no vector tail may compute an element twice."""
    ex = mlc.compile(steps_in_place(size, 6), relax_pipeline=LegalizeOps())
    x = random(size)
    layout = layout_of(ex, x)
    assert len({s.offset for s in lives(layout)}) == 1
    for threads in (1, 2):
        mlc.set_num_threads(threads)
        np.testing.assert_array_equal(ex(x), ex.vm["main"](x))


@given(sizes=st.lists(st.integers(1, 40), min_size=2, max_size=4))
@settings(max_examples=10, deadline=None, derandomize=True)
def test_sizes_in_any_order(sizes):
    """Plans for several sizes live side by side and do not disturb each other."""
    ex = compiled("chain")
    expected = {n: ex.vm["main"](random(n, 64)) for n in sizes}
    for n in [*sizes, *reversed(sizes)]:
        np.testing.assert_array_equal(ex(random(n, 64)), expected[n])
        check_memory(layout_of(ex, random(n, 64)))


def test_constants_are_not_copied_where_they_are_aligned():
    big = random(64, 64)
    ex = mlc.compile(module("chain"))
    ex(big)
    bound = BoundPlan(layout_of(ex, big), ex.kernels)
    assert bound.arena.ctypes.data % 64 == 0
    assert len(bound.program) == len(layout_of(ex, big).calls)


def test_results_straight_from_the_arena():
    """A result that is a view of something inside is copied out."""
    text = """
    @R.function
    def main(x: R.Tensor((4, 6), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.reshape(a, R.shape([24]))
            c = R.sum(b, axis=[0])
            d = R.reshape(x, R.shape([6, 4]))
            gv = (b, c, d, a)
            R.output(gv)
        return gv
"""
    ex = mlc.compile(mlc.script.parse(HEAD + text))
    x = random(4, 6)
    b, c, d, a = ex(x)
    np.testing.assert_allclose(b, np.exp(x).reshape(24), rtol=1e-6)
    np.testing.assert_allclose(c, np.exp(x).sum(), rtol=1e-5)
    np.testing.assert_array_equal(d, x.reshape(6, 4))
    np.testing.assert_array_equal(a.reshape(24), b)
    arrays = [x, b, d, a]
    for i, one in enumerate(arrays):
        assert not any(np.shares_memory(one, other) for other in arrays[:i])
