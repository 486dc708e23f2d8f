"""tune: what it finds computes the same, is never slower than the default, and nothing that goes
wrong with a candidate reaches the notebook."""

import json
import os
import signal
import subprocess
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import meta_schedule as ms
from mlcnb import te
from mlcnb.core import display
from mlcnb.core.errors import MLCError, ModelError
from mlcnb.dlight.cpu import RULES, schedule_cpu
from mlcnb.dlight.decide import Decisions, decide
from mlcnb.meta_schedule import search
from mlcnb.meta_schedule.child import Child, do_job, end_all
from mlcnb.meta_schedule.contest import arguments
from mlcnb.meta_schedule.database import JSONDatabase, MemoryDatabase
from mlcnb.meta_schedule.space import DecisionModel, DefaultSpace
from mlcnb.meta_schedule.tune import ModelTuning
from mlcnb.script import from_source
from mlcnb.target import Target

LLVM = Target("llvm")


def matmul(n, m, depth):
    a = te.placeholder((n, depth), name="A")
    b = te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c])


def pooled():
    x = te.placeholder((1, 8, 20, 20), name="X")
    p, q = te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 3), name="q")
    y = te.compute(
        (1, 8, 18, 18), lambda n, c, h, w: te.max(x[n, c, h + p, w + q], axis=[p, q]), name="Y"
    )
    return te.create_prim_func([x, y])


def softmax():
    x = te.placeholder((64, 100), name="X")
    k, r = te.reduce_axis((0, 100), name="k"), te.reduce_axis((0, 100), name="r")
    high = te.compute((64,), lambda i: te.max(x[i, k], axis=k), name="high")
    e = te.compute((64, 100), lambda i, j: te.exp(x[i, j] - high[i]), name="e")
    total = te.compute((64,), lambda i: te.sum(e[i, r], axis=r), name="total")
    y = te.compute((64, 100), lambda i, j: e[i, j] / total[i], name="y")
    return te.create_prim_func([x, y])


def turned():
    x = te.placeholder((40, 72), name="X")
    return te.create_prim_func([x, te.compute((72, 40), lambda i, j: x[j, i], name="Y")])


