"""lower: the list of passes, and the result that shows every step."""

from __future__ import annotations

import re

import pytest

from mlcnb import view
from mlcnb.core.errors import PassError
from mlcnb.script import tir as T
from mlcnb.tir.transform import lower, lowering_passes
from tests.tir.transform.lowering import statements


@T.prim_func
def double(A: T.Buffer((2, 4), "float32"), B: T.Buffer((2, 4), "float32")):
    for i, j in T.grid(2, 4):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[v, w] * T.float32(2)


def test_the_passes_are_classes_of_their_names():
    from mlcnb.tir import transform

    for name in lowering_passes():
        assert getattr(transform, name)().name == name
        assert getattr(transform, name)().summary


def test_every_step_is_kept():
    run = lower(double, steps=True)
    assert [step.name for step in run] == lowering_passes()
    assert run.steps[0].before is double
    assert all(a.after is b.before for a, b in zip(run, list(run)[1:], strict=False))
    assert [s.name for s in run if s.changed] == [
        "ConvertBlocksToOpaque",
        "LowerOpaqueBlock",
        "FlattenBuffer",
    ]
    assert statements(lower(double)) == statements(run.result)
    name, func, seconds = run["FlattenBuffer"]
    assert (name, func) == ("FlattenBuffer", run.result)
    assert seconds >= 0


def test_it_shows_itself():
    run = lower(double, steps=True)
    lines = [re.sub(r" +[\d.]+ ms", " … ms", x) for x in repr(run).splitlines()]
    assert lines[0] == f"{len(lowering_passes())} passes, … ms"
    assert lines[1] == "  0   LowerInitBlock … ms  nothing to do"
    assert lines[3] == "  2 * ConvertBlocksToOpaque … ms  changed"
    shown = re.sub(r" +[\d.]+ [mµ]s", " …", view.to_text(run)).splitlines()
    assert shown[0] == f"lowering: {len(lowering_passes())} passes, …; 3 changed the function"
    assert "ConvertBlocksToOpaque: double: changed, +3 -4 lines" in shown


def test_a_step_shows_its_diff():
    step = lower(double, steps=True)["ConvertBlocksToOpaque"]
    assert step.diff.text.splitlines()[3:] == [
        '      # with T.block("root"):',
        "      for i, j in T.grid(2, 4):",
        '          with T.block("B"):',
        '-             v, w = T.axis.remap("SS", [i, j])',
        "-             T.reads(A[v, w])",
        "-             T.writes(B[v, w])",
        "-             B[v, w] = A[v, w] * T.float32(2.0)",
        "+             T.reads(A[i, j])",
        "+             T.writes(B[i, j])",
        "+             B[i, j] = A[i, j] * T.float32(2.0)",
    ]


def test_a_step_that_is_not_there():
    with pytest.raises(PassError) as error:
        lower(double, steps=True)["FuseOps"]
    assert error.value.message == "lower: no step 'FuseOps'"
    assert error.value.hint == f"steps: {', '.join(lowering_passes())}"
