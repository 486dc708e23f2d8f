"""Side by side with ONNX Runtime: fair turns, the same inputs, and what is told of them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import MissingDependencyError
from mlcnb.observe.peers import (
    Comparison,
    as_list,
    difference,
    onnxruntime_session,
)
from mlcnb.runtime.turns import BURST, interleaved
from tests.runtime.programs import random
from tests.test_driver import classifier


def test_contestants_take_turns(monkeypatch):
    monkeypatch.setattr("mlcnb.runtime.turns.WARM", 0)
    turns = []
    runners = {name: lambda name=name: turns.append(name) for name in ("a", "b", "c")}
    times = interleaved(runners, seconds=0, least=2 * BURST)
    turn = [name for name in "abc" for _ in range(1 + BURST)]
    assert turns == [*"abc", *turn, *turn]
    assert {name: len(found) for name, found in times.items()} == dict.fromkeys("abc", 2 * BURST)


def test_a_slow_contestant_has_one_turn(monkeypatch):
    monkeypatch.setattr("mlcnb.runtime.turns.SLOW", -1.0)
    turns = []
    runners = {name: lambda name=name: turns.append(name) for name in ("a", "b")}
    times = interleaved(runners, seconds=-1)
    assert turns == ["a", "b"]
    assert {name: len(found) for name, found in times.items()} == {"a": 1, "b": 1}


def test_compare():
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = classifier()
    ex = mlc.compile(mlc.from_onnx(model))
    mlc.set_num_threads(1)
    found = mlc.compare(ex, model.SerializeToString(), random(2, 3, 10, 12), seconds=0.02)
    assert found.max_difference < 1e-5
    assert found.ratio == found.ours_ms / found.peer_ms > 0
    assert found.threads == 1 and found.runs >= 5 and found.peer.startswith("ONNX Runtime ")
    mlc.set_num_threads(2)


def test_text_of_a_comparison():
    found = Comparison(9.5, 10.0, "ONNX Runtime 1.30", 2, 20, 1.5e-6)
    assert repr(found) == (
        "ratio to ONNX Runtime 1.30: 0.95 (9.50 ms against 10.00 ms, medians of 20 runs in turns "
        "on 2 threads, largest difference 1.5e-06)"
    )


def test_without_onnxruntime(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingDependencyError) as caught:
        onnxruntime_session(b"", 1)
    assert str(caught.value) == "onnxruntime is not installed\nhint: pip install 'mlcnb[bench]'"


def test_differences():
    a, b = np.array([1, 2], "f"), np.array([1, 4], "f")
    assert difference(a, b) == 2 and difference(a[:0], b[:0]) == 0
    assert [x.tolist() for x in as_list((a, b))] == [[1, 2], [1, 4]]
    assert [x.tolist() for x in as_list(a)] == [[1, 2]]
