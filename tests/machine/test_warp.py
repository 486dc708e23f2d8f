"""What memory makes of a warp: cases worked out by hand, and a count by sets in Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb.machine.warp import LANES, lines, sectors, wavefronts

LANE = np.arange(LANES)
ALL = np.ones(LANES, bool)


def asked(rule, at, width=4, active=ALL):
    """(taken, ideal, worst) of one request."""
    found = rule(np.asarray(at, np.int64)[None], width, np.asarray(active, bool)[None])
    return int(found.taken[0]), int(found.ideal[0]), int(found.worst[0])


@pytest.mark.parametrize(
    ("what", "at", "width", "expected"),
    [
        ("a row of floats", LANE * 4, 4, (4, 4)),
        ("backwards", (31 - LANE) * 4, 4, (4, 4)),
        ("a row that begins one float late", LANE * 4 + 4, 4, (5, 4)),
        ("a column of a matrix of 1024 floats", LANE * 4096, 4, (32, 4)),
        ("every second float", LANE * 8, 4, (8, 4)),
        ("one float for all", LANE * 0, 4, (1, 1)),
        ("a row of bytes", LANE, 1, (1, 1)),
        ("a row of halves", LANE * 2, 2, (2, 2)),
        ("a row of doubles", LANE * 8, 8, (8, 8)),
        ("a row of float4", LANE * 16, 16, (16, 16)),
        ("float4, every second", LANE * 32, 16, (32, 16)),
    ],
)
def test_sectors_by_hand(what, at, width, expected):
    assert asked(sectors, at, width)[:2] == expected, what


@pytest.mark.parametrize(
    ("what", "at", "width", "expected"),
    [
        ("a row", LANE * 4, 4, (1, 1, 1)),
        ("tile[32][32], a column", LANE * 128, 4, (32, 1, 32)),
        ("tile[32][33], a column", LANE * 132, 4, (1, 1, 1)),
        ("one word for all: a broadcast", LANE * 0, 4, (1, 1, 1)),
        ("two words of one bank", LANE % 2 * 128, 4, (2, 1, 2)),
        ("every second word", LANE * 8, 4, (2, 1, 2)),
        ("every third word", LANE * 12, 4, (1, 1, 1)),
        ("bytes of a row: four lanes to a word", LANE, 1, (1, 1, 1)),
        ("halves of a column of 64 halves", LANE * 128, 2, (32, 1, 32)),
        ("a row of doubles: by half warps", LANE * 8, 8, (2, 2, 1)),
        ("doubles, every second", LANE * 16, 8, (4, 2, 2)),
        ("a row of float4: by quarter warps", LANE * 16, 16, (4, 4, 1)),
        ("float4, every second", LANE * 32, 16, (8, 4, 2)),
        ("a column of float4 in tile[32][32]", LANE * 128, 16, (32, 4, 8)),
        ("a column of float4 in tile[32][36]", LANE * 144, 16, (4, 4, 1)),
    ],
)
def test_banks_by_hand(what, at, width, expected):
    assert asked(wavefronts, at, width) == expected, what


def test_lanes_that_are_switched_off_ask_for_nothing():
    half = LANE < 16
    assert asked(sectors, LANE * 4, 4, half)[:2] == (2, 2)
    assert asked(wavefronts, LANE * 128, 4, half) == (16, 1, 16)
    assert asked(wavefronts, LANE * 16, 16, half) == (2, 2, 1)
    assert asked(sectors, LANE * 4, 4, LANE < 0) == (0, 0, 0)
    assert asked(wavefronts, LANE * 4, 4, LANE < 0) == (0, 0, 0)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([1, 2, 4, 8, 16]), st.data())
def test_as_sets_count_them(width, data):
    places = st.lists(st.integers(0, 300), min_size=LANES, max_size=LANES)
    rows = np.array(data.draw(st.lists(places, min_size=1, max_size=3))) * width
    on = np.array([data.draw(st.lists(st.booleans(), min_size=LANES, max_size=LANES))] * len(rows))
    for n, (row, active) in enumerate(zip(rows.tolist(), on.tolist(), strict=True)):
        wanted = [at for at, is_on in zip(row, active, strict=True) if is_on]
        touched = {byte // 32 for at in wanted for byte in range(at, at + width)}
        nbytes = len({byte for at in wanted for byte in range(at, at + width)})
        found = sectors(rows, width, on)
        assert (found.taken[n], found.ideal[n]) == (len(touched), -(-nbytes // 32))
        assert lines(rows, width, on)[n] == len({s // 4 for s in touched})
        size = {8: 16, 16: 8}.get(width, 32)
        passes = []
        for first in range(0, LANES, size):
            words: dict[int, set[int]] = {}
            for lane in range(first, first + size):
                for byte in range(row[lane], row[lane] + width) if active[lane] else ():
                    words.setdefault(byte // 4 % 32, set()).add(byte // 4)
            passes.append(max(map(len, words.values()), default=0))
        banks = wavefronts(rows, width, on)
        assert banks.taken[n] == sum(passes) and banks.worst[n] == max(passes)
        assert banks.ideal[n] == sum(1 for p in passes if p)
