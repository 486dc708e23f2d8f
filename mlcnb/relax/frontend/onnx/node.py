"""One node of an ONNX graph, as spellings see it (`mlcnb.op.onnx.OnnxNode`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from mlcnb.core.errors import ModelError, UnsupportedOpError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import EQ
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.span import Span
from mlcnb.relax.emitter import size_check
from mlcnb.relax.expr import Expr, Var
from mlcnb.relax.frontend.onnx.load import Source
from mlcnb.relax.frontend.onnx.protos import node_name, operator_text, plain_domain
from mlcnb.relax.frontend.onnx.tensors import to_array, to_dense
from mlcnb.relax.frontend.shared.errors import UnknownValueError
from mlcnb.relax.frontend.shared.limits import MAX_NDIM
from mlcnb.relax.frontend.shared.node import GraphNode
from mlcnb.relax.frontend.shared.values import Values


class Node(GraphNode):
    """A NodeProto with its attributes read, and the importer's means to build.

    Args:
        proto: the NodeProto.
        opset: version of its domain.
        values: what is known of tensors.
        source: where the model came from.
        attributes: those of the function that the node stands in, which its own may refer to.
        path: names of the nodes whose functions are being written out, ending in "/".
    """

    advice = "see the operator at https://onnx.ai/onnx/operators"

    def __init__(
        self,
        proto: Any,
        opset: int,
        values: Values,
        source: Source,
        attributes: Mapping[str, Any],
        path: str = "",
    ) -> None:
        self.proto = proto
        self.op_type: str = proto.op_type
        self.domain = plain_domain(proto.domain)
        self.name = path + node_name(proto)
        self.opset = opset
        self.outputs = _without_empty_end(proto.output)
        self.num_outputs = len(self.outputs)
        self.source = source
        self.values = values
        self.protos = bound_attributes(proto, attributes) if proto.attribute else {}
        self._read: dict[str, Any] = {}
        #: where calls that are made for this node come from
        self.span = Span("onnx", self.name, kind=self.op_type)

    def __repr__(self) -> str:
        return f"node {self.name!r} ({operator_text(self.proto)}, opset {self.opset})"

    @property
    def where(self) -> str:
        """`model.onnx: node 'conv1' (Conv, opset 17)`: how messages begin."""
        return f"{self.source.name}: {self!r}"

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or `default` where it is not given."""
        if name not in self.protos:
            return default
        if name not in self._read:
            self._read[name] = self._attribute(self.protos[name])
        return self._read[name]

    def require(self, name: str) -> Any:
        """An attribute that must be there.

        Raises:
            ModelError: it is not.
        """
        if name not in self.protos:
            raise ModelError(
                f"{self.where} has no attribute {name!r}",
                hint="the model is damaged: export it again",
            )
        return self.attr(name)

    def _attribute(self, proto: Any) -> Any:
        """The Python value of an AttributeProto."""
        kinds = type(proto)
        place = f"{self.where}: attribute {proto.name!r}"
        match proto.type:
            case kinds.FLOAT:
                return proto.f
            case kinds.INT:
                return proto.i
            case kinds.STRING:
                return proto.s.decode("utf-8", "replace")
            case kinds.TENSOR:
                return to_array(proto.t, self.source, place)
            case kinds.SPARSE_TENSOR:
                return to_dense(proto.sparse_tensor, self.source, place)
            case kinds.GRAPH:
                return proto.g
            case kinds.FLOATS:
                return tuple(proto.floats)
            case kinds.INTS:
                return tuple(proto.ints)
            case kinds.STRINGS:
                return tuple(s.decode("utf-8", "replace") for s in proto.strings)
            case _:
                raise UnsupportedOpError(
                    f"{place} is of a kind that mlcnb does not read", hint="see the ONNX operator"
                )

    def assume(self, condition: Any, holds: bool) -> None:
        """Check, as the model runs, that a condition on sizes holds, or that it does not."""
        one, zero = (p.const(n, "int64") for n in (1, 0))
        match condition:
            case EQ(given, wanted) if holds:
                what = "size"
            case _:
                given, wanted = p.select(condition, one, zero), one if holds else zero
                what = "condition"
        emitter = self.values.emitter
        name = emitter.names.fresh(what)
        emitter.bindings.append(size_check(given, wanted, name, self.span))

    def sizes(self, x: Expr | None) -> np.ndarray | None:
        """As `known`, with floats that are computed from sizes: casts, or quotients of casts."""
        return self.values.sizes(x)

    def lengths(self, x: Expr | None, what: str) -> list[Any]:
        """The elements of a small integer tensor, read as the model runs: they are not negative.

        Raises:
            UnknownValueError: it is no tensor of integers, or how many they are is not known.
        """
        info = getattr(x, "struct_info", None)
        dims = getattr(info, "dims", None)
        count = as_int(dims[0]) if dims else 1
        kind = getattr(info, "dtype", None)
        if dims is None or len(dims) > 1 or count is None or count > MAX_NDIM:
            self.unknown(x, f"{what} is not known before the model runs")
        if not kind or not kind.is_integer:
            self.unknown(x, f"{what} is not known before the model runs")
        return self.values.lengths(x, count)

    def missing(self, x: Any, why: str, hint: str | None = None) -> NoReturn:
        """As `unknown`."""
        self.unknown(x, why)

    def unknown(self, x: Any, why: str) -> NoReturn:
        """Raise an UnknownValueError that names the inputs that `x` is computed from."""
        inputs = tuple(_model_name(v) for v in self.values.needs(x))
        named = ", ".join(map(repr, inputs))
        raise UnknownValueError(
            f"{self.where}: {why}",
            inputs,
            hint=f"make {named or 'it'} an initializer, or fix the shapes of inputs with shape=",
        )


def bound_attributes(proto: Any, outer: Mapping[str, Any]) -> dict[str, Any]:
    """A node's AttributeProtos by name; references are looked up among those of its function."""
    found: dict[str, Any] = {}
    for attribute in proto.attribute:
        if not attribute.ref_attr_name:
            found[attribute.name] = attribute
        elif attribute.ref_attr_name in outer:
            found[attribute.name] = outer[attribute.ref_attr_name]
    return found


def _without_empty_end(names: Any) -> tuple[str, ...]:
    found = list(names)
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def _model_name(var: Var) -> str:
    """The name of a parameter in the model."""
    return var.span.name if var.span is not None else var.name_hint
