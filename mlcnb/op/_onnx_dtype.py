"""The dtypes of ONNX by number (TensorProto.DataType).

Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from __future__ import annotations

from mlcnb.core.errors import UnsupportedDtypeError
from mlcnb.ir.dtype import DType, dtype
from mlcnb.op.onnx import OnnxNode

NAMES = (
    "undefined float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32 "
    "uint64 complex64 complex128 bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 "
    "float8_e5m2fnuz uint4 int4 float4_e2m1fn float8_e8m0fnu uint2 int2 float6_e2m3fn "
    "float6_e3m2fn"
).split()
_WORDS = {"FLOAT": "float32", "DOUBLE": "float64"}


def dtype_of(n: OnnxNode, attribute: str, default: str | DType | None = None) -> DType:
    """The dtype that an attribute names, by number (in the first opset: by word).

    Where the attribute is missing or 0 it is `default`; without one that is an error.
    """
    given = n.attr(attribute) if default is not None else n.require(attribute)
    if not given:
        return dtype(str(default))
    if isinstance(given, str):
        name = _WORDS.get(given.upper(), given.lower())
    elif 0 < given < len(NAMES):
        name = NAMES[given]
    else:
        n.refuse(f"attribute {attribute} is {given}, which is no dtype")
    try:
        return dtype(name)
    except UnsupportedDtypeError:
        n.refuse(f"dtype {name} is not supported")
