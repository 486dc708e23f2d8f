"""AnnotateTIROpPattern: each loop function says how it may be fused.

@T.prim_func                     @T.prim_func
def relu(A, B):          ->      def relu(A, B):
    …                                T.func_attr({"op_pattern": 0, …})

0 elementwise, 1 broadcast, 2 injective, 3 reduction, 4 elementwise operators may follow, 8 opaque:
read off the loops, not off the name.
"""

from __future__ import annotations

from collections import Counter

from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import PassContext, PrimFuncPass
from mlcnb.tir.analysis import OpPatternKind, op_pattern
from mlcnb.tir.function import PrimFunc


class AnnotateTIROpPattern(PrimFuncPass):
    """Give each loop function the attribute `op_pattern`, its fusion kind.

    Read off the accesses, whatever the shapes and dtypes are; what is not understood is 8, opaque,
    and nothing is refused. A function that has the attribute keeps it.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """All loop functions; the note counts the kinds."""
        made = super().transform_module(mod, ctx)
        if made is not mod:
            kinds = (f.attrs.get("op_pattern") for f in made.functions.values())
            counts = Counter(OpPatternKind(k).name.lower() for k in kinds if k is not None)
            ctx.note(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
        return made

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """What the loops say, unless the function has the attribute already."""
        if "op_pattern" in func.attrs:
            return func
        return func.with_attr("op_pattern", int(op_pattern(func)))  # type: ignore[return-value]
