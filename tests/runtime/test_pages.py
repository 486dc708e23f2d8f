"""Large pages: contents stay, what is asked for is done where the system can."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mlcnb.ir.memory import address_of, aligned_empty
from mlcnb.runtime import pages
from mlcnb.runtime.pages import LARGE_PAGE, in_large_pages


def large_bytes(address: int) -> int:
    """Bytes in large pages of the mapping that holds an address, as the kernel says."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        bounds = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if bounds:
            inside = int(bounds[1], 16) <= address < int(bounds[2], 16)
        elif inside and line.startswith("AnonHugePages:"):
            return int(line.split()[1]) * 1024
    return 0


def test_contents_and_addresses_stay():
    array = aligned_empty((3 * LARGE_PAGE // 4,), np.dtype("float32"))
    array[:] = np.arange(array.size)
    before = address_of(array)
    made = in_large_pages([array])
    assert address_of(array) == before
    np.testing.assert_array_equal(array, np.arange(array.size, dtype="float32"))
    if made:
        assert large_bytes(address_of(array) + LARGE_PAGE) >= LARGE_PAGE


def test_small_arrays_share_a_page_or_have_none():
    assert in_large_pages([]) == 0
    assert in_large_pages([np.zeros(16, "float32")]) == 0


def test_what_is_too_large_is_left_alone(monkeypatch):
    monkeypatch.setattr(pages, "MOST", 1 << 20)
    monkeypatch.setattr(pages, "_c_function", lambda *_: lambda *_: pytest.fail("asked the system"))
    assert in_large_pages([np.zeros(1 << 20, "float32")]) == 0


def test_a_system_without_it(monkeypatch):
    monkeypatch.setattr(pages, "_c_function", lambda *_: None)
    assert in_large_pages([np.zeros(4 << 20, "float32")]) == 0
