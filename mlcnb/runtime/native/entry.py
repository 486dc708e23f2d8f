"""A call from Python that is checked, run and answered in native code, as LLVM IR.

    PyObject *mlcnb_entry(PyObject *self, PyObject *const *args, Py_ssize_t n)      METH_FASTCALL

`self` is an array whose data are a %Spec: what the arguments must be, the frame of the program
(walk.py) with its slots, and the arrays that are made for its results.

    every argument is a plain ndarray of the dtype, shape and layout that is wanted, what is written
    to is writeable and lies apart; the pool runs; nobody else runs this program
        no   ->  NotImplemented: the caller goes the long way, which converts, or says what is wrong
        yes  ->  addresses into slots, new arrays for results, the program without Python's lock
                     status 0    None, the array, or a tuple of arrays
                     else        what `fail(status)` gives, which is an error

The fields of an ndarray are read where NumPy's C headers have had them since 1.7 (`entry_call`
compares them with what Python says of an array before anything is called); of Python only functions
of its stable ABI are used.
"""

from __future__ import annotations

from typing import NamedTuple

from mlcnb.runtime.native.fields import expanded

#: the words of a %Spec, an %Input and an %Output, in 8 bytes each
SPEC = (
    "busy", "guarded", "frame", "fail", "form", "inputs", "input", "outputs", "output",
    "pairs", "pair",
)  # fmt: skip
INPUT = ("descr", "ndim", "shape", "flags", "nbytes", "slots", "slot")
OUTPUT = ("descr", "ndim", "shape", "nbytes", "slots", "slot", "made")
#: what a call gives: nothing, its only result, or all of them
NOTHING, ONE, TUPLE = range(3)
#: NPY_ARRAY_…: its elements one after the other and aligned; may be written to; would warn
PLAIN, WRITEABLE, WARNS = 0x101, 0x400, 1 << 31
#: numbers of functions in NumPy's table of them, its type of arrays among them
NUMPY = {"PyArray_Type": 2, "new": 94, "empty": 184, "set_base": 282}
#: bytes that a result is aligned to
ALIGNMENT = 64
#: functions of Python's stable ABI
PYTHON = (
    "Py_IncRef", "Py_DecRef", "PyEval_SaveThread", "PyEval_RestoreThread", "PyLong_FromLong",
    "PyObject_CallFunctionObjArgs", "PyTuple_New", "PyTuple_SetItem", "PyThread_get_thread_ident",
)  # fmt: skip


class Fields(NamedTuple):
    """Where the fields of an object and of an ndarray begin, after a head of so many bytes."""

    type: int
    data: int
    ndim: int
    shape: int
    descr: int
    flags: int
    end: int

    @staticmethod
    def after(head: int) -> Fields:
        """The fields of this Python, whose objects begin with `head` bytes."""
        return Fields(head - 8, head, head + 8, head + 16, head + 40, head + 48, head + 52)


_DECLARE = """
@mlcnb_ready = external global i32
@mlcnb_main_thread = external global i64
@mlcnb_none = external global i8
@mlcnb_not_implemented = external global i8
@mlcnb_ndarray = external global i8
@mlcnb_bytes = external global i8
declare i32 @mlcnb_run_frame(ptr)
declare i32 @{guarded}(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i64 @PyThread_get_thread_ident()
declare ptr @mlcnb_numpy_new(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare ptr @mlcnb_numpy_empty(i32, ptr, ptr, i32)
declare i32 @mlcnb_numpy_set_base(ptr, ptr)

%Spec = type {{ i64, i64, ptr, ptr, i64, i64, ptr, i64, ptr, i64, ptr }}
%Input = type {{ ptr, i64, ptr, i64, i64, i64, ptr }}
%Output = type {{ ptr, i64, ptr, i64, i64, ptr, ptr }}
"""

