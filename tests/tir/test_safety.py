"""No loop program touches memory that is not its own: proved, refused, or stopped in time."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import te
from mlcnb.core.errors import DataRaceError, ExecutionError, MLCError, WellFormedError
from mlcnb.script import parse
from mlcnb.tir import analysis
from mlcnb.tir.analysis.wrapping import may_wrap
from tests.tir.programs import FUZZ

HEAD = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32"),
         k: T.int32):
"""
TRUST = 'hint: compile with bounds="trust" if you know better'


def program(body, head=HEAD):
    lines = body.strip("\n").split("\n")
    return parse(head + "\n".join("    " + x for x in lines) + "\n", check_well_formed=False)


def arguments():
    return (np.arange(8, dtype="f"), np.zeros(8, "f"), np.arange(8, dtype="int32"))


def refusal(func, **options):
    with pytest.raises(WellFormedError) as error:
        mlc.compile(func, **options)
    return str(error.value)


CRASH = """
import sys, numpy as np, mlcnb as mlc
from mlcnb.script import parse
func = parse('''
@T.prim_func
def main(B: T.Buffer((8,), "float32")):
    for i in range(100000000):
        B[i] = T.float32(0)
''', check_well_formed=False)
mlc.compile(func, bounds=sys.argv[1])(np.zeros(8, "f"))
"""


def test_a_write_far_out_of_bounds_ends_a_process_that_trusts_and_no_other():
    ends = {
        word: subprocess.run(
            [sys.executable, "-c", CRASH, word], capture_output=True, text=True, timeout=120
        )
        for word in ("trust", "check")
    }
    assert ends["trust"].returncode < 0
    assert ends["check"].returncode == 1
    assert "B[8] is written at i = 8: dimension 0 has indices 0..8" in ends["check"].stderr


def test_what_certainly_leaves_its_buffer_is_refused_with_the_access():
    assert refusal(program("for i in range(100000000):\n    B[i] = A[0]")) == (
        "B[8] is written at i = 8: dimension 0 has indices 0..8\n"
        '  2 | def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), '
        'I_1: T.Buffer((8,), "int32"), k: T.int32):\n'
        "  3 |     for i in range(100000000):\n"
        "> 4 |         B[i] = A[0]\n"
        "    |         ^^^^^^^^^^^\n"
        "hint: cut the block with T.where, or guard the access with T.if_then_else"
    )
    a = te.placeholder((8,), name="A")
    text = refusal(te.create_prim_func([a, te.compute((9,), lambda i: a[i], name="C")]))
    assert text.startswith("A[8] is read at i = 8: dimension 0 has indices 0..8\n")


