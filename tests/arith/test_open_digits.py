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
