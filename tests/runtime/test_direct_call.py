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
from mlcnb.script import from_source
from mlcnb.tir import stmt as s


def added(size: int = 8, dtype: str = "float32"):
    """c = a + b"""
    a, b = (te.placeholder((size,), dtype, n) for n in "ab")
    return mlc.compile(te.create_prim_func([a, b, te.compute((size,), lambda i: a[i] + b[i])]))


def arrays(size: int = 8) -> list[np.ndarray]:
    return [np.arange(size, dtype="f4"), np.ones(size, "f4"), np.zeros(size, "f4")]


def is_direct(ex, *args) -> bool:
    """Both short ways, which must agree."""
    direct = ex._direct.of(args)
    if direct is None:
        return False
    native = direct.entry(*args)
    assert native is None or native is NotImplemented
    assert direct.run(args) == (native is None)
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


def doubled(dtype: str = "float32"):
    """b[i, j] = 2 a[i, j] of n rows, c[i] = a[i, 0]"""
    n = mlc.tir.Var("n", "int32")
    a = te.placeholder((n, 4), dtype, "a")
    b = te.compute((n, 4), lambda i, j: a[i, j] * 2, name="b")
    c = te.compute((n,), lambda i: a[i, 0], name="c")
    return mlc.compile(te.create_prim_func([a, b, c]))


def rows(n: int) -> list[np.ndarray]:
    given = np.random.default_rng(n).random((n, 4), np.float32)
    return [given, np.zeros((n, 4), "f4"), np.zeros(n, "f4")]


def test_open_sizes_go_the_short_way_from_the_second_call_on():
    ex = doubled()
    for n in (3, 5, 3, 1, 5, 5, 700, 3):
        a, b, c = rows(n)
        ex(a, b, c)
        np.testing.assert_array_equal(b, 2 * a)
        np.testing.assert_array_equal(c, a[:, 0])
        b[:], c[:] = 0, 0
        assert ex._native(a, b, c) is None, "the next call with these sizes is native"
        np.testing.assert_array_equal(b, 2 * a)
        assert ex._native(*rows(n + 1)) is NotImplemented
    assert len(ex._direct._met) == 4


def test_open_sizes_that_do_not_fit_are_refused_by_name():
    ex = doubled()
    a, b, c = rows(3)
    ex(a, b, c)
    for bad in ([a, b, np.zeros(4, "f4")], [a.astype("f8"), b, c], [a, b[::2], c], [a, b]):
        with pytest.raises(RuntimeInputError):
            ex(*bad)
        assert not is_direct(ex, *bad)
    whole = np.zeros(64, "f4")
    with pytest.raises(RuntimeInputError, match="shares memory"):
        ex(whole[:16].reshape(4, 4), whole[12:28].reshape(4, 4), np.zeros(4, "f4"))
    ex(*rows(0))
    assert not is_direct(ex, *rows(0)), "there is no address of nothing"


def test_calls_of_few_sets_of_sizes_are_kept(monkeypatch):
    monkeypatch.setattr("mlcnb.runtime.direct_call.MOST", 3)
    ex = doubled()
    for n in range(1, 9):
        a, b, c = rows(n)
        ex(a, b, c)
        np.testing.assert_array_equal(b, 2 * a)
    assert len(ex._direct._met) <= 3


def short(ex):
    """The way in for any sizes."""
    return ex.direct("main")


def test_one_way_in_for_all_sizes():
    ex = doubled()
    for n in (3, 5, 0, 3, 1, 700):
        a, b, c = rows(n)
        assert short(ex).run((a, b, c))
        np.testing.assert_array_equal(b, 2 * a)
        np.testing.assert_array_equal(c, a[:, 0])
    a.flags.writeable = False
    assert short(ex).run((a, b, c)), "what is only read may be read-only"


def test_what_does_not_fit_any_sizes_goes_the_long_way():
    ex = doubled()
    a, b, c = rows(3)
    whole = np.zeros(64, "f4")
    fixed = np.zeros(3, "f4")
    fixed.flags.writeable = False
    for bad in (
        [a, b, np.zeros(4, "f4")], [a.astype("f8"), b, c], [a, np.zeros((6, 4), "f4")[::2], c],
        [a, b], [a.tolist(), b, c], [np.zeros((3, 5), "f4"), b, c], [a[None], b, c], [a, b, fixed],
        [whole[:12].reshape(3, 4), whole[8:20].reshape(3, 4), c], [a, b, a.reshape(-1)[:3]],
    ):  # fmt: skip
        assert not short(ex).run(bad)


def windows():
    """b[i] = a[i] + a[i + 2], of n + 2 and n: a length that is computed from another"""
    n = mlc.tir.Var("n", "int32")
    a = te.placeholder((n + 2,), "float32", "a")
    return mlc.compile(te.create_prim_func([a, te.compute((n,), lambda i: a[i] + a[i + 2])]))


def test_lengths_that_follow_from_others_are_checked():
    ex = windows()
    a, b = np.arange(6, dtype="f4"), np.zeros(4, "f4")
    assert short(ex).run((a, b))
    np.testing.assert_array_equal(b, a[:-2] + a[2:])
    for bad in (a[:5], np.zeros(7, "f4")):
        assert not short(ex).run((bad, b))
        with pytest.raises(RuntimeInputError, match="dimension 0"):
            ex.run_kernel("main", (bad, b))


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


SCALED = """
@T.prim_func
def main(a: T.Buffer((5,), "float32"), b: T.Buffer((5,), "float32"), k: T.float32):
    for i in range(5):
        with T.block("b"):
            v = T.axis.spatial(5, i)
            b[v] = a[v] * k
"""


def test_kernels_with_numbers_go_the_long_way():
    ex = mlc.compile(from_source(SCALED))
    x, y = np.ones(5, "f4"), np.zeros(5, "f4")
    assert ex._direct.of((x, y, 2.0)) is None
    for k in (2.0, 3.0):
        ex(x, y, k)
        np.testing.assert_array_equal(y, k * x)
