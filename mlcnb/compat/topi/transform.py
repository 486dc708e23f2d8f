"""Operators that move elements about, and products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb import te
from mlcnb.compat.topi._declared import run
from mlcnb.ir import prim_ops as p


def transpose(a: te.Tensor, axes: Sequence[int] | None = None) -> te.Tensor:
    """The axes in another order; without `axes` turned around."""
    return run("permute_dims", a, axes=None if axes is None else tuple(axes))


def reshape(a: te.Tensor, newshape: Sequence[Any]) -> te.Tensor:
    """The same elements in another shape."""
    return run("reshape", a, newshape)


def expand_dims(a: te.Tensor, axis: int, num_newaxis: int = 1) -> te.Tensor:
    """With `num_newaxis` dimensions of 1 at `axis`."""
    first = axis if axis >= 0 else a.ndim + axis + 1
    return run("expand_dims", a, axis=tuple(range(first, first + num_newaxis)))


def squeeze(a: te.Tensor, axis: Any = None) -> te.Tensor:
    """Without dimensions of 1: those of `axis`, or all."""
    given = axis if axis is None or isinstance(axis, tuple | list) else (axis,)
    return run("squeeze", a, axis=given)


def concatenate(a_tuple: Sequence[te.Tensor], axis: int = 0) -> te.Tensor:
    """One after the other along an axis."""
    return run("concat", a_tuple, axis=axis)


def stack(tensors: Sequence[te.Tensor], axis: int = 0) -> te.Tensor:
    """Side by side along a new axis."""
    return run("stack", tensors, axis=axis)


def split(ary: te.Tensor, indices_or_sections: Any, axis: int = 0) -> Any:
    """In so many equal parts, or cut at these places."""
    return run("split", ary, indices_or_sections=indices_or_sections, axis=axis)


def take(
    a: te.Tensor, indices: te.Tensor, axis: int | None = None, batch_dims: int = 0,
    mode: str = "clip",
) -> te.Tensor:  # fmt: skip
    """Elements (or slices along `axis`) by their place."""
    return run("take", a, indices, axis=axis, mode=mode)


def strided_slice(
    a: te.Tensor, begin: Sequence[int], end: Sequence[int], strides: Any = None, axes: Any = None
) -> te.Tensor:
    """`a[begin:end:strides]` for each axis."""
    chosen = list(range(len(begin))) if axes is None else list(axes)
    return run("strided_slice", a, chosen, begin, end, strides or [1] * len(chosen))


def flip(a: te.Tensor, axis: int = 0) -> te.Tensor:
    """Turned around along an axis."""
    return run("flip", a, axis=axis)


def tile(a: te.Tensor, reps: Sequence[int]) -> te.Tensor:
    """The whole repeated along each axis."""
    return run("tile", a, repeats=tuple(reps))


def repeat(a: te.Tensor, repeats: int, axis: int = 0) -> te.Tensor:
    """Each element repeated along an axis."""
    return run("repeat", a, repeats=repeats, axis=axis)


def broadcast_to(data: te.Tensor, shape: Sequence[Any]) -> te.Tensor:
    """As NumPy broadcasts it."""
    return run("broadcast_to", data, shape)


def full(shape: Sequence[Any], dtype: str, fill_value: Any) -> te.Tensor:
    """One number everywhere."""
    return te.compute(tuple(shape), lambda *_: p.const(fill_value, dtype), name="T_full")


def full_like(x: te.Tensor, fill_value: Any) -> te.Tensor:
    """One number in the shape and dtype of another tensor."""
    return full(x.shape, str(x.dtype), fill_value)


def matmul(a: te.Tensor, b: te.Tensor, transp_a: bool = False, transp_b: bool = False) -> te.Tensor:
    """The product of two matrices, each transposed first if asked for."""
    return product(a, b, transp_a, transp_b, None)


def product(a: te.Tensor, b: te.Tensor, turn_a: bool, turn_b: bool, kind: str | None) -> te.Tensor:
    """A product of the last two dimensions, in a dtype; each operand turned first if asked for."""
    left, right = (
        transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]) if turned else x
        for x, turned in ((a, turn_a), (b, turn_b))
    )
    return run("matmul", left, right, out_dtype=kind)


def einsum(subscripts: str, *operand: te.Tensor) -> te.Tensor:
    """Einstein's summation."""
    return run("einsum", operand, subscripts=subscripts)


