"""The LLVM backend against the interpreter and NumPy: every dtype, operation, statement."""

from __future__ import annotations

import threading
from textwrap import dedent

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import relax, te, tir
from mlcnb.codegen.interp import run_prim_func
from mlcnb.codegen.llvm.emit import emit_kernel
from mlcnb.codegen.llvm.engine import compile_ir
from mlcnb.codegen.llvm.target_machine import Cpu
from mlcnb.core.errors import CodegenError, ExecutionError, UnsupportedDtypeError
from mlcnb.runtime import threads
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.transform import lower

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64", "bfloat16"]


def run_both(func: tir.PrimFunc, *arrays: np.ndarray) -> list[np.ndarray]:
    """Outputs of the compiled function, after checking them against the interpreter's."""
    ours = [a.copy() for a in arrays]
    reference = [a.copy() for a in arrays]
    mlc.compile(func, target="llvm")(*ours)
    run_prim_func(func, reference)
    for a, b in zip(ours, reference, strict=True):
        wide = np.float64 if a.dtype.kind not in "iub" else a.dtype
        tolerance = {"float16": 2e-3, "bfloat16": 2e-2}.get(a.dtype.name, 1e-5)
        np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=tolerance, atol=1e-6)
    return ours


def numpy_dtype(name: str) -> np.dtype:
    return mlc.dtype(name).numpy


def elementwise(dtype: str, fn, n: int = 37, out: str | None = None) -> tir.PrimFunc:
    a, b = te.placeholder((n,), dtype, name="A"), te.placeholder((n,), dtype, name="B")
    c = te.compute((n,), lambda i: fn(a[i], b[i]), name="C")
    assert out is None or c.dtype == out
    return te.create_prim_func([a, b, c])


def samples(dtype: str, n: int = 37) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    kind = numpy_dtype(dtype)
    if np.dtype(kind).kind in "iu":
        info = np.iinfo(kind)
        a = rng.integers(max(info.min, -1000), min(info.max, 1000), n).astype(kind)
        b = rng.integers(1, 7, n).astype(kind)
        a[:2] = [info.max, info.min]
        return a, b
    return rng.standard_normal(n).astype(kind), (rng.random(n) + 0.5).astype(kind)


