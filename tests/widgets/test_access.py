"""The access replay: what the page plays is the run, its sizes, its words, what it refuses."""

from __future__ import annotations

import math
from textwrap import dedent

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import te
from mlcnb.core.errors import MLCError
from mlcnb.machine.addresses import Array
from mlcnb.observe.access import replayed
from mlcnb.observe.replay import Replay
from mlcnb.script import tir as T
from mlcnb.testing.gallery.programs import matmul
from mlcnb.tir.schedule import Schedule
from mlcnb.view.cells import grid_of
from mlcnb.widgets import access
from mlcnb.widgets.access import AccessReplay
from mlcnb.widgets.base import MODULE_LIMIT, esm, pack, unpack
from tests.view.allowed import check_html
from tests.view.names import NAMES
from tests.view.samples import named_loops

SMALL = "512B/2way/64B"


def tiled(n: int, tile: int) -> Schedule:
    sch = Schedule(matmul(n, n, n))
    split = [sch.split(loop, [None, tile]) for loop in sch.get_loops("C")]
    sch.reorder(*(outer for outer, _ in split), *(inner for _, inner in split))
    return sch


def test_counts_of_a_replay():
    found = mlc.observe.accesses(matmul(8, 8, 8), cache=SMALL)
    assert isinstance(found, AccessReplay) and len(found) == 1
    level = found.counts["L1"]
    assert (level.touches, level.misses, level.hits) == (2112, 397, 1715)
    assert found.misses == {"A": {"L1": 131}, "B": {"L1": 134}, "C": {"L1": 132}}
    assert level.evictions == found[0].evictions.sum() == 397 - 8
    assert found.histogram.total == 2112 and found.histogram.cold == 12
    assert found[0].lines_of == [4, 4, 4]
    assert found[0].by_site.sum() == 2112


def test_two_schedules_through_two_levels():
    found = mlc.observe.accesses(
        Schedule(matmul(96, 96, 96)), tiled(96, 16), cache="32K/8way/64B, 1M/8way"
    )
    assert [r.counts["L1"].misses for r in found] == [56_448, 4_608]
    assert [r.counts["L2"].misses for r in found] == [1_728, 1_728]
    assert [r.counts["L2"].touches for r in found] == [56_448, 4_608]
    text = found.explain()
    assert text.splitlines()[:3] == [
        "Access replay of 1: main, 2: main after split, reorder: 3,548,160 accesses through "
        "L1 32K/8way/64B, L2 1M/8way/64B",
        "L1: 4,608 misses in 2: main after split, reorder, 56,448 in 1: main (12.2 times as many)",
        "L2: 1,728 misses in each",
    ]


