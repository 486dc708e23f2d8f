"""What is known before a model sees an input: constants, weights, and what follows from them.

def main(x, w):                          num_input = 1: `w` is a weight
    wt = R.permute_dims(w)               known
    gv = R.matmul(x, wt)                 not known
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlcnb.relax.analysis.struct_info import definable_vars, symbolic_vars
from mlcnb.relax.analysis.variables import bindings_of, value_uses
from mlcnb.relax.expr import Call, Function, If, MatchCast, PrimValue, ShapeExpr, Var
from mlcnb.relax.infer import Functions, is_pure_call


def computable_at_compile_time(func: Function, functions: Functions | None = None) -> list[Var]:
    """The variables of `func` whose values follow from constants and weights alone, in order.

    Weights are the parameters after the first `num_input`; without that attribute there are none.
    Symbolic sizes are known where the shape of something known tells them. As TVM's analysis of
    that name; calls with effects are never known.
    """
    known: dict[Var, None] = {}
    if "num_input" in func.attrs:
        known.update(dict.fromkeys(func.params[int(func.attrs["num_input"]) :]))
    sizes = {size for var in known for size in definable_vars(var.struct_info)}
    for binding in bindings_of(func):
        value = binding.value
        stays = isinstance(value, If | Function)
        stays = stays or (isinstance(value, Call) and not is_pure_call(value, functions))
        if not stays and all(v in known for v in value_uses(value) if isinstance(v, Var)):
            if isinstance(binding, MatchCast):
                sizes.update(definable_vars(binding.struct_info))
            if all(size in sizes for size in _sizes_of(value)):
                known[binding.var] = None
    return list(known)


def _sizes_of(value: Any) -> Iterator[Any]:
    """The symbolic sizes that a value is computed with."""
    for n in value_uses(value):
        if isinstance(n, ShapeExpr | PrimValue):
            yield from symbolic_vars(n)
