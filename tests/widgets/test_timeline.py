"""The page of a run of passes: rows, rules, graphs, text, and runs without a rule."""

from __future__ import annotations

import json

import pytest

import mlcnb as mlc
from mlcnb.relax.transform import LegalizeOps, SimplifyOps
from mlcnb.script import parse
from mlcnb.transform import trace
from mlcnb.view.diff import Change
from mlcnb.view.graph import graph
from mlcnb.view.graph.compare import compare
from mlcnb.widgets.base import MODULE_LIMIT, esm, pack
from mlcnb.widgets.timeline import aligned
from tests.ir.test_rules import TURNS, convolutions
from tests.view.names import NAMES
from tests.view.samples import mlp, named_module, passes, still
from tests.view.snapshot import same


def page(*made, mod=None):
    return mlc.explore(still(trace(list(made), mod or parse(TURNS))))


def text_of(data, numbers):
    return ["".join(t for _, t in data["lines"][n]) if n >= 0 else n for n in numbers]


# what is in the snapshot


def test_rows():
    data = mlc.explore(still(trace(mlc.get_pipeline("zero"), mlp()))).snapshot()
    assert [(s["name"], s["ops"], s["bytes"], s["changed"]) for s in data["steps"]] == [
        ("LegalizeOps", [4, 4], ["96 B", "96 B"], True),
        ("AnnotateTIROpPattern", [4, 4], ["96 B", "96 B"], True),
        ("FoldConstant", [4, 4], ["96 B", "96 B"], False),
        ("FuseOps", [4, 4], ["96 B", "32 B"], True),
        ("FuseTIR", [4, 2], ["32 B", "32 B"], True),
    ]
    assert data["title"] == "5 passes, 6.25 ms; operators 4 -> 2; temporaries 96 B -> 32 B"
    assert "graphs" not in data["steps"][2]


def test_rules_with_their_source():
    data = page(SimplifyOps()).snapshot()
    assert data["steps"][0]["rules"] == [
        ["SimplifyOps.permute_dims", 1],
        ["SimplifyOps.reshape", 1],
    ]
    about = data["rules"]["SimplifyOps.reshape"]
    assert about["source"].startswith("mlcnb/relax/transform/simplify_ops.py:")
    assert about["summary"] == "To the shape that is there; of a view: only the last shape counts."
    assert text_of(data, about["code"])[:2] == (
        ['@rule("SimplifyOps")', "def _reshape(s: _Simplifier, call: Call) -> Any:"]
    )


def test_graphs_before_and_after():
    (step,) = page(SimplifyOps()).snapshot()["steps"]
    before, after = ([n[5][0] for n in g["n"]] for g in step["graphs"])
    assert list(zip(before, step["signs"][0], strict=True)) == [
        ("x", ""),
        ("permute_dims", "-"),
        ("permute_dims", "-"),
        ("reshape", "-"),
        ("reshape", "-"),
        ("relu", "~"),
        ("output", ""),
    ]
    assert list(zip(after, step["signs"][1], strict=True)) == (
        [("x", ""), ("relu", "~"), ("output", "")]
    )
    assert step["partner"] == [0, -1, -1, -1, -1, 1, 2]
    assert step["lit"] == [[2], [4]]


def test_what_becomes_one_kernel_stands_in_a_frame():
    steps = mlc.explore(trace(mlc.get_pipeline("zero"), mlp())).snapshot()["steps"]
    fuse = steps[3]
    assert [c[4] for c in fuse["graphs"][0]["c"]] == ["3 become one"]
    assert [c[4] for c in fuse["graphs"][1]["c"]] == ["matmul + relu + add"]
    assert not any(sign for signs in fuse["signs"] for sign in signs)
    merged = steps[4]["graphs"]
    assert [c[4] for c in merged[0]["c"]] == ["matmul + relu + add"] and not merged[1]["c"]
    assert len(merged[0]["n"]) - len(merged[1]["n"]) == 2


def test_text_side_by_side():
    data = page(SimplifyOps()).snapshot()
    (main,) = data["steps"][0]["text"]
    assert (main["name"], main["kind"], main["signs"]) == ("main", "changed", "   ~----  ")
    left, right = text_of(data, main["left"]), text_of(data, main["right"])
    assert [row.strip().partition(":")[0] for row in left[3:8]] == "lv lv1 lv2 lv3 gv".split()
    assert right[3:8] == ['        gv: R.Tensor((2, 3), dtype="float32") = R.nn.relu(x)', *[-1] * 4]
    assert left[8:] == right[8:]


def test_new_functions_are_shown_in_part():
    data = page(LegalizeOps(), mod=convolutions()).snapshot()
    kinds = [f.get("kind", "more") for f in data["steps"][0]["text"]]
    assert kinds == ["changed", "added", "added", "added", "added", "more"]
    assert len(data["steps"][0]["text"][-1]["more"]) == 6


