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
from mlcnb.dlight.cpu.tiles import Tile, choose_pixels, choose_tile
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


@pytest.mark.parametrize(
    "image, window, strides, padding, aside",
    [
        ((1, 3, 13, 13), (3, 3), 2, 1, True),
        ((2, 2, 8, 4), (5, 3), 1, (2, 0, 1, 1), True),
        ((1, 2, 11, 9), (1, 3), 1, 0, True),
        ((1, 2, 11, 9), (3, 3), 2, 1, False),  # rows of five are a good tile
    ],
)
def test_what_windows_see_of_small_images_lies_side_by_side(image, window, strides, padding, aside):
    """Rows of 3 or 7 pixels waste a quarter of the work of 16 registers: pixels are one axis."""
    target = mlc.target.Target("llvm -mcpu=x86-64-v3")
    given = {"strides": strides, "padding": padding}
    layout = {"data_layout": "NCHW8c", "kernel_layout": "OIHW8i8o"}
    arrays = random(*image, 8), random(40, image[1], *window, 8, 8)
    func, expected = loops_of(lambda a, b: R.nn.conv2d(a, b, **given, **layout), *arrays)
    sch = schedule_cpu(func, target)
    assert any(i.kind == "TransformBlockLayout" for i in sch.trace.insts) == aside
    assert not aside or 'T.block("pad_temp")' not in sch.mod["main"].script()
    again = tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)
    found = np.full(expected.shape, np.nan, np.float32)
    mlc.compile(sch.mod["main"])(*arrays, found)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)


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
        (7, 7, 72, "znver4", (Tile(25, 1, False), True)),
        (14, 14, 64, "znver4", (Tile(28, 1, True), True)),
        (14, 14, 64, "znver5", (Tile(28, 1, True), True)),
        # two loads in a cycle are as many as multiply-adds: none is left for the weights
        (7, 7, 72, "emeraldrapids", (Tile(13, 2, False), True)),
        (14, 14, 64, "emeraldrapids", (Tile(14, 2, True), False)),
        (14, 14, 64, "x86-64-v4", (Tile(14, 2, True), False)),
        (56, 56, 16, "x86-64-v4", (Tile(14, 2, True), False)),
        (55, 55, 1, "x86-64-v4", (Tile(25, 1, True), True)),
        (13, 13, 4, "x86-64-v4", (Tile(13, 2, True), False)),
        (13, 13, 3, "x86-64-v4", None),
        (7, 7, 3, "cortex-a72", None),
        (7, 7, 72, "cortex-a72", (Tile(13, 2, False), True)),
        (28, 28, 32, "x86-64-v3", (Tile(6, 2, False), True)),
        (1, 1, 8, "znver4", (Tile(1, 1, True), False)),
    ],
)
def test_tiles(width, height, chunks, cpu, expected):
    target = mlc.target.Target(f"llvm -mcpu={cpu}")
    assert choose_pixels(width, height, chunks, target) == expected


@pytest.mark.slow
@pytest.mark.parametrize("cpu, lanes", [("x86-64-v3", 8), ("x86-64-v4", 16), ("cortex-a72", 4)])
@pytest.mark.parametrize("size", [7, 14, 28, 55])
def test_nothing_is_spilled(cpu, lanes, size):
    target = mlc.target.Target(f"llvm -mcpu={cpu}")
    made = mlc.compile(product(16, size, lanes), target=target, schedule="default").kernels["main"]
    hot = max((f.hot for f in facts(made.compiled).values() if f.hot), key=lambda c: c.fma)
    assert hot.fma >= 9
    assert hot.spills == 0
    assert hot.fma >= 0.4 * hot.instructions


@pytest.mark.parametrize(
    "cpu, lanes, chunks, wanted",
    [("x86-64-v4", 16, 64, True), ("x86-64-v4", 16, 2, False), ("x86-64-v3", 8, 64, False)],
)
def test_many_weights_are_asked_for_early_and_few_are_not(cpu, lanes, chunks, wanted):
    """And none where a line is several vectors, for each of them would ask for it."""
    target = mlc.target.Target(f"llvm -mcpu={cpu}")
    func = product(chunks, 14, lanes, inner=16)
    text = str(mlc.tir.transform.lower(schedule_cpu(func, target).mod["main"]))
    assert ("prefetch" in text) == wanted


@pytest.mark.parametrize(
    "cpu, lanes, steady",
    [("x86-64-v3", 8, True), ("x86-64-v4", 16, False), ("cortex-a72", 4, False)],
)
def test_short_blocks_of_channels_are_written_out(cpu, lanes, steady):
    """Eight steps of 6 x 2 products are 48 cycles, less than a line from the last cache takes; 16
    of 28 are 200 and more; and on ARM a block's channels would be loaded together."""
    target = mlc.target.Target(f"llvm -mcpu={cpu}")
    sch = schedule_cpu(product(64, 28, lanes), target)
    channel = sch.get(sch.get_loops(sch.get_block("conv2d_NCHWc_update"))[-4])
    assert channel.extent == lanes
    assert (channel.kind.name == "UNROLLED") == steady


def test_weights_that_lie_in_order_allow_tiles_of_several_vectors():
    """Of rows of 28 pixels, 9 or 11, as they were fastest on Zen 3; of 16 registers."""
    zen3 = mlc.target.Target("llvm -mcpu=znver3")
    for length, chunks, depth, tile in [
        (28, 3, 216, Tile(4, 3, True)),
        (9, 16, 1024, Tile(5, 2, False)),
    ]:
        found = choose_tile(length, chunks, zen3.vector_registers, target=zen3, depth=depth)
        assert found == tile