def test_it_is_refused_in_a_module_with_a_graph():
    mod = parse("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def shift(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i + 1]

    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = Module
        y = R.call_tir(cls.shift, (x,), out_sinfo=R.Tensor((8,), "float32"))
        return y
""")
    assert refusal(mod).startswith("A[8] is read at i = 7: dimension 0 has indices 0..8\n")


STOPPED = [
    ("for i in range(8):\n    B[i] = A[k]", 8, "A[k] is read, dimension 0: index 8 is"),
    ("for i in range(8):\n    B[i] = A[k]", -1, "A[k] is read, dimension 0: index -1 is"),
    ("for i in T.parallel(8):\n    B[i + k] = A[i]", 8, "B[i + k] is written, dimension 0: index"),
    ("for i in T.vectorized(8):\n    B[i] = A[i + k]", 1,
     "A[i + k] is read, dimension 0: index 8 is"),
    ("for i in range(8):\n    B[i] = A[i * i // (k + 1)]", 1,
     "A[i * i // (k + 1)] is read, dimension 0: index 8 is"),
    ("for i in range(8):\n    B[I[i] + k] = A[i]", 3,
     "B[I_1[i] + k] is written, dimension 0: index 8 is"),
    ("for i in range(8):\n    j: T.int32 = I[i] + k\n    B[j] = A[i]", 3,
     "B[j] is written, dimension 0: index 8 is"),
    ("B[T.Ramp(k, 1, 4)] = A[T.Ramp(0, 1, 4)]", 5,
     "B[k:k + 4] is written, dimension 0: index 8 is"),
    ("I[0] = 0\nwhile I[0] < k:\n    B[I[0]] = A[0]\n    I[0] = I[0] + 1", 100,
     "B[I_1[0]] is written, dimension 0: index 8 is"),
    ("if k + 2147483647 < 0:\n    B[k] = A[0]", 2**31 - 1, None),
    ("for i in range(8):\n    B[T.int64(i) * T.int64(4611686018427387904) // "
     "T.int64(4611686018427387904)] = A[0]", 0, None),
]  # fmt: skip


@pytest.mark.parametrize(("body", "k", "message"), STOPPED)
def test_what_is_not_proved_stops_the_kernel(body, k, message):
    func = program(body)
    ex = mlc.compile(func)
    whole = np.zeros(64, "f")
    a, _, i = arguments()
    b = whole[32:40]
    if message is None:
        ex(a, b, i, k)
    else:
        with pytest.raises(ExecutionError) as error:
            ex(a, b, i, k)
        assert str(error.value).startswith("main: " + message)
        assert str(error.value).endswith("outside of 0..8")
    assert not whole[:32].any() and not whole[40:].any()
    with pytest.raises(WellFormedError):
        mlc.compile(func, bounds="prove")


def test_what_is_proved_costs_nothing():
    a, b = (te.placeholder((32, 32), name=x) for x in "AB")
    k = te.reduce_axis((0, 32), "k")
    c = te.compute((32, 32), lambda i, j: te.sum(a[i, k] * b[k, j], k), name="C")
    func = te.create_prim_func([a, b, c])
    made = [mlc.compile(func, bounds=x) for x in analysis.safety.BOUNDS]
    assert len({ex.kernels["main"].compiled.object for ex in made}) == 1
    assert analysis.secured(func) is func


OTHERS = [
    ("A = T.match_buffer(a, (8,), 'float32', strides=[9])",
     "A needs 256 bytes behind A, which has 32"),
    ("A = T.match_buffer(a, (8,), 'float32', elem_offset=4)",
     "A needs 48 bytes behind A, which has 32"),
    ("A = T.match_buffer(a, (8,), 'float32', strides=[-1])",
     "A has strides or an offset that are not known to be positive"),
    ("C = T.match_buffer(a, (8,), 'float32')\nA = T.decl_buffer((9,), data=C.data)",
     "A needs 36 bytes behind C, which has 32"),
    ("C = T.match_buffer(a, (8,), 'float32')\nA = T.Buffer((8,), 'float64', data=C.data)",
     "A needs 64 bytes behind C, which has 32"),
    ("C = T.alloc_buffer((2, 2))\nA = T.decl_buffer((8,), data=C.data)",
     "A needs 32 bytes behind C, which has 16"),
    ("A = T.decl_buffer((8,), data=a)", "A lies behind a, of which no size is known"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "message"), OTHERS)
def test_memory_that_is_not_its_own_is_refused(made, message):
    head = '\n@T.prim_func\ndef main(a: T.handle, B: T.Buffer((8,), "float32")):\n'
    func = program(made + "\nfor i in range(8):\n    B[i] = T.Cast('float32', A[i])", head)
    text = refusal(func)
    assert text.split("\n")[0] == message
    assert text.split("\n")[-1] == TRUST


CALLS = [
    ("T.evaluate(T.call_extern('int32', 'memset', A.data, 0, 1))",
     "'memset' gets a pointer, and may do anything with it"),
    ("T.evaluate(T.call_extern('int32', 'memset', T.address_of(A[0]), 0, 1))",
     "'memset' gets a pointer, and may do anything with it"),
    ("T.evaluate(T.call_extern('int32', 'memset', A.access_ptr('w'), 0, 1))",
     "'memset' gets a pointer, and may do anything with it"),
    ("T.evaluate(T.call_extern('int32', 'free', T.int64(4096)))",
     "'free' is a function of which nothing is known"),
    ("T.evaluate(T.call_llvm_intrin('int32', 'llvm.trap'))",
     "'llvm.trap' is a function of which nothing is known"),
    ("q: T.handle = T.reinterpret('handle', T.int64(4096))\nB[0] = A[0]",
     "a pointer is made from a number"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), CALLS)
def test_calls_that_may_touch_anything_are_refused(call, message):
    assert refusal(program(call)).split("\n")[0] == message


def test_mathematics_in_c_is_not_refused():
    ex = mlc.compile(program("B[0] = T.call_extern('float32', 'cosf', A[0])"))
    a, b, i = arguments()
    ex(a, b, i, 0)
    assert b[0] == 1


def test_a_view_that_fits_is_a_view():
    body = "V = T.decl_buffer((2, 4), data=A.data)\nfor i in range(4):\n    B[i] = V[1, i]"
    a, b, i = arguments()
    mlc.compile(program(body))(a, b, i, 0)
    np.testing.assert_array_equal(b[:4], a[4:])


def test_a_word_that_bounds_does_not_know():
    with pytest.raises(MLCError) as error:
        mlc.compile(program("B[0] = A[0]"), bounds="no")
    assert str(error.value) == "no bounds 'no'\nhint: 'prove', 'check', 'trust'"


def test_a_persons_own_schedule_is_looked_at():
    good, bad = program("B[0] = A[0]"), program("B[8] = A[0]")
    text = refusal(good, schedule=lambda func, target: bad)
    assert text.startswith("B[8] is written: dimension 0 has indices 0..8\n")


def test_a_check_in_a_graph_says_where():
    mod = parse("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def pick(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32"),
             B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[I[vi]]

    @R.function
    def main(x: R.Tensor((8,), "float32"), at: R.Tensor((8,), "int32")):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.pick, (x, at), out_sinfo=R.Tensor((8,), "float32"))
            z = R.add(y, y)
            R.output(z)
        return z
""")
    ex = mlc.compile(mod)
    x = np.arange(8, dtype="f")
    np.testing.assert_array_equal(np.asarray(ex(x, np.arange(8, dtype="int32"))), 2 * x)
    with pytest.raises(ExecutionError, match=r"dimension 0: index 77 is outside of 0\.\.8"):
        ex(x, np.full(8, 77, "int32"))


