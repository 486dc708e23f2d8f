"""What spellings ask of one node of a foreign graph, whichever front end reads it."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax.frontend.shared.limits import MAX_KNOWN_ELEMENTS
from mlcnb.relax.frontend.shared.values import Values


class GraphNode:
    """A node as spellings see it (`mlcnb.op.onnx.ForeignNode`): what both readers answer alike."""

    values: Values
    #: how messages begin, and what to do about an operator that is refused
    where: Any
    advice: str

    def emit(self, value: Any) -> Any:
        """Bind an expression; a call on constants becomes a constant."""
        return self.values.emit(value)

    def constant(self, x: Any, what: str) -> np.ndarray:
        """The value of a tensor that must be known at import.

        Raises:
            UnsupportedOpError: it is computed as the model runs; of ONNX an UnknownValueError,
                which names the inputs that it is computed from.
        """
        found = self.known(x)
        if found is None or found.dtype == object:
            self.missing(x, f"{what} is not known before the model runs", "make it a constant")
        if found.size > MAX_KNOWN_ELEMENTS:
            self.refuse(f"{what} has {found.size} elements, more than {MAX_KNOWN_ELEMENTS}")
        return found

    def known(self, x: Any) -> np.ndarray | None:
        """The value of a tensor where it is known; an object array of PrimExprs where symbolic."""
        return self.values.known(x)

    def dims(self, x: Any) -> tuple[Any, ...]:
        """The dimensions of a tensor: ints, or PrimExprs.

        Raises:
            UnsupportedOpError: as of `constant`, they are not known.
        """
        dims = getattr(x.struct_info, "dims", None)
        if dims is None:
            self.missing(x, "the shape of an operand is not known before the model runs")
        return tuple(d if as_int(d) is None else as_int(d) for d in dims)

    def dtype(self, x: Any) -> str:
        """The dtype of a tensor."""
        kind = getattr(x.struct_info, "dtype", None)
        return str(kind) if kind else self.refuse("the dtype of an operand is not known")

    def missing(self, x: Any, why: str, hint: str | None = None) -> NoReturn:
        """Refuse a tensor of which nothing, or not enough, is known at import."""
        self.refuse(why, hint)

    def refuse(self, why: str, hint: str | None = None) -> NoReturn:
        """Raise an UnsupportedOpError that says which node of which model it is."""
        raise UnsupportedOpError(f"{self.where}: {why}", hint=hint or self.advice)
