"""memory.view: bytes from an offset on, as another shape and dtype; vm.call_tir_dyn."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import relax, tir
from mlcnb.core.errors import ExecutionError, TypeInferError
from mlcnb.ir import assert_structural_equal
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T


@I.ir_module
class Views:
    @R.function
    def main(A: R.Tensor((64, 8), "float32"), n: R.Prim("int64")):
        a = R.memory.view(A, R.shape([4, 16]), R.dtype("float32"), R.prim_value(256))
        b = R.memory.view(A, dtype="int32")
        c = R.memory.view(A, R.tuple(), R.dtype("int8"), R.tuple())
        d = R.memory.view(A, (3,), "int64", n)
        return (a, b, c, d)


def test_views_are_numpys() -> None:
    A = np.random.default_rng(0).standard_normal((64, 8)).astype("float32")
    ex = mlc.compile(Views)
    a, b, c, d = ex(A, 40)
    flat = A.reshape(-1)
    np.testing.assert_array_equal(a, flat[64:128].reshape(4, 16))
    np.testing.assert_array_equal(b, A.view("int32"))
    np.testing.assert_array_equal(c, flat.view("int8")[: 64 * 8].reshape(64, 8))
    np.testing.assert_array_equal(d, flat[10:16].view("int64"))
    with pytest.raises(ExecutionError, match="24 bytes from byte 2040 on are not inside of 2048"):
        ex(A, 2040)


def test_views_are_read_as_they_are_printed() -> None:
    for dialect in ("0.21", "0.27"):
        assert_structural_equal(mlc.script.from_source(Views.script(dialect=dialect)), Views)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (513,)}, "2052 bytes from byte 0 on are not inside of"),
        ({"dtype": "float64"}, "4096 bytes from byte 0 on are not inside of"),
        ({"shape": (1,), "relative_byte_offset": 2046}, "4 bytes from byte 2046 on are not inside"),
        ({"shape": (1,), "relative_byte_offset": -4}, "4 bytes from byte -4 on are not inside of"),
        ({"dtype": "void"}, "a tensor has no elements of dtype void"),
    ],
)
def test_a_view_beyond_its_data_is_refused(options, message) -> None:
    x = relax.Var("x", R.Tensor((64, 8), "float32"))
    with pytest.raises(TypeInferError, match=f"memory.view: {message}"):
        relax.BlockBuilder().normalize(relax.op.memory.view(x, **options))


def test_a_view_beyond_data_of_open_sizes_or_unknown_dtype_is_refused() -> None:
    n, bb = tir.Var("n", "int64"), relax.BlockBuilder()
    x, y = relax.Var("x", R.Tensor((n,), "float32")), relax.Var("y", R.Tensor((16,)))
    for given, shape in ((x, (n + 1,)), (x, (n // 4 + 1, 4)), (y, (4, 5))):
        with pytest.raises(TypeInferError, match="has more elements than"):
            bb.normalize(relax.op.memory.view(given, shape))
    fits = bb.normalize(relax.op.memory.view(x, ((n + 3) // 4, 4)))
    assert_structural_equal(fits.struct_info, R.Tensor(((n + 3) // 4, 4), "float32"))
    with pytest.raises(TypeInferError, match="from byte 16 on is not inside of it"):
        bb.normalize(relax.op.memory.view(relax.Var("z", R.Tensor()), relative_byte_offset=16))


def test_call_tir_dyn_hands_over_the_dimensions_of_a_shape() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def filled(a: T.handle, n: T.int64, m: T.int64):
            A = T.match_buffer(a, (n, m), "int64")
            for i, j in T.grid(n, m):
                with T.block("filled"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi, vj] = vi * m + vj

        @R.function(pure=False)
        def main(s: R.Shape(["n", "m"])) -> R.Tensor(("n", "m"), "int64"):
            n = T.int64()
            m = T.int64()
            cls = Module
            alloc = R.builtin.alloc_tensor(R.shape([n, m]), R.dtype("int64"), R.prim_value(0))
            _: R.Tuple = R.vm.call_tir_dyn(cls.filled, (alloc, R.shape([n, m])))
            return alloc

    assert_structural_equal(mlc.script.from_source(Module.script()), Module)
    want = np.arange(15).reshape(3, 5)
    np.testing.assert_array_equal(mlc.compile(Module)((3, 5)), want)
