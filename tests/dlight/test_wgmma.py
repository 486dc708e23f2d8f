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
from mlcnb.core.errors import DataRaceError, PassError, ScheduleError
from mlcnb.dlight.gpu.wgmma import TILE, WIDE, Tile, wgmma
from mlcnb.dlight.rule import choice
from mlcnb.dlight.survey import Survey
from mlcnb.ir.dtype import dtype as dtypes
from mlcnb.ir.module import IRModule
from mlcnb.observe import gpu_report
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform.lower import lower

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


@pytest.mark.slow
@few
@given(
    st.sampled_from(["float16", "bfloat16"]), st.integers(2, 40), st.integers(2, 40),
    st.integers(2, 40), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
def test_random_shapes(kind, rows, columns, depth, a_along_k, b_along_k, after):
    """Rows in memory are whole pieces of 16 bytes; the tiles are ragged."""
    sizes = (8 * n for n in (rows, columns, depth))
    check(product(kind, *sizes, a_along_k, b_along_k, after))


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(17, 19, 24), (128, 128, 64), (129, 133, 320)])
def test_sides_that_are_no_row_may_have_any_length(sizes):
    check(product("float16", *sizes, True, True))


@pytest.mark.slow
@pytest.mark.parametrize("loads", ["cp.async", "tma"])
def test_wide_tiles(loads):
    """Those of large products."""
    check(product("float16", 136, 264, 200), WIDE._replace(loads=loads))


@pytest.mark.slow
@few
@given(
    st.sampled_from(["float16", "bfloat16"]), st.integers(2, 40), st.integers(2, 40),
    st.integers(2, 70), st.booleans(), st.booleans(), st.sampled_from([TILE, WIDE]),
)  # fmt: skip
def test_random_shapes_by_boxes(kind, rows, columns, depth, a_along_k, b_along_k, by):
    """What lies outside of an operand comes as zeros; fewer steps than stages, and more."""
    sizes = (8 * n for n in (rows, columns, depth))
    _, ex = check(product(kind, *sizes, a_along_k, b_along_k), by._replace(loads="tma"))
    assert "cp_async_bulk_tensor(" in ex.kernels[0].source


@pytest.mark.slow
@pytest.mark.parametrize(
    "by", [Tile(1, 64, 2), Tile(1, 128, 4), Tile(2, 64, 3), Tile(2, 256, 3), Tile(3, 192, 2)]
)
@pytest.mark.parametrize("b_along_k", [False, True])
def test_other_tiles(by, b_along_k):
    check(product("float16", 200, 264, 136, True, b_along_k), by)


@pytest.mark.slow
@pytest.mark.parametrize("loads", ["cp.async", "tma"])
def test_the_interpreter_does_the_same(loads):
    """With races looked for, and copies that arrive only when they are waited for."""
    func, args, expected = product("float16", 16, 24, 72)
    out = np.full(expected.shape, np.nan, "float32")
    run_prim_func(scheduled(func, Tile(1, 64, 2, loads)).mod["main"], [*args, out])
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("by", [TILE, TILE._replace(loads="tma"), WIDE._replace(loads="tma")])
def test_no_threads_meet(by):
    assert races(scheduled(product("float16", 300, 200, 264)[0], by).mod["main"]) == ()


RING = {
    "wrong parity": (("T.ptx_wait_barrier(k % 3, k // 3 % 2)",
                      "T.ptx_wait_barrier(k % 3, (k // 3 + 1) % 2)"),
                     "threads may wait for good"),
    "no first release": (("(k // 3 + 1) % 2", "k // 3 % 2"), "threads may wait for good"),
    "no arrive": (("T.ptx_arrive_barrier(3 + k % 3)", "T.evaluate(0)"),
                  "threads may wait for good"),
    "one arrives too few": (("(3 + s, 256)", "(3 + s, 257)"), "threads may wait for good"),
    "one arrives too many": (("(3 + s, 256)", "(3 + s, 255)"),
                             "more than 255 threads arrive in phase 0 of barrier 3"),
    "not waited for": (("T.ptx_wait_barrier(k % 3, k // 3 % 2)", "T.evaluate(0)"),
                       "more than 256 threads arrive in phase 0 of barrier 3"),
    "not given back": (("T.ptx_wait_barrier(3 + k % 3, (k // 3 + 1) % 2)", "T.evaluate(0)"),
                       "may come before it begins"),
    "another stage": (("T.ptx_wait_barrier(k % 3, ", "T.ptx_wait_barrier((k + 1) % 3, "),
                      "may come before it begins"),
    "a stage too few": (("k % 3 * 8192", "k % 2 * 8192"),
                        "a copy may overwrite what is read in A_1: nothing orders them"),
    "fewer bytes": (("expect_tx(k % 3, 32768)", "expect_tx(k % 3, 16384)"),
                    "a copy of bytes that its thread has not announced"),
    "more bytes": (("expect_tx(k % 3, 32768)", "expect_tx(k % 3, 65536)"),
                   "threads may wait for good"),
    "another thread": (("if t == 0:\n                                    T.ptx_wait",
                        "if t == k:\n                                    T.ptx_wait"),
                       "may come before it begins"),
}  # fmt: skip


