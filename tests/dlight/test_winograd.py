"""Winograd convolution on the CPU: the numbers of nn.conv2d, traces that replay, counted facts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import te, tir
from mlcnb.codegen.llvm.inspect import facts
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.machine.winograd import Size, choose_pieces
from mlcnb.op import _layout
from mlcnb.op.nn.conv import Conv2d
from mlcnb.op.nn.winograd import WinogradConv2d, WinogradConv2dWhole, WinogradWeightTransform

HOST = mlc.target.Target("llvm")


def layouts(lanes: int) -> tuple[str, str]:
    return f"NCHW{lanes}c", f"OABI{lanes}i{lanes}o"


def program(
    size: tuple[int, int],
    inner: int = 2,
    outer: int = 2,
    tile: int = 4,
    padding=1,
    window: int = 3,
    images: int = 1,
    lanes: int = HOST.lanes("float32"),
    whole: bool = False,
    groups: int = 1,
) -> tir.PrimFunc:
    """relu(convolution + bias + residual): `inner` blocks of channels of a group, `outer` of all
    results.
    """
    data_layout, weight_layout = layouts(lanes)
    alpha = tile + window - 1
    x = te.placeholder((images, inner * groups, *size, lanes), "float32", "x")
    if whole:
        u = te.placeholder((outer, inner, window, window, lanes, lanes), "float32", "w")
        layout = f"OIHW{lanes}i{lanes}o"
        conv = WinogradConv2dWhole(tile, padding, data_layout, layout, groups=groups)
    else:
        u = te.placeholder((outer, alpha, alpha, inner, lanes, lanes), "float32", "u")
        conv = WinogradConv2d(tile, padding, data_layout, weight_layout, groups=groups)
    y = conv.compute(x, u)
    b = te.placeholder((1, outer, 1, 1, lanes), "float32", "b")
    r = te.placeholder(y.shape, "float32", "r")
    biased = te.compute(y.shape, lambda n, o, h, w, c: y[n, o, h, w, c] + b[0, o, 0, 0, c], "add")
    added = te.compute(y.shape, lambda *i: biased(*i) + r(*i), "residual")
    zero = te.const(0, "float32")
    return te.create_prim_func(
        [x, u, b, r, te.compute(y.shape, lambda *i: te.max(added(*i), zero), "relu")]
    )


def arrays(
    func: tir.PrimFunc, window: int, tile: int, whole: bool
) -> tuple[list[np.ndarray], np.ndarray]:
    """Random arguments of `program`, and plain weights."""
    rng = np.random.default_rng(0)
    shapes = [tuple(int(d.value) for d in b.shape) for b in func.buffers]
    x, b, r = (rng.standard_normal(shapes[i]).astype("float32") for i in (0, 2, 3))
    outer, inner, lanes = shapes[1][0], shapes[1][1 if whole else 3], shapes[1][4]
    w = rng.standard_normal((outer * lanes, inner * lanes, window, window)).astype("float32")
    w /= window * np.sqrt(inner * lanes)
    if whole:
        u = _layout.from_plain(w, "OIHW", f"OIHW{lanes}i{lanes}o")
    else:
        u = WinogradWeightTransform(tile, layouts(lanes)[1]).numpy(w)
    return [x, u, b, r], w


def check(size, tile: int, padding, window: int = 3, **more) -> None:
    """On one and two threads, beside nn.conv2d in float64."""
    func = program(size, tile=tile, padding=padding, window=window, **more)
    given_arrays, w = arrays(func, window, tile, more.get("whole", False))
    x, _, b, r = given_arrays
    lanes = x.shape[-1]
    wide = Conv2d(
        1,
        padding,
        groups=more.get("groups", 1),
        data_layout=f"NCHW{lanes}c",
        kernel_layout="OIHW",
        out_dtype="float64",
    )
    expected = np.maximum(wide.numpy(x.astype("float64"), w.astype("float64")) + b + r, 0)
    ex = mlc.compile(func, schedule="default")
    for threads in (1, 2):
        mlc.set_num_threads(threads)
        found = np.full(r.shape, np.nan, "float32")
        ex(*given_arrays, found)
        limit = {2: 5e-6, 4: 1e-5, 6: 5e-5}[tile] * (3 if window > 3 else 1)
        np.testing.assert_allclose(found, expected, rtol=0, atol=limit * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("tile", [2, 4, 6])
@pytest.mark.parametrize("size", [(14, 14), (7, 7), (13, 30), (1, 1), (3, 17)])
def test_results_are_those_of_the_convolution(size, tile):
    check(size, tile, 1)


@pytest.mark.parametrize("tile", [2, 4])
def test_windows_of_five(tile):
    check((13, 11), tile, 2, window=5)


def test_large_weights_and_many_images():
    """All inputs are transformed first; and the other way, with several images."""
    check((6, 5), 4, 1, inner=3, outer=40)
    check((9, 9), 4, (1, 0, 2, 1), images=3)
    check((30, 30), 4, 1, inner=1, outer=3)


@pytest.mark.parametrize(
    "size, more",
    [
        ((12, 12), {"inner": 3, "outer": 8, "groups": 2}),
        ((12, 12), {"inner": 3, "outer": 8, "groups": 2, "whole": True}),
        ((9, 14), {"inner": 1, "outer": 4, "groups": 4, "images": 2}),
        ((7, 7), {"inner": 2, "outer": 9, "groups": 3, "whole": True}),
        ((13, 11), {"inner": 2, "outer": 4, "groups": 2, "window": 5}),
        ((40, 40), {"inner": 1, "outer": 6, "groups": 2}),
    ],
)
def test_groups(size, more):
    check(size, 4, more.get("window", 3) // 2, **more)


def test_the_vectors_of_a_register_tile_are_of_one_group():
    """They read the same inputs: none is read anew for another vector's group."""
    for groups, each in ((1, 6), (2, 3), (6, 1)):
        size = Size(1, (14, 14), 96 // groups, 96, 6, groups)
        vectors = choose_pieces(size, mlc.target.Target("llvm -mcpu=znver5")).vectors
        assert each % vectors == 0


@pytest.mark.slow
@pytest.mark.parametrize("tile", [4, 6])
@pytest.mark.parametrize("size", [(7, 7), (13, 30)])
def test_weights_that_are_transformed_where_they_are_used(size, tile):
    check(size, tile, 1, inner=3, outer=4, whole=True)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    st.tuples(st.integers(3, 19), st.integers(3, 33)),
    st.sampled_from([2, 4, 6]),
    st.tuples(*[st.integers(0, 3)] * 4),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_any_size_and_padding(size, tile, padding, inner, outer):
    check(size, tile, padding, inner=inner, outer=outer)


@pytest.mark.parametrize("size, outer", [((28, 28), 2), ((7, 7), 8)])
def test_the_trace_replays(size, outer):
    func = program(size, outer=outer)
    sch = schedule_cpu(func, HOST)
    kinds = [inst.kind for inst in sch.trace.insts]
    assert kinds.count("ComputeAt") >= 4
    assert "DecomposeReduction" in kinds
    again = tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod["main"], sch.mod["main"])


