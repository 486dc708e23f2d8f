"""Each rule for GPUs: taken where it should be, right on random shapes, without spills."""

from __future__ import annotations

import re
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import dlight as dl
from mlcnb import relax, te, tir
from mlcnb.codegen.cuda import nvrtc
from mlcnb.codegen.races import races
from mlcnb.core.errors import CodegenError
from mlcnb.dlight.survey import Survey
from mlcnb.ir import dtype as dtypes
from mlcnb.ir.module import IRModule
from mlcnb.script import tir as T
from mlcnb.target import Target
from tests.dlight.test_cpu import loops_of

SIM = Target("cuda-sim")
ARCHITECTURES = ("sm_80", "sm_90a", "sm_120")
tensor_cores = import_module("mlcnb.dlight.gpu.tensor_cores")
few = settings(max_examples=6, deadline=None, derandomize=True)


def product(
    batch: int, rows: int, columns: int, length: int, turned: bool, after: bool, kind="float32"
):
    """y[b, m, n] = sum of x[b, m, k] * W[b, k, n] (W[b, n, k] if turned), and 2 y + 1 after it."""
    X = te.placeholder((batch, rows, length), kind, "X")
    shape = (columns, length) if turned else (length, columns)
    W = te.placeholder((batch, *shape), kind, "W")
    k = te.reduce_axis((0, length), name="k")
    Y = te.compute(
        (batch, rows, columns),
        lambda b, m, n: te.sum(X[b, m, k] * (W[b, n, k] if turned else W[b, k, n]), axis=k),
        name="Y",
    )
    Z = te.compute(Y.shape, lambda b, m, n: Y[b, m, n] * 2.0 + 1.0, name="Z") if after else Y
    x, w = random(batch, rows, length), random(batch, *shape)
    if kind != "float32":
        x, w = (np.trunc(v * 9).astype(kind) for v in (x, w))
    expected = np.matmul(x, w.swapaxes(1, 2) if turned else w, dtype="float64")
    return te.create_prim_func([X, W, Z]), [x, w], expected * 2 + 1 if after else expected


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def copied(shape: tuple[int, ...], order: tuple[int, ...]):
    """The axes of an array in another order."""
    A = te.placeholder(shape, name="A")
    turned = [shape[n] for n in order]
    back = [order.index(n) for n in range(len(order))]
    B = te.compute(turned, lambda *at: A[tuple(at[n] for n in back)], name="B")
    a = random(*shape)
    return te.create_prim_func([A, B]), [a], a.transpose(order)


def scheduled(rule, func):
    """A function as a rule makes it; None where the rule does not take it."""
    return rule().apply(func, SIM)


def check(rule, made) -> str:
    """The rule takes a function, and a simulated GPU computes what NumPy does; its CUDA C++."""
    func, args, expected = made
    sch = scheduled(rule, func)
    assert sch is not None
    ex = mlc.compile(sch, target=SIM)
    out = np.full(expected.shape, np.nan, "float32")
    ex(*args, out)
    np.testing.assert_allclose(out, expected, rtol=2e-4, atol=2e-4)
    return ex.kernels[0].source


SIZES = st.integers(64, 300)


@few
@given(st.integers(1, 3), st.integers(32, 200), SIZES, st.booleans(), st.booleans())
def test_gemv(batch, columns, length, turned, after):
    func, args, expected = made = product(batch, 1, columns, length, turned, after)
    if scheduled(dl.gpu.GEMV, func) is None:  # sizes that share no factor with a warp
        expected_by_default(func, args, expected)
    else:
        check(dl.gpu.GEMV, made)


@few
@given(st.integers(2, 15), st.integers(32, 200), SIZES, st.booleans(), st.booleans())
def test_low_batch_gemv(rows, columns, length, turned, after):
    func, args, expected = made = product(1, rows, columns, length, turned, after)
    if scheduled(dl.gpu.LowBatchGEMV, func) is None:
        expected_by_default(func, args, expected)
    else:
        check(dl.gpu.LowBatchGEMV, made)