def cumsum(data: te.Tensor, axis: int | None = None, dtype: str | None = None) -> te.Tensor:
    """Sums up to each element along an axis."""
    return run("cumsum", data, axis=axis, dtype=dtype)


def gather(data: te.Tensor, axis: int, indices: te.Tensor) -> te.Tensor:
    """Elements along an axis, one for each index."""
    return run("gather_elements", data, indices, axis=axis)


def gather_nd(a: te.Tensor, indices: te.Tensor) -> te.Tensor:
    """Elements by their places; the first dimension of `indices` counts the coordinates."""
    last = transpose(indices, [*range(1, indices.ndim), 0])
    return run("gather_nd", a, last)


def trilu(data: te.Tensor, k: int, upper: bool) -> te.Tensor:
    """The triangle above (or below) the k-th diagonal, 0 elsewhere."""
    return run("triu" if upper else "tril", data, k)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: str = "float32") -> te.Tensor:
    """start, start + step, … up to `stop`, which is not reached; from 0 where it is None."""
    first, end = (0, start) if stop is None else (start, stop)
    return run("arange", *(_scalar(v) for v in (first, end, step)), dtype=dtype)


def _scalar(value: Any) -> Any:
    return p.const(value, "int64") if isinstance(value, int) else value


def one_hot(
    indices: te.Tensor, on_value: Any, off_value: Any, depth: int, axis: int, dtype: str
) -> te.Tensor:
    """`on_value` at the place that each index names along a new axis, `off_value` elsewhere."""
    values = (p.const(v, dtype) for v in (on_value, off_value))
    return run("one_hot", indices, *values, depth=depth, axis=axis)


def sort(data: te.Tensor, axis: int = -1, is_ascend: bool = True) -> te.Tensor:
    """The elements in order along an axis."""
    return run("sort", data, axis=axis, descending=not is_ascend)


def layout_transform(array: te.Tensor, src_layout: str, dst_layout: str) -> te.Tensor:
    """From a layout such as "NCHW" to another such as "NCHW4c"."""
    return run("layout_transform", array, None, src=src_layout, dst=dst_layout)


def argsort(data: te.Tensor, axis: int = -1, is_ascend: bool = True, dtype: str = "float32") -> Any:
    """The order of the elements along an axis."""
    return run("argsort", data, axis=axis, descending=not is_ascend, dtype=dtype)


def topk(
    data: te.Tensor,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int64",
) -> Any:
    """The k largest (or smallest) elements along an axis, a pair with where they stood.

    ret_type: both, values or indices; dtype: that of the indices.
    """
    options = {"k": k, "axis": axis, "ret_type": ret_type, "dtype": dtype}
    return run("topk", data, largest=not is_ascend, **options)


def shape(array: te.Tensor, dtype: str = "int32") -> te.Tensor:
    """The sizes, as a tensor of one dimension."""

    def size(i: Any) -> Any:
        found: Any = p.const(0, dtype)
        for axis, dim in enumerate(array.shape):
            found = p.select(p.equal(i, axis), p.cast(dtype, dim), found)
        return found

    return te.compute((len(array.shape),), size, name="shape")


def ndarray_size(array: te.Tensor, dtype: str = "int32") -> te.Tensor:
    """The number of elements, as a tensor without dimensions."""

    dims = [p.cast(dtype, dim) for dim in array.shape]
    size = p.product_of(dims, p.const(1, dtype))
    return te.compute((), lambda: size, name="ndarray_size")
