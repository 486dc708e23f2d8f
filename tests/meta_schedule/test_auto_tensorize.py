"""Computations matched to intrinsics by what their axes index, tiled and padded around them."""

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import meta_schedule as ms
from mlcnb import te
from mlcnb.meta_schedule import schedule_rule as rules
from mlcnb.meta_schedule.auto_tensorize import TENSORIZE, candidates, match, tile_with_intrin
from mlcnb.meta_schedule.contest import arguments
from mlcnb.meta_schedule.testing import te_workload
from mlcnb.script import tir as T
from mlcnb.tir import TensorIntrin
from mlcnb.tir.schedule import Schedule

DOT = "dot_16x4_vnni" if "avx512vnni" in mlc.target.Target("llvm").features else "dot_8x4_avx2"


@T.prim_func
def tile_desc(
    X: T.Buffer((4, 2), "float32"), W: T.Buffer((2, 8), "float32"), Y: T.Buffer((4, 8), "float32")
):
    """A tile of one's own: 4 x 8 += 4 x 2 @ 2 x 8."""
    with T.block("root"):
        T.reads(Y[0:4, 0:8], X[0:4, 0:2], W[0:2, 0:8])
        T.writes(Y[0:4, 0:8])
        for i, j, k in T.grid(4, 8, 2):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vk, vj]


@T.prim_func
def tile_impl(
    X: T.Buffer((4, 2), "float32"), W: T.Buffer((2, 8), "float32"), Y: T.Buffer((4, 8), "float32")
):
    """By vectors of eight."""
    with T.block("root"):
        T.reads(Y[0:4, 0:8], X[0:4, 0:2], W[0:2, 0:8])
        T.writes(Y[0:4, 0:8])
        for k, i in T.grid(2, 4):
            Y[i, 0:8] = Y[i, 0:8] + T.Broadcast(X[i, k], 8) * W[k, 0:8]


TensorIntrin.register("test_tile_4x8x2", tile_desc, tile_impl, override=True)


def product(n, m, depth, swapped=False, turned=False):
    """C = A @ B; the factors, or the axes, in another order than the description has them."""
    a, b = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")

    def element(i, j):
        return te.sum(b[k, j] * a[i, k] if swapped else a[i, k] * b[k, j], axis=k)

    if turned:
        c = te.compute((m, n), lambda j, i: element(i, j), name="C")
    else:
        c = te.compute((n, m), element, name="C")
    return te.create_prim_func([a, b, c])


