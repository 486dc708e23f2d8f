"""Straight stretches of functions that are not straight, and calls that end a function."""

from __future__ import annotations

import sys
import threading
import tracemalloc

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError
from mlcnb.relax.transform import LegalizeOps
from mlcnb.runtime import frame, graph_call, threads
from mlcnb.runtime.graph_call import BoundPlan
from mlcnb.runtime.stretches import MOST_NEW, Stretch
from mlcnb.runtime.vm_calls import OPS
from mlcnb.script import parse
from tests.runtime.programs import HEAD, random

PACKED = """
    @R.function(pure=False)
    def main(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        a = R.exp(x)
        b = R.sum(a, axis=[1])
        c = R.call_packed("tests.halve", b, sinfo_args=R.Tensor((n,), "float32"))
        d = R.add(c, b)
        e = R.reshape(d, (n, 1))
        f = R.multiply(a, e)
        return (f, e)
"""
BRANCH = """
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3, 4), "float32")):
        y = R.sum(x, axis=[1])
        z = R.exp(y)
        if c:
            a = R.sum(z, axis=[0], keepdims=True)
            r = R.add(a, z)
        else:
            b = R.reshape(R.const([1, 2, 3], "float32"), (3,))
            r = b
        s = R.negative(r)
        return (r, s)
"""
LOOP = """
    @R.function
    def main(x: R.Tensor((4,), "float32"), n: R.Tensor((), "int64")):
        @R.function
        def loop(
            t: R.Tensor((), "int64"), more: R.Tensor((), "bool"), c: R.Tensor((4,), "float32")
        ) -> R.Tensor((4,), "float32"):
            if more:
                a = R.add(c, x)
                b = R.multiply(a, R.const(0.5))
                t1 = R.add(t, R.const(1, "int64"))
                again = R.less(t1, n)
                r = loop(t1, again, b)
            else:
                r = c
            return r
        first = R.less(R.const(0, "int64"), n)
        y = loop(R.const(0, "int64"), first, x)
        return y
"""
GLOBAL = """
    @R.function
    def even(n: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
        cls = Module
        z = R.equal(n, R.const(0, "int64"))
        if z:
            r = R.const(True)
        else:
            m = R.subtract(n, R.const(1, "int64"))
            r = cls.odd(m)
        return r

    @R.function
    def odd(n: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
        cls = Module
        z = R.equal(n, R.const(0, "int64"))
        if z:
            r = R.const(False)
        else:
            m = R.subtract(n, R.const(1, "int64"))
            r = cls.even(m)
        return r

    @R.function
    def main(n: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
        cls = Module
        r = cls.even(n)
        return r
"""
GROWING = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), limit: R.Tensor((), "float32")):
        n = T.int64()
        @R.function
        def grow(c: R.Tensor(("m",), "float32")) -> R.Tensor("float32", ndim=1):
            m = T.int64()
            s = R.sum(c)
            more = R.less(s, limit)
            if more:
                d = R.multiply(c, R.const(2.0))
                e = R.concat((c, d), axis=0)
                f = R.add(e, R.const(1.0))
                r = grow(f)
            else:
                r = c
            return r
        y = grow(x)
        return y
"""
GROWING_BY_BRANCHES = GROWING.replace(
    """
                f = R.add(e, R.const(1.0))
""",
    """
                is_some = R.greater(s, R.const(0.0))
                if is_some:
                    f = R.add(e, R.const(1.0))
                else:
                    f = R.subtract(e, R.const(1.0))
""",
)
SWAPPED = """
    @R.function
    def main(
        x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32"), turns: R.Tensor((), "int64")
    ):
        n = T.int64()
        seen = R.exp(x)
        @R.function
        def loop(
            t: R.Tensor((), "int64"), a: R.Tensor(("n",), "float32"),
            b: R.Tensor(("n",), "float32"), c: R.Tensor(("n",), "float32"),
        ) -> R.Tuple(
            R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32")
        ):
            more = R.less(t, turns)
            if more:
                d = R.multiply(R.add(a, seen), R.const(0.5))
                t1 = R.add(t, R.const(1, "int64"))
                r = loop(t1, b, d, a)
            else:
                r = (a, b, c)
            return r
        other = R.sin(y)
        found = loop(R.const(0, "int64"), x, y, other)
        return (found, R.add(other, found[2]))
