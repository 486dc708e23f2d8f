"""Expressions as long as loops of Python build them: 6,000 terms in one sum."""

from __future__ import annotations

import numpy as np
import pytest

from mlcnb import te, tir
from mlcnb.codegen.interp import run_prim_func
from mlcnb.ir import structural_equal
from mlcnb.script import parse


def sum_of(terms: int) -> tir.PrimFunc:
    A = te.placeholder((2,), name="A")

    def element(i):
        total = A[i]
        for _ in range(terms - 1):
            total = total + A[i]
        return total

    return te.create_prim_func([A, te.compute((2,), element, name="B")])


@pytest.mark.parametrize("terms", [2_000, pytest.param(6_000, marks=pytest.mark.slow)])
def test_a_deep_program_runs_is_printed_and_scheduled(terms):
    func = sum_of(terms)
    a, b = np.ones(2, "float32"), np.zeros(2, "float32")
    for _ in range(2):
        run_prim_func(func, [a, b])
        assert b.tolist() == [terms, terms]
    assert func.script().count("A[v_i]") == terms + 1
    assert tir.Schedule(func).mod["main"].script() == func.script()


def test_its_text_reads_back():
    func = sum_of(2_000)
    assert structural_equal(parse(func.script()), func)
