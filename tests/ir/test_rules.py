"""Rewrite rules: named, counted, found in the source, left out; the results stay the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlcnb
from mlcnb import get_pipeline
from mlcnb.core.errors import PassError
from mlcnb.ir import rules
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.ir.transform import FunctionPass, PassContext, Sequential
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax import expr as rx
from mlcnb.relax.transform import FoldConstant, LegalizeOps, SimplifyOps
from mlcnb.script import parse
from mlcnb.transform import trace
from tests.relax.harness import same_numbers

ROOT = Path(mlcnb.__file__).parents[1]

TURNS = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        with R.dataflow():
            lv: R.Tensor((3, 2), dtype="float32") = R.permute_dims(x, axes=[1, 0])
            lv1: R.Tensor((2, 3), dtype="float32") = R.permute_dims(lv, axes=[1, 0])
            lv2: R.Tensor((6,), dtype="float32") = R.reshape(lv1, (6,))
            lv3: R.Tensor((2, 3), dtype="float32") = R.reshape(lv2, (2, 3))
            gv: R.Tensor((2, 3), dtype="float32") = R.nn.relu(lv3)
            R.output(gv)
        return gv
"""


def convolutions() -> IRModule:
    """A small network with something for most rules of the default pipeline."""
    random = np.random.default_rng(0)

    def weight(*shape):
        return rx.const(random.standard_normal(shape).astype("float32") / 4)

    x = rx.Var("x", rx.tensor_info((1, 16, 4, 4), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            padded = bb.emit(op.nn.pad(x, (0, 0, 0, 0, 1, 1, 1, 1)))
            y = bb.emit(op.nn.conv2d(padded, weight(16, 16, 3, 3)))
            scaled = bb.emit(op.multiply(y, weight(1, 16, 1, 1)))
            shifted = bb.emit(op.add(scaled, weight(1, 16, 1, 1)))
            one = bb.emit(op.nn.relu(bb.emit(op.add(shifted, x))))
            again = bb.emit(op.nn.relu(one))
            small = bb.emit(op.nn.max_pool2d(again, (2, 2), strides=(2, 2)))
            flat = bb.emit(op.reshape(small, (1, 64)))
            product = bb.emit(op.matmul(flat, weight(64, 8)))
            out = bb.emit_output(op.nn.softmax(product))
        bb.emit_func_output(out)
    return bb.get()


# names, places, counts


def test_a_pass_counts_its_rules():
    run = trace([SimplifyOps()], parse(TURNS))
    assert [repr(r) for r in run["SimplifyOps"].rules] == (
        ["SimplifyOps.permute_dims ×1", "SimplifyOps.reshape ×1"]
    )
    used = run["SimplifyOps"].rules[0]
    assert [n.name_hint for n in used.uses[0] if isinstance(n, rx.Var)] == ["lv1"]
    assert used.rule.summary == "The permutation that changes nothing; two in a row as one."
    assert used.rule.code.startswith('@rule("SimplifyOps", "permute_dims")\n')


def test_a_rule_tells_where_it_is_written():
    for each in (*rules.rules_of("ConvertLayout"), rules.find_rule("LegalizeOps.nn.relu")):
        path, _, line = each.source.rpartition(":")
        text = (ROOT / path).read_text().splitlines()[int(line) - 1 :]
        assert any(part.lstrip().startswith("def ") for part in text[:4]), each
        assert each.summary, each


def test_every_rule_says_what_it_does():
    get_pipeline("default")
    owners = {r.owner for r in map(rules.find_rule, _declared())}
    assert len(owners) > 12
    for name in _declared():
        found = rules.find_rule(name)
        assert found.source and (found.summary or found.owner == "LegalizeOps"), name


def _declared() -> list[str]:
    passes = "SimplifyOps FoldConstant FoldPad FoldBatchNorm DecomposeOpsForInference FuseGelu "
    passes += "EliminateCommonSubexpr FuseLayerNorm FuseAttention CanonicalizeBindings IntegerOps "
    passes += "GroupConvToMatmul SinkReshape ConvertLayout ChooseConvolution PackMatmul FuseOps "
    passes += "PackQuantizedMatmul RewriteDataflowReshape"
    found = [r.name for name in passes.split() for r in rules.rules_of(name)]
    assert {n.partition(".")[0] for n in found} == set(passes.split())
    return found


def test_a_pass_lists_its_rules():
    known = "astype resize strided_slice einsum broadcast_to concat permute_dims scatter_elements "
    known += "dropout reshape neutral"
    assert [r.short for r in SimplifyOps().rules] == [*known.split(), "idempotent"]


# left out


def test_without_one_rule_the_others_work():
    step = trace([SimplifyOps()], parse(TURNS))["SimplifyOps"]
    expected = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        with R.dataflow():
            lv: R.Tensor((3, 2), dtype="float32") = R.permute_dims(x, axes=[1, 0])
            lv1: R.Tensor((2, 3), dtype="float32") = R.permute_dims(lv, axes=[1, 0])
            gv: R.Tensor((2, 3), dtype="float32") = R.nn.relu(lv1)
            R.output(gv)
        return gv
""")
    other = step.without("SimplifyOps.permute_dims")
    assert_structural_equal(other.after, expected)
    assert [r.rule.name for r in other.rules] == ["SimplifyOps.reshape"]
    assert other.before is step.before


def test_without_all_of_its_rules_a_pass_changes_nothing():
    step = trace([SimplifyOps()], parse(TURNS))["SimplifyOps"]
    assert not step.without(*(r.rule.name for r in step.rules)).changed


def test_a_run_goes_on_without_the_rule():
    run = trace(get_pipeline("zero"), parse(TURNS))
    other = run.without("FuseOps.elementwise", "FuseOps.movement")
    assert len(other) == len(run)
    assert [a is b for a, b in zip(run, other, strict=True)] == [True, True, True, False, False]
    assert run["FuseOps"].changed and not other["FuseOps"].changed
    assert other["FuseOps"].before is run["FuseOps"].before


def test_the_settings_and_the_target_are_those_of_the_first_run():
    with mlcnb.target.Target("llvm -mcpu=x86-64-v3"):
        run = trace(get_pipeline("default"), convolutions(), disabled_rules=["FuseOps.movement"])
    other = run["ConvertLayout"].without("ConvertLayout.declared")
    assert "in blocks of 8 channels" in other.reason
    again = run["FuseOps"].without("FuseOps.epilogue")
    assert not {"FuseOps.movement", "FuseOps.epilogue"} & {r.rule.name for r in again.rules}


def test_an_operator_whose_loops_are_not_wanted_stays():
    with PassContext(disabled_rules=["LegalizeOps.nn.relu"]):
        step = trace([LegalizeOps()], parse(TURNS))["LegalizeOps"]
    assert "R.nn.relu" in repr(step.after)
    assert step.reason.endswith("nn.relu stays: its rule is disabled")


@pytest.mark.parametrize("name", [
    r.rule.name for step in trace(get_pipeline("default"), convolutions()) for r in step.rules
])  # fmt: skip
@pytest.mark.slow
def test_results_are_the_same_without_a_rule(name):
    mod = convolutions()
    with PassContext(disabled_rules=[name]):
        run = trace(get_pipeline("default"), mod)
    assert name not in {r.rule.name for step in run for r in step.rules}
    same_numbers(mod, run.result)


def test_a_folded_constant_stays_a_call():
    mod = parse("""
@R.function
def main(x: R.Tensor((2,), dtype="float32")):
    with R.dataflow():
        lv = R.add(R.const([1.0, 2.0], "float32"), R.const([1.0, 1.0], "float32"))
        gv = R.multiply(x, lv)
        R.output(gv)
    return gv
""")
    step = trace([FoldConstant()], IRModule.make({"main": mod}))["FoldConstant"]
    assert [repr(r) for r in step.rules] == ["FoldConstant.call ×1"]
    assert not step.without("FoldConstant.call").changed


# what is refused


def test_a_rule_that_is_not_known_is_refused():
    with pytest.raises(PassError) as caught:
        PassContext(disabled_rules=["FuseOps.epilog"])
    assert str(caught.value) == (
        "no rewrite rule 'FuseOps.epilog'\n"
        "hint: rules: FuseOps.epilogue, FuseOps.elementwise, FuseOps.movement"
    )
    with pytest.raises(PassError, match="no rewrite rule 'reshape'\nhint: passes with rules: "):
        PassContext(disabled_rules=["reshape"])
    with pytest.raises(PassError, match="no rewrite rule 'LegalizeOps.nothing'"):
        PassContext(disabled_rules=["LegalizeOps.nothing"])


def test_a_rule_that_was_not_applied_is_refused():
    run = trace([SimplifyOps()], parse(TURNS))
    with pytest.raises(PassError) as caught:
        run.without("SimplifyOps.dropout")
    assert str(caught.value) == (
        "PassTrace: SimplifyOps.dropout was not applied in this run\n"
        "hint: applied: SimplifyOps.permute_dims, SimplifyOps.reshape"
    )


# rules of one's own


def test_a_pass_of_ones_own_has_rules():
    @rules.rule("Halve")
    def twice(call):
        """x + x is left alone."""
        return "found" if call.op.name == "relax.add" else None

    class Halve(FunctionPass):
        """A pass that only looks."""

        def transform_function(self, func, mod, ctx):
            for binding in func.body.bindings:
                if isinstance(binding.value, rx.Call):
                    twice(binding.value)
            return func

    x = rx.Var("x", rx.tensor_info((2,), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(op.add(x, x)))
    run = trace(Sequential([Halve()]), bb.get())
    assert repr(run.steps[0].rules) == "(Halve.twice ×1,)"
    assert run.steps[0].without("Halve.twice").rules == ()
    assert [r.name for r in Halve().rules] == ["Halve.twice"]
    assert rules.find_rule("Halve.twice").source.startswith("tests/ir/test_rules.py:")


def test_outside_of_a_pass_rules_apply_and_are_not_counted():
    @rules.rule("Nowhere")
    def always():
        """Gives one."""
        return 1

    assert always() == 1