@pytest.mark.parametrize("dtype", INTS + FLOATS)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "min", "max"])
def test_arithmetic(dtype, name):
    fn = {
        "add": lambda x, y: x + y,
        "subtract": lambda x, y: x - y,
        "multiply": lambda x, y: x * y,
        "min": tir.op.min,
        "max": tir.op.max,
    }[name]
    a, b = samples(dtype)
    run_both(elementwise(dtype, fn), a, b, np.zeros(37, a.dtype))


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("fn", [tir.floordiv, tir.floormod, tir.truncdiv, tir.truncmod])
def test_integer_division_rounds_as_it_says(dtype, fn):
    a, b = samples(dtype)
    run_both(elementwise(dtype, fn), a, b, np.zeros(37, a.dtype))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_the_smallest_number_by_minus_one_wraps_and_does_not_trap(dtype):
    kind = numpy_dtype(dtype)
    a = np.full(37, np.iinfo(kind).min, kind)
    (_, _, c) = run_both(elementwise(dtype, tir.truncdiv), a, np.full(37, -1, kind), a.copy())
    assert (c == np.iinfo(kind).min).all()


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("name", ["truncdiv", "truncmod", "floordiv", "floormod"])
def test_vectors_of_integers_divide_exactly(dtype, name):
    """Beside and at multiples of every divisor, up to both ends: what a rounding would change."""
    rng, info = np.random.default_rng(11), np.iinfo(dtype)
    edges = [info.min, info.min + 1, info.max, info.max - 1, 1, 2, 3, 7, info.max // 2, -1, -3]
    b = [v for v in edges if v and v >= info.min]
    b += [int(v) for v in rng.integers(1, info.max, 60, dtype=dtype)]
    b += [1 + int(v) % info.max for v in rng.integers(0, 300, 60)]
    pairs = [(a, d) for d in b for a in edges if a >= info.min]
    for d in b:
        for q in (1, 2, 3, info.max // abs(d), info.max // abs(d) // 2):
            pairs += [(q * d + r, d) for r in (-1, 0, 1)]
    pairs = [(a, d) for a, d in pairs if info.min <= a <= info.max]
    x, y = (np.array([pair[i] for pair in pairs], dtype) for i in range(2))
    func = elementwise(dtype, getattr(tir, name), len(pairs))
    found = np.zeros(len(pairs), dtype)
    mlc.compile(func, target="llvm", schedule="default")(x, y, found)

    def exact(a: int, d: int) -> int:
        quotient = (
            a // d if name.startswith("floor") else abs(a) // abs(d) * (1 if a * d >= 0 else -1)
        )
        return quotient if name.endswith("div") else a - quotient * d

    wrapped = [(exact(a, d) - info.min) % 2**info.bits + info.min for a, d in pairs]
    np.testing.assert_array_equal(found, np.array(wrapped, dtype))


def test_division_by_zero_stops_with_an_error():
    a = np.arange(37, dtype=np.int32)
    with pytest.raises(ExecutionError, match="integer division by zero"):
        mlc.compile(elementwise("int32", tir.floordiv))(a, np.zeros_like(a), a.copy())


@pytest.mark.parametrize("source", [*INTS, *FLOATS, "bool"])
@pytest.mark.parametrize("to", ["int8", "int64", "uint8", "float16", "float32", "float64", "bool"])
def test_casts(source, to):
    n = 21
    a = te.placeholder((n,), source, name="A")
    c = te.compute((n,), lambda i: a[i].astype(to), name="C")
    x = np.random.default_rng(0).integers(0, 2 if source == "bool" else 100, n)
    func = te.create_prim_func([a, c])
    run_both(func, x.astype(numpy_dtype(source)), np.zeros(n, numpy_dtype(to)))


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("to", INTS)
@pytest.mark.parametrize("lanes", [1, 8])
def test_casts_of_what_no_integer_is(source, to, lanes):
    """NaN is 0, beyond the ends are the ends; one element at a time and in vectors."""
    a = te.placeholder((40,), source, name="A")
    sch = tir.Schedule(te.create_prim_func([a, te.compute((40,), lambda i: a[i].astype(to))]))
    sch.vectorize(sch.split(sch.get_loops("compute")[0], [None, lanes])[1])
    some = [np.nan, np.inf, -np.inf, 1e30, -1e30, 6e4, -6e4, 300.7, -300.7, -1.5, -0.5, -0.0, 2.5]
    for end in (2.0**31, 2.0**32, 2.0**63, 2.0**64):
        some += [end, -end, end - end / 2**24, end + end / 2**22]
    with np.errstate(over="ignore"):
        x = np.resize(np.array(some), 40).astype(numpy_dtype(source))
    ends = np.iinfo(to)
    wide = x.astype("float64")
    expected = [0 if v != v else int(max(ends.min, min(ends.max, v))) for v in wide.tolist()]
    (_, got) = run_both(sch.mod["main"], x, np.zeros(40, to))
    assert got.tolist() == expected


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("cpu", [None, "x86-64-v2"])
def test_halves_of_doubles_are_rounded_once(lanes, cpu):
    """Every half, what lies between it and the next, and beside that: as NumPy rounds it."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    halves = halves[np.isfinite(halves)]
    with np.errstate(over="ignore"):
        ties = (halves + np.nextafter(halves.astype("float16"), np.float16(np.inf))) / 2
    ties = ties[np.isfinite(ties)]
    tiny = np.abs(ties) * 1e-12 + 1e-300
    x = np.concatenate([halves, ties, ties + tiny, ties - tiny, [np.nan, 1e300, -1e300, 65519.99]])
    x = np.resize(x, -(-x.size // 8) * 8)
    a = te.placeholder(x.shape, "float64", name="A")
    sch = tir.Schedule(
        te.create_prim_func([a, te.compute(x.shape, lambda i: a[i].astype("float16"))])
    )
    sch.vectorize(sch.split(sch.get_loops("compute")[0], [None, lanes])[1])
    target = "llvm" if cpu is None else f"llvm -mcpu={cpu}"
    ex, out = mlc.compile(sch.mod["main"], target=target), np.zeros(x.shape, np.float16)
    ex(x, out)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out, x.astype(np.float16))
    np.testing.assert_array_equal(np.signbit(out), np.signbit(x))


def test_halves_of_doubles_call_nothing():
    """A call for each was 277 us of 131,072."""
    a = te.placeholder((64,), "float64", name="A")
    func = te.create_prim_func([a, te.compute((64,), lambda i: a[i].astype("float16"))])
    ex = mlc.compile(func, target="llvm -mcpu=x86-64-v3", schedule="default")
    assert all("truncdfhf2" not in kernel.asm for kernel in ex.kernels.values())


@pytest.mark.parametrize("lanes", [1, 8])
def test_bits_of_truth(lanes):
    a, b = te.placeholder((40,), "bool", name="A"), te.placeholder((40,), "bool", name="B")
    c = te.compute((40,), lambda i: ~a[i] ^ (b[i] & ~b[i] | a[i] & ~b[i]), name="C")
    sch = tir.Schedule(te.create_prim_func([a, b, c]))
    sch.vectorize(sch.split(sch.get_loops("C")[0], [None, lanes])[1])
    x, y = np.random.default_rng(0).integers(0, 2, (2, 40)).astype(bool)
    (_, _, got) = run_both(sch.mod["main"], x, y, np.zeros(40, bool))
    np.testing.assert_array_equal(got, ~x ^ (x & ~y))


@pytest.mark.parametrize("name", "exp log tanh erf sigmoid sqrt sin cos log2 exp2 atan".split())
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_math_functions(name, dtype):
    n = 64
    a = te.placeholder((n,), dtype, name="A")
    c = te.compute((n,), lambda i: getattr(tir.op, name)(a[i]), name="C")
    sch = tir.Schedule(te.create_prim_func([a, c]))
    outer, inner = sch.split(sch.get_loops("C")[0], [None, 16])
    sch.vectorize(inner)
    x = (np.random.default_rng(0).random(n) * 3 + 0.1).astype(numpy_dtype(dtype))
    run_both(sch.mod["main"], x, np.zeros_like(x))


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0, -1.0, 3.0, -0.5])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_known_exponents(exponent, dtype, lanes):
    """-0.0 and -inf too, whose square roots are others than their powers."""
    a = te.placeholder((40,), dtype, name="A")
    c = te.compute((40,), lambda i: tir.op.power(a[i], tir.const(exponent, dtype)), name="C")
    sch = tir.Schedule(te.create_prim_func([a, c]))
    sch.vectorize(sch.split(sch.get_loops("C")[0], [None, lanes])[1])
    some = [0.0, -0.0, np.inf, -np.inf, np.nan, -2.5, 1.0, 3.0, 6e4, 1e-4, 0.7, -1.0]
    x = np.resize(np.array(some), 40).astype(dtype)
    with np.errstate(all="ignore"):
        (_, got) = run_both(sch.mod["main"], x, np.zeros(40, dtype))
        expected = np.array([np.power(v, exponent) for v in x.astype("float64")])
        expected[x == 0] = np.power(x[x == 0].astype("float64"), [exponent])
        expected[(x == -np.inf) & (exponent == 0.5)] = np.inf
        np.testing.assert_allclose(got, expected.astype(dtype), rtol=1e-3)
    zeros = got == 0
    assert (np.signbit(got[zeros]) == np.signbit(x[zeros]) * (exponent % 2 == 1)).all()


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 0.0, -0.0])
def test_max_and_min_propagate_nan(special):
    n = 8
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: tir.op.max(a[i], b[i]), name="C")
    d = te.compute((n,), lambda i: tir.op.min(tir.op.max(a[i], 0.0), 6.0), name="D")
    func = te.create_prim_func([a, b, c, d])
    x = np.array([special, 1, 2, -3, special, 7, 0, -1], np.float32)
    y = np.roll(x, 3)
    _, _, big, relu6 = run_both(func, x, y, np.zeros_like(x), np.zeros_like(x))
    np.testing.assert_array_equal(big, np.maximum(x, y))
    np.testing.assert_array_equal(relu6, np.minimum(np.maximum(x, 0), 6))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_random_index_arithmetic_reads_the_right_elements(data):
    """Gathers with random affine, quotient and remainder indices, vectorized or not."""
    n = data.draw(st.integers(2, 40))
    stride = data.draw(st.sampled_from([1, 2, 3, -1]))
    offset = data.draw(st.integers(0, 5))
    by = data.draw(st.integers(1, 7))
    size = 200
    a = te.placeholder((size,), "int32", name="A")
    base = offset + (n * abs(stride) if stride < 0 else 0)

    def read(i):
        return a[i * stride + base] + a[i // by] + a[i % by]

    func = te.create_prim_func([a, te.compute((n,), read, name="C")])
    sch = tir.Schedule(func)
    lanes = data.draw(st.sampled_from([1, 4, 16]))
    if lanes > 1:
        _, inner = sch.split(sch.get_loops("C")[0], [None, lanes])
        sch.vectorize(inner)
    run_both(sch.mod["main"], np.arange(size, dtype=np.int32), np.zeros(n, np.int32))


def test_an_index_read_from_data_is_checked():
    a, index = te.placeholder((10,), name="A"), te.placeholder((4,), "int64", name="I")
    c = te.compute((4,), lambda i: a[index[i]], name="C")
    ex = mlc.compile(te.create_prim_func([a, index, c]))
    x, out = np.arange(10, dtype=np.float32), np.zeros(4, np.float32)
    ex(x, np.array([3, 9, 0, 1]), out)
    np.testing.assert_array_equal(out, [3, 9, 0, 1])
    for wrong in (10, -1, 10**9):
        with pytest.raises(ExecutionError, match="is outside of") as error:
            ex(x, np.array([3, wrong, 0, 1]), out)
        assert str(error.value) == (
            f"main: A[I_1[i]] is read, dimension 0: index {wrong} is outside of 0..10"
        )


def test_symbolic_sizes_are_matched_from_the_arguments():
    n = tir.Var("n", "int64")
    a = te.placeholder((n, 4), name="A")
    c = te.compute((n, 4), lambda i, j: a[i, j] * 2.0, name="C")
    ex = mlc.compile(te.create_prim_func([a, c]))
    for rows in (1, 7, 33):
        x, out = np.random.rand(rows, 4).astype("f"), np.zeros((rows, 4), "f")
        ex(x, out)
        np.testing.assert_array_equal(out, x * 2)
    message = r"main: argument 'C': dimension 0 is 3, expected 5"
    with pytest.raises(mlc.core.errors.RuntimeInputError, match=message):
        ex(np.zeros((5, 4), "f"), np.zeros((3, 4), "f"))


LOOPS = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in T.parallel(8):
        acc = T.allocate([1], "float32", "local")
        acc_1 = T.decl_buffer((1,), data=acc, scope="local")
        acc_1[0] = T.float32(0)
        for j in range(8):
            if j <= i:
                acc_1[0] = acc_1[0] + A[i, j]
            else:
                acc_1[0] = acc_1[0] - A[i, j]
        B[i] = acc_1[0]
"""


def test_parallel_loops_branches_and_local_memory():
    x = np.random.rand(8, 8).astype("f")
    _, b = run_both(parse(LOOPS), x, np.zeros(8, "f"))
    signs = np.where(np.tri(8, dtype=bool), 1, -1)  # a sum may come to nearly 0
    np.testing.assert_allclose(b, (x * signs).sum(1), rtol=1e-5, atol=1e-6)


ASSERTS = """
@T.prim_func
def main(A: T.Buffer((4,), "int32")):
    for i in range(4):
        assert A[i] < 10, "A must stay below ten"
        A[i] = A[i] + 1
"""


def test_a_failed_assertion_is_an_error_with_its_text():
    ex = mlc.compile(parse(ASSERTS))
    ex(np.zeros(4, np.int32))
    with pytest.raises(ExecutionError, match="main: A must stay below ten"):
        ex(np.array([1, 2, 30, 4], np.int32))


def test_local_tiles_live_in_registers():
    """A tile of 14 x 2 vectors: one multiply-add for each, nothing spilled."""
    from mlcnb.codegen.llvm.inspect import facts

    a, b = te.placeholder((56, 64), name="A"), te.placeholder((64, 32), name="B")
    k = te.reduce_axis((0, 64), "k")
    c = te.compute((56, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = tir.Schedule(te.create_prim_func([a, b, c]))
    target = mlc.target.Target("llvm -mcpu=x86-64-v4")
    copy = sch.cache_write("C", 0, "local")
    i, j, k = sch.get_loops("C")
    i_0, i_1 = sch.split(i, [None, 14])
    j_0, j_1, lane = sch.split(j, [None, 2, 16])
    sch.reorder(i_0, j_0, k, i_1, j_1, lane)
    sch.reverse_compute_at(copy, j_0)
    start = sch.decompose_reduction("C", k)
    for loop in (i_1, j_1, *sch.get_loops(start)[2:-1], *sch.get_loops(copy)[2:-1]):
        sch.unroll(loop)
    sch.vectorize(lane)
    sch.vectorize(sch.get_loops(start)[-1])
    sch.vectorize(sch.get_loops(copy)[-1])
    kernel = mlc.compile(sch.mod, target=target).kernels["main"]
    found = facts(kernel.compiled)
    (hot,) = (f.hot for f in found.values() if f.hot is not None and f.hot.fma)
    assert hot.fma % 28 == 0
    assert hot.spills == 0
    assert "vfmadd" in kernel.asm and "zmm" in kernel.asm


@pytest.mark.parametrize("cpu, register", [("x86-64-v3", "ymm"), ("cortex-a72", "v0.4s")])
def test_vectors_fit_the_target(cpu, register):
    n = 64
    a = te.placeholder((n,), name="A")
    c = te.compute((n,), lambda i: a[i] * 2.0 + 1.0, name="C")
    target = mlc.target.Target(f"llvm -mcpu={cpu}")
    ex = mlc.compile(te.create_prim_func([a, c]), target=target, schedule="default")
    assert register in ex.kernels["main"].asm


def test_what_the_backend_cannot_do_is_refused_with_what_to_try():
    a = te.placeholder((4,), name="A")
    func = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1.0, name="C")])
    with pytest.raises(CodegenError, match="BlockRealize"):
        emit_kernel(func, "main")
    sch = tir.Schedule(func)
    sch.bind(sch.get_loops("C")[0], "threadIdx.x")
    with pytest.raises(CodegenError, match="bound to threadIdx.x, which a CPU does not have"):
        emit_kernel(lower(sch.mod["main"]), "main")
    b = te.placeholder((4,), "float8_e8m0fnu", name="B")
    eight = te.create_prim_func([b, te.compute((4,), lambda i: b[i], name="D")])
    with pytest.raises(UnsupportedDtypeError, match="float8_e8m0fnu"):
        emit_kernel(lower(eight), "main")


GUARDED = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((8,), "int32"), N: T.Buffer((1,), "int32")):
    for i in range(8):
        if i < N[0] and A[i] > 0:
            B[i] = 1
        if i >= N[0] or A[i] > 1:
            B[i] = B[i] + 10
