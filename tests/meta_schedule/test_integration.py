"""Searches by TVM's names, in the order of calls of the tutorials that use them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import meta_schedule as ms
from mlcnb.core.errors import MLCError
from mlcnb.ir import assert_structural_equal
from mlcnb.ir.transform import Sequential
from mlcnb.meta_schedule import integration
from mlcnb.relax.frontend import nn
from mlcnb.relax.transform import (
    LegalizeOps,
    MetaScheduleApplyDatabase,
    MetaScheduleTuneIRMod,
    MetaScheduleTuneTIR,
)
from mlcnb.script import from_source

MATMUL = """
@I.ir_module
class Module:
    @T.prim_func
    def main(
        A: T.Buffer((32, 32), "float32"),
        B: T.Buffer((32, 32), "float32"),
        C: T.Buffer((32, 32), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j, k in T.grid(32, 32, 32):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    """All searches of a test in one process: what is tested here is not how they are run."""
    with ThreadPoolExecutor(1) as pool:
        tune = integration.tune
        monkeypatch.setattr(
            integration, "tune", lambda *args, **given: tune(*args, runner=pool, **given)
        )
        yield
    mlc.meta_schedule.child.end_all()


class Net(nn.Module):
    def __init__(self):
        self.first, self.last = nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, x):
        return self.last(nn.op.relu(self.first(x)))


def net():
    return Net().export_tvm({"forward": {"x": nn.spec.Tensor((4, 16), "float32")}})


def test_a_stochastic_schedule_of_a_course(tmp_path):
    """A matmul with drawn tiles, tuned and compiled, as mlc.ai's chapter on it calls things."""

    def stochastic_schedule_mm(sch):
        block_c = sch.get_block("C", "main")
        i, j, k = sch.get_loops(block=block_c)
        j_factors = sch.sample_perfect_tile(loop=j, n=2)
        j_0, j_1 = sch.split(loop=j, factors=j_factors)
        sch.reorder(i, j_0, k, j_1)
        sch.decompose_reduction(block_c, k)
        return sch

    mod = from_source(MATMUL)
    database = ms.tune_tir(
        mod=mod,
        target="llvm --num-cores=1",
        max_trials_global=6,
        num_trials_per_iter=6,
        space=stochastic_schedule_mm,
        work_dir=str(tmp_path),
    )
    sch = ms.tir_integration.compile_tir(database, mod, "llvm --num-cores=1")
    assert sch is not None
    a, b = np.random.default_rng(0).random((2, 32, 32), dtype="float32")
    c = np.zeros_like(a)
    mlc.build(sch.mod, target="llvm")["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_tasks_of_a_graph_and_a_tuned_executable(tmp_path):
    mod, _ = net()
    tasks = ms.relax_integration.extract_tasks(mod, "llvm")
    assert sum(t.weight for t in tasks) >= 2
    assert all(t.dispatched == [t.mod] for t in tasks)
    database = ms.relax_integration.tune_relax(
        mod, None, "llvm", str(tmp_path), max_trials_global=4, op_names=["matmul"]
    )
    assert 1 <= len(database) <= len(tasks)
    assert all("matmul" in record.workload.name for record in database)
    ex = ms.relax_integration.compile_relax(database, mod, "llvm", None)
    shapes = [(4, 16), (32, 16), (32,), (8, 32), (8,)]
    x, w1, b1, w2, b2 = (np.random.default_rng(1).random(s, dtype="float32") for s in shapes)
    expected = np.maximum(x @ w1.T + b1, 0) @ w2.T + b2
    np.testing.assert_allclose(ex["forward"](x, w1, b1, w2, b2), expected, rtol=1e-5)
    scheduled = [k.name_hint for k, f in ex.mod.functions.items() if "tir.is_scheduled" in f.attrs]
    assert scheduled


def test_passes_fill_the_database_and_leave_the_module(tmp_path):
    mod = from_source(MATMUL)
    with mlc.target.Target("llvm --num-cores=1"):
        same = MetaScheduleTuneTIR(work_dir=str(tmp_path), max_trials_global=2)(mod)
        assert mlc.ir.structural_equal(same, mod)
        assert len(ms.JSONDatabase(work_dir=tmp_path)) == 1
        tuned = MetaScheduleApplyDatabase(work_dir=str(tmp_path))(mod)
    assert tuned["main"].attrs["tir.is_scheduled"]


def test_records_are_those_of_the_target_and_what_has_none_is_told(tmp_path):
    mod = from_source(MATMUL)
    one, two = (mlc.target.Target({"kind": "llvm", "num-cores": n}) for n in (1, 2))
    MetaScheduleTuneIRMod(None, str(tmp_path), 1, target=one)(mod)
    tuned = MetaScheduleApplyDatabase(str(tmp_path), enable_warning=True, target=one)(mod)
    assert tuned["main"].attrs["tir.is_scheduled"]
    with pytest.warns(UserWarning, match="MetaScheduleApplyDatabase: no record of main"):
        same = MetaScheduleApplyDatabase(str(tmp_path), enable_warning=True, target=two)(mod)
    assert_structural_equal(same, mod)


def test_what_is_not_wanted_is_not_tuned(tmp_path):
    mod = from_source(MATMUL)
    one = MetaScheduleTuneIRMod({}, str(tmp_path / "one"), 1)
    assert_structural_equal(one(mod), mod)
    assert len(ms.JSONDatabase(work_dir=tmp_path / "one")) == 1
    none = MetaScheduleTuneIRMod({}, str(tmp_path / "none"), 1, op_names=["conv2d"])
    assert none(mod) is mod
    assert not (tmp_path / "none").exists()


def test_customize_optimization_tunes_like_that(tmp_path):
    """LegalizeOps, tune and apply in one sequence, as the tutorial has it."""
    mod, _ = net()
    with mlc.target.Target("llvm"), mlc.transform.PassContext(opt_level=3):
        tuned = Sequential(
            [
                LegalizeOps(),
                MetaScheduleTuneIRMod({}, str(tmp_path), 2, op_names=["matmul"]),
                MetaScheduleApplyDatabase(str(tmp_path)),
            ]
        )(mod)
    scheduled = [k.name_hint for k, f in tuned.functions.items() if "tir.is_scheduled" in f.attrs]
    assert scheduled
    assert all("matmul" in name for name in scheduled)


def test_options_that_nobody_knows_are_refused_by_name(tmp_path):
    with pytest.raises(MLCError, match="tune: no option .cost."):
        ms.tune_tir(from_source(MATMUL), "llvm", tmp_path, 1, cost="x")
