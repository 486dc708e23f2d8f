"""FuseOpsByPattern: what a pattern matches becomes a function of its own, for a library to run.

lv = R.matmul(x, w)                    gv = cls.fused_relax_matmul_relax_nn_relu(x, w)
gv = R.nn.relu(lv)              ->
                                       @R.function(private=True)
                                       def fused_relax_matmul_relax_nn_relu(x, w):
                                           R.func_attr({"Composite": "blas.matmul_relu",
                                                        "Primitive": True})
                                           … the two calls …

The first pattern of the list goes first. A match whose inner values are used outside of it gives
them back too; one that would need its own result is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import FrozenDict, replace
from mlcnb.core.text import kind_of
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.span import merge
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.variables import bindings_of, leaves, udchain, uses
from mlcnb.relax.dpl.group import bound_in
from mlcnb.relax.dpl.matcher import Matcher, parts_only
from mlcnb.relax.dpl.nodes import DFPattern
from mlcnb.relax.emitter import Names, block_is_dataflow
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.transform.outline import (
    Outline,
    add_shared,
    goes_in_a_circle,
    group_calls,
    ordered,
    outputs_of,
)


@dataclass(frozen=True)
class PatternCheckContext:
    """What a pattern's `check` is told of a match.

    Attributes:
        matched_expr: the value that the whole pattern matched.
        annotated_expr: values by the names of `annotation_patterns`.
        matched_bindings: the bindings that belong to the match.
        var_usages: the variables that are computed from each variable.
        value_to_bound_var: the variable of each value.

    Values tell their shape and dtype by `struct_info`. What a `check` raises comes out of the pass.
    """

    matched_expr: Any
    annotated_expr: dict[str, Any]
    matched_bindings: dict[rx.Var, Any]
    var_usages: dict[rx.Var, tuple[rx.Var, ...]]
    value_to_bound_var: dict[Any, rx.Var]


@dataclass(frozen=True)
class FusionPattern:
    """A pattern with the name that its functions get, such as "blas.matmul".

    Attributes:
        name: the library's name, a dot, the name of what it does.
        pattern: what is looked for.
        annotation_patterns: names of some of its parts.
        check: takes a PatternCheckContext; False leaves a match alone.
        attrs_getter: takes the values by name; what it gives becomes attributes of the function.

    Shapes and dtypes are for `check` to look at; a pattern says them by has_shape and has_dtype.
    Where FuseOpsByPattern takes one, a tuple (name, pattern[, names[, check]]) will do, and
    anything else raises PassError.
    """

    name: str
    pattern: DFPattern
    annotation_patterns: Mapping[str, DFPattern] = field(default_factory=dict)
    check: Callable[[PatternCheckContext], bool] | None = None
    attrs_getter: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None

    @staticmethod
    def of(given: Any) -> FusionPattern:
        """A FusionPattern, also where it was given as a tuple (name, pattern, names, check).

        Raises:
            PassError: it is neither.
        """
        if isinstance(given, FusionPattern):
            return given
        if isinstance(given, tuple) and len(given) >= 2 and isinstance(given[1], DFPattern):
            return FusionPattern(*given)
        raise PassError(
            f"{kind_of(given)} is no fusion pattern",
            hint='FusionPattern("blas.matmul", pattern) or the tuple ("blas.matmul", pattern)',
        )


class FuseOpsByPattern(ModulePass):
    """Make a function of each match of some patterns.

    Struct infos, shapes and dtypes with them, go from the match to its function.

    Raises:
        PassError: a pattern is neither a FusionPattern nor such a tuple.
    """

    #: FusionPatterns, or tuples (name, pattern[, names[, check]]), the most important first
    patterns: Any = ()
    #: constants become part of the functions; else they stay arguments
    bind_constants: bool = True
    #: wrap each in a function that says which library makes it
    annotate_codegen: bool = False
    #: names of the functions to look into; None: all
    entry_functions: Any = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """All patterns in order, each over all functions."""
        table = FunctionTable(mod.functions)
        counts: dict[str, int] = {}
        for pattern in map(FusionPattern.of, self.patterns):
            for key in self._entries(mod):
                found = _Partition(self, pattern, table)
                table.set(key, found.function(table.functions[key]))  # type: ignore[arg-type]
                counts[pattern.name] = counts.get(pattern.name, 0) + found.count
        told = ", ".join(f"{n} of {name}" for name, n in counts.items() if n)
        ctx.note(f"found {told}" if told else "no pattern was found")
        return table.module(mod)

    def _entries(self, mod: IRModule) -> list[GlobalVar]:
        """The functions that are looked into."""
        if self.entry_functions is not None:
            return [mod.get_global_var(name) for name in self.entry_functions]
        closed = {"Codegen", "Composite", "Primitive"}
        return [k for k, f in mod.of_kind(rx.Function).items() if not closed & f.attrs.keys()]


class _Partition:
    """One pattern in one function."""

    def __init__(
        self, options: FuseOpsByPattern, pattern: FusionPattern, table: FunctionTable
    ) -> None:
        self.options, self.pattern, self.table = options, pattern, table
        self.count = 0

    def function(self, func: rx.Function) -> rx.Function:
        """The function with the pattern's matches outlined."""
        self.names = Names({v.name_hint for v in udchain(func)})
        for number, block in enumerate(func.body.blocks):
            if block_is_dataflow(block):
                for binding in block.bindings:
                    func = self.at(func, number, binding.var)
        return func

    def at(self, func: rx.Function, number: int, root: rx.Var) -> rx.Function:
        """The function with the match at a variable outlined; itself where there is none."""
        block = func.body.blocks[number]
        value = next((b.value for b in block.bindings if b.var is root), None)
        made_before = isinstance(getattr(value, "op", None), GlobalVar)
        if not isinstance(value, rx.Call | rx.TupleGetItem) or made_before:
            return func
        values = {b.var: b.value for b in bindings_of(func)}
        for memo in Matcher(values).ways(self.pattern.pattern, root, {}):
            parts = parts_only(memo)
            group = bound_in(parts, values, root)
            if self.is_fit(func, block, group) and self.is_wanted(func, values, parts, group):
                return self.outlined(func, number, root, group, parts)
        return func

    def is_fit(self, func: rx.Function, block: rx.BindingBlock, group: tuple[rx.Var, ...]) -> bool:
        """Whether a group may become one call: in one block, and not in a circle."""
        bound = {b.var for b in block.bindings}
        return set(group) <= bound and not goes_in_a_circle(block.bindings, set(group))

    def is_wanted(
        self, func: rx.Function, values: dict[rx.Var, Any], parts: dict[DFPattern, Any], group: Any
    ) -> bool:
        """What the pattern's check says."""
        if self.pattern.check is None:
            return True
        context = PatternCheckContext(
            values[group[0]],
            self.named(parts),
            {v: values[v] for v in group},
            udchain(func),
            {value: var for var, value in values.items()},
        )
        return bool(self.pattern.check(context))

    def named(self, parts: dict[DFPattern, Any]) -> dict[str, Any]:
        """Values by the names that the pattern gives to its parts."""
        names = self.pattern.annotation_patterns
        return {name: parts[p] for name, p in names.items() if p in parts}

    def outlined(
        self,
        func: rx.Function,
        number: int,
        root: rx.Var,
        group: tuple[rx.Var, ...],
        parts: dict[DFPattern, Any],
    ) -> rx.Function:
        """The function with a call in place of a group."""
        blocks = list(func.body.blocks)
        bindings = blocks[number].bindings
        inside = [b for b in bindings if b.var in group]
        others = [b for i, block in enumerate(blocks) if i != number for b in block.bindings]
        kept = {n for b in others for n in uses(b.value)} | set(leaves(func.body.body))
        outputs = outputs_of(bindings, set(group), root, kept)
        attrs = {"Composite": self.pattern.name, "Primitive": True}
        if self.pattern.attrs_getter is not None:
            attrs.update(self.pattern.attrs_getter(self.named(parts)))
        outline = Outline(inside, outputs, self.options.bind_constants, attrs)
        key = self.added(outline.func, _name(inside))
        span = merge(*(getattr(b.value, "span", None) for b in inside))
        made = group_calls(key, outline, outputs, span, self.names)
        rest = [b for b in bindings if b.var not in group or b.var is root]
        place = next(i for i, b in enumerate(rest) if b.var is root)
        new = ordered([*rest[:place], *made, *rest[place + 1 :]])
        blocks[number] = replace(blocks[number], bindings=new)
        self.count += 1
        return replace(func, body=rx.SeqExpr(tuple(blocks), func.body.body))

    def added(self, func: rx.Function, name: str) -> GlobalVar:
        """The name of the function in the module, in a wrapper for its library if that is asked."""
        if not self.options.annotate_codegen:
            return self.table.add_shared(func, name)
        return add_wrapped(self.table, func, name, self.pattern.name.partition(".")[0])


