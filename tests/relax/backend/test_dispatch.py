"""DispatchSampling and DispatchSortScan: only their operators become loops."""

from __future__ import annotations

import numpy as np

import mlcnb as mlc
from mlcnb.relax.backend import DispatchSampling, DispatchSortScan
from mlcnb.script import ir as I
from mlcnb.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(
        prob: R.Tensor((3, 5), "float32"),
        drawn: R.Tensor((6, 1), "float32"),
        rows: R.Tensor((6, 1), "int64"),
    ):
        with R.dataflow():
            lv = R.nn.softmax(prob)
            lv1 = R.sort(lv, axis=1)
            gv = R.multinomial_from_uniform(lv1, drawn, rows, dtype="int64")
            R.output(gv)
        return gv


def called(mod: mlc.IRModule) -> list[str]:
    """The operators that are called, and the loop functions."""
    calls = [b.value for b in mod["main"].body.bindings]
    names = [c.args[0].name_hint if c.op.name == "relax.call_tir" else c.op.name for c in calls]
    return names


def test_each_pass_takes_its_operators_alone() -> None:
    rest = ["relax.nn.softmax", "relax.sort", "relax.multinomial_from_uniform"]
    sampled, sorts = DispatchSampling()(Module), DispatchSortScan()(Module)
    assert called(sampled) == [*rest[:2], "multinomial_from_uniform"]
    assert called(sorts) == [rest[0], "sort", rest[2]]


def test_the_result_is_that_of_the_module() -> None:
    rng = np.random.default_rng(0)
    args = (
        rng.random((3, 5), "float32"),
        rng.random((6, 1), "float32"),
        rng.integers(0, 3, (6, 1)),
    )
    want = mlc.compile(Module)(*args)
    both = DispatchSortScan()(DispatchSampling()(Module))
    np.testing.assert_array_equal(mlc.compile(both)(*args), want)
