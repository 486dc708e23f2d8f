"""The vector mathematics: accuracy over dense grids, special values, and pure vector code."""

from __future__ import annotations

import ctypes
import math
import re
from functools import cache

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import te, tir
from mlcnb.codegen.llvm import math as vector_math
from mlcnb.codegen.llvm.engine import Compiled, compile_ir
from mlcnb.codegen.llvm.inspect import facts
from mlcnb.codegen.llvm.library import link
from mlcnb.codegen.llvm.math import ARITY, declarations, fit, math_functions, math_module, symbol
from mlcnb.codegen.llvm.math.build import Body
from mlcnb.codegen.llvm.math.exponential import EXP2_Q, EXP_Q
from mlcnb.codegen.llvm.math.inverse import ATAN_A
from mlcnb.codegen.llvm.target_machine import Cpu
from mlcnb.core.errors import CodegenError
from mlcnb.target import Target

INF, NAN = math.inf, math.nan
KIND = {"float32": "float", "float64": "double"}
INVERSE = ("acos", "acosh", "asin", "asinh", "atan", "atanh")
UNARY = sorted(name for name in ARITY if ARITY[name] == 1)
#: what has a way through the C library for rare arguments
WITH_CALLS = {"sin", "cos", "tan", "fmod"}

#: the bound that each function promises, in units in the last place
ULPS = {
    "exp": 2, "exp2": 2, "expm1": 2, "log": 2, "log2": 2, "log1p": 2,
    "tanh": 3, "erf": 3, "sigmoid": 3, "sin": 2, "cos": 2, "tan": 3, "atan": 2, "asin": 3,
    "acos": 2, "sinh": 3, "cosh": 3, "asinh": 3, "acosh": 3, "atanh": 3,
}  # fmt: skip


def loop(name: str, lanes: int, dtype: str = "float32", cpu: str = "x86-64") -> str:
    """void f(x, y, result, n): a loop that calls the function on `lanes` elements at a time."""
    features = Target(f"llvm -mcpu={cpu}").features
    kind = KIND[dtype]
    vector = Body(lanes).type(kind)
    given = f"{vector} %x" if ARITY[name] == 1 else f"{vector} %x, {vector} %y"
    return f"""
define void @f(ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %a.at = getelementptr {kind}, ptr %a, i64 %i
  %b.at = getelementptr {kind}, ptr %b, i64 %i
  %c.at = getelementptr {kind}, ptr %c, i64 %i
  %x = load {vector}, ptr %a.at, align 4
  %y = load {vector}, ptr %b.at, align 4
  %z = call {vector} {symbol(name, lanes, dtype)}({given})
  store {vector} %z, ptr %c.at, align 4
  %next = add i64 %i, {lanes}
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}
{math_module([(name, lanes, dtype)], features)}"""


@cache
def compiled_loop(name: str, lanes: int, cpu: str = "host", dtype: str = "float32") -> Compiled:
    return compile_ir(loop(name, lanes, dtype, cpu), Cpu.named(cpu))


def apply(name, lanes, x, y=None, cpu="host", dtype="float32"):
    """The function on arrays of any length."""
    n = -(-x.size // lanes) * lanes
    x = np.concatenate([x, np.ones(n - x.size, dtype)]).astype(dtype)
    y = x if y is None else np.concatenate([y, np.ones(n - y.size, dtype)]).astype(dtype)
    result = np.empty(n, dtype)
    pointer = ctypes.c_void_p
    library = link([compiled_loop(name, lanes, cpu, dtype)])
    f = library.function("f", None, pointer, pointer, pointer, ctypes.c_int64)
    f(x.ctypes.data, y.ctypes.data, result.ctypes.data, n)
    return result


def reference(name: str, x: np.ndarray) -> np.ndarray:
    """The function in float64."""
    with np.errstate(all="ignore"):
        x = x.astype(np.float64)
        if name == "erf":
            return np.array([math.erf(v) for v in x])
        if name == "sigmoid":
            return np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x)))
        return getattr(np, name.replace("a", "arc", 1) if name in INVERSE else name)(x)


