"""Conversion between dtypes: astype, wrap_param, and bits read as another dtype: bitcast."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.core.node import replace
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.prim_ops import cast, max_value, neg
from mlcnb.ir.rules import rule
from mlcnb.op._convert import convert
from mlcnb.op._dims import refuse, tell
from mlcnb.op._elementwise import elementwise
from mlcnb.op._spell import call, dtype_of
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.analysis.struct_info import same_known
from mlcnb.relax.expr import Call, Expr, PrimValue
from mlcnb.relax.operator import OpDecl, Tensor, called, make_call, operator, with_operand
from mlcnb.tir.op.mathematics import reinterpret


class Conversion(OpDecl):
    """What is in another dtype then, as astype says."""

    __slots__ = ()
    dtype: str

    def infer(self, x: Any) -> Any:
        """x's shape."""
        return replace(x, dtype=dtype(str(self.dtype)))

    def numpy(self, x: Any) -> Any:
        """numpy.astype, with those rules"""
        return convert(x, self.dtype)

    def compute(self, x: Any) -> Any:
        """One loop nest."""
        return elementwise(lambda v: cast(self.dtype, v), x, name=self.sugar)


@operator("relax.astype")
class Astype(Conversion):
    """`x` converted to `dtype`.

    Floats become integers towards zero; beyond the range they become its end, NaN becomes 0.
    Integers keep their low bits. What is not 0 becomes True.
    """

    follows = True
    tir_name = "cast"
    elementwise = finite = True
    x: Tensor
    dtype: str

    @rule("SimplifyOps", "astype")
    def simplified(self, call: Call, value_of: Any) -> Any:
        """To what the operand is; of what was made wider before, where nothing is lost."""
        x: Any = call.args[0]
        before = value_of(x)
        if same_known(x.struct_info, call.struct_info):
            return x
        if called(before) is not Astype or not _holds(before.struct_info, before.args[0]):
            return None
        source = before.args[0]
        same = same_known(source.struct_info, call.struct_info)
        return source if same else with_operand(call, before)


#: dtype -> those floats whose values all are values of it
_HOLDS = {
    "float64": ("float16", "bfloat16", "float32"),
    "float32": ("float16", "bfloat16"),
}


def _holds(wide: Any, narrow: Any) -> bool:
    return str(narrow.struct_info.dtype) in _HOLDS.get(str(wide.dtype), ())


@operator("relax.wrap_param")
class WrapParam(Conversion):
    """A parameter `data` that is to be seen in another dtype; passes for mixed precision put it."""

    data: Tensor
    dtype: str = "float32"


@operator("relax.bitcast")
class Bitcast(OpDecl):
    """The bits of `x` read as `dtype`, which is as wide; a bool is a byte that is 0 or 1.

    Semantics: https://onnx.ai/onnx/operators/onnx__BitCast.html
    """

    x: Tensor
    dtype: str

    def infer(self, x: Any) -> Any:
        """x's shape."""
        kind = dtype(str(self.dtype))
        if x.dtype and x.dtype.nbytes != kind.nbytes:
            refuse(self, f"{tell(x)} and {kind} differ in width")
        return replace(x, dtype=kind)

    def numpy(self, x: Any) -> Any:
        """numpy.ndarray.view"""
        kind = dtype(str(self.dtype))
        if kind.is_bool:
            return np.asarray(x.view(np.uint8) != 0)
        return np.ascontiguousarray(x).view(kind.numpy).reshape(x.shape)

    def compute(self, x: Any) -> Any:
        """One loop nest."""
        through_bool = x.dtype.is_bool or dtype(str(self.dtype)).is_bool
        read = cast if through_bool else reinterpret
        return elementwise(lambda v: read(self.dtype, v), x, name="bitcast")


@onnx("BitCast", since=26)
def onnx_bitcast(n: OnnxNode, x: Expr) -> Expr:
    """`to` names the dtype."""
    return make_call(Bitcast, x, dtype_of(n, "to"))


@onnx("Cast")
def onnx_cast(n: OnnxNode, x: Expr) -> Expr:
    """`to` names the dtype; what a float of 8 bits cannot hold saturates unless told otherwise."""
    return cast_to(n, x, dtype_of(n, "to"))


@onnx("CastLike")
def onnx_cast_like(n: OnnxNode, x: Expr, like: Expr) -> Expr:
    """Cast to the dtype of the second input."""
    return cast_to(n, x, dtype(n.dtype(like)))


def cast_to(n: OnnxNode, x: Expr, kind: DType) -> Expr:
    """`x` as ONNX's Cast converts it to `kind`."""
    source = dtype(n.dtype(x))
    if source == kind:
        return x
    if kind == "float8_e8m0fnu" and source.is_float:
        n.refuse("conversion to float8_e8m0fnu is not supported")
    if kind.is_float and kind.bits == 8 and source.is_float and n.attr("saturate", 1):
        x = saturated(n, x, kind)
    if kind.is_integer and kind.bits < 8 and source.is_float:
        x = n.emit(make_call(Astype, x, "int32"))  # of which the low bits are kept
    return make_call(Astype, x, str(kind))


def saturated(n: OnnxNode, x: Expr, kind: DType) -> Expr:
    """Floats kept inside the range of a narrower float dtype."""
    if dtype(n.dtype(x)).bits < 16:
        x = n.emit(make_call(Astype, x, "float32"))
    most = cast(n.dtype(x), max_value(kind))
    return n.emit(call("relax.clip", x, PrimValue(neg(most)), PrimValue(most)))