@pytest.mark.parametrize("shown", [24_000, 4_000])
def test_the_page_plays_the_run(shown, monkeypatch):
    """Each stretch, decoded as the page does, is that part of the run and leads to the next."""
    monkeypatch.setattr(access, "SHOWN", shown)
    found = mlc.observe.accesses(matmul(12, 12, 12), cache=SMALL)
    run, data = found[0], unpack(pack(found.snapshot()))
    (page,) = data["runs"]
    arrays = run.arrays
    assert data["clock"] == len(run) and len(data["starts"]) == len(page["stretches"])
    played = 0
    for start, stretch in zip(data["starts"], page["stretches"], strict=True):
        size = len(stretch["sites"])
        part = slice(start, start + size)
        assert stretch["sites"] == run.stream.sites[part].tolist()
        at = dict.fromkeys(range(len(page["sites"])), 0)
        victims, victim = iter(stretch["victims"]), 0
        resident = set(np.cumsum(stretch["resident"]).tolist())
        assert resident == cache_before(run, start)
        before = np.bincount(arrays[:start] * 2 + run.served[:start], minlength=len(arrays) and 6)
        assert stretch["counts"] == before.tolist()
        for n, site in enumerate(stretch["sites"]):
            at[site] += stretch["moved"][n]
            array, _, item = page["sites"][site][:3]
            address = page["arrays"][array]["base"] + at[site] * item
            assert address == run.stream.addresses[start + n]
            if stretch["served"][n] != "0":
                victim += next(victims)
                assert address // 64 not in resident
                resident.add(address // 64)
                resident.discard(victim)
            assert address // 64 in resident
        assert resident == cache_before(run, start + size)
        played += size
    assert played == (len(run) if shown > len(run) else shown)


def cache_before(run, at: int) -> set[int]:
    """The lines in the nearest cache, by a model of lists."""
    level = run.levels[0]
    sets: list[list[int]] = [[] for _ in range(level.sets)]
    for line in run.lines[:at].tolist():
        own = sets[line % level.sets]
        if line in own:
            own.remove(line)
        own.insert(0, line)
        del own[level.ways :]
    return {line for own in sets for line in own}


def test_sizes():
    pair = mlc.observe.accesses(
        Schedule(matmul(96, 96, 96)), tiled(96, 16), cache="32K/8way/64B, 1M/8way"
    )
    sizes = {
        "two products of 96": len(pack(pair.snapshot())),
        "their static view": len(pair.to_html()),
        "the module": len(esm("access")),
        "a gather": len(pack(gathered().snapshot())),
    }
    print(sizes)
    assert sizes["two products of 96"] <= 60_000 and sizes["their static view"] <= 200_000
    assert sizes["the module"] <= MODULE_LIMIT and sizes["a gather"] <= 300_000


def gathered() -> AccessReplay:
    """Reads at places that follow no rule: what a snapshot compresses worst."""

    @T.prim_func
    def func(
        A: T.Buffer((1 << 16,), "float32"),
        at: T.Buffer((30000,), "int32"),
        B: T.Buffer((30000,), "float32"),
    ):
        for i in range(30000):
            B[i] = A[at[i]]

    places = np.random.default_rng(0).integers(0, 1 << 16, 30000).astype("int32")
    args = [np.zeros(1 << 16, "float32"), places, np.zeros(30000, "float32")]
    return mlc.observe.accesses(func, cache="32K", args=args)


def test_a_gather_misses_as_its_indices_say():
    found = gathered()
    # 4,096 lines of A through 512: about seven of eight miss; the other arrays are read in order
    rate = found.misses["A"]["L1"] / 30000
    assert 0.86 < rate < 0.91
    assert found.misses["at"] == found.misses["B"] == {"L1": 30000 // 16}


def test_elements_of_one_byte_share_a_line_with_sixty_three_others():
    def doubled(dtype: str):
        A = te.placeholder((64, 64), dtype, name="A")
        return te.create_prim_func([A, te.compute((64, 64), lambda i, j: A[i, j] + A[i, j])])

    for dtype, nbytes in (("int8", 1), ("float16", 2), ("float64", 8)):
        found = mlc.observe.accesses(doubled(dtype), cache="32K/8way/64B")
        assert found.misses["A"]["L1"] == 64 * 64 * nbytes // 64
        assert found.counts["L1"].touches == 3 * 64 * 64


def test_one_block_of_a_program():
    A = te.placeholder((32, 32), name="A")
    B = te.compute((32, 32), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((32, 32), lambda i, j: B[j, i] + 1.0, name="C")
    func = te.create_prim_func([A, C])
    whole = mlc.observe.accesses(func, cache="1K/2way")
    only = mlc.observe.accesses(func, cache="1K/2way", block="C")
    assert only.misses["A"] == {"L1": 0} and only.counts["L1"].touches == 2 * 32 * 32
    assert only.misses["B"] == {"L1": 32 * 32} != whole.misses["B"]
    with pytest.raises(MLCError) as caught:
        mlc.observe.accesses(func, cache=SMALL, block="D")
    assert str(caught.value) == "accesses: no block 'D'\nhint: the blocks are B, C"


def test_text_of_a_small_one():
    @T.prim_func
    def func(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
        T.func_attr({"global_symbol": "transpose"})
        for i, j in T.grid(4, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj, vi] = A[vi, vj]

    expected = """
        Access replay of transpose: 32 accesses through L1 64/1way/64B
          array                  accesses  lines  L1 misses  of accesses  driven out of L1
          A      [4, 4] float32        16      1         16      100.0 %                16
          B      [4, 4] float32        16      1         16      100.0 %                15
          all                          32      2         32      100.0 %                31
        the first 32 touches (h: hit in the nearest cache, M: miss, E: miss that drives a line out)
        A:M B:E A:E B:E A:E B:E A:E B:E A:E B:E A:E B:E A:E B:E A:E B:E
        A:E B:E A:E B:E A:E B:E A:E B:E A:E B:E A:E B:E A:E B:E A:E B:E
        where transpose misses in L1
          A: 16 for each element's line
          B: 16 for each element's line
        reuse distances:
          L1 holds 1 line of 64 bytes
            other lines in between  touches
                                 0        0                fits L1
                                 1       30  ████████████  fits nowhere
                      never before        2  ▊             always a miss
        loads and stores:
            access          in block  times  L1 misses
            A[i, j]  read   B            16         16
            B[j, i]  write  B            16         16
        """
    found = mlc.observe.accesses(func, cache="64B/1way")
    kept = "\n".join(line for line in found.explain().splitlines()[:-1])
    assert kept == dedent(expected).strip("\n")
    assert repr(found) == found.explain() and repr(found[0]) == found.explain()


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_hostile_names(name):
    found = AccessReplay([replayed(named_loops(name), SMALL, name=name)])
    check_html(found.to_html())
    data = unpack(pack(found.snapshot()))
    assert all(len(site[3]) <= 80 for site in data["runs"][0]["sites"])
    assert found.explain() == AccessReplay(found.runs).explain()


def test_a_compiled_kernel_is_what_it_was_scheduled_to():
    ex = mlc.compile(matmul(64, 64, 64), target="llvm", schedule="default")
    kernel = ex.kernels[0]
    found = mlc.observe.accesses(kernel, cache="4K/8way")
    assert found.counts == mlc.observe.accesses(kernel.scheduled, cache="4K/8way").counts
    given = mlc.observe.accesses(matmul(64, 64, 64), cache="4K/8way")
    assert found.counts["L1"].misses < given.counts["L1"].misses / 4


def test_the_stages_of_a_schedule_are_still_timed():
    pytest.importorskip("threadpoolctl", reason="threadpoolctl is not installed")
    assert isinstance(mlc.replay(tiled(16, 8), at=[0]), Replay)


def refused(*programs, **options) -> str:
    with pytest.raises(MLCError) as caught:
        mlc.observe.accesses(*programs, **options)
    return str(caught.value)


def test_what_is_refused():
    func = matmul(8, 8, 8)
    assert refused() == "accesses: no program\nhint: pass a PrimFunc, a schedule or a kernel"
    assert refused(func, func, func) == (
        "accesses: 3 programs, at most 2 stand side by side\nhint: look at them two by two"
    )
    assert refused(3, cache=SMALL) == (
        "accesses: an int is no single loop program\nhint: pass a PrimFunc"
    )
    with pytest.raises(MLCError) as caught:
        mlc.replay(func)
    assert str(caught.value) == (
        "replay: a PrimFunc has no steps\n"
        "hint: pass a Schedule; mlc.observe.accesses and mlc.observe.warp_lens follow a program"
    )


@pytest.mark.parametrize(
    ("shape", "columns"), [((16, 8), 8), ((8, 16), 16), ((64, 2), 8), ((64,), 64)]
)
def test_a_narrow_array_is_drawn_row_by_row(shape, columns):
    """16 rows of 8 stay that; 64 rows of 2 are folded; nothing is one long line but a vector."""
    array = Array("A", shape, "float32", 4, 0, 4 * math.prod(shape), True)
    assert grid_of(array, 64).columns == columns
