"""The warp lens: its text, its snapshot, its sizes, another warp, what is refused."""

from __future__ import annotations

from textwrap import dedent

import pytest

import mlcnb as mlc
from mlcnb.core.errors import MLCError
from mlcnb.target import Target
from mlcnb.testing.gallery.programs import matmul
from mlcnb.view.warp import thread
from mlcnb.widgets.base import MODULE_LIMIT, esm, pack, unpack
from tests.observe.warps.programs import copied, product, schedule_of_transpose, transposed
from tests.view.allowed import check_html
from tests.view.names import NAMES
from tests.view.samples import copied as named_copy


def test_text_of_a_transpose():
    found = mlc.observe.warp_lens(transposed(64, False, tiled=False))
    expected = """
        Warp lens of main: warp 0 of block (0, 0, 0), threads (0, 0, 0) to (31, 0, 0)
        grid (2, 8, 1), block (32, 8, 1)
        global memory: 4,608 sectors in 256 requests, 1,024 at best (22.2 %): not coalesced: 18 sectors a request for 4
          instruction                                      bytes a lane  requests  sectors  at best  efficiency
          A[j_0 * 512 + j_1 * 64 + i_0 * 32 + i_1]  read              4       128      512      512     100.0 %  coalesced
          B[i_0 * 2048 + i_1 * 64 + j_0 * 8 + j_1]  write             4       128    4,096      512      12.5 %  not coalesced: 32 sectors a request for 4
        the first request of each instruction, lane by lane:
          read A[j_0 * 512 + j_1 * 64 + i_0 * 32 + i_1]: 4 sectors in 1 line, coalesced
            sector of each lane: aaaaaaaa bbbbbbbb cccccccc dddddddd
          write B[i_0 * 2048 + i_1 * 64 + j_0 * 8 + j_1]: 32 sectors in 32 lines, 4 at best (12.5 %)
            sector of each lane: abcdefgh ijklmnop qrstuvwx yzABCDEF
        """  # noqa: E501
    kept = "\n".join(found.explain().splitlines()[:-1])
    assert kept == dedent(expected).strip("\n")
    assert repr(found) == found.explain() == repr(found[0])


def test_the_page_has_what_python_counted():
    found = mlc.observe.warp_lens(schedule_of_transpose(64, False), schedule_of_transpose(64, True))
    data = unpack(pack(found.snapshot()))
    assert data["verdicts"] == [
        "global memory: 1,024 sectors in each",
        "shared memory: 256 wavefronts in 2: main after split, cache_read, …, storage_align, "
        "4,224 in 1: main after split, cache_read, …, bind (16.5 times as many)",
    ]
    for page, run in zip(data["runs"], found, strict=True):
        assert [i.text for i, _ in run.counts] == [i["text"] for i in page["instructions"]]
        assert len(page["requests"]) == len(run) == 16
        for told, q in zip(page["requests"], run.requests, strict=True):
            at, places = told["first"], []
            for step in told["moved"]:
                at += step
                places.append(at)
            assert places == q.at.tolist()
            assert (told["taken"], told["ideal"]) == (q.taken, q.ideal)
            assert page["instructions"][told["of"]]["text"] == q.instruction.text


def test_a_long_warp_shows_each_instruction():
    found = mlc.observe.warp_lens(product(256, 32))
    (run,) = found.runs
    page = found.snapshot()["runs"][0]
    assert not run.is_whole or len(run) > 320
    numbers = list(run.kernel.instructions)
    done = {numbers.index(q.instruction.number) for q in run.requests}
    assert {r["of"] for r in page["requests"]} == done
    assert page["says"].startswith("the first 320 requests of this warp, and the first of each")


def words_of_lane(r, q, lane):
    """`lane 3, thread (3, 0, 0): A_shared[3, 0], byte 384, bank 0`"""
    who = f"lane {lane}, thread {thread(r, r.warp * 32 + lane)}"
    if not q.active[lane]:
        return f"{who}: takes no part"
    at = int(q.at[lane])
    place = f"bank {int(q.banks[lane])}" if q.is_shared else f"sector {at // 32}, line {at // 128}"
    return f"{who}: {q.instruction.element(at)}, byte {at:,}, {place}"


def test_another_block_and_warp():
    found = mlc.observe.warp_lens(transposed(64, True))
    before = found.runs[0].totals
    found.pick((1,), 2)
    run = found.runs[0]
    assert (run.block, run.warp) == ((1, 0, 0), 2) and run.totals is before
    assert words_of_lane(run, run.requests[0], 5) == (
        "lane 5, thread (5, 2, 0): A[34, 5], byte 8,724, sector 272, line 68"
    )
    assert found.answer("pick", {"block": [0, 0, 0], "warp": 8}) == {
        "error": "warp_lens: no warp 8",
        "hint": "a block of (32, 8, 1) has warps 0 to 7",
    }
    assert found.runs[0] is run


def test_programs_of_every_form():
    sch = schedule_of_transpose(64, True)
    wanted = mlc.observe.warp_lens(sch).runs[0].shared
    kernel = mlc.compile(sch.mod, target=Target("cuda")).kernels[0]
    for program in (sch.mod, sch.mod["main"], kernel):
        assert mlc.observe.warp_lens(program).runs[0].shared == wanted


def test_sizes():
    pair = mlc.observe.warp_lens(
        schedule_of_transpose(1024, False), schedule_of_transpose(1024, True)
    )
    long = mlc.observe.warp_lens(product(1024, 32))
    sizes = {
        "two transposes": len(pack(pair.snapshot())),
        "a product of 1024": len(pack(long.snapshot())),
        "their static view": len(pair.to_html()),
        "the module": len(esm("warp")),
    }
    print(sizes)
    assert sizes["two transposes"] <= 10_000 and sizes["a product of 1024"] <= 20_000
    assert sizes["their static view"] <= 200_000 and sizes["the module"] <= MODULE_LIMIT


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_hostile_names(name):
    found = mlc.observe.warp_lens(named_copy(name))
    check_html(found.to_html())
    assert unpack(pack(found.snapshot()))["runs"][0]["instructions"][0]["verb"] == "read"
    assert found.explain() == mlc.observe.warp_lens(named_copy(name)).explain()


def refused(*programs, **options) -> str:
    with pytest.raises(MLCError) as caught:
        mlc.observe.warp_lens(*programs, **options)
    return str(caught.value)


def test_what_is_refused():
    gpu, cpu = copied(512, 1), matmul(8, 8, 8)
    assert refused(gpu, cpu) == (
        "warp_lens: no loop is bound to threads\n"
        'hint: bind its loops: sch.bind(loop, "threadIdx.x")'
    )
    assert refused(gpu, gpu, gpu) == (
        "warp_lens: 3 programs, at most 2 stand side by side\nhint: look at them two by two"
    )
    assert refused(gpu, block=(1, 2, 3, 4)) == (
        "warp_lens: no block (1, 2, 3, 4)\nhint: the grid is (16, 1, 1): (x, y, z)"
    )
