"""Sizes that fill no vector, axes that do not lie together, channels that fill no block.

What a rule was made for is a round size; a model has others. Each case is one ONNX node of a kind
some of whose shapes once took longer than ONNX Runtime's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.benchmarks.case import Case, random
from tests.benchmarks.singles import Single, case

#: a shape, and something of its axes
Shaped = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
#: channels, size, window, stride and padding of pools
POOLS = ((192, 28, 3, 1, 1), (64, 31, 3, 2, 1), (256, 20, 5, 1, 2), (480, 14, 3, 1, 1),
         (832, 7, 3, 1, 1), (64, 55, 3, 2, 0), (31, 33, 7, 1, 3))  # fmt: skip
#: shapes and axes of reductions
REDUCED: Shaped = (((4, 33, 50, 50), (1,)), ((100, 37, 50), (1,)), ((7, 1000, 33), (1,)),
           ((17, 19, 23, 29), (1, 3)), ((63, 65, 67), (0, 2)), ((10_000, 3), (1,)),
           ((2, 10, 20, 30), (0, 2)))  # fmt: skip
#: shapes and orders of axes
TURNED: Shaped = (((1, 3, 223, 223), (0, 2, 3, 1)), ((1, 223, 223, 3), (0, 3, 1, 2)),
          ((1, 223, 223, 4), (0, 3, 1, 2)), ((33, 65, 19), (0, 2, 1)),
          ((2, 17, 5, 6, 7), (0, 3, 1, 4, 2)))  # fmt: skip
#: shapes and how often they are repeated
TILED: Shaped = (
    ((100, 100), (3, 3)),
    ((33, 17), (7, 9)),
    ((7, 9, 33), (2, 3, 1)),
    ((17, 5), (3, 50)),
)
#: channels, size, filters, window, stride
CONVOLVED = ((33, 27, 65, 3, 1), (17, 27, 33, 3, 1), (18, 52, 18, 3, 1), (36, 26, 36, 3, 1),
             (10, 33, 20, 3, 1), (65, 30, 65, 1, 1), (33, 100, 33, 1, 1), (130, 14, 130, 3, 1),
             (5, 9, 5, 3, 1), (512, 9, 1, 3, 1), (3, 100, 7, 5, 2))  # fmt: skip
#: channels, size, filters, window and stride of transposed convolutions
TRANSPOSED = ((64, 13, 32, 3, 2), (32, 20, 3, 4, 2), (16, 33, 16, 2, 2))
#: rows, depth, columns
PRODUCTS = ((3, 77, 33), (50, 33, 77), (197, 192, 576), (64, 64, 10), (17, 4096, 17), (5, 5, 5))
#: channels, size, filters, groups and zero point of the weights of quantised 3 x 3 windows
QUANTIZED = ((40, 20, 40, 4, 128), (128, 28, 128, 32, 128), (64, 28, 64, 1, 130))
#: channels, size and block of shuffled pixels
SHUFFLED = ((64, 33, 2), (64, 14, 4), (27, 19, 3))
#: rows, length and how many of the first
FIRST = ((1000, 10, 3), (1000, 64, 20))
#: equations, and the shapes of both operands
SUMS = (
    ("bhid,bhjd->bhij", (1, 12, 77, 64), (1, 12, 80, 64)),
    ("abcd,cde->abe", (3, 10, 5, 7), (5, 7, 33)),
    ("ij,kj->ik", (100, 77), (55, 77)),
)


def cases(quick: bool = False) -> Iterator[Case]:
    """All of them, or the first pools."""
    for number, (name, single) in enumerate(_singles()):
        if not quick or number < 2:
            yield case("odd", name, single)


def _singles() -> Iterator[tuple[str, Single]]:
    for c, n, window, stride, pad in POOLS:
        how = {"kernel_shape": [window] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        for name, op in (("max", "MaxPool"), ("average", "AveragePool")):
            told = f"{name} {window}x{window}{f'/{stride}' if stride > 1 else ''}, {c}x{n}"
            yield told, Single(op, [(1, c, n, n)], attributes=how)
            if window == 3 and name == "max":
                yield f"{told}, open size", Single(op, [(1, c, n, n)], None, how, opened=(2, 3))
    for shape, axes in REDUCED:
        for op in ("Sum", "Max", "SumSquare"):
            yield (
                f"{op.lower()} over {_told(axes)} of {_told(shape)}",
                Single(f"Reduce{op}", [shape], None, {"keepdims": 0}, (np.array(axes),)),
            )
    for shape, axes in TURNED:
        name = f"axes {_told(axes)} of {_told(shape)}"
        yield name, Single("Transpose", [shape], None, {"perm": axes})
    for shape, often in TILED:
        yield (
            f"{_told(shape)}, {_told(often)} times",
            Single("Tile", [shape], weights=(np.array(often),)),
        )
    for rows in ((1000, 10), (100, 17), (33, 33)):
        for op in ("Softmax", "LogSoftmax"):
            yield f"{op.lower()}, {_told(rows)}", Single(op, [rows])
    yield (
        "sums so far, middle axis of 20x100x33",
        Single("CumSum", [(20, 100, 33)], weights=(np.array(1),)),
    )
    for c, n, o, window, stride in CONVOLVED:
        how = {"pads": [window // 2] * 4, "strides": [stride] * 2}
        name = f"{window}x{window}{f'/{stride}' if stride > 1 else ''}, {c}x{n} -> {o}"
        yield name, _of_weights("Conv", (1, c, n, n), (o, c, window, window), how)
    for c, n, o, window, stride in TRANSPOSED:
        name = f"transposed {window}x{window}/{stride}, {c}x{n} -> {o}"
        how = {"strides": [stride] * 2}
        yield name, _of_weights("ConvTranspose", (1, c, n, n), (c, o, window, window), how)
    for m, k, n in PRODUCTS:
        yield f"{m}x{k}x{n}", _of_weights("MatMul", (m, k), (k, n), {})
        yield f"{m}x{k}x{n}, both given", Single("MatMul", [(m, k), (k, n)])
    for equation, a, b in SUMS:
        yield equation, Single("Einsum", [a, b], None, {"equation": equation})
    for c, n, block in SHUFFLED:
        how = {"blocksize": block}
        yield (
            f"depth to space by {block}, {c}x{n}",
            Single("DepthToSpace", [(1, c, n, n)], None, how),
        )
    for rows, length, k in FIRST:
        name = f"top {k} of {rows}x{length}"
        yield name, Single("TopK", [(rows, length)], weights=(np.array([k]),), outputs=2)
    yield from _narrow()


def _narrow() -> Iterator[tuple[str, Single]]:
    """Bytes and halves."""
    for m, k, n in ((77, 96, 384), (16, 1023, 333)):
        a, b = _bytes(m, k), _bytes(k, n).view(np.int8)
        yield f"{m}x{k}x{n} of bytes, both given", Single("MatMulInteger", [a, b])
        yield f"{m}x{k}x{n} of bytes", Single("MatMulInteger", [a], weights=(b,))
    for c, n, o, groups, zero in QUANTIZED:
        name = f"bytes 3x3, {c}x{n} -> {o} in {groups} groups, around {zero}"
        scales = np.float32([0.02, 0.01, 0.5])
        weights = (scales[0], np.uint8(120), _bytes(o, c // groups, 3, 3), scales[1])
        rest = (np.uint8(zero), scales[2], np.uint8(110))
        how = {"pads": [1] * 4, "group": groups}
        made = tuple(map(np.asarray, (*weights, *rest)))
        yield name, Single("QLinearConv", [_bytes(1, c, n, n)], None, how, made)
    x = random(33, 65, 19).astype(np.float16)
    yield "softmax of halves, 33x65x19", Single("Softmax", [x])
    yield "max of halves, 33x65x19", Single("ReduceMax", [x], weights=(np.array([-1]),))
    how = {"kernel_shape": [3, 3], "strides": [2, 2]}
    pooled = random(1, 64, 28, 28).astype(np.float16)
    yield "max 3x3/2 of halves, 64x28", Single("MaxPool", [pooled], None, how)


def _bytes(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, shape).astype(np.uint8)


def _of_weights(op: str, x: Any, w: Any, how: dict[str, Any]) -> Single:
    return Single(op, [x], None, how, (random(*w, seed=7) / np.float32(10),))


def _told(numbers: Any) -> str:
    return "x".join(map(str, numbers))
