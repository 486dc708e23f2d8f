"""CanonicalizeBindings: no second name for a value, no detour through a tuple.

y = x                             t = (a, b)            with R.dataflow():
z = R.add(y, y)                   u = t[0]                  lv = R.add(x, x)
                                  v = R.exp(u)              gv = lv
->                                ->                        R.output(gv)      ->
z = R.add(x, x)                   v = R.exp(a)              gv = R.add(x, x)

def main(x: R.Tensor(("n", 4))):
    o, p = T.int64(), T.int64()
    y = R.match_cast(x, R.Tensor((o, p)))
    return R.reshape(y, R.shape([o * p]))      ->      return R.reshape(x, R.shape([n * 4]))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from mlcnb.core.errors import TypeInferError
from mlcnb.core.node import replace
from mlcnb.core.text import plural
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.rules import rule
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import (
    return_info,
    same_info,
    substitute,
    symbolic_vars,
    values_of,
)
from mlcnb.relax.analysis.variables import bindings_of, nested, use_counts, value_uses
from mlcnb.relax.emitter import block_is_dataflow
from mlcnb.relax.mutator import Mutator, Renamer
from mlcnb.relax.struct_info import TupleStructInfo
from mlcnb.relax.transform.bind_symbolic_vars import bind_symbolic_vars


def canonicalize_bindings(func: rx.Function) -> rx.Function:
    """`func` without aliases, needless casts, tuple round trips and second names of sizes.

    Shapes and dtypes stay, nothing is refused; see CanonicalizeBindings.
    """
    return _with_locals(_Canonicalizer().rewrite(_with_known_sizes(func)))


def _with_locals(func: rx.Function) -> rx.Function:
    """`func` with what a dataflow block gives out, and nobody outside of it uses, local to it."""
    counts = use_counts(func)
    local: dict[rx.Var, rx.Var] = {}
    for seq in _every_sequence(func):
        for block in filter(block_is_dataflow, seq.blocks):
            inside = Counter(n for b in block.bindings for n in value_uses(b.value))
            for var in (b.var for b in block.bindings):
                if type(var) is rx.Var and inside[var] == counts.get(var, 0):
                    local[var] = rx.DataflowVar(var.name_hint, var.struct_info, var.span)
    return Renamer(local).rewrite(func) if local else func


def _every_sequence(func: rx.Function) -> Iterator[rx.SeqExpr]:
    """The body, branches, and bodies of local functions."""
    yield func.body
    for binding in bindings_of(func):
        yield from nested(binding.value)


def _with_known_sizes(func: rx.Function) -> rx.Function:
    """`func` with one name for each size; a result that was as far known is known as far."""
    sizes = _known_sizes(func)
    if not sizes:
        return func
    try:
        made = bind_symbolic_vars(func, sizes)
    except TypeInferError:  # what cannot run says so as it runs: it may stand in a branch
        return func
    if not same_info(func.ret_struct_info, return_info(func.params, func.body.struct_info)):
        return made
    return replace(made, ret_struct_info=return_info(made.params, made.body.struct_info))


def _known_sizes(func: rx.Function) -> dict[PrimVar, PrimExpr]:
    """The variables that a match_cast defines as sizes which its value has already."""
    casts = [b for b in bindings_of(func) if isinstance(b, rx.MatchCast)]
    given = {v for p in func.params for v in symbolic_vars(p.struct_info)}
    sizes: dict[PrimVar, PrimExpr] = {}
    unsure: set[PrimVar] = set()
    for cast in casts:
        value = getattr(cast.value, "struct_info", None)
        for var, size in _defined(cast.struct_info, value):
            known = None if size is None else substitute(size, sizes)
            if (
                known is None
                or var in given
                or known.dtype != var.dtype
                or not structural_equal(sizes.setdefault(var, known), known)
            ):
                unsure.add(var)
    return {var: size for var, size in sizes.items() if var not in unsure}


def _defined(pattern: Any, value: Any) -> Iterator[tuple[PrimVar, Any]]:
    """Each variable that stands for a size in `pattern`, with what `value` has there, or None."""
    if isinstance(pattern, TupleStructInfo):
        fields = value.fields if isinstance(value, TupleStructInfo) else ()
        for inner, part in zip_longest(pattern.fields, fields[: len(pattern.fields)]):
            yield from _defined(inner, part)
        return
    wanted = values_of(pattern)
    found = values_of(value) if type(value) is type(pattern) else ()
    if len(found) != len(wanted):
        found = (None,) * len(wanted)
    yield from ((w, f) for w, f in zip(wanted, found, strict=True) if isinstance(w, PrimVar))


class _Canonicalizer(Mutator):
    def __init__(self) -> None:
        super().__init__()
        #: dataflow variable -> the output of the block that is its other name
        self.outputs: dict[rx.Var, rx.Var] = {}

    def visit_block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        """Find the outputs that rename a local value, then rewrite."""
        if block_is_dataflow(block):
            self.outputs.update(_renamed(block))
        return super().visit_block(block)

    def _append(self, binding: rx.Binding) -> None:
        output = self.outputs.get(binding.var)
        if output is None or not same_info(output.struct_info, binding.var.struct_info):
            super()._append(binding)
            return
        self.remap[binding.var] = output
        super()._append(replace(binding, var=output))

    def visit_leaf(self, leaf: Any, var: rx.Var) -> Any:
        """`y = x`: x takes y's place. The output that its value was given to needs no binding."""
        if isinstance(leaf, rx.Constant) and var in self.outputs:
            return None
        return var if leaf is var else self.alias(leaf, var)

    def _replaces(self, var: rx.Var, result: Any) -> bool:
        """A constant that a dataflow block gives out keeps its name."""
        escapes = self.emitter.dataflow and not isinstance(var, rx.DataflowVar)
        kept = escapes and isinstance(result, rx.Constant)
        return not kept and super()._replaces(var, result)

    @rule("CanonicalizeBindings")
    def alias(self, leaf: Any, var: rx.Var) -> Any:
        """`y = x`: x takes y's place."""
        return leaf if isinstance(leaf, rx.Var | rx.Constant) else None

    @rule("CanonicalizeBindings", "field")
    def visit_item(self, item: rx.TupleGetItem, var: rx.Var) -> Any:
        """`t[i]` of a tuple that was built here: the field."""
        value = self.value_of(item.tuple_value)
        if isinstance(value, rx.Tuple) and isinstance(
            value.fields[item.index], rx.Var | rx.Constant
        ):
            return value.fields[item.index]
        return None

    @rule("CanonicalizeBindings", "tuple")
    def visit_tuple(self, value: rx.Tuple, var: rx.Var) -> Any:
        """`(t[0], t[1])` of a pair: t."""
        items = [self.value_of(f) for f in value.fields]
        if not items or not all(isinstance(i, rx.TupleGetItem) for i in items):
            return None
        whole = items[0].tuple_value
        info = getattr(whole, "struct_info", None)
        if not isinstance(info, TupleStructInfo) or len(info.fields) != len(items):
            return None
        in_order = all(i.tuple_value is whole and i.index == n for n, i in enumerate(items))
        return whole if in_order else None

    @rule("CanonicalizeBindings", "cast")
    def visit_match_cast(self, binding: rx.MatchCast) -> Any:
        """A cast to what is known already."""
        given = getattr(binding.value, "struct_info", None)
        return binding.value if same_info(given, binding.struct_info) else None


def _renamed(block: rx.BindingBlock) -> dict[rx.Var, rx.Var]:
    """For each local variable of the block that an output renames: the output."""
    local = {b.var for b in block.bindings if isinstance(b.var, rx.DataflowVar)}
    found: dict[rx.Var, rx.Var] = {}
    for b in block.bindings:
        if not isinstance(b.var, rx.DataflowVar) and type(b) is rx.VarBinding and b.value in local:
            found.setdefault(b.value, b.var)
    return found


class CanonicalizeBindings(FunctionPass):
    """Remove aliases, casts to what is known, and tuples that are taken apart again.

    A match_cast goes only where dtype and shape are known already: a check that the run needs
    stays. A size that it defines though the value has it already is that size. Nothing is refused.
    """

    def transform_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> rx.Function:
        """See `canonicalize_bindings`."""
        made = canonicalize_bindings(func)
        if made is not func:
            gone = sum(1 for _ in bindings_of(func)) - sum(1 for _ in bindings_of(made))
            told = plural(gone, "binding was another name", "bindings were other names")
            ctx.note(f"{told} of something")
        return made
