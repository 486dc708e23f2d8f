"""The page of a model: what it tells of each operator, its values against NumPy, folds, sizes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import mlcnb as mlc
from mlcnb.core.errors import MLCError
from mlcnb.core.node import replace
from mlcnb.ir.module import IRModule
from mlcnb.ir.span import Span
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax import expr as rx
from mlcnb.relax.transform import LegalizeOps
from mlcnb.widgets.base import MODULE_LIMIT, esm, pack
from mlcnb.widgets.values import figures
from tests.models.minilm import encoder, seeded
from tests.view.names import NAMES
from tests.view.samples import matmul, mlp, named_loops, named_module
from tests.view.snapshot import same
from tests.view.test_graph import layered

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
X = np.arange(4, dtype="float32").reshape(1, 4) - 1
W = np.linspace(-1, 1, 32, dtype="float32").reshape(4, 8)


def scoped() -> IRModule:
    """Two operators that came from ONNX nodes."""
    x = rx.Var("x", rx.tensor_info((2, 3), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            one = replace(op.nn.relu(x), span=Span("onnx", "/head/Relu", kind="Relu"))
            two = replace(op.exp(bb.emit(one)), span=Span("onnx", "/head/Exp", kind="Exp"))
            out = bb.emit_output(two)
        bb.emit_func_output(out)
    return bb.get()


# what it tells of an operator


def test_from_the_onnx_node_to_the_kernel():
    ex = mlc.compile(scoped())
    data = mlc.explore(ex).snapshot()
    node = next(n for n in data["nodes"] if "kernel" in n)
    assert node["from"] == [["onnx", "/head/Relu", "Relu"], ["onnx", "/head/Exp", "Exp"]]
    assert (node["info"], node["bytes"]) == ("float32 [2, 3]", "24 B")
    kernel = data["kernels"][node["kernel"]]
    assert (kernel["made"], kernel["times"]) == ("relu + exp", 1)
    loops = ["".join(t for _, t in data["lines"][n]) for n in kernel["loops"]]
    assert loops[0].startswith("@T.prim_func")
    assert kernel["key"] == repr(node["kernel"])
    assert kernel["hot"] and "instructions" in kernel["code"]


def test_operators_of_a_module():
    data = mlc.explore(scoped()).snapshot()
    assert [n["what"] for n in data["nodes"]] == [["x"], ["relu"], ["exp"], ["output"]]
    relu = data["nodes"][1]
    assert relu["call"] == "R.nn.relu(x)" and relu["work"] == "6 FLOP"
    assert "kernel" not in relu and not data["kernels"]
    assert data["drawn"]["members"] == [[0], [1], [2], [3]]
    assert data["drawn"]["colours"]["provenance"]["notes"] == ["", "A: head", "A: head", ""]
    assert data["drawn"]["colours"]["time"] is None


def test_times_of_a_profile():
    ex = mlc.compile(mlp(), target="interp")
    profile = mlc.profile(ex, X, W, repeat=1)
    shown = mlc.explore(ex, profile=profile)
    told = [n.get("time", "") for n in shown.snapshot()["nodes"]]
    assert sum(bool(t) for t in told) == 2
    notes = shown.snapshot()["drawn"]["colours"]["time"]["notes"]
    assert [n for n in notes if n] == [t for t in told if t]
    with pytest.raises(MLCError, match="none of the profile's calls is in this graph"):
        mlc.explore(scoped(), profile=profile)


# values


def reference() -> dict[str, np.ndarray]:
    lv = X @ W
    lv2 = np.maximum(lv, 0) + lv
    top = np.exp(lv2 - lv2.max())
    return {"x": X, "lv": lv, "lv1": np.maximum(lv, 0), "lv2": lv2, "gv": top / top.sum()}


@pytest.mark.parametrize("stage", [lambda m: m, LegalizeOps()], ids=["operators", "loops"])
def test_values_are_those_of_numpy(stage):
    mod = stage(mlp())
    found = {n["name"]: n.get("value") for n in mlc.explore(mod, inputs=(X, W)).snapshot()["nodes"]}
    for name, array in reference().items():
        told = found[name]
        assert told["shape"] == f"float32 [{', '.join(map(str, array.shape))}]"
        np.testing.assert_allclose(told["range"], [array.min(), array.max()], rtol=1e-3)
        np.testing.assert_allclose(told["mean"], array.mean(), rtol=1e-3, atol=1e-6)
        assert (told["nan"], told["zeros"]) == (0, int((array == 0).sum()))


def test_values_of_an_executable():
    ex = mlc.compile(mlp())
    shown = mlc.explore(ex, inputs={"x": X, "w": W})
    last = next(n for n in reversed(shown.snapshot()["nodes"]) if n.get("value"))
    np.testing.assert_allclose(last["value"]["mean"], ex(X, W).mean(), rtol=1e-3)


def test_inputs_that_do_not_fit():
    with pytest.raises(MLCError, match="main takes 2 inputs"):
        mlc.explore(mlp(), inputs=X)


def test_figures_of_what_is_no_number():
    told = figures(np.array([[1.0, np.nan], [np.inf, 3.0]], "float32"))
    assert (told["nan"], told["inf"], told["range"], told["mean"]) == (1, 1, [1.0, 3.0], 2.0)
    assert told["heat"]["rows"] == ["0.", ".z"]
    assert figures(np.zeros((0, 3), "float32")) == {"shape": "float32 [0, 3]"}
    assert figures(np.array(["a"])) == {"shape": "str32 [1]"}
    assert figures(np.full((2, 2), 7)) == {
        "shape": "int64 [2, 2]",
        "nan": 0,
        "inf": 0,
        "zeros": 0,
        "range": [7.0, 7.0],
        "mean": 7.0,
        "std": 0.0,
        "heat": {"of": "all [2, 2]", "rows": ["00", "00"], "low": 7.0, "high": 7.0},
    }


def test_heat_maps_of_large_tensors_are_means():
    data = np.arange(24 * 96, dtype="float32").reshape(1, 24, 96)
    told = figures(data)["heat"]
    assert told["of"] == "[0], [24, 96], a cell is the mean of 2 × 4"
    assert len(told["rows"]) == 12 and {len(row) for row in told["rows"]} == {24}
    assert told["rows"][0][0] == "0" and told["rows"][-1][-1] == "z"
    assert told["low"] == pytest.approx(data[0, :2, :4].mean(), rel=1e-3)


# folding


def test_a_fold_opens_and_closes():
    shown = mlc.explore(layered(60), max_nodes=40)
    first = shown.snapshot()["drawn"]
    several = next(m for m in first["members"] if len(m) > 1)
    assert sorted(m for ms in first["members"] for m in ms) == list(range(182))
    opened = shown.answer("open", {"nodes": several[:3]})
    assert all([m] in opened["members"] for m in several[:3])
    assert sorted(m for ms in opened["members"] for m in ms) == list(range(182))
    assert shown.answer("close", {}) == first


def test_a_search_opens_what_it_finds():
    shown = mlc.explore(layered(60), max_nodes=40)
    found = shown.answer("find", {"text": "lv100"})
    names = [shown.snapshot()["nodes"][m[0]]["name"] for m in found["members"] if len(m) == 1]
    assert "lv100" in names
    answer = shown.answer("find", {"text": "nowhere"})
    assert answer["error"] == "nothing has 'nowhere' in its name, kernel or origin"


def test_assembly_is_asked_for():
    shown = mlc.explore(mlc.compile(scoped()))
    (name,) = shown.snapshot()["kernels"]
    assert shown.answer("assembly", {"kernel": name})["hot"]
    interpreted = mlc.explore(mlc.compile(mlp(), target="interp"))
    assert interpreted.answer("assembly", {"kernel": "softmax"}) == {}
    assert mlc.explore(mlp()).answer("assembly", {"kernel": "softmax"}) == {}


# the text twin, the static view, names, sizes


def test_in_words():
    shown = mlc.explore(scoped(), inputs=np.array([[1, 2, 3], [-1, 0, 1]], "float32"))
    assert shown.explain() == (
        "model main: 2 operators; 12 FLOP\n"
        "0:x <- nothing; -1 .. 3, mean 1, NaN 0\n"
        "1:relu <- 0:x [2×3 f32]; from /head/Relu; 0 .. 3, mean 1.167, NaN 0\n"
        "2:exp <- 1:relu [2×3 f32]; from /head/Exp; 1 .. 20.09, mean 5.819, NaN 0\n"
        "3:output <- 2:exp [2×3 f32]"
    )


def test_a_whole_snapshot():
    data = mlc.explore(scoped(), inputs=np.eye(2, 3, dtype="float32")).snapshot()
    graph = data["drawn"]["graph"]  # places are the engine's
    graph["n"], graph["e"] = [n[2:] for n in graph["n"]], [e[:3] for e in graph["e"]]
    graph["w"] = graph["h"] = 0
    same("model.json", json.dumps(data, indent=1, ensure_ascii=False))


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_hostile_names(name):
    shown = mlc.explore(named_module(name), inputs=np.ones((1, 4), "float32"))
    assert pack(shown.snapshot()) and shown.to_html()
    assert all(len(line) <= 40 for n in shown.snapshot()["nodes"] for line in n["what"])
    assert "\x1b" not in shown.explain() and "\u202e" not in shown.explain()


MODELS = {
    "resnet50": lambda: mlc.from_onnx(LIGHT / "light_resnet50.onnx"),
    "densenet121": lambda: mlc.from_onnx(LIGHT / "light_densenet121.onnx"),
    "minilm": lambda: mlc.from_onnx(encoder(seeded(layers=6, width=24, inner=48), tokens=16)),
}


@pytest.mark.parametrize("name", MODELS)
def test_sizes(name):
    shown = mlc.explore(MODELS[name]())
    data = shown.snapshot()
    packed, nodes = len(pack(data)), len(data["drawn"]["members"])
    print(f"{name}: {len(data['nodes'])} nodes, {nodes} drawn, {packed:,} bytes")
    assert packed < 150_000 and nodes <= 400
    assert sorted(m for ms in data["drawn"]["members"] for m in ms) == list(
        range(len(data["nodes"]))
    )
    assert len(esm("model").encode()) < MODULE_LIMIT


def test_an_executable_of_loops_shows_its_code():
    ex = mlc.compile(matmul)
    assert mlc.explore(ex).module == "linked"


def test_loops_have_the_page_of_a_schedule():
    loops = named_loops("f")
    for obj in (loops, IRModule.make({"f": loops})):
        page = mlc.explore(obj)
        assert type(page).__name__ == "Explorer"
        assert repr(page).startswith("Explorer: schedule of f, 0 steps")
