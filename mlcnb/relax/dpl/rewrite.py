"""rewrite_call and rewrite_bindings: what a pattern found gives way to what a function makes of it.

x = wildcard()                                       lv = R.add(x, x)
rewrite_call(is_op("relax.add")(x, x),          ->   lv = R.multiply(x, 2)
    lambda call, found: R.multiply(found[x], R.const(2.0)), func)

Values that are bound to a variable already are named again by it, wherever they stand in what a
rewriter returns; an expression that stands there twice is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mlcnb.core import above
from mlcnb.core.errors import ArgumentError, PassError
from mlcnb.core.node import identical, replace
from mlcnb.core.text import kind_of
from mlcnb.ir.structural import structural_equal
from mlcnb.relax.analysis.variables import bindings_of, leaves
from mlcnb.relax.dpl.context import PatternContext
from mlcnb.relax.dpl.matcher import Matcher, parts_only
from mlcnb.relax.dpl.nodes import DFPattern
from mlcnb.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from mlcnb.relax.infer import Functions, is_leaf
from mlcnb.relax.mutator import Mutator

#: (the value, what each part matched) -> the new value
Rewrite = Callable[[Any, dict[DFPattern, Any]], Any]
#: how often a rewriting may be repeated over a whole function
MOST = 1000


class Rewriting(Mutator):
    """A mutator whose hooks may return expressions of expressions, shared parts and all."""

    def __init__(self, func: Function, functions: Functions | None = None) -> None:
        super().__init__(functions)
        self._emitted: dict[int, Any] = {}
        #: the variables of values, and the values themselves so that no other takes their place
        self._owner = {id(b.value): (b.var, b.value) for b in bindings_of(func)}

    def owner(self, expr: Any) -> Var | None:
        """The variable that a value is bound to."""
        found = self._owner.get(id(expr))
        return None if found is None or is_leaf(expr) else found[0]

    def flat(self, expr: Any) -> Any:
        """An expression as a value whose parts are leaves; what they need is emitted before."""
        owner = self.owner(expr)
        if owner is not None or isinstance(expr, Var):
            return self.substitute(expr if owner is None else owner)
        if id(expr) in self._emitted:
            return self._emitted[id(expr)][0]
        if isinstance(expr, Call):
            args = tuple(map(self.argument, expr.args))
            same = identical(args, expr.args)
            return expr if same else replace(expr, args=args, struct_info=None)
        if isinstance(expr, Tuple):
            return Tuple(tuple(map(self.argument, expr.fields)))
        if isinstance(expr, TupleGetItem):
            return TupleGetItem(self.argument(expr.tuple_value), expr.index)
        return expr

    def argument(self, expr: Any) -> Any:
        """An expression as a leaf: emitted, once, where it is none."""
        value = self.flat(expr)
        if is_leaf(value):
            return value
        var = self.emit(value)
        self._emitted[id(expr)] = (var, expr)
        return var

    def _append(self, binding: Binding) -> None:
        super()._append(binding)
        self._owner.setdefault(id(binding.value), (binding.var, binding.value))

    def _record(self, start: int) -> None:
        super()._record(start)
        for binding in self.emitter.bindings[start:]:
            self._owner.setdefault(id(binding.value), (binding.var, binding.value))

    def visit_call(self, call: Any, var: Var) -> Any:
        """As any value."""
        return self.visit_value(call, var)

    visit_tuple = visit_item = visit_call

    def visit_value(self, value: Any, var: Var) -> Any:
        """New value for a call, tuple or field bound to `var`, or None."""
        raise NotImplementedError


class _Calls(Rewriting):
    """One walk over a function: every value that matches is rewritten."""

    def __init__(
        self, pattern: DFPattern, rewriter: Rewrite, func: Function, functions: Functions | None
    ) -> None:
        super().__init__(func, functions)
        self.pattern, self.rewriter = pattern, rewriter

    def visit_value(self, value: Any, var: Var) -> Any:
        """What the rewriter makes of a value that matches."""
        matcher = Matcher(self.values)
        memo = next(matcher.ways(self.pattern, value, {}), None)
        if memo is None:
            return None
        made = self.rewriter(value, parts_only(memo))
        _check_expression(made, self.func)
        if made is value or structural_equal(made, value):
            return None
        return self.flat(made)


def _check_expression(made: Any, func: Function) -> None:
    if not hasattr(made, "struct_info"):
        raise PassError(
            f"the rewriter returned {kind_of(made)} in place of an expression",
            hint="return the value as it was to leave it, or a new one such as R.nn.relu(x)",
        )


def rewrite_call(
    pattern: DFPattern, rewriter: Rewrite, func: Function, functions: Functions | None = None
) -> Function:
    """`func` with every value that looks like `pattern` rewritten, until there is none left.

    Args:
        pattern: of a call (or a tuple, or a field of one).
        rewriter: gets the value and what each part of the pattern matched; returns the new value,
            or the value that it was given.
        func: a graph function.
        functions: what GlobalVars name.

    Raises:
        ArgumentError: `func` is no graph function.
        PassError: the rewriter returned no expression, or what it makes matches for ever.
    """
    return until_same(lambda f: calls_once(pattern, rewriter, f, functions), func)


def calls_once(
    pattern: DFPattern, rewriter: Rewrite, func: Function, functions: Functions | None = None
) -> Function:
    """One round of `rewrite_call`; `func` itself where nothing matched."""
    return _Calls(pattern, rewriter, func, functions).rewrite(func)


def until_same(step: Callable[[Function], Function], func: Function) -> Function:
    """Repeat a step, what is unused removed after each, until it changes nothing.

    Raises:
        ArgumentError: `func` is no graph function.
        PassError: it goes on for ever.
    """
    if not isinstance(func, Function):
        raise ArgumentError(f"{kind_of(func)} is no graph function to rewrite")
    for _ in range(MOST):
        made = step(func)
        if made is func:
            return func
        func = above.ask("remove_unused_bindings")(made)
    raise PassError(
        f"the rewriting did not come to an end in {MOST} rounds",
        root=func,
        hint="what the rewriter makes must not match the pattern again",
    )


def rewrite_bindings(
    ctx: PatternContext,
    rewriter: Callable[[dict[DFPattern, Any], Mapping[Var, Any]], Mapping[Var, Any]],
    func: Function,
    functions: Functions | None = None,
) -> Function:
    """`func` with the bindings that a PatternContext matches rewritten, until there are none left.

    Args:
        ctx: patterns and constraints.
        rewriter: gets {pattern: variable} and {variable: value}; returns new values for variables.
        func: a graph function, whose dataflow blocks are looked at.
        functions: what GlobalVars name.

    Raises:
        PassError: new values that need each other in a circle, or that match for ever.
    """
    return until_same(lambda f: _bindings_once(ctx, rewriter, f, functions), func)


def _bindings_once(ctx: PatternContext, rewriter: Any, func: Function, functions: Any) -> Function:
    """The first match that the rewriter does something about, rewritten."""
    values = {b.var: b.value for b in bindings_of(func)}
    for block in func.body.blocks:
        if not isinstance(block, DataflowBlock):
            continue
        for found in ctx.matches(block):
            wanted = rewriter(found, values)
            new = {
                var: value
                for var, value in wanted.items()
                if value is not values.get(var) and not structural_equal(value, values.get(var))
            }
            if new:
                return put(func, new, functions)
    return func


def put(func: Function, new: Mapping[Var, Any], functions: Functions | None = None) -> Function:
    """`func` with other values for some of its variables, bindings moved where that is needed.

    Raises:
        PassError: a variable that is not bound, or values that need each other in a circle.
    """
    bound = {b.var for b in bindings_of(func)}
    for var, value in new.items():
        _check_expression(value, func)
        if var not in bound:
            raise PassError(f"there is no binding of {var.name_hint} to rewrite", root=func)
    replacer = _Replacer(new, func, functions)
    blocks = tuple(replace(block, bindings=replacer.ordered(block)) for block in func.body.blocks)
    return replacer.rewrite(replace(func, body=SeqExpr(blocks, func.body.body)))


class _Replacer(Rewriting):
    """Puts given values in place of those of some variables."""

    def __init__(self, new: Mapping[Var, Any], func: Function, functions: Functions | None) -> None:
        super().__init__(func, functions)
        self.new = new

    def visit_value(self, value: Any, var: Var) -> Any:
        """The given value, flat."""
        return self.flat(self.new[var]) if var in self.new else None

    def visit_leaf(self, leaf: Any, var: Var) -> Any:
        """The given value, flat."""
        return self.visit_value(leaf, var)

    def ordered(self, block: BindingBlock) -> tuple[Binding, ...]:
        """The bindings of a block, each after those that its new value needs."""
        binding_of = {b.var: b for b in block.bindings}
        done: dict[Var, None] = {}
        for binding in block.bindings:
            self._place(binding.var, binding_of, done, [])
        return tuple(binding_of[v] for v in done)

    def _place(
        self, var: Var, binding_of: dict[Var, Binding], done: dict[Var, None], above: list[Var]
    ) -> None:
        if var in done or var not in binding_of:
            return
        if var in above:
            names = " -> ".join(v.name_hint for v in [*above[above.index(var) :], var])
            raise PassError(f"the new values need each other: {names}")
        value = self.new.get(var, binding_of[var].value)
        for needed in self._needs(value, is_new=var in self.new):
            self._place(needed, binding_of, done, [*above, var])
        done[var] = None

    def _needs(self, value: Any, is_new: bool) -> Iterable[Var]:
        """The variables that a value uses; a bound value within a new one is its variable."""
        if not is_new:
            yield from (n for n in leaves(value) if isinstance(n, Var))
            return
        owner = self.owner(value)
        if owner is not None or isinstance(value, Var):
            yield value if owner is None else owner
        elif isinstance(value, Call):
            for arg in value.args:
                yield from self._needs(arg, True)
        elif isinstance(value, Tuple):
            for part in value.fields:
                yield from self._needs(part, True)
        elif isinstance(value, TupleGetItem):
            yield from self._needs(value.tuple_value, True)
