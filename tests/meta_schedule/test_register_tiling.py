"""Tiles that stay in registers: which ones, the program that comes of one, what it computes, and
what its machine code does."""

import re

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import meta_schedule as ms
from mlcnb import te, tir
from mlcnb.dlight.register_tiles import Summed, Tile, tiled
from mlcnb.meta_schedule import postproc
from mlcnb.meta_schedule.contest import arguments
from mlcnb.meta_schedule.schedule_rule import RegisterTiling
from mlcnb.meta_schedule.testing import te_workload
from mlcnb.script import from_source
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule
from tests.printed import has_body

AVX2 = Target("llvm -mcpu=x86-64-v3 -num-cores=2")
AVX512 = Target("llvm -mcpu=x86-64-v4 -num-cores=2")


def convolution(inner, outer, size, window, stride=1):
    """A convolution of one image; inner None: one filter for each channel."""
    places = (size - window) // stride + 1
    each, channel = ("", "vf") if inner is None else (f"{inner}, ", "vc")
    (loop, axis, kind), depth = (
        (("", "", ""), outer) if inner is None else (("c, ", "vc, ", "R"), inner)
    )
    return from_source(f"""
@T.prim_func
def main(X: T.Buffer(({depth}, {size}, {size}), "float32"),
         W: T.Buffer(({outer}, {each}{window}, {window}), "float32"),
         Y: T.Buffer(({outer}, {places}, {places}), "float32")):
    for f, y, x, {loop}r, q in T.grid({outer}, {places}, {places}, {each}{window}, {window}):
        with T.block("Y"):
            vf, vy, vx, {axis}vr, vq = T.axis.remap("SSS{kind}RR", [f, y, x, {loop}r, q])
            with T.init():
                Y[vf, vy, vx] = T.float32(0)
            Y[vf, vy, vx] = Y[vf, vy, vx] + (
                X[{channel}, vy * {stride} + vr, vx * {stride} + vq] * W[vf, {axis}vr, vq]
            )
""")


def padded_relu(inner, outer, size):
    """A convolution of 3 x 3 with zeros around the image, bias and relu."""
    x, w = (
        te.placeholder((inner, size, size), name="X"),
        te.placeholder((outer, inner, 3, 3), name="W"),
    )
    bias, zero = te.placeholder((outer,), name="B"), tir.const(0, "float32")

    def pad(c, i, j):
        inside = tir.all(i >= 1, i <= size, j >= 1, j <= size)
        return tir.if_then_else(inside, x[c, i - 1, j - 1], zero)

    wide = te.compute((inner, size + 2, size + 2), pad, name="P")
    c, r, q = (te.reduce_axis((0, n), name=k) for n, k in ((inner, "c"), (3, "r"), (3, "q")))
    shape = (outer, size, size)
    y = te.compute(
        shape,
        lambda f, i, j: te.sum(wide[c, i + r, j + q] * w[f, c, r, q], axis=[c, r, q]),
        name="Y",
    )
    z = te.compute(shape, lambda f, i, j: tir.max(y[f, i, j] + bias[f], zero), name="Z")
    return te.create_prim_func([x, w, bias, z])


def product(rows, columns, depth):
    return te.create_prim_func(te_workload.matmul(rows, columns, depth))


def summed(func, name="Y"):
    sch = Schedule(func)
    found = Summed.of(sch.get(sch.get_block(name)))
    assert found is not None
    return found


def spaces(func, target=AVX2, seed=1, postprocs=None):
    space = ms.space_generator.PostOrderApply(
        sch_rules=[RegisterTiling(), ms.schedule_rule.ParallelizeVectorizeUnroll(16, 16)],
        postprocs=postprocs or [postproc.RewriteParallelVectorizeUnroll()], mutator_probs=None,
    )  # fmt: skip
    return ms.TuneContext(func, target=target, space_generator=space, rand_state=seed)


def results(func, args):
    own = [a.copy() for a in args]
    mlc.compile(func, "llvm", schedule=None)(*own)
    return own


