"""Straight stretches of functions that are not straight, and calls that end a function."""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError
from mlcnb.relax.transform import LegalizeOps
from mlcnb.runtime import frame
from mlcnb.runtime.graph_call import KEPT, BoundPlan
from mlcnb.runtime.stretches import Stretch
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
    first = ex(x)
    assert kernels_called == [b for b in ex.kernels if b in kernels_called]  # new sizes: by step
    kernels_called.clear()
    again = ex(x)
    assert kernels_called == []
    assert cut(ex) == [2, 1, 3]
    total = np.exp(x).sum(1) * 1.5
    for found in (first, again):
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


def test_sizes_that_change_each_turn_are_not_planned(monkeypatch):
    ex = built(GROWING)
    planned = []
    monkeypatch.setattr(BoundPlan, "run", lambda *a, **k: planned.append(a))
    x, limit = np.ones(1, np.float32), np.array(2e9, np.float32)
    wanted = x
    while wanted.sum() < limit:
        wanted = np.concatenate((wanted, wanted * 2)) + 1
    found = ex(x, limit)
    assert planned == []
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert wanted.size > 2**KEPT / 16


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