def test_rows_of_two_texts():
    old, new = ["a", *"bcdefghij", "k", "l"], ["a", *"bcdefghij", "K", "l", "m"]
    assert aligned(Change("f", old, new), 2) == [
        (-9, -9, "…"),
        (8, 8, " "),
        (9, 9, " "),
        (10, 10, "~"),
        (11, 11, " "),
        (-1, 12, "+"),
    ]
    assert aligned(Change("f", [], ["a", "b"]), 1) == [(-1, 0, "+"), (-1, 1, "+")]


def test_nodes_are_matched():
    mod = mlp()
    marks = compare(graph(mod).model, graph(mod).model)
    assert not any(marks.before) and not any(marks.after)
    legal = LegalizeOps()(mod)
    marks = compare(graph(mod).model, graph(legal).model)
    assert "-" not in marks.before and "+" not in marks.after


# without a rule


def test_the_step_without_a_rule():
    shown = page(SimplifyOps())
    known = len(shown.snapshot()["lines"])
    answer = shown.answer("without", {"step": 0, "rule": "SimplifyOps.reshape"})
    assert answer["step"]["rules"] == [["SimplifyOps.permute_dims", 1]]
    assert answer["instead"]["ops"] == [1, 3]
    assert answer["end"]["ops"] == [1, 3] and answer["end"]["calls"] == [0, 0]
    assert answer["from"] == known
    before, after = ([n[5][0] for n in g["n"]] for g in answer["step"]["graphs"])
    assert after == ["x", "reshape", "reshape", "relu", "output"]
    again = shown.answer("without", {"step": 0, "rule": "SimplifyOps.reshape"})
    assert again["from"] == known and again["lines"] == answer["lines"]


def test_the_rest_of_the_pipeline_without_a_rule():
    shown = mlc.explore(trace(mlc.get_pipeline("zero"), mlp()))
    answer = shown.answer("without", {"step": 3, "rule": "FuseOps.epilogue"})
    assert answer["step"]["ops"] == [4, 4]
    assert answer["end"]["calls"] == [2, 3]
    assert answer["end"]["shares"] == [32, 64]


def test_what_cannot_be_run_is_an_answer():
    shown = page(SimplifyOps())
    answer = shown.answer("without", {"step": 0, "rule": "SimplifyOps.nothing"})
    assert answer["error"] == "no rewrite rule 'SimplifyOps.nothing'"
    assert answer["hint"].startswith("rules: SimplifyOps.")
    assert shown.answer("without", {"step": 9, "rule": "x"})["error"].startswith("IndexError")


# the text twin, sizes, names


def test_in_words():
    shown = page(SimplifyOps(), LegalizeOps())
    told = shown.explain().splitlines()
    assert told[0] == "2 passes, 2.50 ms; operators 5 -> 1; temporaries 48 B -> 0 B"
    assert told[1] == (
        "  0 SimplifyOps: 2 operators simplified; 1.25 ms; operators 5 -> 1; "
        "temporaries 48 B -> 0 B"
    )
    assert told[2].startswith("      SimplifyOps.permute_dims ×1, mlcnb/op/manipulate/permute")
    assert told[-1] == "0 passes changed nothing"
    assert repr(shown) == shown.explain()


def test_one_step_has_a_page_too():
    run = trace(mlc.get_pipeline("zero"), mlp())
    shown = mlc.explore(run["FuseOps"])
    assert [s["name"] for s in shown.snapshot()["steps"]] == ["FuseOps"]


def test_an_empty_run():
    shown = mlc.explore(trace([], mlp()))
    assert shown.snapshot()["steps"] == []
    assert shown.explain() == "0 passes, 0.00 µs\n0 passes changed nothing"


def test_a_whole_snapshot():
    data = page(SimplifyOps()).snapshot()
    for about in data["rules"].values():
        about["source"], about["code"] = about["source"].rpartition(":")[0], []
    data["lines"] = data["lines"][:0]
    for function in data["steps"][0]["text"]:
        function["left"] = function["right"] = []
    for drawn in data["steps"][0]["graphs"]:  # places are the engine's
        drawn["n"] = [[*n[2:8]] for n in drawn["n"]]
        drawn["e"] = [e[:3] for e in drawn["e"]]
        drawn["w"] = drawn["h"] = 0
    same("timeline.json", json.dumps(data, indent=1, ensure_ascii=False))


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_hostile_names(name):
    shown = mlc.explore(passes(name))
    assert pack(shown.snapshot()) == pack(mlc.explore(passes(name)).snapshot())
    assert named_module(name) and shown.to_html()


def test_sizes():
    mod = mlc.from_onnx(_resnet())
    shown = mlc.explore(trace(mlc.get_pipeline("default"), mod))
    packed = len(pack(shown.snapshot()))
    print(f"resnet50's passes: {packed:,} bytes; module {len(esm('timeline').encode()):,} bytes")
    assert packed < 300_000
    assert len(esm("timeline").encode()) < MODULE_LIMIT


def _resnet():
    from pathlib import Path

    import onnx

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return folder / "light_resnet50.onnx"
