"""Attention in one kernel: NumPy's numbers at any size, nothing that grows with the scores."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import te
from mlcnb.codegen.llvm.inspect import facts
from mlcnb.core.node import walk
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.relax import op as R
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.relax.operator import attrs_of
from mlcnb.target import Target
from mlcnb.tir import Schedule
from mlcnb.tir.stmt import Allocate
from mlcnb.tir.transform import lower

HOST = Target("llvm")


def arrays(batch, queries, keys, heads, dim, found=None):
    """Query, key and value, normal."""
    random = np.random.default_rng(queries + keys)
    shapes = [(batch, queries, heads, dim), (batch, keys, heads, dim)]
    shapes.append((batch, keys, heads, dim if found is None else found))
    return [random.standard_normal(s).astype("float32") for s in shapes]


def declared(given, **attrs):
    """(PrimFunc, the operator's declaration) for those arrays."""
    args = [Var(f"x{i}", tensor_info(a.shape, "float32")) for i, a in enumerate(given)]
    op = attrs_of(R.nn.attention(*args, **attrs))
    tensors = [te.placeholder(a.shape, "float32", f"x{i}") for i, a in enumerate(given)]
    return te.create_prim_func([*tensors, op.compute(*tensors)]), op


def run(given, **attrs):
    """What the default schedule computes on two threads, and the formula in float64."""
    func, op = declared(given, **attrs)
    found = np.full((*given[0].shape[:3], given[2].shape[3]), np.nan, "float32")
    mlc.set_num_threads(2)
    mlc.compile(func, schedule="default")(*given, found)
    with np.errstate(invalid="ignore", over="ignore"):
        return found, op.numpy(*(a.astype("float64") for a in given))


def is_ours(func) -> bool:
    """Whether the rule took it: its blocks lie under one parallel loop."""
    return 'scope="local"' in schedule_cpu(func, HOST).mod["main"].script()


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    st.integers(1, 2), st.integers(1, 40), st.integers(1, 40), st.integers(1, 3), st.integers(1, 40)
)
def test_any_sizes(batch, queries, keys, heads, dim):
    given = arrays(batch, queries, keys, heads, dim)
    assert is_ours(declared(given)[0])
    found, expected = run(given)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [(1, 1, 1, 37), (2, 3, 50, 37), (50, 1), (37,)])
@pytest.mark.parametrize("causal_mask", [None, "TopLeft"])
def test_bias_and_mask_are_put_on_the_tiles(bias, causal_mask):
    given = [*arrays(2, 50, 37, 3, 24, 20), np.random.default_rng(0).random(bias, "float32")]
    found, expected = run(given, causal_mask=causal_mask)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [(1, 1, 37, 50), (2, 3, 37, 50), (37, 1), (1, 50)])
def test_a_bias_that_is_turned(bias):
    given = [*arrays(2, 50, 37, 3, 24, 20), np.random.default_rng(0).random(bias, "float32")]
    found, expected = run(given, keys_first=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_turned_bias_is_read_by_vectors():
    """Along the queries: none of its numbers is gathered from a row of its own."""
    given = [*arrays(1, 50, 37, 2, 32), np.zeros((2, 37, 50), "float32")]
    func, _ = declared(given, keys_first=True)
    ex = mlc.compile(func, schedule="default")
    text = "".join(f.text for f in facts(ex.kernels["main"].compiled).values())
    assert "gather" not in text
    assert "T.prefetch(" in str(lower(schedule_cpu(func, HOST).mod["main"]).script())
    plain, _ = declared([*given[:3], np.zeros((2, 50, 37), "float32")])
    assert "T.prefetch(" not in str(lower(schedule_cpu(plain, HOST).mod["main"]).script())


@pytest.mark.parametrize("queries", [48, 50])
def test_sums_are_formed_for_a_vector_of_queries(queries):
    """The last queries fill no vector: they were summed up one after the other."""
    func, _ = declared(arrays(1, queries, 37, 2, 32))
    sch = schedule_cpu(func, HOST)
    update = sch.get_block("attention_norm_update")
    lane = sch.get(sch.get_loops(update)[-1])
    query = sch.get(update).iter_vars[-2].var.name
    assert int(lane.extent) == HOST.lanes("float32")
    text = sch.mod["main"].script().split('T.block("attention_norm_update")')[1]
    axis = next(line for line in text.splitlines() if line.strip().startswith(query))
    assert lane.loop_var.name in axis


def test_keys_that_are_masked_do_not_count_and_nothing_overflows():
    given = arrays(1, 20, 30, 2, 16)
    given[0] *= 1e18
    given[1] *= 1e18
    mask = np.zeros((1, 1, 1, 30), "float32")
    mask[..., 20:] = -np.inf
    given[2][:, 20:] = 1e30
    found, expected = run([*given, mask])
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_nan_stays_in_its_query_and_a_query_that_sees_nothing_is_nan():
    given = arrays(1, 20, 30, 2, 16)
    given[0][0, 3, 1, 5] = np.nan
    found, expected = run(given)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.isnan(found).any(-1).nonzero(), ([0], [3], [1]))
    mask = np.zeros((20, 1), "float32")
    mask[7] = -np.inf
    found, _ = run([*arrays(1, 20, 30, 2, 16), mask])
    assert sorted(set(np.isnan(found).nonzero()[1])) == [7]


def test_memory_is_for_some_queries_and_not_for_all_scores():
    func, _ = declared(arrays(1, 512, 512, 8, 64))
    sch = schedule_cpu(func, HOST)
    made = [n for n in walk(lower(sch.mod["main"]).body) if isinstance(n, Allocate)]
    held = sum(math.prod(as_int(e) for e in n.extents) * n.dtype.bits // 8 for n in made)
    queries = 2 * HOST.lanes("float32")
    assert held <= 4 * queries * (2 * 512 + 64 + 64 + 8)


def test_both_products_are_multiply_adds_on_registers():
    func, _ = declared(arrays(1, 128, 128, 12, 32))
    ex = mlc.compile(func, schedule="default")
    text = max(facts(ex.kernels["main"].compiled).values(), key=lambda f: f.total.fma).text
    loops = re.split(r"^\.\w+:", text, flags=re.M)
    tile = HOST.vector_registers // 2
    exponentials = re.compile("vminps|vpslld")  # limits, a power of two
    products = [x for x in loops if x.count("vfmadd") >= tile and not exponentials.search(x)]
    assert len(products) == 2
    for loop in products:
        body = re.split(r"^\s+j\w+ ", loop, maxsplit=1, flags=re.M)[0]
        assert not re.search(r"[yz]mm.*\(%rsp\)|\(%rsp\).*[yz]mm", body)


def test_vectors_are_as_wide_as_the_target_has_them():
    func, _ = declared(arrays(1, 50, 37, 2, 20))
    for mcpu, lanes in [("x86-64-v4", 16), ("x86-64-v3", 8), ("x86-64-v2", 4)]:
        text = schedule_cpu(func, Target({"kind": "llvm", "mcpu": mcpu})).mod["main"].script()
        assert 'scope="local"' in text
        assert set(re.findall(r"T.vectorized\((\d+)\)", text)) == {str(lanes)}


def test_the_trace_replays():
    func, _ = declared(arrays(1, 50, 37, 2, 20))
    sch = schedule_cpu(func, HOST)
    again = Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(sch.mod, again.mod)