def expected_by_default(func, args, expected):
    """Whichever rule takes it computes the same."""
    out = np.full(expected.shape, np.nan, "float32")
    mlc.compile(func, target=SIM, schedule="default")(*args, out)
    np.testing.assert_allclose(out, expected, rtol=2e-4, atol=2e-4)


@few
@given(st.integers(16, 150), st.integers(16, 150), st.integers(16, 100), st.booleans())
def test_matmul(rows, columns, length, turned):
    check(dl.gpu.Matmul, product(1, rows, columns, length, turned, True))


@pytest.mark.parametrize("kind", ["float64", "int64"])
@pytest.mark.parametrize("sizes", [(1, 128, 128, 128), (2, 50, 70, 100), (1, 300, 257, 33)])
@pytest.mark.parametrize("turned", [False, True])
def test_matmul_of_eight_bytes(kind, sizes, turned):
    """As many tiles are fetched ahead as there is room for."""
    func, args, expected = product(*sizes, turned, False, kind)
    sch = scheduled(dl.gpu.Matmul, func)
    assert sch is not None
    out = np.zeros(expected.shape, kind)
    mlc.compile(sch, target=SIM)(*args, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("sizes", "is_wide"), [((1, 300, 150, 40), True), ((2, 257, 300, 24), True),
                           ((1, 256, 300, 40), False), ((1, 300, 128, 40), False)],
)  # fmt: skip
@pytest.mark.parametrize("turned", [False, True])
def test_matmul_in_wide_tiles(sizes, is_wide, turned):
    """128 sums of a thread, where there is more than one tile in both directions."""
    source = check(lambda: dl.gpu.Matmul(wide=True), product(*sizes, turned, True))
    assert ("[128];" in source) is is_wide


@pytest.mark.parametrize("batch", [1, 3])
def test_long_sums_are_cut_into_parts(batch):
    """Few blocks of a long sum would leave multiprocessors idle: a second kernel adds the parts."""
    source = check(dl.gpu.Matmul, product(batch, 40, 70, 2000, False, True))
    assert source.count("__global__") == 2
    short = check(dl.gpu.Matmul, product(batch, 40, 70, 64, False, True))
    assert short.count("__global__") == 1


def test_registers_are_those_of_one_thread():
    """A side of one block, of which one access names the block and another does not."""
    source = check(dl.gpu.Matmul, product(1, 64, 1000, 64, False, False))
    sizes = re.findall(r"float \w+_local\[(\d+)\]", source)
    assert sizes and all(n in ("4", "8") for n in sizes)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_instructions_that_a_gpu_lacks_are_not_used(arch):
    for func, *_ in (product(1, 128, 128, 64, False, True), halves("float16", 0, 128, 128, 64)):
        ex = mlc.compile(func, target=f"cuda -arch={arch}", schedule="default")
        source = ex.kernels[0].source
        assert ("cp_async" in source) == (arch == "sm_80") and "__shared__" in source


@pytest.mark.parametrize("turned", [False, True])
def test_a_matrix_is_read_once_and_side_by_side(turned):
    source = check(dl.gpu.GEMV, product(1, 1, 256, 512, turned, True))
    along = "ax3_1" if turned else "ax1_1"
    assert f"const int {along} = threadIdx.x;" in source
    assert source.count("W[") == 1
    assert ("__shfl_down_sync" in source) == turned


@few
@given(st.integers(1, 3), st.integers(30, 100), st.integers(30, 100))
def test_transpose(outer, rows, columns):
    func, args, expected = made = copied((outer, rows, columns), (0, 2, 1))
    if scheduled(dl.gpu.Transpose, func) is None:  # most of its tiles would be empty
        expected_by_default(func, args, expected)
    else:
        source = check(dl.gpu.Transpose, made)
        assert "* 33 +" in source and source.count("A[") == 1


