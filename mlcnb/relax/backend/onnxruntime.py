"""onnxruntime: a part of a graph is written as an ONNX model and runs in ONNX Runtime.

def fused_relax_nn_conv2d_relax_nn_relu(x, w)    ->    Conv(x, w) -> Relu -> output
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from mlcnb.core.errors import MissingDependencyError, UnsupportedOpError
from mlcnb.core.registry import register_func
from mlcnb.ir.external import ExternalModule
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax.backend.pattern_registry import register_patterns
from mlcnb.relax.backend.patterns import (
    make_conv2d_pattern,
    make_matmul_pattern,
    with_endings,
)
from mlcnb.relax.backend.utils import dtype_of, has_leaking_intermediate_variables
from mlcnb.relax.dpl.make import is_op, wildcard
from mlcnb.relax.expr import Call, Constant, Function, Op, Tuple, Var
from mlcnb.relax.operator import attrs_of
from mlcnb.relax.transform.fuse_ops_by_pattern import PatternCheckContext

OPSET, IR_VERSION = 20, 9
#: operator -> ONNX's, of the same arguments and without attributes
_PLAIN = {
    "relax.add": "Add",
    "relax.subtract": "Sub",
    "relax.multiply": "Mul",
    "relax.divide": "Div",
    "relax.matmul": "MatMul",
    "relax.nn.relu": "Relu",
    "relax.sigmoid": "Sigmoid",
    "relax.tanh": "Tanh",
    "relax.exp": "Exp",
    "relax.sqrt": "Sqrt",
    "relax.nn.gelu": "Gelu",
}


def _conv2d(attrs: Any) -> tuple[str, dict[str, Any]]:
    return "Conv", {
        "strides": attrs.strides,
        "pads": attrs.padding,
        "dilations": attrs.dilation,
        "group": attrs.groups,
    }


def _permuted(attrs: Any) -> tuple[str, dict[str, Any]]:
    return "Transpose", {} if attrs.axes is None else {"perm": attrs.axes}


def _softmax(attrs: Any) -> tuple[str, dict[str, Any]]:
    return "Softmax", {"axis": attrs.axis}


#: operator -> from its attributes to ONNX's operator and attributes
_WITH_ATTRIBUTES: dict[str, Callable[[Any], tuple[str, dict[str, Any]]]] = {
    "relax.nn.conv2d": _conv2d,
    "relax.permute_dims": _permuted,
    "relax.nn.softmax": _softmax,
}


@cache
def runtime() -> Any:
    """The package onnxruntime.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import onnxruntime
    except ImportError:
        raise MissingDependencyError(
            "onnxruntime is not installed", hint="pip install 'mlcnb[bench]'"
        ) from None
    return onnxruntime


def to_onnx(func: Function) -> Any:
    """A function as an ONNX model; calls of local functions are written out.

    Raises:
        UnsupportedOpError: an operator that is not written.
    """
    return _Writer().model(func)


