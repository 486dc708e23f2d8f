"""Workloads, records and databases: what is kept, found, read again, refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import meta_schedule as ms
from mlcnb.core.errors import MLCError, ModelError, ScheduleError
from mlcnb.script import tir as T
from mlcnb.tir import Schedule


@T.prim_func
def matmul(
    A: T.Buffer((16, 8), "float32"),
    B: T.Buffer((8, 32), "float32"),
    C: T.Buffer((16, 32), "float32"),
):
    for i, j, k in T.grid(16, 32, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]


@T.prim_func
def product(
    X: T.Buffer((16, 8), "float32"),
    W: T.Buffer((8, 32), "float32"),
    Y: T.Buffer((16, 32), "float32"),
):
    T.func_attr({"global_symbol": "product", "tir.noalias": True})
    for a, b, c in T.grid(16, 32, 8):
        with T.block("Z"):
            va, vb, vc = T.axis.remap("SSR", [a, b, c])
            with T.init():
                Y[va, vb] = T.float32(0)
            Y[va, vb] += X[va, vc] * W[vc, vb]


@T.prim_func
def scaled(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * T.float32(2)


def reordered(func=matmul, vectors=False):
    sch = Schedule(func)
    block = sch.get_child_blocks(sch.get_block("root"))[0]
    i, j, k = sch.get_loops(block)
    sch.reorder(i, k, j)
    if vectors:
        sch.decompose_reduction(block, k)
    return sch


@pytest.fixture(params=["memory", "json"])
def database(request, tmp_path):
    return ms.MemoryDatabase() if request.param == "memory" else ms.JSONDatabase(work_dir=tmp_path)


def test_the_fastest_record_is_found(database):
    database.commit(reordered(), [3e-3, 1e-3])
    database.commit(reordered(vectors=True), 1e-3)
    found = database.query_tuning_record(matmul)
    assert found.seconds == 1e-3 and len(database) == 2
    expected = reordered(vectors=True).mod
    mlc.ir.assert_structural_equal(database.query_ir_module(matmul), expected)
    mlc.ir.assert_structural_equal(database.query(matmul).mod, expected)
    assert [r.seconds for r in database.get_top_k(found.workload, 5)] == [1e-3, 2e-3]
    assert [r.seconds for r in database.get_top_k(found.workload, 1)] == [1e-3]


def test_names_and_attributes_tell_nothing_apart(database):
    database.commit(reordered(), 1e-3)
    assert database.has_workload(product) and not database.has_workload(scaled)
    assert database.query_schedule(scaled) is None
    assert database.query_tuning_record(product).workload.name == "matmul"


def test_targets(database):
    database.commit(reordered(), 1e-3, "llvm -mcpu=x86-64-v3")
    database.commit(reordered(vectors=True), 2e-3, "llvm -mcpu=x86-64-v4")
    assert database.query_tuning_record(matmul).seconds == 1e-3
    assert database.query_tuning_record(matmul, "llvm -mcpu=x86-64-v4").seconds == 2e-3
    assert database.query_tuning_record(matmul, "llvm -mcpu=apple-m1") is None


def test_a_record_without_runs_is_kept_and_never_chosen(database):
    workload = database.commit_workload(matmul)
    database.commit_tuning_record(ms.TuningRecord(reordered().trace, workload))
    assert len(database) == 1 and database.query_tuning_record(matmul) is None
    assert database.get_all_tuning_records()[0].gflops is None


def test_read_again(tmp_path):
    first = ms.JSONDatabase(work_dir=tmp_path)
    first.commit(reordered(), [1e-3, 3e-3], "llvm -mcpu=x86-64-v3")
    first.commit(Schedule(scaled), 1e-6)
    again = ms.JSONDatabase(work_dir=tmp_path)
    assert [r.as_json() for r in again] == [r.as_json() for r in first]
    assert [w.meaning for w in again.workloads] == [w.meaning for w in first.workloads]
    mlc.ir.assert_structural_equal(again.query_ir_module(matmul), reordered().mod)
    again.commit(reordered(vectors=True), 1e-4)
    assert len(ms.JSONDatabase(work_dir=tmp_path)) == 3
    assert len((tmp_path / "database_workload.json").read_text().splitlines()) == 2


def test_the_work_is_counted():
    record = ms.TuningRecord(reordered().trace, ms.Workload.of(matmul), [1e-3])
    assert record.workload.flops == 2 * 16 * 32 * 8
    assert record.gflops == pytest.approx(2 * 16 * 32 * 8 / 1e-3 / 1e9)
    assert record.as_json()[3] == [
        ["TENSOR", "float32", [16, 8]],
        ["TENSOR", "float32", [8, 32]],
        ["TENSOR", "float32", [16, 32]],
    ]


def test_a_union_asks_in_order():
    one, two = ms.MemoryDatabase(), ms.MemoryDatabase()
    two.commit(reordered(), 1e-3)
    both = ms.OrderedUnionDatabase(one, two)
    assert both.query_tuning_record(matmul).seconds == 1e-3
    both.commit(reordered(vectors=True), 2e-3)
    assert len(one) == 1 and both.query_tuning_record(matmul).seconds == 2e-3 and len(both) == 2


def test_the_pass():
    database = ms.MemoryDatabase()
    database.commit(reordered(), 1e-3)
    mod = mlc.IRModule({"main": product, "other": scaled})
    with database:
        done = mlc.relax.transform.MetaScheduleApplyDatabase()(mod)
    sch = reordered(product)
    more = {"tir.is_scheduled": True}
    main = sch.mod["main"].with_attrs(more)
    mlc.ir.assert_structural_equal(done, mlc.IRModule({"main": main, "other": scaled}))
    assert done["main"].attrs["tir.is_scheduled"] and done["main"].attrs["tir.noalias"]
    assert done["main"].attrs["global_symbol"] == "product"
    x, w = (np.random.default_rng(0).random(s, dtype="float32") for s in ((16, 8), (8, 32)))
    y = np.empty((16, 32), "float32")
    mlc.compile(done["main"])(x, w, y)
    np.testing.assert_allclose(y, x @ w, rtol=1e-6)


def test_a_model_runs_with_the_records(tmp_path):
    """A kernel of a compiled graph is taken out, scheduled by hand, and used the next time."""
    from mlcnb import relax

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((16, 8), "float32"))
    weight = relax.const(np.random.default_rng(1).random((8, 32), dtype="float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(x, weight))
            out = builder.emit_output(relax.op.nn.relu(y))
        builder.emit_func_output(out)
    mod = builder.get()
    plain = mlc.compile(mod)
    ((name, kernel),) = plain.kernels.items()
    sch = Schedule(kernel.func)
    for block in sch.get_child_blocks(sch.get_block("root")):
        sch.parallel(sch.get_loops(block)[0])
    with ms.JSONDatabase(work_dir=tmp_path) as database:
        database.commit(sch, 1e-6)
        assert ms.Database.current() is database
        ex = mlc.compile(mod)
    assert ms.Database.current() is None
    assert ex.mod[name].attrs["tir.is_scheduled"]
    mlc.ir.assert_structural_equal(ex.mod[name].body, sch.mod["main"].body, True)
    a = np.random.default_rng(2).random((16, 8), dtype="float32")
    np.testing.assert_allclose(np.asarray(ex(a)), np.asarray(plain(a)), rtol=1e-6)
    assert "tuning records" in dict(ex.timings) and "tuning records" not in dict(plain.timings)


REFUSED = {
    "seconds below zero": (lambda db: db.commit(reordered(), -1.0), "positive number"),
    "not a number": (lambda db: db.commit(reordered(), [float("nan")]), "positive number"),
    "a number": (lambda db: db.commit_workload(3), "not an int"),
    "two functions": (
        lambda db: db.commit_workload(mlc.IRModule({"a": matmul, "b": scaled})),
        "not 2 functions",
    ),
    "another's workload": (
        lambda db: db.commit_tuning_record(
            ms.TuningRecord(reordered().trace, ms.Workload.of(matmul), [1.0])
        ),
        "is not kept here",
    ),
    "a kind": (lambda db: db.query(matmul, kind="best"), "no kind 'best'"),
    "top -1": (lambda db: db.get_top_k(ms.Workload.of(matmul), -1), "top_k is -1"),
    "equality": (lambda db: ms.MemoryDatabase("anchor-block"), "no module equality"),
    "nowhere": (lambda db: ms.JSONDatabase(), "where"),
    "no union": (lambda db: ms.OrderedUnionDatabase(), "no databases"),
    "no database": (
        lambda db: mlc.relax.transform.MetaScheduleApplyDatabase()(mlc.IRModule.from_expr(matmul)),
        "no database",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_keep_nothing(case):
    database = ms.MemoryDatabase()
    act, words = REFUSED[case]
    with pytest.raises(MLCError, match=words):
        act(database)
    assert len(database) == 0 and not database.workloads


def test_a_missing_file_is_refused_where_it_must_be_there(tmp_path):
    with pytest.raises(MLCError, match="no file"):
        ms.JSONDatabase(work_dir=tmp_path / "none", allow_missing=False)
    assert not (tmp_path / "none").exists()


GOOD = [0, [[[], []], [1.0], "llvm", []]]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "[1]",
        "null",
        json.dumps([1, GOOD[1]]),
        json.dumps([-1, GOOD[1]]),
        json.dumps([True, GOOD[1]]),
        json.dumps([0, [3, [1.0], "llvm", []]]),
        json.dumps([0, [[[], []], "abc", "llvm", []]]),
        json.dumps([0, [[[], []], [-1.0], "llvm", []]]),
        json.dumps([0, [[[], []], [1.0], "no such kind", []]]),
    ],
)
def test_damaged_lines_are_named(tmp_path, line):
    ms.JSONDatabase(work_dir=tmp_path).commit(reordered(), 1.0)
    with (tmp_path / "database_tuning_record.json").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ModelError, match="line 2"):
        ms.JSONDatabase(work_dir=tmp_path)


def test_damaged_workloads_are_named(tmp_path):
    (tmp_path / "database_workload.json").write_text('["{}"]\n')
    with pytest.raises(ModelError, match="line 1"):
        ms.JSONDatabase(work_dir=tmp_path)


def test_steps_that_are_none_are_refused_when_they_are_done(tmp_path):
    database = ms.JSONDatabase(work_dir=tmp_path)
    database.commit(reordered(), 1.0)
    bad = [0, [[[["System", [], ["rm"], []]], []], [0.5], "llvm", []]]
    with (tmp_path / "database_tuning_record.json").open("a") as file:
        file.write(json.dumps(bad) + "\n")
    again = ms.JSONDatabase(work_dir=tmp_path)
    with pytest.raises(ScheduleError):
        again.query_schedule(matmul)
