"""Which bindings belong to a match: those that a part with a shape of its own matched.

A wildcard (whatever is asked of it), a constant or a variable is where the match ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlcnb.relax.dpl import nodes as dp
from mlcnb.relax.expr import Var

#: patterns whose values are part of a match; the others are its inputs
_INNER = (
    dp.CallPattern,
    dp.TuplePattern,
    dp.UnorderedTuplePattern,
    dp.TupleGetItemPattern,
    dp.FunctionPattern,
)


def is_inner(pattern: Any) -> bool:
    """True if what the pattern matches belongs to the match and is no input of it."""
    return isinstance(pattern, _INNER)


def bound_in(
    parts: Mapping[dp.DFPattern, Any], values: Mapping[Var, Any], root: Var
) -> tuple[Var, ...]:
    """The bound variables whose values belong to a match, `root` first."""
    owner = {id(value): var for var, value in values.items()}
    inner = [owner[id(e)] for p, e in parts.items() if is_inner(p) and id(e) in owner]
    return tuple(dict.fromkeys([root, *inner]))
