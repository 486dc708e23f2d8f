"""Versions: sizes that are met often are compiled for themselves beside the general kernels."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import CancelledError, ExecutionError, RuntimeInputError
from mlcnb.runtime import versions
from mlcnb.script import parse

OPEN = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        with R.dataflow():
            z = R.multiply(R.add(x, y), R.const(2.0, "float32"))
            R.output(z)
        return z
"""


def drawn(n: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.random.default_rng(n).standard_normal((2, n, 4)).astype(np.float32)
    return x, y


def states(ex: mlc.Executable) -> list[tuple[int, str]]:
    return [(*v.sizes.values(), v.state) for v in ex.versions.table]


def called(ex: mlc.Executable, n: int, times: int) -> None:
    x, y = drawn(n)
    for _ in range(times):
        np.testing.assert_array_equal(ex(x, y), (x + y) * 2)


@pytest.fixture
def ex() -> mlc.Executable:
    return mlc.compile(parse(OPEN), specialize=2)


def test_there_are_none_unless_they_are_asked_for():
    assert mlc.compile(parse(OPEN)).versions is None


def test_the_third_call_asks_for_a_version(ex):
    called(ex, 3, 2)
    assert states(ex) == [(3, "general")]
    called(ex, 3, 1)
    assert ex.versions.wait(60)
    assert states(ex) == [(3, "ready")]
    called(ex, 3, 2)
    (version,) = ex.versions.table
    assert version.calls == 5 and version.seconds > 0
    assert repr(version) == "n=3: ready, 5 calls"
    (made,) = version.executable.kernels.values()
    assert [tuple(map(int, b.shape)) for b in made.func.buffers] == [(3, 4)] * 3


def test_the_profile_says_what_its_kernels_were_compiled_for(ex):
    x, y = drawn(5)
    assert mlc.profile(ex, x, y, repeat=2).sizes is None
    called(ex, 5, 3)
    assert ex.versions.wait(60)
    found = mlc.profile(ex, x, y=y, repeat=2)
    assert {var.name: n for var, n in found.sizes.items()} == {"n": 5}
    assert "compiled for n=5" in str(found)


def test_sizes_with_twice_as_many_calls_take_a_place(ex):
    for n in (1, 2, 3):
        called(ex, n, 3)
        assert ex.versions.wait(60)
    assert states(ex) == [(1, "ready"), (2, "ready"), (3, "general")]
    called(ex, 3, 3)
    assert ex.versions.wait(60)
    assert states(ex) == [(1, "general"), (2, "ready"), (3, "ready")]
    for n in (1, 2, 3):
        called(ex, n, 1)


def test_what_fails_is_told_and_not_raised(ex, monkeypatch):
    def fails(module, sizes):
        raise ValueError("no version today")

    monkeypatch.setattr(ex.versions, "make", fails)
    called(ex, 3, 4)
    assert ex.versions.wait(60)
    called(ex, 3, 1)
    assert repr(ex.versions.table[0]) == "n=3: failed, 5 calls: ValueError: no version today"


class Broken:
    """A version that raises at each call."""

    def __init__(self, error: Exception) -> None:
        self.error, self.calls = error, 0

    def __call__(self, *args: object, **named: object) -> None:
        self.calls += 1
        raise self.error


def with_broken(ex: mlc.Executable, error: Exception) -> Broken:
    """The executable with a version for three rows that does not work."""
    called(ex, 3, 3)
    assert ex.versions.wait(60)
    ex.versions.table[0].executable = broken = Broken(error)
    return broken


@pytest.mark.parametrize("profiled", [False, True])
def test_the_general_kernels_take_over_from_a_version_that_raises(ex, profiled):
    broken = with_broken(ex, ExecutionError("assertion failed: it does not fit"))
    told = "n=3: failed, .* calls: ExecutionError: assertion failed: it does not fit"
    with pytest.warns(RuntimeWarning, match=f"the general kernels take over: {told}"):
        if profiled:
            assert mlc.profile(ex, *drawn(3), repeat=1).sizes is None
        else:
            called(ex, 3, 1)
    called(ex, 3, 4)
    assert states(ex) == [(3, "failed")] and broken.calls == 1


def test_a_version_stays_where_the_general_kernels_raise_too(ex, monkeypatch):
    broken = with_broken(ex, ExecutionError("assertion failed: as always"))

    def raises(*args: object) -> None:
        raise ExecutionError("assertion failed: in general")

    monkeypatch.setattr(ex, "_native", raises)
    for _ in range(2):
        with pytest.raises(ExecutionError, match="in general"):
            ex(*drawn(3))
    assert states(ex) == [(3, "ready")] and broken.calls == 2


def test_a_call_that_was_cancelled_is_not_begun_again(ex):
    broken = with_broken(ex, CancelledError("cancelled at call 0 of 1"))
    with pytest.raises(CancelledError, match="cancelled at call 0 of 1"):
        ex(*drawn(3))
    assert states(ex) == [(3, "ready")] and broken.calls == 1


def test_wrong_arguments_are_the_call_s_to_refuse(ex):
    x, _ = drawn(3)
    for _ in range(4):
        with pytest.raises(RuntimeInputError):
            ex(x, x[:2])
    assert ex.versions.table == ()


def test_calls_do_not_wait_for_a_version(ex, monkeypatch):
    may_go_on, make = threading.Event(), ex.versions.make

    def slow(module, sizes):
        assert may_go_on.wait(60)
        return make(module, sizes)

    monkeypatch.setattr(ex.versions, "make", slow)
    called(ex, 3, 5)
    assert states(ex) == [(3, "compiling")]
    may_go_on.set()
    assert ex.versions.wait(60)
    assert states(ex) == [(3, "ready")]


def test_two_threads_call_at_once(ex):
    def work() -> None:
        for n in (1, 2, 3, 4) * 6:
            called(ex, n, 2)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work) for _ in range(2)]:
            done.result(60)
    assert ex.versions.wait(60)
    assert [s for _, s in states(ex)].count("ready") == 2


def test_counts_are_bounded(ex, monkeypatch):
    monkeypatch.setattr(versions, "COUNTED", 3)
    for n in range(1, 12):
        called(ex, n, 1)
    assert len(ex.versions.table) == 5