"""


def test_the_second_half_of_a_condition_is_read_only_where_it_counts():
    """The interpreter would refuse A[4]; the compiled code must not read it either."""
    a, b, n = np.array([0, 1, 2, 3], np.int32), np.zeros(8, np.int32), np.array([4], np.int32)
    _, found, _ = run_both(parse(GUARDED), a, b, n)
    np.testing.assert_array_equal(found, [0, 1, 11, 11, 10, 10, 10, 10])
    assert mlc.compile(parse(GUARDED)).kernels[0].llvm_ir.count("phi i1") == 2


ROWS = """
@T.prim_func
def rows(A: T.Buffer((64, 16), "float32"), B: T.Buffer((64, 16), "float32")):
    for i in {outer}:
        for j in T.vectorized(16):
            B[i, j] = {value}
"""


@pytest.mark.parametrize(
    "outer, terms, mark",
    [
        ("range(64)", 1, None),
        ("range(64)", 9, "llvm.loop.unroll.disable"),
        ("T.unroll(64)", 1, "llvm.loop.unroll.full"),
    ],
)
def test_llvm_is_told_which_loops_to_write_out(outer, terms, mark):
    func = parse(ROWS.format(outer=outer, value=" + ".join(["A[i, j] * A[i, j]"] * terms)))
    ir = emit_kernel(lower(func), "rows").ir
    assert [line.split('"')[1] for line in ir.splitlines() if "distinct" in line] == (
        [] if mark is None else [mark]
    )
    a = np.linspace(-1, 1, 64 * 16, dtype=np.float32).reshape(64, 16)
    _, found = run_both(func, a, np.zeros_like(a))
    np.testing.assert_allclose(found, terms * a * a, rtol=1e-5)


WINDOW = """
@T.prim_func
def window(
    A: T.Buffer((2, {rows}, 16), "float32"),
    W: T.Buffer((4, 16), "float32"),
    B: T.Buffer((2, {rows}, 16), "float32"),
):
    for n in range(2):
        C = T.alloc_buffer(({rows}, 16), scope="local")
        for i in T.unroll({rows}):
            for j in T.vectorized(16):
                C[i, j] = T.float32(0)
        for i in T.unroll({rows}):
            for k in T.unroll(4):
                if 3 <= i + k * 2 and i + k * 2 < {rows} + 3:
                    for j in T.vectorized(16):
                        C[i, j] = C[i, j] + A[n, i + k * 2 - 3, j] * W[k, j]
        for i in T.unroll({rows}):
            for j in T.vectorized(16):
                B[n, i, j] = C[i, j]
