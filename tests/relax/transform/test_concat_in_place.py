"""Concatenations whose operands are made in place: nothing copied, no value overwritten."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.ir.module import IRModule
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.analysis.memory_plan import never_called
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.relax.transform import ConcatInPlace, LegalizeOps, plan_memory
from mlcnb.script import relax as R
from mlcnb.testing import assert_same_results, evaluate
from mlcnb.tir.analysis.joining import joined_at
from tests.relax.harness import as_module, inputs_of


@R.function
def branches(x: R.Tensor((1, 8, 16), "float32")):
    with R.dataflow():
        a = R.exp(x)
        b = R.sigmoid(x)
        c = R.concat((a, b), axis=1)
        d = R.tanh(a)
        e = R.concat((c, d), axis=1)
        f = R.nn.relu(e)
        gv = R.sum(f, axis=1)
        R.output(gv)
    return gv


def test_operands_lie_in_the_result_and_results_in_the_next_one() -> None:
    mod = LegalizeOps()(as_module(branches))
    plan = plan_memory(mod["main"], mod.functions)
    at = {t.name: (t.inside and t.inside.name, t.offset) for t in plan.tensors}
    assert at["a"] == ("c", 0)
    assert at["b"] == ("c", 8 * 64)
    assert at["c"] == ("e", 0)
    assert at["d"] == ("e", 16 * 64)
    assert at["e"] == (None, 0)
    assert {v.name_hint for v in plan.joined} == {"c", "e"}
    assert plan.arena_bytes == 24 * 64  # f takes the place of e
    assert "inside of e" in repr(plan)


def test_a_concatenation_in_place_is_no_kernel_and_not_fused() -> None:
    ex = mlc.compile(as_module(branches), target="llvm")
    x = inputs_of(ex.mod["main"])[0]
    assert_same_results(evaluate(as_module(branches), x), ex(x), 1e-5, 1e-5)
    kernels = [call.kernel for call in ex.plans().layout({}).calls]
    assert kernels == ["tir_exp", "tir_sigmoid", "tir_tanh", "fused_relu_sum"]


def test_a_kernel_that_nobody_calls_is_compiled_when_somebody_asks(tmp_path) -> None:
    ex = mlc.compile(as_module(branches), target="llvm")
    x = inputs_of(ex.mod["main"])[0]
    first = ex(x)
    waiting = [name for name, kernel in ex.kernels.items() if not kernel.is_made]
    assert waiting == ["concatenate", "concatenate1"]
    assert "2 never called, compiled when asked for" in repr(ex.kernels)
    assert len(ex.strips(measured=False)) == len(ex.kernels) - 2
    assert not ex.kernels["concatenate"].is_made, "to look at the tables compiles nothing"
    a, b, c = (np.random.default_rng(0).random((1, n, 16), "float32") for n in (8, 8, 16))
    ex["concatenate"](a, b, c)
    assert_same_results(np.concatenate((a, b), axis=1), c, 0, 0)
    assert ex.kernels["concatenate"].is_made and "ret" in ex.kernels["concatenate"].asm
    again = mlc.load_module(ex.export_library(tmp_path / "branches.mlcnb"))
    assert_same_results(first, again(x), 0, 0)
    assert [kernel.is_made for kernel in again.kernels.values()] == [True] * len(ex.kernels)


def test_what_is_called_somewhere_does_not_wait() -> None:
    @R.function
    def both(x: R.Tensor((1, 8, 16), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.sigmoid(x)
            c = R.concat((a, b), axis=1)  # in place
            d = R.concat((a, x), axis=1)  # x is given: copied by the same loops
            gv = R.add(c, d)
            R.output(gv)
        return gv

    mod = LegalizeOps()(as_module(both))
    assert never_called(mod) == set()
    ex = mlc.compile(as_module(both), target="llvm")
    x = inputs_of(ex.mod["main"])[0]
    assert_same_results(evaluate(as_module(both), x), ex(x), 1e-5, 1e-5)


def test_inputs_and_what_is_given_twice_are_copied() -> None:
    @R.function
    def copies(x: R.Tensor((1, 8, 16), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.concat((a, x), axis=1)
            c = R.concat((a, a), axis=1)
            d = R.add(b, c)
            gv = R.sum(d, axis=1)
            R.output(gv)
        return gv

    mod = LegalizeOps()(as_module(copies))
    assert ConcatInPlace()(mod) is mod
    assert plan_memory(mod["main"], mod.functions).joined == set()


@pytest.mark.parametrize(
    "shapes, axis, starts",
    [
        ([(1, 2, 3), (1, 4, 3)], 1, (0, 24)),
        ([(2, 3), (4, 3), (1, 3)], 0, (0, 24, 72)),
        ([(1, 1, 5), (1, 1, 2)], 2, (0, 20)),
        ([(2, 2, 3), (2, 4, 3)], 1, None),
        ([(1, 2, 3), (1, 2, 3)], 2, None),
    ],
)
def test_where_operands_lie(shapes, axis, starts) -> None:
    bb = BlockBuilder()
    args = [Var(f"x{i}", tensor_info(s, "float32")) for i, s in enumerate(shapes)]
    with bb.function("main", args):
        bb.emit_func_output(bb.emit(op.concat(args, axis=axis)))
    mod = LegalizeOps()(bb.get())
    assert joined_at(mod["concatenate"]) == starts


UNARY = [op.nn.relu, op.exp, op.negative, lambda x: op.multiply(x, x)]


@st.composite
def concatenations(draw) -> IRModule:
    """A graph of unary operators, sums and concatenations of tensors of a few rows."""
    bb = BlockBuilder()
    x = Var("x", tensor_info((1, 2, draw(st.sampled_from([16, 5]))), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            made = [bb.emit(op.tanh(x))]
            for _ in range(draw(st.integers(2, 9))):
                if draw(st.booleans()):
                    parts = [draw(st.sampled_from(made)) for _ in range(draw(st.integers(2, 3)))]
                    made.append(bb.emit(op.concat(parts, axis=1)))
                else:
                    a = draw(st.sampled_from(made))
                    made.append(bb.emit(draw(st.sampled_from(UNARY))(op.tanh(a))))
            ends = [made[-1], draw(st.sampled_from(made)), draw(st.sampled_from(made))]
            gv = bb.emit_output(op.concat([op.sum(e, axis=1) for e in ends], axis=0))
        bb.emit_func_output(gv)
    return bb.get()


@pytest.mark.slow
@given(mod=concatenations())
@settings(max_examples=25, deadline=None)
def test_no_value_is_overwritten_before_its_last_use(mod: IRModule) -> None:
    args = inputs_of(mod["main"])
    for pipeline in ("default", LegalizeOps()):
        ex = mlc.compile(mod, target="llvm", relax_pipeline=pipeline)
        for found in (ex(*args), ex(*args)):
            assert_same_results(evaluate(mod, *args), found, 1e-4, 1e-4)


def test_two_runs_of_one_program_share_the_arena_without_a_trace() -> None:
    ex = mlc.compile(as_module(branches), target="llvm")
    one, two = (np.full((1, 8, 16), v, "float32") for v in (0.5, -3.0))
    first = np.asarray(ex(one)).copy()
    ex(two)
    np.testing.assert_array_equal(np.asarray(ex(one)), first)