def bytes_product(n, m, depth, right_rows=True):
    """int32 sums of uint8 and int8, B by rows of its result or of k."""
    a = te.placeholder((n, depth), "uint8", name="A")
    b = te.placeholder((m, depth) if right_rows else (depth, m), "int8", name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute(
        (n, m),
        lambda i, j: te.sum(
            a[i, k].astype("int32") * (b[j, k] if right_rows else b[k, j]).astype("int32"), axis=k
        ),
        name="C",
    )
    return te.create_prim_func([a, b, c])


def bytes_convolution():
    """3x3 over an image of 10x10 with 8 channels, to 20 channels."""
    x = te.placeholder((1, 10, 10, 8), "uint8", name="X")
    w = te.placeholder((3, 3, 8, 20), "int8", name="W")
    p, q, c = (te.reduce_axis((0, n), name=name) for n, name in ((3, "p"), (3, "q"), (8, "c")))
    y = te.compute(
        (1, 8, 8, 20),
        lambda n, h, v, o: te.sum(
            x[n, h + p, v + q, c].astype("int32") * w[p, q, c, o].astype("int32"), axis=[p, q, c]
        ),
        name="C",
    )
    return te.create_prim_func([x, w, y])


PRODUCTS = {
    "as described": product(8, 16, 6),
    "factors swapped": product(8, 16, 6, swapped=True),
    "axes turned": product(8, 16, 6, turned=True),
    "padded": product(7, 13, 5),
}
BYTES = {
    "dense": bytes_product(5, 32, 16),
    "by rows of k": bytes_product(5, 32, 16, right_rows=False),
    "padded": bytes_product(3, 21, 10),
    "convolution": bytes_convolution(),
}


def finished(sch):
    assert ms.postproc.RewriteReductionBlock().apply(sch)
    assert ms.postproc.RewriteTensorize(vectorize_init_loop=True).apply(sch)
    return sch


def results(program):
    args = arguments(program if not hasattr(program, "mod") else program.mod["main"])
    mlc.compile(getattr(program, "mod", program), "llvm", schedule=None)(*args)
    return args[-1]


@pytest.mark.parametrize("name", PRODUCTS)
def test_an_intrinsic_of_ones_own_takes_products_in_any_order(name):
    func = PRODUCTS[name]
    sch = Schedule(func)
    outer = tile_with_intrin(sch, sch.get_block("C"), "test_tile_4x8x2", allow_padding=True)
    assert sch.get(outer).annotations[TENSORIZE] == "test_tile_4x8x2"
    np.testing.assert_allclose(results(sch), results(func), rtol=1e-4, atol=1e-5)
    finished(sch)
    assert "T.Broadcast(X" in sch.mod.script().replace("X_1", "X")
    np.testing.assert_allclose(results(sch), results(func), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BYTES)
def test_dot_products_of_bytes(name):
    func = BYTES[name]
    sch = Schedule(func)
    assert tile_with_intrin(sch, sch.get_block("C"), DOT, allow_padding=True) is not None
    finished(sch)
    assert "call_llvm_pure_intrin" in sch.mod.script()
    np.testing.assert_array_equal(results(sch), results(func))


def test_what_is_something_else_is_left():
    softer = te.create_prim_func(te_workload.matmul(8, 8, 8, out_dtype="float64"))
    sch = Schedule(softer)
    assert tile_with_intrin(sch, sch.get_block("C"), "test_tile_4x8x2") is None
    ragged = Schedule(product(7, 13, 5))
    assert tile_with_intrin(ragged, ragged.get_block("C"), "test_tile_4x8x2") is None
    assert len(sch.steps) == len(ragged.steps) == 1
    x = te.placeholder((8, 8), name="X")
    k = te.reduce_axis((0, 8), name="k")
    high = te.create_prim_func([x, te.compute((8,), lambda i: te.max(x[i, k], axis=k), name="M")])
    own = Schedule(high)
    assert match(own.get(own.get_block("M")), tile_desc) is None
    dense = Schedule(BYTES["dense"])
    names = ["test_tile_4x8x2", DOT, "no_such_intrinsic"]
    assert [*candidates(dense.get(dense.get_block("C")), names)] == [DOT]


def test_the_rule_tiles_around_it_and_the_search_finds_it():
    func = BYTES["dense"]
    space = ms.space_generator.PostOrderApply(
        sch_rules=[
            rules.MultiLevelTilingWithIntrin("SSRSRS", None, 64, intrin_name=DOT),
            rules.ParallelizeVectorizeUnroll(16, 16),
        ],
        postprocs=[
            ms.postproc.RewriteParallelVectorizeUnroll(),
            ms.postproc.RewriteReductionBlock(),
            ms.postproc.RewriteTensorize(True),
        ],
    )
    ctx = ms.TuneContext(
        func, target="llvm", space_generator=space, search_strategy="replay-trace", rand_state=1
    )
    ctx.pre_tuning(4, 4)
    found = ctx.generate_measure_candidates()
    assert len(found) >= 2
    for one in found:
        assert "call_llvm_pure_intrin" in one.sch.mod.script()
        np.testing.assert_array_equal(results(one.sch), results(func))


@pytest.mark.parametrize("n", [64, 40])
def test_tensor_cores_take_products_of_halves(n):
    func = te.create_prim_func(te_workload.matmul(n, n, n, "float16", "float32"))
    ctx = ms.TuneContext(
        func,
        target="cuda -arch=sm_80",
        space_generator=ms.space_generator.PostOrderApply(
            sch_rules=[rules.MultiLevelTilingTensorCore()], postprocs=[], mutator_probs=None
        ),
    )
    found = ctx.generate_design_space()
    assert len(found) == 4
    a, b = np.random.default_rng(0).standard_normal((2, n, n)).astype("float16")
    for sch in (found[0], found[2]):
        assert "mma" in sch.mod.script()
        c = np.zeros((n, n), "float32")
        mlc.compile(sch.mod, "cuda-sim", schedule=None)(a, b, c)
        np.testing.assert_allclose(c, a.astype("float32") @ b.astype("float32"), atol=1e-2)
