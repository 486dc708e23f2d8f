"""Elements written by tensors of indices: scatter_elements, scatter_nd, index_put, slice_scatter;
ONNX's TensorScatter, new rows put into a cache, at a place of each sample's own.

    scatter_elements   out = x;  out[indices[i, j], j] = updates[i, j]        (axis 0)
    scatter_nd         out = x;  out[indices[i, 0], indices[i, 1]] = updates[i]
    TensorScatter      present[b, …, write_indices[b] + s, …] = update[b, …, s, …]

Updates are applied one after another, in row-major order: where indices repeat, the last one wins.
Negative indices count from the end; one that is outside even so is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import all_of, as_int, if_then_else, maximum, minimum
from mlcnb.ir.rules import rule
from mlcnb.op._dims import (
    axis_at,
    broadcast_dims,
    broadcast_index,
    refuse,
    size,
    tell,
    tidy,
    unfit,
    want_axis,
    want_same_dtype,
    want_within,
)
from mlcnb.op._loops import load, nest, store
from mlcnb.op._spell import Formula, call, place_of
from mlcnb.op.indexing.take import want_inside, want_integers
from mlcnb.op.manipulate.broadcast import BroadcastTo
from mlcnb.op.manipulate.reshape import Reshape
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.analysis.struct_info import same_dims
from mlcnb.relax.expr import Call, Expr, const
from mlcnb.relax.operator import OpDecl, Scalar, Tensor, Tensors, called, make_call, operator
from mlcnb.tir.index_check import checked_from_end, inside
from mlcnb.tir.stmt import Stmt, seq

#: how a new value and the old one become one: expressions, and the NumPy ufunc
COMBINE: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "update": (lambda old, new: new, None),
    "add": (lambda old, new: old + new, np.add),
    "mul": (lambda old, new: old * new, np.multiply),
    "min": (minimum, np.minimum),
    "max": (maximum, np.maximum),
}


def _check(op: Any, x: Any, indices: Any, updates: Any) -> None:
    want_integers(op, indices)
    want_same_dtype(op, x=x, updates=updates)
    if op.reduction not in COMBINE:
        refuse(op, f"no reduction {op.reduction!r}", hint=f"one of {', '.join(COMBINE)}")


def _apply(out: np.ndarray, place: tuple, updates: np.ndarray, reduction: str) -> np.ndarray:
    """`out` with the updates at `place` (arrays of indices)."""
    ufunc = COMBINE[reduction][1]
    if ufunc is None:
        out[place] = updates
    else:
        ufunc.at(out, place, updates)
    return out


def _scatter(
    op: Any, x: Any, updates: Any, read: Sequence[Any], place: Callable[..., Any], name: str
) -> Any:
    """An extern that copies `x`, then puts each update where `place(buffers, index)` says.

    read: the tensors of indices; place gives one index a dimension.
    """

    def body(ins: Sequence[Any], outs: Sequence[Any]) -> Stmt:
        source, news, *rest = ins
        out = outs[0]
        copy = nest(x.shape, lambda *i: store(out, i, load(source, *i) if i else source[()]))

        def put(*index: Any) -> Stmt:
            at = place(rest, index)
            value = COMBINE[op.reduction][0](load(out, *at), load(news, *index))
            return store(out, at, value)

        return seq(copy, nest(updates.shape, put))

    return te.extern(x.shape, [x, updates, *read], body, name=name, dtype=str(x.dtype))


@operator("relax.scatter_elements")
class ScatterElements(OpDecl):
    """`x` with each update put where `indices` says along `axis`.

    reduction: update (the default), or add, mul, min, max with what is there.
    Semantics: https://onnx.ai/onnx/operators/onnx__ScatterElements.html
    """

    x: Tensor
    indices: Tensor
    updates: Tensor
    axis: int = 0
    reduction: str = "update"

    @rule("SimplifyOps", "scatter_elements")
    def simplified(self, call: Call, value_of: Any) -> Any:
        """An index that is the same for a whole row is one of scatter_nd, which moves rows."""
        x, indices, updates = call.args
        wide: Any = value_of(indices)
        if called(wide) is not BroadcastTo:
            return None
        index = wide.args[0]
        infos: list[Any] = [v.struct_info for v in (x, indices, index)]
        rest, want, dims = (list(info.dims or ()) for info in infos)
        if not 2 <= len(dims) == len(want) == len(rest) or self.axis not in (0, -len(rest)):
            return None
        if not same_dims(want, [dims[0], *rest[1:]]) or any(as_int(d) != 1 for d in dims[1:]):
            return None
        column = make_call(Reshape, index, [dims[0], 1])
        return make_call(ScatterNd, x, column, updates, reduction=self.reduction)

    def infer(self, x: Any, indices: Any, updates: Any) -> Any:
        """Like x."""
        _check(self, x, indices, updates)
        for info in (indices, updates):
            if -1 not in (x.ndim, info.ndim) and info.ndim != x.ndim:
                refuse(self, f"{tell(info)} has not as many dimensions as {tell(x)}")
        if unfit(indices.dims, updates.dims):
            refuse(self, f"indices are {tell(indices)}, but updates are {tell(updates)}")
        if x.ndim != -1:
            want_within(self, indices, x, axis_at(self, self.axis, x.ndim, x))
        return x

    def numpy(self, x: Any, indices: Any, updates: Any) -> Any:
        """NumPy's indexing with arrays, or ufunc.at"""
        place, axis = list(np.indices(indices.shape, sparse=True)), self.axis % x.ndim
        extent = x.shape[axis]
        place[axis] = inside(indices, -extent, extent, "scatter_elements: indices")
        return _apply(np.array(x), tuple(place), updates, self.reduction)

    def compute(self, x: Any, indices: Any, updates: Any) -> Any:
        """A copy, then one serial loop over the updates."""
        axis = self.axis % len(x.shape)

        def place(rest: Any, index: tuple) -> list[Any]:
            read = load(rest[0], *index)
            at = checked_from_end(read, x.shape[axis], "scatter_elements: indices")
            return [at if i == axis else v for i, v in enumerate(index)]

        return _scatter(self, x, updates, [indices], place, "scatter_elements")

    def flops(self, x: Any, indices: Any, updates: Any) -> Any:
        """One for each update that is combined."""
        return 0 if self.reduction == "update" else size(updates)


