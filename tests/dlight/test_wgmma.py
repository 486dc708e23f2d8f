"""Products of halves by warpgroups: right on random shapes in simulation, whole and ragged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import dlight as dl
from mlcnb import te
from mlcnb.codegen.cuda import nvrtc
from mlcnb.codegen.interp import run_prim_func
from mlcnb.codegen.races import races
from mlcnb.core.errors import DataRaceError, PassError
from mlcnb.dlight.gpu.wgmma import WIDE, Tile, wgmma
from mlcnb.dlight.rule import choice
from mlcnb.dlight.survey import Survey
from mlcnb.ir.dtype import dtype as dtypes
from mlcnb.ir.module import IRModule
from mlcnb.observe import gpu_report
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

SIM = Target("cuda-sim -arch=sm_90a")
few = settings(max_examples=4, deadline=None, derandomize=True)


def product(kind, rows, columns, depth, a_along_k=True, b_along_k=False, after=True):
    """(A @ B + bias) ** 2, each operand along k in memory or not; or A @ B alone."""
    A = te.placeholder((rows, depth) if a_along_k else (depth, rows), kind, name="A")
    B = te.placeholder((columns, depth) if b_along_k else (depth, columns), kind, name="B")
    D = te.placeholder((columns,), name="D")
    k = te.reduce_axis((0, depth), name="k")

    def term(i, j):
        x, y = (A[i, k] if a_along_k else A[k, i]), (B[j, k] if b_along_k else B[k, j])
        return te.sum(x.astype("float32") * y.astype("float32"), axis=k)

    C = te.compute((rows, columns), term, name="C")
    E = te.compute(C.shape, lambda i, j: C[i, j] + D[j], name="E")
    R = te.compute(C.shape, lambda i, j: E[i, j] * E[i, j], name="R")
    rng = np.random.default_rng(rows + columns + depth)
    x = rng.standard_normal((rows, depth)).astype(dtypes(kind).numpy)
    y = rng.standard_normal((depth, columns)).astype(x.dtype)
    d = rng.standard_normal(columns).astype("float32")
    expected = x.astype("float64") @ y.astype("float64")
    given = [np.ascontiguousarray(x if a_along_k else x.T),
             np.ascontiguousarray(y.T if b_along_k else y)]  # fmt: skip
    if not after:
        return te.create_prim_func([A, B, C]), given, expected
    return te.create_prim_func([A, B, D, R]), [*given, d], (expected + d) ** 2


def scheduled(func, by=None):
    sch = Schedule(func)
    made = wgmma(sch, Survey.of(sch), SIM, by)
    assert made
    return made


def check(made, by=None):
    func, args, expected = made
    sch = scheduled(func, by)
    ex = mlc.compile(sch, target=SIM)
    out = np.full(expected.shape, np.nan, "float32")
    ex(*args, out)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(out / scale, expected / scale, rtol=2e-5, atol=2e-5)
    return sch, ex


@few
@given(
    st.sampled_from(["float16", "bfloat16"]), st.integers(2, 40), st.integers(2, 40),
    st.integers(2, 40), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
def test_random_shapes(kind, rows, columns, depth, a_along_k, b_along_k, after):
    """Rows in memory are whole pieces of 16 bytes; the tiles are ragged."""
    sizes = (8 * n for n in (rows, columns, depth))
    check(product(kind, *sizes, a_along_k, b_along_k, after))


@pytest.mark.parametrize("sizes", [(17, 19, 24), (128, 128, 64), (129, 133, 320)])
def test_sides_that_are_no_row_may_have_any_length(sizes):
    check(product("float16", *sizes, True, True))


def test_wide_tiles():
    """Those of large products."""
    check(product("float16", 136, 264, 200), WIDE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "by", [Tile(1, 64, 2), Tile(1, 128, 4), Tile(2, 64, 3), Tile(2, 256, 3), Tile(3, 192, 2)]
)
@pytest.mark.parametrize("b_along_k", [False, True])
def test_other_tiles(by, b_along_k):
    check(product("float16", 200, 264, 136, True, b_along_k), by)


def test_the_interpreter_does_the_same():
    """With races looked for, and copies that arrive only when they are waited for."""
    func, args, expected = product("float16", 16, 24, 72)
    out = np.full(expected.shape, np.nan, "float32")
    run_prim_func(scheduled(func, Tile(1, 64, 2)).mod["main"], [*args, out])
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-3)


def test_no_threads_meet():
    assert races(scheduled(product("float16", 300, 200, 264)[0]).mod["main"]) == ()


def test_a_wait_too_few_is_found():
    """Tiles are multiplied while they are still on their way."""
    text = scheduled(product("float16", 128, 128, 256)[0]).mod["main"].script()
    assert text.count("T.ptx_wait_group(1)") == 1
    func = mlc.script.from_source(text.replace("T.ptx_wait_group(1)", "T.ptx_wait_group(2)"))
    with pytest.raises(DataRaceError, match="A_1.* in shared.dyn memory"):
        mlc.compile(func, target=SIM)


@pytest.mark.skipif(not nvrtc.is_available(), reason="NVRTC is not installed")
@pytest.mark.parametrize(
    ("sizes", "columns", "blocks"), [((1280, 1408, 512), 128, 2), ((2048, 2048, 512), 256, 1)]
)
@pytest.mark.parametrize("b_along_k", [False, True])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_offline(kind, b_along_k, sizes, columns, blocks):
    """So many blocks find room on a multiprocessor; one barrier a step; nothing spills."""
    func, _, _ = product(kind, *sizes, True, b_along_k)
    kernel = mlc.compile(scheduled(func), target=SIM).kernels[0].cuda
    (found,) = kernel.resources.values()
    assert (found.spill_stores, found.spill_loads, found.stack) == (0, 0, 0)
    assert found.registers * 256 * blocks <= 65536
    loop = kernel.source.split("for (int k = 0; k < 8; ++k) {")[1].split(f"wgmma_m64n{columns}k64")[
        0
    ]
    assert loop.count("barrier_of_proxies();") == 1
    assert kernel.ptx.count(f"wgmma.mma_async.sync.aligned.m64n{columns}k16") == 4
    assert kernel.ptx.count("wgmma.wait_group.sync.aligned") == 1


def test_only_where_it_is_named():
    func, _, _ = product("float16", 256, 256, 256)
    assert "wgmma" not in mlc.compile(func, target=SIM, schedule="default").kernels[0].source
    mod = IRModule.from_expr(func.with_attr("global_symbol", "main"))
    with SIM:
        named = dl.ApplyDefaultSchedule(dl.gpu.WarpgroupMatmul(), dl.gpu.Fallback())(mod)
    assert "T.ptx_wgmma(" in named.script()


@pytest.mark.parametrize(
    ("made", "target", "why"),
    [
        (lambda: product("float16", 64, 64, 64), "cuda-sim -arch=sm_80",
         "the GPU is sm_80: warpgroups multiply on sm_90a alone"),
        (lambda: product("float16", 64, 64, 64), "cuda-sim -arch=sm_120",
         "the GPU is sm_120: warpgroups multiply on sm_90a alone"),
        (lambda: product("float32", 64, 64, 64), SIM,
         "operands and sum are no float16 or bfloat16 summed in float32"),
        (lambda: product("float16", 64, 60, 64), SIM, "rows of B are no multiple of 16 bytes"),
        (lambda: product("float16", 8, 64, 64), SIM,
         "a side under 16 leaves too much of a tile empty"),
    ],
)  # fmt: skip
def test_what_it_does_not_take(made, target, why):
    found = choice([wgmma], made()[0], Target(target))
    assert found.schedule is None and found.passed[0].why == why


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_other_architectures_are_refused(arch):
    sch = scheduled(product("float16", 128, 128, 64)[0])
    with pytest.raises(PassError, match=f"the GPU is {arch}") as error:
        mlc.compile(sch, target=f"cuda-sim -arch={arch}")
    assert 'target="cuda -arch=sm_90a"' in str(error.value)


def test_predicted_time_counts_what_tensor_cores_do():
    sch = scheduled(product("float16", 1024, 1024, 1024, after=False)[0])
    report = gpu_report(sch, "H100")
    assert sum(x.work.tensor_flops for x in report.kernels) == 2 * 1024**3
