"""Kernels on a GPU: every program, course and rule computes what NumPy does."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import dlight as dl
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import RuntimeInputError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.script import tir as T
from mlcnb.target import Target
from tests.codegen.gpu_courses import COURSES, blocking
from tests.codegen.gpu_programs import PROGRAMS, Program
from tests.codegen.test_bulk import CASES as BOXES
from tests.codegen.test_bulk import boxes as of_boxes
from tests.codegen.test_bulk import ring
from tests.codegen.test_cuda import KINDS, elementwise
from tests.codegen.test_wgmma import CASES as DESCRIPTORS
from tests.codegen.test_wgmma import program as of_descriptors
from tests.dlight.test_gpu_rules import SHIPPED, byte_product, copied, halves, product
from tests.dlight.test_tf32 import product as of_tf32
from tests.dlight.test_wgmma import product as by_warpgroups

pytestmark = pytest.mark.gpu
CUDA = Target("cuda")
RNG = np.random.default_rng(0)


def capability() -> int:
    """What the GPU can do, as a number: 90, 120 (as text the second would come first)."""
    import cupy

    return int(cupy.cuda.Device().compute_capability)


def agrees(made: Program, rtol: float = 1e-4) -> None:
    args = made.arguments()
    mlc.compile(made.schedule, target=CUDA)(*args)
    np.testing.assert_allclose(args[-1], made.expected, rtol=rtol, atol=rtol / 10)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    agrees(PROGRAMS[name]())


@pytest.mark.parametrize("name", COURSES)
def test_courses(name):
    agrees(COURSES[name]())


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("size", [1024, 1000])
def test_tiles_of_64_by_8_by_8_threads(size, fused):
    agrees(blocking((size, size, size), (8, 8), (8, 8), 8, fused), 2e-3)


@pytest.mark.parametrize("kind", [*KINDS, "bool"])
def test_every_dtype(kind):
    numpy = dtype(kind).numpy
    x, y = ((RNG.standard_normal(64) * 3).astype(numpy) for _ in range(2))
    out, expected = np.zeros(64, numpy), np.zeros(64, numpy)
    sch = elementwise(lambda x, y: p.select(x < y, x, y), kind, kind)
    mlc.compile(sch, target=CUDA)(x, y, out)
    run_prim_func(sch.mod["main"], [x, y, expected])
    np.testing.assert_array_equal(out.astype("float64"), expected.astype("float64"))


def by_rule(rule, made, tolerance: float = 2e-4) -> None:
    """A rule's kernel on the GPU against NumPy."""
    func, args, expected = made
    sch = rule().apply(func, CUDA)
    assert sch is not None
    out = np.full(expected.shape, np.nan, "float32")
    mlc.compile(sch, target=CUDA)(*args, out)
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(out / scale, expected / scale, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", SHIPPED)
def test_rules(name):
    rule, make = SHIPPED[name]
    by_rule(rule, make())


@pytest.mark.parametrize(
    "sizes",
    [
        (1, 512, 512, 512),
        (2, 1000, 777, 333),
        (1, 17, 4096, 64),
        (2, 257, 96, 1000),
        (3, 40, 70, 2000),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_large_products(sizes, turned):
    by_rule(dl.gpu.Matmul, product(*sizes, turned, True))


@pytest.mark.parametrize("turned", [False, True])
def test_large_products_in_wide_tiles(turned):
    by_rule(dl.gpu.Matmul(wide=True), product(1, 1300, 700, 500, turned, True))


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "sizes", [(0, 512, 512, 512), (3, 300, 200, 500), (0, 1024, 256, 136), (0, 130, 200, 72)]
)
def test_large_products_on_tensor_cores(kind, sizes):
    by_rule(dl.gpu.Matmul, halves(kind, *sizes))


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("sizes", [(0, 512, 512, 512), (3, 300, 200, 500), (0, 16, 256, 72)])
def test_products_of_float32_on_tensor_cores(sizes, turned):
    """m16n8k8 of tf32: numbers that it rounds to whole ones, so to the last bit."""
    by_rule(dl.gpu.Matmul(tf32=True), of_tf32(*sizes, *turned), 0.0)


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("sizes", [(0, 512, 512, 512), (3, 300, 200, 500), (0, 16, 256, 96)])
def test_products_of_bytes_on_tensor_cores(sizes, turned):
    """m16n8k32 of int8, in int32: to the last bit."""
    func, args, expected = byte_product(*sizes, *turned)
    sch = dl.gpu.Matmul.apply(func, CUDA)
    assert sch is not None and "mma_i8i8i32" in str(sch.trace)
    out = np.full(expected.shape, -7, "int32")
    mlc.compile(sch, target=CUDA)(*args, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("b_along_k", [False, True])
@pytest.mark.parametrize("a_along_k", [False, True])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("sizes", [(2048, 2048, 512), (304, 200, 264), (16, 4096, 72)])
@pytest.mark.parametrize("loads", ["cp.async", "tma"])
def test_products_by_warpgroups(loads, kind, sizes, a_along_k, b_along_k):
    """The instruction itself, and descriptors of tiles along k and along the side."""
    if capability() != 90:
        pytest.skip("wgmma is an instruction of sm_90a alone")
    func, args, expected = by_warpgroups(kind, *sizes, a_along_k, b_along_k)
    target = Target("cuda -arch=sm_90a")
    sch = dl.gpu.WarpgroupMatmul(loads=loads).apply(func, target)
    assert sch is not None
    out = np.full(expected.shape, np.nan, "float32")
    mlc.compile(sch, target=target)(*args, out)
    scale = float(np.abs(expected).max())
    np.testing.assert_allclose(out / scale, expected / scale, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("case", DESCRIPTORS)
def test_descriptors_of_every_shuffle(case):
    if capability() != 90:
        pytest.skip("wgmma is an instruction of sm_90a alone")
    func, given, expected = of_descriptors(*case)
    out = np.full(expected.shape, np.nan, "float32")
    mlc.compile(func, target="cuda -arch=sm_90a")(*given, out)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("case", BOXES)
def test_boxes_of_every_shuffle(case):
    if capability() < 90:
        pytest.skip("cp.async.bulk is an instruction since sm_90")
    func, given, expected = of_boxes(*case)
    out = np.full_like(expected, 1)
    mlc.compile(func, target="cuda")(given, out)
    np.testing.assert_array_equal(out, expected)


def test_places_that_barriers_give_back():
    if capability() < 90:
        pytest.skip("mbarriers of bytes are there since sm_90")
    given, out = np.arange(128, dtype="float32"), np.zeros((8, 64), "float32")
    mlc.compile(ring(), target="cuda")(given, out)
    np.testing.assert_array_equal(out, np.tile(given.reshape(8, 16), (1, 4)))


def test_a_large_transpose():
    by_rule(dl.gpu.Transpose, copied((4, 1000, 3000), (0, 2, 1)))


def test_arrays_of_cupy_and_torch_stay_on_the_gpu():
    import cupy

    made = PROGRAMS["matmul_tiled"]()
    ex = mlc.compile(made.schedule, target=CUDA)
    args = [cupy.asarray(x) for x in made.arguments()]
    ex(*args)
    np.testing.assert_allclose(args[-1].get(), made.expected, rtol=1e-5, atol=1e-6)
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(x).cuda() for x in made.arguments()]
    ex(*tensors)
    torch.cuda.synchronize()
    np.testing.assert_allclose(tensors[-1].cpu(), made.expected, rtol=1e-5, atol=1e-6)


def test_an_address_that_vectors_cannot_be_loaded_from_is_refused():
    import cupy

    made = PROGRAMS["matmul_tiled"]()
    whole = cupy.zeros(made.inputs[0].size + 1, "float32")
    args = [cupy.asarray(x) for x in made.arguments()]
    args[0] = whole[1:].reshape(args[0].shape)
    with pytest.raises(RuntimeInputError, match="multiple of 16"):
        mlc.compile(made.schedule, target=CUDA)(*args)


def test_an_assertion_that_fails_is_an_error():
    @T.prim_func
    def func(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            assert A[tx] > 0, "a value is not positive"
            B[tx] = A[tx]

    ex = mlc.compile(func, target=CUDA)
    good, out = np.arange(1, 33, dtype="int32"), np.zeros(32, "int32")
    ex(good, out)
    np.testing.assert_array_equal(out, good)
    with pytest.raises(mlc.MLCError, match="a value is not positive"):
        ex(good - 5, out)
