"""ONNX nodes run eagerly through their spellings: every call is its NumPy meaning, at once.

    outputs = run_node(node_proto, opset, inputs)        inputs: arrays, or None where left out

Each call's inferred struct info is held against what came out.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import numpy_helper

from mlcnb.core.errors import ModelError, UnsupportedOpError
from mlcnb.core.node import replace
from mlcnb.ir.prim_ops import as_int
from mlcnb.op import load_all
from mlcnb.op.onnx import spelling
from mlcnb.relax.expr import Call, Constant, Expr, Tuple, TupleGetItem
from mlcnb.relax.infer import infer_call
from mlcnb.relax.numpy_call import call_numpy
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo


class EagerNode:
    """What a spelling sees (`mlcnb.op.onnx.OnnxNode`), with every value known."""

    def __init__(self, proto: onnx.NodeProto, opset: int) -> None:
        self.op_type, self.domain, self.name = proto.op_type, proto.domain, proto.name
        self.opset = opset
        self.outputs = tuple(proto.output)
        self.num_outputs = len(proto.output)
        self.attrs = {a.name: _attribute(a) for a in proto.attribute}

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attrs.get(name, default)

    def require(self, name: str) -> Any:
        if name not in self.attrs:
            raise ModelError(f"{self.op_type} has no attribute {name!r}")
        return self.attrs[name]

    def emit(self, value: Any) -> Any:
        return _constant(evaluate(value))

    def constant(self, x: Any, what: str) -> np.ndarray:
        return evaluate(x)

    def known(self, x: Any) -> np.ndarray | None:
        return None if x is None else evaluate(x)

    def sizes(self, x: Any) -> np.ndarray | None:
        return self.known(x)

    def dims(self, x: Expr) -> tuple[int, ...]:
        return tuple(evaluate(x).shape)

    def dtype(self, x: Expr) -> str:
        return evaluate(x).dtype.name

    def refuse(self, why: str, hint: str | None = None) -> NoReturn:
        raise UnsupportedOpError(f"{self.op_type}: {why}", hint=hint)


def _attribute(a: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(a)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if a.type in (a.INTS, a.FLOATS, a.STRINGS):
        return tuple(v.decode() if isinstance(v, bytes) else v for v in value)
    return value


def _constant(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return Tuple(tuple(_constant(v) for v in value))
    return Constant(np.asarray(value))


def evaluate(x: Any) -> Any:
    """The value of an expression of constants."""
    match x:
        case Constant(data):
            return data
        case Tuple(fields):
            return tuple(evaluate(f) for f in fields)
        case TupleGetItem(value, index):
            return evaluate(value)[index]
        case Call():
            return _call(x)
    raise TypeError(f"{x!r} has no value")


def _call(call: Call) -> Any:
    settled = replace(call, args=tuple(_settled(a) for a in call.args))
    info = infer_call(settled, {})
    result = call_numpy(replace(settled, struct_info=info), evaluate)
    _check(call, info, result)
    return result


def _settled(arg: Any) -> Any:
    """An argument with the calls in it replaced by their values."""
    if isinstance(arg, Tuple):
        return Tuple(tuple(_settled(f) for f in arg.fields))
    computed = isinstance(arg, TupleGetItem) or isinstance(arg, Call) and arg.args
    return _constant(evaluate(arg)) if computed else arg


def _check(call: Call, info: Any, result: Any) -> None:
    """Inference must agree with what came out."""
    if isinstance(info, TupleStructInfo):
        for one, part in zip(info.fields, result, strict=True):
            _check(call, one, part)
    if not isinstance(info, TensorStructInfo):
        return
    found = np.asarray(result)
    assert info.ndim in (-1, found.ndim), call.op.name
    assert info.dtype in (None, found.dtype.name), call.op.name
    if info.dims is not None:
        assert tuple(as_int(d) for d in info.dims) == found.shape, call.op.name


def run_node(proto: onnx.NodeProto, opset: int, inputs: list[Any]) -> list[np.ndarray]:
    """The outputs of one node (those that are named).

    Raises:
        UnsupportedOpError: there is no spelling, or it refuses.
    """
    load_all()
    fn = spelling(proto.domain, proto.op_type, opset)
    if fn is None:
        raise UnsupportedOpError(f"no spelling of {proto.op_type} at opset {opset}")
    args = [None if a is None else _constant(a) for a in inputs]
    found = fn(EagerNode(proto, opset), *args)
    results = found if isinstance(found, tuple) else (found,)
    pairs = zip(proto.output, results, strict=False)
    return [np.asarray(evaluate(r)) for name, r in pairs if name]