def test_transposes_of_more_axes():
    check(dl.gpu.Transpose, copied((2, 64, 8, 12), (0, 2, 3, 1)))
    check(dl.gpu.Transpose, copied((2, 8, 12, 64), (0, 3, 1, 2)))
    func, *_ = copied((64, 32, 5), (1, 0, 2))  # rows stay rows: a copy that needs no tile
    assert scheduled(dl.gpu.Transpose, func) is None


@few
@given(st.integers(1, 9), st.integers(60, 400))
def test_elementwise(rows, quarter):
    A, B = te.placeholder((rows, 4 * quarter), name="A"), te.placeholder((4 * quarter,), name="B")
    C = te.compute(A.shape, lambda i, j: (A[i, j] + B[j]) * A[i, j], name="C")
    a, b = random(rows, 4 * quarter), random(4 * quarter)
    source = check(dl.gpu.Fallback, (te.create_prim_func([A, B, C]), [a, b], (a + b) * a))
    assert ("vec<float, 4>" in source) == (rows * quarter >= 256)


def halves(dtype: str, batch: int, rows: int, columns: int, length: int):
    """A product of halves, summed in float32, with what follows it in the same kernel."""
    lead = (batch,) if batch else ()
    X = te.placeholder((*lead, rows, length), dtype, name="X")
    W = te.placeholder((*lead, length, columns), dtype, name="W")
    k = te.reduce_axis((0, length), name="k")
    Y = te.compute(
        (*lead, rows, columns),
        lambda *at: te.sum(
            X[(*at[:-1], k)].astype("float32") * W[(*at[:-2], k, at[-1])].astype("float32"), axis=k
        ),
        name="Y",
    )
    Z = te.compute(Y.shape, lambda *at: Y[at] * 2.0 + 1.0, name="Z")
    kind = dtypes.dtype(dtype).numpy
    x, w = (random(*lead, *shape).astype(kind) for shape in ((rows, length), (length, columns)))
    expected = np.matmul(x.astype("float64"), w.astype("float64")) * 2 + 1
    return te.create_prim_func([X, W, Z]), [x, w], expected


@pytest.mark.parametrize(
    ("dtype", "batch", "rows", "columns", "length"),
    [
        ("float16", 0, 70, 90, 50),
        pytest.param("bfloat16", 3, 33, 16, 40, marks=pytest.mark.slow),
        pytest.param("float16", 1, 64, 64, 32, marks=pytest.mark.slow),
        ("float16", 0, 16, 40, 32),  # one row of tiles
    ],
)
def test_tensor_cores(dtype, batch, rows, columns, length):
    source = check(dl.gpu.Matmul, halves(dtype, batch, rows, columns, length))
    assert "mma.sync.aligned.m16n8k16" in source


def byte_product(batch: int, rows: int, columns: int, length: int, turned: bool, b_turned: bool):
    """A product of int8 in int32, with what follows it; X may lie as (k, m), W as (n, k)."""
    lead = (batch,) if batch else ()
    shapes = [(length, rows) if turned else (rows, length),
              (columns, length) if b_turned else (length, columns)]  # fmt: skip
    X, W = (te.placeholder((*lead, *s), "int8", name=n) for s, n in zip(shapes, "XW", strict=True))
    k = te.reduce_axis((0, length), name="k")

    def term(*at):
        *b, i, j = at
        x, w = ((k, i) if turned else (i, k)), ((j, k) if b_turned else (k, j))
        return te.sum(X[(*b, *x)].astype("int32") * W[(*b, *w)].astype("int32"), axis=k)

    Y = te.compute((*lead, rows, columns), term, name="Y")
    Z = te.compute(Y.shape, lambda *at: Y[at] * 3 - 1, name="Z")
    numbers = np.random.default_rng(rows + columns + length)
    x, w = (numbers.integers(-128, 128, (*lead, *s)).astype("int8") for s in shapes)
    x[..., 0], w[..., -1] = -128, -128
    a, b = (v.swapaxes(-1, -2) if t else v for v, t in ((x, turned), (w, b_turned)))
    expected = np.matmul(a.astype("int32"), b.astype("int32")) * 3 - 1
    return te.create_prim_func([X, W, Z]), [x, w], expected


