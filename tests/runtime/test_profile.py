"""profile: every call with its time, and work that can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import RuntimeInputError
from mlcnb.machine import Level, Roofline
from mlcnb.relax.transform import LegalizeOps
from mlcnb.runtime.profile import Profile
from tests.runtime.programs import HEAD, compiled, random


def test_every_call_in_order():
    ex = compiled("chain")
    p = mlc.profile(ex, random(16, 64), repeat=3)
    steps = [s.kernel for s in ex.steps(random(16, 64)) if s.kernel]
    assert [row.kernel for row in p.rows] == steps
    assert set(steps) == set(ex.kernels)
    assert (p.repeat, p.threads) == (3, mlc.get_num_threads())
    assert sum(row.share for row in p.rows) == pytest.approx(1)
    assert p.total == pytest.approx(p.seconds) and p.total > 0
    slowest = p.by_time()
    assert sorted(p.rows, key=lambda r: -r.seconds) == list(slowest)


def test_work_is_counted_from_the_loops():
    text = """
    @R.function
    def main(x: R.Tensor((32, 48), "float32"), y: R.Tensor((48, 80), "float32")):
        with R.dataflow():
            a = R.matmul(x, y)
            gv = R.exp(a)
            R.output(gv)
        return gv
"""
    ex = mlc.compile(mlc.script.parse(HEAD + text), relax_pipeline=LegalizeOps())
    product, exp = mlc.profile(ex, random(32, 48), random(48, 80)).rows
    assert (product.name, product.kernel) == ("a", "matmul")
    assert product.flops == 2 * 32 * 48 * 80
    assert product.nbytes == 4 * (32 * 48 + 48 * 80 + 32 * 80)
    assert product.gflops == pytest.approx(product.flops / product.seconds / 1e9)
    assert product.bandwidth == pytest.approx(product.nbytes / product.seconds / 1e9)
    assert (exp.flops, exp.nbytes) == (32 * 80, 8 * 32 * 80)


def test_symbolic_sizes_are_counted_for_the_inputs_at_hand():
    small = mlc.profile(compiled("chain"), random(4, 64), repeat=1)
    large = mlc.profile(compiled("chain"), x=random(8, 64), repeat=1)
    work = {row.kernel: row.flops for row in small.rows}
    for row in large.rows:
        if row.kernel == "matmul":
            assert row.flops == 4 * work["matmul"] == 2 * 8 * 64 * 8


def test_a_loop_function():
    a, b, c = random(8, 16), random(16, 4), np.zeros((8, 4), np.float32)
    (row,) = mlc.profile(compiled("matmul_kernel"), a, b, c, repeat=2).rows
    assert (row.name, row.kernel, row.flops) == ("matmul", "matmul", 2 * 8 * 16 * 4)
    assert row.nbytes == 4 * (8 * 16 + 16 * 4 + 8 * 4)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["branch", "unique"])
def test_what_the_machine_runs(name):
    args = (True, random(3)) if name == "branch" else (random(6),)
    p = mlc.profile(compiled(name), *args, repeat=2)
    assert p.rows and all(row.seconds > 0 and row.flops is None for row in p.rows)


def test_the_interpreter():
    p = mlc.profile(compiled("relu_add", "interp"), random(2, 3), random(3), repeat=1)
    assert [row.kernel for row in p.rows] == ["fused_add_relu"]


def test_wrong_inputs_are_refused_as_in_a_run():
    with pytest.raises(RuntimeInputError) as caught:
        mlc.profile(compiled("relu_add"), random(2, 3))
    assert caught.value.message == "main takes 2 inputs (x, y), got 1"


def test_text():
    lines = repr(mlc.profile(compiled("chain"), random(16, 64))).splitlines()
    assert lines[0].startswith("Profile: ") and "6 calls of 6 kernels" in lines[0]
    assert len(lines) == 9 and lines[-1] == "timeline of one run: profile.rows"


def test_beside_the_roof_and_by_kernel():
    roof = Roofline(100.0, (Level("memory", None, 20.0),), 1)
    p = mlc.profile(compiled("chain"), random(16, 64), repeat=1, roofline=roof)
    for row in p.rows:
        assert p.of_roof(row) == roof.share(row.flops, row.nbytes, row.seconds)
    twice = Profile((*p.rows, p.rows[0]), 2 * p.seconds, 1, 1, roof)
    together = {row.kernel: row for row in twice.by_kernel()}
    assert together[p.rows[0].kernel].name == "2 x"
    assert together[p.rows[0].kernel].flops == 2 * p.rows[0].flops
    assert "of roof" in repr(twice) and "profile.by_kernel()" in repr(twice)
    assert Profile(p.rows, 1.0, 1, 1).of_roof(p.rows[0]) is None
