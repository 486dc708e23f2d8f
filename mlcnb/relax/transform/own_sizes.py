"""OwnSizes: a loop function names the sizes of its buffers, in place of how a graph computes them.

    def relu(A: T.Buffer((m, (n + 1) // 2)), B: T.Buffer((m, (n + 1) // 2)), n: T.int64)
->
    def relu(A: T.Buffer((m, size)), B: T.Buffer((m, size)))

What a size is made of is the graph's business: it is checked and computed there, once for each set
of sizes. To the loops it is one number, so that they are proved, scheduled and compiled as fast as
those of a plain dimension, and functions of one kind at several depths of a model become one.
A dimension that is a sum of others is kept so, `h + 2`; one that is rounded, `(h + 1) // 2`, is a
number as well: nobody can prove much about the loops over it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mlcnb.core.node import FrozenDict, Node, children, replace, rewrite, walk
from mlcnb.ir.expr import Add, Cast, GlobalVar, IntImm, Mul, PrimExpr, SizeVar, Sub, Var
from mlcnb.ir.expr import Call as PrimCall
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.analysis.calls import LOOPS
from mlcnb.relax.analysis.variables import bindings_of, uses
from mlcnb.relax.expr import Call, Function, Op, ShapeExpr
from mlcnb.tir.analysis.access import complete_regions
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Block


class OwnSizes(ModulePass):
    """Give the loop functions that a graph calls names of their own for sizes it computes.

    The shapes of its buffers are then variables of int64. Functions of plain dimensions stay, none
    is refused.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with such functions, and calls that pass the scalars they still take."""
        made: dict[GlobalVar, tuple[PrimFunc, list[int]]] = {}
        for name in _called(mod):
            func = mod.functions[name]
            own = own_sizes(func) if isinstance(func, PrimFunc) else func
            if own is not func:
                made[name] = own, _kept(func, own)
        if not made:
            return mod

        def passed(n: Any) -> Any:
            return _shorter(n, made[n.args[0]][1]) if _is_call(n) and n.args[0] in made else None

        functions = {
            name: made[name][0] if name in made else rewrite(func, passed)
            for name, func in mod.functions.items()
        }
        ctx.note(f"{len(made)} loop functions name sizes of their own")
        return replace(mod, functions=FrozenDict(functions))


def own_sizes(func: PrimFunc) -> PrimFunc:
    """The function with a variable for each dimension that is computed from others than its own,
    or is no sum of these.

    Scalar parameters that nothing reads after that are gone. The function itself where it has no
    such dimension, or a buffer with strides or an offset.
    """
    dims = [d for buffer in func.buffers for d in buffer.shape]
    if not any(map(_is_computed, dims)) or any(b.strides for b in func.buffers):
        return func
    named = _Named(dims)
    if not named.variables:
        return func
    made = rewrite(func, named.anew, enter=named.name_of)
    parts = (made.body, *made.buffer_map.values())
    used = {n for part in parts for n in walk(part) if isinstance(n, Var)}
    params = tuple(p for p in made.params if p in made.buffer_map or p in used)
    return replace(made, params=params)


class _Named:
    """Variables for the dimensions of a function, by what the dimensions are made of."""

    def __init__(self, dims: Sequence[PrimExpr]) -> None:
        #: what an expression is made of -> its number: one that is part of another is before it
        self.numbers: dict[Any, int] = {}
        #: by id: an expression, its number, and the variables in it
        self.known: dict[int, tuple[Any, int, frozenset[Var]]] = {}
        self.variables: dict[int, SizeVar] = {}
        #: one of them stands for a size that is rounded
        self.rounded = False
        #: variables that these stand in place of
        self.replaced: frozenset[Var] = frozenset()
        own = {d for d in dims if isinstance(d, Var)}
        for dim in sorted(filter(_is_computed, dims), key=self.number):
            now = rewrite(dim, lambda _: None, enter=self.name_of)
            if not self.look(now)[2] <= own or not _is_linear(now):
                made = SizeVar(f"extent{len(self.variables) or ''}", dim.dtype)
                self.variables[self.number(dim)] = made
                own.add(made)
                self.rounded = self.rounded or not _is_linear(now)
                self.replaced |= self.look(dim)[2]
        self.replaced -= own

    def name_of(self, n: Any) -> SizeVar | None:
        """The variable that stands for an expression."""
        return self.variables.get(self.number(n)) if _is_computed(n) else None

    def anew(self, n: Any) -> Block | None:
        """What a block reads and writes without what a size has told of it that is one number now.

        An element at i * 2 that lies within n for each i below n // 2 may lie outside for each i
        below a number: the box of a read that is held within n must not be that of the bare
        element. And a box that was simplified, n + 5 of a length n + 10 less 5, tells of n, which
        the loops do not; 6 and min(n, 6) make 6, which 6 and a number do not.
        """
        if not isinstance(n, Block) or _has_pointers(n):
            return None
        regions = (*n.reads, *n.writes)
        told = (v for r in regions for x in r.region for v in walk(x))
        if not (self.rounded and regions) and self.replaced.isdisjoint(told):
            return None
        return complete_regions(replace(n, reads=(), writes=()))

    def number(self, n: Any) -> int:
        """Equal for expressions that are written alike, over the same variables."""
        return self.look(n)[1]

    def look(self, n: Any) -> tuple[Any, int, frozenset[Var]]:
        """An expression, its number, and the variables in it."""
        if id(n) not in self.known:
            inside = [self.look(child) for child in children(n)]
            is_var = isinstance(n, Var)
            atoms = () if is_var else tuple(v for v in n.values_of(n) if not _holds_nodes(v))
            key = id(n) if is_var else (type(n), atoms, *(number for _, number, _ in inside))
            held = frozenset([n]) if is_var else frozenset().union(*(v for _, _, v in inside))
            self.known[id(n)] = n, self.numbers.setdefault(key, len(self.numbers)), held
        return self.known[id(n)]


def _has_pointers(block: Block) -> bool:
    """Whether a call is handed a buffer's memory: only who wrote the block knows its regions."""
    memory = {r.buffer.data for r in (*block.reads, *block.writes)}
    calls = (n for n in walk(block.body) if isinstance(n, PrimCall))
    return any(arg in memory for call in calls for arg in call.args if isinstance(arg, Var))


