"""Accesses that are counted in pieces: the numbers are those of the whole run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.core.errors import MLCError
from mlcnb.machine import stream as streams
from mlcnb.machine.cache import Cache, Carried, run
from mlcnb.observe import counts as access_counts
from mlcnb.observe.access import replayed
from mlcnb.observe.counts import counted
from mlcnb.script import tir as T
from mlcnb.testing.gallery.programs import matmul
from mlcnb.tir.schedule import Schedule


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 40), max_size=120),
    st.lists(st.integers(0, 120), max_size=5),
    st.sampled_from([(1, 1), (1, 4), (4, 1), (2, 2), (4, 2), (1, 8)]),
)
def test_a_cache_goes_on_where_it_stood(lines, cuts, shape):
    sets, ways = shape
    level = Cache(sets * ways * 64, ways, 64)
    whole = run(level, np.array(lines, np.int64))
    cache, found = Carried(level), []
    for part in np.split(np.array(lines, np.int64), sorted(min(c, len(lines)) for c in cuts)):
        found.append(cache.run(part))
    assert np.concatenate([f.depth for f in found]).tolist() == whole.depth.tolist()
    assert np.concatenate([f.victim for f in found]).tolist() == whole.victim.tolist()


@pytest.mark.parametrize("at_once", [1, 5_000, 1 << 21])
def test_as_the_run_that_is_kept(at_once, monkeypatch):
    monkeypatch.setattr(access_counts, "AT_ONCE", at_once)
    monkeypatch.setattr(streams, "CHUNK", 700)
    sch = Schedule(matmul(20, 24, 28))
    loops = sch.get_loops("C")
    sch.reorder(loops[2], loops[0])
    for func in (matmul(20, 24, 28), sch.mod["main"]):
        whole, parts = replayed(func, "1K/2way, 4K/4way"), counted(func, "1K/2way, 4K/4way")
        assert len(parts) == len(whole)
        assert parts.counts == whole.counts and parts.misses == whole.misses
        assert parts.by_array.tolist() == whole.by_array.tolist()
        assert parts.by_site.tolist() == whole.by_site.tolist()
        assert parts.evictions.tolist() == whole.evictions.tolist()
        assert parts.lines_of == whole.lines_of


def test_one_block():
    whole = mlc.observe.accesses(matmul(16, 16, 16), cache="1K/2way", block="C").counts
    assert mlc.observe.access_counts(matmul(16, 16, 16), cache="1K/2way", block="C").counts == whole


def test_text():
    found = mlc.observe.access_counts(matmul(8, 8, 8), matmul(8, 8, 8), cache="512B/2way/64B")
    lines = found.explain().splitlines()
    assert lines[:4] == [
        "Accesses of 1: main, 2: main, counted: 2,112 through L1 512/2way/64B",
        "L1: 397 misses in each",
        "1: main: 2,112 accesses",
        "  array                  accesses  lines  L1 misses  of accesses  driven out of L1",
    ]
    assert "397" in found.to_html() and repr(found) == found.explain()


def test_where_a_program_begins():
    found = mlc.observe.accesses(matmul(64, 64, 64), cache="1K/2way", first=1_000)
    whole = replayed(matmul(64, 64, 64), "1K/2way")
    run = found.runs[0]
    assert run.is_part and len(run) == 1_000
    assert run.stream.addresses.tolist() == whole.stream.addresses[:1_000].tolist()
    assert found.explain().splitlines()[0] == (
        "Access replay of main: the first 1,000 accesses through L1 1K/2way/64B"
    )
    assert found.snapshot()["title"] == (
        "Access replay through L1 1K/2way/64B, where the program begins"
    )
    short = mlc.observe.accesses(matmul(4, 4, 4), cache="1K/2way", first=1_000_000)
    assert not short.runs[0].is_part


def refused(look, *programs, **options) -> str:
    with pytest.raises(MLCError) as caught:
        look(*programs, **options)
    return str(caught.value)


def test_what_is_refused(monkeypatch):
    long = matmul(300, 300, 300)
    accesses, counts = mlc.observe.accesses, mlc.observe.access_counts
    assert refused(accesses, long, cache="1K/2way") == (
        "accesses: the program makes more than 20,000,000 accesses\n"
        "hint: first=20_000_000 plays where it begins; mlc.observe.access_counts counts all of "
        "them and plays none; or take smaller shapes: the order of its loops is the same"
    )
    assert refused(accesses, long, cache="1K/2way", first=0) == (
        "accesses: first=0 accesses\nhint: from 1 to 20,000,000"
    )

    @T.prim_func
    def gather(
        A: T.Buffer((64,), "float32"), at: T.Buffer((64,), "int32"), B: T.Buffer((64,), "float32")
    ):
        for i in range(64):
            B[i] = A[at[i]]

    assert refused(counts, gather, cache="1K/2way") == (
        "accesses: values in memory decide what gather touches (an index that is read from "
        "memory)\nhint: mlc.observe.accesses has the interpreter run it"
    )
