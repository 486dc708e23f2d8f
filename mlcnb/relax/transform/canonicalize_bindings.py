"""CanonicalizeBindings: no second name for a value, no detour through a tuple.

y = x                             t = (a, b)            with R.dataflow():
z = R.add(y, y)                   u = t[0]                  lv = R.add(x, x)
                                  v = R.exp(u)              gv = lv
->                                ->                        R.output(gv)      ->
z = R.add(x, x)                   v = R.exp(a)              gv = R.add(x, x)
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.module import IRModule
from mlcnb.ir.rules import rule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.relax.analysis.struct_info import same_info
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.emitter import block_is_dataflow
from mlcnb.relax.expr import (
    Binding,
    BindingBlock,
    Constant,
    DataflowVar,
    Function,
    MatchCast,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.struct_info import TupleStructInfo


def canonicalize_bindings(func: Function) -> Function:
    """`func` without aliases, needless casts and tuple round trips.

    Shapes and dtypes stay, nothing is refused; see CanonicalizeBindings.
    """
    return _Canonicalizer().rewrite(func)


class _Canonicalizer(Mutator):
    def __init__(self) -> None:
        super().__init__()
        #: dataflow variable -> the output of the block that is its other name
        self.outputs: dict[Var, Var] = {}

    def visit_block(self, block: BindingBlock) -> BindingBlock:
        """Find the outputs that rename a local value, then rewrite."""
        if block_is_dataflow(block):
            self.outputs.update(_renamed(block))
        return super().visit_block(block)

    def _append(self, binding: Binding) -> None:
        output = self.outputs.get(binding.var)
        if output is None or not same_info(output.struct_info, binding.var.struct_info):
            super()._append(binding)
            return
        self.remap[binding.var] = output
        if isinstance(binding, MatchCast):
            super()._append(MatchCast(output, binding.value, binding.struct_info))
        else:
            super()._append(VarBinding(output, binding.value))

    def visit_leaf(self, leaf: Any, var: Var) -> Any:
        """`y = x`: x takes y's place. The output that its value was given to needs no binding."""
        return var if leaf is var else self.alias(leaf, var)

    @rule("CanonicalizeBindings")
    def alias(self, leaf: Any, var: Var) -> Any:
        """`y = x`: x takes y's place."""
        return leaf if isinstance(leaf, Var | Constant) else None

    @rule("CanonicalizeBindings", "field")
    def visit_item(self, item: TupleGetItem, var: Var) -> Any:
        """`t[i]` of a tuple that was built here: the field."""
        value = self.value_of(item.tuple_value)
        if isinstance(value, Tuple) and isinstance(value.fields[item.index], Var | Constant):
            return value.fields[item.index]
        return None

    @rule("CanonicalizeBindings", "tuple")
    def visit_tuple(self, value: Tuple, var: Var) -> Any:
        """`(t[0], t[1])` of a pair: t."""
        items = [self.value_of(f) for f in value.fields]
        if not items or not all(isinstance(i, TupleGetItem) for i in items):
            return None
        whole = items[0].tuple_value
        info = getattr(whole, "struct_info", None)
        if not isinstance(info, TupleStructInfo) or len(info.fields) != len(items):
            return None
        in_order = all(i.tuple_value is whole and i.index == n for n, i in enumerate(items))
        return whole if in_order else None

    @rule("CanonicalizeBindings", "cast")
    def visit_match_cast(self, binding: MatchCast) -> Any:
        """A cast to what is known already."""
        given = getattr(binding.value, "struct_info", None)
        return binding.value if same_info(given, binding.struct_info) else None


def _renamed(block: BindingBlock) -> dict[Var, Var]:
    """For each local variable of the block that an output renames: the output."""
    local = {b.var for b in block.bindings if isinstance(b.var, DataflowVar)}
    found: dict[Var, Var] = {}
    for b in block.bindings:
        if not isinstance(b.var, DataflowVar) and type(b) is VarBinding and b.value in local:
            found.setdefault(b.value, b.var)
    return found


class CanonicalizeBindings(FunctionPass):
    """Remove aliases, casts to what is known, and tuples that are taken apart again.

    A match_cast goes only where dtype and shape are known already: a check that the run needs
    stays. Nothing is refused.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """See `canonicalize_bindings`."""
        made = canonicalize_bindings(func)
        if made is not func:
            gone = sum(1 for _ in bindings_of(func)) - sum(1 for _ in bindings_of(made))
            ctx.note(f"{gone} bindings were other names of something")
        return made
