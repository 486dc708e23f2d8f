"""What the native runtime asks of the operating system, as LLVM IR.

Functions that the other parts call:

    sync_init lock unlock     one mutex
    wait wake                 condition variables
    now                       nanoseconds on a clock that only goes forward
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


def source(platform: str) -> str:
    """The IR for a `sys.platform`."""
    if platform == "win32":
        return _WINDOWS.format()
    return _POSIX.format(clock=_CLOCK_MONOTONIC.get(platform, 1))