"""
NESTED = """
    @R.function
    def main(x: R.Tensor((3,), "float32"), turns: R.Tensor((), "int64")):
        @R.function
        def outer(
            i: R.Tensor((), "int64"), a: R.Tensor((3,), "float32")
        ) -> R.Tensor((3,), "float32"):
            @R.function
            def inner(
                j: R.Tensor((), "int64"), b: R.Tensor((3,), "float32")
            ) -> R.Tensor((3,), "float32"):
                on = R.less(j, i)
                if on:
                    small = R.less(R.sum(b), R.const(4.0))
                    if small:
                        c = R.add(b, a)
                    else:
                        c = R.multiply(b, R.const(0.25))
                    s = inner(R.add(j, R.const(1, "int64")), c)
                else:
                    s = b
                return s
            more = R.less(i, turns)
            if more:
                d = inner(R.const(0, "int64"), a)
                r = outer(R.add(i, R.const(1, "int64")), R.add(d, x))
            else:
                r = a
            return r
        y = outer(R.const(0, "int64"), x)
        return y
"""
CHOSEN = """
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        a = R.exp(x)
        if c:
            r = (a, a, y, R.const([1, 2, 3], "float32"))
        else:
            b = R.negative(y)
            e = R.add(a, b)
            r = (x, b, e, b)
        if c:
            s = R.add(r[0], r[2])
        else:
            s = r[1]
        return (r, s, a)
"""


def built(text, target="llvm", pipeline="default"):
    return mlc.compile(parse(HEAD + text), target=target, relax_pipeline=pipeline)


@pytest.fixture
def halve():
    mlc.register_func("tests.halve", lambda a: a / 2, override=True)


@pytest.fixture
def kernels_called(monkeypatch):
    """The kernels that the virtual machine called one by one."""
    found = []
    rule = OPS["relax.call_tir"]

    def noted(caller, x):
        found.append(x.args[0].name_hint)
        return rule(caller, x)

    monkeypatch.setitem(frame._OPS, "relax.call_tir", noted)
    return found


def cut(ex):
    """The pieces of main: how many bindings each stretch has, 1 for a single step."""
    pieces = ex._machine._pieces[ex.mod["main"].body]
    return [len(p.bindings) if isinstance(p, Stretch) else 1 for p in pieces]


def test_what_lies_between_packed_calls_is_native(halve, kernels_called):
    ex = built(PACKED, pipeline=LegalizeOps())
    x = random(3, 4)
    first, again = ex(x), ex(x)
    assert kernels_called == []
    assert cut(ex) == [2, 1, 3]
    total = np.exp(x).sum(1) * 1.5
    for found in (first, again, ex(x)):
        np.testing.assert_allclose(found[0], np.exp(x) * total[:, None], rtol=1e-5)
        np.testing.assert_allclose(found[1], total[:, None], rtol=1e-5)
    np.testing.assert_array_equal(again[0], ex.vm["main"](x)[0])


@pytest.mark.parametrize("condition", [True, False])
def test_branches_are_native(condition, kernels_called):
    ex = built(BRANCH)
    x, c = random(3, 4), np.array(condition)
    z = np.exp(x.sum(1))
    wanted = z.sum() + z if condition else np.array([1, 2, 3], np.float32)
    for _ in range(2):
        r, s = ex(c, x)
        np.testing.assert_allclose(r, wanted, rtol=1e-5)
        np.testing.assert_allclose(s, -wanted, rtol=1e-5)
        r += 1  # a result is the caller's own, even where it was a constant
    assert kernels_called == []
    interpreted = built(BRANCH, "interp")(c, x)
    np.testing.assert_allclose(interpreted[0], wanted, rtol=1e-5)


def halved(x, turns):
    """What LOOP means."""
    found = x
    for _ in range(turns):
        found = (found + x) * np.float32(0.5)
    return found


@pytest.mark.parametrize("turns", [0, 1, 7, 10_000])
def test_a_last_call_is_a_loop(turns, kernels_called):
    """However often it turns: no recursion in Python, no kernel called by itself."""
    ex = built(LOOP)
    x = random(4)
    depth = sys.getrecursionlimit()
    np.testing.assert_allclose(ex(x, np.array(turns)), halved(x, turns), rtol=1e-6)
    assert (kernels_called, sys.getrecursionlimit()) == ([], depth)
    if turns < 10:
        np.testing.assert_allclose(ex.vm["main"](x, np.array(turns)), halved(x, turns), rtol=1e-6)
        interpreted = built(LOOP, "interp")(x, np.array(turns))
        np.testing.assert_allclose(interpreted, halved(x, turns), rtol=1e-6)


def test_a_loop_keeps_nothing_of_its_turns():
    """The most memory that Python has at a time does not grow with the number of turns."""
    ex = built(LOOP)

    def peak(turns):
        tracemalloc.start()
        ex(random(4), np.array(turns))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(30)
    assert peak(2_000) < peak(30) + 8_000


@pytest.mark.parametrize("n", [0, 1, 2, 5_001])
def test_functions_that_call_each_other_last(n):
    assert bool(built(GLOBAL)(np.array(n))) == (n % 2 == 0)


@pytest.mark.parametrize(
    ("program", "times"),
    [(GROWING, 0), (GROWING_BY_BRANCHES, MOST_NEW)],
    ids=["straight: never", "with branches: a few times"],
)
def test_sizes_that_change_each_turn_are_planned_for_where_that_may_help(
    program, times, monkeypatch
):
    ex = built(program)
    planned = []
    run = BoundPlan.run

    def noted(*args, **options):
        planned.append(args)
        return run(*args, **options)

    monkeypatch.setattr(BoundPlan, "run", noted)
    x, limit = np.ones(1, np.float32), np.array(2e9, np.float32)
    wanted = x
    while wanted.sum() < limit:
        wanted = np.concatenate((wanted, wanted * 2)) + 1
    np.testing.assert_allclose(ex(x, limit), wanted, rtol=1e-6)
    assert len(planned) == times  # the turn; what asks for one is straight
    assert wanted.size > 2 ** (MOST_NEW + 2)


FROM_DATA = """
    @R.function
    def main(x: R.Tensor((9,), "float32")):
        a = R.nonzero(x)
        b = R.astype(a, "float32")
        c = R.nn.softmax(R.multiply(b, b), axis=-1)
        return R.cumsum(c, axis=1)