@operator("relax.scatter_nd")
class ScatterNd(OpDecl):
    """`x` with each update put where a row of `indices` (its last dimension) says.

    reduction: update (the default), or add, mul, min, max with what is there.
    Semantics: https://onnx.ai/onnx/operators/onnx__ScatterND.html
    """

    x: Tensor
    indices: Tensor
    updates: Tensor
    reduction: str = "update"

    def infer(self, x: Any, indices: Any, updates: Any) -> Any:
        """Like x."""
        _check(self, x, indices, updates)
        if x.dims is None or indices.dims is None or updates.dims is None:
            return x
        depth = as_int(indices.dims[-1]) if indices.dims else None
        if depth is None or depth > x.ndim:
            refuse(
                self, f"the last dimension of indices, {tell(indices)}, does not index {tell(x)}"
            )
        want = [*indices.dims[:-1], *x.dims[depth:]]
        if unfit(want, updates.dims):
            refuse(
                self,
                f"updates are {tell(updates)}, which does not fit {tell(indices)} of {tell(x)}",
            )
        return x

    def numpy(self, x: Any, indices: Any, updates: Any) -> Any:
        """NumPy's indexing with arrays, or ufunc.at"""
        place = tuple(
            inside(indices, -x.shape[k], x.shape[k], "scatter_nd: indices", k)
            for k in range(indices.shape[-1])
        )
        if not place:
            raise IndexError("scatter_nd: indices name no dimension")
        return _apply(np.array(x), place, updates, self.reduction)

    def compute(self, x: Any, indices: Any, updates: Any) -> Any:
        """A copy, then one serial loop over the updates."""
        depth, lead = as_int(indices.shape[-1]) or 0, len(indices.shape) - 1

        def place(rest: Any, index: tuple) -> list[Any]:
            rows: list[Any] = [
                checked_from_end(
                    load(rest[0], *index[:lead], k), x.shape[k], "scatter_nd: indices", k
                )
                for k in range(depth)
            ]
            return rows + list(index[lead:])

        return _scatter(self, x, updates, [indices], place, "scatter_nd")

    def flops(self, x: Any, indices: Any, updates: Any) -> Any:
        """One for each update that is combined."""
        return 0 if self.reduction == "update" else size(updates)


@operator("relax.index_put")
class IndexPut(OpDecl):
    """`x` with `values` put at x[indices[0], indices[1], …], or with `accumulate` added to it.

    Semantics: https://pytorch.org/docs/stable/generated/torch.Tensor.index_put_.html
    """

    x: Tensor
    indices: Tensors
    values: Tensor
    accumulate: bool = False

    @property
    def reduction(self) -> str:
        """The name of what happens, in COMBINE."""
        return "add" if self.accumulate else "update"

    def infer(self, x: Any, indices: Any, values: Any) -> Any:
        """Like x."""
        for info in indices:
            _check(self, x, info, values)
        if x.ndim != -1 and len(indices) > x.ndim:
            refuse(self, f"{len(indices)} tensors of indices are too many for {tell(x)}")
        return x

    def numpy(self, x: Any, indices: Any, values: Any) -> Any:
        """NumPy's indexing with arrays, or ufunc.at"""
        shape = np.broadcast_shapes(*(i.shape for i in indices)) + x.shape[len(indices) :]
        places = tuple(
            np.broadcast_to(
                inside(i, -d, d, f"index_put: indices {n}"),
                shape[: len(shape) - x.ndim + len(indices)],
            )
            for n, (i, d) in enumerate(zip(indices, x.shape, strict=False))
        )
        spread = np.broadcast_to(values, shape)
        return _apply(np.array(x), places, spread, self.reduction)

    def compute(self, x: Any, indices: Any, values: Any) -> Any:
        """A copy, then one serial loop over the updates."""
        lead = broadcast_dims([t.shape for t in indices]) or ()
        shape = [*lead, *x.shape[len(indices) :]]
        spread = te.compute(
            shape, lambda *i: values(*broadcast_index(i, values.shape, shape)), name="values"
        )

        def place(rest: Any, index: tuple) -> list[Any]:
            front = index[: len(lead)]
            rows: list[Any] = [
                checked_from_end(
                    load(b, *broadcast_index(front, t.shape, lead)), d, f"index_put: indices {n}"
                )
                for n, (b, t, d) in enumerate(zip(rest, indices, x.shape, strict=False))
            ]
            return rows + list(index[len(lead) :])

        return _scatter(self, x, spread, list(indices), place, "index_put")


