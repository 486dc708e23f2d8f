"""What a tensor expression is written with: placeholder, compute, reduce_axis, extern, var."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlcnb.core.errors import MLCError, UnsupportedDtypeError
from mlcnb.core.node import rewrite, walk
from mlcnb.core.recursion import roomy
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype as _dtype
from mlcnb.ir.expr import IntImm, PrimExpr, Range, SizeVar, Var
from mlcnb.te.tensor import ComputeOp, ExternOp, PlaceholderOp, ScanOp, Tensor, marked, want_tensors
from mlcnb.tir.buffer import Buffer, decl_buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute
from mlcnb.tir.renew import renew_defs
from mlcnb.tir.stmt import BlockRealize, Evaluate, IterType, IterVar, Reduce, Stmt

const = p.const
#: what NumPy and Python's `math` say of an expression
_OF_NUMBERS = re.compile(r"of ufunc|must be real number|float\(\) argument")


def var(name: str = "tindex", dtype: Any = "int32") -> Var:
    """A scalar variable: a symbolic dimension, a scalar parameter; a pointer of an `ir` type.

    Raises:
        UnsupportedDtypeError: there is no such dtype.
    """
    return Var(name, dtype)


def size_var(name: str = "size", dtype: str = "int32") -> Var:
    """A variable that is known to be >= 0.

    Of an integer dtype: a dimension of a shape.

    Raises:
        UnsupportedDtypeError: there is no such dtype.
    """
    return SizeVar(name, _dtype(dtype))


def as_shape(shape: Any) -> tuple[PrimExpr, ...]:
    """A shape in its form here: static extents are int32 where they fit, whatever they were."""
    dims = shape if isinstance(shape, Sequence) else (shape,)
    return tuple(_dim(d) for d in dims)


def _dim(x: Any) -> PrimExpr:
    dim = p.as_expr(x)
    if isinstance(dim, IntImm):
        return p.const(dim.value)
    if not dim.dtype.is_integer:
        raise MLCError(f"a dimension must be an integer, got {dim.dtype}")
    return dim


def placeholder(shape: Any, dtype: str = "float32", name: str = "placeholder") -> Tensor:
    """A tensor that is given from outside: a parameter of the function to be.

    Dimensions are numbers or expressions of `te.var`; numbers become int32 where they fit.

    Raises:
        MLCError: a dimension is no integer.
        UnsupportedDtypeError: there is no such dtype.
    """
    try:
        known = _dtype(str(dtype))
    except UnsupportedDtypeError as error:
        hint = f"te.placeholder(shape, dtype, name): is it a name? name={str(dtype)!r}"
        raise UnsupportedDtypeError(error.message, hint=hint) from None
    return PlaceholderOp(name, as_shape(shape), known).output(0)


def reduce_axis(dom: Any, name: str = "rv") -> IterVar:
    """An axis to reduce over.

    Args:
        dom: `(begin, end)` or a Range.
        name: name of its variable.

    Raises:
        MLCError: an end of it is no integer.
    """
    if isinstance(dom, Range):
        begin, extent = dom.min, dom.extent
    else:
        try:
            low, high = dom
        except (TypeError, ValueError) as error:
            raise MLCError(
                f"reduce_axis: {dom!r} is no (begin, end)", hint="write te.reduce_axis((0, k))"
            ) from error
        begin, extent = _dim(low), _dim(p.subtract(high, low))
    kind = max(begin.dtype, extent.dtype, key=lambda d: d.bits)
    domain = Range(p.fitted(kind, begin), p.fitted(kind, extent))
    return IterVar(domain, Var(name, kind), IterType.REDUCE)


def thread_axis(dom: Any = None, tag: str = "", name: str = "") -> IterVar:
    """A GPU thread index: `thread_axis("threadIdx.x")`, `thread_axis((0, 32), "threadIdx.x")`.

    Its variable is int32, or of the dtype of the extent that is given.

    Args:
        dom: `(begin, end)`, a Range, a number of threads, or nothing where a launch says it.
        tag: name of the hardware axis; may stand in the place of `dom`.
        name: name of the variable; `tag` where it is not given.

    Raises:
        MLCError: `dom` is none of these, or tag or name is no text.
    """
    if not (isinstance(tag, str) and isinstance(name, str)):
        raise MLCError(f"thread_axis: tag {tag!r} and name {name!r} must be text")
    if isinstance(dom, str):
        dom, tag, name = None, dom, name or tag
    domain = _domain(dom)
    return IterVar(domain, Var(name or tag, domain.extent.dtype), IterType.THREAD, tag)


def _domain(dom: Any) -> Range:
    if isinstance(dom, Range):
        return dom
    both = tuple(dom) if isinstance(dom, tuple | list) else (0, 1 if dom is None else dom)
    if len(both) != 2:
        raise MLCError(f"thread_axis: {dom!r} is no (begin, end)")
    low, high = both
    first, end = p.match_dtypes(low, high)
    return Range(first, p.subtract(end, first))


@roomy
def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """A tensor whose element at (i, j, …) is `fcompute(i, j, …)`.

    Args:
        shape: extents; `()` for a tensor with one element and no dimension.
        fcompute: from index variables to an expression, or to a tuple of them for several outputs.
            Its argument names become the names of the axes; `*args` become i0, i1, ….
            Arguments with a default are left alone.
        name: name of the tensor and of its block.
        tag: free for the caller.
        attrs: annotations of the block.
        varargs_names: names of the axes that `*args` take.

    Returns:
        A Tensor, or a tuple of Tensors where fcompute returned a tuple.

    Raises:
        MLCError: fcompute takes another number of indices, or a reduction is not the whole body.
    """
    extents = as_shape(shape)
    axes = tuple(
        IterVar(Range(p.const(0, extent.dtype), extent), Var(axis, extent.dtype))
        for axis, extent in zip(
            _axis_names(fcompute, len(extents), name, varargs_names), extents, strict=True
        )
    )
    made = _body(name, fcompute, [axis.var for axis in axes])
    several = isinstance(made, tuple | list)
    body = tuple(p.as_expr(x) for x in (made if several else (made,)))
    _check_reductions(name, body)
    op = ComputeOp(name, axes, body, *marked(name, tag, attrs))
    outputs = tuple(op.output(i) for i in range(len(body)))
    return outputs if several else outputs[0]


def _body(name: str, fcompute: Callable[..., Any], variables: list[Var]) -> Any:
    """What the function of indices gives; functions of NumPy and `math` know no expressions."""
    try:
        return fcompute(*variables)
    except TypeError as error:
        if not _OF_NUMBERS.search(str(error)):
            raise
        raise MLCError(
            f"compute {name}: a function of numbers got a symbolic expression: {error}",
            hint="te has its own of that name: te.exp(x), te.sqrt(x), te.max(a, axis=k)",
        ) from error


def _axis_names(
    fcompute: Callable, ndim: int, name: str, varargs_names: Sequence[str] | None
) -> list[str]:
    try:
        spec = inspect.signature(fcompute).parameters.values()
    except (TypeError, ValueError) as error:
        raise MLCError(
            f"compute {name}: {fcompute!r} is no function of indices",
            hint="te.compute(shape, lambda i, j: A[i, j] + 1)",
        ) from error
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [x.name for x in spec if x.kind in kinds and x.default is x.empty]
    takes_more = [x for x in spec if x.kind is x.VAR_POSITIONAL]
    rest = ndim - len(positional)
    if rest == 0:
        return positional
    if rest < 0 or not takes_more:
        raise MLCError(
            f"compute {name}: the shape has {ndim} dimensions, the function takes "
            f"{len(positional)} ({', '.join(positional)})",
            hint="one argument for each dimension: te.compute((n, m), lambda i, j: A[i, j])",
        )
    if varargs_names is not None:
        if len(varargs_names) != rest:
            raise MLCError(f"compute {name}: {rest} names are needed in varargs_names")
        return positional + list(varargs_names)
    return positional + [f"i{i}" for i in range(rest)]


def _check_reductions(name: str, body: tuple[PrimExpr, ...]) -> None:
    hint = "give the reduction a compute of its own, and read its result"
    for x in body:
        inside = x.source + (x.condition,) if isinstance(x, Reduce) else (x,)
        if any(isinstance(n, Reduce) for part in inside for n in walk(part)):
            raise MLCError(f"compute {name}: a reduction must be the whole expression", hint=hint)
    reductions = [x for x in body if isinstance(x, Reduce)]
    if not reductions:
        return
    first = reductions[0]
    same = all(x.combiner is first.combiner and x.source is first.source for x in reductions)
    if len(reductions) != len(body) or not same:
        raise MLCError(f"compute {name}: several outputs must be one reduction", hint=hint)


def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[[Sequence[Buffer], Sequence[Buffer]], Stmt],
    name: str = "extern",
    dtype: Any = "float32",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Tensors filled by a statement that you write: what no `compute` can say (a scan, a sort).

    Args:
        shape: one shape, or a list of shapes for several outputs.
        inputs: the tensors that are read.
        fcompute: from input buffers and output buffers to the statement, or to a call: a buffer
            among its arguments is a pointer to its elements.
        name: name of the block.
        dtype: one dtype, or a list of them.
        tag: free for the caller.
        attrs: annotations of the block.

    Raises:
        MLCError: `fcompute` gives no statement and no call, an input is no tensor, or shapes and
            dtypes differ in number.
    """
    want_tensors(f"extern {name}", inputs)
    several = isinstance(shape, Sequence) and any(isinstance(s, tuple | list) for s in shape[:1])
    shapes = [as_shape(s) for s in (shape if several else [shape])]
    kinds = list(dtype) if isinstance(dtype, tuple | list) else [dtype] * len(shapes)
    ins = tuple(decl_buffer(t.shape, t.dtype, t.name) for t in inputs)
    if len(kinds) != len(shapes):
        raise MLCError(f"extern {name}: {len(shapes)} shapes and {len(kinds)} dtypes")
    names = [f"{name}_v{i}" for i in range(len(shapes))] if several else [name]
    outs = tuple(decl_buffer(s, str(k), n) for s, k, n in zip(shapes, kinds, names, strict=True))
    made_by: Any = fcompute(ins, outs)
    body = Evaluate(made_by) if isinstance(made_by, PrimExpr) else made_by
    if not isinstance(body, Stmt):
        raise MLCError(f"extern {name}: a statement or a call is wanted, not {body!r}")
    op = ExternOp(name, tuple(inputs), ins, outs, body, *marked(name, tag, attrs))
    made = tuple(op.output(i) for i in range(len(outs)))
    return made if several else made[0]


