"""The short way to call a kernel: taken where the arrays fit, and only there."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import te
from mlcnb.core.errors import RuntimeInputError
from mlcnb.ir import prim_ops as p
from mlcnb.runtime.direct_call import SHORT, DirectCall, iterations
from mlcnb.tir import stmt as s


def added(size: int = 8, dtype: str = "float32"):
    """c = a + b"""
    a, b = (te.placeholder((size,), dtype, n) for n in "ab")
    return mlc.compile(te.create_prim_func([a, b, te.compute((size,), lambda i: a[i] + b[i])]))


def arrays(size: int = 8) -> list[np.ndarray]:
    return [np.arange(size, dtype="f4"), np.ones(size, "f4"), np.zeros(size, "f4")]


def is_direct(ex, *args) -> bool:
    """Both short ways, which must agree."""
    native = ex._direct.entry(*args)
    assert native is None or native is NotImplemented
    assert ex._direct.run(args) == (native is None)
    return native is None


def test_arrays_that_fit_go_the_short_way():
    ex, (a, b, c) = added(), arrays()
    ex(a, b, c)  # the first call of a process starts its threads
    assert is_direct(ex, a, b, c)
    np.testing.assert_array_equal(c, a + b)
    a.flags.writeable = False
    assert is_direct(ex, a, b, c), "what is only read may be read-only"


@pytest.mark.parametrize("place", [0, 2])
def test_what_does_not_fit_is_refused_by_name(place):
    ex, good = added(), arrays()
    for bad in (good[0].astype("f8"), np.zeros(9, "f4"), np.zeros(16, "f4")[::2], [1.0] * 8):
        args = list(good)
        args[place] = bad
        assert not is_direct(ex, *args)
        with pytest.raises(RuntimeInputError, match=good_name(ex, place)):
            ex(*args)
    with pytest.raises(RuntimeInputError, match="takes 3 arguments"):
        ex(*good[:2])


def good_name(ex, place: int) -> str:
    return ex.kernels[0].signature.params[place].name


def test_a_result_that_is_read_only_or_overlaps_an_input_is_refused():
    ex, (a, b, c) = added(), arrays()
    with pytest.raises(RuntimeInputError, match="shares memory"):
        ex(a, b, b)
    whole = np.zeros(12, "f4")
    with pytest.raises(RuntimeInputError, match="shares memory"):
        ex(whole[:8], b, whole[4:])
    ex(a, a, c)
    ex(whole[:4].repeat(2), b, c)
    c.flags.writeable = False
    with pytest.raises(RuntimeInputError, match="read-only"):
        ex(a, b, c)


def nest(extent: int) -> s.Stmt:
    """A copy of that many rows of 1024."""
    x = te.placeholder((extent, 1024), name="x")
    return te.create_prim_func([x, te.compute(x.shape, lambda i, j: x[i, j])]).body


def test_only_what_is_over_at_once_runs_without_a_handler_for_ctrl_c():
    assert iterations(nest(4096)) == SHORT
    assert DirectCall.of(added(8).kernels["main"], added(8).mod["main"])._is_short
    endless = s.While(p.const(1, "bool"), nest(1))
    unknown = s.Evaluate(p.const(0, "int32"))
    assert iterations(endless) == iterations(s.SeqStmt((nest(1), unknown))) == float("inf")


def test_several_threads_call_one_kernel():
    ex = added(4096)
    wrong = []

    def work(number: int) -> None:
        a, b, c = np.full(4096, number, "f4"), np.ones(4096, "f4"), np.zeros(4096, "f4")
        for _ in range(200):
            ex(a, b, c)
            if not (c == number + 1).all():
                wrong.append(number)
            c[:] = 0

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_kernels_with_sizes_or_numbers_go_the_long_way():
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    ex = mlc.compile(te.create_prim_func([a, te.compute((n,), lambda i: a[i] * 2.0)]))
    assert ex._direct is None
    x, y = np.ones(5, "f4"), np.zeros(5, "f4")
    ex(x, y)
    np.testing.assert_array_equal(y, 2 * x)
