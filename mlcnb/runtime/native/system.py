"""What the native runtime asks of the operating system and of the CPU, as LLVM IR.

Functions that the other parts call:

    sync_init lock unlock           one mutex
    wait wake                       condition variables
    now                             nanoseconds on a clock that only goes forward
    i64  flush_denormals()          denormal numbers are zero from now on, in this thread; gives the
                                    mode before
    void restore_mode(i64 mode)     puts it back

A float32 below 1.2e-38 costs a hundred cycles to compute with; the far tails of activations are
full of them. While a program runs, both what is read and what is written counts as zero, as in most
inference engines; the mode of the calling thread is put back when the run ends.
"""

from __future__ import annotations

_POSIX = """
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @clock_gettime(i32, ptr)

define internal void @sync_init() {{
  %m = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %w = call i32 @pthread_cond_init(ptr @work, ptr null)
  %d = call i32 @pthread_cond_init(ptr @done, ptr null)
  ret void
}}
define internal void @lock() {{
  %r = call i32 @pthread_mutex_lock(ptr @mutex)
  ret void
}}
define internal void @unlock() {{
  %r = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}}
define internal void @wait(ptr %condition) {{
  %r = call i32 @pthread_cond_wait(ptr %condition, ptr @mutex)
  ret void
}}
define internal void @wake(ptr %condition) {{
  %r = call i32 @pthread_cond_broadcast(ptr %condition)
  ret void
}}
define internal i64 @now() {{
  %t = alloca {{ i64, i64 }}
  %r = call i32 @clock_gettime(i32 {clock}, ptr %t)
  %seconds = load i64, ptr %t
  %rest.at = getelementptr {{ i64, i64 }}, ptr %t, i64 0, i32 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %ns = add i64 %whole, %rest
  ret i64 %ns
}}
"""

_WINDOWS = """
declare void @InitializeSRWLock(ptr)
declare void @AcquireSRWLockExclusive(ptr)
declare void @ReleaseSRWLockExclusive(ptr)
declare i32 @SleepConditionVariableSRW(ptr, ptr, i32, i32)
declare void @WakeAllConditionVariable(ptr)
declare i32 @QueryPerformanceCounter(ptr)
declare i32 @QueryPerformanceFrequency(ptr)

define internal void @sync_init() {{
  call void @InitializeSRWLock(ptr @mutex)
  ret void
}}
define internal void @lock() {{
  call void @AcquireSRWLockExclusive(ptr @mutex)
  ret void
}}
define internal void @unlock() {{
  call void @ReleaseSRWLockExclusive(ptr @mutex)
  ret void
}}
define internal void @wait(ptr %condition) {{
  %r = call i32 @SleepConditionVariableSRW(ptr %condition, ptr @mutex, i32 -1, i32 0)
  ret void
}}
define internal void @wake(ptr %condition) {{
  call void @WakeAllConditionVariable(ptr %condition)
  ret void
}}
define internal i64 @now() {{
  %t = alloca i64
  %f = alloca i64
  %r1 = call i32 @QueryPerformanceCounter(ptr %t)
  %r2 = call i32 @QueryPerformanceFrequency(ptr %f)
  %ticks = load i64, ptr %t
  %per.second = load i64, ptr %f
  %whole = udiv i64 %ticks, %per.second
  %rest = urem i64 %ticks, %per.second
  %whole.ns = mul i64 %whole, 1000000000
  %rest.scaled = mul i64 %rest, 1000000000
  %rest.ns = udiv i64 %rest.scaled, %per.second
  %ns = add i64 %whole.ns, %rest.ns
  ret i64 %ns
}}
"""

_CLOCK_MONOTONIC = {"darwin": 6}

_X86_64 = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal i64 @flush_denormals() {
  %place = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %old = load volatile i32, ptr %place
  %new = or i32 %old, 32832
  store volatile i32 %new, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  %wide = zext i32 %old to i64
  ret i64 %wide
}
define internal void @restore_mode(i64 %mode) {
  %place = alloca i32
  %narrow = trunc i64 %mode to i32
  store volatile i32 %narrow, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret void
}
"""
_AARCH64 = """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
define internal i64 @flush_denormals() {
  %old = call i64 @llvm.aarch64.get.fpcr()
  %new = or i64 %old, 16777216
  call void @llvm.aarch64.set.fpcr(i64 %new)
  ret i64 %old
}
define internal void @restore_mode(i64 %mode) {
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret void
}
"""
_NO_MODE = """
define internal i64 @flush_denormals() {
  ret i64 0
}
define internal void @restore_mode(i64 %mode) {
  ret void
}
"""


def source(platform: str, arch: str) -> str:
    """The IR for a `sys.platform` and an architecture; where we know of no mode of floats, nothing
    is done about denormal numbers.
    """
    is_windows, clock = platform == "win32", _CLOCK_MONOTONIC.get(platform, 1)
    calls = _WINDOWS.format() if is_windows else _POSIX.format(clock=clock)
    return calls + {"x86_64": _X86_64, "aarch64": _AARCH64}.get(arch, _NO_MODE)