def roomy():
    """A product whose second matrix has whole vectors of columns, of which few are read."""
    a, b = te.placeholder((5, 20), name="A"), te.placeholder((1, 20, 16), name="B")
    k = te.reduce_axis((0, 20), name="k")
    c = te.compute((5, 3), lambda i, j: te.sum(a[i, k] * b[0, k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c])


FUNCS = {
    "matmul": matmul(33, 40, 50), "pooled": pooled(), "softmax": softmax(), "turned": turned(),
    "roomy": roomy(),
}  # fmt: skip


@pytest.fixture(scope="module")
def runner():
    """One thread, whose process starts once for all tests here."""
    with ThreadPoolExecutor(1) as pool:
        yield pool
    end_all()


def results(func, program):
    args = arguments(func)
    mlc.compile(program, LLVM, schedule=None)(*args)
    return args


@pytest.mark.parametrize("name", FUNCS)
def test_every_choice_computes_the_same(name):
    func = FUNCS[name]
    space = DefaultSpace(func, LLVM)
    first = space.first()
    expected = results(func, first.sch)
    around = list(space.around(first))
    rng = np.random.default_rng(len(around))
    tried = 0
    for at in rng.permutation(len(around))[:12]:
        made = space.make(around[at][0])
        if isinstance(made, str):
            continue
        for got, wanted in zip(results(func, made.sch), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
        tried += made.text != first.text
    assert tried >= 3


@pytest.mark.parametrize("name", FUNCS)
def test_the_default_is_the_point_at_which_every_decision_is_the_rules_own(name):
    first = DefaultSpace(FUNCS[name], LLVM).first()
    assert first.choices == {}
    assert mlc.ir.structural_equal(first.sch.mod, schedule_cpu(FUNCS[name], LLVM).mod)
    assert all(p.taken == p.default for p in first.points)


def test_decisions_are_asked_and_noted():
    with Decisions({"b": "3"}) as made:
        assert decide("a", (8, 4)) == 8
        assert decide("b", (1, 3, 2), cost=lambda n: n) == 3
        assert decide("b", (1, 3), cost=lambda n: n) == 1
        assert decide("only", (5, 5)) == 5
        assert decide("c", (4, 1, 2, 4)) == 4
    assert [(p.name, p.label, p.options, p.default) for p in made.points] == [
        ("a", "8", ("8", "4"), 0),
        ("b", "3", ("1", "3", "2"), 0),
        ("b#2", "1", ("1", "3"), 0),
        ("c", "4", ("4", "1", "2"), 0),
    ]
    assert made.points[1].costs == (1.0, 3.0, 2.0)
    assert decide("a", (8, 4)) == 8  # nobody listens any more


def test_another_rule_is_a_choice():
    space = DefaultSpace(matmul(32, 32, 32), LLVM)
    others = [c["rule"] for c, _ in space.around(space.first()) if "rule" in c]
    assert "general" in others
    assert set(others) < {rule.__name__ for rule in RULES}
    made = space.make({"rule": "general"})
    assert made.choices == {"rule": "general"}


def test_the_model_learns_what_decisions_are_worth():
    space = DefaultSpace(matmul(64, 64, 64), LLVM)
    first = space.first()
    made = [
        c for choices, _ in space.around(first) if not isinstance(c := space.make(choices), str)
    ]
    model = DecisionModel()
    assert model.predict(first) == pytest.approx(first.cost**0.5)
    slow = {c.text for c in made if c.choices.get("tile", "")[:1] == "1"}
    measured = [(c, 2.0 if c.text in slow else 0.9) for c in made]
    model.fit([(first, 1.0), *measured])
    right = sum((model.predict(c) > 1.2) == (c.text in slow) for c in made)
    assert right >= 0.9 * len(made)
    assert sum(model.terms(made[0]).values()) == pytest.approx(np.log(model.predict(made[0])))


def test_tune_keeps_the_best_and_compile_takes_it(tmp_path, runner):
    func, heard = matmul(48, 48, 48), []
    db = JSONDatabase(work_dir=tmp_path)
    found = mlc.tune(func, trials=9, database=db, threads=1, runner=runner, on_trial=heard.append)
    assert found.ratio <= 1.0
    assert found.interval[1] <= 1.0
    assert heard == found.trials
    assert found.trials[0].candidate.choices == {}
    again = JSONDatabase(work_dir=tmp_path)
    assert len(again) == 1
    with again:
        ex = mlc.compile(func, schedule="default")
    assert (
        mlc.ir.structural_equal(
            ex.mod["main"].without_attr("tir.is_scheduled"), found.schedule.mod["main"]
        )
        or found.best is found.default
    )
    a, b, c = arguments(func)
    ex(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    assert repr(found).startswith("tune main: ")
    assert display.html(found).count("<img") == 3


def test_a_function_of_the_user_is_a_space(runner):
    def tiled(sch):
        block = sch.get_block("C")
        i, j, k = sch.get_loops(block)
        outer, inner = sch.split(j, sch.sample_perfect_tile(j, 2))
        sch.reorder(i, outer, k, inner)
        sch.vectorize(inner)
        return sch

    def refused(sch):
        sch.vectorize(sch.get_loops(sch.get_block("C"))[2])

    found = mlc.tune(matmul(32, 32, 32), trials=9, space=[tiled, refused], threads=1, runner=runner)
    assert any("vectorize" in why for why in found.illegal.values())
    drawn = {p.label for t in found.trials[1:] for p in t.candidate.points}
    assert len(drawn) > 1
    assert all(t.ratio is not None for t in found.trials)


class _Planted(ThreadPoolExecutor):
    """Does jobs, and plants what is wrong in those that `spoil` changes."""

    def __init__(self, spoil):
        super().__init__(1)
        self.spoil = spoil

    def submit(self, fn, job, timeout):
        return super().submit(fn, self.spoil(dict(job)), timeout)


def test_a_wrong_result_costs_one_candidate():
    func = matmul(24, 24, 24)
    wrong = mlc.ir.json.save_json(
        mlc.IRModule.from_expr(
            from_source(
                """
@T.prim_func
def main(A: T.Buffer((24, 24), "float32"), B: T.Buffer((24, 24), "float32"),
         C: T.Buffer((24, 24), "float32")):
    for i, j in T.grid(24, 24):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"""
            )
        )
    )

    def spoil(job):
        if job["do"] == "race" and len(job["mods"]) > 2:
            job["mods"] = [*job["mods"][:2], wrong, *job["mods"][3:]]
        return job

    found = mlc.tune(func, trials=9, threads=1, runner=_Planted(spoil))
    reasons = [t.reason for t in found.trials if t.reason]
    assert reasons
    assert all("computes something else: results differ by" in r for r in reasons)
    assert found.best.reason == ""


def test_a_crash_a_hang_and_an_error_are_answers():
    child = Child()
    try:
        assert "KeyError" in child.ask({"do": "nothing"}, 30)["error"]
        endless = {"do": "race", "mods": [], "target": "llvm", "threads": 1, "seconds": 1}
        assert "error" in child.ask(endless, 30)
        process = child._process._process
        late = child.ask({"do": "build", "mod": "x" * 10, "target": "llvm"}, 0.0)
        assert "error" in late
        process.kill()
        process.wait()
        assert "KeyError" in child.ask({"do": "nothing"}, 30)["error"]  # a new one
    finally:
        child.end()


def test_a_process_that_is_killed_says_so():
    child = Child()
    try:
        child.ask({"do": "nothing"}, 30)
        os.kill(child._process._process.pid, signal.SIGSTOP)
        answer = child.ask({"do": "nothing"}, 0.5)
        assert answer == {"error": "took longer than 0.5 s"}
    finally:
        child.end()


def test_what_runs_nothing_is_refused():
    with pytest.raises(MLCError, match="an int runs nothing"):
        mlc.tune(matmul(16, 16, 16), trials=9, runner=3)


def test_ctrl_c_keeps_what_was_measured(runner):
    def stop(trial):
        if trial.number == 3:
            raise KeyboardInterrupt

    found = mlc.tune(matmul(24, 24, 24), seconds=60, threads=1, runner=runner, on_trial=stop)
    assert found.stopped
    assert found.seconds < 50
    assert len(found.trials) >= 3


def test_the_interval_of_a_ratio():
    assert search.interval([0.5]) == (0.0, float("inf"))
    low, high = search.interval([0.9, 0.91, 0.89, 0.9, 0.9])
    assert low < 0.9 < high < 0.92


def test_indices_are_drawn_within_bounds():
    func = from_source(
        """
@T.prim_func
def main(
    X: T.Buffer((7, 4), "float32"), I: T.Buffer((50,), "int64"), Y: T.Buffer((50, 4), "float32")
):
    for i, j in T.grid(50, 4):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[I[vi], vj]
"""
    )
    _, index, _ = arguments(func)
    assert set(index.tolist()) == set(range(7))


def test_open_sizes_want_arguments(runner):
    func = from_source(
        """
@T.prim_func
def main(x: T.handle, y: T.handle):
    n = T.int64()
    X = T.match_buffer(x, (n,), "float32")
    Y = T.match_buffer(y, (n,), "float32")
    for i in range(n):
        with T.block("Y"):
            vi = T.axis.spatial(n, i)
            Y[vi] = X[vi] * T.float32(2)
"""
    )
    with pytest.raises(MLCError, match="x has no known size"):
        mlc.tune(func, trials=3, runner=runner)
    x = np.arange(1000, dtype="float32")
    found = mlc.tune(func, trials=9, args=[x, np.zeros_like(x)], threads=1, runner=runner)
    assert found.trials[0].ratio == 1.0


_WRITER = """
import sys
import threading
from mlcnb import te
from mlcnb.meta_schedule.database import JSONDatabase
from mlcnb.tir.schedule import Schedule
db = JSONDatabase(work_dir=sys.argv[1])
for size in range(int(sys.argv[2]), int(sys.argv[2]) + 12):
    x = te.placeholder((size % 100,), name="X")
    func = te.create_prim_func([x, te.compute((size % 100,), lambda i: x[i] + 1.0, name="Y")])
    db.commit(Schedule(func), [size * 1e-3])
    print(size, flush=True)
"""


def test_two_writers_and_one_that_is_killed(tmp_path):
    """No line is lost or torn, and each record is of its workload."""
    starts = (101, 205, 901)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path), str(start)], stdout=subprocess.PIPE
        )
        for start in starts
    ]
    for _ in range(3):
        running[2].stdout.readline()
    running[2].kill()
    for process in running:
        process.communicate()
    db = JSONDatabase(work_dir=tmp_path)
    sizes = [round(r.seconds * 1e3) for r in db]
    assert {*range(101, 113), *range(205, 217), 901, 902, 903} <= set(sizes)
    assert len(sizes) == len(set(sizes))
    for record in db:
        (size,) = next(iter(record.workload.func.buffer_map.values())).shape
        assert size == round(record.seconds * 1e3) % 100
    assert len(db.workloads) == len({s % 100 for s in sizes})


