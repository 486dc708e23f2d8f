"""Fork and join, as LLVM IR.

    i32  mlcnb_parallel_for(ptr fn, ptr ctx, i64 n)     fn is  i32 fn(ptr ctx, i64 begin, i64 end)
    void mlcnb_worker(i64 index)                        the life of a worker, from 1
    void mlcnb_pool_reset(i32 threads, i64 spins)       before workers start
    i32  mlcnb_pool_stop()                              1: the workers leave; 0: busy, ask again

A job is open to workers while the bit OPEN of `state` is set; whoever goes in adds one, whoever
leaves takes one away, so the caller never waits for a worker that slept through the job:

    state = epoch << 32 | OPEN | workers inside

    caller: fill job, open, wake sleepers, work, close, wait until nobody is inside
    worker: spin a while on `state`, then sleep; go in (compare and swap), work, leave

Each thread has a share of the loop, in one word that is changed by compare and swap:

    share = first unit that is left << 32 | end      it takes a quarter of it from the front at a
                                                     time; one that has none steals the later half
                                                     of another's

So a loop of even iterations is cut into few pieces that lie together, an uneven one is balanced to
the last iteration, and a thread that is late or busy elsewhere loses its share to the others.

Whoever is about to sleep says so first and looks at `state` again; whoever changes `state` looks
for sleepers after that. All of these are sequentially consistent, so no wake-up is lost.
"""

from __future__ import annotations

from mlcnb.runtime.native.fields import expanded

#: a thread takes this part of what is left of its share at a time: the pieces get smaller and
#: smaller, so that all threads end together
PIECES = 4
#: most threads that a pool has
MAX_THREADS = 256
#: units of a thread's share, the smallest pieces: what one thread may have to wait for at the end
UNITS = 32
#: chunks of a loop that runs on one thread, so that it can be cancelled in between
CHUNKS_INLINE = 16

_STATE = """
%Job = type {{ ptr, ptr, i64, i64 }}
@mlcnb_cancel = global i32 0, align 128
@mlcnb_fault = global [2 x i64] zeroinitializer, align 128
@mlcnb_active = global i32 0, align 128
@mlcnb_ready = global i32 0, align 128
@mlcnb_main_thread = global i64 0, align 8
@state = internal global i64 0, align 128
@shares = internal global [{max_threads} x [16 x i64]] zeroinitializer, align 128
@job = internal global %Job zeroinitializer, align 128
@status = internal global i32 0, align 4
@busy = internal global i32 0, align 128
@threads = internal global i32 1, align 4
@stop = internal global i32 0, align 4
@spins = internal global i64 0, align 8
@sleepers = internal global i32 0, align 4
@caller_sleeps = internal global i32 0, align 4
@mutex = internal global [128 x i8] zeroinitializer, align 64
@work = internal global [128 x i8] zeroinitializer, align 64
@done = internal global [128 x i8] zeroinitializer, align 64

define void @mlcnb_pool_reset(i32 %threads, i64 %spins) {{
  store i64 0, ptr @state
  store i32 0, ptr @busy
  store i32 0, ptr @stop
  store i32 0, ptr @sleepers
  store i32 0, ptr @caller_sleeps
  store i64 %spins, ptr @spins
  call void @llvm.memset.p0.i64(ptr @mutex, i8 0, i64 128, i1 false)
  call void @llvm.memset.p0.i64(ptr @work, i8 0, i64 128, i1 false)
  call void @llvm.memset.p0.i64(ptr @done, i8 0, i64 128, i1 false)
  call void @sync_init()
  call void @forget_places()
  store atomic i32 %threads, ptr @threads seq_cst, align 4
  ret void
}}

define i32 @mlcnb_pool_stop() {{
  %taken = cmpxchg ptr @busy, i32 0, i32 1 seq_cst seq_cst
  %ok = extractvalue {{ i32, i1 }} %taken, 1
  br i1 %ok, label %stop, label %refuse
stop:
  store atomic i32 1, ptr @threads seq_cst, align 4
  store atomic i32 1, ptr @stop seq_cst, align 4
  call void @lock()
  call void @wake(ptr @work)
  call void @unlock()
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret i32 1
refuse:
  ret i32 0
}}

define void @mlcnb_spin(i64 %count) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %s = load atomic i64, ptr @state acquire, align 8
  {pause}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}}
"""