"""


def test_sizes_that_data_tell_are_native_when_they_are_met(kernels_called):
    ex = built(FROM_DATA)
    for count in (3, 9, 0, 1, 3, 3, 9):
        x = np.zeros(9, np.float32)
        x[:count] = 1
        places = np.arange(count, dtype=np.float32) ** 2
        share = np.exp(places - places.max(initial=0))
        wanted = np.cumsum(share / share.sum(), dtype=np.float64)[None]
        np.testing.assert_allclose(ex(x), wanted, rtol=1e-5)
    assert set(kernels_called) <= {name for name in ex.kernels if "shape_func" in name}
    np.testing.assert_allclose(ex.vm["main"](x), wanted, rtol=1e-5)


FROM_DATA_BY_BRANCHES = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        a = R.nonzero(x)
        s = R.sum(x)
        is_some = R.greater(s, R.const(0.0))
        if is_some:
            c = R.exp(x)
        else:
            c = R.negative(x)
        return (a, R.cumsum(c, axis=0))
"""


@pytest.mark.parametrize("held", [0, graph_call.HELD])
def test_large_memory_is_held_for_sizes_that_are_met_again(held, monkeypatch):
    monkeypatch.setattr(graph_call, "HELD", held)
    ex = built(FROM_DATA_BY_BRANCHES)
    x = np.ones(9, np.float32)
    first = ex(x)
    stretch = next(p for p in ex._machine._pieces[ex.mod["main"].body][::-1] if is_open(p))
    (plan,) = stretch.plans._plans.values()
    assert len(plan.free) == (held > 0)
    for found in (first, ex(x)):
        np.testing.assert_array_equal(found[0], np.arange(9)[None])
        np.testing.assert_allclose(found[1], np.exp(x).cumsum(), rtol=1e-5)
    assert plan.native is not None


def test_a_straight_stretch_is_planned_for_sizes_that_are_met_again():
    ex = built(FROM_DATA)
    x = np.ones(9, np.float32)
    first = ex(x)
    stretch = next(p for p in ex._machine._pieces[ex.mod["main"].body][::-1] if is_open(p))
    assert not stretch.plans._plans
    np.testing.assert_allclose(ex(x), first, rtol=1e-6)
    (plan,) = stretch.plans._plans.values()
    assert plan.native is not None


def is_open(piece):
    """A stretch of open sizes."""
    return isinstance(piece, Stretch) and bool(piece.sizes)


def test_an_error_in_a_stretch_names_its_binding():
    ex = built("""
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32"), i: R.Tensor((2,), "int64")):
        if c:
            a = R.take(x, i, axis=0)
            r = R.exp(a)
        else:
            r = R.zeros((2,), "float32")
        return r
""")
    x = random(3)
    good = np.exp(x[[2, 0]])
    np.testing.assert_allclose(ex(np.array(True), x, np.array([2, 0])), good, rtol=1e-6)
    with pytest.raises(ExecutionError, match=r"at a: take: .*indices\[0\] is 7"):
        ex(np.array(True), x, np.array([7, 0]))
    np.testing.assert_allclose(ex(np.array(True), x, np.array([2, 0])), good, rtol=1e-6)


