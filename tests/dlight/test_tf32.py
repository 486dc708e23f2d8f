"""`dl.gpu.Matmul(tf32=True)`: products of float32 on tensor cores, where that is asked for."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import dlight as dl
from mlcnb import meta_schedule as ms
from mlcnb import te, tir
from mlcnb.codegen.cuda import nvrtc
from mlcnb.codegen.races import races
from mlcnb.dlight.survey import Survey
from mlcnb.ir.module import IRModule
from mlcnb.meta_schedule import schedule_rule as rules
from mlcnb.target import Target
from tests.codegen.test_tf32 import numbers, rounded
from tests.dlight.test_gpu_rules import ARCHITECTURES, SIM, few
from tests.dlight.test_gpu_rules import product as of_floats

PRODUCT = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
tensor_cores = import_module("mlcnb.dlight.gpu.tensor_cores")
with_tf32 = dl.gpu.Matmul(tf32=True)


def product(batch: int, rows: int, columns: int, length: int, turned: bool, b_turned: bool):
    """A product of numbers that tf32 rounds to whole ones, and 2 y + 1 after it; X may lie as
    (k, m), W as (n, k).
    """
    lead = (batch,) if batch else ()
    shapes = [(length, rows) if turned else (rows, length),
              (columns, length) if b_turned else (length, columns)]  # fmt: skip
    X, W = (te.placeholder((*lead, *s), name=n) for s, n in zip(shapes, "XW", strict=True))
    k = te.reduce_axis((0, length), name="k")

    def term(*at):
        *b, i, j = at
        x, w = ((k, i) if turned else (i, k)), ((j, k) if b_turned else (k, j))
        return te.sum(X[(*b, *x)] * W[(*b, *w)], axis=k)

    Y = te.compute((*lead, rows, columns), term, name="Y")
    Z = te.compute(Y.shape, lambda *at: Y[at] * 2.0 + 1.0, name="Z")
    random = np.random.default_rng(rows + columns + length)
    x, w = (numbers(random, (*lead, *s)) for s in shapes)
    a, b = (v.swapaxes(-1, -2) if t else v for v, t in ((x, turned), (w, b_turned)))
    expected = np.matmul(np.rint(a), np.rint(b)) * 2 + 1
    return te.create_prim_func([X, W, Z]), [x, w], expected


def check(made, by=None) -> str:
    """Tensor cores take a product, and each number is that of rounded operands; its CUDA C++."""
    func, args, expected = made
    sch = tir.Schedule(func)
    assert tensor_cores.tensor_cores(sch, Survey.of(sch), SIM, by, tf32=True)
    ex = mlc.compile(sch, target=SIM)
    out = np.full(expected.shape, np.nan, "float32")
    ex(*args, out)
    np.testing.assert_array_equal(out, expected)
    source = ex.kernels[0].source
    assert PRODUCT in source and "ldmatrix_x4_trans" not in source
    return source


@pytest.mark.slow
@few
@given(
    st.integers(0, 2), st.integers(16, 90), st.integers(16, 90), st.integers(16, 90),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_any_sizes(batch, rows, columns, length, turned, b_turned):
    """Ragged sizes, operands however they lie: to the last bit."""
    check(product(batch, rows, columns, length, turned, b_turned))


@pytest.mark.parametrize("turned", [(False, True), (True, False)])
def test_operands_are_fetched_as_they_lie(turned):
    """By ldmatrix where k lies side by side; else element by element, and yet fetched ahead."""
    made = product(0, 48, 40, 64, *turned)
    source = check(made)
    assert ("ldmatrix_x4(" in source) == turned[1]
    assert "cp_async_or_zeros<16>" in source or "cp_async<16>" in source
    sch = with_tf32.apply(made[0], SIM)
    assert sch is not None and races(sch.mod["main"]) == ()


@pytest.mark.slow
@pytest.mark.parametrize("tile", ["TILE", "PARTLY", "SMALL"])
@pytest.mark.parametrize("turned", [(False, True), (True, False)])
def test_large_tiles_on_small_products(tile, turned):
    check(product(2, 136, 250, 104, *turned), getattr(tensor_cores, tile))


def test_nothing_is_rounded_unasked():
    func, *_ = of_floats(1, 64, 64, 64, False, False)
    for rule in (dl.gpu.Matmul(), dl.gpu.Matmul(tf32=False), dl.gpu.Matmul):
        sch = rule.apply(func, SIM)
        assert sch is not None and "tf32" not in str(sch.trace) + sch.mod.script()
    source = mlc.compile(func, target="cuda", schedule="default").kernels[0].source
    assert "mma" not in source
    sch = with_tf32.apply(func, SIM)
    assert sch is not None and "mma_tf32tf32f32" in str(sch.trace)


def test_as_a_pass():
    func, args, expected = product(0, 40, 40, 40, False, False)
    mod = IRModule.from_expr(func.with_attr("global_symbol", "main"))
    with SIM:
        made = dl.ApplyDefaultSchedule(dl.gpu.Matmul(tf32=True), dl.gpu.Fallback())(mod)
    out = np.full(expected.shape, np.nan, "float32")
    mlc.compile(made, target=SIM)(*args, out)
    np.testing.assert_array_equal(out, expected)


def test_what_it_costs():
    """Against float64: 11 bits of each operand are 1e-3 of a term, and sums stay float32's."""
    func, (x, w), expected = of_floats(1, 64, 64, 256, False, False)
    found = np.full(expected.shape, np.nan, "float32")
    mlc.compile(with_tf32.apply(func, SIM), target=SIM)(x, w, found)
    terms = np.matmul(np.abs(x), np.abs(w), dtype="float64")
    assert 1e-5 < (np.abs(found - expected) / terms).max() < 2 * 2.0**-11
    exact = np.matmul(rounded(x), rounded(w), dtype="float64")
    assert (np.abs(found - exact) / terms).max() < 1e-6