_PIECES = """
; what is left of a thread's share: the first unit that nobody has taken, and the end
define internal i64 @range(i64 %begin, i64 %end) alwaysinline {{
  %high = shl i64 %begin, 32
  %range = or i64 %high, %end
  ret i64 %range
}}

; the first piece of a range: a part of what is left, and at least one unit
define internal i64 @piece(i64 %left) alwaysinline {{
  %part = udiv i64 %left, {pieces}
  %size = call i64 @llvm.umax.i64(i64 %part, i64 1)
  ret i64 %size
}}

define internal void @take_part(i64 %me) {{
entry:
  %mine = getelementptr [16 x i64], ptr @shares, i64 %me
  %threads = load i32, ptr @threads
  %all = zext i32 %threads to i64
  br label %take
take:
  %status = load atomic i32, ptr @status monotonic, align 4
  %go = icmp eq i32 %status, 0
  br i1 %go, label %look, label %end
look:
  %range = load atomic i64, ptr %mine monotonic, align 8
  %begin = lshr i64 %range, 32
  %last = and i64 %range, {mask}
  %left = sub i64 %last, %begin
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %claim, label %steal
claim:
  %size = call i64 @piece(i64 %left)
  %after = add i64 %begin, %size
  %rest = call i64 @range(i64 %after, i64 %last)
  %swap = cmpxchg ptr %mine, i64 %range, i64 %rest acq_rel monotonic
  %got = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %got, label %run, label %look
steal:
  %k = phi i64 [ 1, %look ], [ %k.next, %skip ]
  %more = icmp ult i64 %k, %all
  br i1 %more, label %victim, label %end
victim:
  %sum = add i64 %me, %k
  %who = urem i64 %sum, %all
  %theirs = getelementptr [16 x i64], ptr @shares, i64 %who
  %range2 = load atomic i64, ptr %theirs monotonic, align 8
  %begin2 = lshr i64 %range2, 32
  %last2 = and i64 %range2, {mask}
  %left2 = sub i64 %last2, %begin2
  %some2 = icmp sgt i64 %left2, 0
  br i1 %some2, label %halve, label %skip
halve:
  %less = lshr i64 %left2, 1
  %middle = add i64 %begin2, %less
  %kept = call i64 @range(i64 %begin2, i64 %middle)
  %swap2 = cmpxchg ptr %theirs, i64 %range2, i64 %kept acq_rel monotonic
  %got2 = extractvalue {{ i64, i1 }} %swap2, 1
  br i1 %got2, label %stolen, label %victim
skip:
  %k.next = add i64 %k, 1
  br label %steal
stolen:
  %more.left = sub i64 %last2, %middle
  %size2 = call i64 @piece(i64 %more.left)
  %after2 = add i64 %middle, %size2
  %rest2 = call i64 @range(i64 %after2, i64 %last2)
  store atomic i64 %rest2, ptr %mine release, align 8
  br label %run
run:
  %from = phi i64 [ %begin, %claim ], [ %middle, %stolen ]
  %to = phi i64 [ %after, %claim ], [ %after2, %stolen ]
  %code = call i32 @run_units(i64 %from, i64 %to)
  %good = icmp eq i32 %code, 0
  br i1 %good, label %take, label %bad
bad:
  %first = cmpxchg ptr @status, i32 0, i32 %code seq_cst seq_cst
  br label %end
end:
  ret void
}}

define internal i32 @run_units(i64 %from, i64 %to) {{
  %fn = load ptr, ptr @job
  %ctx = load ptr, Job.ctx of @job
  %n = load i64, Job.n of @job
  %units = load i64, Job.units of @job
  %begin = call i64 @first_of(i64 %n, i64 %units, i64 %from)
  %end = call i64 @first_of(i64 %n, i64 %units, i64 %to)
  %code = call i32 @run_chunk(ptr %fn, ptr %ctx, i64 %begin, i64 %end)
  ret i32 %code
}}

; where unit i begins, when 0..n is cut into units that differ by one at most
define internal i64 @first_of(i64 %n, i64 %units, i64 %i) alwaysinline {{
  %each = udiv i64 %n, %units
  %longer = urem i64 %n, %units
  %base = mul i64 %each, %i
  %extra = call i64 @llvm.umin.i64(i64 %i, i64 %longer)
  %begin = add i64 %base, %extra
  ret i64 %begin
}}

define internal i32 @run_chunk(ptr %fn, ptr %ctx, i64 %begin, i64 %end) {{
  %cancel = load atomic i32, ptr @mlcnb_cancel monotonic, align 4
  %go = icmp eq i32 %cancel, 0
  br i1 %go, label %work, label %cancelled
work:
  %code = call i32 %fn(ptr %ctx, i64 %begin, i64 %end)
  ret i32 %code
cancelled:
  ret i32 {cancelled}
}}

define internal i32 @run_inline(ptr %fn, ptr %ctx, i64 %n) noinline {{
entry:
  %chunks = call i64 @llvm.umin.i64(i64 %n, i64 {chunks_inline})
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop.end ]
  %next = add i64 %i, 1
  %begin = call i64 @first_of(i64 %n, i64 %chunks, i64 %i)
  %end = call i64 @first_of(i64 %n, i64 %chunks, i64 %next)
  %code = call i32 @run_chunk(ptr %fn, ptr %ctx, i64 %begin, i64 %end)
  %good = icmp eq i32 %code, 0
  br i1 %good, label %loop.end, label %leave
loop.end:
  %more = icmp ult i64 %next, %chunks
  br i1 %more, label %loop, label %leave
leave:
  ret i32 %code
}}
"""