def test_a_torn_line_goes_when_the_next_is_written(tmp_path):
    func = matmul(4, 4, 4)
    db = JSONDatabase(work_dir=tmp_path)
    db.commit(mlc.tir.Schedule(func), [1.0])
    with db.path_tuning_record.open("a") as file:
        file.write('[0, [[["GetBl')
    again = JSONDatabase(work_dir=tmp_path)
    assert len(again) == 1
    again.commit(mlc.tir.Schedule(func), [0.5])
    lines = again.path_tuning_record.read_text().splitlines()
    assert [json.loads(line)[1][1] for line in lines] == [[1.0], [0.5]]


def test_a_full_disk_adds_nothing(tmp_path, monkeypatch):
    func = matmul(4, 4, 4)
    db = JSONDatabase(work_dir=tmp_path)
    db.commit(mlc.tir.Schedule(func), [1.0])

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MLCError, match="cannot be written: No space left on device"):
        db.commit(mlc.tir.Schedule(func), [0.5])
    monkeypatch.undo()
    assert len(db) == 1
    assert len(JSONDatabase(work_dir=tmp_path)) == 1


def test_records_of_another_cpu_are_kept_apart():
    func, db = matmul(4, 4, 4), MemoryDatabase()
    other = "znver2" if do_job({"do": "nothing"}, 30)["cpu"] != "znver2" else "znver3"
    db.commit(mlc.tir.Schedule(func), [1.0], target=f"llvm -mcpu={other}")
    assert db.query_tuning_record(func, "llvm") is None
    db.commit(mlc.tir.Schedule(func), [2.0], target="llvm")
    assert db.query_tuning_record(func, "llvm").seconds == 2.0


