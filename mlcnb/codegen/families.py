"""Functions that differ in one size and nothing else: scheduled once, compiled once, for any size.

    relu(x[1,  4, 56, 56, 16])
    relu(x[1,  6, 56, 56, 16])       →       relu(x[1, n, 56, 56, 16])      n = 4, 6, 8, …
    relu(x[1,  8, 56, 56, 16])  …

A network that grows its channels step by step runs the same loops over and over. A group is what
the texts of functions show: the same words but for one number, which stands in the same places.
Any of them with a variable for that number is the general function, by construction: with the
number of a member put in, it is that member. Whether it is fast is asked of the rules: where they
take the same steps for the smallest and for the largest of a group (and for one between), these
steps are played on the general function, each proved for any size, and all members between share
what is compiled of it. Where the steps differ, the group falls into parts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

from mlcnb.codegen.kernel import scheduled_by, signature_of
from mlcnb.core.errors import MLCError
from mlcnb.core.node import Node, rewrite, walk
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import IntImm, Var
from mlcnb.tir.analysis.made import is_made, note_made
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import BlockRealize

#: members below which each is compiled for itself
FEW = 4
#: the name of the size in the general function
SIZE = "n"
#: a number in the text of a function (`ir.structural.structural_text`)
_NUMBER = re.compile(r"(?<=IntImm\x1estr 5 )(int32|int64)\x1eint (-?\d+)")

#: a member's name -> what the rules make of it: a Schedule, a PrimFunc or None
Rule = Callable[[str], Any]


class Group:
    """Functions that differ in one size.

    members: their names, by rising size; sizes: of each; digest: tells it from all other groups.
    """

    def __init__(
        self, funcs: Mapping[str, PrimFunc], size: Column, others: Collection[Column], text: str
    ) -> None:
        found = sorted(zip(size.values, funcs, strict=True))
        self.members, self.sizes = [name for _, name in found], [value for value, _ in found]
        said = f"{text}\n{size}\n{sorted(others)}".encode(errors="surrogatepass")
        self.digest = blake2b(said, digest_size=8).hexdigest()
        self._funcs, self._dtype = funcs, size.dtype
        #: numbers of the size's dtype that stand elsewhere in them
        self._others = {c.values[0] for c in others if c.dtype == size.dtype}

    @cached_property
    def general(self) -> PrimFunc | None:
        """The function of any size; None where no size of the group stands for itself alone."""
        found = zip(self.members, self.sizes, strict=True)
        name, size = next((x for x in found if x[1] not in self._others), ("", 0))
        if not name:
            return None
        func = self._funcs[name].without_attr("global_symbol")
        variable = Var(SIZE, dtype(self._dtype))

        def rule(n: Node) -> Node | None:
            is_it = isinstance(n, IntImm) and n.value == size and n.dtype == self._dtype
            return variable if is_it else None

        made = rewrite(func, rule)
        if signature_of(made, 0).dims != (variable,):
            return None  # a size that no parameter tells, or not the only one that is open
        return note_made(made) if is_made(func) else made

    def parts(self, rule: Rule) -> Iterator[Part]:
        """Its members, in runs whose schedules are the same steps."""
        first = 0
        while first < len(self.members):
            last, made = first, None
            if self.general is not None:
                last = self._last_alike(first, rule)
                if last - first + 1 >= FEW:
                    made = scheduled_alike(rule(self.members[first]), self.general)
            names, sizes = self.members[first : last + 1], self.sizes[first : last + 1]
            if made is not None:
                yield Part(names, sizes, self.general, made)
            else:
                yield from (Part([name], [size]) for name, size in zip(names, sizes, strict=True))
            first = last + 1

    def _last_alike(self, first: int, rule: Rule) -> int:
        """The last member that is scheduled as `first`, as far as those that are asked say."""

        def alike(other: int) -> bool:
            return _steps(rule(self.members[other])) == steps

        steps, end = _steps(rule(self.members[first])), len(self.members) - 1
        if steps is None:
            return first
        if alike(end) and alike((first + end) // 2):
            return end
        last = first
        while end - last > 1:
            middle = (last + end) // 2
            last, end = (middle, end) if alike(middle) else (last, middle)
        return last


class Part(NamedTuple):
    """Members of a group: those that share one schedule of the general function, or one alone."""

    names: list[str]
    sizes: list[int]
    general: PrimFunc | None = None
    schedule: Any = None


class Column(NamedTuple):
    """The numbers that stand in one place of several functions."""

    dtype: str
    values: tuple[int, ...]

    def of(self, members: Sequence[int]) -> Column:
        """The numbers in some of the functions."""
        return Column(self.dtype, tuple(self.values[at] for at in members))


def groups_of(funcs: Mapping[str, PrimFunc], texts: Mapping[str, str]) -> list[Group]:
    """The groups of at least `FEW` functions.

    Args:
        funcs: by name.
        texts: what each means (`meaning_of`), all different.
    """
    alike: dict[str, dict[str, list[tuple[str, str]]]] = defaultdict(dict)
    for name, text in texts.items():
        parts = _NUMBER.split(text)  # words, a number's dtype, the number, words, …
        numbers = list(zip(parts[1::3], parts[2::3], strict=True))
        del parts[2::3]
        alike["".join(parts)][name] = numbers
    found: list[Group] = []
    for text, members in alike.items():
        if len(members) >= FEW:
            places = zip(*members.values(), strict=True)
            columns = [Column(p[0][0], tuple(int(value) for _, value in p)) for p in places]
            found += _by_one_size({name: funcs[name] for name in members}, columns, text)
    return found


def _by_one_size(
    funcs: Mapping[str, PrimFunc], columns: list[Column], text: str
) -> Iterator[Group]:
    """Functions of the same words, in groups where one number differs: the one that leaves fewest
    groups.
    """
    varying = list(dict.fromkeys(c for c in columns if len(set(c.values)) > 1))
    if not varying:
        return

    def apart(size: Column) -> dict[tuple[int, ...], list[int]]:
        rest: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for at in range(len(funcs)):
            rest[tuple(c.values[at] for c in varying if c != size)].append(at)
        return rest

    size = min(varying, key=lambda c: len(apart(c)))
    names = list(funcs)
    for members in apart(size).values():
        if len(members) >= FEW:
            others = {c.of(members) for c in columns if c != size}
            chosen = {names[at]: funcs[names[at]] for at in members}
            yield Group(chosen, size.of(members), others, text)


def _steps(schedule: Any) -> str | None:
    """The steps of a schedule as text; None of what is none."""
    trace = getattr(schedule, "trace", None)
    return None if trace is None else str(trace)


def scheduled_alike(schedule: Any, general: PrimFunc) -> Any:
    """A Schedule of the general function by the steps of a member's; None where they do not do.

    They do not where one of them is not proved for any size, or where loops that a member cuts into
    whole pieces leave a rest.
    """
    from mlcnb.tir.schedule.schedule import Schedule  # not needed where all is kept

    made = Schedule(general)
    try:
        schedule.trace.apply_to_schedule(made, remove_postproc=False)
    except MLCError:
        return None
    before = scheduled_by(schedule, general)
    return made if _guards(scheduled_by(made, general)) == _guards(before) else None


def _guards(func: PrimFunc) -> int:
    """The number of blocks that run under a condition."""
    blocks = (n for n in walk(func.body) if isinstance(n, BlockRealize))
    return sum(not isinstance(b.predicate, IntImm) for b in blocks)
