"""DispatchSampling, DispatchSortScan: the loops of sampling, sorts and scans before all others.

TVM hands these operators to libraries or to loops of their own, and leaves the rest to
LegalizeOps. Here every operator brings its loops, so the passes are LegalizeOps for some of them.
"""

from __future__ import annotations

from typing import ClassVar

from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.operator import declarations
from mlcnb.relax.transform.legalize_ops import LegalizeOps


class _Dispatch(ModulePass):
    """LegalizeOps for the operators of a family."""

    family: ClassVar[frozenset[str]]

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The calls of the family as calls of loops, where there are loops."""
        others = sorted(set(declarations()) - self.family)
        return LegalizeOps(skip_ops=others).transform_module(mod, ctx)


class DispatchSampling(_Dispatch):
    """Replace `multinomial_from_uniform` by a call_tir of its loops."""

    family = frozenset({"relax.multinomial_from_uniform"})


class DispatchSortScan(_Dispatch):
    """Replace sort, argsort, topk, cumsum and cumprod by a call_tir of their loops."""

    family = frozenset(f"relax.{n}" for n in "sort argsort topk cumsum cumprod".split())