def two_layers(rows):
    from mlcnb.relax.frontend import nn

    class Net(nn.Module):
        def __init__(self):
            self.first, self.last = nn.Linear(64, 96), nn.Linear(96, 10)

        def forward(self, x):
            return self.last(nn.op.relu(self.first(x)))

    return Net().export_tvm({"forward": {"x": nn.spec.Tensor((rows, 64), "float32")}})[0]


def test_a_model_of_open_sizes_cannot_be_timed():
    """It would be given back as it is, as if nothing in it were worth the while."""
    text = "the sizes of all kernels of the model are open: what should they be timed with"
    with pytest.raises(MLCError, match=text) as caught:
        mlc.tune(two_layers("n"), trials=2)
    assert "BindSymbolicVars" in caught.value.hint
    some = ModelTuning([], [], MemoryDatabase(), 1.0, ["a", "b"])
    assert "2 kernels of open sizes not tuned: give the model its sizes" in repr(some)


@pytest.mark.slow
def test_a_model_shares_the_time_among_its_kernels():
    mod = two_layers(16)
    found = mlc.tune(mod, trials=9)
    assert found.opened == []
    assert found.ratio <= 1.0
    assert 1 <= len(found.tasks)
    assert repr(found).startswith(f"{len(found.tasks)} kernel")
    with found.database:
        ex = mlc.compile(mod)
    assert any("tir.is_scheduled" in f.attrs for f in ex.mod.functions.values())


