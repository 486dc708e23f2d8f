"""Another shape for the same elements, in the same order: reshape, flatten, expand_dims, squeeze.

    (2, 3, 4) -reshape-> (6, 4)        B[i, j] = A[i // 3, i % 3, j]

Where some dimensions stay together (above: the 4), they are indexed as they are, so the loop nest
shows no more division than there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.expr import Var
from mlcnb.ir.prim_ops import as_int, equal
from mlcnb.ir.prim_ops import const as number
from mlcnb.op._dims import (
    axes_at,
    differ,
    ints,
    product,
    ravel,
    refuse,
    same,
    tell,
    tell_dims,
    tensor,
    tidy,
    unravel,
)
from mlcnb.op._spell import axes_of, call, shape_of
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const, shape_expr
from mlcnb.relax.operator import OpDecl, Shape, Tensor, make_call, operator


@operator("relax.reshape")
class Reshape(OpDecl):
    """The elements of `x` in row-major order, in a new shape; one dimension may be -1.

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.reshape.html
    """

    view = moves = follows = True

    shape_argument = "shape"

    x: Tensor
    shape: Shape

    def infer(self, x: Any, shape: Any) -> Any:
        """Tensor of the new shape and x's dtype."""
        if shape.values is None:
            return tensor(None, x.dtype, shape.ndim)
        known = [d for d in map(as_int, shape.values) if d is not None]
        if min(known, default=0) < -1 or known.count(-1) > 1:
            refuse(self, f"{tell_dims(shape.values)} is no shape; one dimension may be -1")
        if x.dims is None:
            fixed = all(as_int(d) != -1 for d in shape.values)
            return tensor(shape.values if fixed else None, x.dtype, len(shape.values))
        target = fill_in(x.dims, shape.values)
        if target is None or differ(product(x.dims), product(target)):
            refuse(self, f"{tell(x)} does not fit into {tell_dims(shape.values)}")
        return tensor(target, x.dtype)

    def numpy(self, x: Any, shape: Any) -> Any:
        """numpy.reshape"""
        return np.reshape(x, shape)

    def compute(self, x: Any, shape: Any) -> Any:
        """One copy, whose reads undo the row-major numbering."""
        return regroup(x, fill_in(x.shape, shape) or tuple(shape), "reshape")


