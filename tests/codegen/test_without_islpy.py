"""GPUs, real and simulated, where islpy cannot be imported: what runs, what is said."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

HEAD = """
import sys, warnings
sys.modules["islpy"] = None  # as if it were not installed
import numpy as np
import mlcnb as mlc
from mlcnb.core.errors import DataRaceError, MissingDependencyError, MLCError, ScheduleError
said = []
warnings.showwarning = lambda message, *_: said.append(str(message))
"""


def run(text: str) -> str:
    """What a process without islpy prints."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + dedent(text)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_programs_and_default_schedules_run():
    """The same numbers; barriers that isl would not need may stand in more places."""
    out = run("""
        from tests.codegen.gpu_programs import PROGRAMS
        from tests.dlight.test_gpu_rules import copied, halves, product

        for name in sorted(PROGRAMS):
            made = PROGRAMS[name]()
            args = made.arguments()
            assert "__global__" in mlc.compile(made.schedule, target="cuda").kernels[0].source
            mlc.compile(made.schedule, target="cuda-sim")(*args)
            np.testing.assert_allclose(args[-1], made.expected, rtol=1e-4, atol=1e-5)
        for func, args, expected in (
            product(1, 70, 90, 50, False, True), product(1, 1, 64, 128, True, False),
            halves("float16", 0, 64, 64, 64), copied((2, 64, 40), (0, 2, 1)),
        ):
            assert mlc.compile(func, target="cuda", schedule="default").kernels[0].source
            out = np.full(expected.shape, np.nan, "float32")
            mlc.compile(func, target="cuda-sim", schedule="default")(*args, out)
            np.testing.assert_allclose(out, expected, rtol=2e-4, atol=2e-4)
        print(*said, sep="\\n")
    """)
    assert out == (
        "islpy is not installed: no races of threads are looked for; what only isl proves is "
        "refused, checked in kernels or waited for (pip install islpy)\n"
    )


def test_a_model_runs():
    run("""
        from mlcnb import relax
        from mlcnb.relax.frontend import nn

        class Net(nn.Module):
            def __init__(self):
                self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 10)

            def forward(self, x):
                return nn.op.softmax(self.second(nn.op.relu(self.first(x))), axis=-1)

        mod, params = Net().export_tvm({"forward": {"x": nn.spec.Tensor((8, 32), "float32")}})
        random = np.random.default_rng(0)
        given = [random.uniform(-0.1, 0.1, [int(n) for n in v.shape]).astype("float32")
                 for _, v in params]
        x = random.standard_normal((8, 32)).astype("float32")
        found = mlc.compile(mod, target="cuda-sim")["forward"](x, *given)
        hidden = np.maximum(x @ given[0].T + given[1], 0) @ given[2].T + given[3]
        expected = np.exp(hidden) / np.exp(hidden).sum(-1, keepdims=True)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4)
        kernels = mlc.compile(mod, target="cuda").kernels
        assert kernels and all("__global__" in k.source for k in kernels.values())
    """)


def test_an_index_that_leaves_is_stopped_where_it_does():
    """Own arithmetic does not prove it, so it is checked; what it proves is not."""
    run("""
        from mlcnb.script import tir as T

        @T.prim_func
        def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                B[tx] = A[tx * tx]

        ex = mlc.compile(func, target="cuda-sim")
        assert ex.kernels[0].source.count("check_index(") == 2  # its definition, and A
        try:
            ex(np.zeros(8, "float32"), np.zeros(8, "float32"))
        except MLCError as error:
            print(error)
        else:
            raise AssertionError("it read A[49]")
        assert len(said) == 1
    """)


def test_who_asks_for_a_proof_is_told_what_is_missing():
    run("""
        from mlcnb.codegen.races import races
        from tests.codegen.gpu_programs import PROGRAMS
        from tests.tir.schedule.programs import elementwise

        func = PROGRAMS["vector_add"]().func
        sch = mlc.tir.Schedule(elementwise(8), check="dependence")
        loop = sch.get_loops(sch.get_block("B"))[0]
        for ask in (
            lambda: races(func),
            lambda: sch.split(loop, [None, 4]),
            lambda: mlc.compile(func, target="cuda", bounds="prove"),
        ):
            try:
                ask()
            except MissingDependencyError as error:
                assert "islpy is not installed" in str(error) and "pip install islpy" in str(error)
            else:
                raise AssertionError("nobody said that islpy is missing")
    """)


def test_a_refused_step_stays_refused():
    """isl is asked for a second opinion; without it the rules have the last word."""
    run("""
        from tests.tir.schedule.programs import row_sum

        sch = mlc.tir.Schedule(row_sum(4, 8))
        try:
            sch.parallel(sch.get_loops("B")[1])
        except ScheduleError as error:
            assert "parallel" in str(error)
        else:
            raise AssertionError("a sum is added up by threads")
    """)
