"""The rewrite rule of two graph functions: what to look for, and what to put there.

def pattern(x, y, z):                   a = x + y                   t = both(x, y, z)
    return (x + y, y + z)         of    b = y + z             ->    a = t[0]
def replacement(x, y, z):               return a * b                b = t[1]
    return both(x, y, z)                                            return a * b

Results of a pattern are looked for as a tuple first, then each on its own. They are rewritten where
what they need is there before any of them is used, and nothing with effects stands between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mlcnb.core.node import replace, rewrite
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import structural_equal
from mlcnb.relax.analysis.purity import has_effects
from mlcnb.relax.analysis.struct_info import substitute
from mlcnb.relax.analysis.variables import bindings_of, leaves, result_of
from mlcnb.relax.dpl import nodes as dp
from mlcnb.relax.dpl.matcher import Matcher, Memo, attributes
from mlcnb.relax.dpl.rewrite import put
from mlcnb.relax.dpl.rewriter import PatternMatchingRewriter
from mlcnb.relax.expr import (
    BindingBlock,
    Call,
    Function,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from mlcnb.relax.function_table import FunctionTable

#: the name of a result that stands nowhere but in `return`
RESULT = "gv"


class FunctionRewriter(PatternMatchingRewriter):
    """The rule of two graph functions of one signature, and the private ones that they call."""

    of_functions = True
    pattern: Any = None
    replacement: Any = None
    functions: Any = None

    def brought(self, table: FunctionTable) -> FunctionRewriter:
        """The rule with its functions in a table, under free names."""
        if not self.functions:
            return self
        names = {k: GlobalVar(_free(table, k.name_hint)) for k in self.functions}

        def renamed(func: Any) -> Any:
            return rewrite(func, lambda n: names.get(n) if isinstance(n, GlobalVar) else None)

        for key, func in self.functions.items():
            table.set(names[key], renamed(func))
        return FunctionRewriter(self.pattern, renamed(self.replacement))

    def step(self, func: Function, mod: IRModule) -> Function:
        """The first place where the pattern's results are, rewritten."""
        patterns, roots = patterns_of(self.pattern)
        if len(roots) > 1:
            whole = _result_named(func)
            made = self._rewritten(whole, mod, patterns, [dp.TuplePattern(tuple(roots))], Tuple)
            if made is not whole:
                return made
        return self._rewritten(func, mod, patterns, roots, (Call, Tuple, TupleGetItem))

    def _rewritten(
        self,
        func: Function,
        mod: IRModule,
        patterns: dict[Var, dp.DFPattern],
        roots: list[dp.DFPattern],
        kinds: Any,
    ) -> Function:
        """The first place where values of `kinds` match the roots, rewritten."""
        values = {b.var: b.value for b in bindings_of(func)}
        variables = [v for v, value in values.items() if isinstance(value, kinds)]
        between = _Effects(func, mod)
        given = [patterns[p] for p in self.pattern.params]
        inner = [p for v, p in patterns.items() if v not in self.pattern.params]
        for chosen, memo in _places(Matcher(values), roots, variables, {}):
            inputs = [memo[p] for p in given if p in memo]
            if _needs_one_of(chosen, inputs, values) or between.stand([memo.get(p) for p in inner]):
                continue
            made = _inlined(self.replacement, self.pattern, patterns, memo, len(roots))
            new = dict(zip(chosen, made, strict=True))
            if any(not structural_equal(v, values[k]) for k, v in new.items()):
                return put(func, new, mod.functions)
        return func


def _free(table: FunctionTable, name: str) -> str:
    """The name, or name_1, name_2, …, as TVM numbers them."""
    free, number = name, 0
    while free in table.names.taken:
        number += 1
        free = f"{name}_{number}"
    table.names.reserve(free)
    return free


class _Effects:
    """Where the calls with effects of a function stand."""

    def __init__(self, func: Function, mod: IRModule) -> None:
        self.before: dict[int, int] = {}
        count = 0
        for binding in bindings_of(func):
            count += has_effects(binding.value, mod.functions)
            self.before[id(binding.value)] = count

    def stand(self, values: list[Any]) -> bool:
        """Whether one stands between some of the values."""
        return len({self.before[id(v)] for v in values if id(v) in self.before}) > 1


def _needs_one_of(chosen: list[Var], inputs: list[Any], values: Mapping[Var, Any]) -> bool:
    """Whether an input is made out of one of several variables that are to be made out of it."""
    if len(chosen) < 2:
        return False
    owners = {id(value): var for var, value in values.items()}
    stack, seen = list(inputs), set()
    while stack:
        one = stack.pop()
        var = one if isinstance(one, Var) else owners.get(id(one))
        if var in chosen:
            return True
        if id(one) not in seen:
            seen.add(id(one))
            stack.extend([values[one]] if one in values else leaves(one))
    return False