def test_a_product_in_registers():
    func = product(6, 32, 24)
    sch = Schedule(func)
    block = sch.get_block("C")
    tiled(sch, block, summed(func, "C"), Tile(1, 8, 2, (6, 1, 1), (1,), False, 0.0))
    has_body(
        sch.mod["main"],
        """
    B_global = T.alloc_buffer((2, 24, 16))
    C_local = T.alloc_buffer((6, 32), scope="local")
    for ax1_0, ax0 in T.grid(4, 24):
        for ax1_1 in T.vectorized(8):
            with T.block("B_global"):
                v0 = T.axis.spatial(24, ax0)
                v1 = T.axis.spatial(32, ax1_0 * 8 + ax1_1)
                B_global[v1 // 16, v0, v1 % 16] = B[v0, v1]
    for i_0_0, j_0_0, j_0_1, i_0_1 in T.grid(1, 2, 1, 1):
        for i_1_init in T.unroll(6):
            for j_1_init in T.unroll(2):
                for j_2_init in T.vectorized(8):
                    with T.block("C_init"):
                        v_i = T.axis.spatial(6, i_0_0 * 6 + i_0_1 * 6 + i_1_init)
                        v_j = T.axis.spatial(32, j_0_0 * 16 + j_0_1 * 16 + j_1_init * 8 + j_2_init)
                        C_local[v_i, v_j] = T.float32(0.0)
        for k in range(24):
            for i_1 in T.unroll(6):
                for j_1 in T.unroll(2):
                    for j_2 in T.vectorized(8):
                        with T.block("C_update"):
                            v_i = T.axis.spatial(6, i_0_0 * 6 + i_0_1 * 6 + i_1)
                            v_j = T.axis.spatial(32, j_0_0 * 16 + j_0_1 * 16 + j_1 * 8 + j_2)
                            v_k = T.axis.reduce(24, k)
                            C_local[v_i, v_j] = C_local[v_i, v_j] + (
                                A[v_i, v_k] * B_global[v_j // 16, v_k, v_j % 16]
                            )
        for ax0 in T.unroll(6):
            for ax1_0 in T.unroll(2):
                for ax1_1 in T.vectorized(8):
                    with T.block("C_local"):
                        v0 = T.axis.spatial(6, ax0)
                        v1 = T.axis.spatial(32, j_0_0 * 16 + j_0_1 * 16 + ax1_0 * 8 + ax1_1)
                        C[v0, v1] = C_local[v0, v1]
""",
    )


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["avx2", "avx512"])
@pytest.mark.parametrize(
    "func",
    [
        product(64, 64, 64),
        product(35, 48, 20),
        convolution(8, 32, 18, 3),
        convolution(8, 32, 17, 3, 2),
    ],
    ids=["product", "odd rows", "convolution", "stride 2"],
)
def test_tiles_fit_in_the_registers(func, target):
    name = "C" if "C" in func.script() else "Y"
    of = summed(func, name)
    tiles = of.tiles(target, target.lanes("float32"))
    assert tiles
    for tile in tiles:
        assert tile.vectors * np.prod(tile.rows) + 2 <= target.vector_registers
        assert of.extents[tile.axis] % tile.width == 0
    assert [t.cost for t in tiles] == sorted(t.cost for t in tiles)


def test_vectors_lie_where_accesses_allow_it():
    lanes = AVX2.lanes("float32")

    def ways(func):
        return {(t.axis, t.packed, t.turned) for t in summed(func).tiles(AVX2, lanes)}

    along_channels, along_rows = (0, (1,), True), (2, (), False)
    assert ways(convolution(8, 32, 18, 3)) == {along_channels, along_rows}
    assert ways(convolution(8, 32, 33, 3, 2)) == {along_channels}  # every second place of a row
    assert ways(convolution(8, 32, 9, 3)) == {along_channels}  # rows of 7
    assert ways(convolution(None, 32, 18, 3)) == {(0, (0, 1), True), along_rows}
    as_it_lies, packed, turned = (1, (), False), (1, (1,), False), (0, (0,), True)
    found = {(t.axis, t.packed, t.turned) for t in summed(product(32, 32, 8), "C").tiles(AVX2, 8)}
    assert found == {as_it_lies, packed, turned}


