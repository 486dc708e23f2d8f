"""Attention of halves on tensor cores: right on random shapes and masks, one kernel, no scores."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import dlight as dl
from mlcnb import relax, te
from mlcnb.codegen.cuda import nvrtc
from mlcnb.codegen.races import races
from mlcnb.core.node import rewrite
from mlcnb.dlight.gpu import RULES
from mlcnb.dlight.gpu.flash_attention import tile_for
from mlcnb.dlight.rule import choice
from mlcnb.ir import expr as e
from mlcnb.machine.gpu import gpu
from mlcnb.observe.gpu import gpu_report
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.relax.operator import attrs_of
from mlcnb.target import Target

SIM = Target("cuda-sim")
#: of an element of the result: what is rounded to halves on the way, by the values' size
CLOSE = {"float16": 2e-3, "bfloat16": 2e-2}
BIAS = "bias"


def operands(batch, queries, keys, heads, dim, found, dtype="float16", bias=None):
    """Query, key, value and a bias of a shape, normal."""
    random = np.random.default_rng(queries + keys)
    shapes = [(batch, queries, heads, dim), (batch, keys, heads, dim), (batch, keys, heads, found)]
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return [random.standard_normal(s).astype(kind) for s in (*shapes, *([bias] if bias else []))]


def declared(args, after=None, **attrs):
    """The loop function of an attention, and what follows it; its declaration."""
    names = [str(x.dtype) for x in args]
    variables = [Var(f"x{i}", tensor_info(x.shape, names[i])) for i, x in enumerate(args)]
    op = attrs_of(relax.op.nn.attention(*variables, **attrs))
    tensors = [te.placeholder(x.shape, names[i], f"x{i}") for i, x in enumerate(args)]
    out = op.compute(*tensors)
    made = out if after is None else after(out)
    return te.create_prim_func([*tensors, made]), op


def reference(args, op):
    """The formula in float64."""
    with np.errstate(all="ignore"):
        return op.numpy(*(x.astype("float64") for x in args))


def found_by(sch, args, shape):
    """What a simulated GPU computes."""
    out = np.full(shape, np.nan, args[0].dtype)
    mlc.compile(sch, target=SIM)(*args, out)
    return out.astype("float64")


def check(args, **attrs):
    """The rule takes it, and the result is that of float64; the schedule."""
    func, op = declared(args, **attrs)
    chosen = choice(RULES, func, SIM)
    assert chosen.rule == "flash_attention"
    wanted = reference(args, op)
    found = found_by(chosen.schedule, args, wanted.shape)
    close = CLOSE[str(args[0].dtype)]
    np.testing.assert_allclose(found, wanted, rtol=close, atol=close)
    return chosen.schedule


#: batch, queries, keys, heads, dim, dim of a value; dtype; attributes
CASES = {
    "whole tiles": ((1, 128, 64, 2, 64, 64), "float16", {}),
    "parts of tiles": ((2, 70, 130, 1, 40, 24), "bfloat16", {}),
    "long rows, causal": ((1, 130, 100, 1, 128, 128), "float16", {"causal_mask": "TopLeft"}),
    "one warp, odd rows": ((1, 17, 33, 1, 17, 9), "float16", {"scale": 0.5}),
    "window and bias": (
        (1, 90, 150, 1, 80, 32), "float16",
        {"causal_mask": "BottomRight", "window_size": 40, BIAS: (90, 150)},
    ),
    "bias of each head, a block that is not full": (
        (1, 80, 48, 2, 16, 16), "bfloat16", {BIAS: (1, 2, 80, 48)},
    ),
}  # fmt: skip
QUICK = ("parts of tiles", "window and bias")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in CASES]
)
def test_result_is_that_of_float64(name):
    sizes, dtype, attrs = CASES[name]
    attrs = dict(attrs)
    sch = check(operands(*sizes, dtype, attrs.pop(BIAS, None)), **attrs)
    assert races(sch.mod["main"]) == ()
    source = mlc.compile(sch, target="cuda").kernels[0].source
    assert source.count("__global__") == 1 and source.count("mma_m16n8k16") >= 4
    assert ("cp_async" in source) == (sizes[-1] % 2 == 0)


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(
    st.integers(1, 2), st.integers(16, 150), st.integers(1, 150), st.integers(1, 2),
    st.integers(1, 128), st.integers(1, 128), st.sampled_from(sorted(CLOSE)),
    st.sampled_from([None, "TopLeft"]), st.booleans(),
)  # fmt: skip
def test_any_sizes(batch, queries, keys, heads, dim, found, dtype, mask, biased):
    bias = (batch, 1, queries, keys) if biased else None
    check(operands(batch, queries, keys, heads, dim, found, dtype, bias), causal_mask=mask)


def test_a_query_that_sees_nothing_is_nan_and_nan_stays_in_its_query():
    args = operands(1, 40, 20, 1, 16, 16)
    args[0][0, 30, 0, 3] = np.nan
    func, op = declared(args, causal_mask="BottomRight")
    found = found_by(dl.gpu.Attention().apply(func, SIM), args, args[0].shape)
    wanted = reference(args, op)
    rows = [*range(20), 30]
    assert np.isnan(wanted[0, rows]).all()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)


def test_large_scores_do_not_overflow():
    args = operands(1, 16, 40, 1, 16, 16)
    args[0] *= 200
    args[1] *= 200
    func, op = declared(args)
    found = found_by(dl.gpu.Attention().apply(func, SIM), args, args[0].shape)
    np.testing.assert_allclose(found, reference(args, op), rtol=2e-3, atol=2e-3)


def test_what_follows_is_done_before_the_result_is_stored():
    args = operands(1, 33, 40, 2, 16, 24)
    func, op = declared(
        args, lambda y: te.compute(y.shape, lambda *at: y(*at) * y(*at) + y(*at), name="after")
    )
    chosen = choice(RULES, func, SIM)
    assert chosen.rule == "flash_attention"
    y = reference(args, op)
    found = found_by(chosen.schedule, args, y.shape)
    np.testing.assert_allclose(found, y * y + y, rtol=4e-3, atol=4e-3)


def why(func, target=SIM):
    """Why the rule leaves a function."""
    chosen = choice(RULES, func, target)
    assert chosen.rule != "flash_attention"
    return next(x.why for x in chosen.passed if x.rule == "flash_attention")


def test_what_it_leaves_to_other_rules():
    func = declared(operands(1, 8, 40, 1, 16, 16))[0]
    assert why(func) == "8 queries of 16: at least 16, no longer than 128"
    func = declared(operands(1, 16, 40, 1, 16, 160))[0]
    assert why(func) == "16 queries of 160: at least 16, no longer than 128"
    func = declared([x.astype("float32") for x in operands(1, 16, 40, 1, 16, 16)])[0]
    assert why(func) == "query, key and value are no halves of one dtype"
    func = declared(operands(1, 16, 40, 1, 16, 16))[0]
    assert why(func, Target("cuda -arch=sm_75")).startswith("the GPU is older than sm_80")


def test_names_alone_do_not_make_an_attention():
    """Blocks by the same names that do something else: 2 - x in the place of 1 / x."""
    func = declared(operands(1, 16, 40, 1, 16, 16))[0]

    def rule(n):
        is_inverse = isinstance(n, e.Div) and isinstance(n.a, e.FloatImm)
        return e.Sub(e.FloatImm(n.dtype, 2.0), n.b) if is_inverse else None

    other = func.with_body(rewrite(func.body, rule))
    assert other.body is not func.body
    assert why(other) == "blocks by the names of nn.attention do not do what it does"


def test_tiles_fit_the_queries():
    assert [tuple(tile_for(n, 64)) for n in (16, 32, 33, 64, 65, 500)] == [
        (1, 1, 32), (1, 2, 32), (1, 4, 32), (1, 4, 32), (2, 4, 32), (2, 4, 32),
    ]  # fmt: skip
    assert tile_for(500, 96) == (1, 4, 32) and tile_for(500, 128) == (1, 8, 32)


@pytest.mark.slow
@pytest.mark.skipif(not nvrtc.is_available(), reason="NVRTC is not installed")
@pytest.mark.parametrize("causal_mask", [None, "TopLeft"])
@pytest.mark.parametrize("dim", [32, 64, 80, 96, 128])
@pytest.mark.parametrize("queries", [512, 500])
def test_nothing_spills(queries, dim, causal_mask):
    """Offline, for three architectures; the bias has a row for each query."""
    for bias in ([], [np.zeros((queries, queries), "float16")]):
        args = [*[np.zeros((1, queries, 4, dim), "float16")] * 3, *bias]
        sch = dl.gpu.Attention().apply(declared(args, causal_mask=causal_mask)[0], Target("cuda"))
        source = mlc.compile(sch, target="cuda").kernels[0].source
        for arch in ("sm_80", "sm_90a", "sm_120"):
            for found in nvrtc.compile_text(source, arch).resources.values():
                assert (found.spill_stores, found.spill_loads, found.stack) == (0, 0, 0), arch


def test_a_fortieth_of_the_time_is_predicted():
    """Against the rule that keeps scores in shared memory: no tensor cores, keys read for eight."""
    args = [np.zeros((1, 1024, 8, 64), "float16")] * 3
    func = declared(args)[0]
    times = [
        gpu_report(choice(rules, func, SIM).schedule.mod["main"], gpu("A100")).seconds
        for rules in (RULES, RULES[1:])
    ]
    assert times[0] < times[1] / 40
