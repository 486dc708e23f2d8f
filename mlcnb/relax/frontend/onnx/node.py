"""One node of an ONNX graph, as spellings see it (`mlcnb.op.onnx.OnnxNode`)."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from mlcnb.core.errors import ModelError, UnsupportedOpError
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax.expr import Expr


class Node:
    """A NodeProto with its attributes read, and the importer's means to build.

    values: the importer's record of what is known of tensors; see `Values`.
    """

    def __init__(self, proto: Any, opset: int, values: Any, where: str) -> None:
        self.proto = proto
        self.op_type = proto.op_type
        self.domain = "" if proto.domain == "ai.onnx" else proto.domain
        self.name = proto.name or (proto.output[0] if proto.output else "")
        self.opset = opset
        self.outputs = tuple(proto.output)
        self.num_outputs = len(proto.output)
        self.where = where
        self.values = values
        self._attributes: dict[str, Any] = {}
        for attribute in proto.attribute:
            self._attributes[attribute.name] = values.attribute(attribute, self)

    def __repr__(self) -> str:
        return f"node {self.name!r} ({self.op_type}, opset {self.opset})"

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or `default` where it is not given."""
        return self._attributes.get(name, default)

    def require(self, name: str) -> Any:
        """An attribute that must be there.

        Raises:
            ModelError: it is not.
        """
        if name not in self._attributes:
            raise ModelError(f"{self.where}: {self!r} has no attribute {name!r}")
        return self._attributes[name]

    def emit(self, value: Any) -> Expr:
        """Bind an expression; a call on constants becomes a constant."""
        return self.values.emit(value)

    def constant(self, x: Expr | None, what: str) -> np.ndarray:
        """The value of an input that must be known.

        Raises:
            UnsupportedOpError: it is computed as the model runs.
        """
        found = self.known(x)
        if found is None or found.dtype == object:
            self.refuse(
                f"{what} is not known before the model runs",
                hint="make it an initializer, or fix the model's input shapes with shape=",
            )
        return found

    def known(self, x: Expr | None) -> np.ndarray | None:
        """The value of an input where it is known; an object array of PrimExprs where symbolic."""
        return self.values.known(x)

    def dims(self, x: Expr) -> tuple[Any, ...]:
        """The dimensions of a tensor: ints, or PrimExprs.

        Raises:
            UnsupportedOpError: they are not known.
        """
        dims = getattr(x.struct_info, "dims", None)
        if dims is None:
            self.refuse("the shape of an operand is not known before the model runs")
        return tuple(d if as_int(d) is None else as_int(d) for d in dims)

    def dtype(self, x: Expr) -> str:
        """The dtype of a tensor."""
        return str(x.struct_info.dtype)

    def refuse(self, why: str, hint: str | None = None) -> NoReturn:
        """Raise an UnsupportedOpError that names operator, node and opset."""
        raise UnsupportedOpError(f"{self.where}: {self!r}: {why}", hint=hint)
