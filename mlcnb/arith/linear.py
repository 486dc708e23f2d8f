"""Linear forms of expressions in given variables.

detect_linear_equation(i * 4 + j + n, [i, j])   ->   [4, 1, n]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from mlcnb.arith.analyzer import Analyzer
from mlcnb.arith.emission import emit
from mlcnb.arith.sum import Atom, Sum
from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var


def detect_linear_equation(
    x: Any, variables: Sequence[Var], analyzer: Analyzer | None = None
) -> list[PrimExpr]:
    """[c0, c1, …, rest] with x = c0 * v0 + c1 * v1 + … + rest; [] where it is not linear.

    No coefficient, nor the rest, depends on the variables.
    """
    analyzer = analyzer or Analyzer()
    x = p.as_expr(x)
    rest = analyzer.normal_form(x)
    found: list[Sum] = []
    for var in variables:
        parts = rest.coefficient_of(analyzer.context.var(var))
        if parts is None:
            return []
        factor, rest = parts
        found.append(factor)
    names = set(variables)
    if any(depends_on(part, names) for part in (*found, rest)):
        return []
    return [emit(part, x.dtype) for part in (*found, rest)]


def depends_on(x: Sum, variables: Collection[Var]) -> bool:
    """True if one of the variables stands anywhere in `x`."""
    return any(atom_depends(atom, variables) for atom in x.atoms())


def atom_depends(atom: Atom, variables: Collection[Var]) -> bool:
    """True if one of the variables stands anywhere in an atom that is no product."""
    if atom.kind == "var":
        return atom.expr in variables
    if atom.expr is not None and any(
        isinstance(n, Var) and n in variables for n in walk(atom.expr)
    ):
        return True
    return any(depends_on(x, variables) for x in atom.args if isinstance(x, Sum))