def _result_named(func: Function) -> Function:
    """A function that returns a variable where it returned a tuple."""
    result = result_of(func)
    if not isinstance(result, Tuple):
        return func
    var = Var(RESULT, result.struct_info)
    last = BindingBlock((VarBinding(var, result),))
    return replace(func, body=SeqExpr((*func.body.blocks, last), var))


def _places(
    matcher: Matcher, roots: list[dp.DFPattern], variables: list[Var], memo: Memo
) -> Iterator[tuple[list[Var], Memo]]:
    """Every choice of variables for the results of a pattern, with what matched."""
    if not roots:
        yield [], memo
        return
    for var in variables:
        for found in matcher.ways(roots[0], var, memo):
            rest = [v for v in variables if v is not var]
            for others, whole in _places(matcher, roots[1:], rest, found):
                yield [var, *others], whole


def patterns_of(func: Function) -> tuple[dict[Var, dp.DFPattern], list[dp.DFPattern]]:
    """A pattern for each variable of a graph function, and those of its results.

    Parameters are wildcards of their struct info; a call has the attributes that it has.
    """
    made: dict[Var, dp.DFPattern] = {
        p: dp.WildcardPattern().has_struct_info(p.struct_info) for p in func.params
    }
    for binding in bindings_of(func):
        made[binding.var] = _pattern(binding.value, made)
    result = result_of(func)
    fields = result.fields if isinstance(result, Tuple) else (result,)
    if not isinstance(result, Tuple) and isinstance(_value(func, result), Tuple):
        fields = _value(func, result).fields
    return made, [_pattern(f, made) for f in fields]


def _value(func: Function, result: Any) -> Any:
    return {b.var: b.value for b in bindings_of(func)}.get(result)


def _pattern(value: Any, made: dict[Var, dp.DFPattern]) -> dp.DFPattern:
    if isinstance(value, Var):
        return made[value]
    if isinstance(value, Call):
        args = tuple(_pattern(a, made) for a in value.args)
        call = dp.CallPattern(dp.ExprPattern(value.op), args)
        attrs = dict(attributes(value))
        return call.has_attr(attrs) if attrs else call
    if isinstance(value, Tuple):
        return dp.TuplePattern(tuple(_pattern(f, made) for f in value.fields))
    if isinstance(value, TupleGetItem):
        return dp.TupleGetItemPattern(_pattern(value.tuple_value, made), value.index)
    return (
        dp.PrimArrPattern(value.values) if isinstance(value, ShapeExpr) else dp.ExprPattern(value)
    )


def _inlined(
    func: Function, pattern: Function, patterns: dict[Var, dp.DFPattern], memo: Memo, wanted: int
) -> list[Any]:
    """The `wanted` results of the replacement, over what the pattern's parameters matched."""
    known: dict[Any, Any] = {}
    sizes: dict[Any, Any] = {}
    for mine, its in zip(func.params, pattern.params, strict=True):
        known[mine] = memo[patterns[its]]
        _sizes(mine.struct_info, its.struct_info, memo, sizes)
    for binding in bindings_of(func):
        known[binding.var] = _over(binding.value, known, sizes)
    result = result_of(func)
    result = _over(result, known, sizes) if isinstance(result, Tuple) else known.get(result, result)
    if wanted == 1:
        return [result]
    if isinstance(result, Tuple):
        return list(result.fields)
    return [TupleGetItem(result, i) for i in range(wanted)]


def _sizes(mine: Any, its: Any, memo: Memo, sizes: dict[Any, Any]) -> None:
    """What the symbolic sizes of a replacement's parameter are in the match."""
    pairs = zip(getattr(mine, "dims", None) or (), getattr(its, "dims", None) or (), strict=True)
    for a, b in pairs:
        if b in memo:
            sizes.setdefault(a, memo[b])


def _over(value: Any, known: dict[Any, Any], sizes: dict[Any, Any]) -> Any:
    """A value of the replacement, its variables replaced."""
    if isinstance(value, Var):
        return known[value]
    if isinstance(value, Call):
        args = tuple(_over(a, known, sizes) for a in value.args)
        infos = tuple(substitute(i, sizes) for i in value.sinfo_args)
        return replace(value, args=args, sinfo_args=infos, struct_info=None, span=None)
    if isinstance(value, Tuple):
        return Tuple(tuple(_over(f, known, sizes) for f in value.fields))
    if isinstance(value, TupleGetItem):
        return TupleGetItem(_over(value.tuple_value, known, sizes), value.index)
    return substitute(value, sizes) if isinstance(value, ShapeExpr) else value