def check_bytes(made, by=None) -> str:
    """Tensor cores take a product of int8, and each number is NumPy's; its CUDA C++."""
    func, args, expected = made
    sch = tir.Schedule(func)
    assert tensor_cores.tensor_cores(sch, Survey.of(sch), SIM, by)
    ex = mlc.compile(sch, target=SIM)
    out = np.full(expected.shape, -7, "int32")
    ex(*args, out)
    np.testing.assert_array_equal(out, expected)
    source = ex.kernels[0].source
    assert "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32" in source
    assert "ldmatrix_x4(" in source and "ldmatrix_x4_trans" not in source
    return source


@pytest.mark.slow
@few
@given(
    st.integers(0, 2), st.integers(17, 90), st.integers(17, 90), st.integers(16, 90),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_bytes_on_tensor_cores(batch, rows, columns, length, turned, b_turned):
    """Ragged sizes, operands however they lie: to the last bit."""
    check_bytes(byte_product(batch, rows, columns, length, turned, b_turned))


def test_bytes_are_fetched_ahead_where_k_lies_side_by_side():
    made = byte_product(0, 33, 40, 96, False, True)
    source = check_bytes(made)
    assert "cp_async_or_zeros<16>" in source or "cp_async<16>" in source
    sch = scheduled(dl.gpu.Matmul, made[0])
    assert sch is not None and races(sch.mod["main"]) == ()
    assert "mma_i8i8i32" in str(sch.trace)


@pytest.mark.slow
@pytest.mark.parametrize("tile", ["TILE", "PARTLY", "SMALL"])
@pytest.mark.parametrize("turned", [(False, True), (True, False)])
def test_large_tiles_on_small_products_of_bytes(tile, turned):
    made = byte_product(2, 136, 250, 208, *turned)
    check_bytes(made, getattr(tensor_cores, tile))


@pytest.mark.slow
@pytest.mark.skipif(not nvrtc.is_available(), reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("turned", [(False, True), (True, False)])
def test_products_of_bytes_compile_without_spills(arch, turned):
    func, *_ = byte_product(0, 1024, 1024, 1024, *turned)
    sch = dl.gpu.Matmul().apply(func, Target(f"cuda -arch={arch}"))
    made = nvrtc.compile_text(mlc.compile(sch, target=f"cuda -arch={arch}").kernels[0].source, arch)
    (facts,) = made.resources.values()
    assert (facts.spill_stores, facts.spill_loads, facts.stack) == (0, 0, 0)
    count = made.ptx.count("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
    assert count and count % 16 == 0  # two steps of 2 x 2 fragments; unrolled, and ahead, or not


def test_other_integers_go_elsewhere():
    """No product of uint8, and none of int8 into another dtype than int32."""
    for given_dtype, sums in (("uint8", "int32"), ("int8", "int16"), ("int8", "float32")):
        A, B = (te.placeholder((32, 32), given_dtype, name=n) for n in "AB")
        k = te.reduce_axis((0, 32), name="k")
        C = te.compute(
            (32, 32),
            lambda i, j, A=A, B=B, k=k, sums=sums: te.sum(
                A[i, k].astype(sums) * B[k, j].astype(sums), axis=k
            ),
            name="C",
        )
        sch = tir.Schedule(te.create_prim_func([A, B, C]))
        assert not tensor_cores.tensor_cores(sch, Survey.of(sch), SIM)


def test_a_convolution_on_tensor_cores():
    """Implicit GEMM: rows are channels of the result, columns its places, k a window."""
    X = te.placeholder((1, 8, 11, 9), "float16", name="X")
    W = te.placeholder((20, 8, 3, 3), "float16", name="W")
    c, p, q = (te.reduce_axis((0, n), name=s) for n, s in ((8, "c"), (3, "p"), (3, "q")))
    Y = te.compute(
        (1, 20, 9, 7),
        lambda n, o, i, j: te.sum(
            X[n, c, i + p, j + q].astype("float32") * W[o, c, p, q].astype("float32"),
            axis=[c, p, q],
        ),
        name="Y",
    )
    x, w = random(1, 8, 11, 9).astype("float16"), random(20, 8, 3, 3).astype("float16")
    windows = np.lib.stride_tricks.sliding_window_view(x.astype("float64"), (3, 3), (2, 3))
    expected = np.einsum("ncijpq,ocpq->noij", windows, w.astype("float64"))
    source = check(dl.gpu.Matmul, (te.create_prim_func([X, W, Y]), [x, w], expected))
    assert "mma.sync.aligned.m16n8k16" in source


def test_what_tensor_cores_do_not_multiply_goes_elsewhere():
    assert "mma" not in check(dl.gpu.Matmul, product(1, 32, 32, 32, False, False))
    func, *_ = halves("float16", 0, 8, 40, 40)  # too few rows
    assert scheduled(dl.gpu.Matmul, func) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "made"),
    [
        ("tensor_cores", "float16"), ("tensor_cores", "bfloat16"), ("matmul", False),
        ("matmul", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("sizes", [(2, 136, 250, 104), (1, 130, 128, 64)])
def test_large_tiles_on_small_products(rule, made, sizes):
    """Each tile of a rule, whole ones and those in part, asynchronous copies and others."""
    module = import_module(f"mlcnb.dlight.gpu.{rule}")
    is_half = isinstance(made, str)
    tiles = (module.TILE, module.PARTLY, module.SMALL) if is_half else module.TILES
    func, args, expected = halves(made, *sizes) if is_half else product(*sizes, made, True)
    for tile in tiles:
        sch = tir.Schedule(func)
        assert getattr(module, rule)(sch, Survey.of(sch), SIM, tile)
        ex = mlc.compile(sch, target=SIM)
        out = np.full(expected.shape, np.nan, "float32")
        ex(*args, out)
        np.testing.assert_allclose(out, expected, rtol=2e-4, atol=2e-4)
        source = ex.kernels[0].source
        assert "cp_async" in source and ("ldmatrix_x4" in source) == is_half
        assert races(sch.mod["main"]) == ()


def test_memory_of_a_warp_that_threads_would_exchange_is_refused():
    @T.prim_func
    def func(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            F = T.allocate([32], "float32", "warp")
            W = T.decl_buffer((32,), data=F, scope="warp")
            W[tx] = A[tx]
            B[tx] = W[31 - tx]

    with pytest.raises(CodegenError, match="a thread touches F, memory of a warp, where another"):
        mlc.compile(func, target="cuda").kernels[0].source


def attended(batch: int, queries: int, keys: int, heads: int, length: int, masked: bool):
    """softmax(Q K^T / sqrt(length) + mask) V; queries lie as (batch, queries, heads, length)."""
    shapes = [(batch, queries, heads, length), *[(batch, keys, heads, length)] * 2]
    args = [random(*s) for s in shapes]
    args += [random(batch, heads, queries, keys)] if masked else []
    func, expected = loops_of(
        lambda q, k, v, *bias: relax.op.nn.attention(q, k, v, *bias), *args
    )  # fmt: skip
    return func, args, expected


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("sizes", [(2, 16, 40, 3, 32), (1, 6, 33, 2, 20)])
def test_attention_is_one_kernel(sizes, masked):
    source = check(dl.gpu.Attention, attended(*sizes, masked))
    assert source.count("__global__") == 1 and "__shfl_down_sync" in source


def test_scores_that_do_not_fit_into_shared_memory_are_left_to_others():
    func, *_ = attended(1, 1, 20000, 1, 4, False)
    assert scheduled(dl.gpu.Attention, func) is None


SHIPPED = {
    "gemv": (dl.gpu.GEMV, lambda: product(1, 1, 256, 512, False, True)),
    "gemv, turned": (dl.gpu.GEMV, lambda: product(1, 1, 256, 512, True, True)),
    "low batch gemv": (dl.gpu.LowBatchGEMV, lambda: product(1, 8, 128, 256, False, True)),
    "low batch gemv, turned": (dl.gpu.LowBatchGEMV, lambda: product(1, 8, 128, 256, True, True)),
    "matmul": (dl.gpu.Matmul, lambda: product(2, 100, 90, 70, False, True)),
    "matmul of one row of tiles": (dl.gpu.Matmul, lambda: product(1, 64, 2048, 64, False, False)),
    "matmul in parts": (dl.gpu.Matmul, lambda: product(1, 100, 90, 2000, True, True)),
    "matmul of float16": (dl.gpu.Matmul, lambda: halves("float16", 0, 100, 90, 70)),
    "matmul of bfloat16": (dl.gpu.Matmul, lambda: halves("bfloat16", 2, 64, 64, 64)),
    "large matmul": (dl.gpu.Matmul, lambda: product(1, 1300, 1400, 70, False, True)),
    "matmul of float64": (
        dl.gpu.Matmul,
        lambda: product(1, 128, 128, 128, False, True, "float64"),
    ),
    "large matmul of float64": (
        dl.gpu.Matmul,
        lambda: product(1, 1300, 1400, 70, True, False, "float64"),
    ),
    "wide tiles": (
        lambda: dl.gpu.Matmul(wide=True),
        lambda: product(1, 1300, 1400, 70, False, True),
    ),
    "wide tiles, turned": (
        lambda: dl.gpu.Matmul(wide=True),
        lambda: product(1, 1280, 1300, 64, True, True),
    ),
    "large matmul, turned": (dl.gpu.Matmul, lambda: product(1, 1280, 1300, 64, True, True)),
    "large matmul of float16": (dl.gpu.Matmul, lambda: halves("float16", 0, 1280, 1408, 96)),
    "large matmul of float16, in part": (
        dl.gpu.Matmul,
        lambda: halves("float16", 0, 1301, 1402, 100),
    ),
    "attention": (dl.gpu.Attention, lambda: attended(1, 8, 64, 2, 64, True)),
    "transpose": (dl.gpu.Transpose, lambda: copied((3, 64, 100), (0, 2, 1))),
}


@pytest.mark.slow
@pytest.mark.skipif(not nvrtc.is_available(), reason="NVRTC is not installed")
@pytest.mark.parametrize("name", SHIPPED)
def test_nothing_spills(name):
    """Offline, for three architectures."""
    rule, make = SHIPPED[name]
    kernel = mlc.compile(scheduled(rule, make()[0]), target="cuda").kernels[0]
    for arch in ARCHITECTURES:
        for found in nvrtc.compile_text(kernel.source, arch).resources.values():
            assert (found.spill_stores, found.spill_loads, found.stack) == (0, 0, 0), arch


def test_rules_of_the_cpu_by_name():
    func, args, expected = product(1, 1, 64, 128, True, False)
    mod = IRModule.from_expr(func.with_attr("global_symbol", "main"))
    with Target("llvm"):
        made = dl.ApplyDefaultSchedule(dl.cpu.GEMV(), dl.cpu.Reduction(), dl.cpu.Fallback())(mod)
    assert made["main"].attrs["tir.is_scheduled"]
    out = np.empty(expected.shape, "float32")
    mlc.compile(made, target="llvm")(*args, out)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
