"""Digits whose places are sizes that only a run knows: against all values one by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb import te
from mlcnb.arith.digits import determined
from mlcnb.arith.reading import Context, of
from mlcnb.core.errors import ScheduleError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.script import parse
from mlcnb.tir.schedule import Schedule

F, H, W = (e.Var(name, "int64") for name in "fhw")
SIZES = (2, 3, 5)


@st.composite
def places(draw):
    """A product or a sum of sizes and numbers."""
    atoms = [H, W, H + 2, p.floordiv(W + 1, 2), p.const(1, "int64"), p.const(3, "int64")]
    found = draw(st.lists(st.sampled_from(atoms), min_size=1, max_size=3))
    made = found[0]
    for other in found[1:]:
        made = made * other
    return made


@st.composite
def indices(draw):
    """f, or a digit of it: f // m, f % m, f % m // c, f // c % m."""
    one, other = draw(places()), draw(places())
    kind = draw(st.sampled_from(["f", "/", "%", "%/", "/%"]))
    made: dict[str, e.PrimExpr] = {
        "f": F, "/": p.floordiv(F, one), "%": p.floormod(F, one),
        "%/": p.floordiv(p.floormod(F, other * one), one),
        "/%": p.floormod(p.floordiv(F, one), other),
    }  # fmt: skip
    return made[kind]


@settings(max_examples=400, deadline=None)
@given(st.lists(indices(), min_size=1, max_size=3))
def test_never_yes_wrongly(found):
    if F not in determined([(of(x), 0) for x in found], {F}, {}):
        return
    for h in SIZES:
        for w in SIZES:
            values = [
                tuple(of(x, Context({}, {F: of(f), H: of(h), W: of(w)})).value for x in found)
                for f in range(-40, 120)
            ]
            assert len(set(values)) == len(values)


def image(*dims):
    """Two images of `dims`, the second made of the first, element by element."""
    x = te.placeholder(dims, "float32", name="x")
    y = te.compute(dims, lambda *i: x[i] + 1.0, name="y")
    return te.create_prim_func([x, y])


def open_size(name):
    return te.size_var(name, "int64")


N, S = open_size("n"), open_size("s")


@pytest.mark.parametrize(
    "dims", [(N, 6, S, 16), (N, S, 6, 16), (6, N, S, S), (S, S, S, S), (2, 3, N, 4)]
)
@pytest.mark.parametrize("first, last", [(0, 2), (0, 3), (1, 4), (0, 4)])
def test_fused_loops_of_open_sizes_run_in_parallel(dims, first, last):
    sch = Schedule(image(*dims))
    fused = sch.fuse(*sch.get_loops(sch.get_block("y"))[first:last])
    sch.parallel(fused)
    assert sch.get(fused).kind.name == "PARALLEL"


