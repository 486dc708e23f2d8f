"""Equal functions are kept once, and what is not alike at a glance is not read for it."""

from __future__ import annotations

from typing import Any

import pytest

from mlcnb import te
from mlcnb.relax import function_table as module
from mlcnb.relax.function_table import FunctionTable
from mlcnb.tir.function import PrimFunc


def scaled(n: int, by: float = 2.0) -> PrimFunc:
    """x * by, of n numbers."""
    x = te.placeholder((n,), "float32", "x")
    made: PrimFunc = te.create_prim_func([x, te.compute((n,), lambda i: x[i] * by, name="y")])
    return made


def test_equal_functions_are_kept_once() -> None:
    table = FunctionTable()
    names = [table.add_shared(scaled(n, by), "f") for n, by in ((4, 2), (4, 3), (5, 2), (4, 2))]
    assert [name.name_hint for name in names] == ["f", "f1", "f2", "f"]
    assert names[3] is names[0]
    assert len(table.functions) == 3


def test_a_function_with_other_buffers_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    digest = module.structural_digest
    monkeypatch.setattr(module, "structural_digest", lambda f: read.append(f) or digest(f))
    table = FunctionTable()
    for n in range(1, 9):
        table.add_shared(scaled(n), "f")
    assert not read
    table.add_shared(scaled(8), "f")
    table.add_shared(scaled(8, 3.0), "f")
    assert len(read) == 3  # the eighth once, and each of the two that look like it
