"""What a text may ask a tensor for: `x.shape`, `x.dtype`, `x.ndim`.

gv = R.zeros(x.shape, x.dtype)        axes = R.expand_dims(x, x.ndim)        h = x.astype("float16")

What is known of the tensor is put in where it is asked for; what is not, the run finds out
(`R.shape_of`), or is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.relax import expr as rx
from mlcnb.relax.struct_info import ShapeStructInfo, TensorStructInfo


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
    if info.dtype is None:
        raise MLCError("the dtype of this tensor is not known", hint='R.Tensor((4,), "float32")')
    return info.dtype


def _ndim(x: rx.Expr) -> Any:
    info = _tensor(x, "ndim")
    if info.ndim < 0:
        raise MLCError("the rank of this tensor is not known", hint="R.Tensor(ndim=2)")
    return info.ndim


def astype(x: rx.Expr, dtype: Any) -> Any:
    """`x.astype("float16")`: the tensor in another dtype."""
    return x.astype(getattr(dtype, "dtype", dtype))


#: what a text may call of a tensor
TENSOR_METHODS: dict[str, Callable[..., Any]] = {"astype": astype}
TENSOR_ATTRIBUTES: dict[str, Callable[[rx.Expr], Any]] = {
    "shape": _shape,
    "dtype": _dtype,
    "ndim": _ndim,
}
