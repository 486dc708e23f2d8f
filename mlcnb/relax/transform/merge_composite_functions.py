"""MergeCompositeFunctions: calls that one library runs, next to each other, become one function.

gv = cls.fused_relax_matmul(x, w)            gv = cls.fused_relax_matmul_relax_nn_relu_blas(x, w)
gv1 = cls.fused_relax_nn_relu(gv)     ->
                                             def fused_…_blas(x, w):
                                                 R.func_attr({"Codegen": "blas"})
                                                 … both, as local functions, and their calls …

The library is what stands before the dot of the functions' `Composite`.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.span import merge
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.variables import leaves, udchain, uses
from mlcnb.relax.emitter import Names, block_is_dataflow
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.mutator import Renamer
from mlcnb.relax.transform.dead_code_elimination import remove_unused_functions
from mlcnb.relax.transform.outline import (
    Outline,
    add_shared,
    goes_in_a_circle,
    group_calls,
    ordered,
    outputs_of,
)


class MergeCompositeFunctions(ModulePass):
    """Join neighbouring composite functions of one library, and say which library makes them.

    The joined function takes and gives the tensors that cross its border, in their shapes and
    dtypes. Calls that would need each other's results in a circle stay apart, nothing is refused.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Every dataflow block of the functions that are not composite themselves."""
        merger = _Merger(FunctionTable(mod.functions))
        merger.table.rewrite(merger.function, "Composite", "Codegen")
        if not merger.count:
            return mod
        ctx.note(f"{merger.calls} calls became {merger.count}")
        made = merger.table.module(mod)
        gone = {k for k in mod if "Composite" in mod.functions[k].attrs}
        used = {g for k, f in made.items() if k not in gone for g in _mentioned(f)}
        return remove_unused_functions(made.without_functions(gone - used))


def _mentioned(func: Any) -> set[Any]:
    used = uses(func) if isinstance(func, rx.Function) else ()
    return {n for n in used if isinstance(n, GlobalVar)}


class _Merger:
    def __init__(self, table: FunctionTable) -> None:
        self.table = table
        self.count = self.calls = 0

    def function(self, func: rx.Function) -> rx.Function:
        """The function with its composite calls merged."""
        names = Names({v.name_hint for v in udchain(func)})
        blocks = list(func.body.blocks)
        for i, block in enumerate(blocks):
            if block_is_dataflow(block):
                others = [b for j, o in enumerate(blocks) if j != i for b in o.bindings]
                kept = {n for b in others for n in uses(b.value)} | set(leaves(func.body.body))
                blocks[i] = self.block(block, kept, names)
        return replace(func, body=replace(func.body, blocks=tuple(blocks)))

    def block(self, block: rx.BindingBlock, kept: set[Any], names: Names) -> rx.BindingBlock:
        """A block with each group of composite calls as one call."""
        bindings = block.bindings
        for codegen, group in self.groups(bindings):
            # two groups that are sound alone may need each other: then their calls stay apart
            apart = goes_in_a_circle(bindings, group)
            alone = [{b.var} for b in bindings if b.var in group]
            for part in alone if apart else [group]:
                bindings = self.merged(bindings, codegen, part, kept, names)
        return replace(block, bindings=bindings)

    def merged(
        self,
        bindings: tuple[rx.Binding, ...],
        codegen: str,
        group: set[rx.Var],
        kept: set[Any],
        names: Names,
    ) -> tuple[rx.Binding, ...]:
        """The bindings with a group as one call."""
        inside = [b for b in bindings if b.var in group]
        root = inside[-1].var
        outputs = outputs_of(bindings, group, root, kept)
        outline = Outline(inside, outputs, False, {"Codegen": codegen})
        key = self.added(outline.func, inside, codegen)
        span = merge(*(getattr(b.value, "span", None) for b in inside))
        made = group_calls(key, outline, outputs, span, names)
        place = next(i for i, b in enumerate(bindings) if b.var is root)
        before = [b for b in bindings[:place] if b.var not in group]
        self.count, self.calls = self.count + 1, self.calls + len(inside)
        return ordered([*before, *made, *bindings[place + 1 :]])

    def groups(self, bindings: tuple[rx.Binding, ...]) -> list[tuple[str, set[rx.Var]]]:
        """Sets of calls of one library, each as large as it may be without going in a circle."""
        found: list[tuple[str, set[rx.Var]]] = []
        for binding in bindings:
            codegen = self.codegen(binding.value)
            if not codegen:
                continue
            group = {binding.var}
            for other in list(found):
                near = any(n in other[1] for n in leaves(binding.value))
                joined = group | other[1]
                if near and other[0] == codegen and not goes_in_a_circle(bindings, joined):
                    group = joined
                    found.remove(other)
            found.append((codegen, group))
        return found

    def codegen(self, value: Any) -> str:
        """The library of a call of a composite function; "" for all else."""
        if not isinstance(value, rx.Call) or not isinstance(value.op, GlobalVar):
            return ""
        func: Any = self.table.functions.get(value.op)
        name = "" if func is None else str(func.attrs.get("Composite", ""))
        return name.partition(".")[0]

    def added(self, func: rx.Function, inside: list[rx.Binding], codegen: str) -> GlobalVar:
        """The name of a group's function, its composites made local."""
        body = func.body
        locals_: dict[GlobalVar, rx.Var] = {}
        made: list[rx.Binding] = []
        names = Names({v.name_hint for v in udchain(func)})
        seen = Renamer({})
        for binding in body.bindings:
            callee = binding.value.op
            if callee not in locals_:
                inner: Any = self.table.functions[callee].without_attr("Primitive")
                locals_[callee] = rx.Var(names.fresh("local_func"), inner.struct_info)
                made.append(rx.VarBinding(locals_[callee], inner))
            var = rx.Var(binding.var.name_hint, binding.var.struct_info, binding.var.span)
            value = seen.substitute(replace(binding.value, op=locals_[callee]))
            seen.remap[binding.var] = var
            made.append(rx.VarBinding(var, value))
        whole = rx.SeqExpr((rx.BindingBlock(tuple(made)),), seen.substitute(body.body))
        parts = [b.value.op.name_hint.removeprefix("fused_") for b in inside]
        name = self.table.free_name("_".join(["fused", *parts])) + f"_{codegen}"
        return add_shared(self.table, replace(func, body=whole), name)
