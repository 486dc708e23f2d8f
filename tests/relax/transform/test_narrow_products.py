"""NarrowProducts: products of half precision, by an instruction or in float32."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.ir.dtype import dtype
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import Var, const, tensor_info
from mlcnb.relax.transform import NarrowProducts, SimplifyOps
from mlcnb.script import relax as R
from mlcnb.target import Target
from tests.relax.harness import as_module, check_pass

HOST = Target("llvm")
ZNVER4, AVX2 = Target("llvm -mcpu=znver4"), Target("llvm -mcpu=x86-64-v3")
NATIVE = [HOST, *([AVX2] if "avx2" in HOST.features else [])]


def program(make, *infos):
    """A module of one function that `make(emit, …)` writes."""
    bb = BlockBuilder()
    params = [Var(f"x{i}", tensor_info(shape, kind)) for i, (shape, kind) in enumerate(infos)]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(make(bb.emit, *params))
        bb.emit_func_output(out)
    return bb.get()


def ops_of(mod) -> list[str]:
    values = [b.value for b in bindings_of(mod["main"])]
    return [getattr(v.op, "name", "?").removeprefix("relax.") for v in values if hasattr(v, "op")]


def values(shape, kind: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype(kind).numpy)


def test_without_the_instruction_it_is_float32() -> None:
    @R.function
    def before(x: R.Tensor((4, 6), "float16"), w: R.Tensor((6, 8), "float16")):
        with R.dataflow():
            gv = R.matmul(x, w)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((4, 6), "float16"), w: R.Tensor((6, 8), "float16")):
        with R.dataflow():
            lv = R.astype(x, dtype="float32")
            lv1 = R.astype(w, dtype="float32")
            lv2 = R.matmul(lv, lv1)
            gv = R.astype(lv2, dtype="float16")
            R.output(gv)
        return gv

    with AVX2:
        check_pass(NarrowProducts(), before, after, tolerance=0)


def test_with_it_the_matrix_is_packed_in_pairs() -> None:
    @R.function
    def before(x: R.Tensor((4, 6), "bfloat16"), w: R.Tensor((6, 40), "bfloat16")):
        with R.dataflow():
            gv = R.matmul(x, w, out_dtype="float32")
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((4, 6), "bfloat16"), w: R.Tensor((6, 40), "bfloat16")):
        with R.dataflow():
            lv = R.layout_transform(w, src="KN", dst="NK32n2k")
            gv = R.nn.matmul_packed(x, lv, columns=40, out_dtype="float32")
            R.output(gv)
        return gv

    with ZNVER4:
        check_pass(NarrowProducts(), before, after)


@pytest.mark.parametrize(
    "make, infos",
    [
        (lambda emit, x, w: op.matmul(x, w), [((4, 7), "bfloat16"), ((7, 8), "bfloat16")]),
        (lambda emit, x, w: op.matmul(x, w), [((2, 4, 6), "bfloat16"), ((2, 6, 8), "bfloat16")]),
        (lambda emit, x, w: op.matmul(x, w), [((6,), "bfloat16"), ((6, 8), "bfloat16")]),
        (lambda emit, x, w: op.matmul(x, w), [((4, 6), "float16"), ((6, 8), "float16")]),
        (
            lambda emit, x, w: op.nn.conv2d(x, w),
            [((1, 4, 5, 5), "bfloat16"), ((8, 4, 3, 3), "bfloat16")],
        ),
        (
            lambda emit, x: op.nn.conv2d(
                x, const(values((8, 1, 3, 3), "bfloat16")), groups=8, padding=(1, 1)
            ),
            [((1, 8, 5, 5), "bfloat16")],
        ),
        (
            lambda emit, x: op.nn.conv2d(x, const(values((8, 3, 3, 3), "bfloat16")), strides=2),
            [((1, 3, 9, 9), "bfloat16")],
        ),
    ],
    ids="odd_depth batch row float16 weights_not_known depthwise image".split(),
)
def test_what_the_instruction_cannot_do_is_float32(make, infos) -> None:
    mod = program(make, *infos)
    with ZNVER4:
        made = ops_of(NarrowProducts()(mod))
    assert made[-1] == "astype"
    assert made[-2].removeprefix("nn.") in ("matmul", "conv2d")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("target", NATIVE, ids=str)
@pytest.mark.parametrize(
    "make, shapes",
    [
        (lambda emit, x, w: op.matmul(x, w), [(33, 30), (30, 70)]),
        (lambda emit, x, w: op.matmul(x, w), [(33, 31), (31, 70)]),
        (lambda emit, x, w: op.matmul(x, w), [(2, 9, 16), (2, 16, 5)]),
        (lambda emit, x, w: op.matmul(x, w), [(1, 64), (64, 100)]),
        (lambda emit, x, w: op.nn.relu(emit(op.matmul(x, w))), [(1, 511), (511, 1000)]),
        (lambda emit, x, w: op.nn.conv2d(x, w, padding=(1, 1)), [(1, 3, 9, 9), (20, 3, 3, 3)]),
        (lambda emit, x, w: op.nn.conv1d(x, w), [(2, 3, 20), (4, 3, 3)]),
        (lambda emit, x, w: op.nn.conv2d_transpose(x, w), [(1, 3, 5, 5), (3, 4, 3, 3)]),
        (
            lambda emit, q, k, v: op.nn.attention(q, k, v),
            [(1, 16, 2, 16), (1, 16, 2, 16), (1, 16, 2, 16)],
        ),
    ],
    ids="matmul odd batch row long_row conv2d conv1d transpose attention".split(),
)
def test_the_error_is_one_rounding_of_the_result(kind, target, make, shapes) -> None:
    """Against the same program in float64 on the same numbers, for every target; and no loop is of
    scalars.
    """
    given = [values(shape, kind, seed) for seed, shape in enumerate(shapes)]
    wide = mlc.compile(program(make, *((s, "float64") for s in shapes)), target="llvm")
    expected = np.asarray(wide(*(x.astype("float64") for x in given)))
    ex = mlc.compile(program(make, *((s, kind) for s in shapes)), target=target)
    found = np.asarray(ex(*given)).astype("float64")
    half_ulp = 2.0 ** (-8 if kind == "bfloat16" else -11)
    bound = (half_ulp * 1.01) * np.abs(expected) + 2e-5 * np.abs(expected).max() + 2.0**-25
    assert (np.abs(found - expected) <= bound).all()
    for name, kernel in ex.kernels.items():
        if "matmul" in name:
            assert re.search(r"vfmadd\w+ps|vdpbf16ps", kernel.asm), name


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("target", NATIVE, ids=str)
def test_a_row_reads_its_matrix_in_half_precision(kind, known, target) -> None:
    """No copy of it in float32, known before or not."""
    x, w = values((1, 256), kind), values((256, 320), kind, 1)
    if known:
        mod = program(lambda emit, a: op.matmul(a, const(w)), ((1, 256), kind))
    else:
        mod = program(lambda emit, a, b: op.matmul(a, b), ((1, 256), kind), ((256, 320), kind))
    ex = mlc.compile(mod, target=target)
    assert len(ex.kernels) == 1
    found = np.asarray(ex(x) if known else ex(x, w)).astype(float)
    expected = x.astype(float) @ w.astype(float)
    np.testing.assert_allclose(found, expected, rtol=2.0**-8, atol=1e-4)
    (kernel,) = ex.kernels.values()
    assert re.search(r"vfmadd\w+ps|vdpbf16ps", kernel.asm)


@pytest.mark.skipif(not HOST.sums_pairs("bfloat16"), reason="the CPU has no AVX-512 BF16")
def test_a_convolution_of_known_weights_flows_in_pairs() -> None:
    w = const(values((32, 16, 1, 1), "bfloat16"))

    def make(emit, x):
        return op.nn.relu(emit(op.nn.conv2d(x, w, out_dtype="float32")))

    mod = program(make, ((1, 16, 7, 7), "bfloat16"))
    ex = mlc.compile(mod, target="llvm")
    x = values((1, 16, 7, 7), "bfloat16", 1)
    (kernel,) = (k for name, k in ex.kernels.items() if "conv2d_packed" in name)
    assert "vdpbf16ps" in kernel.asm
    kernels = w.data.astype(float)[:, :, 0, 0]
    expected = np.maximum(np.einsum("oi,nihw->nohw", kernels, x.astype(float)), 0)
    np.testing.assert_allclose(ex(x), expected, rtol=1e-5, atol=1e-5)


def test_winograd_stays_where_it_is_faster() -> None:
    """3 x 3 over many channels: a quarter of the products in float32 beats twice the speed."""
    w = const(values((64, 64, 3, 3), "bfloat16"))
    mod = program(lambda emit, x: op.nn.conv2d(x, w, padding=(1, 1)), ((1, 64, 56, 56), "bfloat16"))
    with ZNVER4:
        assert ops_of(NarrowProducts()(mod)) == ["astype", "nn.conv2d", "astype"]


def test_conversions_there_and_back_are_nothing() -> None:
    @R.function
    def before(x: R.Tensor((4,), "bfloat16"), y: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.astype(R.astype(x, dtype="float32"), dtype="bfloat16")
            b = R.astype(R.astype(x, dtype="float32"), dtype="float64")
            c = R.astype(R.astype(y, dtype="bfloat16"), dtype="float32")
            R.output(a, b, c)
        return (a, b, c)

    @R.function
    def after(x: R.Tensor((4,), "bfloat16"), y: R.Tensor((4,), "float32")):
        with R.dataflow():
            b = R.astype(x, dtype="float64")
            lv = R.astype(y, dtype="bfloat16")
            c = R.astype(lv, dtype="float32")
            R.output(b, c)
        return (x, b, c)

    made = SimplifyOps()(as_module(before))
    names = [str(b.value.attrs.dtype) for b in bindings_of(made["main"]) if hasattr(b.value, "op")]
    assert names.count("bfloat16") == 1
    from mlcnb.ir.transform import Sequential
    from mlcnb.relax.transform import DeadCodeElimination

    check_pass(Sequential([SimplifyOps(), DeadCodeElimination()]), before, after)
