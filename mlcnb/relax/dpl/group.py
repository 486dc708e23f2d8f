"""Which bindings belong to a match: those that a part with a shape of its own matched.

A wildcard (whatever is asked of it), a constant or a variable is where the match ends.
"""

from __future__ import annotations

from typing import Any

from mlcnb.relax.dpl import pattern as dp

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