def test_halves_and_bytes_stay_what_they_were():
    from tests.dlight.test_gpu_rules import byte_product, halves

    for func, *_ in (halves("float16", 0, 64, 64, 64), byte_product(0, 64, 64, 64, False, True)):
        with_it, without = (r.apply(func, SIM) for r in (with_tf32, dl.gpu.Matmul))
        assert with_it.mod.script() == without.mod.script()


def test_a_gpu_older_than_tensor_cores_of_float32():
    func, *_ = of_floats(1, 64, 64, 64, False, False)
    sch = with_tf32.apply(func, Target("cuda -arch=sm_75"))
    assert sch is not None and "mma" not in sch.mod.script()


def test_the_search_is_asked_too():
    func, *_ = of_floats(1, 128, 128, 64, False, False)
    for asked in (False, True):
        rule = rules.MultiLevelTilingTensorCore(tf32=asked)
        space = ms.space_generator.PostOrderApply([rule], postprocs=[], mutator_probs=None)
        ctx = ms.TuneContext(func, target="cuda -arch=sm_80", space_generator=space)
        made = ctx.generate_design_space()
        assert made and all(("mma_tf32tf32f32" in str(x.trace)) == asked for x in made)


@pytest.mark.slow
@pytest.mark.skipif(not nvrtc.is_available(), reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("turned", [(False, True), (True, False), (False, False)])
def test_nothing_spills(arch, turned):
    func, *_ = product(0, 1024, 2048, 1024, *turned)
    sch = with_tf32.apply(func, Target(f"cuda -arch={arch}"))
    made = nvrtc.compile_text(mlc.compile(sch, target=f"cuda -arch={arch}").kernels[0].source, arch)
    (facts,) = made.resources.values()
    assert (facts.spill_stores, facts.spill_loads, facts.stack) == (0, 0, 0)
    assert made.ptx.count(PRODUCT) == made.ptx.count("mma.sync") > 0
