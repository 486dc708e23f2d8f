"""1 x 1 convolutions: tiles over the ends of rows, the numbers of the definition, prefetches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import te, tir
from mlcnb.codegen.llvm.inspect import facts
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.dlight.cpu.tiles import Tile, choose_pixels
from mlcnb.dlight.decide import Decisions
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.relax import op as R
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.relax.operator import attrs_of
from tests.dlight.test_cpu import BLOCKED, HOST, LANES, check, loops_of, random


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(1, 15),
    st.integers(1, 33),
    st.integers(1, 2),
)
def test_any_image(batch, inner, outer, height, width, stride):
    check(
        lambda a, b: R.nn.conv2d(a, b, strides=stride, **BLOCKED),
        random(batch, inner, height, width, LANES),
        random(outer, inner, 1, 1, LANES, LANES),
    )


def product(chunks: int, size: int, lanes: int = LANES, inner: int = 4):
    layout = {"data_layout": f"NCHW{lanes}c", "kernel_layout": f"OIHW{lanes}i{lanes}o"}
    return loops_of(
        lambda a, b: R.nn.conv2d(a, b, **layout),
        random(1, inner, size, size, lanes),
        random(chunks, inner, 1, 1, lanes, lanes),
    )[0]


def test_seven_by_seven_pixels_are_two_tiles_and_the_trace_replays():
    func = product(16, 7, lanes=16)
    sch = schedule_cpu(func, mlc.target.Target("llvm -mcpu=x86-64-v4"))
    kinds = [inst.kind for inst in sch.trace.insts]
    assert "TransformBlockLayout" in kinds
    assert "for px_1" not in sch.mod["main"].script()  # the axis keeps a name of its own
    again = tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_a_residual_is_added_to_the_pixels_it_belongs_to():
    shape = (1, 72, 7, 7, LANES)
    x, w, r = (
        te.placeholder(s, name=n)
        for s, n in [((1, 3, 7, 7, LANES), "x"), ((72, 3, 1, 1, LANES, LANES), "w"), (shape, "r")]
    )
    args = [Var(t.name, tensor_info([int(d) for d in t.shape], "float32")) for t in (x, w)]
    conv = attrs_of(R.nn.conv2d(*args, **BLOCKED)).compute(x, w)
    total = te.compute(conv.shape, lambda *i: tir.op.max(conv(*i) + r(*i), 0.0), name="total")
    func = te.create_prim_func([x, w, r, total])
    assert any(i.kind == "TransformBlockLayout" for i in schedule_cpu(func, HOST).trace.insts)
    arrays = [random(*[int(d) for d in t.shape]) for t in (x, w, r)]
    out = np.full(shape, np.nan, np.float32)
    mlc.compile(func, schedule="default")(*arrays, out)
    expected = np.einsum("ncyxi,fcij->nfyxj", arrays[0], arrays[1][:, :, 0, 0]) + arrays[2]
    np.testing.assert_allclose(out, np.maximum(expected, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stride", [2, (1, 3)])
@pytest.mark.parametrize("batch, size", [(1, 14), (2, 13)])
def test_pixels_that_a_stride_leaves_out_are_not_read(batch, size, stride):
    """Those that are used are copied side by side; then it is a product as any other."""
    arrays = random(batch, 3, size, size, LANES), random(72, 3, 1, 1, LANES, LANES)

    def conv(a, b):
        return R.nn.conv2d(a, b, strides=stride, **BLOCKED)

    check(conv, *arrays)
    sch = schedule_cpu(loops_of(conv, *arrays)[0], HOST)
    kinds = [inst.kind for inst in sch.trace.insts]
    assert "ReIndex" in kinds and "TransformBlockLayout" in kinds
    again = tir.Schedule(loops_of(conv, *arrays)[0])
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


@pytest.mark.parametrize(
    "width, height, chunks, cpu, expected",
    [
        (7, 7, 72, "x86-64-v4", (Tile(25, 1, False), True)),
        (14, 14, 64, "x86-64-v4", (Tile(28, 1, True), True)),
        (56, 56, 16, "x86-64-v4", (Tile(14, 2, True), False)),
        (55, 55, 1, "x86-64-v4", (Tile(25, 1, True), True)),
        (13, 13, 4, "x86-64-v4", (Tile(13, 2, True), False)),
        (13, 13, 3, "x86-64-v4", (Tile(29, 1, False), True)),
        (7, 7, 3, "cortex-a72", None),
        (7, 7, 72, "cortex-a72", (Tile(13, 2, False), True)),
        (28, 28, 32, "x86-64-v3", (Tile(6, 2, False), True)),
        (1, 1, 8, "x86-64-v4", (Tile(1, 1, True), False)),
    ],
)
def test_tiles(width, height, chunks, cpu, expected):
    target = mlc.target.Target(f"llvm -mcpu={cpu}")
    assert choose_pixels(width, height, chunks, target) == expected


@pytest.mark.parametrize("cpu, lanes", [("x86-64-v3", 8), ("x86-64-v4", 16), ("cortex-a72", 4)])
@pytest.mark.parametrize("size", [7, 14, 28, 55])
def test_nothing_is_spilled(cpu, lanes, size):
    target = mlc.target.Target(f"llvm -mcpu={cpu}")
    made = mlc.compile(product(16, size, lanes), target=target, schedule="default").kernels["main"]
    hot = max((f.hot for f in facts(made.compiled).values() if f.hot), key=lambda c: c.fma)
    assert hot.fma >= 9
    assert hot.spills == 0
    assert hot.fma >= 0.4 * hot.instructions


def test_many_weights_are_asked_for_early_and_few_are_not():
    target = mlc.target.Target("llvm -mcpu=x86-64-v4")
    for chunks, wanted in ((64, True), (2, False)):
        func = product(chunks, 14, 16, inner=16)
        text = str(mlc.tir.transform.lower(schedule_cpu(func, target).mod["main"]))
        assert ("prefetch" in text) == wanted


def product_at(cpu: str, lanes: int, chunks: int, size: int, inner: int, **decisions: str):
    """The schedule, and what was decided."""
    target = mlc.target.Target(f"llvm -mcpu={cpu} -num-cores=2")
    with Decisions(decisions) as made:
        sch = schedule_cpu(product(chunks, size, lanes, inner), target)
    return sch, {p.name: p.label for p in made.points}


@pytest.mark.parametrize(
    "cpu, lanes, chunks, size, inner, outermost, copied",
    [
        # a block of 8 channels is multiplied in 48 cycles, of 16 in 224: less, or more than a wait
        ("x86-64-v3", 8, 32, 28, 32, "yes", "yes"),
        ("x86-64-v4", 16, 16, 28, 16, "no", None),
        ("x86-64-v3", 8, 32, 5, 4, "no", None),  # an image that stays in the first cache
        ("x86-64-v3", 8, 2, 28, 32, "no", None),  # it is read once
        ("x86-64-v3", 8, 1024, 7, 1024, "no", None),  # weights from memory
        ("x86-64-v3", 8, 4, 28, 32, "yes", "no"),  # it is read twice
        ("x86-64-v3", 8, 64, 7, 64, "yes", "yes"),
        ("x86-64-v3", 8, 64, 5, 64, "yes", "no"),  # five tiles: channels are cut for threads too
    ],
)
def test_which_loops_are_outermost(cpu, lanes, chunks, size, inner, outermost, copied):
    """Those over pixels where tiles would wait for an image that they read again and again."""
    sch, points = product_at(cpu, lanes, chunks, size, inner)
    assert points["pixels outermost"] == outermost
    assert points.get("pixels copied") == copied
    assert any(inst.kind == "ReIndex" for inst in sch.trace.insts) == (copied == "yes")


@pytest.mark.parametrize("copied", ["yes", "no"])
@pytest.mark.parametrize(
    "batch, height, width, stride", [(1, 13, 9, 1), (2, 14, 14, 2), (1, 7, 31, 3)]
)
def test_pixels_outermost_give_the_same(batch, height, width, stride, copied):
    """Copied for a tile, over the ends of rows and of the image, with strides."""
    with Decisions({"pixels outermost": "yes", "pixels copied": copied}) as made:
        check(
            lambda a, b: R.nn.conv2d(a, b, strides=stride, **BLOCKED),
            random(batch, 3, height, width, LANES),
            random(16, 3, 1, 1, LANES, LANES),
        )
    assert {"pixels outermost": "yes", "pixels copied": copied}.items() <= {
        (p.name, p.label) for p in made.points
    }