def _name(bindings: list[rx.Binding]) -> str:
    """fused_relax_matmul_relax_nn_relu: the operators, as TVM names such functions."""
    ops = [
        getattr(b.value.op, "name", None) or getattr(b.value.op, "name_hint", "call")
        for b in bindings
        if isinstance(b.value, rx.Call)
    ]
    names = [op.replace(".", "_") for op in ops if isinstance(op, str)] or ["tuple"]
    return "fused_" + "_".join(names)


def add_wrapped(table: FunctionTable, func: rx.Function, name: str, codegen: str) -> GlobalVar:
    """Add a function that calls `func`, which is local to it, and names its library.

    Equal ones are added once.
    """
    wrapper = _wrapper(func.without_attr("Primitive"), codegen)
    return add_shared(table, wrapper, f"{name}_{codegen}")


def _wrapper(inner: rx.Function, codegen: str) -> rx.Function:
    params = tuple(rx.Var(p.name_hint, p.struct_info) for p in inner.params)
    local = rx.Var("local_func", inner.struct_info)
    result = rx.Var("output", inner.ret_struct_info)
    call = rx.Call(local, params, None, (), inner.ret_struct_info)
    block = rx.BindingBlock((rx.VarBinding(local, inner), rx.VarBinding(result, call)))
    body = rx.SeqExpr((block,), result)
    return rx.Function(params, body, inner.ret_struct_info, True, FrozenDict({"Codegen": codegen}))
