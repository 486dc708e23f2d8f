"""ToNonDataflow: dataflow blocks become plain ones, so that effects may stand between.

with R.dataflow():                        lv = R.exp(x)
    lv = R.exp(x)               ->        gv = R.add(lv, x)
    gv = R.add(lv, x)
    R.output(gv)
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.transform import FunctionPass
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import BindingBlock, DataflowVar, Function, SeqExpr, Var
from mlcnb.relax.mutator import Renamer
from mlcnb.relax.transform.normalize import merged


def to_non_dataflow(func: Function) -> Function:
    """`func` without dataflow blocks and DataflowVars."""
    local = [b.var for b in bindings_of(func) if isinstance(b.var, DataflowVar)]
    return _Plain({v: Var(v.name_hint, v.struct_info, v.span) for v in local}).rewrite(func)


class _Plain(Renamer):
    def visit_block(self, block: BindingBlock) -> BindingBlock:
        """The same bindings in a plain block."""
        made = super().visit_block(block)
        return made if type(made) is BindingBlock else BindingBlock(made.bindings)

    def _sequence(self, seq: Any) -> SeqExpr:
        made = super()._sequence(seq)
        blocks = merged(made.blocks)
        return made if len(blocks) == len(made.blocks) else SeqExpr(blocks, made.body)


class ToNonDataflow(FunctionPass):
    """Make plain blocks of dataflow blocks.

    Shapes, dtypes and names stay, nothing is refused.
    """

    work = staticmethod(to_non_dataflow)
