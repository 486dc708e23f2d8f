"""What the ends and the joints of networks are made of: few columns, one query, loops, lines.

heads       products of few columns (classes, boxes), of a sequence before its batch
queries     attention of one query over many keys, as a language model makes tokens
loops       a Loop whose turns add rows, a Scan
lines       Resize of one dimension
open        convolutions and products of an open batch
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from onnx import helper

from tests.benchmarks.case import Case, model_of, random

node = helper.make_node


def cases(quick: bool = False) -> Iterator[Case]:
    """All of them."""
    made = _all()
    return (case for n, case in enumerate(made) if n < 2 or not quick)


def _all() -> Iterator[Case]:
    for rows, columns in (((2048, 128), 1), ((2048, 128), 4), ((256, 768), 2), ((2048, 128), 33)):
        yield _linear(f"{rows[0]}x{rows[1]} -> {columns}", rows, columns)
    for rows, columns in (((196, 1, 128), 256), ((32, 1, 512), 512), ((196, 2, 128), 256)):
        yield _linear(f"sequence first, {'x'.join(map(str, rows))} -> {columns}", rows, columns)
    yield _linear("rows of an image, 56x56x96 -> 384", (1, 56, 56, 96), 384)
    yield _linear("sequence first, open batch, 32x1x512 -> 512", (32, 1, 512), 512, opened=(1,))
    for heads, keys, dim in ((12, 512, 64), (8, 512, 128), (12, 2048, 64)):
        yield _one_query(heads, keys, dim)
    yield _one_query(12, 512, 64, opened=True)
    yield _convolution()
    yield _accumulating(100)
    yield _scanning(100)
    yield _line("linear", 500, 1000)
    yield _line("nearest", 500, 1000)


def _linear(name: str, rows: Any, columns: int, opened: tuple[int, ...] = ()) -> Case:
    weight, bias = random(rows[-1], columns, seed=1), random(columns, seed=2)
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["y"])]
    shape = [f"d{a}" if a in opened else n for a, n in enumerate(rows)]
    model = model_of(nodes, {"x": shape}, "y", {"w": weight, "b": bias})

    def torch(x: Any) -> Callable[[], Any]:
        import torch

        w, b = torch.from_numpy(weight.T.copy()), torch.from_numpy(bias)
        return lambda: torch.nn.functional.linear(x, w, b)

    return Case("heads", name, model, (random(*rows),), torch=torch)


def _one_query(heads: int, keys: int, dim: int, opened: bool = False) -> Case:
    """softmax(q k^T / sqrt(dim)) v."""
    nodes = [
        node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "t"], ["s"]),
        node("Mul", ["s", "c"], ["m"]),
        node("Softmax", ["m"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["y"]),
    ]
    one, many = [1, heads, 1, dim], [1, heads, "keys" if opened else keys, dim]
    factor = np.array(dim**-0.5, np.float32)
    model = model_of(nodes, {"q": one, "k": many, "v": many}, "y", {"c": factor})
    shapes = (1, heads, 1, dim), (1, heads, keys, dim), (1, heads, keys, dim)
    name = f"one query, {heads}x{dim}, {keys} keys{', open' if opened else ''}"

    def torch(q: Any, k: Any, v: Any) -> Callable[[], Any]:
        import torch

        return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)

    inputs = tuple(random(*s, seed=n) for n, s in enumerate(shapes))
    return Case("heads", name, model, inputs, torch=torch)


def _convolution() -> Case:
    weight = random(64, 64, 3, 3, seed=1, scale=0.05)
    model = model_of(
        [node("Conv", ["x", "w"], ["y"], pads=[1] * 4)],
        {"x": ["batch", 64, 56, 56]},
        "y",
        {"w": weight},
    )

    def torch(x: Any) -> Callable[[], Any]:
        import torch

        w = torch.from_numpy(weight)
        return lambda: torch.nn.functional.conv2d(x, w, padding=1)

    name = "3x3, open batch, 64x56 -> 64"
    return Case("heads", name, model, (random(1, 64, 56, 56),), torch=torch)


def _body(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Any:
    def value(name: str, kind: int, shape: Any) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    return helper.make_graph(
        nodes, "body", [value(*v) for v in inputs], [value(*v) for v in outputs]
    )


def _accumulating(turns: int) -> Case:
    """x added to itself, turn by turn, and the square of each sum."""
    body = _body(
        [
            node("Add", ["a", "x"], ["b"]),
            node("Mul", ["b", "b"], ["r"]),
            node("Identity", ["c"], ["d"]),
        ],
        [("i", 7, []), ("c", 9, []), ("a", 1, [4, 16])],
        [("d", 9, []), ("b", 1, [4, 16]), ("r", 1, [4, 16])],
    )
    loop = node("Loop", ["n", "", "x"], ["y", "rows"], body=body)
    dtypes = {"n": np.dtype("int64")}
    model = model_of([loop], {"x": [4, 16], "n": []}, ["y", "rows"], dtypes=dtypes)
    _told(model, [4, 16], [None, 4, 16])
    return Case("heads", f"loop of {turns} turns", model, (random(4, 16), np.array(turns)))


def _scanning(turns: int) -> Case:
    """Running sums of the slices of an open axis, and their squares."""
    body = _body(
        [node("Add", ["s", "p"], ["t"]), node("Mul", ["t", "t"], ["r"])],
        [("s", 1, [16]), ("p", 1, [16])],
        [("t", 1, [16]), ("r", 1, [16])],
    )
    scan = node("Scan", ["s", "x"], ["y", "rows"], body=body, num_scan_inputs=1)
    model = model_of([scan], {"s": [16], "x": ["turns", 16]}, ["y", "rows"])
    _told(model, [16], ["turns", 16])
    return Case(
        "heads", f"scan of an open axis, {turns}", model, (random(16), random(turns, 16, seed=1))
    )


def _told(model: Any, *shapes: list[Any]) -> None:
    """The shapes of the outputs, which inference does not find."""
    pairs = zip(("y", "rows"), shapes, strict=True)
    del model.graph.output[:]
    model.graph.output.extend(helper.make_tensor_value_info(n, 1, s) for n, s in pairs)


def _line(mode: str, length: int, wanted: int) -> Case:
    sizes = np.array([1, 32, wanted])
    resize = node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode)
    model = model_of([resize], {"x": [1, 32, length]}, "y", {"sizes": sizes}, opset=18)

    def torch(x: Any) -> Callable[[], Any]:
        import torch

        return lambda: torch.nn.functional.interpolate(x, wanted, mode=mode)

    return Case("heads", f"{mode}, line of {length} -> {wanted}", model, (random(1, 32, length),),
                torch=torch if mode == "linear" else None)  # fmt: skip
