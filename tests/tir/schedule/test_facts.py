"""What primitives say of themselves."""

from __future__ import annotations

from mlcnb.tir import Schedule
from mlcnb.tir.schedule.record import facts
from mlcnb.tir.schedule.record.facts import Facts, does, facts_of


def test_facts_are_of_primitives():
    assert facts._facts
    assert not [name for name in facts._facts if not hasattr(Schedule, name)]


def test_what_is_not_said_is_answered_with_care(monkeypatch):
    monkeypatch.setattr(facts, "_facts", dict(facts._facts))

    @does(again=True)
    def toy(state):
        return state

    assert toy(1) == 1
    assert facts_of("toy") == Facts(marks=False, still=False, again=True)
    assert facts_of("of nobody") == Facts(marks=False, still=False, again=False)
    found = facts_of("vectorize")
    assert (found.marks, found.still, found.again, found.pure) == (True, True, True, False)
    assert found.near.startswith("rfactor decompose_reduction")
