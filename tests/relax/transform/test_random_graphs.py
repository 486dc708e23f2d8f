"""Random graphs through every pass: well formed, the same numbers, stable, and text that parses."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlcnb.ir import assert_structural_equal, load_json, save_json
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import Sequential
from mlcnb.relax import transform as X
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.script import parse
from mlcnb.testing import assert_same_results, evaluate
from tests.relax.graphs import graphs
from tests.relax.harness import inputs_of

CLEAN_UPS = [
    X.Normalize(),
    X.CanonicalizeBindings(),
    X.SimplifyOps(),
    X.FoldConstant(),
    X.FoldBatchNorm(),
    X.DecomposeOpsForInference(),
    X.EliminateCommonSubexpr(),
    X.DeadCodeElimination(),
    X.ToNonDataflow(),
    X.ConvertToDataflow(),
    X.InlinePrivateFunctions(),
]

QUICK = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
SLOW = settings(QUICK, max_examples=20)


def same(before: IRModule, after: IRModule, tolerance: float = 1e-4) -> None:
    assert_well_formed(after)
    args = inputs_of(before["main"])
    assert_same_results(evaluate(before, *args), evaluate(after, *args), tolerance, tolerance)


@given(mod=graphs())
@QUICK
def test_every_clean_up_keeps_meaning_and_is_stable(mod: IRModule) -> None:
    assert_well_formed(mod)
    for each in CLEAN_UPS:
        got = each(mod)
        same(mod, got)
        again = each(got)
        if each.name not in ("SimplifyOps", "CanonicalizeBindings"):
            assert again is got, each
        same(mod, again)


@given(mod=graphs(), order=st.permutations(CLEAN_UPS))
@QUICK
def test_clean_ups_in_any_order(mod: IRModule, order: list) -> None:
    same(mod, Sequential(order)(mod))


@given(mod=graphs(max_steps=8))
@SLOW
def test_fusion_keeps_meaning(mod: IRModule) -> None:
    lowered = Sequential([X.LegalizeOps(), X.AnnotateTIROpPattern()])(mod)
    same(mod, lowered)
    grouped = X.FuseOps()(lowered)
    same(mod, grouped)
    fused = X.FuseTIR()(grouped)
    same(mod, fused)
    same(mod, X.RewriteDataflowReshape()(fused))


@given(mod=graphs(max_steps=8))
@SLOW
def test_the_whole_way_to_explicit_memory(mod: IRModule) -> None:
    done = X.get_pipeline("lower")(X.get_pipeline("zero")(mod))
    same(mod, done)


@pytest.mark.slow
@given(mod=graphs())
@QUICK
def test_text_and_json_round_trips(mod: IRModule) -> None:
    fused = X.get_pipeline("zero")(mod)
    for each in (mod, fused, X.get_pipeline("lower")(fused)):
        assert_structural_equal(parse(each.script(show_meta=True)), each)
        assert_structural_equal(load_json(save_json(each)), each)


@given(mod=graphs(symbolic=True), size=st.integers(1, 4))
@SLOW
def test_binding_symbols_gives_the_same_as_running_at_that_size(mod: IRModule, size: int) -> None:
    bound = X.BindSymbolicVars({"n": size})(mod)
    assert_well_formed(bound)
    args = inputs_of(bound["main"])
    assert_same_results(evaluate(mod, *args), evaluate(bound, *args), 1e-5, 1e-5)


@given(mod=graphs(symbolic=False))
@QUICK
def test_the_plan_never_lets_living_tensors_overlap(mod: IRModule) -> None:
    lowered = X.LegalizeOps()(mod)
    plan = X.plan_memory(lowered["main"], lowered.functions)
    inside = [t for t in plan.tensors if t.kind == "arena"]
    for i, a in enumerate(inside):
        for b in inside[:i]:
            if a.lives_with(b) and a.root is not b.root:
                assert a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset


@given(mod=graphs(max_steps=8))
@SLOW
def test_the_default_pipeline_keeps_meaning_and_is_deterministic(mod: IRModule) -> None:
    done = X.get_pipeline("default")(mod)
    same(mod, done)
    assert X.get_pipeline("default")(mod).script(show_meta=True) == done.script(show_meta=True)
