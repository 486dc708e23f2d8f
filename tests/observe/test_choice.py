"""The choice by measurement: whoever is fastest is taken, whoever is wrong is not."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import mlcnb
from mlcnb import meta_schedule
from mlcnb.core import display
from mlcnb.core.registry import register_func
from mlcnb.ir import assert_structural_equal
from mlcnb.relax import backend
from mlcnb.relax.dpl import is_op, wildcard
from mlcnb.relax.transform import ChooseByMeasurement, LegalizeOps
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.tir import Schedule


@I.ir_module
class Net:
    @R.function
    def main(x: R.Tensor((8, 16), "float32"), y: R.Tensor(("n",), "float32")):
        with R.dataflow():
            a = R.tanh(x)
            b = R.exp(a)
            c = R.tanh(b)
            d = R.tanh(y)
            R.output(c, d)
        return (c, d)


def library(name: str, run: Any) -> None:
    made = {"op": run}

    def make(functions: Any, options: Any, constants: Any) -> Any:
        symbols = [f.attrs["global_symbol"] for f in functions]
        return [backend.ExternalModule.of(name, dict.fromkeys(symbols, made["op"]))]

    register_func(f"relax.ext.{name}", make, override=True)
    backend.register_patterns([(f"{name}.tanh", is_op("relax.tanh")(wildcard()))])


def slow(x: Any, out: Any) -> None:
    time.sleep(0.02)
    np.tanh(x, out=out)


def wrong(x: Any, out: Any) -> None:
    out[...] = 7


def test_a_slow_or_wrong_library_is_not_taken() -> None:
    library("test_slow", slow)
    library("test_wrong", wrong)
    choose = ChooseByMeasurement(("test_slow", "test_wrong"), seconds=0.01)
    assert choose(Net) is Net
    first, second = choose.choices
    assert (first.taken, first.times) == ("ours", 2)
    assert first.seconds["test_slow"] > 0.02 and list(first.refused) == ["test_wrong"]
    assert second.refused["test_slow"] == "sizes are not known"
    text = display.text(choose.choices)
    assert text.startswith("2 groups: 0 go to a library") and "from ours" in text
    assert "fused_relax_tanh" in (display.html(choose.choices) or "")


def test_a_library_that_wins_is_called(monkeypatch: Any) -> None:
    library("test_fast", lambda x, out: np.tanh(x, out=out))
    times = {"ours": [2.0], "test_fast": [1.0]}
    monkeypatch.setattr(
        "mlcnb.observe.choice.interleaved", lambda runs, seconds: {n: times[n] for n in runs}
    )
    choose = ChooseByMeasurement(("test_fast",))
    got = choose(Net)
    assert [c.taken for c in choose.choices] == ["test_fast", "ours"]

    @I.ir_module
    class After:
        I.module_attrs(
            {"external_mods": [I.external_module("test_fast", ["fused_relax_tanh_test_fast"])]}
        )

        @R.function
        def main(x: R.Tensor((8, 16), "float32"), y: R.Tensor(("n",), "float32")):
            with R.dataflow():
                a = R.call_dps_packed(
                    "fused_relax_tanh_test_fast", (x,), out_sinfo=R.Tensor((8, 16), "float32")
                )
                b = R.exp(a)
                c = R.call_dps_packed(
                    "fused_relax_tanh_test_fast", (b,), out_sinfo=R.Tensor((8, 16), "float32")
                )
                d = R.tanh(y)
                R.output(c, d)
            return (c, d)

    assert_structural_equal(got, After)
    x, y = np.linspace(-1, 1, 128, dtype="float32").reshape(8, 16), np.ones(3, "float32")
    one, two = mlcnb.compile(got)(x, y)
    np.testing.assert_allclose(one, np.tanh(np.exp(np.tanh(x))), rtol=1e-5)
    np.testing.assert_allclose(two, np.tanh(y), rtol=1e-5)


@I.ir_module
class Alone:
    @R.function
    def main(x: R.Tensor((8, 16), "float32")):
        return R.tanh(x)


def tuned_tanh() -> meta_schedule.MemoryDatabase:
    """A database with one record: the kernel of tanh of (8, 16), its loops fused and split anew."""
    legal = LegalizeOps()(Alone)
    kernel = legal.functions[legal.get_global_var("tir_tanh")]
    sch = Schedule(kernel)
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    sch.vectorize(sch.split(sch.fuse(*sch.get_loops(block)), [None, 16])[1])
    database = meta_schedule.MemoryDatabase()
    database.commit(sch, 1e-6)
    return database


def test_a_tuned_record_is_measured_where_a_database_has_one(monkeypatch: Any) -> None:
    library("test_fair", lambda x, out: np.tanh(x, out=out))
    measured: list[set[str]] = []
    times = {"ours": [2.0], "tuned": [1.0], "test_fair": [1.5]}

    def interleaved(runs: Any, seconds: float) -> Any:
        measured.append(set(runs))
        one, *others = [np.ravel(run()) for run in runs.values()]
        for other in others:
            np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
        return {name: times[name] for name in runs}

    monkeypatch.setattr("mlcnb.observe.choice.interleaved", interleaved)
    choose = ChooseByMeasurement(("test_fair",))
    with tuned_tanh() as database:
        assert choose(Net) is Net
        assert measured == [{"ours", "tuned", "test_fair"}]
        first = choose.choices[0]
        assert (first.taken, first.seconds["tuned"]) == ("tuned", 1.0)
        assert "tuned" in display.text(choose.choices)
        made = mlcnb.compile(Alone)
        scheduled = [n for n, f in made.mod.functions.items() if "tir.is_scheduled" in f.attrs]
        assert [g.name_hint for g in scheduled] == ["tir_tanh"] and len(database) == 1
    times["test_fair"] = [0.5]
    with tuned_tanh():
        assert choose(Net) is not Net
        assert choose.choices[0].taken == "test_fair"
    choose(Net)
    assert measured[-1] == {"ours", "test_fair"}
    with meta_schedule.MemoryDatabase():
        choose(Net)
    assert measured[-1] == {"ours", "test_fair"}
