"""What a text may ask a tensor for: `x.shape`, `x.dtype`, `x.ndim`, `x.strides[0]`.

gv = R.zeros(x.shape, x.dtype)        axes = R.expand_dims(x, x.ndim)        h = x.astype("float16")

What is known of the tensor is put in where it is asked for; what is not, the run finds out
(`R.shape_of`, `R.inspect.tensor_ndim`, …).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.prim_ops import const
from mlcnb.op.namespace import namespace
from mlcnb.relax import expr as rx
from mlcnb.relax.struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo


def _tensor(x: rx.Expr, word: str) -> Any:
    info = x.struct_info
    if isinstance(info, TensorStructInfo):
        return info
    raise MLCError(f"only a tensor has a {word}", hint='x: R.Tensor((4,), "float32")')


def _shape(x: rx.Expr) -> Any:
    info = _tensor(x, "shape")
    if isinstance(info.shape, rx.ShapeExpr):
        return info.shape
    known = ShapeStructInfo(None, info.ndim)
    return rx.Call(rx.Op("relax.shape_of"), (x,), None, (), known)


def _dtype(x: rx.Expr) -> Any:
    info = _tensor(x, "dtype")
    return OpenDtype(x) if info.dtype is None else info.dtype


def _ndim(x: rx.Expr) -> Any:
    info = _tensor(x, "ndim")
    return namespace.inspect.tensor_ndim(x) if info.ndim < 0 else info.ndim


class OpenDtype:
    """The dtype of a tensor of which none is said: its numbers are what the run tells."""

    script_attributes = ("type_code", "bits", "lanes")

    def __init__(self, tensor: rx.Expr) -> None:
        self.tensor = tensor

    @property
    def type_code(self) -> rx.Expr:
        """The number of its kind, DLPack's."""
        return namespace.inspect.tensor_dtype_code(self.tensor)

    @property
    def bits(self) -> rx.Expr:
        """Of one lane."""
        return namespace.inspect.tensor_dtype_bits(self.tensor)

    @property
    def lanes(self) -> rx.Expr:
        """How many."""
        return namespace.inspect.tensor_dtype_lanes(self.tensor)


class Strides:
    """`x.strides`: one by one, as the run tells them."""

    def __init__(self, tensor: rx.Expr) -> None:
        self.tensor = tensor

    def __getitem__(self, axis: Any) -> rx.Expr:
        return namespace.inspect.tensor_stride_i(self.tensor, _axis(axis))


def _axis(axis: Any) -> rx.Expr:
    if isinstance(axis, int):
        return rx.PrimValue(const(axis, "int64"))
    if isinstance(axis, PrimExpr):
        return rx.PrimValue(axis)
    if isinstance(axis, rx.Expr) and isinstance(axis.struct_info, PrimStructInfo):
        return axis
    raise MLCError("a dimension is named by an integer", hint="x.shape[0]")


def item(owner: rx.Expr, index: Any) -> rx.Expr:
    """A field of a tuple, or a dimension of a shape that the run tells.

    Raises:
        MLCError: it is something else, or the index is none.
    """
    if isinstance(owner, rx.Call) and owner.op == rx.Op("relax.shape_of"):
        return namespace.inspect.tensor_shape_i(owner.args[0], _axis(index))
    if not isinstance(index, int):
        raise MLCError(
            "only a tuple can be indexed, by a constant",
            hint="a part of a tensor is R.take or R.strided_slice",
        )
    return owner[index]  # type: ignore[no-any-return]


def astype(x: rx.Expr, dtype: Any) -> Any:
    """`x.astype("float16")`: the tensor in another dtype."""
    return x.astype(getattr(dtype, "dtype", dtype))


#: what a text may call of a tensor
TENSOR_METHODS: dict[str, Callable[..., Any]] = {"astype": astype}
TENSOR_ATTRIBUTES: dict[str, Callable[[rx.Expr], Any]] = {
    "shape": _shape,
    "dtype": _dtype,
    "ndim": _ndim,
    "strides": lambda x: Strides(_tensor(x, "stride") and x),
    "byte_offset": lambda x: namespace.inspect.tensor_byte_offset(_tensor(x, "byte_offset") and x),
    "elem_offset": lambda x: namespace.inspect.tensor_elem_offset(_tensor(x, "elem_offset") and x),
}
