"""The words of T that are lines of a program: loops, blocks, buffers, attributes.

Each gives a frame (`mlcnb.script.frames`) that the parser turns into a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.core.errors import MLCError, as_name
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype as dtype_of
from mlcnb.ir.expr import Var
from mlcnb.script import build, frames
from mlcnb.script.words import Namespace
from mlcnb.tir.buffer import Buffer as BufferNode
from mlcnb.tir.buffer import as_scope
from mlcnb.tir.buffer import decl_buffer as _decl_buffer
from mlcnb.tir.stmt import ForKind, IterType

Shape = Sequence[Any] | Any


def _loop(
    kind: ForKind, start: Any, stop: Any, annotations: Any, thread: Any = None, step: Any = None
) -> Any:
    if stop is None:
        start, stop = 0, start
    notes = frames.named_values(annotations or {})
    return frames.Loops([frames.Loop(start, stop, kind, thread, notes, step)])


def grid(*extents: Any) -> frames.Loops:
    """A nest of serial loops: `for i, j in T.grid(4, 8):`; a pair is a start and a stop."""
    pairs = [x if isinstance(x, tuple | list) else (0, x) for x in extents]
    return frames.Loops([frames.Loop(*pair) for pair in pairs])


def _plain_loop(kind: ForKind, name: str, meaning: str) -> Callable[..., frames.Loops]:
    def loop(
        start: Any, stop: Any = None, *, annotations: Any = None, step: Any = None
    ) -> frames.Loops:
        return _loop(kind, start, stop, annotations, step=step)

    loop.__name__ = loop.__qualname__ = name
    loop.__doc__ = meaning
    return loop


serial = _plain_loop(ForKind.SERIAL, "serial", "A serial loop, as `range`.")
parallel = _plain_loop(
    ForKind.PARALLEL, "parallel", "A loop whose iterations run on several threads."
)
vectorized = _plain_loop(
    ForKind.VECTORIZED, "vectorized", "A loop whose iterations are the lanes of vectors."
)
unroll = _plain_loop(ForKind.UNROLLED, "unroll", "A loop that is written out.")


def thread_binding(
    start: Any, stop: Any = None, thread: str | None = None, *, annotations: Any = None
) -> frames.Loops:
    """A loop over a GPU axis: `T.thread_binding(8, thread="threadIdx.x")`."""
    if isinstance(stop, str):
        stop, thread = None, stop
    return _loop(ForKind.THREAD_BINDING, start, stop, annotations, thread)


def block(name: str = "", no_realize: bool = False, exec_scope: str = "") -> frames.BlockHead:
    """A block: `with T.block("C"):`"""
    return frames.BlockHead(as_name(name, "the name of a block"))


def init() -> frames.Init:
    """What starts a reduction: `with T.init():`"""
    return frames.Init()


def where(predicate: Any) -> frames.Where:
    """The block runs where the predicate holds."""
    return frames.Where(predicate)


def _listed(regions: tuple) -> tuple:
    is_list = len(regions) == 1 and isinstance(regions[0], list | tuple)
    return tuple(regions[0]) if is_list else regions


def reads(*regions: Any) -> frames.Regions:
    """The regions that the block reads."""
    return frames.Regions(False, _listed(regions))


def writes(*regions: Any) -> frames.Regions:
    """The regions that the block writes."""
    return frames.Regions(True, _listed(regions))


def block_attr(attrs: dict[str, Any]) -> frames.BlockAttr:
    """Annotations of the block."""
    return frames.BlockAttr(frames.named_values(attrs))


def func_attr(attrs: dict[str, Any]) -> frames.FuncAttr:
    """Attributes of the function."""
    return frames.FuncAttr(frames.named_values(attrs))


def _axis(kind: IterType, name: str) -> Any:
    def axis(dom: Any, value: Any = None, dtype: str = "int32") -> frames.Axis:
        if value is None:
            raise MLCError(
                f"T.axis.{name} takes the extent and the value",
                hint=f"v = T.axis.{name}(128, i), where i runs over 128",
            )
        dtype_of(dtype)
        return frames.Axis(kind, dom, value)

    axis.__name__ = name
    axis.__doc__ = f"A {name} axis of the block: domain (extent, or a pair) and value."
    return axis


def remap(kinds: str, bindings: Sequence[Any], dtype: str = "int32") -> frames.Remap:
    """Axes that each take a whole loop: `vi, vj = T.axis.remap("SR", [i, j])`."""
    dtype_of(dtype)
    return frames.Remap(kinds, list(bindings))


_AXES = {k.name.lower(): k for k in IterType} | {"S": IterType.SPATIAL, "R": IterType.REDUCE}
axis = Namespace("T.axis", {n: _axis(k, n) for n, k in _AXES.items()} | {"remap": remap})


def buffer_of(
    shape: Shape,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 64,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
    **extra: Any,
) -> BufferNode:
    """A buffer of these dimensions and options."""
    dims = shape if isinstance(shape, list | tuple) else (shape,)
    kind = str(getattr(dtype, "dtype", dtype))
    if not isinstance(data, Var | None):
        data = None
    return _decl_buffer(
        [_dim(d) for d in dims],
        kind,
        "buffer",
        "global" if scope == "" else scope,
        data=data,
        strides=[_dim(d) for d in strides or ()],
        elem_offset=None if elem_offset is None else _dim(elem_offset),
        data_alignment=64 if align in (-1, 0) else align,
        offset_factor=offset_factor,
        axis_separators=tuple(axis_separators or ()),
    )


def _dim(value: Any) -> Any:
    if isinstance(value, str):
        return frames.DimString(value)
    if hasattr(value, "__constraints__"):  # a TypeVar, which 0.27 uses for symbolic dimensions
        return frames.DimString(value.__name__)
    return build.as_expr(value)


def Buffer(shape: Shape, dtype: Any = "float32", *args: Any, **options: Any) -> BufferNode:
    """A buffer: the annotation of a parameter, `A: T.Buffer((128,), "float32")`."""
    return buffer_of(shape, dtype, *args, **options)


def alloc_buffer(shape: Shape, dtype: Any = "float32", *args: Any, **options: Any) -> Any:
    """A buffer that lives in the block (or function) where this line stands."""
    return frames.AllocBuffer(buffer_of(shape, dtype, *args, **options))


def match_buffer(
    param: Any, shape: Shape = None, dtype: Any = "float32", *args: Any, **options: Any
) -> Any:
    """Another view of a region, or the buffer behind a handle parameter."""
    if shape is None:
        if isinstance(param, Var):
            raise MLCError(f"T.match_buffer of the handle {param.name} says the shape")
        region = param.as_region() if isinstance(param, frames.Sliced) else param
        shape = [r.extent for r in region.region]
        dtype = region.buffer.dtype
    return frames.MatchBuffer(param, buffer_of(shape, dtype, *args, **options))


def decl_buffer(
    shape: Shape, dtype: Any = "float32", data: Any = None, *args: Any, **options: Any
) -> frames.DeclareBuffer:
    """A view of memory that `data` points to; without `data`, memory is allocated."""
    buffer = buffer_of(shape, dtype, data, *args, **options)
    return frames.DeclareBuffer(buffer, data is None)


def alloc_local(shape: Shape, dtype: Any = "float32", **options: Any) -> frames.DeclareBuffer:
    """Memory of one thread: a word of 0.27."""
    return frames.DeclareBuffer(buffer_of(shape, dtype, scope="local", **options), True)


def alloc_shared(shape: Shape, dtype: Any = "float32", **options: Any) -> frames.DeclareBuffer:
    """Memory of one block of threads: a word of 0.27."""
    return frames.DeclareBuffer(buffer_of(shape, dtype, scope="shared", **options), True)


def allocate(
    extents: Sequence[Any],
    dtype: Any,
    scope: str = "global",
    condition: Any = None,
    annotations: Any = None,
) -> frames.AllocateMemory:
    """Memory, as a pointer."""
    kind = str(getattr(dtype, "dtype", dtype))
    holds = p.const(True) if condition is None else condition
    notes = frames.named_values(annotations or {})
    return frames.AllocateMemory(tuple(extents), kind, as_scope(scope), holds, notes)


def allocate_const(
    data: Any, dtype: Any, extents: Sequence[Any], annotations: Any = None
) -> frames.AllocateMemory:
    """Memory that holds a constant, as a pointer: `T.allocate_const([1, 2, 3], "int32", [3])`"""
    made = allocate(extents, dtype, annotations=annotations)
    made.data = data
    return made


def LetStmt(value: Any, type_annotation: Any = None, *, var: Any = None) -> frames.LetValue:
    """`with T.LetStmt(value) as v:`, or `T.LetStmt(value, var=v)` for all that follows."""
    return frames.LetValue(value, type_annotation, var)


def attr(node: Any, attr_key: Any = None, value: Any = None) -> frames.Attr:
    """What follows, marked: `T.attr(A.data, "storage_alignment", 128)`."""
    if isinstance(node, dict):
        (attr_key, value), node = next(iter(node.items())), 0
    return frames.Attr(node, as_name(attr_key, "the key of an attribute"), value)


def env_thread(thread_tag: str, dtype: str = "int32") -> frames.EnvThread:
    """A GPU axis, to be launched with `T.launch_thread`."""
    return frames.EnvThread(as_name(thread_tag, "the tag of a thread"), dtype)


def launch_thread(thread: Any, extent: Any) -> frames.LaunchThread:
    """What follows runs on `extent` threads of an axis."""
    return frames.LaunchThread(thread, extent)


def Assert(condition: Any, message: Any) -> frames.Asserted:
    """`with T.Assert(condition, message):`"""
    return frames.Asserted(condition, message)


def evaluate(value: Any) -> frames.Effect:
    """A value for its effect."""
    return frames.Effect(value)