@pytest.mark.parametrize(
    "func",
    [
        product(24, 32, 40),
        product(13, 17, 19),
        te.create_prim_func(te_workload.matmul_relu(16, 32, 24)),
        te.create_prim_func(te_workload.batch_matmul_nkkm(3, 8, 16, 12)),
        convolution(4, 16, 10, 3),
        convolution(4, 16, 9, 3, 2),
        convolution(3, 16, 13, 7, 2),
        convolution(8, 16, 7, 1),
        convolution(None, 16, 10, 3),
        convolution(None, 16, 9, 3, 2),
        padded_relu(4, 16, 8),
    ],
    ids=["product", "odd product", "relu", "batch", "3x3", "3x3/2", "7x7/2", "1x1", "depthwise",
         "depthwise/2", "padded, relu"],
)  # fmt: skip
def test_every_tile_computes_the_same(func):
    args = arguments(func)
    expected = results(func, args)
    ctx = spaces(func)
    made = ctx.generate_design_space()
    assert len(made) > 1
    for sch in made[:-1]:
        assert 'scope="local"' in sch.mod.script()
        for one in ctx.space_generator.postprocs:
            assert one.apply(sch)
        for got, wanted in zip(results(sch.mod, args), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def innermost(asm):
    """The lines of the loop with the most multiply-adds."""
    found = []
    for head in re.finditer(r"^(\.L\w+):", asm, re.MULTILINE):
        label = re.escape(head.group(1))
        body = re.match(
            rf"((?:(?!^\.L).*\n)*?.*\bj\w+\s+{label}\n)", asm[head.end() + 1 :], re.MULTILINE
        )
        if body:
            found.append(body.group(1))
    return max(found, key=lambda body: body.count("vfmadd"))


@pytest.mark.parametrize(
    ("func", "tile"),
    [
        (product(64, 64, 64), Tile(1, 8, 2, (4, 1, 1), (1,), False, 0.0)),
        (convolution(32, 32, 34, 3), Tile(2, 8, 2, (4, 1, 1, 1, 1, 1), (), False, 0.0)),
        (convolution(32, 32, 33, 3, 2), Tile(0, 8, 2, (1, 1, 4, 1, 1, 1), (1,), True, 0.0)),
    ],
    ids=["product", "along rows", "along channels"],
)
def test_sums_stay_in_registers(func, tile):
    name = "C" if "C" in func.script() else "Y"
    sch = Schedule(func, seed=3)
    tiled(sch, sch.get_block(name), summed(func, name), tile)
    asm = mlc.compile(sch.mod, AVX2, schedule=None, bounds="trust").kernels[0].asm
    body = innermost(asm)
    steps = len(re.findall(r"vfmadd\d+ps", body)) // 8
    assert steps >= 1
    assert len(re.findall(r"vfmadd\d+ps.*%ymm", body)) == 8 * steps
    assert not re.findall(r"\(%[re]sp\)", body)
    assert not re.findall(r"^\s+vmov\w+\s+%ymm\d+, .*\(", body, re.MULTILINE)  # nothing is stored


def test_nothing_is_tiled_without_a_sum_that_reads_again():
    x = te.placeholder((64, 48), name="X")
    func = te.create_prim_func([x, te.compute((64, 48), lambda i, j: x[i, j] + 1.0, name="A")])
    (made,) = spaces(func).generate_design_space()
    assert len(made.get_loops(made.get_block("A"))) == 2


def test_weights_without_a_layout_are_packed_before():
    func = product(32, 32, 16).with_attr("layout_free_buffers", [1])
    sch = Schedule(func)
    tiled(sch, sch.get_block("C"), summed(func, "C"), Tile(1, 8, 2, (4, 1, 1), (1,), False, 0.0))
    assert sch.get(sch.get_block("B_global")).annotations["meta_schedule.layout_rewrite_preproc"]
    before = sch.mod["main"]
    assert postproc.RewriteLayout().apply(sch)
    assert sch.mod["main"] is before  # once is enough
