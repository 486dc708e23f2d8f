"""Digests on threads are those of one thread, and tell contents apart."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from mlcnb.core import digests as module
from mlcnb.core.digests import PIECE, digests, tree_digest


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_digests_are_each_contents_own(monkeypatch: Any, cores: int) -> None:
    monkeypatch.setattr(module.os, "cpu_count", lambda: cores)
    contents = [np.full(size, 7, np.uint8).data for size in (0, 1, PIECE, PIECE + 1, 3 * PIECE)]
    assert digests(contents) == [hashlib.sha256(x).digest() for x in contents]


def test_a_tree_tells_contents_apart() -> None:
    large = bytearray(2 * PIECE + 5)
    made = [(b"", b""), (b"a", b"bc"), (b"ab", b"c"), (b"abc",), (b"abc", b""), (b"", large)]
    found = [tree_digest(*x) for x in made]
    for at in (0, PIECE - 1, PIECE, 2 * PIECE, len(large) - 1):
        large[at] = 1
        found.append(tree_digest(b"", large))
    found += [tree_digest(b"", large[:-1]), tree_digest(large, b"")]
    assert len(set(found)) == len(found)
    assert {len(x) for x in found} == {32}
    assert tree_digest(b"", large) == tree_digest(b"", bytes(large))


@pytest.mark.parametrize("cuts", [(), (0,), (3,), (PIECE,), (1, PIECE - 1, PIECE + 2, 2 * PIECE)])
def test_parts_have_the_digest_of_the_whole(cuts: tuple[int, ...]) -> None:
    whole = np.random.default_rng(0).integers(0, 256, 2 * PIECE + 5, np.uint8).tobytes()
    edges = (0, *cuts, len(whole))
    parts = [memoryview(whole)[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    assert tree_digest(b"key", parts) == tree_digest(b"key", whole)
    assert tree_digest(b"key", []) == tree_digest(b"key", b"")
    assert digests([parts]) == [hashlib.sha256(whole).digest()]