def test_an_artifact_checks_as_well(tmp_path):
    ex = mlc.compile(program("for i in range(8):\n    B[i] = A[k]"))
    ex.export_library(str(tmp_path / "x.tar"))
    loaded = mlc.runtime.load_module(str(tmp_path / "x.tar"))
    with pytest.raises(ExecutionError, match=r"main: A\[k\] is read, dimension 0: index 12 is"):
        loaded(*arguments(), 12)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int64", "uint32"])
def test_narrow_indices(kind):
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((300,), "float32"), I: T.Buffer((4,), "{kind}"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[I[i]]
""")
    ex = mlc.compile(func)
    a, b = np.arange(300, dtype="f"), np.zeros(4, "f")
    ex(a, np.array([0, 1, 100, 127], kind), b)
    np.testing.assert_array_equal(b, [0, 1, 100, 127])
    wrong = -1 if kind.startswith("i") else 255 if kind == "uint8" else 300
    if kind == "uint8":
        ex(a, np.full(4, wrong, kind), b)
        return
    with pytest.raises(ExecutionError, match=f"index {wrong} is outside of 0..300"):
        ex(a, np.full(4, wrong, kind), b)


GROWING = """
@T.prim_func
def main(B: T.Buffer((8,), "float32"), k: T.int64):
    V = T.alloc_buffer((k, k), "float32")
    for i in T.serial(k):
        V[i, k - 1 - i] = T.float32(1)
    for i in T.serial(k):
        B[T.Cast("int32", i) % 8] = V[i, k - 1 - i]
"""


def test_an_allocation_whose_size_wraps():
    ex, b = mlc.compile(parse(GROWING, check_well_formed=False)), np.zeros(8, "f")
    ex(b, 100)
    np.testing.assert_array_equal(b, np.ones(8))
    for k in (2**32, 2**33, 2**62, -1):
        if k > 0:
            with pytest.raises(ExecutionError, match="main: out of memory"):
                ex(b, k)


def test_the_stack_is_not_filled():
    """Buffers of a size for the stack, more of them than it has room for."""
    count = 90
    lines = [f"V{i} = T.alloc_buffer((16000,))" for i in range(count)]
    lines += [f"for i in range(16000):\n    V{i}[i] = T.float32({i})" for i in range(count)]
    lines += [f"for i in range(8):\n    B[i] = B[i] + V{i}[i * 1999]" for i in range(count)]
    ex = mlc.compile(program("\n".join(x.replace("\n", "\n    ") for x in lines)))
    a, b, i = arguments()
    ex(a, b, i, 0)
    np.testing.assert_array_equal(b, np.full(8, sum(range(count))))
    assert ex.kernels["main"].signature.workspace > (64 << 10) * 50


INDEX = st.sampled_from(
    ["i", "i + k", "i * k", "I[i]", "I[i] + k", "i * i", "(i + k) % 8", "I[i] % 8", "7 - i",
     "i // 2", "T.min(i + k, 7)", "T.max(i - k, 0)", "T.Select(i < k, i, k)", "i + 1",
     "k - i", "i * 2 - k"]
)  # fmt: skip
KIND = st.sampled_from(["range", "T.vectorized", "T.parallel", "T.unroll"])


def test_lanes_that_a_condition_leaves_out_are_not_checked():
    func = program(
        "for i in T.vectorized(8):\n    if 0 <= i + k and i + k < 8:\n        B[i] = A[i + k]"
    )
    ex = mlc.compile(func)
    for k in (1, -3, 8, 0):
        a, b, i = arguments()
        ex(a, b, i, k)
        np.testing.assert_array_equal(b, [j + k if 0 <= j + k < 8 else 0 for j in range(8)])


@settings(max_examples=30 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(INDEX, INDEX, KIND, st.booleans(), st.lists(st.integers(-2, 9), min_size=8, max_size=8),
       st.sampled_from([0, 1, 3, -1, 7, 8, 2**31 - 1, -(2**31)]))  # fmt: skip
def test_random_programs_do_as_the_reference_or_stop(write, read, kind, guarded, at, k):
    """Around the arrays lie guards; the kernel stops wherever the reference does."""
    access = f"if 0 <= {read} and {read} < 8:\n        B[i] = A[{read}]"
    plain = f"B[{write}] = A[{read}]"
    text = f"for i in {kind}(8):\n    {access if guarded else plain}"
    note(text)
    func = program(text)
    whole = np.zeros(48, "f")
    wraps = abs(k) > 2**30  # int32, which an index is not: it is computed in 64 bits
    a, expected, i = np.arange(8, dtype="f"), np.zeros(8, "f"), np.array(at, "int32")
    try:
        mlc.compile(func, target="interp")(a, expected, i, k)
        stops = False
    except DataRaceError:
        stops = None  # it says nothing of what comes after the race
    except ExecutionError:
        stops = True
    try:
        ex = mlc.compile(func)
    except WellFormedError:
        assert stops is not False
        return
    except DataRaceError:  # for this k, or for another
        assert kind == "T.parallel"
        assert stops is not False or "k" in text
        return
    try:
        ex(a, whole[16:24], i, k)
        assert not stops or wraps
        if not stops and kind != "T.parallel":
            np.testing.assert_array_equal(whole[16:24], expected)
    except ExecutionError:
        assert stops is not False or wraps
    assert not whole[:16].any() and not whole[24:].any()


def test_the_ends_of_a_quotient_are_its_own():
    """A quotient is as small as its divisor makes it: what is made of it then does not wrap."""
    func = program("""
for i in range(1000):
    A[i * 1000000 // 1000000 * 1000000 // 200000000] = 0.0
""")
    assert may_wrap(func) is None