"""


@pytest.mark.parametrize("rows", [4, 40])
def test_llvm_has_nothing_to_say_about_loops_it_cannot_write_out(rows, capfd):
    """Jumps threaded through branches on the loop's variable hide how often it runs."""
    func = parse(WINDOW.format(rows=rows))
    compile_ir(emit_kernel(lower(func), "window").ir)
    assert capfd.readouterr().err == ""
    a = np.linspace(-1, 1, 2 * rows * 16, dtype=np.float32).reshape(2, rows, 16)
    w = np.linspace(1, 2, 4 * 16, dtype=np.float32).reshape(4, 16)
    _, _, found = run_both(func, a, w, np.zeros_like(a))
    wide = np.pad(a, ((0, 0), (3, 3), (0, 0)))
    expected = sum(wide[:, 2 * k : 2 * k + rows] * w[k] for k in range(4))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(Cpu.host().arch != "x86_64", reason="an x86-64 CPU")
@pytest.mark.parametrize("width", [66, 71, 80])
def test_bfloat16_behind_the_last_whole_vector(width):
    """LLVM ended in an assertion, and the process with it, where the second half of a vector is not
    stored. A CPU that rounds to bfloat16 by itself, so that another process compiles.
    """
    x, bb = relax.Var("x", relax.TensorStructInfo((8, width), "bfloat16")), relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.normalize(relax.op.nn.softmax(x, axis=0)))
    assert "vcvtneps2bf16" in mlc.compile(bb.get(), "llvm -mcpu=sapphirerapids").get_source("asm")
    given = np.random.default_rng(width).standard_normal((8, width)).astype(ml_dtypes.bfloat16)
    found = np.asarray(mlc.compile(bb.get())(given)).astype("f4")
    powers = np.exp(given.astype("f4") - given.astype("f4").max(0))
    np.testing.assert_allclose(found, powers / powers.sum(0), rtol=1e-2)