def ulps(got: np.ndarray, exact: np.ndarray) -> float:
    """Largest distance in units in the last place; inf where only one is a finite number."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        finite = np.isfinite(got) & np.isfinite(rounded)
        unit = np.maximum(np.spacing(np.abs(rounded)).astype(np.float64), 2.0**-149)
        distance = np.abs(got.astype(np.float64) - exact) / unit
    return float(np.where(finite, distance, np.where(same, 0.0, INF)).max(initial=0.0))


def all_magnitudes(step: int) -> np.ndarray:
    """Every `step`-th of all bit patterns: normals, denormals, infinities, nans, both signs."""
    return np.arange(0, 2**32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


#: where each function does something, densely
RANGES = {
    "exp": (-105, 90), "exp2": (-152, 130), "expm1": (-20, 90), "log": (1e-3, 4), "log2": (1e-3, 4),
    "log1p": (-0.999, 4), "tanh": (-10, 10), "erf": (-4.5, 4.5), "sigmoid": (-105, 20),
    "sin": (-30, 30), "cos": (-30, 30), "tan": (-30, 30), "atan": (-9, 9), "asin": (-1, 1),
    "acos": (-1, 1), "sinh": (-90, 90), "cosh": (-90, 90), "asinh": (-9, 9), "acosh": (1, 9),
    "atanh": (-1, 1),
}  # fmt: skip

CPUS = ["host"] + (["x86-64", "x86-64-v3"] if Cpu.host().arch == "x86_64" else [])
RUNNABLE = [name for name in CPUS if Cpu.named(name).runs_here]


@pytest.mark.parametrize("cpu", RUNNABLE)
@pytest.mark.parametrize("name", UNARY)
def test_accuracy(name, cpu):
    low, high = RANGES[name]
    step = 200_003 if name == "erf" else 20_011
    grids = [all_magnitudes(step), np.linspace(low, high, 60_000, dtype=np.float32)]
    x = np.concatenate(grids)
    exact = reference(name, x)
    for lanes in (1, 8) if cpu != "host" else (1, 4, 8, 16):
        assert ulps(apply(name, lanes, x, cpu=cpu)[: x.size], exact) <= ULPS[name]


#: (argument, result) where C's standard says it exactly; the sign of zero counts
SPECIAL = {
    "exp": [(0, 1), (-0.0, 1), (INF, INF), (-INF, 0.0), (NAN, NAN), (89, INF), (-104, 0.0)],
    "exp2": [(0, 1), (10, 1024), (-149, 2**-149), (128, INF), (-151, 0.0), (NAN, NAN)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (NAN, NAN), (1e-45, 1e-45)],
    "log": [(1, 0.0), (0.0, -INF), (-0.0, -INF), (-1, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)],
    "log2": [(1, 0.0), (8, 3), (2**-149, -149), (0.0, -INF), (-1, NAN), (INF, INF), (NAN, NAN)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1, -INF), (-2, NAN), (INF, INF), (1e-45, 1e-45)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (20, 1), (1e-45, 1e-45)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (5, 1), (-5, -1)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (1e-45, 1e-45)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, np.pi / 2), (-INF, -np.pi / 2), (NAN, NAN),
             (1e-45, 1e-45), (1, np.pi / 4)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1, np.pi / 2), (-1, -np.pi / 2), (2, NAN), (-INF, NAN),
             (INF, NAN), (NAN, NAN), (1e-45, 1e-45)],
    "acos": [(1, 0.0), (-1, np.pi), (0.0, np.pi / 2), (2, NAN), (-2, NAN), (INF, NAN), (NAN, NAN)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (90, INF),
             (-90, -INF), (1e-45, 1e-45)],
    "cosh": [(0, 1), (INF, INF), (-INF, INF), (NAN, NAN), (90, INF), (-90, INF)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (1e-45, 1e-45)],
    "acosh": [(1, 0.0), (0.5, NAN), (-1, NAN), (-1e30, NAN), (-INF, NAN), (INF, INF), (NAN, NAN)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (2, NAN), (-2, NAN), (NAN, NAN),
              (INF, NAN), (1e-45, 1e-45)],
    "sigmoid": [(0, 0.5), (INF, 1), (-INF, 0.0), (NAN, NAN), (40, 1), (-110, 0.0)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (1e-45, 1e-45)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN), (NAN, NAN)],
}  # fmt: skip


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name, lanes):
    x = np.array([pair[0] for pair in SPECIAL[name]], np.float32)
    expected = np.array([pair[1] for pair in SPECIAL[name]], np.float32)
    got = apply(name, lanes, x)[: x.size]
    numbers = ~np.isnan(expected)
    assert (np.isnan(got) == np.isnan(expected)).all()
    assert (got[numbers] == expected[numbers]).all()
    assert (np.signbit(got[numbers]) == np.signbit(expected[numbers])).all()


def test_denormal_results():
    x = np.linspace(-103.9, -87.4, 4096, dtype=np.float32)
    for name in ("exp", "sigmoid"):
        got = apply(name, 16, x)
        assert (got > 0).all() and (got < 2.0**-126).all()
        assert ulps(got, reference(name, x)) <= 1


def test_results_stay_in_range():
    x = all_magnitudes(20_011)
    with np.errstate(invalid="ignore"):
        for name in ("tanh", "erf", "sin", "cos"):
            got = apply(name, 16, x)[: x.size]
            assert (np.abs(got[~np.isnan(got)]) <= 1).all()
        odd = apply("tanh", 16, x) == -apply("tanh", 16, -x)
    assert odd[: x.size][~np.isnan(x)].all()


def test_far_angles_go_to_the_library():
    x = np.float32([1.5, 1e9, -3e20, 3.4e38, 0.25, 1e8])
    for name in ("sin", "cos", "tan"):
        for lanes in (1, 4):
            exact = np.array([getattr(math, name)(float(v)) for v in x])
            assert ulps(apply(name, lanes, x)[: x.size], exact) <= 2


def pow_pairs():
    """Every special value with every other, and random pairs of several kinds."""
    rng = np.random.default_rng(7)
    special = np.float32([
        0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, INF, -INF, NAN, 1e-45, -1e-45, 1e-38, 3.4e38,
        -3.4e38, 16777216, 16777217, -16777216, 8388609, 1e10, -1e10, 1.0000001, 0.9999999, 7, 33,
    ])  # fmt: skip
    n = 20_000
    bits = rng.integers(0, 2**32, 2 * n, dtype=np.uint64).astype(np.uint32).view(np.float32)
    yield np.repeat(special, special.size), np.tile(special, special.size)
    yield bits[:n], bits[n:]
    yield np.exp(rng.normal(0, 3, n)).astype(np.float32), rng.normal(0, 5, n).astype(np.float32)
    yield rng.normal(0, 4, n).astype(np.float32), rng.integers(-20, 20, n).astype(np.float32)
    near_one = (1 + rng.normal(0, 1e-4, n)).astype(np.float32)
    yield near_one, rng.normal(0, 1e5, n).astype(np.float32)


@pytest.mark.parametrize("cpu", RUNNABLE)
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_pow(lanes, cpu):
    for x, y in pow_pairs():
        with np.errstate(all="ignore"):
            exact = np.power(x.astype(np.float64), y.astype(np.float64))
            signs = np.signbit(exact.astype(np.float32))
        got = apply("pow", lanes, x, y, cpu=cpu)[: x.size]
        assert ulps(got, exact) <= 0.51
        assert (np.signbit(got) == signs)[~np.isnan(exact)].all()


def fmod_pairs(dtype):
    """Special values with each other, any bits, whole quotients, some that round to them, large."""
    rng = np.random.default_rng(7)
    tiny, one = np.finfo(dtype).smallest_subnormal, np.asarray(1, dtype)
    few = [0, -0.0, 1, -1, 0.5, 3, -7.25, 2**24, 1e30, tiny, -3 * tiny, INF, -INF, NAN]
    yield tuple(a.ravel() for a in np.meshgrid(np.array(few, dtype), np.array(few, dtype)))
    bits, n = np.dtype(dtype).itemsize, 100_000
    yield tuple(np.frombuffer(rng.bytes(n * bits), dtype) for _ in "xy")
    y = rng.normal(0, 1, n).astype(dtype)
    whole = rng.integers(-(2**25), 2**25, n)
    yield whole.astype(dtype) * y, y
    yield (
        np.nextafter((whole % 4096).astype(dtype) * y, rng.choice([-INF, INF], n).astype(dtype)),
        y,
    )
    yield np.nextafter(y, 0 * one), y
    yield rng.normal(0, 1e12, n).astype(dtype), y
    yield tiny * rng.integers(-99, 99, n).astype(dtype), tiny * rng.integers(1, 9, n).astype(dtype)


@pytest.mark.parametrize("cpu", RUNNABLE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_fmod_is_exact(lanes, dtype, cpu):
    for x, y in fmod_pairs(dtype):
        with np.errstate(all="ignore"):
            exact = np.fmod(x, y)
        got = apply("fmod", lanes, x, y, cpu=cpu, dtype=dtype)[: x.size]
        np.testing.assert_array_equal(got, exact)
        defined = ~np.isnan(exact)
        assert (np.signbit(got) == np.signbit(exact))[defined].all()


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4", "apple-m1"])
def test_fmod_calls_nothing_on_its_hot_path(cpu):
    hot = facts(compile_ir(loop("fmod", 8, cpu=cpu), Cpu.named(cpu)))["f"].hot
    assert hot is not None and hot.vector_share > 0.6 and hot.instructions < 80


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3", "x86-64-v4", "cortex-a72", "apple-m1"])
@pytest.mark.parametrize("name", sorted(set(ARITY) - WITH_CALLS))
def test_pure_vector_code(name, cpu):
    for lanes in (4, 8, 16):
        found = facts(compile_ir(loop(name, lanes, cpu=cpu), Cpu.named(cpu)))
        assert list(found) == ["f"]
        kernel = found["f"]
        assert kernel.calls == ()
        assert kernel.hot is not None and kernel.hot.vector_share > 0.8


@pytest.mark.parametrize("lanes, width", [(4, "xmm"), (8, "ymm"), (16, "zmm")])
def test_an_exponential_is_fifteen_instructions_where_there_is_vscalef(lanes, width):
    """Limits, range reduction, six multiply-adds, the power of two; a load and a store."""
    made = compile_ir(loop("exp", lanes, cpu="x86-64-v4"), Cpu.named("x86-64-v4"))
    scaled = [line for line in made.assembly.splitlines() if "vscalefps" in line]
    assert scaled and all(width in line for line in scaled)
    hot = facts(made)["f"].hot
    assert hot is not None and hot.instructions <= 15 * len(scaled) + 6
    assert "vscalefps" not in compile_ir(loop("exp", lanes), Cpu.named("x86-64-v4")).assembly


@pytest.mark.parametrize("cpu", RUNNABLE)
@pytest.mark.parametrize("name", ["exp", "sigmoid"])
def test_lanes_near_zero_are_the_same_beside_others(name, cpu):
    """A vector all of whose lanes are near takes another way than one with a lane that is not."""
    edge = np.array([86.0, 86.01, 87.4, -86.0, -86.01, -87.4, 0.0, NAN], np.float32)
    near = np.linspace(-86, 86, 4096, dtype=np.float32)
    mixed = np.insert(near, np.arange(0, 4096, 3), np.resize(edge, 1366))
    alone = apply(name, 1, mixed, cpu=cpu)[: mixed.size]
    for lanes in (4, 8, 16):
        np.testing.assert_array_equal(apply(name, lanes, mixed, cpu=cpu)[: mixed.size], alone)
        together = apply(name, lanes, near, cpu=cpu)[: near.size]
        np.testing.assert_array_equal(together, apply(name, 1, near, cpu=cpu)[: near.size])


def test_an_exponential_near_zero_has_no_limits_and_no_factors():
    """Range reduction, six multiply-adds, the exponent; and whether all lanes are near."""
    assembly = compile_ir(loop("exp", 8, cpu="x86-64-v3"), Cpu.named("x86-64-v3")).assembly
    near = assembly.split(".LBB0_1:")[1].split(".LBB0_3:")[0]
    words = re.findall(r"^\t(v\w+)", near, re.MULTILINE)
    assert len(words) <= 23
    assert sum(w.startswith("vf") for w in words) == 9
    assert not {"vmulps", "vminps", "vmaxps"} & {*words}


@pytest.mark.parametrize("name", sorted(set(ARITY) - WITH_CALLS))
def test_scalar_calls_become_vector_loops(name):
    kernel = facts(compile_ir(loop(name, 1), Cpu.named("x86-64-v3")))["f"]
    assert kernel.calls == ()
    assert kernel.hot is not None and kernel.hot.vector_share > 0.8
    assert kernel.vector_bits == 256


#: in float64: the range where each does something, and its largest error in units of the last place
WIDE = {
    "exp": (-746, 710, 1.25), "log": (0.5, 1.6, 0.9), "sigmoid": (-746, 40, 2.5),
    "tanh": (-20, 20, 2.7), "exp2": (-1076, 1025, 1.25), "expm1": (-40, 710, 2),
    "log2": (0.5, 1.6, 2.5), "log1p": (-0.999, 3, 2), "erf": (-6, 6, 2), "sin": (-1.1e6, 1.1e6, 1),
    "cos": (-1.1e6, 1.1e6, 1), "tan": (-1.1e6, 1.1e6, 2.5), "atan": (-9, 9, 2),
    "asin": (-1, 1, 3), "acos": (-1, 1, 2),
    "sinh": (-711, 711, 3), "cosh": (-711, 711, 3), "asinh": (-9, 9, 3), "acosh": (1, 9, 3),
    "atanh": (-1, 1, 3),
}  # fmt: skip
EDGES = [
    0.0, -0.0, INF, -INF, math.nan, 5e-324, -5e-324, 2.0**-1022, -(2.0**-1022), 2.0**-1023,
    1.7976931348623157e308, -1.7976931348623157e308, 709.782712893384, 709.7827128933841,
    -708.3964185322641, -745.1332191019411, -745.1332191019412, 19.0, 19.1, 1.0, -1.0,
    math.nextafter(1, 0), math.nextafter(1, 2), math.sqrt(0.5), math.sqrt(2),
]  # fmt: skip


def wide_reference(name: str, x: np.ndarray) -> np.ndarray:
    """The function in 80-bit floats."""
    with np.errstate(all="ignore"):
        x = x.astype(np.longdouble)
        if name == "sigmoid":
            small = np.exp(-np.abs(x))
            return np.where(x < 0, small, np.longdouble(1)) / (1 + small)
        if name == "erf":
            size = np.abs(x)
            found = fit.erf_pair(np.clip(size, 2.0**-40, 7))[0]
            tiny = 2 / np.sqrt(4 * np.arctan(np.longdouble(1))) * size
            return np.copysign(np.where(size < 2.0**-40, tiny, found), x)
        return getattr(np, name.replace("a", "arc", 1) if name in INVERSE else name)(x)


@pytest.mark.slow
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="compared with 80-bit floats")
@pytest.mark.parametrize("cpu", RUNNABLE)
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", WIDE)
def test_accuracy_in_float64(name, lanes, cpu):
    rng = np.random.default_rng(0)
    low, high, bound = WIDE[name]
    bits = rng.integers(0, 2**64, 100_000, dtype=np.uint64).view(np.float64)
    small = rng.standard_normal(100_000) * 2.0 ** rng.integers(-1074, 3, 100_000)
    x = np.concatenate([bits, small, rng.uniform(low, high, 200_000), EDGES])
    got = apply(name, lanes, x, cpu=cpu, dtype="float64")[: x.size]
    with np.errstate(all="ignore"):
        exact = wide_reference(name, x)
        rounded = exact.astype(np.float64)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        finite = np.isfinite(got) & np.isfinite(rounded)
        unit = np.maximum(np.spacing(np.abs(rounded)), 2.0**-1074).astype(np.longdouble)
        distance = np.where(finite, np.abs(got - exact) / unit, np.where(same, 0, INF))
    assert distance.max() <= bound, x[np.argmax(distance)]
    zeros = (got == 0) & (rounded == 0)
    assert (np.signbit(got[zeros]) == np.signbit(rounded[zeros])).all()


@pytest.mark.slow
@pytest.mark.skipif(Cpu.host().arch != "x86_64", reason="the bits of its vectors")
@pytest.mark.parametrize("name", sorted(set(WIDE) - WITH_CALLS))
def test_float64_calls_become_vector_loops(name):
    kernel = facts(compile_ir(loop(name, 1, "float64"), Cpu.named("x86-64-v4")))["f"]
    assert kernel.calls == ()
    assert kernel.hot is not None and kernel.hot.vector_share > 0.7


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_float64_is_the_c_library(lanes):
    x = np.array([0.1, 0.5, 0.9, -0.3, 0.7, 0.2, 0.01, 0.99])
    y = np.linspace(-2, 2, 8)
    for name in UNARY:
        values = np.abs(x) if name.startswith("log") else x + 1.5 if name == "acosh" else x
        got = apply(name, lanes, values, dtype="float64")
        if name == "sigmoid":
            expected = 1 / (1 + np.exp(-values))
        else:
            scalar = {"exp2": np.exp2}.get(name) or getattr(math, name)
            expected = np.array([scalar(v) for v in values])
        rounded = name in ("sigmoid", "tanh")  # a quotient of rounded sums: up to 2.6 ulp
        np.testing.assert_allclose(got, expected, rtol=6e-16 if rounded else 4e-16)
    got = apply("pow", lanes, np.abs(x), y, dtype="float64")
    assert (got == np.abs(x) ** y).all()


def test_names_and_text():
    assert symbol("exp", 16) == "@mlcnb.exp.v16f32"
    assert symbol("exp", 1) == "@mlcnb.exp.f32"
    assert symbol("erf", 4, "float64") == "@mlcnb.erf.v4f64"
    head = math_functions("pow", 8).splitlines()[0]
    assert head == (
        "define internal <8 x float> @mlcnb.pow.v8f32(<8 x float> %x, <8 x float> %y) "
        "alwaysinline nounwind willreturn memory(none) {"
    )
    assert declarations("exp") == ()
    assert declarations("pow", "float64") == (
        "declare double @pow(double, double) nounwind willreturn memory(none)",
    )


def test_a_module_has_each_definition_once():
    wanted = [("sin", 4, "float32"), ("erf", 4, "float64"), ("sin", 4, "float32")]
    wanted += [("erf", 1, "float64"), ("sin", 8, "float32")]
    wanted += [("pow", 1, "float64"), ("pow", 4, "float64")]
    text = math_module(wanted)
    assert text.count("declare double @pow(") == 1
    assert text.count("declare float @sinf(") == 1
    assert text.count("define internal") == 6
    compile_ir(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gamma", 4), f"no function 'gamma': there are {', '.join(sorted(ARITY))}"),
        (("exp", 4, "float16"), "exp is made for float32 and float64, not for float16"),
        (("exp", 0), "exp cannot have 0 lanes"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(CodegenError) as error:
        math_functions(*arguments)
    assert str(error.value) == message


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="fitted in 80-bit floats")
@pytest.mark.parametrize(
    ("name", "table"), [("EXP_Q", EXP_Q), ("EXP2_Q", EXP2_Q), ("ATAN_A", ATAN_A)]
)
def test_coefficients_are_those_of_the_fit(name, table):
    f, weight, low, high, degree, _ = fit.FITS[name]
    coefficients, error = fit.fit(f, weight, low, high, degree)
    assert error < 4e-9
    np.testing.assert_allclose(np.float32(coefficients), table, rtol=1e-6)


def test_docstring_names_every_function():
    assert vector_math.__doc__ is not None
    for name in ARITY:
        assert f" {name} " in vector_math.__doc__.replace("\n", " ")


@pytest.mark.parametrize("name", ["log", "log2", "log1p"])
def test_logarithms_of_denormals_while_a_program_runs(name):
    """Denormals count as zero then, to whoever compares them as floats: log was -103.97 of all."""
    smallest = np.float32(2.0**-149)
    x = (smallest * np.geomspace(1, 2**24, 64).round()).astype("float32")
    x = np.concatenate([x, np.array([0.0, -0.0, 2.0**-126, 1.0], "float32")])
    A = te.placeholder(x.shape, name="A")
    B = te.compute(x.shape, lambda i: getattr(tir, name)(A[i]), name="B")
    found = np.zeros_like(x)
    mlc.compile(te.create_prim_func([A, B]), target="llvm")(x, found)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = getattr(np, name)(x.astype("float64")).astype("float32")
    np.testing.assert_allclose(found, expected, rtol=2e-7, atol=0)
