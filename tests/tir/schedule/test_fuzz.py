"""A sample of `make fuzz`: random steps, each checked; and that the check can fail."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.tir.schedule import fuzz


def test_a_sample():
    counts = fuzz.run(200, seed=2026)
    assert counts.steps >= 200
    assert counts.accepted.total() > 60 and counts.refused.total() > 60
    assert "schedules" in str(counts)


@pytest.mark.slow
def test_a_sample_of_programs_for_gpus():
    """Bound, fetched, reduced across threads, pipelined: on simulated threads."""
    counts = fuzz.run(60, seed=4, on_gpu=True)
    assert counts.steps >= 60 and counts.ran > 5
    assert "runs on simulated threads" in str(counts)


def test_a_wrong_rule_is_found(monkeypatch):
    module = import_module("mlcnb.tir.schedule.primitives.parallel")
    monkeypatch.setattr(module, "why_carried", lambda *_: None)
    with pytest.raises(AssertionError, match="last step wrong by"):
        fuzz.run(400, seed=1)


def test_the_same_seed_does_the_same():
    first, second = (fuzz.run(60, seed=5) for _ in range(2))
    assert first == second
