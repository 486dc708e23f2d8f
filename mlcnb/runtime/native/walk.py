"""The walk over a graph, and Ctrl-C during it, as LLVM IR.

    i32  mlcnb_run_graph(ptr program, i64 n)      program is n times {ptr kernel, ptr argv}
                                                  kernel null: a jump, argv {ptr condition, i64 to},
                                                  if there is no condition, or its byte is 0
    i32  mlcnb_copy(ptr argv)                     argv {ptr to, ptr from, i64 bytes}
    i32  mlcnb_put(ptr argv)                      argv {ptr to, ptr from, i64 bytes, i64 n, ptr at}:
                                                  to part `at` of n, counted round
    i32  mlcnb_run_frame(ptr frame)               frame is {program, n, times or null, index}
    i32  mlcnb_run_guarded(ptr frame)             the same on Python's main thread

Ctrl-C: for the length of a guarded run, a handler of ours stands before Python's: it sets
`mlcnb_cancel` and then calls Python's, which raises KeyboardInterrupt after the run. The flag stops
all runs that are active and falls when the last of them has ended. The handler is installed by
copying what is installed and replacing its first word, so no layout of `struct sigaction` but that
is assumed; a process that ignores Ctrl-C, or dies of it, goes on doing so.
"""

from __future__ import annotations

from mlcnb.runtime.native.fields import expanded

_STRUCTS = {"Instruction": ("kernel", "argv"), "Frame": ("program", "n", "times", "index")}

_GRAPH = """
%Instruction = type {{ ptr, ptr }}
%Frame = type {{ ptr, i64, ptr, i64 }}

define i32 @mlcnb_run_graph(ptr %program, i64 %n) {{
  %frame = alloca %Frame
  store ptr %program, ptr %frame
  store i64 %n, Frame.n of %frame
  store ptr null, Frame.times of %frame
  %status = call i32 @mlcnb_run_frame(ptr %frame)
  ret i32 %status
}}

define i32 @mlcnb_run_frame(ptr %frame) {{
entry:
  %active = atomicrmw add ptr @mlcnb_active, i32 1 seq_cst
  %first = icmp eq i32 %active, 0
  br i1 %first, label %fresh, label %begin
fresh:
  store atomic i32 0, ptr @mlcnb_cancel seq_cst, align 4
  br label %begin
begin:
  %mode = call i64 @flush_denormals()
  %program = load ptr, ptr %frame
  %n = load i64, Frame.n of %frame
  %times = load ptr, Frame.times of %frame
  %timed = icmp ne ptr %times, null
  br i1 %timed, label %start, label %loop
start:
  %t0 = call i64 @now()
  store i64 %t0, ptr %times
  br label %loop
loop:
  %i = phi i64 [ 0, %begin ], [ 0, %start ], [ %after, %next ], [ %to, %go.to ], [ %after, %go.on ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %check, label %end
check:
  %cancel = load atomic i32, ptr @mlcnb_cancel monotonic, align 4
  %go = icmp eq i32 %cancel, 0
  br i1 %go, label %call, label %end
call:
  %at = getelementptr %Instruction, ptr %program, i64 %i
  %kernel = load ptr, ptr %at
  %argv = load ptr, Instruction.argv of %at
  %after = add i64 %i, 1
  %is.jump = icmp eq ptr %kernel, null
  br i1 %is.jump, label %jump, label %work
jump:
  %to = load i64, i64 1 of %argv
  %condition = load ptr, ptr %argv
  %is.plain = icmp eq ptr %condition, null
  br i1 %is.plain, label %go.to, label %ask
ask:
  %holds = load i8, ptr %condition
  %fails = icmp eq i8 %holds, 0
  br i1 %fails, label %go.to, label %go.on
go.to:
  br label %loop
go.on:
  br label %loop
work:
  %code = call i32 %kernel(ptr %argv)
  br i1 %timed, label %stamp, label %test
stamp:
  %t = call i64 @now()
  store i64 %t, i64 %after of %times
  br label %test
test:
  %good = icmp eq i32 %code, 0
  br i1 %good, label %next, label %end
next:
  br label %loop
end:
  %status = phi i32 [ 0, %loop ], [ {cancelled}, %check ], [ %code, %test ]
  store i64 %i, Frame.index of %frame
  call void @restore_mode(i64 %mode)
  %others = atomicrmw sub ptr @mlcnb_active, i32 1 seq_cst
  %last = icmp eq i32 %others, 1
  br i1 %last, label %clear, label %leave
clear:
  store atomic i32 0, ptr @mlcnb_cancel seq_cst, align 4
  br label %leave
leave:
  ret i32 %status
}}

define i32 @mlcnb_copy(ptr %argv) {{
  %to = load ptr, ptr %argv
  %from = load ptr, i64 1 of %argv
  %bytes = load i64, i64 2 of %argv
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  ret i32 0
}}

define i32 @mlcnb_put(ptr %argv) {{
  %to = load ptr, ptr %argv
  %from = load ptr, i64 1 of %argv
  %bytes = load i64, i64 2 of %argv
  %n = load i64, i64 3 of %argv
  %part = load ptr, i64 4 of %argv
  %number = load i64, ptr %part
  %round = urem i64 %number, %n
  %skipped = mul i64 %round, %bytes
  %row = getelementptr i8, ptr %to, i64 %skipped
  call void @llvm.memmove.p0.p0.i64(ptr %row, ptr %from, i64 %bytes, i1 false)
  ret i32 0
}}
"""

_GUARD = """
@old_action = internal global [256 x i8] zeroinitializer, align 16
@new_action = internal global [256 x i8] zeroinitializer, align 16
declare i32 @sigaction(i32, ptr, ptr)

define internal void @on_interrupt(i32 %signal, ptr %info, ptr %context) {
  store atomic i32 1, ptr @mlcnb_cancel seq_cst, align 4
  %python = load ptr, ptr @old_action
  call void %python(i32 %signal, ptr %info, ptr %context)
  ret void
}

define i32 @mlcnb_run_guarded(ptr %frame) {
entry:
  %now = alloca [256 x i8], align 16
  %asked = call i32 @sigaction(i32 2, ptr null, ptr %now)
  %handler = load ptr, ptr %now
  %number = ptrtoint ptr %handler to i64
  %is.default = icmp ule i64 %number, 1
  %is.ours = icmp eq ptr %handler, @on_interrupt
  %keep = or i1 %is.default, %is.ours
  br i1 %keep, label %plain, label %guard
plain:
  %status = call i32 @mlcnb_run_frame(ptr %frame)
  ret i32 %status
guard:
  call void @llvm.memcpy.p0.p0.i64(ptr @old_action, ptr %now, i64 256, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr @new_action, ptr %now, i64 256, i1 false)
  store ptr @on_interrupt, ptr @new_action
  %set = call i32 @sigaction(i32 2, ptr @new_action, ptr null)
  %status.guarded = call i32 @mlcnb_run_frame(ptr %frame)
  %back = call i32 @sigaction(i32 2, ptr @old_action, ptr null)
  ret i32 %status.guarded
}
"""


def source(cancelled: int, guard: bool) -> str:
    """The IR; `cancelled` is the status of a run that was told to stop, `guard` needs sigaction."""
    walk = expanded(_GRAPH.format(cancelled=cancelled), _STRUCTS)
    return walk + _GUARD if guard else walk
