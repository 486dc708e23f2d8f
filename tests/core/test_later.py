"""Work that can wait: done in a while, when it is asked for, or when the process ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest

from mlcnb.core import later
from mlcnb.core.digests import PIECE, tree_digest


@pytest.fixture(autouse=True)
def long_pause(monkeypatch: Any) -> None:
    monkeypatch.setattr(later, "PAUSE", 60)


def test_it_is_done_when_it_is_asked_for():
    done: list[str] = []
    later.do("a", lambda: done.append("a"))
    later.do("b", lambda: done.append("b"))
    later.finish("none of them")
    assert done == []
    later.finish("b")
    assert done == ["b"]
    later.finish()
    assert done == ["b", "a"]
    later.finish()
    assert done == ["b", "a"]


def test_it_is_done_in_a_while(monkeypatch: Any):
    monkeypatch.setattr(later, "PAUSE", 0)
    done = threading.Event()
    later.do("a", done.set)
    assert done.wait(20)


def test_work_of_one_key_is_done_in_order():
    done: list[int] = []
    later.do("a", lambda: done.append(1))
    later.do("a", lambda: done.append(2))
    assert done == [1]
    later.finish("a")
    assert done == [1, 2]


def test_without_threads_it_is_done_at_once(monkeypatch: Any):
    def refuse(_self: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[str] = []
    later.do("a", lambda: done.append("a"))
    assert done == ["a"]
    later.finish()


def test_it_is_done_when_the_process_ends():
    code = (
        "from mlcnb.core import later\n"
        "from mlcnb.core.digests import PIECE, tree_digest\n"
        "later.PAUSE = 60\n"
        "large = bytes(3 * PIECE)\n"
        "later.do('a', lambda: print(tree_digest(large).hex(), flush=True))\n"
        "print('answer', flush=True)\n"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert made.stdout.split() == ["answer", tree_digest(bytes(3 * PIECE)).hex()], made.stderr
    assert not made.stderr
