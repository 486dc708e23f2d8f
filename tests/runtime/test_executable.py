"""Executables: whole results against NumPy, inputs of every kind, refusals word for word."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import MLCError, RuntimeInputError
from mlcnb.script import parse
from tests.runtime.programs import HEAD, chain, compiled, module, random, softmax

X, Y = random(2, 3), random(3, seed=1)


def refusal(call, *args, **named) -> str:
    """The text of the refusal of a call."""
    with pytest.raises(RuntimeInputError) as caught:
        call(*args, **named)
    return str(caught.value)


# results -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["llvm", "interp", "llvm -mcpu=x86-64-v3"])
def test_result_by_position_and_by_name(target):
    ex = mlc.compile(module("relu_add"), target=target)
    expected = np.maximum(X + Y, 0)
    for result in (ex(X, Y), ex(X, y=Y), ex(y=Y, x=X), ex["main"](X, Y)):
        assert (type(result), result.dtype, result.shape) == (np.ndarray, np.float32, (2, 3))
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_nested_results(target):
    a, x, (again, negative) = compiled("three_results", target)(X)
    np.testing.assert_allclose(a, np.exp(X), rtol=1e-6)
    np.testing.assert_array_equal(again, a)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(negative, -X)


@pytest.mark.parametrize("target", ["llvm", "interp"])
@pytest.mark.parametrize("name", ["three_results", "identity", "relu_add"])
def test_results_alias_neither_each_other_nor_the_inputs(name, target):
    ex = compiled(name, target)
    args = (X, Y)[: len(ex.mod["main"].params)]
    arrays = [*args, *flat(ex(*args)), *flat(ex(*args))]
    for i, one in enumerate(arrays):
        assert not any(np.shares_memory(one, other) for other in arrays[:i])


def flat(result):
    return [a for r in result for a in flat(r)] if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_writing_to_a_result_leaves_the_constants_alone(target):
    ex = mlc.compile(module("relu_add"), target=target, params={"y": Y})
    first = ex(X)
    kept = first.copy()
    first[...] = 7
    np.testing.assert_array_equal(ex(X), kept)
    constant = mlc.compile(module("identity"), target=target, params={"x": X})
    constant()[...] = 7
    np.testing.assert_array_equal(constant(), X)


def test_inputs_stay_as_they_are():
    x, y = X.copy(), Y.copy()
    compiled("softmax_any")(x, y)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)


def test_tuples_as_inputs():
    ex = compiled("tuple_in")
    for given in ((Y[:2], Y[1:]), [Y[:2], Y[1:]], (Y[:2].tolist(), Y[1:].tolist())):
        np.testing.assert_array_equal(ex(given), Y[:2] - Y[1:])


# symbolic sizes ----------------------------------------------------------------------------------


def test_every_size_is_planned_once_and_right():
    ex = mlc.compile(module("chain"))
    for n in (1, 16, 3, 50, 16, 1):
        x = random(n, 64, seed=n)
        np.testing.assert_allclose(ex(x), chain(x), rtol=1e-4, atol=1e-5)
    assert len(ex.plans()._plans) == 4


@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (0, 3), (7, 33)])
@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_two_symbolic_sizes(shape, target):
    x, y = random(*shape), random(shape[1])
    expected = softmax(x + y) if x.size else x
    result = compiled("softmax_any", target)(x, y)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_sizes_that_contradict_each_other():
    assert refusal(compiled("softmax_any"), random(2, 3), random(4)) == (
        "input 'y': dimension 0 is 4, expected 3 (shape (4,) against (m))"
    )


# inputs of every kind ----------------------------------------------------------------------------


class Shared:
    """An object that has nothing but its DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def read_only(x: np.ndarray) -> np.ndarray:
    made = x.copy()
    made.flags.writeable = False
    return made


