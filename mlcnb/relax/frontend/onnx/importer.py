"""from_onnx: an ONNX graph, node by node, becomes a graph function.

The importer knows no operator by name: the spellings stand with the operators (`mlcnb.op`). Every
call remembers its ONNX node in its span.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mlcnb.core import display
from mlcnb.core.errors import ModelError, UnsupportedDtypeError, UnsupportedOpError
from mlcnb.ir.expr import SizeVar
from mlcnb.ir.dtype import dtype as make_dtype
from mlcnb.ir.module import IRModule
from mlcnb.ir.span import Span
from mlcnb.op.onnx import spelling
from mlcnb.relax.block_builder import BlockBuilder
from mlcnb.relax.expr import Constant, Expr, Tuple, Var, const, tensor_info
from mlcnb.relax.frontend.onnx.node import Node
from mlcnb.relax.frontend.onnx.values import Values


def from_onnx(
    model: Any,
    shape: Mapping[str, Any] | None = None,
    dtype: Any = None,
    keep_params_in_input: bool = False,
) -> IRModule:
    """Import an ONNX model.

    Args:
        model: a path, the bytes of a file, or a ModelProto.
        shape: shapes by input name; dimensions that are not fixed stay symbolic.
        dtype: dtypes by input name, or one for all float inputs.
        keep_params_in_input: initializers become parameters of main instead of constants.

    Raises:
        ModelError: a file that is damaged or contradicts itself.
        UnsupportedOpError: operators that are not imported, all of them named.
    """
    display.load("mlcnb.op:load_all")()  # type: ignore[call-arg]
    proto, where = _load(model)
    return _Importer(proto, where, dict(shape or {}), keep_params_in_input).module()


def _load(model: Any) -> tuple[Any, str]:
    import onnx

    if isinstance(model, onnx.ModelProto):
        return model, "the model"
    if isinstance(model, bytes):
        return onnx.load_model_from_string(model), "the model"
    path = Path(model)
    return onnx.load(path), path.name


class _Importer:
    def __init__(self, proto: Any, where: str, shapes: dict[str, Any], keep_params: bool) -> None:
        self.proto = proto
        self.where = where
        self.shapes = shapes
        self.keep_params = keep_params
        self.builder = BlockBuilder()
        self.values = Values(self.builder)
        self.tensors: dict[str, Any] = {}
        self.dims: dict[str, SizeVar] = {}
        self.opsets = {_domain(o.domain): o.version for o in proto.opset_import}

    def module(self) -> IRModule:
        graph = self.proto.graph
        self.check_operators(graph)
        initializers = {t.name: t for t in graph.initializer}
        params = [self.parameter(i) for i in graph.input if i.name not in initializers]
        params += self.initializers(initializers)
        with self.builder.function("main", params):
            with self.builder.dataflow():
                for proto in graph.node:
                    self.node(proto)
                outputs = [self.tensor(o.name, "the graph's outputs") for o in graph.output]
                result = outputs[0] if len(outputs) == 1 else Tuple(tuple(outputs))
                out = self.builder.emit_output(result)
            self.builder.emit_func_output(out)
        return self.builder.get()

    def check_operators(self, graph: Any) -> None:
        """Name all operators that are not imported at once."""
        missing = []
        for node in graph.node:
            opset = self.opsets.get(_domain(node.domain))
            if opset is None:
                raise ModelError(f"{self.where}: no opset is given for domain {node.domain!r}")
            if (
                spelling(_domain(node.domain), node.op_type, opset) is None
                and node.op_type != "Constant"
            ):
                missing.append(f"{node.op_type} (node {node.name!r}, opset {opset})")
        if missing:
            raise UnsupportedOpError(
                f"{self.where}: not imported: {', '.join(dict.fromkeys(missing))}",
                hint="see mlcnb.op.onnx.spellings() for what is",
            )

    def parameter(self, value: Any) -> Var:
        import onnx

        kind = value.type.tensor_type
        try:
            name = make_dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name)
        except (KeyError, UnsupportedDtypeError) as error:
            raise UnsupportedDtypeError(
                f"{self.where}: input {value.name!r} has an unsupported element type"
            ) from error
        given = self.shapes.get(value.name)
        dims = (
            list(given)
            if given is not None
            else [self.dim(d, value.name, i) for i, d in enumerate(kind.shape.dim)]
        )
        var = Var(_identifier(value.name), tensor_info(dims, name))
        self.tensors[value.name] = var
        return var

    def dim(self, dim: Any, name: str, axis: int) -> Any:
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            return dim.dim_value
        label = _identifier(dim.dim_param or f"{name}_dim{axis}")
        return self.dims.setdefault(label, SizeVar(label, make_dtype("int64")))

    def initializers(self, tensors: Mapping[str, Any]) -> list[Var]:
        from onnx import numpy_helper

        params = []
        for name, proto in tensors.items():
            array = numpy_helper.to_array(proto)
            if self.keep_params:
                var = Var(_identifier(name), tensor_info(array.shape, array.dtype.name))
                params.append(var)
                self.tensors[name] = var
            else:
                self.tensors[name] = const(array)
        return params

    def tensor(self, name: str, user: str) -> Any:
        if name not in self.tensors:
            raise ModelError(f"{self.where}: {user} reads {name!r}, which nothing makes")
        return self.tensors[name]

    def node(self, proto: Any) -> None:
        opset = self.opsets[_domain(proto.domain)]
        node = Node(proto, opset, self.values, self.where)
        if node.op_type == "Constant" and not node.domain:
            self.bind(node, [_constant(node)])
            return
        inputs = [self.tensor(i, repr(node)) if i else None for i in proto.input]
        while inputs and inputs[-1] is None:
            inputs.pop()
        spell = spelling(node.domain, node.op_type, opset)
        assert spell is not None
        with self.builder.origin(Span("onnx", node.name)):
            try:
                result = spell(node, *inputs)
            except TypeError as error:
                raise ModelError(
                    f"{self.where}: {node!r} has {len(inputs)} inputs: {error}"
                ) from error
            results = list(result) if isinstance(result, tuple | list) else [result]
            self.bind(node, [r if r is None else self.values.emit(r) for r in results])

    def bind(self, node: Node, results: list[Any]) -> None:
        for name, value in zip(node.outputs, results, strict=False):
            if name:
                self.tensors[name] = value


def _constant(node: Node) -> Expr:
    for name in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        value = node.attr(name)
        if value is not None:
            kind = {"value_float": "float32", "value_floats": "float32"}.get(name, "int64")
            return Constant(np.asarray(value) if name == "value" else np.asarray(value, kind))
    return node.refuse("no value, or one that is no tensor of numbers")


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _identifier(name: str) -> str:
    clean = re.sub(r"\W", "_", name, flags=re.ASCII) or "x"
    return f"_{clean}" if clean[0].isdigit() else clean
