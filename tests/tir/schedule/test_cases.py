"""Every primitive on every kind of program: what it makes of it, or why it is refused.

`snapshots/cases/split.txt` holds the whole programs and the messages, read in review like code;
what is accepted computes the same and is made again by its trace.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcnb.core.errors import ScheduleError
from mlcnb.tir.schedule.offers.legal import primitives
from tests.tir.schedule.cases import CALLS, CASES
from tests.tir.schedule.programs import only, replays, same_numbers, text
from tests.view.snapshot import same

FOLDER = Path(__file__).parent / "snapshots" / "cases"


def test_every_primitive_is_called() -> None:
    drawn = {name for name in CALLS if name.startswith("sample_")}
    assert set(CALLS) == {q.name for q in primitives()} | drawn
    assert len(drawn) == 4


@pytest.mark.parametrize("name", CALLS)
def test_primitive(name: str) -> None:
    same(f"{name}.txt", "\n\n".join(f"{case}:\n{outcome(name, case)}" for case in CASES), FOLDER)


def outcome(name: str, case: str) -> str:
    """The program that the primitive makes of one kind of program, or its refusal."""
    sch = CASES[case]()
    given, done = only(sch.mod), sch.position
    try:
        CALLS[name](sch)
    except ScheduleError as error:
        refused = f"refused: {error.message}\nhint: {error.advice}".removesuffix("\nhint: ")
        if sch.position == done:
            assert only(sch.mod) is given
        return refused
    same_numbers(given, only(sch.mod))
    replays(sch)
    return text(sch)
