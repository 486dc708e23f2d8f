"""float32 as tensor cores take it: rounded alike by the interpreter, by `cuda-sim` and in CUDA."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import te
from mlcnb.codegen.cuda import nvrtc
from mlcnb.codegen.interp import run_prim_func
from mlcnb.tir.analysis.mma import FORMS, as_tf32
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform import lower
from tests.tir.test_ldmatrix import by_a_warp
from tests.tir.test_tensor_intrin import on_tensor_cores, replays, text

FORM = FORMS["float32"]


def rounded(x: np.ndarray) -> np.ndarray:
    """tf32 by arithmetic on doubles: the nearest of 11 bits, ties away from zero, no end."""
    wide = x.astype("float64")
    digits, power = np.frexp(wide)
    last = np.maximum(power - 11, -126 - 10)  # denormals have the last place of the least normal
    near = np.ldexp(np.trunc(np.ldexp(wide, -last) + np.copysign(0.5, wide)), last)
    with np.errstate(over="ignore"):
        return np.where(np.isfinite(x), near, wide).astype("float32")


def numbers(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers that tf32 rounds to -3 … 3: sums of products of those are exact in float32, so that
    each result can be told to the last bit, and none of them is right without the rounding.
    """
    off = random.uniform(-1, 1, shape) * 2.0**-13
    return (random.integers(-3, 4, shape) * (1 + off)).astype("float32")


def of_many(values: np.ndarray, run) -> np.ndarray:
    """`as_tf32` of each, by a function that runs a program."""
    A = te.placeholder((len(values),), name="A")
    B = te.compute(A.shape, lambda i: as_tf32(A[i]), name="B")
    out = np.zeros_like(values)
    run(te.create_prim_func([A, B]), [values, out])
    return out


def natively(func, args) -> None:
    mlc.compile(func, target="llvm")(*args)


#: ties of both signs and of both neighbours, the ends, denormals, what is not a number
EDGES = [
    0x00000000, 0x80000000, 0x3F800FFF, 0x3F801000, 0x3F801001, 0x3F803000, 0xBF801000, 0xBF803000,
    0x3FFFF000, 0x7F7FEFFF, 0x7F7FF000, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x00000001, 0x00001000,
    0x807FF000, 0x007FFFFF,
]  # fmt: skip


@pytest.mark.parametrize("run", [run_prim_func, natively])
def test_ties_go_away_from_zero(run):
    edges = np.array(EDGES, "uint32").view("float32")
    found = of_many(edges, run)
    np.testing.assert_array_equal(found.view("uint32"), rounded(edges).view("uint32"))
    assert found[3] == 1 + 2.0**-10 and found[6] == -(1 + 2.0**-10) and np.isinf(found[10])


@pytest.mark.parametrize("run", [run_prim_func, natively])
def test_what_is_not_a_number_stays_none(run):
    """Its bits plus half a unit would be -0.0, without the low ones infinity."""
    nans = np.array([0x7FFFFFFF, 0x7F800001, 0xFFFFFFFF, 0x7FC00000], "uint32").view("float32")
    assert np.isnan(of_many(nans, run)).all()


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40))
def test_any_bits(bits):
    values = np.array(bits, "uint32").view("float32")
    values = values[~np.isnan(values)]
    if len(values):
        found = of_many(values, run_prim_func)
        np.testing.assert_array_equal(found.view("uint32"), rounded(values).view("uint32"))


def runs(sch: Schedule):
    """The interpreter, and the simulation."""
    yield lambda *args: run_prim_func(sch.mod["main"], args)
    yield mlc.compile(sch, target="cuda-sim")


def test_fragments_loaded_element_by_element():
    """m16n8k8 with plain loads: what TVM's tests call mma_sync."""
    func, sch = on_tensor_cores("float32")
    assert "mma_sync_16x8x8_tf32tf32f32" in str(sch.trace)
    assert 'T.ptx_mma("float32", "m16n8k8", "row", "col", "tf32", "tf32", "fp32"' in text(sch)
    replays(sch)
    random = np.random.default_rng(1)
    a, b = (numbers(random, [int(n) for n in x.shape]) for x in func.buffers[:2])
    for run in runs(sch):
        out = np.full((32, 16), np.nan, "float32")
        run(a, b, out)
        np.testing.assert_array_equal(out, np.rint(a) @ np.rint(b))


@pytest.mark.slow
@pytest.mark.parametrize("turned", [(False, True), (True, False), (False, False)])
def test_a_warp_multiplies(turned):
    """Tiles of 16 x 8, by ldmatrix where k lies side by side, else one by one: to the last bit."""
    func, sch = by_a_warp("float32", *turned)
    assert ("mma_ldmatrix_tf32_a" in str(sch.trace)) != turned[0]
    assert ("mma_ldmatrix_tf32_b_trans" in str(sch.trace)) == turned[1]
    random = np.random.default_rng(2)
    a, b = (numbers(random, [int(n) for n in x.shape]) for x in func.buffers if x.name in "AB")
    x, y = (np.rint(v).T if t else np.rint(v) for v, t in zip((a, b), turned, strict=True))
    lowered = lower(sch.mod["main"])
    for run in (*runs(sch), lambda *args: run_prim_func(lowered, args)):
        out = np.full((32, 32), np.nan, "float32")
        run(a, b, out)
        np.testing.assert_array_equal(out, x @ y)


def test_each_register_is_held_once():
    points = set(np.ndindex(32, 4))
    assert {FORM.layout_a(i, k) for i in range(16) for k in range(8)} == points
    assert {FORM.layout_b_16(k, j) for k in range(8) for j in range(16)} == points
    assert all(FORM.layout_b_16(*FORM.place_b_16(*at)) == at for at in points)
    assert [FORM.place_a(5, l) for l in range(4)] == [(1, 1), (9, 1), (1, 5), (9, 5)]
    assert [FORM.place_b(5, l) for l in range(2)] == [(1, 1), (5, 1)]


@pytest.mark.slow
@pytest.mark.skipif(not nvrtc.is_available(), reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_instructions(arch):
    _, sch = by_a_warp("float32", False, True)
    made = nvrtc.compile_text(mlc.compile(sch, target="cuda").kernels[0].source, arch)
    (facts,) = made.resources.values()
    assert (facts.spill_stores, facts.spill_loads, facts.stack) == (0, 0, 0)
    loads, products = (made.ptx.count(x) for x in ("m8n8.x4.shared", "f32.tf32.tf32.f32"))
    assert products == made.ptx.count("mma.sync") == 2 * loads
    assert made.ptx.count("cvt.rna.tf32.f32") >= 4 * loads