def test_what_is_fused_and_what_is_transformed_first():
    """Many blocks of tiles: one parallel loop. Few: one to transform, one to multiply."""
    many = schedule_cpu(program((56, 56)), HOST).mod["main"].script()
    few = schedule_cpu(program((8, 8)), HOST).mod["main"].script()
    assert many.count("T.parallel") == 1
    assert few.count("T.parallel") == 2


@pytest.mark.parametrize("mcpu, size, tile", [("x86-64-v4", 192, 6), ("x86-64-v3", 81, 4)])
def test_blocks_of_rows_that_do_not_fill_the_image_are_tasks_too(mcpu, size, tile):
    """32 rows of tiles by 3: that tasks fill what they read could not be told, the rule did not
    apply, and 64 channels of 192 x 192 took 6.6 ms, now 2.5."""
    target = mlc.target.Target(f"llvm -mcpu={mcpu} -num-cores=2")
    lanes, rows = target.lanes("float32"), -(-size // tile)
    pieces = choose_pieces(Size(1, (rows, rows), 4 * lanes, 2 * lanes, tile + 2), target)
    func = program((size, size), inner=4, outer=2, tile=tile, lanes=lanes)
    sch = schedule_cpu(func, target)
    if pieces.fused:
        assert sch.mod["main"].script().count("T.parallel") == 1
    assert "cache_write" in str(sch.trace)


@pytest.mark.parametrize("mcpu", ["znver4", "sapphirerapids"])
def test_small_images_are_padded_as_their_rows_are_transformed(mcpu):
    """One that stays in L2 is read in place; pieces of a larger one are copied, padded."""
    target = mlc.target.Target(f"llvm -mcpu={mcpu}")
    for size, in_place in ((28, True), (224, False)):
        text = schedule_cpu(program((size, size), lanes=16), target).mod["main"].script()
        rows = text.split('T.block("input_rows")')[1].split("T.block(")[0]
        assert (", x[" in rows) == in_place
        assert ('T.block("pad_temp")' in text) != in_place


def test_weights_are_transformed_once_for_all_tiles():
    """A task has all tiles of its channels; a row of the tile's weights stays in L2."""
    func = program((56, 56), inner=16, outer=16, whole=True)
    text = schedule_cpu(func, HOST).mod["main"].script()
    _, products = text.split("T.parallel(")[1:]
    assert int(products.split(")")[0]) <= 16  # a chunk of channels or more, and no parts of tiles
    names = ["weight_rows", "transform_weight", "bgemm"]
    places = [products.index(f'T.block("{name}') for name in names]
    assert places == sorted(places)
    assert "for ax0 in range(6):" in products.split('T.block("weight_rows')[0]


@pytest.mark.parametrize("size, images", [((7, 7), 1), ((8, 5), 2), ((3, 2), 1)])
def test_few_tiles_of_which_a_step_transforms_the_weights(size, images):
    check(size, 4, 1, inner=3, outer=4, images=images, whole=True)


def test_weights_of_few_tiles_are_made_in_registers():
    """A row of the tile's weights is made at each step of the sum, and no array of them is left."""
    func = program((7, 7), inner=4, outer=4, whole=True)
    if not choose_pieces(Size(1, (2, 2), 64, 64, 6), HOST, plain_weights=True).whole_rows:
        pytest.skip("this machine has too few registers")
    sch = schedule_cpu(func, HOST)
    _, products = sch.mod["main"].script().split("T.parallel(")[1:]
    names = ["bgemm_init", "weight_rows", "transform_weight", "bgemm_update"]
    places = [products.index(f'T.block("{name}"') for name in names]
    assert places == sorted(places)
    text = str(tir.transform.lower(sch.mod["main"]).script())
    assert "T.prefetch(" in text
    again = tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod["main"], sch.mod["main"])


