"""A table of kernel calls in one native call: results, statuses, patches, times, Ctrl-C."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from functools import cache

import numpy as np
import pytest

from mlcnb.codegen.llvm.engine import compile_ir
from mlcnb.codegen.llvm.library import link
from mlcnb.core.errors import ExecutionError
from mlcnb.runtime import native_graph, threads
from mlcnb.runtime.native_graph import NativeProgram

KERNELS = """
define i32 @nothing(ptr %argv) {
  ret i32 0
}
; argv: accumulator, value
define i32 @add(ptr %argv) {
  %sum.at = load ptr, ptr %argv
  %value.at = getelementptr i64, ptr %argv, i64 1
  %value = load i64, ptr %value.at
  %old = load i64, ptr %sum.at
  %new = add i64 %old, %value
  store i64 %new, ptr %sum.at
  ret i32 0
}
; argv: status
define i32 @fail(ptr %argv) {
  %status = load i32, ptr %argv
  ret i32 %status
}
; argv: turns of an empty loop
define i32 @turn(ptr %argv) {
entry:
  %n = load i64, ptr %argv
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void asm sideeffect "", ""()
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret i32 0
}
; turns until it is told to stop
@mlcnb_cancel = external global i32
define i32 @forever(ptr %argv) {
entry:
  br label %loop
loop:
  %flag = load atomic i32, ptr @mlcnb_cancel monotonic, align 4
  %go = icmp eq i32 %flag, 0
  br i1 %go, label %loop, label %end
end:
  ret i32 1
}
"""


@cache
def kernels():
    return link([compile_ir(KERNELS)], threads.symbols())


def program(*calls):
    """A program from (kernel name, arguments...)."""
    addresses = [kernels()[name] for name, *_ in calls]
    return NativeProgram(addresses, [arguments for _, *arguments in calls], [kernels()])


@pytest.fixture
def total():
    return np.zeros(1, np.int64)


def test_runs_all_calls(total):
    p = program(("add", total.ctypes.data, 5), ("nothing",), ("add", total.ctypes.data, 7))
    assert len(p) == 3
    assert p.run() == 0
    assert total[0] == 12
    assert p.failed_at == 3
    assert p.run() == 0
    assert total[0] == 24


def test_stops_at_the_first_status(total):
    p = program(("add", total.ctypes.data, 5), ("fail", 107), ("add", total.ctypes.data, 7))
    assert p.run() == 107
    assert (total[0], p.failed_at) == (5, 1)


def test_an_empty_program_runs():
    p = program()
    assert (p.run(), len(p), p.failed_at) == (0, 0, 0)


def test_patching_arguments(total):
    other = np.zeros(1, np.int64)
    p = program(("nothing",), ("add", total.ctypes.data, 5), ("add", total.ctypes.data, 1))
    p.arena[p.slot(1, 0)] = other.ctypes.data
    p.arena[p.slot(2, 1)] = 100
    assert p.run() == 0
    assert (total[0], other[0]) == (100, 5)
    for call, position in ((0, 0), (1, 2), (1, -1)):
        with pytest.raises(IndexError, match=f"call {call} has no argument {position}"):
            p.slot(call, position)


def test_kernels_and_arguments_must_match():
    with pytest.raises(ValueError, match="1 kernels with 2 lists of arguments"):
        NativeProgram([kernels()["nothing"]], [[], []])


def test_times():
    p = program(("turn", 10), ("turn", 3_000_000), ("nothing",))
    status, nanoseconds = p.run_timed()
    assert status == 0
    assert nanoseconds.shape == (3,)
    assert nanoseconds[1] > 100 * nanoseconds[2]
    assert (nanoseconds >= 0).all()
    p = program(("nothing",), ("fail", 3), ("nothing",))
    status, nanoseconds = p.run_timed()
    assert (status, nanoseconds.shape) == (3, (2,))


def test_programs_nest_through_python(total):
    inner = program(("add", total.ctypes.data, 5))
    callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(lambda argv: inner.run())
    address = ctypes.cast(callback, ctypes.c_void_p).value
    outer = NativeProgram([address, kernels()["fail"]], [[], [9]], [callback])
    before = signal.getsignal(signal.SIGINT)
    assert outer.run() == 9
    assert total[0] == 5
    assert signal.getsignal(signal.SIGINT) is before


def test_a_graph_is_called_natively(total):
    p = program(("add", total.ctypes.data, 5), ("add", total.ctypes.data, 6))
    address = threads.symbols()["mlcnb_run_graph"]
    run_graph = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)(address)
    assert run_graph(p._table.ctypes.data, 2) == 0
    assert total[0] == 11


#: seconds after which a program that was stopped is back, on a machine that others load as well
SOON = 5.0

needs_signals = pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to itself")


class Interrupt:
    """Send SIGINT to this process a little later."""

    def __init__(self, seconds: float = 0.05) -> None:
        self.sent = 0.0
        self._thread = threading.Thread(target=self._send, args=(seconds,))

    def _send(self, seconds: float) -> None:
        time.sleep(seconds)
        self.sent = time.perf_counter()
        os.kill(os.getpid(), signal.SIGINT)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._thread.join()


@needs_signals
def test_ctrl_c_stops_between_calls():
    p = program(*[("turn", 100_000)] * 200_000)
    with Interrupt() as interrupt:
        with pytest.raises(KeyboardInterrupt):
            p.run()
        late = time.perf_counter() - interrupt.sent
    assert late < SOON
    assert 0 < p.failed_at < len(p)
    assert program(("nothing",)).run() == 0


@needs_signals
def test_ctrl_c_stops_a_kernel_that_polls():
    p = program(("nothing",), ("forever",))
    for _ in range(3):
        with Interrupt() as interrupt:
            with pytest.raises(KeyboardInterrupt):
                p.run()
            late = time.perf_counter() - interrupt.sent
        assert late < SOON
        assert p.failed_at == 1


@needs_signals
def test_a_handler_of_the_users_own_is_called():
    calls = []
    before = signal.signal(signal.SIGINT, lambda *args: calls.append(args[0]))
    try:
        p = program(("forever",))
        with Interrupt(), pytest.raises(ExecutionError, match="cancelled at call 0 of 1"):
            p.run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert calls == [signal.SIGINT]


@needs_signals
def test_a_process_that_ignores_ctrl_c_goes_on():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        p = program(*[("turn", 1_000_000)] * 400)
        with Interrupt(0.01):
            assert p.run() == 0
    finally:
        signal.signal(signal.SIGINT, before)


@needs_signals
def test_flags_of_the_handler_are_kept():
    """`time.sleep` after a run is still interrupted at once."""
    assert program(("nothing",)).run() == 0
    begin = time.perf_counter()
    with Interrupt(), pytest.raises(KeyboardInterrupt):
        time.sleep(60)
    assert time.perf_counter() - begin < SOON


def test_cancel_from_another_thread():
    p = program(("nothing",), ("forever",))
    errors = []

    def work():
        try:
            p.run()
        except ExecutionError as error:
            errors.append(str(error))

    caller = threading.Thread(target=work)
    caller.start()
    time.sleep(0.02)
    threads.cancel()
    caller.join(60)
    assert errors == ["cancelled at call 1 of 2"]
    assert program(("nothing",)).run() == 0


def test_a_cancel_while_nothing_runs_stops_nothing():
    threads.cancel()
    assert program(("nothing",)).run() == 0


@needs_signals
def test_where_there_is_no_sigaction_a_helper_thread_runs(monkeypatch):
    plain, _ = native_graph._entries()
    p = program(("add", np.zeros(1, np.int64).ctypes.data, 1), ("forever",))
    p._run_guarded = native_graph._in_helper(plain)
    with Interrupt() as interrupt:
        with pytest.raises(KeyboardInterrupt):
            p.run()
        late = time.perf_counter() - interrupt.sent
    assert late < SOON
    quick = program(("fail", 5))
    quick._run_guarded = native_graph._in_helper(plain)
    assert quick.run() == 5


@needs_signals
def test_ctrl_c_in_a_process_of_its_own():
    """As a person presses it: the signal goes to the whole group, while two threads work."""
    code = """
import numpy as np, os, sys
sys.path.insert(0, os.getcwd())
from mlcnb.runtime import threads
from tests.runtime.test_native_graph import program
threads.set_num_threads(2)
p = program(*[("turn", 10_000_000)] * 20_000)
print("running", flush=True)
try:
    p.run()
except KeyboardInterrupt:
    print("interrupted")
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "running\n"
    time.sleep(0.1)
    begin = time.perf_counter()
    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=30)
    assert output == "interrupted\n"
    assert child.returncode == 0
    assert time.perf_counter() - begin < SOON


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_runs_programs(total):
    p = program(("add", total.ctypes.data, 5))
    assert p.run() == 0
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = p.run() == 0 and total[0] == 10
        finally:
            os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
