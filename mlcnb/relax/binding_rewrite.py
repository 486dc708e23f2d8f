"""DataflowBlockRewrite: a dataflow block edited binding by binding.

rewrite = DataflowBlockRewrite(block, func)
rewrite.add(R.add(x, x), "twice", is_dfvar=True)          a binding at the end of the block
rewrite.replace_all_uses(old, new)                        another variable wherever one was used
rewrite.remove_unused(old)
mod = rewrite.mutate_irmodule(mod)                        or mutated_root_fn(), mutated_dfb()

Block and function stay as they were: each edit makes new ones. Names and meaning are those of
tvm.relax.binding_rewrite (0.21).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.core.node import replace, rewrite
from mlcnb.ir.module import IRModule
from mlcnb.relax.analysis.variables import bound_vars, uses
from mlcnb.relax.emitter import Emitter, Names
from mlcnb.relax.expr import Binding, DataflowBlock, DataflowVar, Function, SeqExpr, Var


class DataflowBlockRewrite:
    """Edits of one dataflow block of a function.

    Args:
        dfb: the block.
        root_fn: the function in whose body it stands.

    Raises:
        ArgumentError: it does not stand there.
    """

    def __init__(self, dfb: DataflowBlock, root_fn: Function) -> None:
        places = [i for i, block in enumerate(root_fn.body.blocks) if block is dfb]
        if not places or not isinstance(dfb, DataflowBlock):
            raise ArgumentError(
                "this is no dataflow block of the function",
                root=root_fn,
                hint="func.body.blocks has them",
            )
        self._original = root_fn
        self._func: Function = root_fn
        self._place: int | None = places[0]

    @property
    def dfb(self) -> DataflowBlock:
        """The block as it is now; without bindings where all of them were removed."""
        if self._place is None:
            return DataflowBlock(())
        block: Any = self._func.body.blocks[self._place]
        return block  # type: ignore[no-any-return]

    @property
    def root_fn(self) -> Function:
        """The function as it is now."""
        return self._func

    def mutated_dfb(self) -> DataflowBlock:
        """The block as it is now."""
        return self.dfb

    def mutated_root_fn(self) -> Function:
        """The function as it is now."""
        return self._func

    def mutate_irmodule(self, irmodule: IRModule) -> IRModule:
        """The module with the function as it is now in place of the one that was given.

        Raises:
            ArgumentError: the function is not in the module.
        """
        found = [k for k, f in irmodule.functions.items() if f is self._original]
        if not found:
            raise ArgumentError("the module does not hold the function that is rewritten")
        return irmodule.with_function(found[0], self._func)

    def add(self, expr: Any, name: str | None = None, is_dfvar: bool = False) -> None:
        """Bind an expression at the end of the block.

        Args:
            expr: the value, or a binding as it is.
            name: of the variable; without one it gets a free one.
            is_dfvar: the variable is seen in the block only.
        """
        if isinstance(expr, Binding):
            self.add_binding(expr)
            return
        taken = {v.name_hint for v in (*self._func.params, *bound_vars(self._func))}
        emitter = Emitter({}, Names(taken), dataflow=True)
        emitter.emit(expr, name or "", output=not is_dfvar)
        self._put((*self.dfb.bindings, *emitter.bindings))

    def add_binding(self, binding: Binding) -> None:
        """Put a binding at the end of the block."""
        self._put((*self.dfb.bindings, binding))

    def replace_all_uses(self, old_var: Var, new_var: Var) -> None:
        """Use `new_var` wherever `old_var` was used; the binding of `old_var` stays.

        Raises:
            ArgumentError: `old_var` is used outside of the block, where `new_var` is not seen.
        """
        if isinstance(new_var, DataflowVar) and not isinstance(old_var, DataflowVar):
            raise ArgumentError(
                f"{old_var.name_hint} is seen outside of the block, {new_var.name_hint} is not",
                hint="give the new variable with R.output, or add it with is_dfvar=False",
            )

        def new(expr: Any) -> Any:
            return rewrite(expr, lambda n: new_var if n is old_var else None)

        def changed(binding: Binding) -> Binding:
            return replace(binding, value=new(binding.value))

        blocks = tuple(
            replace(block, bindings=tuple(map(changed, block.bindings)))
            for block in self._func.body.blocks
        )
        self._func = replace(self._func, body=SeqExpr(blocks, new(self._func.body.body)))

    def remove_unused(self, var: Var, allow_undef: bool = False) -> None:
        """Remove the binding of a variable that nothing uses.

        Args:
            var: a variable of the block.
            allow_undef: do nothing where the block does not bind it.

        Raises:
            ArgumentError: it is used, or (unless `allow_undef`) not bound in the block.
        """
        bindings = self.dfb.bindings
        rest = tuple(b for b in bindings if b.var is not var)
        if len(rest) == len(bindings):
            if allow_undef:
                return
            raise ArgumentError(f"the block does not bind {var.name_hint}", root=self.dfb)
        if any(u is var for u in uses(self._func)):
            raise ArgumentError(
                f"{var.name_hint} is used", root=self._func, hint="replace_all_uses(it, another)"
            )
        self._put(rest)

    def remove_all_unused(self) -> None:
        """Remove the bindings of the block that nothing uses, and those only they used."""
        kept: list[Binding] = []
        inside = {b.var for b in self.dfb.bindings}
        needed = {u for u in uses(self._without_block()) if isinstance(u, Var)} & inside
        for binding in reversed(self.dfb.bindings):
            if binding.var in needed:
                kept.append(binding)
                needed |= {u for u in uses(binding.value) if isinstance(u, Var)}
        if len(kept) < len(self.dfb.bindings):
            self._put(reversed(kept))

    def _without_block(self) -> Function:
        blocks = [b for i, b in enumerate(self._func.body.blocks) if i != self._place]
        return replace(self._func, body=SeqExpr(tuple(blocks), self._func.body.body))

    def _put(self, bindings: Iterable[Binding]) -> None:
        """Other bindings for the block; a block without any is taken out."""
        made = tuple(bindings)
        if not made:
            self._func, self._place = self._without_block(), None
            return
        blocks = list(self._func.body.blocks)
        if self._place is None:
            self._place = len(blocks)
            blocks.append(DataflowBlock(made))
        blocks[self._place] = replace(blocks[self._place], bindings=made)
        self._func = replace(self._func, body=SeqExpr(tuple(blocks), self._func.body.body))
