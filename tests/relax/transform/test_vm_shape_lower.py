"""VMShapeLower: sizes in a heap, checks and computations as calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlcnb import relax
from mlcnb.core.errors import PassError, RuntimeInputError
from mlcnb.ir import assert_structural_equal
from mlcnb.ir.module import IRModule
from mlcnb.relax import transform as X
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.relax.testing.runtime_builtin import MakeShapeCode as Make
from mlcnb.relax.testing.runtime_builtin import MatchShapeCode as Match
from mlcnb.runtime.vm import VirtualMachine
from mlcnb.script import from_source
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import evaluate

assert Make.LOAD_SHAPE == 1 and Match.STORE_TO_HEAP == 1  # read in the programs below


def lowered(program: Any, told: bool = False) -> IRModule:
    """The pass's module, well formed, and equal to its text read back."""
    mod = program
    if not isinstance(program, IRModule):
        mod = IRModule.make({"main": program.with_attr("global_symbol", "main")})
    made = X.VMShapeLower(emit_err_ctx=told)(mod)
    assert_well_formed(made)
    assert_structural_equal(from_source(made.script()), made)
    return made


@I.ir_module
class Sized:
    @R.function(pure=False)
    def main(x: R.Tensor(("n", 2), "float32"), y: R.Tensor(ndim=2, dtype="int32")):
        n = T.int64()
        m = T.int64()
        z = R.match_cast(y, R.Tensor((m, m * n), "int32"))
        return (R.shape([m * n, 3]), R.prim_value(m), z)


@I.ir_module
class InTheHeap:
    @R.function(pure=False)
    def main(x: R.Tensor(("n", 2), "float32"), y: R.Tensor(ndim=2, dtype="int32")):
        cls = InTheHeap
        n = T.int64()
        m = T.int64()
        heap = R.call_builtin_with_ctx(
            "vm.builtin.alloc_shape_heap",
            (R.prim_value(3),),
            sinfo_args=(R.Tensor(ndim=1, dtype="int64"),),
        )
        _ = R.call_packed(
            "vm.builtin.check_tensor_info",
            x,
            R.prim_value(2),
            R.dtype("float32"),
            R.str(""),
            sinfo_args=(R.Tuple(),),
        )
        _1 = R.call_packed(
            "vm.builtin.check_tensor_info",
            y,
            R.prim_value(2),
            R.dtype("int32"),
            R.str(""),
            sinfo_args=(R.Tuple(),),
        )
        _2 = R.call_packed(
            "vm.builtin.match_shape",
            x,
            heap,
            R.prim_value(2),
            Match.STORE_TO_HEAP,
            R.prim_value(0),
            Match.ASSERT_EQUAL_TO_IMM,
            R.prim_value(2),
            R.str(""),
            sinfo_args=(R.Tuple(),),
        )
        _3 = R.call_packed(
            "vm.builtin.match_shape",
            y,
            heap,
            R.prim_value(2),
            Match.STORE_TO_HEAP,
            R.prim_value(1),
            Match.NO_OP,
            R.prim_value(0),
            R.str(""),
            sinfo_args=(R.Tuple(),),
        )
        _4 = cls.shape_func(heap)
        _5 = R.call_packed(
            "vm.builtin.match_shape",
            y,
            heap,
            R.prim_value(2),
            Match.ASSERT_EQUAL_TO_LOAD,
            R.prim_value(1),
            Match.ASSERT_EQUAL_TO_LOAD,
            R.prim_value(2),
            R.str(""),
            sinfo_args=(R.Tuple(),),
        )
        z = R.match_cast(y, R.Tensor((m, m * n), "int32"))
        s = R.call_packed(
            "vm.builtin.make_shape",
            heap,
            R.prim_value(2),
            Make.LOAD_SHAPE,
            R.prim_value(2),
            Make.USE_IMM,
            R.prim_value(3),
            sinfo_args=(R.Shape(ndim=2),),
        )
        v = R.call_packed(
            "vm.builtin.make_prim_value",
            heap,
            Make.LOAD_SHAPE,
            R.prim_value(1),
            sinfo_args=(R.Prim(value=m),),
        )
        gv = (s, v, z)
        return gv

    @T.prim_func(private=True)
    def shape_func(H: T.Buffer((T.int64(3),), "int64")):
        T.func_attr({"tir.is_host_func": True})
        H[T.int64(2)] = H[T.int64(1)] * H[T.int64(0)]


def test_sizes_are_kept_computed_and_compared() -> None:
    made = lowered(Sized)
    assert str(made["shape_func"].script()) == str(InTheHeap["shape_func"].script())
    x, y = np.zeros((4, 2), "float32"), np.zeros((3, 12), "int32")
    expected = evaluate(Sized, x, y)
    assert expected[:2] == ((12, 3), 3)
    vm = VirtualMachine(relax.build(made, "llvm"))
    for got in (evaluate(made, x, y), vm["main"](x, y)):
        assert tuple(got[0]) == (12, 3) and got[1] == 3
        np.testing.assert_array_equal(got[2], y)
    with pytest.raises(RuntimeInputError, match="dimension 1 is 11, expected 12"):
        evaluate(made, x, np.zeros((3, 11), "int32"))


def test_the_whole_program() -> None:
    assert_structural_equal(lowered(Sized), InTheHeap)


def test_nothing_is_kept_of_static_shapes() -> None:
    @R.function(pure=False)
    def main(s: R.Shape([1, 2]), f: R.Callable((R.Object,), R.Object), w: R.Tensor((2,), "int8")):
        R.func_attr({"num_input": 2})
        return s

    text = lowered(main).script()
    assert "R.null_value()" in text and "alloc_shape_heap" not in text
    assert text.count("check_shape_info") == 1 and text.count("check_func_info") == 1
    assert "check_tensor_info" not in text  # a weight of known size
    assert text.count("match_shape") == 1


def test_tuples_field_by_field_and_the_result() -> None:
    @R.function(pure=False)
    def main(
        t: R.Tuple(R.Tensor(("n",), "float32"), R.Tuple(R.Shape, R.Tensor(("n",), "int32"))),
        o: R.Object,
    ) -> R.Tuple(R.Tensor(("n",), "float32")):
        return o

    made = lowered(main, told=True)
    text = made.script()
    assert text.count("check_tuple_info") == 3 and text.count("tuple_getitem") == 1
    assert "ErrorContext(fn=main, loc=param[0], param=t) " in text
    x, i = np.zeros(3, "float32"), np.zeros(3, "int32")
    (got,) = evaluate(made, (x, ((7,), i)), (x,))
    np.testing.assert_array_equal(got, x)
    message = r"ErrorContext\(fn=main, loc=return\) dimension 0 is 4, expected 3"
    with pytest.raises(RuntimeInputError, match=message):
        evaluate(made, (x, ((7,), i)), (np.zeros(4, "float32"),))


def test_local_functions_are_refused() -> None:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        @R.function
        def inner(y: R.Tensor(("n",), "float32")):
            return y

        return inner(x)

    mod = IRModule.make({"main": main.with_attr("global_symbol", "main")})
    with pytest.raises(PassError, match="main has a local function"):
        X.VMShapeLower()(mod)
