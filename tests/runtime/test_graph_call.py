"""Calling a graph: what is checked once and what each time, memory between calls, its cost."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import RuntimeInputError
from mlcnb.ir.expr import SizeVar
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.runtime.graph_call import KEPT
from tests.runtime.programs import module, random


@pytest.fixture
def relu_add() -> mlc.runtime.Executable:
    """relu(x + y) of x (2, 3) and y (3), called once."""
    ex = mlc.compile(module("relu_add"))
    ex(random(2, 3), random(3))
    return ex


def functions_called(action: Callable[[], object]) -> int:
    """How many Python functions and built-in ones an action calls."""
    count = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


def test_a_call_costs_little_in_python(relu_add):
    """A call of a function costs about 0.1 microseconds: counted, since time depends on the day."""
    x, y = random(2, 3), random(3)
    relu_add(x, y)
    assert functions_called(lambda: relu_add(x, y)) < 5


def test_a_call_allocates_its_result_and_nothing_else(relu_add):
    x, y = random(2, 3), random(3)
    (plan,) = relu_add.plans()._plans.values()
    assert len(plan.free) == 1
    for _ in range(3):
        relu_add(x, y)
        assert plan.free == [], "its memory is that of the native way in"


def test_results_of_calls_are_apart(relu_add):
    x, y = random(2, 3), random(3)
    one, two = relu_add(x, y), relu_add(x, y)
    assert not np.shares_memory(one, two)
    assert one.flags.writeable and one.flags.c_contiguous
    one[:] = 7
    np.testing.assert_array_equal(relu_add(x, y), two)


def test_arrays_of_another_kind_are_checked_again(relu_add):
    x, y = random(2, 3), random(3)
    expected = np.maximum(x + y, 0)
    doubled = np.repeat(x, 2, axis=1)[:, ::2]
    for given in (x.tolist(), doubled, np.asfortranarray(x), x.astype(">f4"), mlc.nd.array(x)):
        np.testing.assert_allclose(relu_add(given, y), expected, rtol=1e-6)
    frozen = x.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(relu_add(frozen, y), relu_add(x, y))
    np.testing.assert_array_equal(relu_add(y=y, x=x), relu_add(x, y))
    for wrong in ((random(3, 2), y), (x.astype(np.float64), y), (x,), (x, y, y), (x, None)):
        with pytest.raises(RuntimeInputError):
            relu_add(*wrong)
    np.testing.assert_allclose(relu_add(x, y), expected, rtol=1e-6)


def test_the_memory_of_sizes_that_are_not_used_any_more_goes():
    ex = mlc.compile(module("softmax_any"))
    for n in range(1, 3 * KEPT):
        x, y = random(n, 5), random(5)
        for _ in range(2):
            np.testing.assert_allclose(ex(x, y).sum(), n, rtol=1e-5)
    assert len(ex.plans()._plans) == len(ex.plans()._known) == KEPT
    assert ex(random(1, 5), random(5)).shape == (1, 5)


def test_threads_that_call_at_once_get_what_they_asked_for():
    ex = mlc.compile(module("softmax_any"))
    wrong: list[int] = []

    def work(seed: int) -> None:
        for n in (1, 3, 1, 7, 3) * 60:
            x, y = random(n, 40, seed=seed), random(40, seed=seed + n)
            e = np.exp((x + y) - (x + y).max(axis=1, keepdims=True))
            if not np.allclose(ex(x, y), e / e.sum(axis=1, keepdims=True), rtol=1e-4):
                wrong.append(seed)

    callers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []
    assert all(len(p.free) <= 4 for p in ex.plans()._plans.values())


def test_sizes_of_one_name_are_two_sizes():
    """Plans are kept by symbol: (2, 3) and (3, 2) are not the same sizes."""
    bb = BlockBuilder()
    x, y = (Var(name, tensor_info((SizeVar("n", "int64"),), "float32")) for name in "xy")
    with bb.function("main", [x, y]):
        with bb.dataflow():
            column = bb.emit(op.expand_dims(x, axis=1))
            gv = bb.emit_output(op.multiply(column, op.exp(y)))
        bb.emit_func_output(gv)
    ex = mlc.compile(bb.get())
    for rows, columns in ((2, 3), (3, 2), (2, 3)):
        a, b = random(rows), random(columns)
        np.testing.assert_allclose(ex(a, b), a[:, None] * np.exp(b), rtol=1e-5)


def test_results_that_no_kernel_makes():
    """An input, a constant and what a kernel makes: natively too, each in memory of its own."""
    builder = BlockBuilder()
    x, y = (Var(n, tensor_info((2, 3), "float32")) for n in "xy")
    with builder.function("main", [x, y]):
        made = builder.emit(op.add(x, y))
        seen = builder.emit(op.reshape(y, (3, 2)))
        kept = mlc.relax.const(np.arange(4, dtype="float32"))
        builder.emit_func_output(mlc.relax.Tuple([kept, made, seen, x, kept]))
    ex = mlc.compile(builder.get())
    for turn in range(4):
        a, b = random(2, 3), random(2, 3) + turn
        found = ex(a, b)
        expected = [np.arange(4), a + b, b.reshape(3, 2), a, np.arange(4)]
        for one, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, np.float32(wanted))
            one[:] = -1  # nobody else's
        assert found[0].ctypes.data != found[4].ctypes.data and not (a == -1).any()
    assert functions_called(lambda: ex(a, b)) < 60
    with pytest.raises(RuntimeInputError):
        ex(a, b[:1])


def test_only_a_constant():
    builder = BlockBuilder()
    x = Var("x", tensor_info((2, 3), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(mlc.relax.const(np.arange(4)))
    ex = mlc.compile(builder.get())
    for _ in range(3):
        found = ex(random(2, 3))
        np.testing.assert_array_equal(found, np.arange(4))
        found[:] = 7
    assert ex.plans().native is not None
