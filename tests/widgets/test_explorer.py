"""The explorer: what is clicked is what is written; nothing is lost; and it stays small."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest

import mlcnb as mlc
from mlcnb import te
from mlcnb.core.errors import MLCError, ScheduleError
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script.printer import document
from mlcnb.tir.schedule import Schedule
from mlcnb.widgets.base import pack, unpack
from mlcnb.widgets.explorer import Explorer
from tests.tir.schedule.programs import copy_2d, elementwise, matmul, matmul_relu
from tests.view.names import NAMES
from tests.view.samples import named_loops

TARGET = "llvm -mcpu=x86-64-v4 -num-cores=8"
PLAN = ("split", "j", {"factors": [None, 16]}), ("reorder", "k", {}), ("vectorize", "j_1", {})


def rows_of(page, branch="main"):
    """Name of a place -> its row, for the program that the page shows."""
    data = page.snapshot()
    found = next(b for b in data["branches"] if b["name"] == branch)
    program = data["programs"][found["steps"][found["at"]][2][0]]
    rows = program["tree"][1::3]
    return {data["rows"][row][0]: n for n, row in enumerate(rows)}


def click(page, place, label, branch="main"):
    """Choose a place, then the step of this label, as the page does."""
    row = rows_of(page, branch)[place]
    at = page.branches[branch].position
    answer = page.answer("legal", {"branch": branch, "at": at, "name": "main", "row": row})
    every = [*answer["steps"], *answer["refused"]]
    n = next(x["n"] for x in every if x["label"] == label)
    return page.answer("apply", {"branch": branch, "name": "main", "row": row, "n": n})


def test_the_whole_snapshot_of_a_small_program():
    sch = Schedule(copy_2d(4, 4))
    sch.parallel(sch.get_loops("B")[0])
    found = Explorer(sch, TARGET).snapshot()
    texts = ["".join(text for _, text in line) for line in found["lines"]]
    listings = []
    for program in found["programs"]:
        pairs = zip(program["text"][::2], program["text"][1::2], strict=True)
        listings.append([" " * indent + texts[line] for indent, line in pairs])
    assert listings == [document(step.mod["main"], header=False).text_lines for step in sch.steps]
    assert found["rows"] == [
        ["i", "serial", "4", "4", "128 B", ""],
        ["j", "serial", "4", "16", "128 B", ""],
        ["B", "block", "", "16", "", "SS A -> B"],
        ["i", "parallel", "4", "4", "128 B", ""],
    ]
    assert [program["tree"] for program in found["programs"]] == [
        [0, 0, 4, 1, 1, 4, 2, 2, 5],
        [0, 3, 4, 1, 1, 5, 2, 2, 6],
    ]
    way = "same arrays, reference interpreter"
    assert found["branches"] == [
        {
            "name": "main",
            "from": None,
            "at": 1,
            "steps": [
                ["as given", ["given", "", None, ""], [0]],
                ["parallel(i)", ["rule", "by rule", 0.0, way], [1]],
            ],
            "code": ['B = sch.get_block("B")', "i, j = sch.get_loops(B)", "sch.parallel(i)"],
            "heads": [0, 3],
        }
    ]
    cost = found["programs"][1]["cost"]
    assert {k: cost[k] for k in ("misses", "lanes", "strided", "tasks", "gpu")} == {
        "misses": [2, 2, 2],
        "lanes": 1,
        "strided": [],
        "tasks": 4,
        "gpu": None,
    }
    rest = {k: found[k] for k in ("title", "functions", "others", "target", "width", "legal")}
    assert rest == {
        "title": "Schedule of main",
        "functions": ["main"],
        "others": [],
        "target": "L1 32 KiB, L2 1 MiB, L3 16 MiB; 16 lanes of float32; 8 cores",
        "width": 16,
        "legal": [],
    }


def by_hand():
    sch = Schedule(matmul(64, 64, 64))
    i, j, k = sch.get_loops(sch.get_block("C"))
    j_0, j_1 = sch.split(j, factors=[None, 16])
    sch.reorder(k, j_1)
    sch.vectorize(j_1)
    return sch


def test_clicking_writes_what_a_person_would():
    sch = Schedule(matmul(64, 64, 64))
    page = Explorer(sch, TARGET)
    assert click(page, "j", "split(j, factors=[None, 16])") == {"branch": "main", "at": 1}
    assert click(page, "k", "reorder(k, j_1)") == {"branch": "main", "at": 2}
    assert click(page, "j_1", "vectorize(j_1)") == {"branch": "main", "at": 3}
    assert_structural_equal(sch.mod, by_hand().mod)
    assert str(sch.trace) == str(by_hand().trace)
    assert page.code == (
        'C = sch.get_block("C")\n'
        "i, j, k = sch.get_loops(C)\n"
        "j_0, j_1 = sch.split(j, factors=[None, 16])\n"
        "sch.reorder(k, j_1)\n"
        "sch.vectorize(j_1)"
    )
    again = Schedule(matmul(64, 64, 64))
    exec(page.code, {"sch": again})  # noqa: S102
    assert_structural_equal(again.mod, sch.mod)


def test_the_same_from_a_cell():
    sch = Schedule(matmul(64, 64, 64))
    page = mlc.explore(sch, target=TARGET)
    page.do("split", "j", factors=[None, 16])
    page.do("reorder", ["k", "j_1"])
    page.do("vectorize", sch.get_loops("C")[3])
    assert_structural_equal(sch.mod, by_hand().mod)
    with pytest.raises(ScheduleError, match="there is no block or loop 'q'"):
        page.do("split", "q", factors=[None, 2])
    with pytest.raises(ScheduleError, match="there is no primitive 'spilt'"):
        page.do("spilt", "k", factors=[None, 2])
    with pytest.raises(ScheduleError, match="split: there is no argument 'factor'"):
        page.do("split", "k", factor=2)


def test_arguments_of_the_readers_own():
    page = Explorer(Schedule(matmul(64, 64, 64)))
    row = rows_of(page)["j"]
    fields = {"branch": "main", "name": "main", "row": row, "primitive": "split"}
    found = page.answer("do", {**fields, "arguments": {"factors": [None, 24]}})
    assert found == {"branch": "main", "at": 1}
    assert page.code.splitlines()[-1] == "j_0, j_1 = sch.split(j, factors=[None, 24])"
    wrong = page.answer("do", {**fields, "arguments": {"factors": [None, 0]}})
    assert "error" in wrong and page.sch.position == 1


def test_offers_are_predicted_and_previewed():
    sch = Schedule(matmul(256, 256, 256))
    page = Explorer(sch, TARGET)
    row = rows_of(page)["k"]
    asked = {"branch": "main", "at": 0, "name": "main", "row": row}
    answer = page.answer("legal", asked)
    assert answer["where"] == "loop k in 0..256 of block C"
    assert not any("cost" in x for x in answer["steps"]), "the list does not wait for predictions"
    assert page.snapshot()["legal"][0]["answer"] == answer
    costs = []
    while len(costs) < len(answer["steps"]):
        costs += page.answer("weigh", {**asked, "first": len(costs)})["costs"]
    weighed = page.snapshot()["legal"][0]["answer"]
    assert [x["cost"] for x in weighed["steps"]] == costs
    assert page.answer("legal", asked) == weighed
    offer = next(x for x in weighed["steps"] if x["label"] == "reorder(k, j)")
    now = page.snapshot()["programs"][0]["cost"]
    assert offer["cost"]["misses"][0] < now["misses"][0] / 10
    head, tail, between = offer["ghost"]
    lines = ["".join(t for _, t in line) for line in answer["lines"]]
    flat = [*answer["now"][: 2 * head], *between, *answer["now"][len(answer["now"]) - 2 * tail :]]
    pairs = zip(flat[::2], flat[1::2], strict=True)
    sch.reorder(*sch.get_loops("C")[2:], sch.get_loops("C")[1])
    expected = document(sch.mod["main"], header=False).text_lines
    assert [" " * indent + lines[line] for indent, line in pairs] == expected


def test_a_refused_step_shows_its_card_and_loses_nothing():
    sch = Schedule(matmul(8, 8, 8))
    page = Explorer(sch, TARGET)
    before, trace = sch.mod, str(sch.trace)
    answer = click(page, "k", "vectorize(k)")
    assert answer["error"].startswith("vectorize: loop k is not parallel")
    card = answer["card"]
    assert card["events"] == [
        "block C at i = 0, j = 0, k = 0 writes C[0, 0]",
        "block C at i = 0, j = 0, k = 1 reads C[0, 0]",
    ]
    assert card["smallest"] == "(2, 2), (2, 2), (2, 2)" and card["element"] == "C[0, 0]"
    assert card["values"][0] != card["values"][1]
    assert card["grids"][0]["marks"] == [[0, 0, 1, "writes C[0, 0]"], [0, 1, 2, "reads C[0, 0]"]]
    place = card["excerpt"]["lines"][card["excerpt"]["line"]]
    assert "".join(text for _, text in place).strip() == "for i, j, k in T.grid(8, 8, 8):"
    assert [x["label"] for x in card["instead"]] == [
        "vectorize(j)",
        "vectorize(i)",
        "rfactor(k, factor_axis=0)",
        "decompose_reduction(C, k)",
    ]
    assert sch.mod is before and str(sch.trace) == trace
    done = page.answer("repair", {"branch": "main", "name": "main", "n": 0})
    assert done == {"branch": "main", "at": 1}
    assert page.code.endswith("sch.vectorize(j)")


def test_undo_and_a_new_step_keep_what_was_undone():
    sch = by_hand()
    page = Explorer(sch)
    page.undo().undo()
    assert sch.position == 1
    page.redo()
    assert sch.position == 2
    page.do("unroll", "j_1")
    assert [x.name for x in sch.steps] == ["start", "split", "reorder", "unroll"]
    assert list(page.branches) == ["main", "undone"]
    assert page.branches["undone"].steps[-1].name == "vectorize"
    assert page.snapshot()["branches"][1]["from"] == ["main", 2]


def test_branches_side_by_side():
    sch = by_hand()
    page = Explorer(sch, TARGET)
    other = page.branch("tile 8", at=0)
    assert sch.position == 3 and other.position == 0
    page.do("split", "j", branch="tile 8", factors=[None, 8])
    assert [x.name for x in sch.steps][1:] == ["split", "reorder", "vectorize"]
    text = repr(page.compare("main", "tile 8"))
    assert text.splitlines()[0] == "main and tile 8: same up to step 0"
    assert "split(j, factors=[None, 16]); reorder(k, j_1); vectorize(j_1)" in text
    assert "- " in text and "+ " in text and "for j_1 in T.vectorized(16):" in text
    assert page.answer("branch", {"branch": "main", "at": 2, "name": "tile 8"}) == {
        "branch": "tile 8 2",
        "at": 2,
    }
    assert page.answer("drop", {"branch": "tile 8 2"}) == {"branch": "main", "at": 3}
    assert "error" in page.answer("drop", {"branch": "main"})
    with pytest.raises(MLCError, match="there is no branch 'x'"):
        page.compare("main", "x")


def test_what_a_cell_does_shows_after_refresh_and_is_not_overrun():
    sch = Schedule(matmul(8, 8, 8))
    page = Explorer(sch)
    page.snapshot()
    sch.unroll(sch.get_loops("C")[0])
    stale = page.answer("apply", {"branch": "main", "name": "main", "row": 0, "n": 0})
    assert stale["error"].startswith("a cell has changed this schedule since")
    assert page.snapshot()["branches"][0]["at"] == 1
    page._shown["main"] = sch.mod
    assert "at" in page.answer("goto", {"branch": "main", "at": 0})


def test_a_click_belongs_to_no_cell(monkeypatch):
    """Else the cell that ran last would ask, when run again, whether to take the click back."""
    shell = SimpleNamespace(
        parent_header={"metadata": {"cellId": "a"}, "header": {"msg_id": "1"}},
        execution_count=1,
        events=SimpleNamespace(register=lambda *a: None),
    )
    monkeypatch.setattr("mlcnb.core.cells.shell", lambda: shell)
    sch = Schedule(matmul(8, 8, 8))
    sch.unroll(sch.get_loops("C")[0])
    page = Explorer(sch)
    page.do("unroll", "j")
    assert [step.run and step.run.cell for step in sch.steps] == [None, "a", None]


def test_checks_are_run_on_the_same_arrays():
    sch = Schedule(matmul(48, 48, 48), check="none")
    sch.parallel(sch.get_loops("C")[0])
    sch.vectorize(sch.get_loops("C")[2])  # wrong, and trusted
    page = Explorer(sch)
    badges = [step[1] for step in page.snapshot()["branches"][0]["steps"]]
    assert badges[2] == ["trusted", "trusted", None, ""], "too large to be run unasked"
    found = page.check()
    assert found[1] == "differs by 0 (same arrays, reference interpreter)"
    kind, _, error, _ = page.snapshot()["branches"][0]["steps"][2][1]
    assert kind == "trusted" and error > 0.01


def test_large_programs_are_checked_compiled():
    sch = Schedule(matmul(96, 96, 96))
    sch.split(sch.get_loops("C")[1], [None, 16])
    assert Explorer(sch).check() == {1: "differs by 0 (same arrays, compiled)"}


def test_functions_that_no_step_touches_are_asked_for():
    both = {"main": matmul(8, 8, 8), "relu": matmul_relu(8, 8, 8), "copy": copy_2d()}
    sch = Schedule(Schedule(matmul(8, 8, 8)).mod.with_functions(both))
    sch.work_on("relu")
    page = Explorer(sch)
    assert page.snapshot()["functions"] == ["relu"]
    sch.unroll(sch.get_loops(sch.get_block("D", func_name="relu"))[0])
    sch.unroll(sch.get_loops(sch.get_block("C", func_name="main"))[0])
    found = page.snapshot()
    assert found["functions"] == ["main", "relu"] and found["others"] == ["copy"]
    assert [step[2] for step in found["branches"][0]["steps"]] == [[0, 1], [0, 2], [3, 2]]
    page.answer("function", {"branch": "main", "name": "copy"})
    assert page.snapshot()["functions"] == ["main", "relu", "copy"]
    assert "error" in page.answer("function", {"branch": "main", "name": "nothing"})


def test_threads_of_a_gpu_and_what_crosses_them():
    sch = Schedule(matmul(32, 32, 32))
    page = Explorer(sch, "cuda")
    i, j, k = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    page.do("bind", "k", thread_axis="threadIdx.y")
    found = page.snapshot()
    program = found["programs"][found["branches"][0]["steps"][-1][2][0]]
    assert program["cost"]["gpu"] == [32, 1024]
    kinds = [found["rows"][row][1] for row in program["tree"][1::3]]
    assert kinds == ["thread", "thread", "thread", "block"]
    assert "32 × 1,024" in page.explain()
    assert set(page.check()) == {1, 2, 3}


def chain(blocks=8, size=64):
    x = A = te.placeholder((size, size), name="A")
    for n in range(blocks):
        x = te.compute((size, size), lambda i, j, y=x: y[i, j] * 2.0 + 1.0, name=f"T{n}")
    return te.create_prim_func([A, x])


def stepped(steps, blocks=8):
    """A schedule of that many steps on a program of that many blocks."""
    sch = Schedule(chain(blocks))
    for n in range(steps):
        loops = sch.get_loops(f"T{n % blocks}")
        kind = n // blocks % 3
        if kind == 0 and len(loops) < 9:
            sch.split(loops[-1], [None, 2])
        elif kind == 1 or kind == 0:
            sch.reorder(loops[-1], loops[-2])
        else:
            sch.annotate(loops[0], f"note{n}", n)
    return sch


def test_fifty_steps_of_sixty_lines_are_small():
    sch = stepped(50)
    lines = len(document(sch.steps[0].mod["main"], header=False).lines)
    page = Explorer(sch)
    state = json.dumps(page.snapshot(), separators=(",", ":"))
    packed = pack(page.snapshot())
    print(f"\n50 steps of {lines} lines: {len(state):,} bytes of JSON, {len(packed):,} packed")
    assert 55 <= lines <= 70 and len(sch.steps) == 51
    assert len(state) <= 150_000 and len(packed) <= 40_000
    for block in ("T0", "T1", "T2", "T3", "T4"):
        page.legal(block)
    packed = pack(page.snapshot())
    print(f"with the legal steps of four places: {len(packed):,} packed")
    assert len(packed) <= 150_000


def test_two_hundred_steps_open_and_refresh():
    page = Explorer(stepped(200))
    began = time.perf_counter()
    first = page.snapshot()
    opened = time.perf_counter() - began
    page.refresh()
    print(f"\n200 steps: {opened:.2f} s, {len(pack(first)):,} bytes packed")
    assert len(first["branches"][0]["steps"]) == 201
    told = {n for n, x in enumerate(first["programs"]) if x["cost"]}
    assert told == {*range(7), *range(194, 201)}, "those at both ends are predicted"
    assert page.answer("costs", {"branch": "main", "at": 100}) == {}
    told = {n for n, x in enumerate(page.snapshot()["programs"]) if x["cost"]}
    assert told == {*range(7), *range(94, 107), *range(194, 201)}, "and those looked at"
    assert len(pack(first)) <= 150_000
    assert len(page.to_html()) <= 200_000 and len(page.explain().splitlines()) <= 301


def test_long_programs_are_cut():
    page = Explorer(Schedule(chain(120, 8)))
    program = page.snapshot()["programs"][0]
    assert len(program["text"]) == 2 * 600 and program["more"] > 200
    answer = page.answer("legal", {"branch": "main", "at": 0, "name": "main", "row": 0})
    assert "error" not in answer and all("ghost" not in x for x in answer["steps"])


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_hostile_names(name):
    page = Explorer(Schedule(named_loops(name)))
    function = unpack(pack(page.snapshot()))["functions"][0]
    answer = page.answer("legal", {"branch": "main", "at": 0, "name": function, "row": 0})
    assert answer["steps"]
    page.do("split", name, factors=[None, 2])
    page.branch(name)
    text = pack(page.snapshot())
    assert len(text) < 100_000
    assert "<script" not in page.to_html().lower().replace("&lt;", "")


def test_in_words():
    page = Explorer(by_hand(), TARGET)
    page.legal("k")
    lines = page.explain().splitlines()
    assert lines[0] == "Explorer: schedule of main, 3 steps"
    assert [line.split()[:2] for line in lines[2:6]] == [
        ["0", "as"],
        ["1", "split(j,"],
        ["2", "reorder(k,"],
        [">", "3"],
    ]
    assert lines[6] == (
        "predicted for L1 32 KiB, L2 1 MiB, L3 16 MiB; 16 lanes of float32; 8 cores, not measured"
    )
    text = "\n".join(lines)
    assert "legal at loop k in 0..64 of block C:" in text
    assert "  sch.vectorize(j_1)" in text
    assert repr(page) == page.explain()


def test_a_plain_program_has_a_page():
    page = Explorer(Schedule(elementwise()))
    assert page.code == "" and page.snapshot()["branches"][0]["code"] == []
    assert page.undo is not None and "step 0" not in page.explain()


def test_lines_say_what_they_cost():
    """How often a line's body runs, and the bytes that one run of it touches."""
    page = mlc.explore(Schedule(matmul(64, 64, 64)), target="llvm -mcpu=x86-64-v4")
    data = page.snapshot()
    (program,) = data["programs"]
    margin = program["margin"]
    told = {n: data["margins"][row] for n, row in zip(margin[::2], margin[1::2], strict=True)}
    assert [cost for cost, _ in told.values()] == ["262 k× · 49.2 kB", "262 k×"]
    assert program["missed"] is None  # a million accesses: counted when the page asks
    (line, (_, words)), _ = told.items()
    assert words == (
        "i: runs 64×, one run touches 49.2 kB; j: runs 4,096×, one run touches 16.9 kB; "
        "k: runs 262 k×, one run touches 4.42 kB"
    )
    text = page.explain().splitlines()
    (loops,) = (x for x in text if "T.grid(64, 64, 64)" in x)
    assert loops.endswith("  # 262 k× · 49.2 kB")
    assert text.index(loops) - text.index(next(x for x in text if "@T.prim_func" in x)) == line


