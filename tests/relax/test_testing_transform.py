"""What lives how long in a dataflow block, what is one memory, and what may be written over."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import ArgumentError
from mlcnb.ir import assert_structural_equal
from mlcnb.relax.testing.transform import (
    ApplyEmptyCppMutator,
    dataflow_alias_analysis,
    dataflow_inplace_analysis,
    dataflow_liveness_analysis,
    dataflow_single_inplace_call,
)
from mlcnb.script import ir as I
from mlcnb.script import relax as R


@I.ir_module
class Chain:
    @R.function
    def main(x: R.Tensor((2, 3), "int32"), y: R.Tensor((3,), "int32")):
        with R.dataflow():
            a = R.add(x, y)
            b = R.multiply(a, a)
            c = b
            d = R.add(b, y)
            e = R.subtract(d, c)
            f = R.sum(e, axis=[0])
            g = R.add(f, y)
            R.output(g)
        return g


@I.ir_module
class Tuples:
    @R.function
    def main(x: R.Tensor((4,), "float32"), t: R.Tuple(R.Tensor((4,), "float32"), R.Tensor)):
        with R.dataflow():
            a = R.exp(x)
            p = (a, x)
            q = p[0]
            s = R.split(q, 2)
            u = s[1]
            v = t[0]
            w = R.reshape(a, (2, 2))
            k = R.call_pure_packed("f", a, sinfo_args=R.Tensor((4,), "float32"))
            m = R.exp(q)
            R.output(m, u, v, w, k)
        return m


def block_of(mod):
    return mod["main"].body.blocks[0]


def by_name(found):
    return {var.name_hint: value for var, value in found.items()}


def test_lives():
    assert by_name(dataflow_liveness_analysis(block_of(Chain))) == {
        "x": (-1, 7),
        "y": (-1, 7),
        "a": (0, 1),
        "b": (1, 3),
        "c": (2, 4),
        "d": (3, 4),
        "e": (4, 5),
        "f": (5, 6),
        "g": (6, 7),
    }


def test_pieces_of_memory():
    aliases, tuples = dataflow_alias_analysis(block_of(Tuples), Tuples["main"].params)
    assert by_name(aliases) == {
        "x": {0},
        "t": {1},
        "a": {4},
        "p": {5},
        "q": {4},
        "s": {6},
        "u": {8},
        "v": {2},
        "w": {-1},
        "k": {-1},
        "m": {9},
    }
    assert tuples == {1: [{2}, {3}], 5: [{4}, {0}], 6: [{7}, {8}]}


def test_what_may_be_written_over():
    """Not what the caller has, not what lives on by another name, not what is too small."""
    params = Chain["main"].params
    room, exact = dataflow_inplace_analysis(block_of(Chain), params, Chain)
    assert room == exact == [(1, {0, 1}), (4, {0, 1}), (6, {0})]
    params = Tuples["main"].params
    assert dataflow_inplace_analysis(block_of(Tuples), params, Tuples) == ([], [])


def test_one_call_in_place():
    call = block_of(Chain).bindings[0].value
    made, mod = dataflow_single_inplace_call(Chain, call, [0])
    assert made.op.name == "relax.call_tir_inplace"
    assert made.args[0].name_hint == "add_inplace"
    assert tuple(made.args[1].fields) == tuple(call.args)
    assert tuple(made.attrs.inplace_indices) == (0,)
    assert len(mod["add_inplace"].params) == 2 and "add_inplace" not in Chain
    with pytest.raises(ArgumentError, match="operand 1 has not the result's shape and dtype"):
        dataflow_single_inplace_call(Chain, call, [1])
    with pytest.raises(ArgumentError, match="inplace_indices is the number of one operand"):
        dataflow_single_inplace_call(Chain, call, [0, 1])


def test_a_mutator_that_changes_nothing():
    assert_structural_equal(ApplyEmptyCppMutator()(Chain), Chain)
