"""Bytes that blocks, scopes and iterations of loops touch."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import arith, te
from mlcnb.codegen.interp import run_prim_func
from mlcnb.script import parse
from mlcnb.tir import analysis
from tests.tir.test_analysis import conv, softmax
from tests.tir.test_dependences import MATMUL


def test_working_sets():
    sizes = analysis.working_sets(parse(MATMUL))
    found = {loop.loop_var.name: n for loop, n in sizes.items()}
    assert found == {"i": (8 + 64 + 8) * 4, "j": (8 + 8 + 1) * 4, "k": 3 * 4}


def test_blocks_and_scopes():
    func = te.create_prim_func(softmax())
    found = {b.name_hint: sum(n.values()) for b, n in analysis.block_bytes(func).items()}
    assert found == {"root": 416, "max": 144, "exp": 272, "sum": 144, "softmax": 272}
    assert analysis.memory_footprint(func) == {"global": 32 * 4 * 3 + 8 * 4}
    shared = parse(
        MATMUL.replace(
            "    for i",
            '    t = T.alloc_buffer((4,), scope="shared")\n    t[0] = 0.0\n    for i',
            1,
        )
    )
    assert analysis.memory_footprint(shared)["shared"] == 4


def test_the_box_that_a_statement_touches():
    func = te.create_prim_func(conv())
    (A, _, C) = func.buffers
    assert [str(r.extent) for r in analysis.domain_touched(func.body, A)] == ["1", "3", "8", "8"]
    assert analysis.domain_touched(func.body, C, consider_stores=False) != ()
    assert analysis.domain_touched(func.body, A, consider_loads=False) == ()
    assert arith._ffi_api.DomainTouched is analysis.domain_touched


@pytest.mark.parametrize("make", [conv, softmax])
def test_iterations_touch_no_more_than_their_working_set(make):
    """Against what the interpreter sees, for every iteration of every loop of a nest."""
    func = te.create_prim_func(make())
    record = []
    shapes = [[n.value for n in b.shape] for b in func.buffers]
    run_prim_func(func, [np.zeros(shape, "float32") for shape in shapes], record)
    for loop, size in analysis.working_sets(func).items():
        name = loop.loop_var.name
        touched = {}
        for buffer, at, _, loops in record:
            names = list(loops)
            if name in names:
                key = tuple((n, loops[n]) for n in names[: names.index(name) + 1])
                touched.setdefault(key, set()).add((buffer, at))
        same_names = [x for x in analysis.working_sets(func) if x.loop_var.name == name]
        if len(same_names) == 1:
            assert max(len(x) for x in touched.values()) * 4 <= size


def test_analyze_takes_schedules():
    sch = mlc.tir.Schedule(parse(MATMUL))
    sch.split(sch.get_loops("C")[0], [None, 4])
    names = [report.loop.loop_var.name for report in mlc.tir.analyze(sch).loops]
    assert names == ["i_0", "i_1", "j", "k"]
