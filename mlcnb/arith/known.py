"""What is known of a number, as TVM names it: constant bounds and residues, and how hard to try.

i in 0..8         ConstIntBound(min_value=0, max_value=7)        == (0, 7)
i * 4 + 1         ModularSet(coeff=4, base=1)                    some multiple of 4, and 1
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from math import inf
from typing import NamedTuple


class ConstIntBound(NamedTuple):
    """Smallest and largest value, both included; infinite where there is no end."""

    min_value: float
    max_value: float


#: the ends of a bound that knows nothing
ConstIntBound.NEG_INF = -inf  # type: ignore[attr-defined]
ConstIntBound.POS_INF = inf  # type: ignore[attr-defined]


class ModularSet(NamedTuple):
    """coeff * something + base, with 0 <= base < coeff; coeff 0: the number base."""

    coeff: int
    base: int


class ProofStrength(IntEnum):
    """How hard to try a proof. There is one prover here, which always does what it can."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1


class CompareResult(IntEnum):
    """What is known of two numbers a and b."""

    INCONSISTENT = 0
    EQ = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5
    NE = 6
    UNKNOWN = 7


class Extension(IntFlag):
    """What `rewrite_simplify` does only where it is asked to (`Analyzer.enabled_extensions`)."""

    NoExtensions = 0
    TransitivelyProveInequalities = 1
    ConvertBooleanToAndOfOrs = 2
    ApplyConstraintsToBooleanBranches = 4
    ComparisonOfProductAndSum = 8


@dataclass
class RewriteSimplifyStats:
    """How much work `rewrite_simplify` did."""

    nodes_visited: int = 0
    constraints_entered: int = 0
    rewrites_attempted: int = 0
    rewrites_performed: int = 0
    max_recursive_depth: int = 0
    num_recursive_rewrites: int = 0
