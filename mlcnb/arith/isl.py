"""isl decides questions about sets of whole numbers: one context for a thread, a bound on its work.

    { [i] -> [j] : 0 <= i < 8 and j = 2 i }        read_map: a relation as isl's own object
    ask(relation.is_empty, EVERY_PROGRAM)          an answer, or None where it takes too long
    with within(PROOF): ...                        many questions under one bound; else Undecided

Everything that is known of islpy is known here; who asks writes sets as text and passes isl's
objects on. `presburger` writes expressions and conditions as such text.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from mlcnb.core.errors import MissingDependencyError

T = TypeVar("T")

# Bounds on the operations that isl makes, by what they are for (a second has about 3 million).

#: one of many questions that are asked of every program
EVERY_PROGRAM = 200_000
#: one question, for an answer that is shown
QUESTION = 2_000_000
#: a second opinion on a refused step
SECOND_OPINION = 150_000
#: one loop that is marked as parallel: threads that fetch a tile which they do not divide need
#: more than a second opinion
PARALLEL_LOOP = 1_000_000
#: a step that is asked to be proved
PROOF = 20_000_000


class Undecided(Exception):
    """The question was not answered; says why."""


_local = threading.local()


def library() -> Any:
    """The module islpy.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import islpy
    except ImportError as error:
        raise MissingDependencyError(
            "this question is decided by isl, and islpy is not installed",
            hint="pip install islpy",
        ) from error
    return islpy


@cache
def is_missing() -> bool:
    """True where islpy is not installed, which is said once: nothing is proved then that needs it.

    For who asks isl unasked, of any program: what is not proved is done with more care (a barrier
    more, a check in the kernel, a step refused), or is not looked for (races). Whom a person asks
    calls `library`, which says it as an error.
    """
    try:
        library()
    except MissingDependencyError:
        warnings.warn(
            "islpy is not installed: no races of threads are looked for; what only isl proves is "
            "refused, checked in kernels or waited for (pip install islpy)",
            stacklevel=2,
        )
        return True
    return False


def context() -> Any:
    """This thread's isl context: its sets and maps stay in the thread that made them."""
    if not hasattr(_local, "context"):
        _local.context = library().Context()
        _local.is_bound = False
    return _local.context


@contextmanager
def within(operations: int) -> Iterator[None]:
    """Let isl make so many operations inside the `with` block; the outermost bound counts.

    Raises:
        Undecided: it would take more, or isl met a mistake of its own.
    """
    here = context()
    if _local.is_bound:
        yield
        return
    _local.is_bound = True
    here.reset_operations()
    here.set_max_operations(operations)
    try:
        yield
    except library().Error as error:
        if _is_spent(error):
            raise Undecided(f"it takes isl more than {operations:,} operations") from None
        if "read_from_str" in str(error):  # the text is wrong
            raise
        raise Undecided(f"isl fails: {error}") from error
    finally:
        _local.is_bound = False
        here.set_max_operations(0)
        here.reset_operations()
        here.resume()


def _is_spent(error: Exception) -> bool:
    """True if it was the bound: isl says so, or (where its parser met it) says so when asked
    again.
    """
    spent = "maximal number of operations"
    if spent in str(error):
        return True
    try:
        read_set("{ [i] : 0 <= i < 2 }")
    except library().Error as again:
        return spent in str(again)
    return False


def ask(question: Callable[[], T], operations: int = QUESTION) -> T | None:
    """The answer to a question to isl, None where it takes more operations, isl fails or is not
    there.
    """
    if is_missing():
        return None
    try:
        with within(operations):
            return question()
    except Undecided:
        return None


# -- sets and relations ---------------------------------------------------------


def read_set(text: str) -> Any:
    """`[n] -> { [i] : 0 <= i < n }`"""
    return library().Set.read_from_str(context(), text)


def read_map(text: str) -> Any:
    """`[n] -> { [i] -> [j] : 0 <= i < n and j = i + 1 }`"""
    return library().Map.read_from_str(context(), text)


def all_pairs(sources: Any, targets: Any) -> Any:
    """The relation between all of one set and all of another."""
    return library().Map.from_domain_and_range(sources, targets)


def is_identity(relation: Any) -> bool:
    """True if a relation leads from nowhere to anywhere else."""
    return bool(relation.is_subset(library().Map.identity(relation.get_space())))


def source_name(relation: Any) -> str:
    """The name of the tuples that a relation starts from."""
    return relation.get_tuple_name(library().dim_type.in_)


