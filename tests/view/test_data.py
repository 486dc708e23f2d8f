"""The same as the views in JSON: figures against the objects, every program has a tree."""

from __future__ import annotations

import json

import pytest

import mlcnb as mlc
from mlcnb.core.errors import MLCError
from mlcnb.view.data import to_data
from tests.view.names import NAMES
from tests.view.samples import everything, matmul, mlp, passes, scheduled


def test_a_graph():
    made = to_data(mlp())
    assert made == {
        "schema": "mlcnb.show/1",
        "kind": "module",
        "functions": [
            {
                "name": "main",
                "kind": "graph",
                "operators": {"matmul": 1, "relu": 1, "add": 1, "softmax": 1},
                "kernels": {},
                "flop": 64 + 8 + 8 + 40,
            }
        ],
        "graph": made["graph"],
    }
    names = {node["id"]: node["name"] for node in made["graph"]["nodes"]}
    assert list(names.values()) == ["x", "matmul", "relu", "add", "softmax", "output"]
    edges = {(names[e["source"]], names[e["target"]]): e["value"] for e in made["graph"]["edges"]}
    assert edges == {
        ("x", "matmul"): "1×4 f32",
        ("matmul", "relu"): "1×8 f32",
        ("relu", "add"): "1×8 f32",
        ("matmul", "add"): "1×8 f32",
        ("add", "softmax"): "1×8 f32",
        ("softmax", "output"): "1×8 f32",
    }


def test_passes():
    run = passes("x")
    steps = to_data(run)["steps"]
    assert [step["name"] for step in steps] == [step.name for step in run.steps]
    assert [step["changed"] for step in steps] == [step.changed for step in run.steps]
    fused = next(step for step in steps if step["name"] == "FuseOps")
    assert fused["operators"] == [6, 6]
    assert fused["temporary_bytes"] == [64, 32]
    assert fused["rules"] == [{"name": "FuseOps.elementwise", "count": 2}]


def test_loops():
    sch = scheduled()
    (function,) = to_data(sch.mod["main"])["functions"]
    assert function["flop"] == 2 * 16 * 32 * 8
    nest, (at,) = [], function["loops"]
    while at["op"] == "for":
        nest.append((at["name"], at["extent"], at["loop"]))
        (at,) = at["body"]
    assert nest == [
        ("i", 16, "serial"),
        ("j_0", 2, "serial"),
        ("k", 8, "serial"),
        ("j_1", 16, "serial"),
    ]
    body = at.pop("body")
    block = {"op": "block", "name": "C", "axes": "SSR", "init": True}
    assert at == {**block, "reads": ["A", "B"], "writes": ["C"]}
    assert body == [{"op": "store", "text": "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"}]


def test_kernels():
    ex = mlc.compile(matmul, target="llvm")
    (kernel,) = to_data(ex)["kernels"]
    (strip,) = ex.kernels[0].facts.values()
    assert kernel["outputs"] == [{"dtype": "float32", "shape": [16, 32]}]
    assert kernel["flop"] == 8192
    assert kernel["object_bytes"] == ex.kernels[0].object_size
    assert kernel["code"][0]["total"]["fma"] == strip.total.fma
    assert to_data(ex.kernels[0])["kernels"] == [kernel]


def test_symbolic_sizes_are_text():
    mod = mlc.script.from_source("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 4))
    B = T.match_buffer(b, (n, 4))
    for i, j in T.grid(n, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
""")
    (function,) = to_data(mod)["functions"]
    assert function["loops"][0]["extent"] == "n"
    assert function["flop"] == "n * 4"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_any_name(name):
    objects = everything(name)
    for what in ("module", "lowered", "loops", "loops in a module", "passes"):
        text = json.dumps(to_data(objects[what]), allow_nan=False)
        assert json.loads(text)["schema"] == "mlcnb.show/1"
        assert text.isascii()


def test_what_has_no_json_is_refused():
    with pytest.raises(MLCError, match="there is no JSON of an int"):
        to_data(3)
