"""Loop functions as a person writes them, in plain layouts, by the default schedules.

convolutions    NCHW and NHWC, of one, two and three dimensions: ResNet-50's and VGG's, few channels
any size        some of them for any number of images of any height and width; the peers know them
contractions    einsums that are no product of matrices as they lie
two sums        a product, a maximum and a product in one function

The peers get the same operands, none of them constant: nobody packs weights beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from onnx import helper

from mlcnb import te, tir
from tests.benchmarks.case import Case, model_of, random

node = helper.make_node

#: name -> images, channels, size (two of them: rows and columns), channels of the result, window,
#: stride, padding
CONVOLUTIONS: Mapping[str, tuple[int, int, Any, int, int, int, int]] = {
    "3x3, 64x56 -> 64": (1, 64, (56, 56), 64, 3, 1, 1),
    "3x3/2, 128x56 -> 128": (1, 128, (56, 56), 128, 3, 2, 1),
    "3x3, 512x7 -> 512": (1, 512, (7, 7), 512, 3, 1, 1),
    "1x1, 256x14 -> 1024": (1, 256, (14, 14), 1024, 1, 1, 0),
    "7x7/2, 3x224 -> 64": (1, 3, (224, 224), 64, 7, 2, 3),
    "3x3, 64x224 -> 64": (1, 64, (224, 224), 64, 3, 1, 1),
    "3x3, 8 images, 32x14 -> 32": (8, 32, (14, 14), 32, 3, 1, 0),
    "3x3, 30x28 -> 50": (1, 30, (28, 28), 50, 3, 1, 0),
    "5, 4 rows, 64x256 -> 64": (4, 64, (256,), 64, 5, 1, 2),
    "3x3x3, 16x8x28 -> 32": (1, 16, (8, 28, 28), 32, 3, 1, 0),
}
OPEN = ("3x3, 64x56 -> 64", "3x3, 512x7 -> 512", "5, 4 rows, 64x256 -> 64")
CONTRACTIONS: Mapping[str, tuple[Sequence[int], Sequence[int]]] = {
    "bqhd,bkhd->bhqk": ((1, 128, 8, 64), (1, 128, 8, 64)),
    "bhqk,bkhd->bqhd": ((1, 8, 128, 128), (1, 128, 8, 64)),
    "abc,cbd->ad": ((64, 32, 32), (32, 32, 64)),
    "aib,ijc->abjc": ((16, 64, 16), (64, 16, 16)),
    "kab,kcb->bac": ((1024, 16, 8), (1024, 16, 8)),
}


def cases(quick: bool = False) -> Iterator[Case]:
    """All of them."""
    for n, (name, given) in enumerate(CONVOLUTIONS.items()):
        if n < 1 or not quick:
            yield _convolution(name, *given)
    for name in OPEN:
        yield _convolution(f"{name}, any size", *CONVOLUTIONS[name], is_open=True)
    yield _channels_last("3x3, 56x64 -> 64, channels last", 64, 56, 64)
    for n, (spec, shapes) in enumerate(CONTRACTIONS.items()):
        if n < 1 or not quick:
            yield _contraction(spec, *shapes)
    yield _two_products(128, 256, 512, 64)


def _convolution(
    name: str, images: Any, channels: int, size: Sequence[Any], outer: int, window: int,
    stride: int, padding: int, is_open: bool = False,
) -> Case:  # fmt: skip
    rank = len(size)
    places = [(n + 2 * padding - window) // stride + 1 for n in size]
    given = {"pads": [padding] * 2 * rank, "strides": [stride] * rank}
    nodes = [node("Conv", ["x", "w"], ["y"], kernel_shape=[window] * rank, **given)]
    image, kernel = (images, channels, *size), (outer, channels, *[window] * rank)
    model = model_of(nodes, {"x": image, "w": kernel}, "y", {})

    inputs = random(*image), random(*kernel, seed=1)
    if is_open:
        images, size = te.var("n"), [te.var(name) for name in "hwd"[:rank]]
        places = [(n + 2 * padding - window) // stride + 1 for n in size]
    X = te.placeholder((images, channels, *size), name="X")
    W = te.placeholder(kernel, name="W")
    c = te.reduce_axis((0, channels), "c")
    taps = [te.reduce_axis((0, window), name) for name in "rqs"[:rank]]
    padded = X
    if padding:

        def element(n: Any, f: Any, *at: Any) -> Any:
            both = ((i >= padding, i < s + padding) for i, s in zip(at, size, strict=True))
            inside = te.all(*(test for pair in both for test in pair))
            return te.if_then_else(inside, X(n, f, *(i - padding for i in at)), 0.0)

        wide = [n + 2 * padding for n in size]
        padded = te.compute((images, channels, *wide), element, name="X_pad")

    def summed(n: Any, f: Any, *at: Any) -> Any:
        moved = [i * stride + t for i, t in zip(at, taps, strict=True)]
        return te.sum(padded(n, c, *moved) * W(f, c, *taps), axis=[c, *taps])

    Y = te.compute((images, outer, *places), summed, name="Y")
    loops = te.create_prim_func([X, W, Y])

    def torch(x: Any, w: Any) -> Callable[[], Any]:
        import torch

        run = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)
        return lambda: run[rank - 1](x, w, stride=stride, padding=padding)

    return Case("written", name, model, inputs, torch=torch, loops=loops)


def _channels_last(name: str, channels: int, size: int, outer: int) -> Case:
    """NHWC and a window of 3 x 3; the peers' operators turn what they need."""
    image, kernel = (1, size + 2, size + 2, channels), (3, 3, channels, outer)
    nodes = [
        node("Transpose", ["x"], ["x1"], perm=[0, 3, 1, 2]),
        node("Transpose", ["w"], ["w1"], perm=[3, 2, 0, 1]),
        node("Conv", ["x1", "w1"], ["y1"]),
        node("Transpose", ["y1"], ["y"], perm=[0, 2, 3, 1]),
    ]
    model = model_of(nodes, {"x": image, "w": kernel}, "y", {})
    X, W = te.placeholder(image, name="X"), te.placeholder(kernel, name="W")
    r, q, c = (te.reduce_axis((0, n), a) for n, a in ((3, "r"), (3, "q"), (channels, "c")))
    Y = te.compute(
        (1, size, size, outer),
        lambda n, y, x, f: te.sum(X(n, y + r, x + q, c) * W(r, q, c, f), axis=[r, q, c]),
        name="Y",
    )

    def torch(x: Any, w: Any) -> Callable[[], Any]:
        import torch

        last = x.permute(0, 3, 1, 2)  # the layout that torch calls channels_last
        weights = w.permute(3, 2, 0, 1)
        return lambda: torch.nn.functional.conv2d(last, weights).permute(0, 2, 3, 1)

    inputs = random(*image), random(*kernel, seed=1)
    loops = te.create_prim_func([X, W, Y])
    return Case("written", name, model, inputs, torch=torch, loops=loops)