# stopping ----------------------------------------------------------------------------------------


def polls(text: str) -> int:
    """How often a kernel's IR looks whether it has to stop."""
    func = parse(text)
    ir = emit_kernel(lower(func), "k").ir
    return ir.count("load atomic i32, ptr @mlcnb_cancel")


def nest(*loops: str, body: str = "A[0] = A[0] + T.float32(1)") -> str:
    """A function of nested loops: `parallel(4)`, `serial(100)`, …"""
    lines = ["from mlcnb.script import tir as T", "@T.prim_func(private=True)"]
    lines.append('def f(A: T.Buffer((16,), "float32"), n: T.int64):')
    for depth, loop in enumerate(loops):
        lines.append("    " * (depth + 1) + f"for i{depth} in T.{loop}:")
    return "\n".join([*lines, "    " * (len(loops) + 1) + body])


@pytest.mark.parametrize(
    ("loops", "expected"),
    [
        (["serial(100)"], 0),  # the innermost loop never asks
        (["serial(100)", "serial(100)"], 1),  # the outermost always does
        (["parallel(4)", "serial(100)"], 0),  # its pieces are short, and the pool asks before each
        (["parallel(4)", "serial(1000)", "serial(1000)"], 1),  # one iteration is long
        (["parallel(4)", "serial(9)", "serial(1000)", "serial(1000)"], 2),
        (["parallel(4)", "serial(n)", "serial(n)"], 1),  # any number may be large
        (["serial(2)", "serial(1000)", "serial(10)", "serial(9)"], 1),
    ],
)
def test_loops_ask_whether_to_stop_where_a_round_is_long(loops, expected):
    assert polls(nest(*loops)) == expected


