"""Slots: which sizes, and what follows from them, a function keeps in the heap of VMShapeLower.

def main(x: R.Tensor(("n", "m"))): return R.shape([n * 2, m])        0: n   1: m   2: n * 2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlcnb.ir.expr import FloatImm, IntImm, PrimExpr
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.structural import structural_equal
from mlcnb.relax.analysis.struct_info import symbolic_vars, values_of
from mlcnb.relax.analysis.variables import bindings_of, leaves
from mlcnb.relax.expr import Function, MatchCast, PrimValue, ShapeExpr
from mlcnb.relax.struct_info import TupleStructInfo


@dataclass(eq=False)
class Slot:
    """A place in the heap: of a size, or of what follows from sizes."""

    expr: PrimExpr
    index: int
    is_known: bool = False


class Slots:
    """The places that a function needs, in the order in which it mentions their values."""

    def __init__(self, func: Function) -> None:
        self.slots: list[Slot] = []
        for param in func.params:
            self.add(param.struct_info)
        for binding in bindings_of(func):
            if isinstance(binding, MatchCast):
                self.add(binding.struct_info)
            else:
                self.add_value(binding.value)
        self.add_value(func.body.body)
        self.add(func.ret_struct_info)

    def add_value(self, value: Any) -> None:
        """Places for the shapes and scalars that a value mentions."""
        for leaf in leaves(value):
            if isinstance(leaf, ShapeExpr):
                self.add_dims(leaf.values)
            elif isinstance(leaf, PrimValue):
                self.add_dims((leaf.value,))

    def add(self, info: Any) -> None:
        """Places for the sizes of a struct info."""
        for field in info.fields if isinstance(info, TupleStructInfo) else ():
            self.add(field)
        self.add_dims(values_of(info))

    def add_dims(self, dims: Any) -> None:
        """A place for each that is no number."""
        for dim in dims:
            if not isinstance(dim, IntImm | FloatImm) and self.of(dim) is None:
                self.slots.append(Slot(dim, len(self.slots)))

    def of(self, expr: PrimExpr) -> Any:
        """The slot of an expression, or None."""
        for slot in self.slots:
            if slot.expr is expr:
                return slot
        if isinstance(expr, PrimVar):
            return None
        return next((s for s in self.slots if structural_equal(s.expr, expr)), None)

    def computable(self) -> list[Slot]:
        """Those that are not known, but follow from sizes that are."""
        return [s for s in self.slots if not s.is_known and self.follows(s.expr)]

    def follows(self, expr: PrimExpr) -> bool:
        """True for an expression of known sizes."""
        if isinstance(expr, PrimVar):
            return False
        found = [self.of(v) for v in symbolic_vars(expr)]
        return all(s is not None and s.is_known for s in found)