_CHECK = """
define internal i1 @fits(ptr %array, ptr %input) alwaysinline {{
entry:
  %type = load ptr, i8 {type} of %array
  %is.array = icmp eq ptr %type, @mlcnb_ndarray
  br i1 %is.array, label %kind, label %no
kind:
  %descr = load ptr, i8 {descr} of %array
  %wanted = load ptr, ptr %input
  %same.kind = icmp eq ptr %descr, %wanted
  %ndim32 = load i32, i8 {ndim} of %array
  %ndim = sext i32 %ndim32 to i64
  %rank = load i64, Input.ndim of %input
  %same.rank = icmp eq i64 %ndim, %rank
  %flags = load i32, i8 {flags} of %array
  %needs64 = load i64, Input.flags of %input
  %needs = trunc i64 %needs64 to i32
  %mask = or i32 %needs, {warns}
  %has = and i32 %flags, %mask
  %same.flags = icmp eq i32 %has, %needs
  %both = and i1 %same.kind, %same.rank
  %all = and i1 %both, %same.flags
  br i1 %all, label %lengths, label %no
lengths:
  %shape = load ptr, i8 {shape} of %array
  %sizes = load ptr, Input.shape of %input
  br label %axis
axis:
  %k = phi i64 [ 0, %lengths ], [ %k.next, %length ]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %length, label %yes
length:
  %got = load i64, i64 %k of %shape
  %size = load i64, i64 %k of %sizes
  %k.next = add i64 %k, 1
  %same = icmp eq i64 %got, %size
  br i1 %same, label %axis, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}

define internal ptr @data_of(ptr %array) alwaysinline {{
  %data = load ptr, i8 {data} of %array
  ret ptr %data
}}

; whether one of the pairs (argument that is written to, another one) shares memory
define internal i1 @overlaps(ptr %spec, ptr %args) alwaysinline {{
entry:
  %pairs = load i64, Spec.pairs of %spec
  %pair = load ptr, Spec.pair of %spec
  %input = load ptr, Spec.input of %spec
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %body ]
  %more = icmp slt i64 %k, %pairs
  br i1 %more, label %body, label %apart
body:
  %i.at = getelementptr [2 x i64], ptr %pair, i64 %k
  %i = load i64, ptr %i.at
  %j.at = getelementptr i64, ptr %i.at, i64 1
  %j = load i64, ptr %j.at
  %a = call ptr @begin(ptr %args, i64 %i)
  %b = call ptr @begin(ptr %args, i64 %j)
  %a.end = call ptr @end(ptr %a, ptr %input, i64 %i)
  %b.end = call ptr @end(ptr %b, ptr %input, i64 %j)
  %a.first = icmp ult ptr %a, %b.end
  %b.first = icmp ult ptr %b, %a.end
  %shares = and i1 %a.first, %b.first
  %k.next = add i64 %k, 1
  br i1 %shares, label %shared, label %loop
shared:
  ret i1 true
apart:
  ret i1 false
}}

define internal ptr @begin(ptr %args, i64 %i) alwaysinline {{
  %array = load ptr, ptr %i of %args
  %data = call ptr @data_of(ptr %array)
  ret ptr %data
}}

define internal ptr @end(ptr %data, ptr %inputs, i64 %i) alwaysinline {{
  %nbytes = load i64, Input.nbytes of %inputs[%i]
  %end = getelementptr i8, ptr %data, i64 %nbytes
  ret ptr %end
}}
"""

