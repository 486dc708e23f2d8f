"""R.rewriter: a rule as two functions, what to look for and what to put there; it is a pass.

@R.rewriter
class TwiceIsTimesTwo:
    @R.function
    def pattern(x: R.Tensor(("n",), "float32")):          TwiceIsTimesTwo(func)
        return R.add(x, x)                                TwiceIsTimesTwo(mod)
    @R.function                                           Sequential([TwiceIsTimesTwo])(mod)
    def replacement(x: R.Tensor(("n",), "float32")):      (OneRule | Another)(mod)
        return R.multiply(x, R.const(2, "float32"))
"""

from __future__ import annotations

from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import MLCError, PassError
from mlcnb.core.node import replace
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.analysis.struct_info import substitute
from mlcnb.relax.analysis.variables import bindings_of, result_of
from mlcnb.relax.dpl import pattern as dp
from mlcnb.relax.dpl.matcher import Matcher, Memo, attributes
from mlcnb.relax.dpl.rewrite import Rewrite, calls_once, put, until_same
from mlcnb.relax.expr import Call, Function, ShapeExpr, Tuple, TupleGetItem, Var


class MissingFunctionError(MLCError, KeyError):
    """A rewriter without `pattern` or `replacement`."""


class WrongFunctionError(MLCError, TypeError):
    """A rewriter whose `pattern` or `replacement` is no graph function."""


class PatternMatchingRewriter(ModulePass):
    """A rule that rewrites functions and modules, and a pass; `a | b` tries `a`, then `b`."""

    @staticmethod
    def from_pattern(pattern: dp.DFPattern, rewriter: Rewrite) -> ExprPatternRewriter:
        """The rule of a pattern and a function, as `rewrite_call` takes them."""
        return ExprPatternRewriter(pattern, rewriter)

    @staticmethod
    def from_module(mod: IRModule) -> PatternMatchingRewriter:
        """The rule of a module with the functions `pattern` and `replacement`.

        Raises:
            KeyError: one of them is missing.
            TypeError: one of them is no graph function.
            ValueError: they take or return different things.
        """
        pattern, replacement = _function(mod, "pattern"), _function(mod, "replacement")
        same = structural_equal(pattern.struct_info, replacement.struct_info, map_free_vars=True)
        if not same:
            raise PassError(
                "pattern and replacement must have the same signature: "
                f"{display.text(pattern.struct_info)} and "
                f"{display.text(replacement.struct_info)}"
            )
        return FunctionRewriter(pattern, replacement)

    def step(self, func: Function, mod: IRModule) -> Function:
        """One round over a function; the function itself where nothing matched."""
        raise NotImplementedError

    def __call__(self, program: Any) -> Any:
        """A function or module with the rule applied until nothing matches any more."""
        if isinstance(program, Function):
            return self._settled(program, IRModule())
        return super().__call__(program)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """All graph functions."""
        graph = {k: f for k, f in mod.items() if isinstance(f, Function)}
        made = {k: self._settled(f, mod) for k, f in graph.items()}
        changed = {k: f for k, f in made.items() if f is not graph[k]}
        ctx.note(f"{len(changed)} functions rewritten")
        return mod.with_functions(changed) if changed else mod

    def _settled(self, func: Function, mod: IRModule) -> Function:
        return until_same(lambda f: self.step(f, mod), func)

    def __or__(self, other: PatternMatchingRewriter) -> OrRewriter:
        return OrRewriter(self, other)


class ExprPatternRewriter(PatternMatchingRewriter):
    """The rule of a pattern and a Python function."""

    pattern: Any = None
    func: Any = None

    def step(self, func: Function, mod: IRModule) -> Function:
        """Every value that matches."""
        return calls_once(self.pattern, self.func, func, mod.functions)


class OrRewriter(PatternMatchingRewriter):
    """Two rules, the left one first."""

    lhs: Any = None
    rhs: Any = None

    def step(self, func: Function, mod: IRModule) -> Function:
        """One round of each."""
        return self.rhs.step(self.lhs.step(func, mod), mod)


class FunctionRewriter(PatternMatchingRewriter):
    """The rule of two graph functions of one signature."""

    pattern: Any = None
    replacement: Any = None

    def step(self, func: Function, mod: IRModule) -> Function:
        """The first place where the pattern's results are, rewritten."""
        patterns, roots = patterns_of(self.pattern)
        values = {b.var: b.value for b in bindings_of(func)}
        matcher = Matcher(values)
        for chosen, memo in _places(matcher, roots, list(values), {}):
            made = _inlined(self.replacement, self.pattern, patterns, memo)
            new = dict(zip(chosen, made, strict=True))
            if any(not structural_equal(v, values[k]) for k, v in new.items()):
                return put(func, new, mod.functions)
        return func


def _places(matcher: Matcher, roots: list[dp.DFPattern], variables: list[Var], memo: Memo) -> Any:
    """Every choice of variables for the results of a pattern, with what matched."""
    if not roots:
        yield [], memo
        return
    for var in variables:
        if not isinstance(matcher.values[var], Call | Tuple | TupleGetItem):
            continue
        for found in matcher.ways(roots[0], var, memo):
            rest = [v for v in variables if v is not var]
            for others, whole in _places(matcher, roots[1:], rest, found):
                yield [var, *others], whole


def _function(mod: IRModule, name: str) -> Function:
    if name not in mod:
        raise MissingFunctionError(
            f"a rewriter needs a function {name!r}", hint="@R.function def pattern, replacement"
        )
    func = mod[name]
    if not isinstance(func, Function):
        raise WrongFunctionError(
            f"the {name} of a rewriter is a graph function, not a {type(func).__name__}"
        )
    return func


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
    func: Function, pattern: Function, patterns: dict[Var, dp.DFPattern], memo: Memo
) -> list[Any]:
    """The results of the replacement, over what the pattern's parameters matched."""
    known: dict[Any, Any] = {}
    sizes: dict[Any, Any] = {}
    for mine, its in zip(func.params, pattern.params, strict=True):
        known[mine] = memo[patterns[its]]
        _sizes(mine.struct_info, its.struct_info, memo, sizes)
    for binding in bindings_of(func):
        known[binding.var] = _over(binding.value, known, sizes)
    result = result_of(func)
    result = known.get(result, result)
    return [known.get(f, f) for f in result.fields] if isinstance(result, Tuple) else [result]


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