@pytest.mark.parametrize("outer", ["parallel(2)", "serial(1)"])
def test_a_loop_that_would_run_for_hours_is_stopped(outer):
    """Nobody but the loop itself could end it: the test would not finish."""
    body = "A[i0] = A[i0] + T.float32(1)"
    func = parse(nest(outer, "serial(1000000)", "serial(1000000)", "serial(100)", body=body))
    ex = mlc.compile(func, schedule=None)
    errors = []

    def work():
        try:
            ex(np.zeros(16, np.float32), 1)
        except ExecutionError as error:
            errors.append(str(error))

    caller = threading.Thread(target=work)
    caller.start()
    while caller.is_alive():
        threads.cancel()
        caller.join(0.01)
    assert errors == ["cancelled at call 0 of 1"]


NARROW = """
@T.prim_func
def f(x: T.Buffer((16,), "int32"), y: T.Buffer((20,), "{kind}")):
    for i in T.vectorized(16):
        if i < {count}:
            y[i + 2] = T.Cast("{kind}", x[i])
"""


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("count", [0, 1, 2, 15])
def test_a_narrow_store_under_a_known_mask_touches_nothing_else(kind, count):
    """LLVM 22 stores four bytes of an int8 that was truncated, where one lane is let through."""
    func = parse(NARROW.format(kind=kind, count=count))
    x = np.arange(70, 86, dtype="int32")
    _, found = run_both(func, x, np.full(20, 7, kind))
    expected = np.full(20, 7, kind)
    expected[2 : 2 + count] = x[:count]
    np.testing.assert_array_equal(found, expected)


