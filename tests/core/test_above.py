"""Questions that go up: each is answered, and each answer is asked for."""

from __future__ import annotations

import importlib

import pytest

import mlcnb
from mlcnb.core import above
from tests.house import sources

WORDS = sorted(above._answers)


@pytest.mark.parametrize("word", WORDS)
def test_each_word_is_answered(word):
    if ":" in above._answers[word]:
        assert callable(above.ask(word)) or above.ask(word).__doc__
    else:
        assert all(importlib.import_module(name) for name in above.modules(word))


def test_each_answer_is_asked_for():
    below = "\n".join(s.text for s in sources() if s.name != mlcnb.__name__)
    written = [*WORDS, "nodes of {", "tir.{"]
    asked = {word for word in written if f'"{word}' in below}
    assert {w for w in WORDS if not w.startswith(("nodes of", "tir."))} <= asked
    assert {"nodes of {", "tir.{"} <= asked


def test_nobody_answers():
    with pytest.raises(KeyError, match="nope"):
        above.ask("nope")