@pytest.mark.parametrize("name", RING)
def test_a_ring_that_is_wrong_is_not_proved(name):
    """No kernel comes of it, for a GPU or in simulation; and what is right has one barrier."""
    (before, after), told = RING[name]
    func, _, _ = product("float16", 128, 128, 512)
    right = scheduled(func, TILE._replace(loads="tma")).mod["main"]
    synced = lower(right, steps=True)["ThreadSync"].after
    assert synced.script().count("tvm_storage_sync") == 1
    text = right.script()
    assert before in text
    wrong = mlc.script.from_source(text.replace(before, after))
    for target in (SIM, "cuda -arch=sm_90a"):
        with pytest.raises(PassError, match=f"not proved to be ordered by .* {told}") as found:
            mlc.compile(wrong, target=target)
        assert found.value.where is not None and "interp" in found.value.hint
    assert races(right) == ()
    with pytest.raises(PassError, match=told):
        races(wrong)


def test_a_part_of_a_warpgroup_does_not_multiply():
    """A condition takes whole warpgroups: eight warps of nine, not six."""
    text = scheduled(product("float16", 128, 128, 512)[0], TILE._replace(loads="tma")).mod["main"]
    six = text.script().replace("if w < 8:", "if w < 6:").replace("(3 + s, 256)", "(3 + s, 192)")
    with pytest.raises(PassError, match="the four warps of a warpgroup come by together"):
        mlc.compile(mlc.script.from_source(six), target="cuda -arch=sm_90a")


def test_a_wait_too_few_is_found():
    """Tiles are multiplied while they are still on their way."""
    text = scheduled(product("float16", 128, 128, 256)[0]).mod["main"].script()
    assert text.count("T.ptx_wait_group(1)") == 1
    func = mlc.script.from_source(text.replace("T.ptx_wait_group(1)", "T.ptx_wait_group(2)"))
    with pytest.raises(DataRaceError, match="A_1.* in shared.dyn memory"):
        mlc.compile(func, target=SIM)


@pytest.mark.slow
@pytest.mark.skipif(not nvrtc.is_available(), reason="NVRTC is not installed")
@pytest.mark.parametrize(
    ("sizes", "columns", "blocks"), [((1280, 1408, 512), 128, 2), ((2048, 2048, 512), 256, 1)]
)
@pytest.mark.parametrize("b_along_k", [False, True])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("loads", ["cp.async", "tma"])
def test_offline(loads, kind, b_along_k, sizes, columns, blocks):
    """So many blocks find room on a multiprocessor; nothing spills. A step has one barrier of the
    block; with boxes, none.
    """
    func, _, _ = product(kind, *sizes, True, b_along_k)
    by = {128: TILE, 256: WIDE}[columns]._replace(loads=loads)
    kernel = mlc.compile(scheduled(func, by), target=SIM).kernels[0].cuda
    (found,) = kernel.resources.values()
    assert (found.spill_stores, found.spill_loads, found.stack) == (0, 0, 0)
    assert found.registers * by.threads * blocks <= 65536
    before, after = kernel.source.split("for (int k = 0; k < ")
    body = after.partition("\n  }\n")[0]
    assert body.count("wgmma_m64n") == 1
    assert body.count("barrier_of_proxies();") == (loads != "tma") and "syncthreads" not in body
    if loads == "tma":  # of the stages: full ones are waited for, and empty ones
        assert before.count("barrier_of_proxies();") == 1
        assert body.count("barrier_wait(") == 2 and body.count("barrier_arrive(") == 1
        assert "serialized" not in kernel.binary.log
    waits = kernel.ptx.count("wgmma.wait_group.sync.aligned")
    assert kernel.ptx.count(f"wgmma.mma_async.sync.aligned.m64n{columns}k16") == 4 * waits
    assert waits >= 1 if loads == "tma" else waits == 1  # NVRTC may write out short loops
    if loads == "tma":
        (maps,) = (source.maps for source in kernel.sources.values())
        assert [(number, x.height, x.width) for number, x in maps] == [
            (0, sizes[0], sizes[2]), (1, *(sizes[1:] if b_along_k else sizes[:0:-1])),
        ]  # fmt: skip
        assert "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier" in kernel.ptx