_FORK_JOIN = """
define i32 @mlcnb_parallel_for(ptr %fn, ptr %ctx, i64 %n) {{
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %how, label %nothing
nothing:
  ret i32 0
how:
  %threads = load atomic i32, ptr @threads monotonic, align 4
  %alone = icmp ule i32 %threads, 1
  %single = icmp eq i64 %n, 1
  %serial = or i1 %alone, %single
  br i1 %serial, label %inline, label %try
try:
  %taken = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{ i32, i1 }} %taken, 1
  br i1 %mine, label %fork, label %inline
inline:
  %alone.status = call i32 @run_inline(ptr %fn, ptr %ctx, i64 %n)
  ret i32 %alone.status
fork:
  %all = zext i32 %threads to i64
  %finest = mul i64 %all, {units}
  %units = call i64 @llvm.umin.i64(i64 %n, i64 %finest)
  store ptr %fn, ptr @job
  store ptr %ctx, Job.ctx of @job
  store i64 %n, Job.n of @job
  store i64 %units, Job.units of @job
  call void @share_out(i64 %units, i64 %all)
  store atomic i32 0, ptr @status monotonic, align 4
  %old = load atomic i64, ptr @state monotonic, align 8
  %later = add i64 %old, {one_epoch}
  %open = or i64 %later, {open}
  store atomic i64 %open, ptr @state seq_cst, align 8
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %anyone = icmp ne i32 %asleep, 0
  br i1 %anyone, label %rouse, label %share
rouse:
  call void @lock()
  call void @keep_off()
  call void @wake(ptr @work)
  call void @unlock()
  br label %share
share:
  call void @take_part(i64 0)
  %closing = atomicrmw and ptr @state, i64 {not_open} seq_cst
  call void @wait_until_empty()
  %status = load atomic i32, ptr @status monotonic, align 4
  store atomic i32 0, ptr @busy release, align 4
  ret i32 %status
}}

; to each thread the same stretch of every loop, where it finds what it wrote in the one before
define internal void @share_out(i64 %units, i64 %threads) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %next = add i64 %i, 1
  %begin = call i64 @first_of(i64 %units, i64 %threads, i64 %i)
  %end = call i64 @first_of(i64 %units, i64 %threads, i64 %next)
  %range = call i64 @range(i64 %begin, i64 %end)
  %share = getelementptr [16 x i64], ptr @shares, i64 %i
  store atomic i64 %range, ptr %share monotonic, align 8
  %more = icmp ult i64 %next, %threads
  br i1 %more, label %loop, label %done
done:
  ret void
}}

define internal void @wait_until_empty() {{
entry:
  %spins = load i64, ptr @spins
  br label %spin
spin:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  %state = load atomic i64, ptr @state acquire, align 8
  %inside = and i64 %state, {inside}
  %empty = icmp eq i64 %inside, 0
  br i1 %empty, label %end, label %again
again:
  {pause}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %spins
  br i1 %more, label %spin, label %sleep
sleep:
  call void @lock()
  store atomic i32 1, ptr @caller_sleeps seq_cst, align 4
  br label %look
look:
  %state2 = load atomic i64, ptr @state seq_cst, align 8
  %inside2 = and i64 %state2, {inside}
  %empty2 = icmp eq i64 %inside2, 0
  br i1 %empty2, label %rise, label %wait
wait:
  call void @wait(ptr @done)
  br label %look
rise:
  store atomic i32 0, ptr @caller_sleeps seq_cst, align 4
  call void @unlock()
  br label %end
end:
  ret void
}}
"""

