"""Where sleeping workers wake up, as LLVM IR: not on the caller's core.

    void lies_down(i64 worker)      its thread begins to sleep; inside the lock
    void gets_up(i64 worker)        it no longer does; inside the lock
    void keep_off()                 the caller, before it wakes the sleepers; inside the lock
    void settle(i64 worker)         the worker, once awake: it may run anywhere again
    i32 mlcnb_kept_off              how often a sleeper was kept off the caller's core

Linux takes the core of a virtual machine that has slept for some milliseconds for one that the
hypervisor has taken away (`available_idle_cpu` asks `vcpu_is_preempted`), and wakes the worker on
the caller's core instead. It waits there until the balancer comes round, 20 ms later; until then a
loop of 1 ms runs on one core of two. So the caller takes its own core out of the affinity of who
sleeps; the worker puts it back as soon as it runs, before it works. Nobody is pinned for longer
than a wake-up takes, the process's own affinity is kept (a worker with no other core stays where
it is), and a worker that is awake is never moved. Where there is no such call, nothing is done.
"""

from __future__ import annotations

#: bytes of the kernel's masks; a machine with more than 8 cores a byte refuses the call, and we
#: leave everything as it is
MASK_BYTES = 128

_LINUX = """
; the thread while it sleeps, else 0; whether its mask is ours; the mask that it had
%Place = type {{ i64, i64, [{mask_bytes} x i8] }}
@mlcnb_kept_off = global i32 0
@places = internal global [{max_threads} x %Place] zeroinitializer, align 128
declare i64 @pthread_self()
declare i32 @pthread_getaffinity_np(i64, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i32 @sched_getcpu()

define internal void @forget_places() {{
  call void @llvm.memset.p0.i64(ptr @places, i8 0, i64 {places_bytes}, i1 false)
  ret void
}}
define internal void @lies_down(i64 %worker) {{
  %place = getelementptr %Place, ptr @places, i64 %worker
  %thread = call i64 @pthread_self()
  store i64 %thread, ptr %place
  ret void
}}
define internal void @gets_up(i64 %worker) {{
  %place = getelementptr %Place, ptr @places, i64 %worker
  store i64 0, ptr %place
  ret void
}}
define internal void @keep_off() {{
entry:
  %cpu = call i32 @sched_getcpu()
  %threads = load i32, ptr @threads
  %all = zext i32 %threads to i64
  %core = zext i32 %cpu to i64
  %known = icmp ult i32 %cpu, {cores}
  br i1 %known, label %loop, label %end
loop:
  %i = phi i64 [ 1, %entry ], [ %next, %more ]
  %some = icmp ult i64 %i, %all
  br i1 %some, label %more, label %end
more:
  call void @keep_one_off(i64 %i, i64 %core)
  %next = add i64 %i, 1
  br label %loop
end:
  ret void
}}
define internal void @keep_one_off(i64 %worker, i64 %core) {{
entry:
  %mask = alloca [{mask_bytes} x i8], align 8
  %place = getelementptr %Place, ptr @places, i64 %worker
  %thread = load i64, ptr %place
  %sleeps = icmp ne i64 %thread, 0
  br i1 %sleeps, label %look, label %end
look:
  %moved.at = getelementptr %Place, ptr %place, i64 0, i32 1
  %own = getelementptr %Place, ptr %place, i64 0, i32 2
  %moved = load i64, ptr %moved.at
  %untouched = icmp eq i64 %moved, 0
  br i1 %untouched, label %ask, label %narrow
ask:
  %asked = call i32 @pthread_getaffinity_np(i64 %thread, i64 {mask_bytes}, ptr %own)
  %told = icmp eq i32 %asked, 0
  br i1 %told, label %narrow, label %end
narrow:
  call void @llvm.memcpy.p0.p0.i64(ptr %mask, ptr %own, i64 {mask_bytes}, i1 false)
  %byte.index = lshr i64 %core, 3
  %byte.at = getelementptr i8, ptr %mask, i64 %byte.index
  %byte = load i8, ptr %byte.at
  %low = trunc i64 %core to i8
  %bit = and i8 %low, 7
  %one = shl i8 1, %bit
  %others = xor i8 %one, -1
  %without = and i8 %byte, %others
  store i8 %without, ptr %byte.at
  %set = call i32 @pthread_setaffinity_np(i64 %thread, i64 {mask_bytes}, ptr %mask)
  %done = icmp eq i32 %set, 0
  br i1 %done, label %note, label %end
note:
  store i64 1, ptr %moved.at
  %count = load i32, ptr @mlcnb_kept_off
  %more = add i32 %count, 1
  store i32 %more, ptr @mlcnb_kept_off
  br label %end
end:
  ret void
}}
define internal void @settle(i64 %worker) {{
entry:
  %place = getelementptr %Place, ptr @places, i64 %worker
  %moved.at = getelementptr %Place, ptr %place, i64 0, i32 1
  %moved = load i64, ptr %moved.at
  %ours = icmp ne i64 %moved, 0
  br i1 %ours, label %restore, label %end
restore:
  %own = getelementptr %Place, ptr %place, i64 0, i32 2
  %thread = call i64 @pthread_self()
  %set = call i32 @pthread_setaffinity_np(i64 %thread, i64 {mask_bytes}, ptr %own)
  store i64 0, ptr %moved.at
  br label %end
end:
  ret void
}}
"""

_NONE = """
@mlcnb_kept_off = global i32 0
define internal void @forget_places() {
  ret void
}
define internal void @lies_down(i64 %worker) {
  ret void
}
define internal void @gets_up(i64 %worker) {
  ret void
}
define internal void @keep_off() {
  ret void
}
define internal void @settle(i64 %worker) {
  ret void
}
"""


def source(platform: str, max_threads: int) -> str:
    """The functions for a `sys.platform`; they do nothing where threads cannot be placed."""
    if platform != "linux":
        return _NONE
    return _LINUX.format(
        max_threads=max_threads,
        mask_bytes=MASK_BYTES,
        places_bytes=max_threads * (MASK_BYTES + 16),
        cores=MASK_BYTES * 8,
    )