_PATCH = """
; an address into each of the slots, which are pointers
define internal void @patch(ptr %data, i64 %slots, ptr %slot) alwaysinline {{
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %body ]
  %more = icmp slt i64 %k, %slots
  br i1 %more, label %body, label %end
body:
  %place = load ptr, ptr %k of %slot
  store ptr %data, ptr %place
  %k.next = add i64 %k, 1
  br label %loop
end:
  ret void
}}

; a new array whose data are aligned, or null with an error set
define internal ptr @make(ptr %output) {{
entry:
  %length = alloca i64
  %nbytes = load i64, Output.nbytes of %output
  %room = add i64 %nbytes, {alignment}
  store i64 %room, ptr %length
  call void @Py_IncRef(ptr @mlcnb_bytes)
  %raw = call ptr @mlcnb_numpy_empty(i32 1, ptr %length, ptr @mlcnb_bytes, i32 0)
  %no.room = icmp eq ptr %raw, null
  br i1 %no.room, label %failed, label %view
view:
  %begin = call ptr @data_of(ptr %raw)
  %address = ptrtoint ptr %begin to i64
  %less = sub i64 0, %address
  %gap = and i64 %less, {gap}
  %data = getelementptr i8, ptr %begin, i64 %gap
  %descr = load ptr, ptr %output
  call void @Py_IncRef(ptr %descr)
  %ndim64 = load i64, Output.ndim of %output
  %ndim = trunc i64 %ndim64 to i32
  %shape = load ptr, Output.shape of %output
  %made = call ptr @mlcnb_numpy_new(ptr @mlcnb_ndarray, ptr %descr, i32 %ndim, ptr %shape,
    ptr null, ptr %data, i32 {carray}, ptr null)
  %no.view = icmp eq ptr %made, null
  br i1 %no.view, label %drop, label %own
drop:
  call void @Py_DecRef(ptr %raw)
  ret ptr null
own:
  %status = call i32 @mlcnb_numpy_set_base(ptr %made, ptr %raw)
  %owned = icmp eq i32 %status, 0
  br i1 %owned, label %done, label %undo
undo:
  call void @Py_DecRef(ptr %made)
  ret ptr null
done:
  %slots = load i64, Output.slots of %output
  %slot = load ptr, Output.slot of %output
  call void @patch(ptr %data, i64 %slots, ptr %slot)
  store ptr %made, Output.made of %output
  ret ptr %made
failed:
  ret ptr null
}}

; let the first `n` results go
define internal void @drop_all(ptr %output, i64 %n) {{
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %body ]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %body, label %end
body:
  %made = load ptr, Output.made of %output[%k]
  call void @Py_DecRef(ptr %made)
  %k.next = add i64 %k, 1
  br label %loop
end:
  ret void
}}
"""

_RUN = """
define internal i32 @run(ptr %spec) alwaysinline {{
entry:
  %frame = load ptr, Spec.frame of %spec
  %guarded = load i64, Spec.guarded of %spec
  %long = icmp ne i64 %guarded, 0
  br i1 %long, label %who, label %plain
who:
  %me = call i64 @PyThread_get_thread_ident()
  %main = load i64, ptr @mlcnb_main_thread
  %is.main = icmp eq i64 %me, %main
  br i1 %is.main, label %guard, label %plain
guard:
  %thread.1 = call ptr @PyEval_SaveThread()
  %status.1 = call i32 @{guarded}(ptr %frame)
  call void @PyEval_RestoreThread(ptr %thread.1)
  ret i32 %status.1
plain:
  %thread.2 = call ptr @PyEval_SaveThread()
  %status.2 = call i32 @mlcnb_run_frame(ptr %frame)
  call void @PyEval_RestoreThread(ptr %thread.2)
  ret i32 %status.2
}}

; the answer to a call that went well, which takes the results; null with an error set
define internal ptr @answer(ptr %spec, i64 %outputs, ptr %output) {{
entry:
  %form = load i64, Spec.form of %spec
  switch i64 %form, label %nothing [ i64 {one}, label %only  i64 {tuple}, label %several ]
nothing:
  call void @Py_IncRef(ptr @mlcnb_none)
  ret ptr @mlcnb_none
only:
  %made = load ptr, Output.made of %output
  ret ptr %made
several:
  %tuple = call ptr @PyTuple_New(i64 %outputs)
  %none = icmp eq ptr %tuple, null
  br i1 %none, label %failed, label %loop
loop:
  %k = phi i64 [ 0, %several ], [ %k.next, %body ]
  %more = icmp slt i64 %k, %outputs
  br i1 %more, label %body, label %end
body:
  %item = load ptr, Output.made of %output[%k]
  %set = call i32 @PyTuple_SetItem(ptr %tuple, i64 %k, ptr %item)
  %k.next = add i64 %k, 1
  br label %loop
end:
  ret ptr %tuple
failed:
  call void @drop_all(ptr %output, i64 %outputs)
  ret ptr null
}}

; what `fail(status)` gives
define internal ptr @failure(ptr %spec, i32 %status) {{
  %fail = load ptr, Spec.fail of %spec
  %wide = sext i32 %status to i64
  %number = call ptr @PyLong_FromLong(i64 %wide)
  %none = icmp eq ptr %number, null
  br i1 %none, label %failed, label %ask
ask:
  %said = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %fail, ptr %number, ptr null)
  call void @Py_DecRef(ptr %number)
  ret ptr %said
failed:
  ret ptr null
}}
"""