def extern_primfunc(input_tensors: Sequence[Tensor], primfunc: PrimFunc, **options: Any) -> Any:
    """Tensors that a loop function fills: its first buffers are read, the others are the results.

    Args:
        input_tensors: one for each buffer that is read, of the same shape and dtype.
        primfunc: the function.
        options: as of `extern`.

    Raises:
        MLCError: the inputs are not the first buffers of the function, or it is no PrimFunc.
    """
    if not isinstance(primfunc, PrimFunc):
        raise MLCError(f"extern_primfunc: {primfunc!r} is no PrimFunc")
    want_tensors("extern_primfunc", input_tensors)
    taken, made = _sides(input_tensors, primfunc)

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        values: dict[Any, Any] = {}
        for old, new in zip((*taken, *made), (*ins, *outs), strict=True):
            values[old], values[old.data] = new, new.data
            for a, b in zip(old.shape, new.shape, strict=True):
                if isinstance(a, Var):
                    values[a] = b
        inside = renew_defs(primfunc)
        fresh = dict(zip((*primfunc.buffers,), inside.buffers, strict=True))
        values |= {fresh[old]: values[old] for old in fresh}
        values |= {fresh[old].data: values[old.data] for old in fresh}
        for old, new in fresh.items():
            pairs = zip(new.shape, values[old].shape, strict=True)
            values |= {a: b for a, b in pairs if isinstance(a, Var)}
        return rewrite(_inner(inside.body), lambda _n: None, enter=values.get)

    shapes = [_given_shape(b, taken, input_tensors) for b in made]
    kinds = [str(b.dtype) for b in made]
    name = str(primfunc.attrs.get("global_symbol", "extern"))
    given = {"name": name, **options}
    found = extern(shapes, input_tensors, body, dtype=kinds, **given)
    return found[0] if len(made) == 1 else found