@pytest.mark.parametrize(
    "mcpu, size, outer, is_asked",
    [
        ("znver5", (14, 14), 13, True),
        ("znver5", (28, 28), 8, True),
        ("znver5", (7, 7), 8, False),  # four tiles: they are read faster than they can come
        ("x86-64-v3", (14, 14), 13, False),  # two vectors share a line
    ],
)
def test_weights_made_before_are_asked_for(mcpu, size, outer, is_asked):
    """While tiles are multiplied with those before them."""
    target = mlc.target.Target(f"llvm -mcpu={mcpu} -num-cores=2")
    func = program(size, inner=6, outer=outer, lanes=target.lanes("float32"))
    text = str(tir.transform.lower(schedule_cpu(func, target).mod["main"]).script())
    asked = [line for line in text.splitlines() if "T.prefetch(" in line]
    assert bool(asked) == is_asked
    assert all("u" in line for line in asked)


def test_products_are_summed_in_registers():
    """The hot loop is a step of the product: multiply-adds on whole vectors, and no spills."""
    func = program((56, 56), inner=4, outer=4)
    (found,) = (
        f
        for f in facts(mlc.compile(func, schedule="default").kernels["main"].compiled).values()
        if f.hot and f.hot.fma >= 3 * HOST.vector_registers // 8
    )
    assert found.hot.spills == 0
    scalar = found.hot.instructions * (1 - found.hot.vector_share)
    assert scalar < max(0.2 * found.hot.instructions, 4.5)  # the counter, the pointers, the jump
    assert found.hot.stores == 0


@pytest.mark.parametrize("mcpu, mtriple", [("x86-64-v3", ""), ("cortex-a72", "aarch64-linux-gnu")])
def test_other_machines(mcpu, mtriple):
    """Widths and registers come from the target; the assembly has vector multiply-adds."""
    spec = {"kind": "llvm", "mcpu": mcpu, **({"mtriple": mtriple} if mtriple else {})}
    target = mlc.target.Target(spec)
    lanes = target.lanes("float32")
    func = program((24, 24), lanes=lanes)
    compiled = mlc.compile(func, target=target, schedule="default").kernels["main"].compiled
    hot = [f.hot for f in facts(compiled).values() if f.hot]
    assert max(h.fma for h in hot) >= 8
    assert max(hot, key=lambda h: h.fma).spills == 0
