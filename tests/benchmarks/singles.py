"""Single operators that are not products: activations, pools, reductions, copies, interpolation.

    SUITES["pool"]["max 3x3/2, 64x112"] = Single("MaxPool", …)

Each is one ONNX node (SiLU is two, as exporters write it) on inputs that a real network has, with
PyTorch's spelling beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from onnx import helper

from tests.benchmarks.case import Case, model_of, random


@dataclass(frozen=True)
class Single:
    """One operator.

    Attributes:
        op: ONNX's name; of several, joined by a blank, each takes x0 and what the one before gave.
        inputs: shapes of random float32 inputs, or the arrays themselves.
        torch: the same in PyTorch, from torch.nn.functional and the inputs; None: no contestant.
        attributes, weights: of the node; weights follow the inputs, None leaves one out.
        outputs: how many.
        opened: axes of the first input whose sizes the model leaves open.
    """

    op: str
    inputs: list[Any]
    torch: Callable[..., Any] | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    weights: tuple[np.ndarray | None, ...] = ()
    outputs: int = 1
    opset: int = 18
    opened: tuple[int, ...] = ()


def case(suite: str, name: str, single: Single) -> Case:
    """The case of one operator."""
    arrays = tuple(
        x if isinstance(x, np.ndarray) else random(*x, seed=n) for n, x in enumerate(single.inputs)
    )
    inputs = {f"x{n}": x for n, x in enumerate(arrays)}
    weights = {f"w{n}": w for n, w in enumerate(single.weights) if w is not None}
    names = [*inputs, *("" if w is None else f"w{n}" for n, w in enumerate(single.weights))]
    outputs = [f"y{n}" for n in range(single.outputs)]
    first, *rest = single.op.split()
    nodes = [
        helper.make_node(first, names, ["t"] if rest else outputs, **single.attributes),
        *(helper.make_node(op, ["x0", "t"], outputs) for op in rest),
    ]
    shapes: dict[str, Any] = {n: list(x.shape) for n, x in inputs.items()}
    for axis in single.opened:
        shapes["x0"][axis] = f"d{axis}"
    model = model_of(
        nodes,
        shapes,
        outputs,
        weights,
        single.opset,
        {n: x.dtype for n, x in inputs.items()},
    )
    return Case(suite, name, model, arrays, torch=None if single.torch is None else _bound(single))


def cases(suite: str, quick: bool = False) -> Iterator[Case]:
    """The cases of one of SUITES."""
    for name in list(SUITES[suite])[:2] if quick else SUITES[suite]:
        yield case(suite, name, SUITES[suite][name])


def _bound(single: Single) -> Any:
    def bound(*xs: Any) -> Callable[[], Any]:
        import torch

        assert single.torch is not None
        return partial(single.torch, torch.nn.functional, *xs)

    return bound


def _torch() -> Any:
    import torch

    return torch


def _indices(count: Any, most: int) -> np.ndarray:
    return np.random.default_rng(5).integers(0, most, count)


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _window(op: str, size: int, stride: int, pad: int, **more: Any) -> dict[str, Any]:
    return {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [pad] * 4, **more}


def _resize(shape: Any, to: Any, mode: str, torch_mode: str, **attributes: Any) -> Single:
    """Interpolation of the last two axes, half-pixel centres."""
    sizes = _ints(*shape[:2], *to)
    more = {} if mode == "nearest" else {"align_corners": False}
    if mode == "nearest":
        attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    if mode == "cubic":
        attributes = {"cubic_coeff_a": -0.75}
    return Single(
        "Resize",
        [shape],
        lambda f, x: f.interpolate(x, to, mode=torch_mode, **more),
        {"mode": mode, **attributes},
        (None, None, sizes),
    )


FFN, IMAGE, WORDS = (128, 3072), (1, 64, 56, 56), (8, 128, 384)

ACTIVATIONS = {
    "relu, 128x3072": Single("Relu", [FFN], lambda f, x: f.relu(x)),
    "sigmoid, 128x3072": Single("Sigmoid", [FFN], lambda f, x: x.sigmoid()),
    "tanh, 128x3072": Single("Tanh", [FFN], lambda f, x: x.tanh()),
    "erf, 128x3072": Single("Erf", [FFN], lambda f, x: x.erf()),
    "gelu, 128x3072": Single("Gelu", [FFN], lambda f, x: f.gelu(x), opset=20),
    "silu, 128x3072": Single("Sigmoid Mul", [FFN], lambda f, x: f.silu(x)),
    "exp, 128x3072": Single("Exp", [FFN], lambda f, x: x.exp()),
    "log, 128x3072": Single("Log", [1 + abs(random(*FFN))], lambda f, x: x.log()),
    "softplus, 128x3072": Single("Softplus", [FFN], lambda f, x: f.softplus(x)),
    "hard swish, 128x3072": Single("HardSwish", [FFN], lambda f, x: f.hardswish(x)),
    "elu, 128x3072": Single("Elu", [FFN], lambda f, x: f.elu(x)),
    "sqrt, 128x3072": Single("Sqrt", [abs(random(*FFN))], lambda f, x: x.sqrt()),
    "add, 256x56": Single("Add", [(1, 256, 56, 56)] * 2, lambda f, x, y: x + y),
    "add a bias, 256x56": Single("Add", [(1, 256, 56, 56), (1, 256, 1, 1)], lambda f, x, y: x + y),
    "log softmax, 128x384": Single(
        "LogSoftmax", [(128, 384)], lambda f, x: x.log_softmax(-1), {"axis": -1}
    ),
    "softmax over channels, 21x65x65": Single(
        "Softmax", [(1, 21, 65, 65)], lambda f, x: x.softmax(1), {"axis": 1}
    ),
}

POOLS = {
    "max 3x3/2, 64x112": Single(
        "MaxPool", [(1, 64, 112, 112)], lambda f, x: f.max_pool2d(x, 3, 2, 1), _window("", 3, 2, 1)
    ),
    "max 2x2/2, 64x112": Single(
        "MaxPool", [(1, 64, 112, 112)], lambda f, x: f.max_pool2d(x, 2, 2), _window("", 2, 2, 0)
    ),
    "max 3x3, 192x28": Single(
        "MaxPool", [(1, 192, 28, 28)], lambda f, x: f.max_pool2d(x, 3, 1, 1), _window("", 3, 1, 1)
    ),
    "max 5x5, 256x20": Single(
        "MaxPool", [(1, 256, 20, 20)], lambda f, x: f.max_pool2d(x, 5, 1, 2), _window("", 5, 1, 2)
    ),
    "average 3x3, 256x28": Single(
        "AveragePool",
        [(1, 256, 28, 28)],
        lambda f, x: f.avg_pool2d(x, 3, 1, 1),
        _window("", 3, 1, 1, count_include_pad=1),
    ),
    "average 2x2/2, 128x56": Single(
        "AveragePool", [(1, 128, 56, 56)], lambda f, x: f.avg_pool2d(x, 2, 2), _window("", 2, 2, 0)
    ),
    "average 3x3/2, border not counted, 64x57": Single(
        "AveragePool",
        [(1, 64, 57, 57)],
        lambda f, x: f.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        _window("", 3, 2, 1),
    ),
    "global average, 2048x7": Single(
        "GlobalAveragePool", [(1, 2048, 7, 7)], lambda f, x: f.adaptive_avg_pool2d(x, 1)
    ),
    "global max, 512x14": Single(
        "GlobalMaxPool", [(1, 512, 14, 14)], lambda f, x: f.adaptive_max_pool2d(x, 1)
    ),
}


def _reduce(op: str, shape: Any, axes: list[int], torch: Any) -> Single:
    return Single(op, [shape], torch, {"keepdims": 0}, (_ints(*axes),))


REDUCTIONS = {
    "mean of rows, 4096x1024": _reduce("ReduceMean", (4096, 1024), [1], lambda f, x: x.mean(1)),
    "sum of rows, 1024x256": Single(
        "ReduceSum", [(1024, 256)], lambda f, x: x.sum(1), {"keepdims": 0}, (_ints(1),)
    ),
    "sum of columns, 1024x1024": Single(
        "ReduceSum", [(1024, 1024)], lambda f, x: x.sum(0), {"keepdims": 0}, (_ints(0),)
    ),
    "mean over tokens, 8x128x384": _reduce("ReduceMean", WORDS, [1], lambda f, x: x.mean(1)),
    "max of rows, 1024x256": _reduce("ReduceMax", (1024, 256), [1], lambda f, x: x.amax(1)),
    "max of columns, 1024x256": _reduce("ReduceMax", (1024, 256), [0], lambda f, x: x.amax(0)),
    "mean of all, 1024x1024": _reduce("ReduceMean", (1024, 1024), [0, 1], lambda f, x: x.mean()),
    "mean over images, 64x56": _reduce("ReduceMean", IMAGE, [2, 3], lambda f, x: x.mean((2, 3))),
    "norm of rows, 1024x256": _reduce("ReduceL2", (1024, 256), [1], lambda f, x: x.norm(dim=1)),
    "argmax of rows, 128x1000": Single(
        "ArgMax", [(128, 1000)], lambda f, x: x.argmax(1), {"axis": 1, "keepdims": 0}
    ),
    "argmax over channels, 21x65x65": Single(
        "ArgMax", [(1, 21, 65, 65)], lambda f, x: x.argmax(1), {"axis": 1, "keepdims": 0}
    ),
    "cumulative sum of rows, 128x1024": Single(
        "CumSum", [(128, 1024)], lambda f, x: x.cumsum(1), {}, (np.array(1),)
    ),
    "cumulative sum of columns, 128x1024": Single(
        "CumSum", [(128, 1024)], lambda f, x: x.cumsum(0), {}, (np.array(0),)
    ),
    "top 5 of 64x1000": Single(
        "TopK", [(64, 1000)], lambda f, x: x.topk(5, 1), {"axis": 1}, (_ints(5),), 2
    ),
    "top 100 of 8x8400": Single(
        "TopK", [(8, 8400)], lambda f, x: x.topk(100, 1), {"axis": 1}, (_ints(100),), 2
    ),
}

RESIZES = {
    "nearest x 2, 64x56": _resize(IMAGE, (112, 112), "nearest", "nearest"),
    "nearest to 75, 64x56": _resize(IMAGE, (75, 75), "nearest", "nearest"),
    "linear x 2, 64x56": _resize(IMAGE, (112, 112), "linear", "bilinear"),
    "linear to 224, 3x500x375": _resize((1, 3, 500, 375), (224, 224), "linear", "bilinear"),
    "linear to 513, 21x65": _resize((1, 21, 65, 65), (513, 513), "linear", "bilinear"),
    "cubic x 2, 3x112": _resize((1, 3, 112, 112), (224, 224), "cubic", "bicubic"),
    "depth to space, 64x56": Single(
        "DepthToSpace",
        [IMAGE],
        lambda f, x: f.pixel_shuffle(x, 2),
        {"blocksize": 2, "mode": "CRD"},
    ),
}

PICKS = {
    "rows of a table, 128 of 30522x384": Single(
        "Gather",
        [(30522, 384), _indices(128, 30522)],
        lambda f, x, i: f.embedding(i, x),
    ),
    "rows, 4096 of 1024x64": Single(
        "Gather", [(1024, 64), _indices(4096, 1024)], lambda f, x, i: x[i]
    ),
    "columns, 256 of 512x1024": Single(
        "Gather", [(512, 1024), _indices(256, 1024)], lambda f, x, i: x[:, i], {"axis": 1}
    ),
    "elements of rows, 512x256 of 512x1024": Single(
        "GatherElements",
        [(512, 1024), _indices((512, 256), 1024)],
        lambda f, x, i: x.gather(1, i),
        {"axis": 1},
    ),
    "places, 4096 of 64x64x32": Single(
        "GatherND",
        [(64, 64, 32), _indices((4096, 2), 64)],
        lambda f, x, i: x[i[:, 0], i[:, 1]],
    ),
    "rows added up, 1024 into 1024x64": Single(
        "ScatterND",
        [(1024, 64), _indices((1024, 1), 1024), (1024, 64)],
        lambda f, x, i, u: x.index_add(0, i[:, 0], u),
        {"reduction": "add"},
    ),
    "one hot, 1024 of 1000": Single(
        "OneHot",
        [_indices(1024, 1000)],
        lambda f, i: f.one_hot(i, 1000).float(),
        {},
        (np.array(1000), np.array([0, 1], np.float32)),
    ),
    "where, 128x3072": Single(
        "Where",
        [_indices(FFN, 2) > 0, FFN, FFN],
        lambda f, c, x, y: _torch().where(c, x, y),
    ),
}


def _turn(shape: Any, perm: list[int]) -> Single:
    return Single("Transpose", [shape], lambda f, x: x.permute(perm).contiguous(), {"perm": perm})


MOVES = {
    "heads apart, 128x12x32": _turn((1, 128, 12, 32), [0, 2, 1, 3]),
    "heads turned, 12x128x32": _turn((1, 12, 128, 32), [0, 1, 3, 2]),
    "transpose, 512x512": _turn((512, 512), [1, 0]),
    "transpose, 2048x2048": _turn((2048, 2048), [1, 0]),
    "NCHW to NHWC, 64x56": _turn(IMAGE, [0, 2, 3, 1]),
    "NHWC to NCHW, 56x64": _turn((1, 56, 56, 64), [0, 3, 1, 2]),
    "NHWC to NCHW, 224x3": _turn((1, 224, 224, 3), [0, 3, 1, 2]),
    "NCHW to NHWC, 3x224": _turn((1, 3, 224, 224), [0, 2, 3, 1]),
    "channels shuffled, 2x58x28": _turn((1, 2, 58, 28, 28), [0, 2, 1, 3, 4]),
    "axes reversed, 32x48x64": _turn((32, 48, 64), [2, 1, 0]),
    "concat of channels, 4 of 64x28": Single(
        "Concat", [(1, 64, 28, 28)] * 4, lambda f, *xs: _torch().cat(xs, 1), {"axis": 1}
    ),
    "concat of rows, 2 of 512x384": Single(
        "Concat", [(512, 384)] * 2, lambda f, *xs: _torch().cat(xs, 1), {"axis": 1}
    ),
    "split in 3, 128x1152": Single(
        "Split",
        [(128, 1152)],
        lambda f, x: [p.contiguous() for p in x.split(384, 1)],
        {"axis": 1},
        (_ints(384, 384, 384),),
        3,
    ),
    "slice, 64x54 of 64x56": Single(
        "Slice",
        [IMAGE],
        lambda f, x: x[:, :, 1:-1, 1:-1].contiguous(),
        {},
        (_ints(1, 1), _ints(-1, -1), _ints(2, 3)),
    ),
    "every second, 64x28 of 64x56": Single(
        "Slice",
        [IMAGE],
        lambda f, x: x[:, :, ::2, ::2].contiguous(),
        {},
        (_ints(0, 0), _ints(56, 56), _ints(2, 3), _ints(2, 2)),
    ),
    "pad by 1, 64x56": Single(
        "Pad", [IMAGE], lambda f, x: f.pad(x, [1] * 4), {}, (_ints(0, 0, 1, 1, 0, 0, 1, 1),)
    ),
    "pad by reflection, 64x56": Single(
        "Pad",
        [IMAGE],
        lambda f, x: f.pad(x, [1] * 4, mode="reflect"),
        {"mode": "reflect"},
        (_ints(0, 0, 1, 1, 0, 0, 1, 1),),
    ),
    "expand, 384 to 512x384": Single(
        "Expand", [(1, 384)], lambda f, x: x.expand(512, 384).contiguous(), {}, (_ints(512, 384),)
    ),
    "tile x 2 both ways, 256x256": Single(
        "Tile", [(256, 256)], lambda f, x: x.repeat(2, 2), {}, (_ints(2, 2),)
    ),
    "cast to int, 128x3072": Single("Cast", [FFN], lambda f, x: x.int(), {"to": 6}),
}


def _transposed(shape: Any, outer: int, size: int, stride: int, pad: int, more: int = 0) -> Single:
    """A transposed convolution of images."""
    weight = random(shape[1], outer, size, size, seed=8, scale=0.05)
    attributes = _window("", size, stride, pad, output_padding=[more] * 2)
    return Single(
        "ConvTranspose",
        [shape],
        lambda f, x: f.conv_transpose2d(
            x, _torch().from_numpy(weight), None, stride, pad, output_padding=more
        ),
        attributes,
        (weight,),
    )


TRANSPOSED = {
    "2x2/2, 128x64 -> 64": _transposed((1, 128, 64, 64), 64, 2, 2, 0),
    "2x2/2, 64x128 -> 32": _transposed((1, 64, 128, 128), 32, 2, 2, 0),
    "4x4/2, 256x8 -> 128": _transposed((1, 256, 8, 8), 128, 4, 2, 1),
    "4x4/2, 64x32 -> 3": _transposed((1, 64, 32, 32), 3, 4, 2, 1),
    "3x3/2, 128x64 -> 64": _transposed((1, 128, 64, 64), 64, 3, 2, 1, 1),
    "3x3, 64x56 -> 64": _transposed((1, 64, 56, 56), 64, 3, 1, 1),
}


def _grouped(shape: Any, outer: int, groups: int, stride: int = 1) -> Single:
    """A convolution of 3 x 3 windows in groups."""
    weight = random(outer, shape[1] // groups, 3, 3, seed=8, scale=0.05)
    return Single(
        "Conv",
        [shape],
        lambda f, x: f.conv2d(x, _torch().from_numpy(weight), None, stride, 1, groups=groups),
        _window("", 3, stride, 1, group=groups),
        (weight,),
    )


def _solid(shape: Any, outer: int, size: Any, stride: Any, pad: Any, groups: int = 1) -> Single:
    """A convolution over three dimensions."""
    weight = random(outer, shape[1] // groups, *size, seed=8, scale=0.05)
    return Single(
        "Conv",
        [shape],
        lambda f, x: f.conv3d(x, _torch().from_numpy(weight), None, stride, pad, groups=groups),
        {"kernel_shape": size, "strides": stride, "pads": [*pad, *pad], "group": groups},
        (weight,),
    )


def _sampled(channels: int, mode: str) -> Single:
    """An image read at places that a tensor gives."""
    grid = np.random.default_rng(3).uniform(-1, 1, (1, 56, 56, 2)).astype(np.float32)
    return Single(
        "GridSample",
        [(1, channels, 56, 56), grid],
        lambda f, x, g: f.grid_sample(x, g, mode={"cubic": "bicubic"}.get(mode, "bilinear")),
        {"mode": mode},
        opset=20,
    )


WINDOWS = {
    "8 groups of 8, 56": _grouped((1, 64, 56, 56), 64, 8),
    "32 groups of 4, 56": _grouped((1, 128, 56, 56), 128, 32),
    "32 groups of 8, 56/2": _grouped((1, 256, 56, 56), 256, 32, 2),
    "10 groups of 24, 28": _grouped((1, 240, 28, 28), 240, 10),
    "3x3x3, 16x16x28 -> 32": _solid((1, 16, 16, 28, 28), 32, [3] * 3, [1] * 3, [1] * 3),
    "3x7x7/2, 3x8x56 -> 64": _solid((1, 3, 8, 56, 56), 64, [3, 7, 7], [1, 2, 2], [1, 3, 3]),
    "each channel 3x3x3, 32x8x28": _solid((1, 32, 8, 28, 28), 32, [3] * 3, [1] * 3, [1] * 3, 32),
    "max 3x3x3, 32x8x28": Single(
        "MaxPool",
        [(1, 32, 8, 28, 28)],
        lambda f, x: f.max_pool3d(x, 3, 1, 1),
        {"kernel_shape": [3] * 3, "pads": [1] * 6},
    ),
    "linear at places, 64x56": _sampled(64, "linear"),
    "linear at places, 3x56": _sampled(3, "linear"),
    "cubic at places, 64x56": _sampled(64, "cubic"),
    "columns to an image, 64x56": Single(
        "Col2Im",
        [(1, 576, 3136)],
        lambda f, x: f.fold(x, (56, 56), 3, padding=1),
        {"pads": [1] * 4},
        (_ints(56, 56), _ints(3, 3)),
    ),
}

_FILTERS = random(64, 64, 3, 3, seed=8, scale=0.05)


def _opened(single: Single, *axes: int) -> Single:
    return replace(single, opened=axes)


def _scaled(shape: Any, mode: str, torch_mode: str) -> Single:
    """Images of any size made twice as large both ways."""
    single = _resize(shape, (2 * shape[2], 2 * shape[3]), mode, torch_mode)
    return replace(single, weights=(None, np.array([1, 1, 2, 2], np.float32)), opened=(0, 2, 3))


OPEN = {
    "3x3, no border, 64x28 -> 64": Single(
        "Conv",
        [(1, 64, 28, 28)],
        lambda f, x: f.conv2d(x, _torch().from_numpy(_FILTERS)),
        _window("", 3, 1, 0),
        (_FILTERS,),
        opened=(0, 2, 3),
    ),
    "transposed 2x2/2, 128x64 -> 64": _opened(TRANSPOSED["2x2/2, 128x64 -> 64"], 0, 2, 3),
    "transposed 4x4/2, 256x8 -> 128": _opened(TRANSPOSED["4x4/2, 256x8 -> 128"], 0, 2, 3),
    "global average, 2048x7": _opened(POOLS["global average, 2048x7"], 0, 2, 3),
    "mean over images, 64x56": _opened(REDUCTIONS["mean over images, 64x56"], 0, 2, 3),
    "max of rows, 1024x256": _opened(REDUCTIONS["max of rows, 1024x256"], 0, 1),
    "softmax, 128x384": Single(
        "Softmax", [(128, 384)], lambda f, x: x.softmax(-1), {"axis": -1}, opened=(0, 1)
    ),
    "log softmax, 128x384": _opened(ACTIVATIONS["log softmax, 128x384"], 0, 1),
    "max 3x3/2, 64x112": _opened(POOLS["max 3x3/2, 64x112"], 0, 2, 3),
    "NCHW to NHWC, 64x56": _opened(MOVES["NCHW to NHWC, 64x56"], 0, 2, 3),
    "pad by reflection, 64x56": _opened(MOVES["pad by reflection, 64x56"], 0, 2, 3),
    "tile x 2 both ways, 256x256": _opened(MOVES["tile x 2 both ways, 256x256"], 0, 1),
    "transpose, 512x512": _opened(MOVES["transpose, 512x512"], 0, 1),
    "nearest x 2, 64x56": _scaled(IMAGE, "nearest", "nearest"),
    "linear x 2, 64x56": _scaled(IMAGE, "linear", "bilinear"),
    "top 5 of 64x1000": _opened(REDUCTIONS["top 5 of 64x1000"], 0, 1),
}

SUITES: dict[str, dict[str, Single]] = {
    "elementwise": ACTIVATIONS,
    "pool": POOLS,
    "reduce": REDUCTIONS,
    "resize": RESIZES,
    "pick": PICKS,
    "movement": MOVES,
    "transposed": TRANSPOSED,
    "windows": WINDOWS,
    "open": OPEN,
}
