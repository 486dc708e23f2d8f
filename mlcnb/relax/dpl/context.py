"""PatternContext: patterns of several bindings, and what holds between them.

    with PatternContext() as ctx:
        conv, add = is_op("relax.nn.conv2d")(wildcard(), wildcard()), is_op("relax.add")(…)
        conv >> add                                 add uses conv, and nothing else does
        found = ctx.match_dfb(func.body.blocks[0])  {conv: Var, add: Var} or None

A solution gives each pattern a value of the block (or one that it takes from outside), so that all
constraints hold; two patterns share a value only where all but one of them are wildcards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.core.errors import ArgumentError, MLCError
from mlcnb.core.text import kind_of
from mlcnb.relax.analysis.struct_info import same_dims
from mlcnb.relax.analysis.variables import leaves, value_uses
from mlcnb.relax.dpl.matcher import Failure, Journal, Matcher, Memo, info_of, parts_only
from mlcnb.relax.dpl.nodes import DFPattern, Linked, WildcardPattern, duplicate
from mlcnb.relax.expr import BindingBlock, Call, DataflowVar, Op, Tuple, Var

_stack: list[PatternContext] = []


@dataclass(frozen=True)
class Edge:
    """`user` uses `used`: as argument `index` (-1: any), and, with `only`, nothing else does."""

    used: DFPattern
    user: DFPattern
    index: int = -1
    only: bool = False


class SameShapeConstraint:
    """Values of these patterns have one shape.

    Raises:
        MLCError: no PatternContext is current.
    """

    def __init__(self, *patterns: DFPattern) -> None:
        self.patterns = patterns
        context = PatternContext.current()
        if context is None:
            raise MLCError(
                "same_shape_as holds between the values of one block",
                hint="say it inside of `with PatternContext() as ctx:`",
            )
        context.shapes.append(self)


class PatternSeq(Linked):
    """Patterns of which each is used by the next; `seq[i]` is one of them."""

    def __init__(self, patterns: Sequence[DFPattern], only_use: bool = False) -> None:
        self.patterns = tuple(patterns)
        for a, b in zip(self.patterns, self.patterns[1:], strict=False):
            add_edge(Edge(a, b, -1, only_use))

    @classmethod
    def joined(cls, patterns: tuple[DFPattern, ...]) -> PatternSeq:
        """A sequence whose constraints have been said."""
        made = cls(())
        made.patterns = patterns
        return made

    def __getitem__(self, index: int) -> DFPattern:
        return self.patterns[index]

    def __len__(self) -> int:
        return len(self.patterns)

    def dup(self) -> PatternSeq:
        """The same patterns and constraints with identities of their own."""
        made: dict[DFPattern, DFPattern] = {}
        copies = tuple(duplicate(p, made) for p in self.patterns)
        context = PatternContext.current()
        for e in list(context.edges) if context else ():
            if e.used in made and e.user in made:
                add_edge(Edge(made[e.used], made[e.user], e.index, e.only))
        return PatternSeq.joined(copies)

    def __repr__(self) -> str:
        return " ^ ".join(map(repr, self.patterns))


def chain(one: Any, other: Any, index: int, only: bool) -> PatternSeq:
    """`other` uses `one`, each a pattern or a PatternSeq; gives the whole sequence.

    Raises:
        ArgumentError: one of them is neither.
    """
    first, second = _patterns(one), _patterns(other)
    add_edge(Edge(first[-1], second[0], index, only))
    return PatternSeq.joined((*first, *second))


def _patterns(given: Any) -> tuple[DFPattern, ...]:
    if isinstance(given, PatternSeq):
        return given.patterns
    if isinstance(given, DFPattern):
        return (given,)
    raise ArgumentError(f"{type(given).__name__} is no pattern", hint="is_op(name)(…), wildcard()")


def add_edge(edge: Edge) -> None:
    """Let a constraint hold in the current context, if there is one."""
    context = PatternContext.current()
    if context is not None:
        context.edges.append(edge)


class PatternContext:
    """Constraints between patterns; made current by `with`.

    Args:
        incremental: what the context around it says holds here too.
    """

    def __init__(self, incremental: bool = False) -> None:
        outer = PatternContext.current() if incremental else None
        self.edges: list[Edge] = list(outer.edges) if outer else []
        self.shapes: list[SameShapeConstraint] = list(outer.shapes) if outer else []
        self.failure: Failure | None = None

    def __enter__(self) -> PatternContext:
        _stack.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _stack.remove(self)

    @staticmethod
    def current() -> PatternContext | None:
        """The innermost context, or None."""
        return _stack[-1] if _stack else None

    @property
    def patterns(self) -> list[DFPattern]:
        """All patterns that something is said of, in order."""
        found: dict[DFPattern, None] = {}
        for edge in self.edges:
            found.update(dict.fromkeys((edge.used, edge.user)))
        for same in self.shapes:
            found.update(dict.fromkeys(same.patterns))
        return list(found)

    def match_dfb(
        self,
        dfb: BindingBlock,
        start_hint: Var | None = None,
        must_include_hint: bool = False,
    ) -> dict[DFPattern, Any] | None:
        """What each pattern matches in a block (a Var, or a leaf from outside), or None.

        Args:
            dfb: the block.
            start_hint: a variable that is tried first.
            must_include_hint: only matches with that variable.

        Raises:
            ArgumentError: `dfb` is no block, or nothing is said in this context.
        """
        if must_include_hint and start_hint is None:
            raise ArgumentError("match_dfb: must_include_hint without a start_hint")
        for found in self.matches(dfb, start_hint):
            if not must_include_hint or any(v is start_hint for v in found.values()):
                return found
        return None

    def matches(self, dfb: BindingBlock, hint: Var | None = None) -> Iterator[dict[DFPattern, Any]]:
        """Every solution in a block, one after the other."""
        if not isinstance(dfb, BindingBlock):
            raise ArgumentError(
                f"a PatternContext matches a block, not {kind_of(dfb)}",
                hint="func.body.blocks[0]",
            )
        if not self.patterns:
            raise ArgumentError("nothing is said in this PatternContext", hint="p >> q, p ^ q")
        search = _Search(self, dfb, hint)
        yield from search.solutions()
        self.failure = search.journal.furthest


class _Search:
    """One search for values: patterns one by one, each next to one that has its value."""

    def __init__(self, context: PatternContext, block: BindingBlock, hint: Var | None) -> None:
        self.context = context
        self.block = block
        self.journal = Journal()
        self.values = {b.var: b.value for b in block.bindings}
        self.matcher = Matcher(self.values, self.journal)
        self.users: dict[Any, list[Var]] = {}
        for binding in block.bindings:
            for leaf in dict.fromkeys(_operands(binding.value)):
                self.users.setdefault(leaf, []).append(binding.var)
        self.leaves = list(dict.fromkeys([*self.users, *self.values]))
        if hint is not None:
            self.leaves.sort(key=lambda leaf: leaf is not hint)
        self.order = self._ordered()

    def _ordered(self) -> list[DFPattern]:
        """The patterns, each (but the first of its part) with an edge to one before it.

        One that says most stands first: its calls are few.
        """
        left = sorted(self.context.patterns, key=lambda p: isinstance(p, WildcardPattern))
        ordered: list[DFPattern] = []
        while left:
            near = [p for p in left if any(self._edges(p, ordered))]
            ordered.append((near or left)[0])
            left.remove(ordered[-1])
        return ordered

    def _edges(self, pattern: DFPattern, known: Any) -> Iterator[Edge]:
        for edge in self.context.edges:
            other = edge.user if edge.used is pattern else edge.used
            if pattern in (edge.used, edge.user) and other in known:
                yield edge

    def solutions(self) -> Iterator[dict[DFPattern, Any]]:
        """Every assignment of leaves to patterns."""
        for chosen, memo in self._extended({}, {}, 0):
            if self._shapes_agree(chosen):
                yield {**parts_only(memo), **chosen}

    def _extended(
        self, chosen: dict[DFPattern, Any], memo: Memo, depth: int
    ) -> Iterator[tuple[dict[DFPattern, Any], Memo]]:
        if depth == len(self.order):
            yield chosen, memo
            return
        pattern = self.order[depth]
        for leaf in self._candidates(pattern, chosen):
            if self._is_taken(pattern, leaf, chosen) or not self._holds(
                pattern, leaf, chosen, memo
            ):
                continue
            for found in self.matcher.ways(pattern, leaf, memo):
                yield from self._extended({**chosen, pattern: leaf}, found, depth + 1)

    def _candidates(self, pattern: DFPattern, chosen: Mapping[DFPattern, Any]) -> list[Any]:
        """Leaves that may stand for a pattern, by what is next to it."""
        for edge in self._edges(pattern, chosen):
            if edge.used is pattern:
                value = self.values.get(chosen[edge.user])
                return list(dict.fromkeys(_operands(value)))
            return self.users.get(chosen[edge.used], [])
        return self.leaves

    def _is_taken(self, pattern: DFPattern, leaf: Any, chosen: Mapping[DFPattern, Any]) -> bool:
        if isinstance(pattern, WildcardPattern):
            return False
        return any(v is leaf and not isinstance(p, WildcardPattern) for p, v in chosen.items())

    def _holds(
        self, pattern: DFPattern, leaf: Any, chosen: Mapping[DFPattern, Any], memo: Memo
    ) -> bool:
        """Whether the constraints with what has been chosen hold."""
        now = {**chosen, pattern: leaf}
        for edge in self._edges(pattern, now):
            wrong = self._broken(edge, now[edge.used], now[edge.user])
            if wrong:
                self.journal.note(Failure(pattern, leaf, wrong, memo))
                return False
        return True

    def _broken(self, edge: Edge, used: Any, user: Any) -> str | None:
        """What is wrong with a constraint, in words."""
        operands = _arguments(self.values.get(user))
        name, other = _name(used), _name(user)
        if edge.index >= 0:
            fits = edge.index < len(operands) and operands[edge.index] is used
            return None if fits else f"{name} is not argument {edge.index} of {other}"
        if user not in self.users.get(used, ()):
            return f"{other} does not use {name}"
        if not edge.only:
            return None
        others = [v.name_hint for v in self.users[used] if v is not user]
        if others:
            return f"{name} is used by {', '.join(others)} too, not only by {other}"
        leaves_block = isinstance(used, Var) and used in self.values
        if leaves_block and type(used) is not DataflowVar and type(self.block) is not BindingBlock:
            return f"{name} leaves the block, so it is not only used by {other}"
        return None

    def _shapes_agree(self, chosen: Mapping[DFPattern, Any]) -> bool:
        for same in self.context.shapes:
            infos = [info_of(chosen[p], self.matcher.resolve(chosen[p])) for p in same.patterns]
            dims: list[Any] = [getattr(i, "dims", None) for i in infos]
            if any(d is None or not same_dims(d, dims[0]) for d in dims):
                return False
        return True


def _name(leaf: Any) -> str:
    return getattr(leaf, "name_hint", type(leaf).__name__)


def _operands(value: Any) -> list[Any]:
    """The leaves that a value uses, tuples among its arguments and their fields."""
    if value is None:
        return []
    inner = [leaf for leaf in value_uses(value) if not isinstance(leaf, Op)]
    return [*inner, *(a for a in getattr(value, "args", ()) if isinstance(a, Tuple))]


def _arguments(value: Any) -> list[Any]:
    """The arguments of a call, those of a call_tir and its like opened."""
    if not isinstance(value, Call):
        return [] if value is None else list(leaves(value))
    if len(value.args) > 1 and isinstance(value.args[1], Tuple) and isinstance(value.op, Op):
        return list(value.args[1].fields)
    return list(value.args)
