"""Programs as functions of Python's own: what they take, what they refuse, what they leave."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mlcnb as mlc
from mlcnb import te
from mlcnb.codegen.llvm.engine import compile_ir
from mlcnb.codegen.llvm.library import link
from mlcnb.core.errors import ExecutionError, RuntimeInputError
from mlcnb.runtime import entry_call, threads
from mlcnb.runtime.entry_call import Given, Made, entry
from mlcnb.runtime.native import entry as ir
from mlcnb.runtime.native_graph import NativeProgram
from tests.runtime.programs import module, random
from tests.runtime.test_native_graph import Interrupt, needs_signals

F4 = np.dtype("f4")
KERNELS = """
@mlcnb_cancel = external global i32
; argv: one float in, one out: out = in + 1
define i32 @next(ptr %argv) {
  %from = load ptr, ptr %argv
  %to.at = getelementptr ptr, ptr %argv, i64 1
  %to = load ptr, ptr %to.at
  %x = load float, ptr %from
  %y = fadd float %x, 1.0
  store float %y, ptr %to
  ret i32 0
}
; argv: unused; the status is 9
define i32 @fail(ptr %argv) {
  ret i32 9
}
; turns until it is told to stop
define i32 @forever(ptr %argv) {
entry:
  br label %loop
loop:
  %cancel = load atomic i32, ptr @mlcnb_cancel monotonic, align 4
  %go = icmp eq i32 %cancel, 0
  br i1 %go, label %loop, label %end
end:
  ret i32 1
}
"""


@cache
def kernels() -> Any:
    return link([compile_ir(KERNELS)], threads.symbols())


def made_of(*names: str, **options: Any) -> Any:
    """A function of one float array that gives as many new ones as there are kernels."""
    program = NativeProgram([kernels()[n] for n in names], [[0, 0] for _ in names], [kernels()])
    reads = Given(F4, (1,), tuple(program.slot(i, 0) for i in range(len(names))))
    makes = [Made(F4, (1,), (program.slot(i, 1),)) for i in range(len(names))]
    threads.start()

    def fail(status: int) -> None:
        if status == 1:
            program.cancelled()
        raise ExecutionError(f"status {status}")

    return entry(program, [reads], makes, fail, **options)


def x(value: float = 1.0) -> np.ndarray:
    return np.full(1, value, "f4")


def test_this_python_and_this_numpy_have_native_entries():
    assert entry_call._library() is not None


def test_results_are_new_arrays_aligned_and_owned():
    one, both = made_of("next", form=ir.ONE), made_of("next", "next", form=ir.TUPLE)
    first, second = one(x(2)), one(x(3))
    assert (first, second) == (3, 4)
    assert type(first) is np.ndarray and first.dtype is F4 and first.flags.writeable
    assert first.ctypes.data % 64 == 0 and not np.shares_memory(first, second)
    assert [float(r[0]) for r in both(x(5))] == [6, 6]
    assert type(both(x())) is tuple


def test_nothing_is_leaked_and_nothing_is_let_go_twice():
    calls = [made_of("next", form=ir.ONE), made_of("next", "next", form=ir.TUPLE)]
    given = x()
    for call in calls:
        held = [given, F4, np.dtype("u1"), np.ndarray, call]
        before = [sys.getrefcount(each) for each in held]
        for _ in range(100):
            call(given)
            call(None)
            call()
        after = [sys.getrefcount(each) for each in held]
        assert after == before
    kept = weakref.ref(calls[0](given).base)
    gc.collect()
    assert kept() is None


def test_a_status_is_an_error_and_the_function_serves_again():
    call = made_of("next", "fail", form=ir.TUPLE)
    for _ in range(3):
        with pytest.raises(ExecutionError, match="status 9"):
            call(x())
    assert call(x().astype("f8")) is NotImplemented


def test_a_program_within_itself_is_refused():
    """Whoever comes while it runs, even from its own error, goes another way."""
    inside: list[Any] = []
    program = NativeProgram([kernels()["fail"]], [[0]], [kernels()])
    call: Any = entry(program, [Given(F4, (1,), (0,))], [], lambda status: inside.append(call(x())))
    threads.start()
    assert call(x()) is None and inside == [NotImplemented]


@needs_signals
def test_ctrl_c_stops_a_call():
    call = made_of("forever", form=ir.ONE)
    for _ in range(2):
        with Interrupt(), pytest.raises(KeyboardInterrupt):
            call(x())
    assert made_of("next", form=ir.ONE)(x()) == 2


def test_other_threads_run_meanwhile():
    call, done = made_of("forever", form=ir.ONE, is_short=True), []

    def work() -> None:
        with pytest.raises(ExecutionError, match="cancelled"):
            call(x())
        done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    while not done:
        threads.cancel()
    thread.join()


def test_dtypes_that_are_not_numpys_own_have_no_entry():
    program = NativeProgram([kernels()["next"]], [[0, 0]])
    for kind in (np.dtype([("a", "f4")]), np.dtype(">f4"), np.dtype("M8[s]"), np.dtype("O")):
        assert entry(program, [Given(kind, (1,), (0,))], [], print) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_starts_its_pool_first():
    ex, given = mlc.compile(module("relu_add")), (random(2, 3), random(3))
    wanted = [ex(*given) for _ in range(3)][0]
    assert ex._native(*given) is not NotImplemented
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = ex._native(*given) is NotImplemented
            good = good and bool((ex(*given) == wanted).all())
            good = good and bool((ex._native(*given) == wanted).all())
        finally:
            os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_entry_outlives_its_executable():
    ex = mlc.compile(module("relu_add"))
    given = (random(2, 3), random(3))
    wanted = [ex(*given) for _ in range(3)][0]
    call, gone = ex._native, weakref.ref(ex)
    del ex
    gc.collect()
    assert gone() is None, "an entry does not hold what it came from"
    np.testing.assert_array_equal(call(*given), wanted)


def test_threads_that_call_one_graph_get_their_own_results():
    ex = mlc.compile(module("relu_add"))
    wrong = []

    def work(number: int) -> None:
        given, y = np.full((2, 3), number, "f4"), np.ones(3, "f4")
        for _ in range(300):
            if not (ex(given, y) == number + 1).all():
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in workers:
        thread.start()
    for n in (1, 2) * 5:
        threads.set_num_threads(n)
    for thread in workers:
        thread.join()
    assert not wrong


def test_sizes_in_turns_are_served_natively():
    ex = mlc.compile(module("softmax_any"))
    for n, m in [(2, 3), (4, 5), (2, 3), (4, 5), (2, 3), (2, 3)]:
        given, y = random(n, m), random(m)
        e = np.exp(given + y - (given + y).max(axis=-1, keepdims=True))
        np.testing.assert_allclose(ex(given, y), e / e.sum(axis=-1, keepdims=True), rtol=1e-5)
    assert ex._native(random(2, 3), random(3)).shape == (2, 3)
    assert ex._native(random(4, 5), random(5)) is NotImplemented


@cache
def added() -> Any:
    """c = a + b of (2, 3), called once."""
    a, b = (te.placeholder((2, 3), "float32", n) for n in "ab")
    ex = mlc.compile(
        te.create_prim_func([a, b, te.compute((2, 3), lambda i, j: a[i, j] + b[i, j])])
    )
    ex(*(np.zeros((2, 3), "f4") for _ in range(3)))
    return ex


class Sub(np.ndarray):
    """An array of a class of its own."""


def read_only(a: np.ndarray) -> np.ndarray:
    a.flags.writeable = False
    return a


def misaligned(a: np.ndarray) -> np.ndarray:
    raw = np.zeros(a.nbytes + 1, "u1")
    made = np.ndarray(a.shape, a.dtype, raw, 1)
    made[...] = a
    return made


def flushed(a: Any) -> np.ndarray:
    """`a` in float32, as a kernel reads and writes it: denormals count as zero."""
    a = np.asarray(a).astype("f4")
    return np.where(np.abs(a) < np.finfo("f4").tiny, np.float32(0), a)


KINDS = st.sampled_from(["f4", ">f4", "f8", "f2", "i4", "c8", "O", "S3", "M8[s]", "?"])
ARRAYS = hnp.arrays(KINDS, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
GOOD = hnp.arrays("f4", (2, 3), elements=st.floats(-9, 9, width=32))
ODD = st.one_of(
    GOOD.map(lambda a: a.view(Sub)),
    GOOD.map(np.asfortranarray),
    GOOD.map(read_only),
    GOOD.map(misaligned),
    GOOD.map(lambda a: np.ma.masked_array(a, a > 0)),
    GOOD.map(lambda a: np.broadcast_to(a[:1], (2, 3))),
    GOOD.map(lambda a: a[::-1, ::-1]),
    GOOD.map(lambda a: a.repeat(2, 1)[:, ::2]),
    GOOD.map(np.ndarray.tolist),
    GOOD.map(memoryview),
    GOOD.map(bytes),
    st.just(np.zeros((1,) * 60, "f4")),
    st.sampled_from([None, 1.5, "x", object, np.float32, np.float32(1), NotImplemented]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(GOOD, GOOD, ARRAYS, ODD), min_size=2, max_size=4))
@example([np.full((2, 3), 1e-40, "f4"), np.ones((2, 3), "f4"), np.zeros((2, 3), "f4")])
@example([np.full((2, 3), x, "f4") for x in (2e-38, -1.9e-38, 1)])
@example([np.full((2, 3), x, "f4") for x in (3e38, 3e38, 0)])
def test_whatever_is_given_is_added_or_refused(args):
    """The result is right, or the error is typed, and what the native way takes is right."""
    fits = [type(a) is np.ndarray and (a.dtype, a.shape) == (F4, (2, 3)) for a in args]
    native = added()._native(*args)
    assert native in (None, NotImplemented)
    assert native is NotImplemented or (all(fits) and len(args) == 3)
    try:
        added()(*args)
    except RuntimeInputError:
        assert native is NotImplemented
    else:
        with np.errstate(all="ignore"):
            wanted = flushed(np.add(flushed(args[0]), flushed(args[1]), dtype="f4"))
        np.testing.assert_array_equal(np.asarray(args[2]), wanted)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 24), st.integers(0, 24), st.integers(0, 24), st.booleans())
def test_what_is_written_lies_apart_from_what_is_read(i, j, k, apart):
    """Arguments cut from one piece of memory at all distances."""
    memory = np.arange(60, dtype="f4")
    a, b = memory[i : i + 6].reshape(2, 3), memory[j : j + 6].reshape(2, 3)
    c = (memory[30:] if apart else memory)[k : k + 6].reshape(2, 3)
    wanted, shares = a + b, np.may_share_memory(a, c) or np.may_share_memory(b, c)
    assert (added()._native(a, b, c) is NotImplemented) == shares
    assert shares or (c == wanted).all()
