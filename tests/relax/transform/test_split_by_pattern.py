"""SplitCallTIRByPattern: the first part of a loop function goes to a library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlcnb.core.errors import PassError
from mlcnb.core.registry import register_func
from mlcnb.ir import assert_structural_equal
from mlcnb.relax import transform as X
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.script import from_source
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import evaluate


@T.prim_func(private=True)
def matmul(a: T.handle, b: T.handle, c: T.handle):
    m = T.int32()
    n = T.int32()
    k = T.int32()
    A = T.match_buffer(a, (m, k))
    B = T.match_buffer(b, (k, n))
    C = T.match_buffer(c, (m, n))
    for i, j, r in T.grid(m, n, k):
        with T.block("matmul"):
            vi, vj, vr = T.axis.remap("SSR", [i, j, r])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vr] * B[vr, vj]


@I.ir_module
class Fused:
    @T.prim_func(private=True)
    def fused(x: T.Buffer((4, 8)), w: T.Buffer((8, 5)), b: T.Buffer((5,)), out: T.Buffer((4, 5))):
        y = T.alloc_buffer((4, 5))
        for i, j, r in T.grid(4, 5, 8):
            with T.block("product"):
                vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    y[vi, vj] = T.float32(0)
                y[vi, vj] = y[vi, vj] + x[vi, vr] * w[vr, vj]
        for i, j in T.grid(4, 5):
            with T.block("relu"):
                vi, vj = T.axis.remap("SS", [i, j])
                out[vi, vj] = T.max(y[vi, vj] + b[vj], T.float32(0))

    @R.function
    def main(
        x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 5), "float32"), b: R.Tensor((5,), "float32")
    ):
        cls = Fused
        with R.dataflow():
            gv = R.call_tir(cls.fused, (x, w, b), out_sinfo=R.Tensor((4, 5), "float32"))
            R.output(gv)
        return gv


@I.ir_module
class Split:
    @T.prim_func(private=True)
    def fused_epilogue(y: T.Buffer((4, 5)), b: T.Buffer((5,)), out: T.Buffer((4, 5))):
        for i, j in T.grid(4, 5):
            with T.block("relu"):
                vi, vj = T.axis.remap("SS", [i, j])
                out[vi, vj] = T.max(y[vi, vj] + b[vj], T.float32(0))

    @R.function
    def main(
        x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 5), "float32"), b: R.Tensor((5,), "float32")
    ):
        cls = Split
        with R.dataflow():
            lv = R.call_dps_packed("fused_library", (x, w), out_sinfo=R.Tensor((4, 5), "float32"))
            gv = R.call_tir(cls.fused_epilogue, (lv, b), out_sinfo=R.Tensor((4, 5), "float32"))
            R.output(gv)
        return gv


def take(matches: Any) -> Any:
    """A library that does products of matrices."""
    (found,) = matches
    assert sorted(str(v) for v in found.symbol_values.values()) == ["4", "5", "8"]
    return "void fused_library();", 1, found.matched_buffers


def test_the_first_part_goes_to_a_library() -> None:
    made = X.DeadCodeElimination()(X.SplitCallTIRByPattern([matmul], take)(Fused))
    assert_well_formed(made)
    extern = made["main"].body.blocks[0].bindings[0].value.args[0]
    assert extern.attrs["c_source"] == "void fused_library();"
    assert made.script() == Split.script().replace("class Split", "class Module")
    register_func("fused_library", lambda x, w, y: np.matmul(x, w, out=y), override=True)
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(s).astype("float32") for s in ((4, 8), (8, 5), (5,)))
    np.testing.assert_allclose(evaluate(made, x, w, b), evaluate(Fused, x, w, b), 1e-5, 1e-5)
    assert_structural_equal(from_source(Split.script()), Split)


@pytest.mark.parametrize("patterns", [[], [Split["fused_epilogue"]]])
def test_what_fits_no_pattern_stays(patterns: Any) -> None:
    assert X.SplitCallTIRByPattern(patterns, take)(Fused) is Fused


def test_what_nobody_takes_stays() -> None:
    assert X.SplitCallTIRByPattern([matmul], lambda matches: [])(Fused) is Fused


def test_a_result_that_the_loops_go_on_with_is_refused() -> None:
    @I.ir_module
    class Again:
        @T.prim_func(private=True)
        def f(x: T.Buffer((4, 8)), w: T.Buffer((8, 5)), out: T.Buffer((4, 5))):
            for i, j, r in T.grid(4, 5, 8):
                with T.block("product"):
                    vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                    with T.init():
                        out[vi, vj] = T.float32(0)
                    out[vi, vj] = out[vi, vj] + x[vi, vr] * w[vr, vj]
            for i, j in T.grid(4, 5):
                with T.block("more"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    out[vi, vj] = out[vi, vj] + T.float32(1)

        @R.function
        def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 5), "float32")):
            cls = Again
            return R.call_tir(cls.f, (x, w), out_sinfo=R.Tensor((4, 5), "float32"))

    with pytest.raises(PassError, match="f goes on with out, a parameter that the library writes"):
        X.SplitCallTIRByPattern([matmul], take)(Again)
