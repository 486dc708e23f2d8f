"""LegalizeOps against Apache TVM's: the same loops for the same call, function by function.

Runs where apache-tvm 0.27 is installed (`pip install apache-tvm`, part of the extra `bench`). Calls
whose loops differ are declared with the reason; a declaration fails on the day it is not true.
"""

from __future__ import annotations

import re

import pytest

from mlcnb.core.errors import MLCError
from mlcnb.ir import IRModule, assert_structural_equal
from mlcnb.ir.structural import structural_equal
from mlcnb.relax.transform import LegalizeOps
from mlcnb.script import ir as I
from mlcnb.script import parse
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from tests.relax.transform.legalized import CASES, OTHERWISE

DIFFER = {case: why for why, cases in OTHERWISE.items() for case in cases}


def source(params: str, call: str) -> str:
    """A module whose function makes one call, with the sizes that its parameters name."""
    names = sorted(set(re.findall(r"'([a-z]\w?)'", params)))
    sizes = "".join(f"        {n} = T.int64()\n" for n in names)
    head = f"@I.ir_module\nclass Module:\n    @R.function\n    def main({params}):\n"
    return f"{head}{sizes}        gv = {call}\n        return gv\n"


@pytest.mark.parametrize("case", CASES)
def test_loops_are_those_of_tvm(case: str) -> None:
    tvm = pytest.importorskip("tvm", reason="apache-tvm is not installed")
    if not tvm.__version__.startswith("0.27"):
        pytest.skip(f"apache-tvm 0.27 is wanted, this is {tvm.__version__}")
    names = {"I": tvm.script.ir, "R": tvm.script.relax, "T": tvm.script.tirx}
    before = tvm.script.from_source(source(*CASES[case]), extra_vars=names)
    with tvm.target.Target("llvm"):
        after = tvm.relax.transform.LegalizeOps()(before)
    same = _same_loops(before.script(), after.script())
    assert same == (case not in DIFFER), DIFFER.get(case, "not declared to differ")


def _same_loops(before: str, after: str) -> bool:
    """Whether our pass makes `after` of `before`, texts of TVM; False where one is not read."""
    try:
        return structural_equal(LegalizeOps()(parse(before)), parse(after))
    except MLCError:
        return False


def test_what_differs_is_among_the_calls() -> None:
    assert set(CASES) >= set(DIFFER)
    assert len(DIFFER) == sum(map(len, OTHERWISE.values()))


def legalized(params: str, call: str) -> IRModule:
    """The module of one call after the pass."""
    return LegalizeOps()(parse(source(params, call)))


def test_a_constant_without_dimensions_stands_in_the_loops() -> None:
    @I.ir_module
    class Expected:
        @T.prim_func(private=True)
        def multiply(
            x: T.Buffer((T.int64(2), T.int64(3)), "float16"),
            y: T.Buffer((T.int64(2), T.int64(3)), "float16"),
        ):
            T.func_attr({"tir.noalias": True})
            for i, j in T.grid(T.int64(2), T.int64(3)):
                with T.block("multiply"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = x[vi, vj] * T.float16(0.5)

        @R.function
        def main(x: R.Tensor((2, 3), "float16")):
            gv = R.call_tir(Expected.multiply, (x,), out_sinfo=R.Tensor((2, 3), "float16"))
            return gv

    made = legalized("x: R.Tensor((2, 3), 'float16')", "R.multiply(x, R.const(0.5, 'float16'))")
    assert_structural_equal(made, Expected)


def test_a_tensor_of_which_only_the_shape_counts_is_no_argument() -> None:
    @I.ir_module
    class Expected:
        @T.prim_func(private=True)
        def full(y: T.Buffer((T.int64(2), T.int64(3)), "int32")):
            T.func_attr({"tir.noalias": True})
            for i, j in T.grid(T.int64(2), T.int64(3)):
                with T.block("full"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = 7

        @R.function
        def main(x: R.Tensor((2, 3), "int32")):
            gv = R.call_tir(Expected.full, R.tuple(), out_sinfo=R.Tensor((2, 3), "int32"))
            return gv

    made = legalized("x: R.Tensor((2, 3), 'int32')", "R.full_like(x, R.const(7, 'int32'))")
    assert_structural_equal(made, Expected)


def test_comparisons_ascend_and_joined_tensors_are_asked_from_the_last_on() -> None:
    @I.ir_module
    class Greater:
        @T.prim_func(private=True)
        def greater(
            x: T.Buffer((T.int64(4),), "float32"),
            y: T.Buffer((T.int64(4),), "float32"),
            z: T.Buffer((T.int64(4),), "bool"),
        ):
            T.func_attr({"tir.noalias": True})
            for i in range(T.int64(4)):
                with T.block("greater"):
                    vi = T.axis.spatial(T.int64(4), i)
                    z[vi] = y[vi] < x[vi]

        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            gv = R.call_tir(Greater.greater, (x, y), out_sinfo=R.Tensor((4,), "bool"))
            return gv

    @I.ir_module
    class Joined:
        @T.prim_func(private=True)
        def concatenate(
            x: T.Buffer((T.int64(4),), "float32"),
            y: T.Buffer((T.int64(4),), "float32"),
            z: T.Buffer((T.int64(8),), "float32"),
        ):
            T.func_attr({"tir.noalias": True})
            for i in range(T.int64(8)):
                with T.block("concat"):
                    vi = T.axis.spatial(T.int64(8), i)
                    z[vi] = T.if_then_else(T.int64(4) <= vi, y[vi - T.int64(4)], x[vi])

        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            gv = R.call_tir(Joined.concatenate, (x, y), out_sinfo=R.Tensor((8,), "float32"))
            return gv

    two = "x: R.Tensor((4,), 'float32'), y: R.Tensor((4,), 'float32')"
    assert_structural_equal(legalized(two, "R.greater(x, y)"), Greater)
    assert_structural_equal(legalized(two, "R.concat((x, y), axis=0)"), Joined)


def test_loops_count_in_32_bits_where_that_is_asked_for() -> None:
    mod = parse(source("x: R.Tensor((4,), 'float32')", "R.exp(x)"))
    assert "T.int64" in LegalizeOps()(mod)["tir_exp"].script()
    assert "T.int64" not in LegalizeOps(index_dtype=None)(mod)["tir_exp"].script()