_WORKER = """
define void @mlcnb_worker(i64 %me) {{
entry:
  %mode = call i64 @flush_denormals()
  br label %idle
idle:
  %seen = phi i64 [ 0, %entry ], [ %seen, %rise ], [ %epoch.now, %job ], [ %epoch.now, %leave ],
    [ %epoch.now, %tell ]
  %spins = load i64, ptr @spins
  br label %spin
spin:
  %i = phi i64 [ 0, %idle ], [ %next, %again ], [ %i, %enter ]
  %state = load atomic i64, ptr @state acquire, align 8
  %news = call i1 @is_news(i64 %state, i64 %seen)
  br i1 %news, label %enter, label %again
again:
  {pause}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %spins
  br i1 %more, label %spin, label %sleep
enter:
  %more.inside = add i64 %state, 1
  %swap = cmpxchg ptr @state, i64 %state, i64 %more.inside seq_cst acquire
  %entered = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %entered, label %job, label %spin
job:
  %epoch.now = lshr i64 %state, 32
  call void @take_part(i64 %me)
  %before = atomicrmw sub ptr @state, i64 1 seq_cst
  %low = and i64 %before, {low}
  %was.last = icmp eq i64 %low, 1
  br i1 %was.last, label %leave, label %idle
leave:
  %asleep = load atomic i32, ptr @caller_sleeps seq_cst, align 4
  %waits = icmp ne i32 %asleep, 0
  br i1 %waits, label %tell, label %idle
tell:
  call void @lock()
  call void @wake(ptr @done)
  call void @unlock()
  br label %idle
sleep:
  call void @lock()
  %more.asleep = atomicrmw add ptr @sleepers, i32 1 seq_cst
  call void @lies_down(i64 %me)
  br label %look
look:
  %stopping = load atomic i32, ptr @stop seq_cst, align 4
  %stop = icmp ne i32 %stopping, 0
  br i1 %stop, label %exit, label %look.job
look.job:
  %state2 = load atomic i64, ptr @state seq_cst, align 8
  %news2 = call i1 @is_news(i64 %state2, i64 %seen)
  br i1 %news2, label %rise, label %wait
wait:
  call void @settle(i64 %me)
  call void @wait(ptr @work)
  br label %look
rise:
  %less.asleep = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  call void @gets_up(i64 %me)
  call void @unlock()
  call void @settle(i64 %me)
  br label %idle
exit:
  call void @gets_up(i64 %me)
  %gone = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  call void @unlock()
  ret void
}}

define internal i1 @is_news(i64 %state, i64 %seen) alwaysinline {{
  %bit = and i64 %state, {open}
  %is.open = icmp ne i64 %bit, 0
  %epoch = lshr i64 %state, 32
  %is.new = icmp ne i64 %epoch, %seen
  %news = and i1 %is.open, %is.new
  ret i1 %news
}}
"""

_PAUSE = {
    "x86_64": "call void @llvm.x86.sse2.pause()",
    "aarch64": "call void @llvm.aarch64.isb(i32 15)",
}


def source(arch: str, cancelled: int) -> str:
    """The IR for an architecture; `cancelled` is the status of a loop that was told to stop."""
    fields = {
        "pause": _PAUSE.get(arch, ""),
        "cancelled": cancelled,
        "pieces": PIECES,
        "max_threads": MAX_THREADS,
        "units": UNITS,
        "mask": (1 << 32) - 1,
        "chunks_inline": CHUNKS_INLINE,
        "open": 1 << 31,
        "not_open": ~(1 << 31),
        "inside": (1 << 31) - 1,
        "low": (1 << 32) - 1,
        "one_epoch": 1 << 32,
    }
    text = "".join(part.format(**fields) for part in (_STATE, _PIECES, _FORK_JOIN, _WORKER))
    return expanded(text, {"Job": ("fn", "ctx", "n", "units")})
