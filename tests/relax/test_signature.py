"""The struct info of loop functions."""

from __future__ import annotations

from mlcnb import relax
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script import tir as T


def test_what_a_graph_sees_of_a_loop_function():
    @T.prim_func
    def fill(a: T.handle, p: T.handle, k: T.int64):
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float16")
        A[0, 0] = T.float16(k)

    n = next(iter(fill.buffers)).shape[0]
    assert_structural_equal(
        fill.struct_info,
        relax.FuncStructInfo(
            (
                relax.TensorStructInfo((n, 4), "float16"),
                relax.ObjectStructInfo(),
                relax.PrimStructInfo("int64"),
            ),
            relax.TupleStructInfo(()),
            False,
        ),
        map_free_vars=True,
    )


def test_a_function_that_returns_a_number_is_pure():
    @T.prim_func
    def first(A: T.Buffer((4,), "int32")) -> T.int32:
        T.ret(A[0])

    found = first.struct_info
    assert found.purity and found.ret.dtype == "int32"
    (tensor,) = found.params
    assert [(dim.dtype, dim.value) for dim in tensor.dims] == [("int64", 4)]
