"""The one walk of programs: what a run touches is read, and no more where that is exact."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from mlcnb.arith.presburger import NotAffine
from mlcnb.codegen.interp import run_prim_func
from mlcnb.codegen.interp.parallel import may_race
from mlcnb.core.errors import ExecutionError, PassError
from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.script import parse
from mlcnb.testing.gallery import gallery
from mlcnb.tir import PrimFunc, analysis
from mlcnb.tir import stmt as s
from mlcnb.tir.access.read import read
from mlcnb.tir.access.relation import Related
from mlcnb.tir.analysis.carried import Carried
from mlcnb.tir.schedule.legality.polyhedral.answers import carried_by
from mlcnb.tir.transform import lower
from mlcnb.tir.transform.thread_sync import thread_sync
from tests.tir.programs import FUZZ, SIZE, parsed, programs
from tests.tir.schedule.programs import numbers
from tests.tir.schedule.random_steps import PROGRAMS

#: (buffer, element, writes, values of the loops around)
Event = tuple[str, int, bool, tuple[int, ...]]
LARGEST = 20_000
#: the engines that tell accesses apart
ALL = {"dependences", "polyhedral", "carried", "races", "threads"}
HEAD = """@T.prim_func
def f(A: T.Buffer((64,), "int32"), I: T.Buffer((64,), "int32")):
"""


def program(body: str) -> PrimFunc:
    """A function of A and I, of 64 integers."""
    return parse(HEAD + "\n".join(f"    {line}" for line in body.strip("\n").splitlines()) + "\n")


def loop_of(func: PrimFunc, name: str = "i") -> s.For:
    """The loop of this name."""
    return next(n for n in walk(func.body) if isinstance(n, s.For) and n.loop_var.name == name)


# every access, and no other ---------------------------------------------------------------------


def made(func: PrimFunc, args: list[Any]) -> set[Event]:
    """The accesses of one run."""
    found: set[Event] = set()
    names = {x.node: [analysis.loop_name(n) for n in x.loops] for x in analysis.accesses_of(func)}
    orders = {tuple(sorted(loops)): loops for loops in names.values()}

    def note_it(name: str, element: int, what: str, values: dict[str, int]) -> None:
        order = orders.get(tuple(sorted(values)), sorted(values))
        found.add((name, int(element), what == "w", tuple(int(values[v]) for v in order)))

    run_prim_func(func, args, note_it)
    return found


def said(func: PrimFunc) -> Iterator[Event]:
    """The accesses that relations say, all of which are exact."""
    for x in analysis.accesses_of(func):
        for values, element in points(x):
            flat = 0
            for index, extent in zip(element, x.buffer.shape, strict=True):
                flat = flat * p.as_int(extent) + index  # type: ignore[operator]
            yield x.node.buffer.name, flat, x.is_write, values


def points(x: Related) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Iterations and elements of a relation."""
    import islpy

    found = []

    def keep(point: Any) -> None:
        count = len(x.loops) + x.buffer.ndim
        values = [
            int(point.get_coordinate_val(islpy.dim_type.set, n).to_python()) for n in range(count)
        ]
        found.append((tuple(values[: len(x.loops)]), tuple(values[len(x.loops) :])))

    x.relation.wrap().foreach_point(keep)
    return found


def is_told_whole(func: PrimFunc) -> bool:
    """True for programs all of whose accesses are exact, small, and in buffers of their own."""
    accesses = analysis.accesses_of(func)
    fixed = all(p.as_int(n) is not None for x in accesses for n in x.buffer.shape)
    plain = not any(isinstance(n, s.DeclBuffer | s.While | s.AttrStmt) for n in walk(func.body))
    loops = [n for n in walk(func.body) if isinstance(n, s.For)]
    names = {n.loop_var.name for n in loops}
    small = prod(p.as_int(n.extent) or LARGEST for n in loops) < LARGEST
    is_exact = all(x.exact and x.indices is not None for x in accesses)
    return fixed and plain and small and is_exact and len(names) == len(loops)


def agree(func: PrimFunc, args: list[Any]) -> None:
    """What a run touches is what relations say."""
    assert made(func, args) == set(said(func))