def test_a_size_that_is_computed_is_a_place_too():
    x = te.placeholder((N, 4, S), "float32", name="x")
    pad = te.compute((N, 4, S + 2), lambda a, b, c: x[a, b, te.min(c, S - 1)], name="pad")
    half = te.compute((N, 4, (S + 1) // 2), lambda a, b, c: pad[a, b, c * 2], name="half")
    sch = Schedule(te.create_prim_func([x, half]))
    for name in ("pad", "half"):
        sch.parallel(sch.fuse(*sch.get_loops(sch.get_block(name))))


def test_digits_that_leave_something_out_are_refused():
    """f % s alone: rows meet."""
    x = te.placeholder((N, S), "float32", name="x")
    k = te.reduce_axis((0, N), name="k")
    total = te.compute((S,), lambda j: te.sum(x[k, j], k), name="total")
    sch = Schedule(te.create_prim_func([x, total]))
    fused = sch.fuse(*sch.get_loops(sch.get_block("total")))
    with pytest.raises(ScheduleError, match="is not parallel"):
        sch.parallel(fused)


#: which of eight neighbours, and the number that a split gives: tile by tile
LANE = e.Var("t", "int64")
TILED = F * 8 + LANE


@st.composite
def tiled_indices(draw):
    """A digit of f * 8 + t, or of what is left of it: t % 2, t % 4 // 2, f."""
    one, other = draw(places()), draw(places())
    number = draw(st.sampled_from([TILED, TILED, LANE]))
    low = draw(st.sampled_from([2, 4]))
    kinds: list[e.PrimExpr] = [
        F, p.floordiv(number, one), p.floormod(number, one),
        p.floordiv(p.floormod(number, other * one), one),
        p.floormod(number, low), p.floordiv(number, low * one),
        p.floordiv(p.floormod(number, low * one), low),
    ]  # fmt: skip
    return draw(st.sampled_from(kinds))


@settings(max_examples=200, deadline=None)
@given(st.lists(tiled_indices(), min_size=1, max_size=4))
def test_never_yes_wrongly_of_tiles(chosen):
    context = Context({LANE: (0, 7)})
    found = determined([(of(x, context), 0) for x in chosen], {F, LANE}, context.bounds)
    points = [(f, t) for f in range(-6, 15) for t in range(8)] if found else []
    for h in (1, 2, 3):
        for w in (1, 2, 5):
            told: dict[object, set[object]] = {}
            for f, t in points:
                at = Context({}, {F: of(f), LANE: of(t), H: of(h), W: of(w)})
                kept = tuple(n for n, v in ((f, F), (t, LANE)) if v in found)
                told.setdefault(tuple(of(x, at).value for x in chosen), set()).add(kept)
            assert all(len(each) == 1 for each in told.values())


def test_the_lowest_digit_may_be_of_a_part_of_the_number():
    """t % 4 is (f * 8 + t) % 4; t % 3 says nothing of (f * 8 + t) % 3."""
    context = Context({LANE: (0, 7)})

    def told(*indices):
        starts = [(of(x, context), 0) for x in indices]
        return determined(starts, {F, LANE}, context.bounds)

    rows = p.floordiv(TILED, H * 4)
    columns = p.floordiv(p.floormod(TILED, H * 4), p.const(4, "int64"))
    assert told(rows, columns, LANE % 4) == {F, LANE}
    assert told(rows, columns, LANE % 2, LANE % 4 // 2) == {F, LANE}
    assert told(rows, columns, LANE % 2) == set()
    assert told(rows, LANE % 4) == set()
    thirds = p.floordiv(p.floormod(TILED, H * 3), p.const(3, "int64"))
    assert told(p.floordiv(TILED, H * 3), thirds, LANE % 3) == set()


DIMS = [(N, S, 4), (N, 2, S, 2), (1, N, S, 4), (N, S, S + 2, 2, 2), (1, S), (1, 1, N, 3)]


@pytest.mark.parametrize("dims", DIMS)
def test_tiles_of_fused_loops_are_bound(dims):
    sch = Schedule(image(*dims))
    blocks, threads = sch.split(sch.fuse(*sch.get_loops("y")), [None, 256])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")


@pytest.mark.parametrize("place", ["vi % 4, 0", "vi + vj, 0", "vj // 2, 0", "vi, vj % 4", "0, vj"])
def test_tiles_that_meet_are_refused(place):
    """Many iterations write one element."""
    func = parse(f"""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n, s = T.int64(), T.int64()
    A, B = T.match_buffer(a, (n, s)), T.match_buffer(b, (n + s, s + 4))
    for i, j in T.grid(n, s):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[{place}] = A[vi, vj]
""")
    sch = Schedule(func)
    blocks, threads = sch.split(sch.fuse(*sch.get_loops("y")), [None, 256])
    for loop, axis in ((blocks, "blockIdx.x"), (threads, "threadIdx.x")):
        with pytest.raises(ScheduleError, match="is not parallel"):
            sch.bind(loop, axis)