KINDS = {
    "list": X.tolist(),
    "strided": np.repeat(X, 2, axis=1)[:, ::2],
    "Fortran order": np.asfortranarray(X),
    "reversed": X[::-1, ::-1].copy()[::-1, ::-1],
    "byte-swapped": X.astype(">f4"),
    "read-only": read_only(X),
    "unaligned": np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3),
    "tensor": mlc.runtime.tensor(X),
    "nd": mlc.nd.array(X),
    "DLPack": Shared(X.copy()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_of_every_kind(kind):
    np.testing.assert_array_equal(compiled("relu_add")(KINDS[kind], Y), np.maximum(X + Y, 0))


def test_torch_comes_and_goes():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    result = compiled("relu_add")(torch.from_numpy(X), Y)
    assert isinstance(result, torch.Tensor)
    np.testing.assert_array_equal(result.numpy(), np.maximum(X + Y, 0))


NOT_NUMBERS = [
    (np.array([[object()] * 3] * 2), "input 'x' holds object, not numbers"),
    (np.array([["a"] * 3] * 2), "input 'x' holds <U1, not numbers"),
    (np.zeros((2, 3), [("a", "f4")]), "input 'x' holds [('a', '<f4')], not numbers"),
    ([["a"] * 3] * 2, "input 'x' holds <U1, not numbers"),
    ("photo", "input 'x' is a str\nhint: pass a NumPy array or a DLPack object"),
    (None, "input 'x' is None\nhint: pass a NumPy array or a DLPack object"),
    ([[1, 2, 3], [4]], "input 'x': the lists differ in length or depth"),
    (
        [[1e300] * 3] * 2,
        "input 'x': float32 does not hold these numbers (float64)\n"
        "hint: convert them first: np.asarray(x, 'float32')",
    ),
    (
        [[1j] * 3] * 2,
        "input 'x': float32 does not hold these numbers (complex128)\n"
        "hint: convert them first: np.asarray(x, 'float32')",
    ),
    (
        np.ma.masked_array(X, mask=X > 0),
        "input 'x' is a masked array: programs know no masks\nhint: x.filled(value)",
    ),
]


@pytest.mark.parametrize(("x", "message"), NOT_NUMBERS, ids=range(len(NOT_NUMBERS)))
def test_what_is_no_array_of_numbers(x, message):
    assert refusal(compiled("relu_add"), x, Y) == message


TYPES = 'hint: x: R.Tensor((2, 3), dtype="float32"); y: R.Tensor((3,), dtype="float32")'
WRONG = [
    ((X,), {}, f"main takes 2 inputs (x, y), got 1\n{TYPES}"),
    ((X, Y, Y), {}, f"main takes 2 inputs (x, y), got 3\n{TYPES}"),
    ((), {"x": X}, "main: input 'y' is missing"),
    ((X,), {"z": Y}, "main has no input 'z'\nhint: its inputs are x, y"),
    ((X,), {"x": X}, "main: input 'x' is given twice"),
    ((X[0], Y), {}, "input 'x': expected 2 dimensions (2, 3), got shape (3,)"),
    (
        (X[:1], Y),
        {},
        "input 'x': dimension 0 is 1, expected 2 (shape (1, 3) against (2, 3))",
    ),
    (
        (X.astype("f8"), Y),
        {},
        "input 'x': expected dtype float32, got float64\n"
        "hint: convert it first: x.astype('float32')",
    ),
]


@pytest.mark.parametrize(("args", "named", "message"), WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_wrong_inputs(args, named, message, target):
    assert refusal(compiled("relu_add", target), *args, **named) == message


def test_tuples_of_another_length():
    for given in (Y, (Y[:2],)):
        assert refusal(compiled("tuple_in"), given) == "input 't': expected a tuple of 2 values"


def test_a_function_or_kernel_that_is_not_there():
    ex = compiled("relu_add")
    with pytest.raises(MLCError) as caught:
        ex["nothing"]
    assert str(caught.value) == "no function 'nothing' in the module: it has main, fused_add_relu"
    with pytest.raises(MLCError) as caught:
        ex.kernels["nothing"]
    assert str(caught.value) == "no kernel 'nothing'\nhint: there are fused_add_relu"


# destination-passing style -----------------------------------------------------------------------

A, B = random(8, 16), random(16, 4, seed=1)


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_a_loop_function_writes_where_it_is_told(target):
    ex = compiled("matmul_kernel", target)
    c = np.full((8, 4), 9, np.float32)
    assert ex(A, B, c) is None
    np.testing.assert_allclose(c, A @ B, rtol=1e-5, atol=1e-5)
    tensor = mlc.nd.empty((8, 4), "float32")
    ex["matmul"](A, C=tensor, B=mlc.nd.array(B))
    np.testing.assert_array_equal(tensor.numpy(), c)


def test_only_what_it_writes_must_be_writable():
    ex = compiled("matmul_kernel")
    c = np.zeros((8, 4), np.float32)
    ex(read_only(A), read_only(B), c)
    np.testing.assert_allclose(c, A @ B, rtol=1e-5, atol=1e-5)
    assert refusal(ex, A, B, read_only(c)) == (
        "matmul: argument 'C' is written to, but is read-only"
    )


APART = (
    "matmul: argument 'C' has its elements apart in memory\n"
    "hint: pass a copy: np.ascontiguousarray(x)"
)
WRONG_OUT = [
    (np.zeros((4, 8), "f").T, APART),
    (np.zeros((8, 8), "f")[:, :4], APART),
    (
        np.zeros((8, 4), ">f4"),
        "matmul: argument 'C' is byte-swapped\nhint: pass a copy: np.ascontiguousarray(x)",
    ),
    (
        np.zeros((8, 4)),
        "matmul: argument 'C': expected dtype float32, got float64\n"
        "hint: convert it first: x.astype('float32')",
    ),
    (
        np.zeros((4, 4), "f"),
        "matmul: argument 'C': dimension 0 is 4, expected 8 (shape (4, 4) against (8, 4))",
    ),
    ([[0.0] * 4] * 8, "input 'C' is a list\nhint: pass a NumPy array or a DLPack object"),
]


@pytest.mark.parametrize(("out", "message"), WRONG_OUT, ids=range(len(WRONG_OUT)))
def test_outputs_that_cannot_be_written_in_place(out, message):
    assert refusal(compiled("matmul_kernel"), A, B, out) == message


def test_number_of_arguments_of_a_loop_function():
    ex = compiled("matmul_kernel")
    c = np.zeros((8, 4), np.float32)
    assert refusal(ex, A, B) == (
        "matmul takes 3 arguments (A, B, C), outputs included, but got 2\n"
        "hint: make what it writes first: C = np.empty((8, 4), 'float32')"
    )
    assert refusal(ex, A, B, c, c) == (
        "matmul takes 3 arguments (A, B, C), outputs included, but got 4"
    )
    assert refusal(ex, A, B, D=c) == "matmul has no input 'D'\nhint: its inputs are A, B, C"


def test_an_output_that_lies_in_an_input():
    """Loops made from tensor expressions promise their compiler that nothing overlaps."""
    te = mlc.te
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: a[3 - i], name="b")
    ex = mlc.compile(te.create_prim_func([a, b]))
    x = random(4)
    assert refusal(ex, x, x) == (
        "main: argument 'b' is written to, and shares memory with 'a'\n"
        "hint: pass an array of its own"
    )


# dtypes ------------------------------------------------------------------------------------------

EVERY_DTYPE = """
    @R.function
    def main(x: R.Tensor((2, 37), "DTYPE"), y: R.Tensor((37,), "DTYPE")):
        with R.dataflow():
            a = R.add(x, y)
            b = R.multiply(a, x)
            c = R.max(b, axis=[1], keepdims=True)
            gv = R.subtract(c, b)
            R.output(gv)
        return gv
"""


@pytest.mark.parametrize("target", ["llvm", "interp"])
@pytest.mark.parametrize(
    "dtype",
    "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 int8 int16 int32 int64 "
    "uint8 uint16 uint32 uint64".split(),
)
def test_every_dtype(dtype, target):
    """Small whole numbers, which all of them hold."""
    ex = mlc.compile(parse(HEAD + EVERY_DTYPE.replace("DTYPE", dtype)), target=target)
    kind = mlc.dtype(dtype).numpy
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 3, shape).astype(kind) for shape in ((2, 37), 37))
    product = (x + y) * x
    result = ex(x, y)
    assert result.dtype == kind
    np.testing.assert_array_equal(
        result.astype("f8"), (product.max(1, keepdims=True) - product).astype("f8")
    )


# threads of Python -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["chain", "matmul_kernel"])
def test_several_threads_call_one_executable(name):
    ex = mlc.compile(module(name))
    wrong = []

    def graph(seed):
        for turn in range(20):
            x = random(1 + (seed + turn) % 5, 64, seed=seed)
            if not np.allclose(ex(x), chain(x), rtol=1e-4, atol=1e-5):
                wrong.append((seed, turn))

    def kernel(seed):
        for turn in range(20):
            a, c = random(8, 16, seed=seed + turn), np.zeros((8, 4), np.float32)
            ex(a, B, c)
            if not np.allclose(c, a @ B, rtol=1e-5, atol=1e-5):
                wrong.append((seed, turn))

    work = graph if name == "chain" else kernel
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_number_of_threads():
    before = mlc.get_num_threads()
    for n, error in ((0, ValueError), (-1, ValueError), ("2", TypeError), (1.5, TypeError)):
        with pytest.raises(error):
            mlc.set_num_threads(n)
        assert mlc.get_num_threads() == before
