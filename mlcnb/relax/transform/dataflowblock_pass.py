"""DataflowBlockPass: a pass on each dataflow block by itself, as TVM's `dataflowblock_pass`.

@relax.transform.dataflowblock_pass
def drop_last(block, mod, ctx):
    return relax.DataflowBlock(block.bindings[:-1])
"""

from __future__ import annotations

from mlcnb.core.errors import PassError
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import FunctionPass, PassContext, decorator_of
from mlcnb.relax.expr import BindingBlock, DataflowBlock, Function
from mlcnb.relax.mutator import Mutator


class DataflowBlockPass(FunctionPass):
    """A pass on dataflow blocks: defines `transform_dataflowblock(block, mod, ctx)`.

    Raises:
        PassError: it returns something that is no block.
    """

    def transform_dataflowblock(
        self, block: DataflowBlock, mod: IRModule, ctx: PassContext
    ) -> DataflowBlock:
        """The work on one block; returns `block` itself where there is nothing to do."""
        raise NotImplementedError(f"{self.name} defines no transform_dataflowblock")

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Every dataflow block of a graph function, those of branches too."""
        return _Blocks(self, mod, ctx).rewrite(func)


class _Blocks(Mutator):
    def __init__(self, owner: DataflowBlockPass, mod: IRModule, ctx: PassContext) -> None:
        super().__init__(mod.functions)
        self.owner, self.mod, self.ctx = owner, mod, ctx

    def visit_block(self, block: BindingBlock) -> BindingBlock:
        """The block as the pass makes it."""
        made = super().visit_block(block)
        if not isinstance(made, DataflowBlock):
            return made
        new = self.owner.transform_dataflowblock(made, self.mod, self.ctx)
        if not isinstance(new, DataflowBlock):
            raise PassError(
                f"{self.owner.name} returned {type(new).__name__} in place of a DataflowBlock",
                where=block,
                root=self.func,
                hint="transform_dataflowblock returns the new block",
            )
        return new


dataflowblock_pass = decorator_of(
    DataflowBlockPass,
    "transform_dataflowblock",
    "dataflowblock_pass",
    "`f(block, mod, ctx) -> block`, or a class, becomes a pass on dataflow blocks.",
)
