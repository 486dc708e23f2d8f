"""Products of every shape and orientation: numbers, traces, what the machine code is made of."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import te, tir
from mlcnb.codegen.llvm.inspect import facts
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.dlight.cpu.blocking import ProductTile, blocking
from mlcnb.dlight.cpu.matmul import is_copied
from mlcnb.dlight.cpu.product import Operand, Product, lanes_of
from mlcnb.dlight.decide import Decisions
from mlcnb.dlight.survey import Survey
from mlcnb.ir.structural import assert_structural_equal

HOST = mlc.target.Target("llvm")
AVX512 = mlc.target.Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
SIZES = st.integers(1, 70)


def product(m: int, k: int, n: int, form: str = "NN", bias: bool = False) -> tir.PrimFunc:
    """C = A B (+ bias, then relu); form: N or T for each operand, as BLAS has it."""
    a = te.placeholder((m, k) if form[0] == "N" else (k, m), name="A")
    b = te.placeholder((k, n) if form[1] == "N" else (n, k), name="B")
    r = te.reduce_axis((0, k), name="k")

    def term(i, j):
        return (a[i, r] if form[0] == "N" else a[r, i]) * (b[r, j] if form[1] == "N" else b[j, r])

    c = te.compute((m, n), lambda i, j: te.sum(term(i, j), axis=r), name="C")
    if not bias:
        return te.create_prim_func([a, b, c])
    v = te.placeholder((n,), name="v")
    d = te.compute((m, n), lambda i, j: c[i, j] + v[j], name="biased")
    d = te.compute((m, n), lambda i, j: tir.op.max(d[i, j], 0.0), name="D")
    return te.create_prim_func([a, b, v, d])


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def check(m: int, k: int, n: int, form: str = "NN", bias: bool = False) -> tir.Schedule:
    """Run the default schedule and compare with float64; gives the schedule."""
    func = product(m, k, n, form, bias)
    sch = schedule_cpu(func, HOST)
    a, b = random(m, k), random(k, n)
    given = [a if form[0] == "N" else a.T.copy(), b if form[1] == "N" else b.T.copy()]
    expected = a.astype("float64") @ b
    if bias:
        given.append(random(n))
        expected = np.maximum(expected + given[-1], 0)
    found = np.full((m, n), np.nan, np.float32)
    mlc.compile(sch)(*given, found)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    return sch


@settings(max_examples=12, deadline=None)
@given(SIZES, SIZES, SIZES, st.sampled_from(["NN", "NT", "TN", "TT"]), st.booleans())
def test_any_shape_and_orientation(m, k, n, form, bias):
    check(m, k, n, form, bias)


@pytest.mark.parametrize(
    "m, k, n",
    [
        (1, 512, 1000),
        (1, 70, 77),
        (1, 64, 500),
        (70, 64, 1),
        (1, 4096, 300),
        (130, 19, 1024),
        (129, 130, 131),
    ],
)
def test_rows_columns_and_copied_panels(m, k, n):
    check(m, k, n)
    check(m, k, n, bias=True)
    check(m, k, n, form="NT")


@pytest.mark.parametrize(
    "k, n, tasks, partial",
    [
        (4096, 4096, 16, True),  # parts of the depth: whole rows are read
        (384, 30522, 16, True),  # 4 blocks of columns, 4 parts of the depth
        (1001, 4096, 2, False),  # a depth that no part divides: halves of the columns
        (64, 500, 1, False),  # too little for two threads
    ],
)
def test_how_a_row_times_a_matrix_is_cut_for_two_threads(k, n, tasks, partial):
    sch = schedule_cpu(product(1, k, n), AVX512)
    text = sch.mod["main"].script()
    assert (f"T.parallel({tasks})" in text) == (tasks > 1) == ("T.parallel" in text)
    assert ("C_rf" in text) == partial


def test_a_few_rows_are_done_together_where_the_matrix_comes_from_memory():
    """It is read once, from front to back; from a cache a tile is faster."""
    for rows, columns, together in [(4, 4000, True), (12, 4000, True), (13, 4000, False)]:
        sch = schedule_cpu(product(rows, 4000, columns), AVX512)
        assert ("C_rf" in sch.mod["main"].script()) == together
    assert "C_rf" not in schedule_cpu(product(4, 512, 512), AVX512).mod["main"].script()
    check(3, 2100, 2100, bias=True)


@pytest.mark.parametrize(
    "k, n, rows, lanes, ahead",
    [
        (4096, 4096, 8, 16, 8 * 4096),  # from memory: the rows after these come meanwhile
        (4096, 5000, 8, 8, 8 * 5000),
        (
            512,
            1000,
            8,
            8,
            None,
        ),  # 1000 columns: no row begins a line of the cache, halves of one do
        (512, 1024, 4, 16, None),  # 4096 bytes apart
        (512, 512, 8, 16, None),
        (512, 999, 8, 16, None),
    ],
)
def test_how_the_rows_of_a_matrix_are_read_side_by_side(k, n, rows, lanes, ahead):
    text = schedule_cpu(product(1, k, n), AVX512).mod.script()
    assert f"in T.unroll({rows}):" in text and f"in T.vectorized({lanes}):" in text
    assert ("pragma_prefetch" in text) == (ahead is not None)
    assert ahead is None or f'{{"pragma_prefetch": ["B", {ahead}, 2]}}' in text


@pytest.mark.parametrize("m, k, form", [(1024, 1000, "NN"), (515, 37, "NN"), (1, 640, "NT")])
def test_a_matrix_times_a_column_is_read_in_vectors_along_its_rows(m, k, form):
    func = product(m, k, 1, form) if m > 1 else product(1, k, 300, form)
    made = mlc.compile(func, target=AVX512, schedule="default").kernels["main"]
    counts = [f.total for f in facts(made.compiled).values()]
    assert max(c.vector_fma for c in counts) >= 4
    assert sum(c.instructions for c in counts) < 600


@pytest.mark.parametrize("batch", [1, 3])
def test_rows_times_matrices(batch):
    a, b = te.placeholder((batch, 512), name="A"), te.placeholder((batch, 512, 700), name="B")
    r = te.reduce_axis((0, 512), name="k")
    c = te.compute((batch, 700), lambda i, j: te.sum(a[i, r] * b[i, r, j], axis=r), name="C")
    func = te.create_prim_func([a, b, c])
    x, y, found = random(batch, 512), random(batch, 512, 700), np.zeros((batch, 700), np.float32)
    mlc.compile(func, schedule="default")(x, y, found)
    np.testing.assert_allclose(found, np.einsum("bk,bkn->bn", x, y), rtol=1e-4, atol=1e-4)


def test_the_trace_replays_to_the_same_program():
    for shape in [(33, 65, 100), (64, 64, 64), (1, 64, 64), (1, 512, 1024)]:
        func = product(*shape, bias=True)
        sch = schedule_cpu(func, HOST)
        again = tir.Schedule(func)
        sch.trace.apply_to_schedule(again, remove_postproc=False)
        assert_structural_equal(again.mod, sch.mod)


def test_an_operand_that_is_multiplied_by_itself_is_right_too():
    a = te.placeholder((20, 20), name="A")
    r = te.reduce_axis((0, 20), name="k")
    c = te.compute((20, 20), lambda i, j: te.sum(a[i, r] * a[r, j], axis=r), name="C")
    x, found = random(20, 20), np.zeros((20, 20), np.float32)
    mlc.compile(te.create_prim_func([a, c]), schedule="default")(x, found)
    np.testing.assert_allclose(found, x @ x, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("depth", [3, 5000])
def test_what_comes_behind_one_sum_may_read_it_as_the_first(depth):
    """A transposition of one number, say, which is no loop over anything."""
    a, b = te.placeholder((1, depth), name="A"), te.placeholder((depth, 1), name="B")
    r = te.reduce_axis((0, depth), name="k")
    c = te.compute((1, 1), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = te.compute((1, 1), lambda i, j: c[0, 0] * 0.5, name="D")
    x, y, found = random(1, depth), random(depth, 1), np.zeros((1, 1), np.float32)
    mlc.compile(te.create_prim_func([a, b, d]), schedule="default")(x, y, found)
    np.testing.assert_allclose(found, x.astype("float64") @ y * 0.5, rtol=1e-4, atol=1e-4)


def test_a_sum_that_is_no_plain_product_is_not_filled_up_with_zeros():
    """exp(0) is not 0: columns that no vector divides are masked instead."""
    a, b = te.placeholder((30, 9), name="A"), te.placeholder((9, 21), name="B")
    r = te.reduce_axis((0, 9), name="k")
    c = te.compute((30, 21), lambda i, j: te.sum(a[i, r] * tir.op.exp(b[r, j]), axis=r), name="C")
    x, y, found = random(30, 9), random(9, 21), np.zeros((30, 21), np.float32)
    mlc.compile(te.create_prim_func([a, b, c]), schedule="default")(x, y, found)
    np.testing.assert_allclose(found, x @ np.exp(y), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 7, 8, 23])
def test_any_number_of_rows(rows):
    n = te.var("n", "int64")
    a, b = te.placeholder((n, 48), name="A"), te.placeholder((48, 64), name="B")
    r = te.reduce_axis((0, 48), name="k")
    c = te.compute((n, 64), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    x, y, found = random(rows, 48), random(48, 64), np.zeros((rows, 64), np.float32)
    mlc.compile(te.create_prim_func([a, b, c]), schedule="default")(x, y, found)
    np.testing.assert_allclose(found, x @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", [(3,), (2, 3)])
def test_batches(batch):
    shape = (*batch, 20, 24), (*batch, 24, 40)
    a, b = (te.placeholder(s, name=n) for s, n in zip(shape, "AB", strict=True))
    r = te.reduce_axis((0, 24), name="k")
    c = te.compute(
        (*batch, 20, 40), lambda *i: te.sum(a(*i[:-1], r) * b(*i[:-2], r, i[-1]), axis=r), name="C"
    )
    x, y, found = random(*shape[0]), random(*shape[1]), np.zeros((*batch, 20, 40), np.float32)
    mlc.compile(te.create_prim_func([a, b, c]), schedule="default")(x, y, found)
    np.testing.assert_allclose(found, x @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cpu, lanes", [("x86-64-v3", 8), ("x86-64-v4", 16), ("cortex-a72", 4)])
@pytest.mark.parametrize("shape", [(128, 96, 256), (100, 100, 100), (129, 64, 1024)])
def test_no_tile_spills_and_its_loop_is_vectors_of_multiply_adds(cpu, lanes, shape):
    target = mlc.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": 2})
    made = mlc.compile(product(*shape), target=target, schedule="default").kernels["main"]
    hot = max((f.hot for f in facts(made.compiled).values() if f.hot), key=lambda c: c.fma)
    assert hot.fma >= 8
    assert hot.spills == 0
    assert hot.vector_fma == hot.fma >= 0.40 * hot.instructions


def shape_of(m: int, k: int, n: int) -> Product:
    return Product((), m, n, k, True, Operand(0, False, False), Operand(1, False, False))


def test_tiles_and_parts():
    """Wide tiles for deep sums; as many parts as there are cores; small products stay whole."""
    cut = blocking(shape_of(256, 256, 256), False, AVX512)
    assert (cut.tile, cut.parts) == (ProductTile(8, 2), 2)
    assert blocking(shape_of(64, 64, 64), False, AVX512).parts == 1
    assert blocking(shape_of(1024, 1024, 1024), True, AVX512).parts == 2
    long = blocking(shape_of(4096, 4096, 4096), True, AVX512)
    assert long.parts >= 16, "a part is not interrupted"


def test_half_vectors_where_fewer_lanes_are_idle_so():
    zen4 = mlc.target.Target({"kind": "llvm", "mcpu": "znver4"})
    avx2 = mlc.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"})
    assert zen4.halves_vectors and not AVX512.halves_vectors and not avx2.halves_vectors
    columns = [3, 8, 9, 16, 37, 64, 72, 100, 129, 512, 515, None]
    assert [lanes_of(n, zen4) for n in columns] == [8, 8, 16, 16, 8, 16, 8, 8, 16, 16, 16, 16]
    assert [lanes_of(n, AVX512) for n in columns] == [8, 8, *[16] * 10]
    assert {lanes_of(n, avx2) for n in columns} == {8}
    for target in (zen4, AVX512):
        text = schedule_cpu(product(64, 50, 100), target).mod.script()
        assert f"in T.vectorized({lanes_of(100, target)}):" in text


def test_when_b_is_copied():
    """Zen 4 multiplies a tile no faster than its lines come from L2; AVX2, and AVX-512 with two
    units, do: see tests/dlight/test_blockings.py."""
    zen4, avx2 = (mlc.target.Target(f"llvm -mcpu={cpu}") for cpu in ("znver4", "znver3"))
    assert not is_copied(shape_of(384, 384, 384), zen4)
    assert is_copied(shape_of(384, 384, 384), avx2) and is_copied(shape_of(384, 384, 384), AVX512)
    assert not is_copied(shape_of(48, 64, 64), avx2), "it stays in L1"
    assert not is_copied(shape_of(48, 128, 128), avx2), "too few rows to pay for it, from L2"
    assert is_copied(shape_of(48, 768, 768), avx2), "enough of them, from L3"
    assert is_copied(shape_of(128, 64, 1024), AVX512), "rows a multiple of 4096 bytes apart"
    assert not is_copied(shape_of(5, 64, 1001), AVX512), "too few rows to pay for it"
    assert is_copied(shape_of(100, 64, 1001), AVX512), "rows that end inside a vector"
    assert is_copied(shape_of(16, 4000, 4000), AVX512), "it comes from memory"


def test_a_copy_that_stays_in_a_cores_own_cache_is_asked_for_some_steps_ahead():
    """On Intel's servers, all of the depth in one step or not; Zen's shared cache is near."""
    for cpu, asks in (("emeraldrapids", True), ("znver5", False)):
        target = mlc.target.Target(f"llvm -mcpu={cpu} -num-cores=1")
        for size in (512, 1024):
            sch = schedule_cpu(product(size, size, size), target)
            text = sch.mod["main"].script()
            assert "B_global" in text
            assert ('"pragma_prefetch": ["B_global", 512]' in text) is asks, (cpu, size)
            made = mlc.compile(sch, target=target).kernels["main"].compiled
            assert ("prefetch" in made.assembly) is asks


@pytest.mark.parametrize("m, k, n", [(64, 384, 384), (37, 515, 1000), (32, 768, 768)])
def test_few_rows_ask_for_a_matrix_in_a_cores_own_cache_some_rows_ahead(m, k, n):
    """As it lies, be its rows whole vectors or not; one multiply-add a cycle leaves time enough."""
    intel, zen4 = (
        mlc.target.Target(f"llvm -mcpu={cpu} -num-cores=1") for cpu in ("emeraldrapids", "znver4")
    )
    asked = f'"pragma_prefetch": ["B", {8 * n}]'
    sch = schedule_cpu(product(m, k, n), intel)
    text = sch.mod["main"].script()
    assert asked in text and "B_global" not in text
    assert asked not in schedule_cpu(product(m, k, n), zen4).mod["main"].script()
    assert asked not in schedule_cpu(product(8 * m, k, n), intel).mod["main"].script(), "copied"
    kernel = mlc.compile(sch, target=AVX512).kernels["main"].compiled
    assert kernel.assembly.count("prefetch") >= 3
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((m, k), "f4"), rng.standard_normal((k, n), "f4")
    c = np.full((m, n), np.nan, "f4")
    mlc.compile(sch, target="llvm")(a, b, c)
    np.testing.assert_allclose(c, a.astype("f8") @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("m, k, n", [(64, 64, 256), (64, 512, 512), (64, 4096, 256)])
def test_a_matrix_of_few_pages_or_of_rows_in_the_same_sets_is_not_asked_for(m, k, n):
    intel = mlc.target.Target("llvm -mcpu=emeraldrapids -num-cores=1")
    text = schedule_cpu(product(m, k, n), intel).mod["main"].script()
    assert '"pragma_prefetch": ["B",' not in text


def test_a_large_matrix_that_is_not_copied_is_asked_for_a_tile_ahead():
    """Column tile after column tile, each for all rows: it is read once, by one thread."""
    zen4 = mlc.target.Target("llvm -mcpu=znver4 -num-cores=2")
    sch = schedule_cpu(product(128, 768, 768), zen4)
    text, width = sch.mod["main"].script(), 3 * 16
    assert f'"pragma_prefetch": ["B", {width}]' in text
    assert "B_global" not in text and "T.parallel(2)" in text
    assert text.index("j_1") < text.index("i_1"), "rows are the inner tiles"
    made = mlc.compile(sch, target=AVX512).kernels["main"].compiled
    assert made.assembly.count("prefetch") >= 3
    for m, k, n, form in [
        (128, 256, 256, "NN"),  # fits in the second cache
        (256, 3072, 768, "NN"),  # two tiles of columns do not fit
        (128, 3072, 768, "NN"),  # a column tile lies in too many pages
        (8, 768, 768, "NN"),  # a tile alone
        (128, 768, 1024, "NN"),  # copied
        (128, 768, 768, "TN"),
        (128, 768, 768, "NT"),
    ]:
        plain = schedule_cpu(product(m, k, n, form), zen4)
        assert "pragma_prefetch" not in plain.mod["main"].script(), (m, k, n, form)
    check(61, 700, 400, bias=True)


def test_a_cpu_that_reads_several_streams_by_itself_is_not_asked_a_tile_ahead():
    """Zen 3: rows ahead or a copy, of which the first takes a third less than tiles ahead."""
    zen3 = mlc.target.Target("llvm -mcpu=znver3 -num-cores=1")
    for m, k, n, how in [(48, 512, 1000, "rows"), (64, 512, 512, "copy"), (128, 768, 768, "copy")]:
        text = schedule_cpu(product(m, k, n), zen3).mod["main"].script()
        asked = re.findall(r'"pragma_prefetch": \["B", (\d+)\]', text)
        assert asked == ([str(8 * n)] if how == "rows" else [])
        assert ("B_global" in text) == (how == "copy")


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
def test_sums_of_columns_that_fill_no_vector_stay_in_registers(cpu):
    """A loop over the rows of a tile is written out by LLVM: its places are known there."""
    target = mlc.target.Target(f"llvm -mcpu={cpu} -num-cores=1")
    with Decisions({"copy of B": "no"}):
        made = mlc.compile(product(48, 256, 515), target=target, schedule="default")
    assert "alloca" in str(made.kernels["main"].llvm_ir)
    assert "alloca" not in str(made.kernels["main"].llvm_ir_optimized)


def test_panels_are_copied_eight_rows_at_a_time():
    """A page is left after 8 rows, not after each: 1024 x 1024 took nearly twice the time."""
    text = schedule_cpu(product(1024, 1024, 1024), AVX512).mod["main"].script()
    copy = text[: text.index('T.block("B_global")')].rsplit("for k_0", 1)[-1]
    assert "in T.grid(64, 16, 8):" in copy, "blocks of 8 rows, panels, the rows of a block"


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    ("m", "k", "n", "bias"), [(128, 3072, 768, False), (515, 1000, 37, True), (127, 2048, 70, True)]
)
def test_a_deep_product_is_summed_in_steps_whose_sums_stay_in_registers(cpu, cores, m, k, n, bias):
    """Sums wait in memory between steps, not inside of one: LLVM knows that no buffers overlap."""
    target = mlc.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": cores})
    sch = schedule_cpu(product(m, k, n, bias=bias), target)
    assert "for k_0 in range" in sch.mod.script()
    made = mlc.compile(sch, target=target).kernels["main"]
    hot = max((f.hot for f in facts(made.compiled).values() if f.hot), key=lambda c: c.fma)
    assert (hot.stores, hot.spills) == (0, 0) and hot.vector_fma == hot.fma >= 8


@pytest.mark.slow
@pytest.mark.parametrize("form", ["NN", "TN", "NT"])
def test_deep_products_are_right(form):
    for m, k, n in [(61, 1500, 130), (13, 4096, 37), (128, 1021, 64), (7, 2000, 300)]:
        check(m, k, n, form)
        check(m, k, n, form, bias=True)


def test_what_is_no_product():
    a, b = te.placeholder((8, 9), name="A"), te.placeholder((8, 9), name="B")
    r = te.reduce_axis((0, 9), name="k")
    dot = te.compute((8,), lambda i: te.sum(a[i, r] * b[i, r], axis=r), name="C")
    sch = tir.Schedule(te.create_prim_func([a, b, dot]))
    assert Product.of(Survey.of(sch).anchor) is None


@pytest.mark.parametrize(
    ("m", "k", "n"), [(4096, 4096, 4096), (8192, 2048, 8192), (3000, 5000, 4001), (64, 8192, 8192)]
)
@pytest.mark.parametrize("cores", [1, 2, 16])
def test_large_products_are_cut_into_parts_that_copy_their_own_columns(m, k, n, cores):
    """Parts below each other that copied the same columns were refused, and all went slowly."""
    target = mlc.target.Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": cores})
    sch = schedule_cpu(product(m, k, n), target)
    names = [step.name for step in sch.trace.insts]
    assert "rfactor" not in names and "transform_layout" in names
    assert ("parallel" in names) == (cores > 1)


def packed(rows: int, depth: int, columns: int) -> tir.PrimFunc:
    """C = A W, W in blocks of 32 columns."""
    a = te.placeholder((rows, depth), name="A")
    w = te.placeholder((columns // 32, depth, 32), name="W")
    r = te.reduce_axis((0, depth), name="k")
    c = te.compute(
        (rows, columns),
        lambda i, j: te.sum(a[i, r] * w[j // 32, r, j % 32], axis=r),
        name="matmul_packed",
    )
    return te.create_prim_func([a, w, c])


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "asks"),
    [
        (128, 384, 384, True),
        (100, 384, 96, True),
        (128, 388, 384, False),  # no number of steps from line to line divides the depth
        (16, 384, 384, False),  # too few tiles to share the work
        (128, 64, 64, False),  # it stays in the cache
    ],
)
def test_tiles_of_a_packed_product_ask_for_the_next_block_of_columns(rows, depth, columns, asks):
    func = packed(rows, depth, columns)
    sch = schedule_cpu(func, HOST)
    if HOST.lanes("float32") == 16:
        assert ("pragma_prefetch_next" in sch.mod["main"].script()) == asks
    x, y = random(rows, depth), random(columns // 32, depth, 32)
    found = np.full((rows, columns), np.nan, np.float32)
    mlc.compile(sch)(x, y, found)
    expected = x.astype("float64") @ y.transpose(1, 0, 2).reshape(depth, columns)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def packed_rows(rows: tuple[int, ...], depth: int, columns: int, block: int) -> tir.PrimFunc:
    """C = max(A W + v, 0), W in blocks of columns of which the last is filled up."""
    a = te.placeholder((*rows, depth), name="A")
    w = te.placeholder((-(-columns // block), depth, block), name="W")
    v = te.placeholder((columns,), name="v")
    r = te.reduce_axis((0, depth), name="k")
    c = te.compute(
        (*rows, columns),
        lambda *i: te.sum(a[(*i[:-1], r)] * w[i[-1] // block, r, i[-1] % block], axis=r),
        name="matmul_packed",
    )
    d = te.compute((*rows, columns), lambda *i: tir.op.max(c[i] + v[i[-1]], 0.0), name="D")
    return te.create_prim_func([a, w, v, d])


@pytest.mark.parametrize("columns", [1, 2, 4, 10, 16, 20, 31, 33, 40, 70])
@pytest.mark.parametrize("rows", [(50,), (13, 1), (9, 2), (7, 3), (3, 4, 1), (2, 1, 5), (1, 1)])
def test_packed_products_of_few_columns_and_of_rows_beside_each_other(rows, columns):
    lanes = HOST.lanes("float32")
    func = packed_rows(rows, 24, columns, 2 * lanes)
    sch = schedule_cpu(func, HOST)
    update = sch.mod["main"].script().split('T.block("matmul_packed_update")')[1]
    masks = re.findall(r"T\.where\((.*)\)", update.split("T.reads")[0])
    if columns <= lanes:  # sums under a mask took ten times as long
        assert not any(f"i{len(rows)}_" in mask for mask in masks)
    x, v = random(*rows, 24), random(columns)
    w = np.zeros((-(-columns // (2 * lanes)), 24, 2 * lanes), np.float32)
    flat = random(24, columns)
    for j in range(columns):
        w[j // (2 * lanes), :, j % (2 * lanes)] = flat[:, j]
    found = np.full((*rows, columns), np.nan, np.float32)
    mlc.compile(sch)(x, w, v, found)
    expected = np.maximum(x.astype("float64") @ flat + v, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(("rows", "columns"), [((9, 1), 5), ((5, 3), 21), ((4,), 1)])
def test_they_have_a_schedule_for_vectors_of_every_width(cpu, rows, columns):
    target = mlc.target.Target(f"llvm -mcpu={cpu}")
    func = packed_rows(rows, 4, columns, 2 * target.lanes("float32"))
    sch = schedule_cpu(func, target)
    assert "matmul_packed_pad" in sch.mod["main"].script()
    arrays = [np.ones([int(d) for d in b.shape], "f4") for b in func.buffers]
    mlc.compile(sch, "interp")(*arrays)
    np.testing.assert_array_equal(arrays[-1], 5)


@pytest.mark.parametrize("rows", [(1, 12), (50, 1), (25, 2), (10, 3)])
def test_rows_before_a_short_axis_fill_the_registers(rows):
    """A sequence before its batch had tiles of as many rows as the batch has."""
    text = schedule_cpu(packed_rows(rows, 64, 64, 32), AVX512).mod["main"].script()
    unrolled = [int(n) for n in re.findall(r"_init in T.unroll\((\d+)\)", text)]
    assert np.prod(unrolled) >= 12, unrolled


@pytest.mark.parametrize("rows", [(42,), (56,), (3, 56), (112,)])
def test_what_is_asked_for_ahead_does_not_drive_sums_out_of_registers(rows):
    """Four tiles of a matrix of 384 columns were three times slower than five."""
    func = packed_rows(rows, 96, 384, 32)
    made = mlc.compile(func, target=AVX512, schedule="default").kernels["main"]
    hot = max((f.hot for f in facts(made.compiled).values() if f.hot), key=lambda c: c.fma)
    assert hot.fma == 28
    assert hot.spills == 0