def test_only_where_it_is_named():
    func, _, _ = product("float16", 256, 256, 256)
    assert "wgmma" not in mlc.compile(func, target=SIM, schedule="default").kernels[0].source
    mod = IRModule.from_expr(func.with_attr("global_symbol", "main"))
    with SIM:
        named = dl.ApplyDefaultSchedule(dl.gpu.WarpgroupMatmul(), dl.gpu.Fallback())(mod)
        boxes = dl.ApplyDefaultSchedule(dl.gpu.WarpgroupMatmul(loads="tma"))(mod)
    assert "T.ptx_wgmma(" in named.script() and "tensor(" not in named.script()
    assert "T.ptx_wgmma(" in boxes.script() and "T.ptx_cp_async_bulk_tensor(" in boxes.script()
    with pytest.raises(ScheduleError, match="no loads='ldg'"):
        dl.gpu.WarpgroupMatmul(loads="ldg")


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


@pytest.mark.parametrize("loads", ["cp.async", "tma"])
def test_predicted_time_counts_what_tensor_cores_do(loads):
    """Of a block all threads that multiply, and no others."""
    func, _, _ = product("float16", 1024, 1024, 1024, after=False)
    sch = scheduled(func, TILE._replace(loads=loads))
    report = gpu_report(sch, "H100")
    assert sum(x.work.tensor_flops for x in report.kernels) == 2 * 1024**3


@pytest.mark.parametrize("by", [TILE, WIDE._replace(columns=128)])
@pytest.mark.parametrize("loads", ["cp.async", "tma"])
def test_timeline_of_copies_ahead(loads, by):
    """Every step brings a tile of each operand, so many stages but one ahead; a warp that has them
    copied begins with all stages, and then with each that is given back.
    """
    sch = scheduled(product("float16", 256, 256, 512)[0], by._replace(loads=loads))
    (found,) = gpu_report(sch, "H100").pipelines
    copies = [x.nbytes for x in found.spans if x.kind == "copy" and x.nbytes]
    assert copies == [2 * 128 * 64 * 2] * 8
    products = [x.cycles for x in found.spans if x.kind == "product"]
    assert products[:8] == [products[0]] * 8
    if loads == "tma":
        assert not [x for x in found.spans if x.kind == "barrier"]
        starts = [x.start for x in found.spans if x.kind == "copy"]
        ends = [x.end for x in found.spans if x.kind == "product"]
        assert starts == [0.0] * by.stages + ends[: 8 - by.stages]
        assert [x.number for x in found.steps if x.nbytes] == [*range(1, 8 - by.stages + 2)]
    else:
        assert found.depth == by.stages - 1
        assert [x.number for x in found.steps if x.nbytes] == [*range(8 - by.stages + 2)]


def test_what_lies_in_its_memory_is_said():
    """Of instructions it is asked of the kernel; of a GPU that has none of them nothing is said."""
    sch = scheduled(product("float16", 128, 128, 128)[0], TILE._replace(loads="tma"))
    told = str(gpu_report(sch, "H100"))
    assert "no two threads race: proved\nevery access is within its buffer: proved\n" in told
    assert gpu_report(sch, "A100").out_of_bounds


def test_registers_that_are_too_few():
    """They were written beyond (which ended the process in simulation)."""
    text = scheduled(product("float16", 128, 128, 128)[0]).mod["main"].script()
    few = text.replace("alloc_buffer((32, 64)", "alloc_buffer((32, 16)")
    few = few.replace("sums[t, x]", "sums[t, x % 16]")
    few = few.replace("sums[t, x * 2 + y]", "sums[t, (x * 2 + y) % 16]")
    for target in (SIM, "cuda -arch=sm_90a"):
        with pytest.raises(PassError, match="takes 64 registers of sums .* and there are 512"):
            mlc.compile(mlc.script.from_source(few), target=target)