def fill_in(dims: Sequence[Any], target: Sequence[Any]) -> tuple[Any, ...] | None:
    """`target` with its -1 replaced by what makes the sizes equal; None where nothing does."""
    at = [i for i, d in enumerate(target) if as_int(d) == -1]
    if not at:
        return tuple(target)
    left, others = list(dims), []
    for d in (d for i, d in enumerate(target) if i != at[0]):
        place = next((i for i, x in enumerate(left) if x is d and isinstance(x, Var)), None)
        if place is None:
            others.append(d)
        else:
            del left[place]
    rest, total = product(others), product(left)
    if len(at) > 1 or as_int(rest) == 0 or as_int(tidy(total % rest)) not in (0, None):
        return None
    return tuple(tidy(total // rest) if i == at[0] else d for i, d in enumerate(target))


def regroup(x: Any, shape: Sequence[Any], name: str) -> Any:
    """The elements of te tensor `x`, in order, in another shape."""
    if any(as_int(d) == 0 for d in (*shape, *x.shape)):
        return te.compute(tuple(shape), lambda *_: number(0, x.dtype), name=name)
    cuts = groups(x.shape, shape)

    def source(*index: Any) -> Any:
        place: list[Any] = [0] * len(x.shape)
        for (a, b), (c, d) in cuts:
            flat = ravel(index[c:d], shape[c:d])
            place[a:b] = unravel(flat, x.shape[a:b])
        return x(*place)

    return te.compute(tuple(shape), source, name=name)


Cut = tuple[tuple[int, int], tuple[int, int]]


def groups(src: Sequence[Any], dst: Sequence[Any]) -> list[Cut]:
    """Both shapes cut into runs of equal size: (2, 3, 4) and (6, 4) at ((0, 2), (0, 1)), …"""
    front = 0
    while front < min(len(src), len(dst)) and same(src[front], dst[front]):
        front += 1
    back = 0
    while back < min(len(src), len(dst)) - front and same(src[-1 - back], dst[-1 - back]):
        back += 1
    head = [((i, i + 1), (i, i + 1)) for i in range(front)]
    s, d = len(src) - back, len(dst) - back
    tail = [((s + i, s + i + 1), (d + i, d + i + 1)) for i in range(back)]
    return head + _middle(src, dst, (front, s), (front, d)) + tail


def _middle(src: Sequence[Any], dst: Sequence[Any], s: tuple, d: tuple) -> list[Cut]:
    """As `groups`, for the part that differs: cut wherever the running products meet."""
    a, b = ints(src[s[0] : s[1]]), ints(dst[d[0] : d[1]])
    if a is None or b is None or 0 in a or 0 in b:
        return [(s, d)]
    cuts, i, j, one, two, start = [], 0, 0, 1, 1, (0, 0)
    while i < len(a) or j < len(b):
        if j == len(b) or (one <= two and i < len(a)):
            one, i = one * a[i], i + 1
        else:
            two, j = two * b[j], j + 1
        if one == two:
            cuts.append(((s[0] + start[0], s[0] + i), (d[0] + start[1], d[0] + j)))
            one, two, start = 1, 1, (i, j)
    return cuts


@onnx("Reshape")
def onnx_reshape(n: OnnxNode, data: Expr, shape: Expr | None = None) -> Expr:
    """0 keeps the input's dimension (unless `allowzero`), -1 is what is left."""
    dims = n.dims(data)
    if shape is not None and n.known(shape) is None:
        return make_call(Reshape, data, _target_of_data(n, dims, shape))
    target = shape_of(n, shape, "shape")
    if not n.attr("allowzero", 0):
        target = [_kept(n, dims, i) if as_int(d) == 0 else d for i, d in enumerate(target)]
    filled = fill_in(dims, target)
    if filled is None or differ(product(dims), product(filled)):
        n.refuse(f"{tell_dims(dims)} does not fit into {tell_dims(target)}")
    return make_call(Reshape, data, filled)


def _target_of_data(n: OnnxNode, dims: Sequence[Any], shape: Expr) -> list[Any]:
    """A shape that the run finds: its 0 and -1 are settled by tensors, then it is read."""
    count = as_int(n.dims(shape)[0]) if len(n.dims(shape)) == 1 else None
    if count is None:
        n.refuse("how many dimensions shape has is not known")
    wanted = n.emit(call("relax.astype", shape, dtype="int64"))
    if not n.attr("allowzero", 0):
        kept = shape_expr([dims[i] if i < len(dims) else 0 for i in range(count)])
        zero = n.emit(call("relax.equal", wanted, const(np.zeros(count, np.int64))))
        old = n.emit(call("relax.shape_to_tensor", kept))
        wanted = n.emit(call("relax.where", zero, old, wanted))
    ones = np.ones(max(count, 1), np.int64)
    one = const(ones[:count])
    rest = n.emit(call("relax.equal", wanted, n.emit(call("relax.negative", one))))
    others = n.emit(call("relax.prod", call("relax.where", rest, one, wanted), keepdims=True))
    total = n.emit(call("relax.shape_to_tensor", shape_expr([tidy(product(dims))])))
    room = call("relax.floor_divide", total, call("relax.maximum", others, const(ones[:1])))
    many = n.emit(call("relax.sum", call("relax.astype", rest, dtype="int64"), keepdims=True))
    alone = n.emit(call("relax.equal", many, const(ones[:1])))
    given = call("relax.where", call("relax.logical_and", rest, alone), room, wanted)
    return n.lengths(n.emit(given), "shape")


def _kept(n: OnnxNode, dims: Sequence[Any], axis: int) -> Any:
    if axis >= len(dims):
        n.refuse(f"dimension {axis} is 0 (keep), but the input is {tell_dims(dims)}")
    return dims[axis]


@operator("relax.flatten")
class Flatten(OpDecl):
    """All elements in row-major order, in one dimension."""

    view = moves = follows = True
    tir_name = "reshape"

    x: Tensor

    def infer(self, x: Any) -> Any:
        """A tensor of one dimension, of x's dtype."""
        if x.ndim == 1:
            return x
        return tensor(None if x.dims is None else [product(x.dims)], x.dtype, 1)

    def numpy(self, x: Any) -> Any:
        """numpy.ravel"""
        return np.reshape(x, -1)

    def compute(self, x: Any) -> Any:
        """One copy."""
        return regroup(x, (tidy(product(x.shape)),), "flatten")


@operator("relax.nn.batch_flatten")
class BatchFlatten(OpDecl):
    """All dimensions but the first in one: (N, …) becomes (N, the product of the rest)."""

    view = moves = follows = True

    x: Tensor

    def infer(self, x: Any) -> Any:
        """A matrix of x's dtype."""
        if x.ndim == 0:
            refuse(self, f"{tell(x)} has no first dimension")
        return tensor(None if x.dims is None else _rows(x.dims), x.dtype, 2)

    def numpy(self, x: Any) -> Any:
        """numpy.reshape"""
        return np.reshape(x, _rows(x.shape))

    def compute(self, x: Any) -> Any:
        """One copy."""
        return regroup(x, _rows(x.shape), "batch_flatten")


def _rows(dims: Sequence[Any]) -> list[Any]:
    return [dims[0], tidy(product(dims[1:]))]


@onnx("Flatten")
def onnx_flatten(n: OnnxNode, x: Expr) -> Expr:
    """Two dimensions: those before `axis`, and those from it on."""
    dims, axis = n.dims(x), n.attr("axis", 1)
    if not -len(dims) <= axis <= len(dims):
        n.refuse(f"axis {axis} is outside of {tell_dims(dims)}")
    axis += len(dims) if axis < 0 else 0
    return make_call(Reshape, x, [tidy(product(dims[:axis])), tidy(product(dims[axis:]))])


@operator("relax.expand_dims")
class ExpandDims(OpDecl):
    """New dimensions of 1 at the places `axis` of the result (negative: from its end).

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.expand_dims.html
    """

    view = moves = follows = True

    x: Tensor
    axis: int | tuple[int, ...]

    def infer(self, x: Any) -> Any:
        """x's dimensions with ones between them."""
        if x.ndim == -1:
            return x if self.axis == () else tensor(None, x.dtype)
        places = self.places(x.ndim, x)
        if not places:
            return x
        dims = None if x.dims is None else _with_ones(x.dims, places)
        return tensor(dims, x.dtype, x.ndim + len(places))

    def places(self, ndim: int, info: Any = None) -> tuple[int, ...]:
        """Where the ones stand, in the result of a tensor of `ndim` dimensions."""
        axes = self.axis if isinstance(self.axis, tuple) else (self.axis,)
        return axes_at(self, axes, ndim + len(axes), info)

    def numpy(self, x: Any) -> Any:
        """numpy.expand_dims"""
        return np.expand_dims(x, self.axis)

    def compute(self, x: Any) -> Any:
        """One copy."""
        places = self.places(len(x.shape))
        shape = _with_ones(x.shape, places)

        def source(*index: Any) -> Any:
            return x(*(v for i, v in enumerate(index) if i not in places))

        return te.compute(shape, source, name="expand_dims")


def _may_be_one(dims: Sequence[Any] | None) -> bool:
    """True if a dimension is 1 in one call and not in another."""
    return dims is None or any(as_int(d) is None for d in dims)


def _with_ones(dims: Sequence[Any], places: Sequence[int]) -> list[Any]:
    left = list(dims)
    return [1 if i in places else left.pop(0) for i in range(len(dims) + len(places))]


@onnx("Unsqueeze")
def onnx_unsqueeze(n: OnnxNode, data: Expr, axes: Expr | None = None) -> Expr:
    """`axes` is an attribute before opset 13, then an input."""
    given = axes_of(n, axes)
    if given is None:
        n.refuse("axes are missing")
    return make_call(ExpandDims, data, axis=given)


@operator("relax.squeeze")
class Squeeze(OpDecl):
    """Drops dimensions of 1: those named by `axis`, or all.

    Without `axis`, the rank of a result with open dimensions is not known: each of them may be 1.
    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.squeeze.html
    """

    view = moves = follows = True

    x: Tensor
    axis: int | tuple[int, ...] | None = None

    def infer(self, x: Any) -> Any:
        """x's dimensions without those."""
        if self.axis == ():
            return x
        if x.ndim == -1 or (self.axis is None and _may_be_one(x.dims)):
            return tensor(None, x.dtype)
        if x.dims is None:
            gone = self.dropped([1] * x.ndim, x)
            return tensor(None, x.dtype, x.ndim - len(gone))
        gone = self.dropped(x.dims, x)
        return tensor([d for i, d in enumerate(x.dims) if i not in gone], x.dtype)

    def dropped(self, dims: Sequence[Any], info: Any = None) -> tuple[int, ...]:
        """Which dimensions go."""
        if self.axis is None:
            return tuple(i for i, d in enumerate(dims) if as_int(d) == 1)
        axes = self.axis if isinstance(self.axis, tuple) else (self.axis,)
        gone = axes_at(self, axes, len(dims), info)
        for i in gone:
            if differ(dims[i], 1):
                refuse(self, f"dimension {i} of {tell(info)} is not 1")
        return gone

    def numpy(self, x: Any) -> Any:
        """numpy.squeeze"""
        return np.squeeze(x, self.axis)

    def compute(self, x: Any) -> Any:
        """One copy."""
        gone = self.dropped(x.shape)
        shape = [d for i, d in enumerate(x.shape) if i not in gone]

        def source(*index: Any) -> Any:
            left = list(index)
            return x(*(0 if i in gone else left.pop(0) for i in range(len(x.shape))))

        return te.compute(shape, source, name="squeeze")


@onnx("Squeeze")
def onnx_squeeze(n: OnnxNode, data: Expr, axes: Expr | None = None) -> Expr:
    """`axes` is an attribute before opset 13, then an input; without it all ones go.

    A dimension that is open is taken for another number, which is checked as the model runs.
    """
    given = axes_of(n, axes)
    dims = getattr(data.struct_info, "dims", None)
    if given is not None or dims is None or not _may_be_one(dims):
        return make_call(Squeeze, data, axis=given)
    for dim in dims:
        if as_int(dim) is None:
            n.assume(equal(dim, 1), False)
    return make_call(Squeeze, data, axis=tuple(i for i, d in enumerate(dims) if as_int(d) == 1))
