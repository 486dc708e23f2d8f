"""FastMathTransform: operators of float32 by short polynomials, where there are such loops.

lv = R.exp(x)     ->     lv = R.call_tir(cls.fast_exp, (x,), out_sinfo=R.Tensor((4,), "float32"))

Which operators, and how much is lost, says `mlcnb.op.fast_math`. Kernels of this package compute
them on vectors anyway, so there is little to gain on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.op.fast_math import FAST
from mlcnb.relax.expr import Call
from mlcnb.relax.operator import attrs_of, declarations
from mlcnb.relax.transform.legalize_ops import LegalizeOps


class FastMathTransform(ModulePass):
    """Replace exp, tanh, erf and softmax of float32 by loops of short polynomials.

    What is of another dtype, or of unknown shape, stays: nothing is refused.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The calls of those operators, as calls of loops."""
        others = sorted(set(declarations()) - set(FAST))
        made = {name: _legalizer(*found) for name, found in FAST.items()}
        return LegalizeOps(made, skip_ops=others).transform_module(mod, ctx)


def _legalizer(name: str, compute: Callable[..., Any]) -> Callable[[Any, Call], Any]:
    def legalized(builder: Any, call: Call) -> Any:
        """The call of the loops; calls of another dtype stay."""
        x: Any = call.args[0]
        if x.struct_info.dtype != "float32" or x.struct_info.dims is None:
            return call
        attrs = attrs_of(call)
        options = {field: getattr(attrs, field) for field in attrs.node_fields}
        return builder.call_te(compute, x, primfunc_name_hint=name, **options)

    return legalized