def target_name(relation: Any) -> str:
    """The name of the tuples that a relation leads to."""
    return relation.get_tuple_name(library().dim_type.out)


def distances(relation: Any, count: int) -> Any:
    """How far the first `count` dimensions of the target are from those of the source: a set."""
    kinds = library().dim_type
    sources, targets = relation.dim(kinds.in_), relation.dim(kinds.out)
    common = relation.project_out(kinds.in_, count, sources - count)
    return common.project_out(kinds.out, count, targets - count).deltas()


def union(maps: Iterable[Any]) -> Any:
    """Relations between different tuples as one; of at least one."""
    first, *rest = (library().UnionMap.from_map(m) for m in maps)
    for m in rest:
        first = first.union(m)
    return first


def disjoint_union(sets: Iterable[Any]) -> Any | None:
    """Sets of different tuples as one; None where two of them meet, or there is none."""
    found = None
    for one in map(library().UnionSet.from_set, sets):
        if found is not None and not found.intersect(one).is_empty():
            return None
        found = one if found is None else found.union(one)
    return found


def last_writers(element: Any, writers: Iterable[Any], times: Any) -> tuple[list[Any], list[Any]]:
    """Which write each access sees: relations from the access to its writer, and those without.

    Args:
        element: access -> element.
        writers: writer -> element, of each writer.
        times: when each of them takes place: a union of relations.
    """
    isl = library()
    sink = isl.UnionAccessInfo.from_sink(isl.UnionMap.from_map(element))
    flow = sink.set_must_source(union(writers)).set_schedule_map(times).compute_flow()
    seen = [m.reverse().coalesce() for m in _parts(flow.get_must_dependence())]
    return seen, [m.coalesce() for m in _parts(flow.get_must_no_source())]


def _parts(union_map: Any) -> list[Any]:
    """The relations of a union that are not empty."""
    found: list[Any] = []
    union_map.foreach_map(found.append)
    return [m for m in found if not m.is_empty()]


# -- points ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """The values of the dimensions, and of the parameters by their isl names."""

    values: tuple[int, ...]
    params: dict[str, int]


@dataclass(frozen=True, slots=True)
class Pair:
    """One pair of a relation: values of the parameters, and two points."""

    parameters: dict[str, int]
    first: tuple[int, ...]
    second: tuple[int, ...]


def first_point(points: Any, operations: int = QUESTION) -> Point | None:
    """The lexicographically smallest point of a set (any, where isl cannot find that); None where
    none is found.
    """
    found = ask(lambda: points.lexmin().sample_point(), operations)
    if found is None:
        found = ask(points.sample_point, operations)
    return None if found is None or found.is_void() else _point(found)


def _point(point: Any) -> Point:
    kinds = library().dim_type
    space = point.get_space()
    params = _numbers(point, kinds.param)
    names = [space.get_dim_name(kinds.param, n) for n in range(len(params))]
    return Point(_numbers(point, kinds.set), dict(zip(names, params, strict=True)))


def _numbers(point: Any, kind: Any) -> tuple[int, ...]:
    each = (point.get_coordinate_val(kind, n) for n in range(point.get_space().dim(kind)))
    return tuple(int(value.to_python()) for value in each)


def smallest(pairs: Any) -> Pair:
    """The smallest pair of a relation that is not empty, for the smallest parameters; any pair
    where there is no smallest.

    Raises:
        Undecided: isl finds none.
    """
    kinds = library().dim_type
    space = pairs.get_space()
    names = [space.get_dim_name(kinds.param, n) for n in range(space.dim(kinds.param))]
    flat = pairs.wrap().flatten().move_dims(kinds.set, 0, kinds.param, 0, len(names))
    found = first_point(flat)
    if found is None:
        raise Undecided("isl finds no pair")
    numbers = found.values
    start = len(names) + space.dim(kinds.in_)
    parameters = dict(zip(names, numbers, strict=False))
    return Pair(parameters, numbers[len(names) : start], numbers[start:])


def image(relation: Any, parameters: dict[str, int], point: tuple[int, ...]) -> tuple[int, ...]:
    """Where a relation leads from a point."""
    kinds = library().dim_type
    for name, value in parameters.items():
        position = relation.find_dim_by_name(kinds.param, name)
        if position >= 0:
            relation = relation.fix_val(kinds.param, position, value)
    for n, value in enumerate(point):
        relation = relation.fix_val(kinds.in_, n, value)
    return smallest(relation).second