class _Writer:
    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self.helper, self.numpy = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.count = 0

    def fresh(self) -> str:
        """A name of a value."""
        self.count += 1
        return f"v{self.count}"

    def model(self, func: Function) -> Any:
        """The whole."""
        names = [self.fresh() for _ in func.params]
        results = self.body(func, names)
        pairs = zip(func.params, names, strict=True)
        inputs = [self.typed(name, p.struct_info) for p, name in pairs]
        infos: Any = func.ret_struct_info
        fields = getattr(infos, "fields", (infos,))
        outputs = [f"out{i}" for i in range(len(results))]
        for name, out in zip(results, outputs, strict=True):
            self.nodes.append(self.helper.make_node("Identity", [name], [out]))
        graph = self.helper.make_graph(
            self.nodes,
            str(func.attrs.get("global_symbol", "main")),
            inputs,
            [self.typed(n, f) for n, f in zip(outputs, fields, strict=True)],
            self.constants,
        )
        opset = [self.helper.make_opsetid("", OPSET)]
        return self.helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)

    def typed(self, name: str, info: Any) -> Any:
        """A value with its dtype and shape; sizes that are not known have no number."""
        kind = self.helper.np_dtype_to_tensor_dtype(np.dtype(info.dtype.numpy))
        return self.helper.make_tensor_value_info(name, kind, [as_int(d) for d in info.dims])

    def body(self, func: Function, args: list[str]) -> list[str]:
        """The nodes of a function; the names of its results."""
        values: dict[Any, Any] = dict(zip(func.params, args, strict=True))
        for binding in func.body.bindings:
            value = binding.value
            if isinstance(value, Call):
                values[binding.var] = self.call(value, values)
            else:
                values[binding.var] = value if isinstance(value, Function) else values[value]
        result = func.body.body
        fields = result.fields if isinstance(result, Tuple) else (result,)
        return [values[f] for f in fields]

    def call(self, call: Call, values: dict[Any, Any]) -> str:
        """A node (or those of a local function); the name of its result."""
        args = [self.leaf(a, values) for a in call.args]
        if isinstance(call.op, Var):
            return self.body(values[call.op], args)[0]
        name = call.op.name if isinstance(call.op, Op) else ""
        if name in _PLAIN:
            made: tuple[str, dict[str, Any]] = (_PLAIN[name], {})
        elif name in _WITH_ATTRIBUTES:
            made = _WITH_ATTRIBUTES[name](attrs_of(call))
        else:
            raise UnsupportedOpError(f"onnxruntime: {name or 'a call'} is not written", where=call)
        op, attrs = made
        result = self.fresh()
        self.nodes.append(self.helper.make_node(op, args, [result], **attrs))
        return result

    def leaf(self, leaf: Any, values: dict[Any, Any]) -> str:
        """The name of an argument; a constant goes into the model."""
        if isinstance(leaf, Constant):
            name = self.fresh()
            self.constants.append(self.numpy.from_array(np.ascontiguousarray(leaf.data), name))
            return name
        found: str = values[leaf]
        return found


@register_func("relax.ext.onnxruntime", override=True)
def onnxruntime(functions: Any, options: Mapping[str, Any], constants: Any) -> list[ExternalModule]:
    """What runs functions in ONNX Runtime: a session for each.

    Args:
        functions: graph functions with a global_symbol.
        options: `threads`: of each session (default: ONNX Runtime's choice).
        constants: names, not used.

    Raises:
        MissingDependencyError: onnxruntime is not installed.
        UnsupportedOpError: an operator that is not written as ONNX.
    """
    made, source = {}, []
    for func in functions:
        model = to_onnx(func)
        settings = runtime().SessionOptions()
        settings.intra_op_num_threads = int(options.get("threads", 0))
        settings.log_severity_level = 3
        session = runtime().InferenceSession(
            model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
        )
        made[func.attrs["global_symbol"]] = _runner(session)
        source.append(str(model.graph.name) + ": " + ", ".join(n.op_type for n in model.graph.node))
    return [ExternalModule.of("onnxruntime", made, "\n".join(source))]


def _runner(session: Any) -> Callable[..., None]:
    names = [i.name for i in session.get_inputs()]

    def run(*arrays: Any) -> None:
        given = dict(zip(names, arrays, strict=False))
        for out, made in zip(arrays[len(names) :], session.run(None, given), strict=True):
            out[...] = made

    return run


def _is_supported(context: PatternCheckContext) -> bool:
    """float32 of known rank; a convolution in NCHW."""
    root: Any = context.annotated_expr.get("root", context.matched_expr)
    if has_leaking_intermediate_variables(context) or dtype_of(root) != "float32":
        return False
    tensors = [a for a in root.args if dtype_of(a) == "float32"]
    if len(tensors) < len(root.args) or any(a.struct_info.dims is None for a in root.args):
        return False
    if root.op.name != "relax.nn.conv2d":
        return True
    attrs: Any = attrs_of(root)
    return (attrs.data_layout, attrs.kernel_layout) == ("NCHW", "OIHW")


def _patterns() -> Iterator[tuple[Any, ...]]:
    for name in ("add", "multiply", "subtract", "divide"):
        op = is_op(f"relax.{name}")(wildcard(), wildcard())
        yield f"onnxruntime.{name}", op, {}, _is_supported
    for name in ("nn.relu", "sigmoid", "tanh", "exp", "sqrt", "nn.gelu", "nn.softmax"):
        op = is_op(f"relax.{name}")(wildcard())
        yield f"onnxruntime.{name.rpartition('.')[2]}", op, {}, _is_supported
    for what, make in (("matmul", make_matmul_pattern), ("conv2d", make_conv2d_pattern)):
        yield from with_endings(f"onnxruntime.{what}", make, _is_supported, "relu")


register_patterns(_patterns())