CUT = """
@T.prim_func
def f(x: T.Buffer(({rows}, {count}), "{wide}"), y: T.Buffer(({rows}, {room}), "{kind}")):
    for i, j in T.grid({rows}, {count}):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj * {stride} + 1] = T.Cast("{kind}", x[vi, vj])
"""


@settings(max_examples=30, deadline=None)
@given(
    kinds=st.permutations(INTS),
    count=st.integers(1, 40),
    lanes=st.sampled_from([2, 4, 8, 16, 32]),
    rows=st.integers(1, 7),
    tile=st.integers(1, 4),
    is_unrolled=st.booleans(),
    is_outside=st.booleans(),
    stride=st.sampled_from([1, 1, 1, 2]),
)
@example(["int8", "int64"], 9, 8, 4, 3, True, True, 1)
@example(["uint8", "int32"], 17, 16, 4, 3, True, True, 1)
def test_vectors_that_are_cut_off_touch_nothing_else(
    kinds, count, lanes, rows, tile, is_unrolled, is_outside, stride
):
    """Whichever loops LLVM unrolls, so that it knows which lanes count: a store took too many."""
    kind, wide = kinds[:2]
    room = count * stride + 3
    text = CUT.format(rows=rows, count=count, room=room, stride=stride, kind=kind, wide=wide)
    sch = tir.Schedule(parse(text))
    row, column = sch.get_loops("y")
    above, below = sch.split(row, [None, tile])
    outer, inner = sch.split(column, [None, lanes])
    sch.vectorize(inner)
    if is_outside:
        sch.reorder(outer, above)
    if is_unrolled:
        sch.unroll(below)
    x = np.random.default_rng(count).integers(0, 120, (rows, count)).astype(wide)
    _, found = run_both(sch.mod["main"], x, np.full((rows, room), 7, kind))
    expected = np.full((rows, room), 7, kind)
    expected[:, 1 : count * stride + 1 : stride] = x
    np.testing.assert_array_equal(found, expected)