@pytest.fixture
def no_frames(monkeypatch):
    """The virtual machine runs nothing."""

    def ended(self, seq):
        raise AssertionError("a step of the virtual machine")

    monkeypatch.setattr(frame.Frame, "ended", ended)


def swapped(x, y, turns):
    """What SWAPPED means."""
    a, b, c = x, y, np.sin(y)
    for _ in range(turns):
        a, b, c = b, (a + np.exp(x)) * np.float32(0.5), a
    return a, b, c, np.sin(y) + c


@pytest.mark.parametrize("turns", [0, 1, 2, 9])
def test_values_that_change_places_in_a_loop(turns, no_frames):
    """All new values are there before one is written; what a loop reads of outside stays."""
    ex = built(SWAPPED)
    for n in (5, 64):
        x, y = random(n), random(n, seed=1)
        for _ in range(2):
            (a, b, c), last = ex(x, y, np.array(turns))
            for found, wanted in zip((a, b, c, last), swapped(x, y, turns), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-5)


def nested(x, turns):
    """What NESTED means."""
    a = x
    for i in range(turns):
        b = a
        for _ in range(i):
            b = b + a if b.sum() < 4 else b * np.float32(0.25)
        a = b + x
    return a


@pytest.mark.parametrize("turns", [0, 1, 6, 40])
def test_a_loop_in_a_loop_with_branches(turns, no_frames):
    x = np.abs(random(3))
    np.testing.assert_allclose(built(NESTED)(x, np.array(turns)), nested(x, turns), rtol=1e-5)


@pytest.mark.parametrize("condition", [True, False])
def test_branches_that_choose_tensors(condition, no_frames):
    """Results that are a parameter, a constant, one tensor twice: each is the caller's own."""
    ex, x, y = built(CHOSEN), random(3), random(3, seed=1)
    a, one = np.exp(x), np.array([1, 2, 3], np.float32)
    r = (a, a, y, one) if condition else (x, -y, a - y, -y)
    wanted = (*r, r[0] + r[2] if condition else r[1], a)
    for _ in range(2):
        found, s, a_again = ex(np.array(condition), x, y)
        got = (*found, s, a_again)
        for one_found, one_wanted in zip(got, wanted, strict=True):
            np.testing.assert_allclose(one_found, one_wanted, rtol=1e-5)
        for i, one_found in enumerate(got):
            assert not any(np.shares_memory(one_found, other) for other in (*got[:i], x, y))
            one_found += 1


def test_a_branch_between_packed_calls_is_part_of_a_stretch(halve, kernels_called):
    ex = built(
        """
    @R.function(pure=False)
    def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
        a = R.call_packed("tests.halve", x, sinfo_args=R.Tensor((4,), "float32"))
        if c:
            b = R.exp(a)
        else:
            b = a
        d = R.add(b, x)
        e = R.call_packed("tests.halve", d, sinfo_args=R.Tensor((4,), "float32"))
        return e
"""
    )
    x = random(4)
    for condition in (True, False, True):
        wanted = ((np.exp(x / 2) if condition else x / 2) + x) / 2
        np.testing.assert_allclose(ex(np.array(condition), x), wanted, rtol=1e-5)
    assert (kernels_called, cut(ex)) == ([], [1, 2, 1])


def test_a_branch_whose_sizes_cannot_be_is_left_to_the_virtual_machine():
    ex = built(
        """
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")):
        n = T.int64()
        if c:
            a = R.sum(R.zeros((n - 4,), "float32"))
            b = R.add(x, a)
        else:
            b = R.negative(x)
        return b
"""
    )
    for n in (6, 3):
        np.testing.assert_array_equal(ex(np.array(False), random(n)), -random(n))
    np.testing.assert_array_equal(ex(np.array(True), random(6)), random(6))
    with pytest.raises(ExecutionError, match=r"shape \(-1,\)|would be -1|-1"):
        ex(np.array(True), random(3))


def test_a_native_loop_stops_when_it_is_told_to():
    ex = built(LOOP)
    ex(random(4), np.array(1))
    timer = threading.Timer(0.5, threads.cancel)
    timer.start()
    with pytest.raises(ExecutionError, match="cancelled at call"):
        ex(random(4), np.array(2**60))
    timer.join()
    np.testing.assert_allclose(ex(random(4), np.array(3)), halved(random(4), 3), rtol=1e-6)