@operator("relax.slice_scatter")
class SliceScatter(OpDecl):
    """`x` with `src` in place of x[start:end:step] along `axis`; the bounds lie inside.

    Semantics: https://pytorch.org/docs/stable/generated/torch.slice_scatter.html
    """

    x: Tensor
    src: Tensor
    start: Scalar
    end: Scalar
    step: Scalar
    axis: int = 0

    def infer(self, x: Any, src: Any, start: Any, end: Any, step: Any) -> Any:
        """Like x."""
        want_same_dtype(self, x=x, src=src)
        want_axis(self, x)
        if -1 not in (x.ndim, src.ndim) and x.ndim != src.ndim:
            refuse(self, f"{tell(src)} has not as many dimensions as {tell(x)}")
        return x

    def numpy(self, x: Any, src: Any, start: Any, end: Any, step: Any) -> Any:
        """NumPy's assignment to a slice"""
        out, cuts = np.array(x), [slice(None)] * x.ndim
        cuts[self.axis] = slice(int(start), int(end), int(step))
        out[tuple(cuts)] = src
        return out

    def compute(self, x: Any, src: Any, start: Any, end: Any, step: Any) -> Any:
        """One copy, which asks for each element where it comes from."""
        axis = self.axis % len(x.shape)

        def source(*index: Any) -> Any:
            away = index[axis] - start
            hit = all_of(away >= 0, index[axis] < end, away % step == 0)
            new = src(*index[:axis], away // step, *index[axis + 1 :])
            return if_then_else(hit, new, x(*index))

        return te.compute(x.shape, source, name="slice_scatter")


def _reduction(n: OnnxNode) -> str:
    found = n.attr("reduction", "none")
    return "update" if found == "none" else found


@onnx("ScatterElements")
@onnx("Scatter")
def onnx_scatter_elements(n: OnnxNode, data: Expr, indices: Expr, updates: Expr) -> Expr:
    """scatter_elements; `reduction` since opset 16."""
    given = {"axis": n.attr("axis", 0), "reduction": _reduction(n)}
    dims = n.dims(data)
    if -len(dims) <= given["axis"] < len(dims):
        want_inside(n, indices, [dims[given["axis"]]])
    return make_call(ScatterElements, data, indices, updates, **given)


@onnx("ScatterND")
def onnx_scatter_nd(n: OnnxNode, data: Expr, indices: Expr, updates: Expr) -> Expr:
    """scatter_nd; `reduction` since opset 16."""
    depth = as_int((n.dims(indices) or [None])[-1]) or 0
    want_inside(n, indices, n.dims(data)[:depth], in_columns=True)
    return make_call(ScatterNd, data, indices, updates, reduction=_reduction(n))


@onnx("TensorScatter", since=24)
def onnx_tensor_scatter(
    n: OnnxNode, cache: Expr, update: Expr, write_indices: Expr | None = None
) -> Expr:
    """Said as a read: each place of the cache takes the update that belongs there, if any."""
    f, dims, mode = Formula(n, "int64"), n.dims(cache), n.attr("mode", "linear")
    axis = place_of(n, n.attr("axis", -2), dims)
    room, count = dims[axis], n.dims(update)[axis]
    if mode not in ("linear", "circular"):
        n.refuse(f"mode {mode!r} is neither linear nor circular")
    line = [room if i == axis else 1 for i in range(len(dims))]
    places = f.reshape(f.counted(room), line)
    first: Expr = const(np.zeros([1] * len(dims), np.int64))
    if write_indices is not None:
        first = f.reshape(write_indices, [dims[0], *[1] * (len(dims) - 1)])
        first = f.astype(first, dtype="int64")
    away = f.subtract(places, first)
    if mode == "circular":
        away = f.floor_mod(away, f.size_of(room))
    new = f.logical_and(f.greater_equal(away, 0), f.less(away, f.size_of(count)))
    inside = f.maximum(f.minimum(away, f.size_of(tidy(count - 1))), 0)
    read = f.gather_elements(update, f.broadcast_to(inside, list(dims)), axis=axis)
    return call("relax.where", new, read, cache)