def test_a_chunk_of_a_parallel_loop_takes_its_memory_once():
    program = """
        @T.prim_func
        def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
            for i in T.parallel(64):
                S = T.allocate([32768], "float32", "global")
                S_1 = T.decl_buffer((32768,), data=S)
                for k in range(32768):
                    S_1[k] = A[i] + T.Cast("float32", k)
                B[i] = S_1[32767] - S_1[0]
    """
    func = parse(dedent(program))
    text = emit_kernel(func, "f", 256).ir
    body = next(f for f in text.split("define ") if ".par1.body(" in f.splitlines()[0])
    assert body.count("@mlcnb_alloc(") == 1
    assert body.index("@mlcnb_alloc(") < body.index("loop")
    assert body.count("@mlcnb_free(") >= 2  # at the end, and where the kernel is left early
    a = np.arange(64, dtype="float32")
    for threads_used in (1, 2):
        mlc.set_num_threads(threads_used)
        b = np.zeros(64, "float32")
        mlc.compile(func, target="llvm")(a, b)
        np.testing.assert_array_equal(b, np.full(64, 32767, "float32"))


@pytest.mark.parametrize("x", [9, -9])
def test_what_may_divide_by_zero_is_evaluated_only_where_it_counts(x):
    @T.prim_func
    def func(x: T.int32, n: T.int32, C: T.Buffer((4,), "int32")):
        C[0] = T.if_then_else(n != 0 and x // n > 2, 1, 0)
        C[1] = T.if_then_else(n == 0 or x % n > 2, 1, 0)
        C[2] = T.if_then_else(n > 0 and (T.truncdiv(x, n) < 4 or T.truncmod(x, n) == 1), 1, 0)
        C[3] = T.if_then_else(n != 0 and n // 3 == 1, 1, 0)

    kernel = mlc.compile(func)
    for n in (-4, -1, 0, 1, 2, 3):
        found, expected = np.zeros(4, "int32"), np.zeros(4, "int32")
        kernel(x, n, found)
        run_prim_func(func, [x, n, expected])
        assert (found == expected).all()