def _sides(
    inputs: Sequence[Tensor], func: PrimFunc
) -> tuple[tuple[Buffer, ...], tuple[Buffer, ...]]:
    buffers = func.buffers
    taken, made = buffers[: len(inputs)], buffers[len(inputs) :]
    for tensor, buffer in zip(inputs, taken, strict=False):
        if tensor.dtype != buffer.dtype or tensor.ndim != buffer.ndim:
            raise MLCError(
                f"extern_primfunc: {buffer.name} is {buffer.dtype} with {buffer.ndim} dimensions, "
                f"and is given {tensor.name}, {tensor.dtype} with {tensor.ndim}"
            )
    if not made or len(taken) < len(inputs) or len(buffers) != len(func.params):
        raise MLCError(
            f"extern_primfunc: {len(inputs)} inputs, and the function has {len(buffers)} buffers "
            f"among {len(func.params)} parameters",
            hint="its parameters are the inputs, then the results",
        )
    return taken, made


def _given_shape(
    buffer: Buffer, taken: Sequence[Buffer], inputs: Sequence[Tensor]
) -> tuple[Any, ...]:
    """The shape of a result, where its symbols are those of the inputs."""
    known = {
        a: b
        for old, new in zip(taken, inputs, strict=True)
        for a, b in zip(old.shape, new.shape, strict=True)
        if isinstance(a, Var)
    }
    return tuple(substitute(dim, known) for dim in buffer.shape)


def _inner(body: Stmt) -> Stmt:
    """What is in the root block, where that block holds nothing else."""
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        if not body.block.alloc_buffers and body.block.name_hint == "root":
            return body.block.body
    return body


def scan(
    init: Any,
    update: Any,
    state_placeholder: Any,
    inputs: Sequence[Tensor] = (),
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """TVM's `te.scan`: a tensor, for which `create_prim_func` has no loops, there as here.

    A result has the shape and dtype of its state.

    Args:
        init: what the first steps are, one tensor or several.
        update: a step from the one before.
        state_placeholder: stands for the result in `update`.
        inputs: what else it reads.
        name: name of the operation.
        tag: free for the caller.
        attrs: kept for TVM's sake.

    Raises:
        MLCError: starts, steps and states differ in number, or are no tensors.
    """
    several = isinstance(init, tuple | list)
    first, step, state = (
        tuple(x) if isinstance(x, tuple | list) else (x,) for x in (init, update, state_placeholder)
    )
    if not len(first) == len(step) == len(state):
        raise MLCError(
            f"scan {name}: {len(first)} starts, {len(step)} steps and {len(state)} states"
        )
    reads = () if inputs is None else tuple(inputs)
    want_tensors(f"scan {name}", [*first, *step, *state, *reads])
    op = ScanOp(name, first, step, state, reads)
    made = tuple(op.output(i) for i in range(len(state)))
    return made if several else made[0]