def _contraction(spec: str, left: Sequence[int], right: Sequence[int]) -> Case:
    model = model_of(
        [node("Einsum", ["a", "b"], ["y"], equation=spec)], {"a": left, "b": right}, "y", {}
    )
    names, out = spec.split("->")[0].split(","), spec.split("->")[1]
    sizes = dict(zip("".join(names), (*left, *right), strict=True))
    A, B = (te.placeholder(s, name=n) for s, n in ((left, "A"), (right, "B")))
    summed = {c: te.reduce_axis((0, sizes[c]), c) for c in sizes if c not in out}

    def element(*index: Any) -> Any:
        at = dict(zip(out, index, strict=True)) | summed
        a, b = (x(*(at[c] for c in letters)) for x, letters in zip((A, B), names, strict=True))
        return te.sum(a * b, axis=list(summed.values()))

    loops = te.create_prim_func([A, B, te.compute([sizes[c] for c in out], element, name="C")])

    def torch(a: Any, b: Any) -> Callable[[], Any]:
        import torch

        return lambda: torch.einsum(spec, a, b)

    inputs = random(*left), random(*right, seed=1)
    return Case("written", spec, model, inputs, torch=torch, loops=loops)


def _two_products(rows: int, depth: int, between: int, columns: int) -> Case:
    """max(A V, 0) W in one function."""
    nodes = [
        node("MatMul", ["a", "v"], ["c"]),
        node("Relu", ["c"], ["r"]),
        node("MatMul", ["r", "w"], ["y"]),
    ]
    shapes = {"a": (rows, depth), "v": (depth, between), "w": (between, columns)}
    model = model_of(nodes, shapes, "y", {})
    A, V, W = (te.placeholder(s, name=n.upper()) for n, s in shapes.items())
    k, j = te.reduce_axis((0, depth), "k"), te.reduce_axis((0, between), "j")
    C = te.compute((rows, between), lambda m, n: te.sum(A[m, k] * V[k, n], axis=[k]), name="C")
    R = te.compute((rows, between), lambda m, n: tir.max(C[m, n], 0.0), name="R")
    Y = te.compute((rows, columns), lambda m, n: te.sum(R[m, j] * W[j, n], axis=[j]), name="Y")

    def torch(a: Any, v: Any, w: Any) -> Callable[[], Any]:
        import torch

        return lambda: torch.relu(a @ v) @ w

    inputs = tuple(random(*s, seed=n) for n, s in enumerate(shapes.values()))
    name = f"{rows}x{depth}x{between}, maximum, x{columns}"
    loops = te.create_prim_func([A, V, W, Y])
    return Case("written", name, model, inputs, torch=torch, loops=loops)
