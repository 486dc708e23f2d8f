"""Whatever walks a model is linear in its size: calls of functions are counted, not seconds.

A model of a family and one twice as large: what is done with the larger takes at most so much more
as its size does, and a part for what sorts or looks up in trees.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.ir import load_json, save_json, structural_equal, structural_hash
from mlcnb.relax.analysis.well_formed import well_formed
from mlcnb.relax.transform.pipeline import default_pipeline, lower_pipeline
from tests.frontend.build import graph, ints, model, node

#: how many times as many calls the model of twice the size may take
MOST = 2.35
#: differences below are of caches and first calls
FEW = 2000


def calls_of(run: Callable[[Any], Any], given: Any) -> tuple[int, Any]:
    """How many functions are called (generators are at each resumption), and the result."""
    count = 0

    def enter(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(enter)
    try:
        result = run(given)
    finally:
        sys.setprofile(None)
    return count, result


def linear(what: str, run: Callable[[Any], Any], pair: list[Any]) -> list[Any]:
    """The results for a small and a large one; fails where the large one takes too many calls."""
    (few, one), (many, two) = (calls_of(run, x) for x in pair)
    assert many <= MOST * few + FEW, f"{what}: {few} calls, of twice the size {many}"
    return [one, two]


def before(i: int) -> str:
    """The name of a value in a chain."""
    return f"v{i}" if i else "x"


def chain(n: int) -> Any:
    ops = ["Relu", "Neg", "Sigmoid", "Tanh"]
    nodes = [node(ops[i % 4], before(i), f"v{i + 1}") for i in range(n)]
    return model("x: float[2]", nodes, f"v{n}: float[2]")


def additions(n: int) -> Any:
    nodes = [
        node("Add", f"{before(i)} w", f"v{i + 1}")
        if i % 2
        else node("Relu", before(i), f"v{i + 1}")
        for i in range(n)
    ]
    return model("x: float[2]", nodes, f"v{n}: float[2]", w=np.ones(2, "float32"))


def products(n: int) -> Any:
    nodes = [node("MatMul", f"{before(i)} w", f"v{i + 1}") for i in range(n)]
    return model("x: float[a, 2]", nodes, f"v{n}: float[a, 2]", w=np.eye(2, dtype="float32"))


def diamonds(n: int) -> Any:
    nodes = [node("Add", f"{before(i)} {before(i)}", f"v{i + 1}") for i in range(n)]
    return model("x: float[2]", nodes, f"v{n}: float[2]")


def wide_join(n: int) -> Any:
    nodes = [node("Relu", "x", f"v{i}") for i in range(n)]
    nodes.append(node("Concat", " ".join(f"v{i}" for i in range(n)), "y", axis=0))
    return model("x: float[2]", nodes, f"y: float[{2 * n}]")


def wide_split(n: int) -> Any:
    nodes = [
        node("Split", "x s", " ".join(f"v{i}" for i in range(n)), axis=0),
        node("Concat", " ".join(f"v{i}" for i in reversed(range(n))), "y", axis=0),
    ]
    return model(f"x: float[{n}]", nodes, f"y: float[{n}]", s=np.ones(n, np.int64))


def outputs(n: int) -> Any:
    nodes = [node("Relu" if i % 2 else "Neg", "x", f"v{i}") for i in range(n)]
    return model("x: float[2]", nodes, ";".join(f"v{i}: float[2]" for i in range(n)))


def initializers(n: int) -> Any:
    nodes = [node("Add", f"{before(i)} w{i}", f"v{i + 1}") for i in range(n)]
    stored = {f"w{i}": np.array([i, 1], "float32") for i in range(n)}
    return model("x: float[2]", nodes, f"v{n}: float[2]", **stored)


def constants(n: int) -> Any:
    nodes = [node("Constant", "", "c0", value_floats=[1.0, 2.0])]
    nodes += [node("Neg", f"c{i}", f"c{i + 1}") for i in range(n)]
    return model("x: float[2]", [*nodes, node("Add", f"x c{n}", "y")], "y: float[2]")


def shapes(n: int) -> Any:
    nodes = [node("Shape", "x", "c0")]
    nodes += [node("Add", f"c{i} one", f"c{i + 1}") for i in range(n)]
    nodes.append(node("Expand", f"w c{n}", "y"))
    return model("x: float[a, b]", nodes, "y: float[c, d]", one=ints(1), w=np.ones((1, 1), "f"))


def branches(n: int) -> Any:
    nodes = [
        node(
            "If",
            "c",
            f"v{i + 1}",
            then_branch=graph("", [node("Neg", before(i), f"a{i}")], f"a{i}: float[2]"),
            else_branch=graph("", [node("Relu", before(i), f"b{i}")], f"b{i}: float[2]"),
        )
        for i in range(n)
    ]
    return model("x: float[2]; c: bool[]", nodes, f"v{n}: float[2]")


def nested_branches(n: int) -> Any:
    inner = leaf = graph("", [node("Relu", "x", "t")], "t: float[2]")
    for level in range(n // 2 - 1):
        other = graph("", [node("Neg", "x", f"e{level}")], f"e{level}: float[2]")
        made = node("If", "c", f"t{level}", then_branch=inner, else_branch=other)
        inner = graph("", [made], f"t{level}: float[2]")
    made = node("If", "c", "y", then_branch=inner, else_branch=leaf)
    return model("x: float[2]; c: bool[]", [made], "y: float[2]")


FAMILIES = {f.__name__: f for f in (
    chain, products, diamonds, wide_join, wide_split, outputs, initializers, constants, shapes,
    branches, nested_branches,
)}  # fmt: skip
SMALL = 24


@pytest.fixture(scope="module", autouse=True)
def _warm():
    """Everything is loaded once."""
    for make in FAMILIES.values():
        mod = mlc.relax.get_pipeline("default")(mlc.from_onnx(make(4)))
        mlc.relax.get_pipeline("lower")(mod)


def texts(mods: list[Any], name: str) -> None:
    """What reads and writes modules."""
    linear(f"well_formed {name}", well_formed, mods)
    linear(f"hash {name}", structural_hash, mods)
    linear(f"equal {name}", lambda m: structural_equal(m, m), mods)
    linear(f"load_json {name}", load_json, linear(f"save_json {name}", save_json, mods))
    scripts = linear(f"script {name}", lambda m: m.script(show_meta=True), mods)
    if not any(m["main"].attrs.get("params") or "metadata" in t for m, t in zip(mods, scripts)):  # noqa: B905
        linear(f"parse {name}", mlc.script.from_source, scripts)


@pytest.mark.parametrize("name", FAMILIES)
def test_all_that_walks_a_model_is_linear(name):
    protos = [FAMILIES[name](SMALL), FAMILIES[name](2 * SMALL)]
    mods = linear("import", mlc.from_onnx, protos)
    texts(mods, "of operators")
    for step in default_pipeline():
        mods = linear(type(step).__name__, step, mods)
    texts(mods, "of calls")
    for step in lower_pipeline():
        mods = linear(type(step).__name__, step, mods)


def test_a_node_of_a_long_chain_costs_few_calls():
    """Inference, checks and names are each paid once a node, what is the same is not done again."""
    few, _ = calls_of(mlc.from_onnx, additions(100))
    many, _ = calls_of(mlc.from_onnx, additions(300))
    assert (many - few) / 200 < 190


def test_branches_nested_as_deep_as_they_may_be():
    """2 kB: each level costs as much as any other."""
    few, mod = calls_of(mlc.from_onnx, nested_branches(24))
    many, _ = calls_of(mlc.from_onnx, nested_branches(48))
    assert many < MOST * few
    x = np.array([-1, 2], "float32")
    ex = mlc.compile(mod)
    np.testing.assert_array_equal(np.asarray(ex(x, np.array(True))), [0, 2])
    np.testing.assert_array_equal(np.asarray(ex(x, np.array(False))), [0, 2])
