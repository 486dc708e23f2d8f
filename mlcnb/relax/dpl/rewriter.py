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

from collections.abc import Mapping
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import MLCError, PassError
from mlcnb.core.text import kind_of
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.analysis.variables import all_global_vars, reached
from mlcnb.relax.dpl import nodes as dp
from mlcnb.relax.dpl.rewrite import Rewrite, calls_once, until_same
from mlcnb.relax.expr import Function
from mlcnb.relax.function_table import FunctionTable


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
            ValueError: they take or return different things, or another function is public.
        """
        pattern, replacement = _function(mod, "pattern"), _function(mod, "replacement")
        others = {k: f for k, f in mod.items() if k.name_hint not in ("pattern", "replacement")}
        for key, func in others.items():
            if "global_symbol" in func.attrs:
                raise PassError(
                    f"{key.name_hint} of a rewriter is publicly exposed",
                    hint="say @R.function(private=True): a rewrite adds no entry to a module",
                )
        same = structural_equal(pattern.struct_info, replacement.struct_info, map_free_vars=True)
        if not same:
            raise PassError(
                "pattern and replacement must have the same signature: "
                f"{display.text(pattern.struct_info)} and "
                f"{display.text(replacement.struct_info)}"
            )
        from mlcnb.relax.dpl.function_rewriter import FunctionRewriter

        return FunctionRewriter(pattern, replacement, others)

    def step(self, func: Function, mod: IRModule) -> Function:
        """One round over a function; the function itself where nothing matched."""
        raise NotImplementedError

    def brought(self, table: FunctionTable) -> PatternMatchingRewriter:
        """The rule over a module: the functions that it calls are added, under free names."""
        return self

    def __call__(self, program: Any) -> Any:
        """A function or module with the rule applied until nothing matches any more.

        Raises:
            PassError: a function alone cannot call the functions that the rule brings.
        """
        if not isinstance(program, Function):
            return super().__call__(program)
        table = FunctionTable()
        made = self.brought(table)._settled(program, table.module(IRModule()))
        called = [k.name_hint for k in all_global_vars(made) if k in table.functions]
        if called:
            raise PassError(
                f"the rewritten function calls {called[0]}, which the rewriter brings",
                root=made,
                hint="apply the rewriter to a module",
            )
        return made

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """All graph functions."""
        graph = mod.of_kind(Function)
        table = FunctionTable(mod.functions)
        rule = self.brought(table)
        whole = table.module(mod)
        made = {k: rule._settled(f, whole) for k, f in graph.items()}
        changed: dict[Any, Any] = {k: f for k, f in made.items() if f is not graph[k]}
        ctx.note(f"{len(changed)} functions rewritten")
        if not changed:
            return mod
        return mod.with_functions({**changed, **_called(changed, table, mod)})

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

    def brought(self, table: FunctionTable) -> OrRewriter:
        """Both rules over one module."""
        return OrRewriter(self.lhs.brought(table), self.rhs.brought(table))


def _called(changed: Mapping[Any, Any], table: FunctionTable, mod: IRModule) -> dict[Any, Any]:
    """The functions of a table that changed ones call, and those that these call."""

    def called(func: Any) -> list[Any]:
        new = all_global_vars(func) if isinstance(func, Function) else []
        return [k for k in new if k not in mod]

    starts = [k for f in changed.values() for k in called(f)]
    found = reached(starts, lambda k: called(table.functions[k]))
    return {k: f for k, f in table.functions.items() if k in found}


def _function(mod: IRModule, name: str) -> Function:
    if name not in mod:
        raise MissingFunctionError(
            f"a rewriter needs a function {name!r}", hint="@R.function def pattern, replacement"
        )
    func = mod[name]
    if not isinstance(func, Function):
        raise WrongFunctionError(
            f"the {name} of a rewriter is a graph function, not {kind_of(func)}"
        )
    return func