def _is_computed(n: Any) -> bool:
    return isinstance(n, PrimExpr) and n.dtype.is_integer and not isinstance(n, Var | IntImm)


def _is_linear(n: Any) -> bool:
    """Whether an expression is of sums and products alone."""
    return all(isinstance(x, Var | IntImm | Add | Sub | Mul | Cast) for x in walk(n))


def _holds_nodes(value: Any) -> bool:
    return isinstance(value, Node) or (isinstance(value, tuple) and any(map(_holds_nodes, value)))


def _called(mod: IRModule) -> set[GlobalVar]:
    """The loop functions that graphs call, and nothing else does."""
    graphs = [*mod.of_kind(Function).values()]
    calls = (b.value for f in graphs for b in bindings_of(f) if _is_call(b.value))
    called = Counter(call.args[0] for call in calls)
    named = Counter(n for f in graphs for n in uses(f) if isinstance(n, GlobalVar))
    return {name for name, count in called.items() if count == named[name]}


def _is_call(n: Any) -> bool:
    return isinstance(n, Call) and isinstance(n.op, Op) and n.op.name in LOOPS


def _kept(func: PrimFunc, own: PrimFunc) -> list[int]:
    """Which of the scalar parameters are left."""
    scalars = [p for p in func.params if p not in func.buffer_map]
    return [place for place, param in enumerate(scalars) if param in own.params]


def _shorter(call: Call, kept: list[int]) -> Call | None:
    """The call without the scalars that are not taken any more."""
    func, args, *scalars = call.args
    if not scalars:
        return None
    given: Any = scalars[0]
    values = tuple(given.values[place] for place in kept)
    return replace(call, args=(func, args, *([ShapeExpr(values)] if values else [])))