def told(found):
    return [(t.number, t.candidate.choices, t.ratio, t.at, t.reason) for t in found.trials]


def test_a_search_is_played_again_without_measuring(runner, tmp_path, monkeypatch):
    func = matmul(24, 40, 32)
    found = mlc.tune(func, trials=12, threads=1, runner=runner, seed=5)
    found.save(tmp_path / "tuning.json")
    monkeypatch.setattr(search, "do_job", None)  # nothing is asked
    for record in (found, tmp_path / "tuning.json"):
        again = ms.replay_tuning(record)
        assert told(again) == told(found)
        assert (again.ratio, again.interval, again.seconds) == (
            found.ratio,
            found.interval,
            found.seconds,
        )
        assert mlc.ir.structural_equal(again.schedule.mod, found.schedule.mod)
    with pytest.raises(ModelError, match="no tape of a search"):
        ms.replay_tuning({"head": {}})


def test_what_made_one_kernel_faster_is_tried_first_for_the_next_of_its_rule(runner):
    func = matmul(24, 40, 32)
    space = DefaultSpace(func, LLVM)
    first = space.first()
    rule = first.decisions["rule"]
    *_, last = (c for c, _ in space.around(first) if "rule" not in c)
    other, _ = next(x for x in space.around(first) if "rule" not in x[0])
    hints = [search.Hint("Transpose", other, 0.1), search.Hint(rule, last, 0.5)]
    one = search.Search(func, LLVM, 30.0, most=1, threads=1, runner=runner, hints=hints)
    found = one.run(ms.database.Workload.of(func), MemoryDatabase())
    assert [t.candidate.choices for t in found.trials] == [{}, last]
    assert told(ms.replay_tuning(found)) == told(found)


def test_a_stopped_search_is_played_to_where_it_was_stopped(runner):
    def halt(trial):
        if trial.number == 3:
            stop.set()

    stop = threading.Event()
    found = mlc.tune(
        matmul(24, 24, 40), seconds=60, threads=1, runner=runner, on_trial=halt, stop=stop
    )
    again = ms.replay_tuning(found)
    assert again.stopped
    assert found.stopped
    assert told(again) == told(found)


def test_a_record_of_other_rules_is_refused(runner):
    found = mlc.tune(matmul(16, 24, 24), trials=4, threads=1, runner=runner)
    tape = found.tape.as_json()
    with pytest.raises(MLCError, match="asks for something else than it did"):
        ms.replay_tuning(
            {**tape, "head": {**tape["head"], "seed": 99, "threads": 1}}
            | {"answers": [["0" * 16, one] for _, one in tape["answers"]]}
        )
    with pytest.raises(MLCError, match="goes on where its record ends"):
        ms.replay_tuning({**tape, "answers": tape["answers"][:1]})


def test_two_workers_of_dask_compile_and_time(monkeypatch):
    # a shell of IPython that another test has made leaves a main module that cannot be spawned
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    distributed = pytest.importorskip("distributed")
    func = matmul(24, 32, 40)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        found = mlc.tune(func, trials=6, threads=1, runner=client)
        assert {a["host"] for _, told in found.tape.answers for a in told}
        processes = client.run(os.getpid)
        assert len(set(processes.values())) == 2
        results = ms.LocalRunner(executor=client, threads=1)
        built = ms.LocalBuilder().build([ms.BuilderInput(found.schedule.mod, LLVM)])
        (future,) = results.run([ms.RunnerInput(built[0].artifact_path, "llvm")])
        assert future.result().run_secs
        assert future.done()
    assert found.trials[0].ratio == 1.0
    assert sum(t.ratio is not None for t in found.trials) >= 2