def counted(page):
    """The costs of statements, line by line in the words of the page, and why there are none."""
    data = page.snapshot()
    program = data["programs"][-1]
    told = [data["margins"][row] for row in program["margin"][1::2]]
    return [x for x in told if "miss" in x[0]], program["missed"]


def test_statements_say_what_they_miss():
    """By the exact model, where the program is small enough to be played."""
    page = mlc.explore(Schedule(matmul(16, 16, 16)), target="llvm -mcpu=x86-64-v4")
    assert counted(page) == (
        [
            ["16 misses", "misses, counted: L1 C 16; L2 C 16; L3 C 16"],
            ["32 misses", "misses, counted: L1 A 16, B 16; L2 A 16, B 16; L3 A 16, B 16"],
        ],
        "",
    )
    text = page.explain().splitlines()
    assert [x.split("  # ")[1] for x in text if " misses" in x and " # " in x] == [
        "16 misses",
        "32 misses",
    ]
    larger = mlc.explore(Schedule(matmul(64, 64, 64)), target="llvm -mcpu=x86-64-v4")
    assert counted(larger) == ([], None)
    larger.answer("costs", {"branch": "main", "at": 0})
    assert [x[0] for x in counted(larger)[0]] == ["256 misses", "512 misses"]


def test_why_misses_are_not_counted():
    page = mlc.explore(Schedule(matmul(256, 256, 256)), target="llvm -mcpu=x86-64-v4")
    told = "it makes about 117 M accesses, and at most 2.5 M are played"
    assert counted(page) == ([], told)
    bound = Schedule(matmul(16, 16, 16))
    bound.bind(bound.get_loops("C")[0], "threadIdx.x")
    found, why = counted(mlc.explore(bound))
    assert not found and why.startswith("the program runs on the threads of a GPU")


def test_threads_of_a_gpu_are_no_gain_on_a_cpu():
    def bound(target):
        page = Explorer(Schedule(matmul(16, 16, 16)), target)
        row = rows_of(page)["i"]
        asks = {"branch": "main", "at": 0, "name": "main", "row": row}
        answer = page.answer("legal", asks)
        first = next(x["n"] for x in answer["steps"] if x["primitive"] == "bind")
        costs = page.answer("weigh", {**asks, "first": first})["costs"]
        before = page.snapshot()["programs"][0]["cost"]
        return before, costs[0]

    before, after = bound(TARGET)
    assert (after["gpu"], after["tasks"], after["cycles"]) == (None, 1, before["cycles"])
    before, after = bound("cuda")
    assert after["gpu"] and after["cycles"] < before["cycles"]