_ENTRY = """
define ptr @mlcnb_entry(ptr %self, ptr %args, i64 %n) {{
entry:
  %spec = call ptr @data_of(ptr %self)
  %inputs = load i64, Spec.inputs of %spec
  %input = load ptr, Spec.input of %spec
  %as.many = icmp eq i64 %n, %inputs
  br i1 %as.many, label %check, label %miss
check:
  %k = phi i64 [ 0, %entry ], [ %k.next, %check.one ]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %check.one, label %apart
check.one:
  %arg = load ptr, ptr %k of %args
  %wanted = getelementptr %Input, ptr %input, i64 %k
  %fits = call i1 @fits(ptr %arg, ptr %wanted)
  %k.next = add i64 %k, 1
  br i1 %fits, label %check, label %miss
apart:
  %shared = call i1 @overlaps(ptr %spec, ptr %args)
  br i1 %shared, label %miss, label %pool
pool:
  %ready = load atomic i32, ptr @mlcnb_ready monotonic, align 4
  %is.ready = icmp ne i32 %ready, 0
  br i1 %is.ready, label %take, label %miss
take:
  %taken = cmpxchg ptr %spec, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{ i64, i1 }} %taken, 1
  br i1 %mine, label %fill, label %miss
miss:
  call void @Py_IncRef(ptr @mlcnb_not_implemented)
  ret ptr @mlcnb_not_implemented
fill:
  %i = phi i64 [ 0, %take ], [ %i.next, %fill.one ]
  %more.args = icmp slt i64 %i, %n
  br i1 %more.args, label %fill.one, label %results
fill.one:
  %data = call ptr @begin(ptr %args, i64 %i)
  %slots = load i64, Input.slots of %input[%i]
  %slot = load ptr, Input.slot of %input[%i]
  call void @patch(ptr %data, i64 %slots, ptr %slot)
  %i.next = add i64 %i, 1
  br label %fill
results:
  %outputs = load i64, Spec.outputs of %spec
  %output = load ptr, Spec.output of %spec
  br label %result
result:
  %o = phi i64 [ 0, %results ], [ %o.next, %result.one ]
  %more.results = icmp slt i64 %o, %outputs
  br i1 %more.results, label %result.one, label %go
result.one:
  %place = getelementptr %Output, ptr %output, i64 %o
  %made = call ptr @make(ptr %place)
  %o.next = add i64 %o, 1
  %is.null = icmp eq ptr %made, null
  br i1 %is.null, label %no.memory, label %result
no.memory:
  call void @drop_all(ptr %output, i64 %o)
  store atomic i64 0, ptr %spec release, align 8
  ret ptr null
go:
  %status = call i32 @run(ptr %spec)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %well, label %badly
well:
  %said = call ptr @answer(ptr %spec, i64 %outputs, ptr %output)
  store atomic i64 0, ptr %spec release, align 8
  ret ptr %said
badly:
  call void @drop_all(ptr %output, i64 %outputs)
  %error = call ptr @failure(ptr %spec, i32 %status)
  store atomic i64 0, ptr %spec release, align 8
  ret ptr %error
}}
"""


def source(fields: Fields, guarded: str) -> str:
    """The IR for a Python whose arrays have these fields.

    guarded: the function that runs a frame with care for Ctrl-C.
    """
    known = {
        **fields._asdict(),
        "guarded": guarded,
        "warns": WARNS - (1 << 32),
        "alignment": ALIGNMENT,
        "gap": ALIGNMENT - 1,
        "carray": PLAIN | WRITEABLE,
        "one": ONE,
        "tuple": TUPLE,
    }
    text = "".join(part.format(**known) for part in (_DECLARE, _CHECK, _PATCH, _RUN, _ENTRY))
    return expanded(text, {"Spec": SPEC, "Input": INPUT, "Output": OUTPUT})
