"""Tensors: what is shared, what is copied, and TVM's methods."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.core.errors import MLCError, RuntimeInputError
from mlcnb.runtime.device import Device
from mlcnb.runtime.tensor import as_array, flatten, fresh, from_numbers
from tests.runtime.programs import random

X = random(2, 3)


def test_a_tensor_is_a_copy():
    t = mlc.runtime.tensor(X)
    assert (t.shape, t.dtype, t.device) == ((2, 3), "float32", mlc.cpu())
    assert not np.shares_memory(t.numpy(), X)
    np.testing.assert_array_equal(t.numpy(), X)
    assert mlc.nd.array is mlc.runtime.tensor
    assert repr(mlc.nd.array([1, 2])) == "Tensor(shape=(2,), dtype=int64, device=cpu(0))\n[1 2]"


def test_programs_take_the_arrays_of_tensors_the_native_way():
    """Calls with Tensors alone took 25 times as long as those with arrays."""
    builder = mlc.relax.BlockBuilder()
    x = mlc.relax.Var("x", mlc.relax.TensorStructInfo((2, 3), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(mlc.relax.op.add(x, x)))
    ex = mlc.compile(builder.get())
    t = mlc.runtime.tensor(X)
    for run in (ex, ex, ex["main"], mlc.relax.VirtualMachine(ex, mlc.cpu())["main"]):
        found = run(t)
        assert type(found) is type(t) and found.device == mlc.cpu()
        np.testing.assert_array_equal(found.numpy(), X + X)
        assert not np.shares_memory(found.numpy(), t.numpy())
    assert ex.plans().native is not None
    assert type(ex(X)) is np.ndarray and type(ex(x=t)) is type(t)
    with pytest.raises(RuntimeInputError):
        ex(mlc.runtime.tensor(X.astype("float64")))
    with pytest.raises(RuntimeInputError):
        ex(mlc.runtime.tensor(X[:1]))


def test_numpy_and_dlpack_share_memory():
    t = mlc.runtime.tensor(X)
    address = t.numpy().ctypes.data
    assert np.asarray(t).ctypes.data == address
    assert np.from_dlpack(t).ctypes.data == address
    assert mlc.runtime.from_dlpack(t).numpy().ctypes.data == address
    assert as_array(t, "x").ctypes.data == address
    assert np.array(t, copy=True).ctypes.data != address
    assert np.asarray(t, dtype="f8").dtype == np.float64


def test_copyto():
    t = mlc.runtime.tensor(X)
    u = mlc.runtime.empty((2, 3))
    assert t.copyto(u) is u
    np.testing.assert_array_equal(u.numpy(), X)


class OnTheGpu:
    def __dlpack__(self, **options):
        raise BufferError("data is on a GPU")

    def __dlpack_device__(self):
        return 2, 0


def test_what_cannot_be_shared():
    with pytest.raises(RuntimeInputError) as caught:
        as_array(OnTheGpu(), "x")
    assert str(caught.value).startswith("input 'x': OnTheGpu cannot be shared through DLPack: ")
    assert str(caught.value).endswith("\nhint: pass a NumPy array on the CPU")


def test_arrays_are_shared_where_they_can_be():
    assert as_array(X, "x") is X
    assert as_array(X.T, "x").flags.c_contiguous
    swapped = as_array(X.astype(">f4"), "x")
    assert swapped.dtype == np.float32
    np.testing.assert_array_equal(swapped, X)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (3, "float32", np.float32(3)),
        (True, "bool", np.True_),
        ([0, 1], "bool", np.array([False, True])),
        ([1, 2], "int8", np.array([1, 2], "i1")),
        ([1.5, 2], "float16", np.array([1.5, 2], "f2")),
        ([float("inf")], "float32", np.array([np.inf], "f4")),
        ([], "int32", np.array([], "i4")),
        ([[1, 2], [3, 4]], None, np.array([[1, 2], [3, 4]])),
    ],
)
def test_numbers_and_lists(value, dtype, expected):
    made = from_numbers(value, None if dtype is None else np.dtype(dtype), "x")
    np.testing.assert_array_equal(made, expected, strict=True)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [([1.5], "int32"), ([300], "int8"), ([-1], "uint8"), ([2], "bool"), ([1e300], "float32")],
)
def test_numbers_that_the_dtype_does_not_hold(value, dtype):
    with pytest.raises(RuntimeInputError, match=f"^input 'x': {dtype} does not hold these numbers"):
        from_numbers(value, np.dtype(dtype), "x")


def test_results_in_memory_of_their_own():
    a, b = X.copy(), X.copy()
    b.flags.writeable = False
    result = fresh((a, (a, b), a[:1], 5))
    arrays = flatten(result)
    assert result[0] is a and result[3] == 5
    assert len(arrays) == 4 and all(x.flags.writeable for x in arrays)
    for i, one in enumerate(arrays):
        assert not any(np.shares_memory(one, other) for other in arrays[:i])


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(-3, 5), st.booleans()), max_size=12))
def test_any_results_are_apart(pieces):
    """Parts of one memory, backward and in steps, empty and read-only ones among them."""
    memory = np.arange(40.0)
    given_, results = [], []
    for start, step, is_given in pieces:
        part = memory[start : start + 8 * abs(step) : step or 1]
        (given_ if is_given else results).append(part)
    made = fresh(tuple(results), given_)
    for before, after in zip(results, made, strict=True):
        np.testing.assert_array_equal(before, after)
    for i, one in enumerate(made):
        assert not any(np.shares_memory(one, other) for other in [*made[:i], *given_])


def test_devices():
    assert mlc.device("cpu") == mlc.cpu() == mlc.device("llvm") == mlc.device(mlc.cpu(0))
    assert mlc.device("cuda:1") == mlc.cuda(1) == mlc.device("gpu", 1)
    assert (repr(mlc.cuda(1)), mlc.cuda(1).device_type, mlc.cpu().device_type) == ("cuda(1)", 2, 1)
    assert mlc.cpu().exist and not Device("cpu", 7).exist
    for name in ("tpu", "cuda:x", ""):
        with pytest.raises(MLCError) as caught:
            mlc.device(name)
        assert str(caught.value) == f'no device {name!r}\nhint: "cpu", "cuda" or "cuda:1"'
