"""What is known while an expression is simplified: bounds of variables, conditions that hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

from mlcnb.arith.sum import Atom, Sum
from mlcnb.ir.expr import PrimExpr, SizeVar, Var

#: (smallest, largest) value, both included; infinite where unknown
Bound = tuple[float, float]
EVERYTHING: Bound = (-inf, inf)


class Context:
    """Atoms by meaning, bounds, and conditions; conditions come and go in layers."""

    def __init__(self) -> None:
        self.atoms: dict[Any, Atom] = {}
        self.alive: list[Any] = []
        #: variable -> polynomial that stands for it (a let binding)
        self.values: dict[Var, Sum] = {}
        #: atom -> bounds that were given or follow from conditions
        self.bounds: dict[Atom, Bound] = {}
        #: variable atom -> (lowest, highest) as polynomials, where these are symbolic
        self.symbolic: dict[Atom, tuple[Sum | None, Sum | None]] = {}
        #: variable atom -> (coefficient, base): value = coefficient * something + base
        self.modular: dict[Atom, tuple[int, int]] = {}
        #: polynomials that are >= 0
        self.constraints: list[Sum] = []
        #: key of a condition -> whether it holds
        self.truths: dict[Any, bool] = {}
        self.forget()

    def forget(self) -> None:
        """Drop what was concluded: after a change of what is known."""
        self.polys: dict[int, Sum] = {}
        self.exprs: dict[int, PrimExpr] = {}
        self.bound_memo: dict[Any, Bound] = {}

    def atom(
        self, key: Any, kind: str, args: tuple, expr: Any = None, is_data: bool = False
    ) -> Atom:
        """The one atom with this meaning."""
        found = self.atoms.get(key)
        if found is None:
            found = self.atoms[key] = Atom(len(self.atoms), kind, args, expr, is_data)
        return found

    def var(self, var: Var) -> Atom:
        """The atom of a variable."""
        key = id(var)
        found = self.atoms.get(key)
        if found is None:
            found = self.atoms[key] = Atom(len(self.atoms), "var", (), var, False)
            if isinstance(var, SizeVar):
                self.bounds.setdefault(found, (0, inf))
        return found

    def tighten(self, atom: Atom, low: float, high: float) -> None:
        """Note that an atom lies between low and high (inclusive)."""
        old_low, old_high = self.bounds.get(atom, EVERYTHING)
        self.bounds[atom] = (max(low, old_low), min(high, old_high))

    @contextmanager
    def layer(self) -> Iterator[None]:
        """What is learned inside the `with` is forgotten after it."""
        saved = (
            self.values, self.bounds, self.symbolic, self.modular, self.constraints, self.truths,
            self.polys, self.exprs, self.bound_memo,
        )  # fmt: skip
        self.values, self.bounds = dict(self.values), dict(self.bounds)
        self.symbolic, self.modular = dict(self.symbolic), dict(self.modular)
        self.constraints, self.truths = list(self.constraints), dict(self.truths)
        self.forget()
        try:
            yield
        finally:
            (
                self.values, self.bounds, self.symbolic, self.modular, self.constraints,
                self.truths, self.polys, self.exprs, self.bound_memo,
            ) = saved  # fmt: skip