def examples() -> Iterator[Any]:
    """Programs of the fuzz and of the gallery, before their steps and after them."""
    yield from (pytest.param(build, id=name) for name, build in PROGRAMS.items())
    for name, x in gallery().items():
        yield pytest.param(lambda x=x: x.before, id=f"{name} before")
        yield pytest.param(lambda x=x: x.after, id=f"{name} after")


@pytest.mark.parametrize("build", [*examples()])
def test_what_a_run_touches_is_what_is_read(build):
    func = build()
    if not is_told_whole(func):
        pytest.skip("not every access is told exactly")
    agree(func, numbers(func))
    flat = lower(func)
    if is_told_whole(flat):
        agree(flat, numbers(flat))


@settings(max_examples=40 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs(text):
    func = parsed(text)
    note(text)
    args = [np.zeros(SIZE, "int32"), np.zeros(SIZE, "int32")]
    try:
        found = made(func, args)
    except ExecutionError:
        return
    if is_told_whole(func):
        assert found == set(said(func))


# four engines, one answer ------------------------------------------------------------------------


#: indices of 64 elements, and whether each v of 0..8 has an element of its own
FORMS = """
yes: (v * 3) % 8        (v * 5) % 8         v * 5 % 16            (v + 3) % 8           7 - v
yes: v * 2 // 2         v // 4 + v % 4 * 2  v % 3 * 3 + v // 3    (v * 7 + v // 4) % 16
yes: v // 4 * 4 + (v * 3) % 4               v // 2 * 2 + (1 - v % 2)  v * 3 - v * 2
yes: T.min(v, 7)        T.max(v * 2, v)     v << 1                (v << 1) >> 1
yes: T.truncmod(v, 8)   T.truncmod(v * 3, 8)                      T.truncdiv(v * 4 - 14, 2) + 20
no: (v * 2) % 8         (v * 4) % 8         v % 4                 v // 2                v >> 1
no: (v + 3) % 7         (v * 3 + 1) % 8 // 2                      T.min(v, 6)           T.max(v, 1)
no: T.abs(v - 4)        T.truncdiv(v, 2)    T.truncmod(v - 4, 4) + 4
no: T.bitwise_and(v, 3) T.Select(v < 4, v, v - 4)                 T.if_then_else(v < 4, v, v - 3)
"""
#: of what is not linear for sure some engines say that elements may meet
OVERCAUTIOUS = {
    "T.if_then_else(v < 4, v, 11 - v)": {"polyhedral"},  # its text has no place for a choice
    "T.Select(v < 4, v + 4, v - 4)": {"polyhedral"},
    "T.abs(v - 8)": {"polyhedral"},
    'T.Cast("int32", T.Cast("int64", v))': {"polyhedral"},  # a narrower dtype may not hold a number
    "v * v": ALL,
    "T.bitwise_xor(v, 3)": ALL,
    'T.Cast("int32", T.Cast("uint8", v))': ALL,
    "I[v]": ALL,
}


def forms() -> Iterator[tuple[str, bool, set[str]]]:
    """Each index, whether elements are apart, and the engines that do not see it."""
    for line in FORMS.strip().splitlines():
        word, _, rest = line.partition(": ")
        yield from ((x.strip(), word == "yes", set()) for x in re.split("  +|(?<=[)]) (?=T)", rest))
    yield from ((form, True, engines) for form, engines in OVERCAUTIOUS.items())


@pytest.mark.parametrize(("form", "apart", "unseen"), [*forms()])
def test_the_engines_agree(form, apart, unseen):
    """Elements are told apart by all engines, but where it is written that some do not see it."""
    found = answers(form)
    assert found == {engine: apart and engine not in unseen for engine in found}
    assert meet(form) is not apart


@st.composite
def indices(draw, depth=3):
    """An index of v, by all that indices are made of."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return "v"
    a, n = draw(indices(depth - 1)), draw(st.integers(1, 9))
    b = draw(indices(depth - 1))
    return draw(
        st.sampled_from(
            [f"({a} + {n})", f"({a} - {b})", f"({a} + {b})", f"({a} * {n})", f"({a} % {n})"]
            + [f"({a} // {n})", f"T.truncdiv({a}, {n})", f"T.truncmod({a}, {n})", f"({a} >> 1)"]
            + [f"T.min({a}, {b})", f"T.max({a}, {n})", f"T.if_then_else(v < {n}, {a}, {b})"]
            + [f"T.Select({a} > {n}, {a}, {b})", f"T.abs({a})"]
        )
    )


@settings(max_examples=25 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(indices())
def test_no_engine_tells_apart_what_meets(form):
    form = f"({form}) % 64"
    note(form)
    found = answers(form)
    assert not (meet(form) and any(found.values()))


def answers(form: str) -> dict[str, bool]:
    """What each engine says: are the elements of the iterations (or threads) apart?"""
    func = program(f"""
for i in T.parallel(8):
    with T.block("C"):
        v = T.axis.spatial(8, i)
        A[{form}] = I[v]
""")
    threads = program(f"""
with T.launch_thread("threadIdx.x", 8) as v:
    S = T.alloc_buffer((64,), "int32", scope="shared")
    S[{form}] = I[v]
    A[v] = S[{form}]
""")
    loop = loop_of(func)
    return {
        "dependences": not analysis.carried_dependences(func, "i"),
        "polyhedral": is_independent(func, loop),
        "carried": is_apart(func, loop),
        "races": not may_race(func),
        "threads": "storage_sync" not in thread_sync(threads).script(),
    }


def meet(form: str) -> bool:
    """Whether a run writes an element twice."""
    func = program(f"""
for v in range(8):
    A[{form}] = v
""")
    elements: list[int] = []
    args = [np.arange(64, dtype="int32"), np.arange(64, dtype="int32")]
    run_prim_func(func, args, lambda _, x, what, __: elements.append(x) if what == "w" else None)
    return len(set(elements)) < len(elements)


def is_apart(func: PrimFunc, loop: s.For) -> bool:
    """Whether no two iterations touch one element of A."""
    found = Carried(loop, func.buffers)
    return found.is_apart(found.found.of[func.buffers[0].data], loop)


def is_independent(func: PrimFunc, loop: s.For) -> bool:
    """Whether the polyhedral engine finds no two iterations that depend on each other."""
    try:
        return carried_by(func, loop, False, 10**6) is None
    except NotAffine:
        return False


# pointers, under all their names -----------------------------------------------------------------


def touched(func: PrimFunc) -> list[tuple[str, bool, bool]]:
    """(buffer, writes, any element) of each access."""
    return [(x.buffer.name, x.is_write, x.indices is None) for x in read(func).accesses]


def test_a_pointer_reaches_its_buffer_before_anything_else_does():
    func = program("""
C = T.alloc_buffer((8,), "int32")
T.evaluate(T.call_extern("int32", "fill", C.data))
A[0] = C[0]
""")
    whole = [("C", False, True), ("C", True, True)]
    assert touched(func) == [*whole, ("C", False, False), ("A", True, False)]
    assert analysis.uninitialized_reads(func) == []


def test_a_pointer_by_the_name_of_a_let():
    func = program("""
p: T.handle = A.data
for i in range(8):
    T.evaluate(T.call_extern("int32", "fill", p, i))
""")
    assert touched(func) == [("A", False, True), ("A", True, True)]
    assert {d.kind.name for d in analysis.carried_dependences(func, "i")} == {"RAW", "WAR", "WAW"}


def test_the_pointer_of_a_match_buffer():
    func = program("""
for i in range(8):
    with T.block("B"):
        v = T.axis.spatial(8, i)
        T.reads(A[v])
        T.writes(A[v])
        M = T.match_buffer(A[v:v + 1], (1,), "int32")
        T.evaluate(T.call_extern("int32", "fill", M.data))
""")
    assert touched(func) == [("A", False, True), ("A", True, True)]


def test_what_stands_in_the_index_of_an_address_is_read():
    func = program('T.evaluate(T.call_extern("int32", "fill", T.address_of(A[I[99]])))')
    assert touched(func)[0] == ("I", False, False)
    assert analysis.check_bounds(func)[0].message == (
        "I[99] is read: dimension 0 has indices 0..64"
    )


def test_a_matched_buffer_is_the_region_that_it_stands_for():
    func = program("""
for i in range(8):
    with T.block("B"):
        v = T.axis.spatial(8, i)
        T.reads(I[v * 4:v * 4 + 4])
        T.writes(A[v])
        M = T.match_buffer(I[v * 4:v * 4 + 4], (4,), "int32", offset_factor=1)
        A[v] = M[3]
""")
    load = read(func).accesses[0]
    assert (load.buffer.name, str(load.indices[0])) == ("I", "v * 4 + 3")


# what stands around ------------------------------------------------------------------------------


def test_a_vector_condition_keeps_no_lane_from_being_read():
    """Where lanes differ both values are computed, as the interpreter does."""
    func = parse("""
@T.prim_func
def f(A: T.Buffer((2,), "float32"), B: T.Buffer((4,), "float32")):
    B[T.Ramp(0, 1, 4)] = T.if_then_else(T.Ramp(0, 1, 4) < T.Broadcast(2, 4),
                                        A[T.Ramp(0, 1, 4)], T.Broadcast(T.float32(0), 4))
""")
    args = [np.zeros(2, "float32"), np.zeros(4, "float32")]
    with pytest.raises(ExecutionError, match=r"out of bounds: A\[2\] is read"):
        run_prim_func(func, args)
    assert [x.message for x in analysis.check_bounds(func)] == [
        "A[2] is read: dimension 0 has indices 0..2"
    ]


def test_what_a_break_leaves_out_is_not_surely_written():
    """What an iteration leaves unwritten comes from the one before."""
    func = program("""
C = T.alloc_buffer((8,), "int32")
for i in range(6):
    for j in range(8):
        if I[j] > i:
            T.break_loop()
        C[j] = A[j] + i
    for k in range(8):
        A[i * 8 + k] = C[k]
""")
    root = next(n for n in walk(func.body) if isinstance(n, s.Block))
    found = Carried(root.body, root.alloc_buffers)
    assert not found.is_private(root.alloc_buffers[0], loop_of(func))


@pytest.mark.parametrize("extra", ["", ", elem_offset=1"])
def test_two_views_of_one_memory_in_a_parallel_loop(extra):
    func = program(f"""
B = T.decl_buffer((60,), "int32", data=A.data{extra})
for i in T.parallel(8):
    A[i] = 1
    B[i] = 2
""")
    assert may_race(func)


def test_strides_that_let_elements_overlap():
    func = parse("""
@T.prim_func
def f(a: T.handle):
    A = T.match_buffer(a, (4, 4), "int32", strides=[1, 1])
    for i in range(4):
        A[i, 0] = A[i, 1] + 1
""")
    assert {d.kind.name for d in analysis.carried_dependences(func, "i")} == {"RAW", "WAR", "WAW"}


def test_a_number_of_a_thread_by_the_name_of_a_let():
    """Threads that touch elements of their own need no barrier, whatever the element is called."""
    func = program("""
with T.launch_thread("threadIdx.x", 8) as i:
    S = T.alloc_buffer((16,), "int32", scope="shared")
    k: T.int32 = i * 2
    S[k] = I[i]
    A[i] = S[k]
""")
    assert "storage_sync" not in thread_sync(func).script()


@pytest.mark.parametrize("last", ["T.evaluate(0)", 'T.tvm_storage_sync("shared")'])
def test_a_while_asks_for_what_threads_write_in_its_rounds(last):
    """No barrier can stand between a round and the next question, but at the end of the body."""
    func = program(f"""
with T.launch_thread("threadIdx.x", 8) as i:
    S = T.alloc_buffer((8,), "int32", scope="shared")
    S[i] = I[i]
    while S[0] < 3:
        T.tvm_storage_sync("shared")
        if i == 0:
            S[0] = S[0] + 1
        {last}
    A[i] = S[i]
""")
    if "sync" in last:
        assert thread_sync(func).script().count("storage_sync") == 3
    else:
        with pytest.raises(PassError, match="a `while` asks for memory that threads write"):
            thread_sync(func)
