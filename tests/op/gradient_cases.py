"""Cases of gradients: windows, norms, scans, places, images, products by letters.

operator -> [(its call, the tensors that it is differentiated by)]; `test_gradients` compares them
with differences, and some of them stand beside PyTorch there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mlcnb.relax import op
from mlcnb.relax.expr import PrimValue, const
from tests.op.harness import numbers

Cases = dict[str, list[tuple[Callable[..., Any], list[np.ndarray]]]]


def of(*shape: int, low: float = -2, high: float = 2, seed: int = 0) -> np.ndarray:
    return numbers(shape, "float64", seed, low, high)


def positive(*shape: int) -> np.ndarray:
    return of(*shape, low=0.5, high=2, seed=3)


def apart(*shape: int, seed: int = 5) -> np.ndarray:
    """Numbers none of which are nearer than 0.1 to each other: their order is no question."""
    order = np.random.default_rng(seed).permutation(int(np.prod(shape)))
    return (order.reshape(shape) - order.size / 2) * 0.1 + 0.03


def zeroed(x: np.ndarray, *places: Any) -> np.ndarray:
    """x with 0 at places."""
    x = x.copy()
    for place in places:
        x[place] = 0
    return x


def whole(*rows: Any) -> Any:
    return const(np.array(rows, dtype="int64"))


def with_(call: Callable[..., Any], **attrs: Any) -> Callable[..., Any]:
    return partial(call, **attrs)


def field(call: Callable[..., Any], number: int, **attrs: Any) -> Callable[..., Any]:
    """One result of a call that gives several."""
    return lambda *x: call(*x, **attrs)[number]


ACTIVATIONS: Cases = {
    "nn.relu6": [(op.nn.relu6, [of(3, 4, low=-3, high=9)])],
    "nn.selu": [(op.nn.selu, [of(3, 4)])],
    "nn.gelu_tanh": [(op.nn.gelu_tanh, [of(3, 4)])],
    "nn.prelu": [
        (op.nn.prelu, [of(2, 3, 4), of(3, seed=1)]),
        (with_(op.nn.prelu, axis=-1), [of(2, 3), of(1, seed=1)]),
        (with_(op.nn.prelu, axis=0), [of(3), of(3, seed=1)]),
    ],
    "nn.dropout": [(field(op.nn.dropout, 0), [of(2, 3)])],
    "atan2": [(op.atan2, [of(2, 3), of(3, seed=1)]), (op.atan2, [of(2, 1), positive(4, 1, 3)])],
    "log_add_exp": [(op.log_add_exp, [of(2, 3), of(3, seed=1)])],
    "mod": [(op.mod, [of(2, 3) * 2, positive(3) + 0.3])],
    "ewise_fma": [(op.ewise_fma, [of(2, 3), of(2, 3, seed=1), of(2, 3, seed=2)])],
    "outer": [(op.outer, [of(3), of(4, seed=1)])],
}

NORMS: Cases = {
    "nn.layer_norm": [
        (with_(op.nn.layer_norm, axes=-1), [of(3, 4), of(4, seed=1), of(4, seed=2)]),
        (
            with_(op.nn.layer_norm, axes=[1, 2], epsilon=0.1),
            [of(2, 3, 4), of(3, 4, seed=1), of(3, 4, seed=2)],
        ),
        (
            with_(op.nn.layer_norm, axes=[-1, 0]),
            [of(2, 3, 4), of(4, 2, seed=1), of(4, 2, seed=2)],
        ),
        (
            with_(op.nn.layer_norm, axes=[-1], center=False, scale=False),
            [of(3, 4), of(4, seed=1), of(4, seed=2)],
        ),
    ],
    "nn.group_norm": [
        (
            with_(op.nn.group_norm, num_groups=2, channel_axis=1, axes=[2, 3]),
            [of(2, 4, 2, 3), of(4, seed=1), of(4, seed=2)],
        ),
        (
            with_(op.nn.group_norm, num_groups=3, channel_axis=-1, axes=[1]),
            [of(2, 2, 6), of(6, seed=1), of(6, seed=2)],
        ),
    ],
    "nn.instance_norm": [
        (
            with_(op.nn.instance_norm, channel_axis=1, axes=[2, 3]),
            [of(2, 3, 2, 3), of(3, seed=1), of(3, seed=2)],
        ),
        (
            with_(op.nn.instance_norm, channel_axis=-1, axes=[1], scale=False),
            [of(2, 4, 3), of(3, seed=1), of(3, seed=2)],
        ),
    ],
    "nn.rms_norm": [
        (with_(op.nn.rms_norm, axes=-1), [of(3, 4), of(4, seed=1)]),
        (with_(op.nn.rms_norm, axes=[0, -1], epsilon=0.1), [of(2, 3, 4), of(2, 4, seed=1)]),
    ],
    "std": [
        (op.std, [of(2, 3)]),
        (with_(op.std, axis=[0, -1]), [of(2, 3, 4)]),
        (with_(op.std, axis=1, keepdims=True), [of(2, 3)]),
    ],
}

SCANS: Cases = {
    "cumsum": [
        (with_(op.cumsum, axis=1), [of(2, 3)]),
        (op.cumsum, [of(2, 3)]),
        (with_(op.cumsum, axis=-2, exclusive=True), [of(2, 3, 2)]),
        (with_(op.cumsum, exclusive=True), [of(2, 3)]),
    ],
    "cumprod": [
        (with_(op.cumprod, axis=1), [of(2, 5)]),
        (with_(op.cumprod, axis=-1), [zeroed(of(3, 5), (0, 0), (1, 2), (1, 4), (2, 3))]),
        (op.cumprod, [zeroed(of(2, 3), (1, 0))]),
        (with_(op.cumprod, axis=0, exclusive=True), [zeroed(of(4, 3), (0, 0), (2, 1), (3, 2))]),
        (with_(op.cumprod, exclusive=True), [of(2, 3)]),
    ],
    "prod": [
        (op.prod, [of(2, 3)]),
        (with_(op.prod, axis=-1), [zeroed(of(3, 4), (0, 1), (1, 0), (1, 3))]),
        (with_(op.prod, axis=[0, -1], keepdims=True), [zeroed(of(2, 3, 2), (0, 1, 1))]),
        (with_(op.prod, axis=[2, 0]), [of(2, 3, 2)]),
        (with_(op.prod, keepdims=True), [zeroed(of(2, 2), (0, 0))]),
    ],
    "sort": [
        (with_(op.sort, axis=-1), [apart(3, 4)]),
        (with_(op.sort, axis=0, descending=True), [apart(3, 4)]),
    ],
    "topk": [
        (with_(op.topk, k=2, axis=1, ret_type="values"), [apart(3, 5)]),
        (field(op.topk, 0, k=2, axis=0, largest=False), [apart(4, 3)]),
        (field(op.topk, 0, k=3, axis=-1, dtype="int64"), [apart(2, 2, 5)]),
    ],
    "median": [
        (op.median, [apart(2, 3)]),
        (field(op.median, 0, axis=-1), [apart(2, 3)]),
        (field(op.median, 0, axis=[0], keepdims=True), [apart(4, 3)]),
    ],
}

TWICE = whole([0, 0], [2, 1], [2, 1])
ROWS = whole([[1, 0], [1, 0]], [[0, 2], [1, 1]])
PLACES = whole([2, 0, 2], [1, -1, 1], [1, 0, 0])


def _scatter(reduction: str) -> Callable[..., Any]:
    return lambda x, u: op.scatter_elements(x, PLACES, u, axis=1, reduction=reduction)


def _scatter_nd(reduction: str) -> Callable[..., Any]:
    return lambda x, u: op.scatter_nd(x, ROWS, u, reduction=reduction)


def _grid(x: Any, y: Any) -> Any:
    both = op.meshgrid((x, y))
    return op.multiply(both[0], op.sin(both[1]))


REDUCTIONS = ("update", "add", "mul", "min", "max")
PLACED: Cases = {
    "scatter_elements": [
        *((_scatter(how), [apart(3, 4), apart(3, 3, seed=6) * 1.7]) for how in REDUCTIONS),
        (_scatter("mul"), [of(3, 4), zeroed(of(3, 3, seed=1), (0, 0), (1, 0), (1, 2), (2, 0))]),
        (
            lambda x, u: op.scatter_elements(x, whole([1, 0]), u, axis=-2),
            [of(3, 4), of(1, 2, seed=1)],
        ),
    ],
    "scatter_nd": [
        *((_scatter_nd(how), [apart(2, 3, 2), apart(2, 2, 2, seed=6) * 1.7]) for how in REDUCTIONS),
        (lambda x, u: op.scatter_nd(x, whole([-1], [0]), u), [of(3, 2), of(2, 2, seed=1)]),
    ],
    "index_put": [
        (
            lambda x, u: op.index_put(x, (whole(0, 2, 0), whole(1, 1, 1)), u),
            [of(3, 2, 2), of(3, 2, seed=1)],
        ),
        (
            lambda x, u: op.index_put(x, (whole([0], [2]), whole(1, 0, 1)), u, accumulate=True),
            [of(3, 2), of(3, seed=1)],
        ),
        (lambda x, u: op.index_put(x, (whole(0, -1),), u), [of(3, 2), of(seed=1)]),
    ],
    "slice_scatter": [
        (
            lambda x, u: op.slice_scatter(x, u, PrimValue(1), PrimValue(4), PrimValue(2), axis=-1),
            [of(2, 5), of(2, 2, seed=1)],
        )
    ],
    "gather_nd": [
        (lambda x: op.gather_nd(x, TWICE), [of(3, 2, 2)]),
        (lambda x: op.gather_nd(x, whole([1], [-1])), [of(3, 2)]),
        (lambda x: op.gather_nd(x, whole([[1], [1]], [[0], [2]]), batch_dims=1), [of(2, 3, 2)]),
    ],
    "index_tensor": [
        (lambda x: op.index_tensor(x, (whole([0], [2]), whole(1, 1))), [of(3, 2, 2)]),
        (lambda x: op.index_tensor(x, (whole(0, -1, 0),)), [of(3, 2)]),
    ],
    "reverse_sequence": [
        (lambda x: op.reverse_sequence(x, whole(2, 3), seq_axis=0, batch_axis=1), [of(3, 2, 2)])
    ],
    "meshgrid": [
        (
            lambda x, y: op.multiply(op.meshgrid((x, y))[0], op.meshgrid((x, y))[1]),
            [of(2), of(3, seed=1)],
        ),
        (lambda x, y: op.meshgrid((x, y), indexing="xy")[0], [of(2), of(3, seed=1)]),
    ],
    "nn.pad": [
        (with_(op.nn.pad, pad_width=(1, 2, 0, 1), pad_value=3.0), [of(2, 3)]),
        (with_(op.nn.pad, pad_width=(1, -1, -2, 1)), [of(3, 4)]),
        *(
            (with_(op.nn.pad, pad_width=(0, 0, 2, 1, -1, 3), pad_mode=mode), [of(2, 3, 5)])
            for mode in ("edge", "reflect", "wrap")
        ),
    ],
    "nn.pixel_shuffle": [(with_(op.nn.pixel_shuffle, upscale_factor=2), [of(2, 8, 2, 3)])],
    "collapse_sum_like": [
        (lambda x: op.collapse_sum_like(x, const(np.ones((2, 1)))), [of(4, 2, 3)])
    ],
}

IMAGES: Cases = {
    "image.resize2d": [
        *(
            (
                with_(
                    op.image.resize2d,
                    size=(5, 7),
                    method=method,
                    coordinate_transformation_mode=mode,
                ),
                [of(1, 2, 3, 4)],
            )
            for method in ("nearest_neighbor", "linear", "cubic")
            for mode in ("half_pixel", "align_corners", "asymmetric")
        ),
        (with_(op.image.resize2d, size=(2, 3), layout="NHWC"), [of(1, 5, 4, 2)]),
        (with_(op.image.resize2d, size=(40, 1)), [of(1, 1, 2, 3)]),
    ],
    "image.resize3d": [(with_(op.image.resize3d, size=(3, 2, 4)), [of(1, 2, 2, 3, 2)])],
    "nn.adaptive_avg_pool1d": [(with_(op.nn.adaptive_avg_pool1d, output_size=3), [of(2, 2, 7)])],
    "nn.adaptive_avg_pool2d": [
        (with_(op.nn.adaptive_avg_pool2d, output_size=(3, 1)), [of(1, 2, 5, 4)]),
        (
            with_(op.nn.adaptive_avg_pool2d, output_size=(2, 5), layout="NHWC", out_layout="NCHW"),
            [of(1, 5, 4, 2)],
        ),
    ],
    "nn.adaptive_avg_pool3d": [
        (with_(op.nn.adaptive_avg_pool3d, output_size=(1, 2, 2)), [of(1, 2, 2, 3, 4)])
    ],
    "image.affine_grid": [
        (with_(op.image.affine_grid, size=(2, 3)), [of(2, 2, 3)]),
        (with_(op.image.affine_grid, size=(2, 1, 3), align_corners=False), [of(1, 3, 4)]),
    ],
    "image.grid_sample": [
        *(
            (
                with_(op.image.grid_sample, method=m, padding_mode=p, align_corners=c),
                [of(2, 2, 3, 4), of(2, 2, 3, 2, low=-1.37, high=1.41, seed=1)],
            )
            for m in ("nearest", "bilinear", "bicubic")
            for p in ("zeros", "border", "reflection")
            for c in (False, True)
        ),
        (
            with_(op.image.grid_sample, layout="NCDHW", align_corners=False),
            [of(1, 2, 2, 3, 2), of(1, 3, 2, 2, 2, low=-1.2, high=1.2, seed=1)],
        ),
    ],
}


def _einsum(text: str) -> Callable[..., Any]:
    return lambda *x: op.einsum(x, text)


PRODUCTS: Cases = {
    "einsum": [
        (_einsum("ij,jk->ik"), [of(2, 3), of(3, 4, seed=1)]),
        (_einsum("...ij,...j->...i"), [of(2, 1, 3, 4), of(5, 4, seed=1)]),
        (_einsum("ij,k->"), [of(2, 3), of(4, seed=1)]),
        (_einsum("bi,bj,bk->ijk"), [of(2, 3), of(2, 2, seed=1), of(2, 2, seed=2)]),
        (_einsum("ijk->kj"), [of(2, 3, 4)]),
    ],
    "grouped_matmul": [
        (lambda x, w: op.grouped_matmul(x, w, whole(0, 0, 2, 3, 1)), [of(5, 3), of(3, 3, 2)])
    ],
    "linalg.solve": [(op.linalg.solve, [of(2, 3, 3) + 4 * np.eye(3), of(2, 3, 2, seed=1)])],
    "linalg.det": [(op.linalg.det, [of(2, 3, 3)])],
    "linalg.slogdet": [(field(op.linalg.slogdet, 1), [of(2, 3, 3)])],
}

#: strides, padding, dilation, groups of convolutions, for each number of dimensions
CONVS = [
    (with_(op.nn.conv1d, padding=1), [of(2, 3, 6), of(4, 3, 3, seed=1)]),
    (with_(op.nn.conv1d, strides=2, padding=(2, 0), dilation=2), [of(2, 2, 9), of(3, 2, 3)]),
    (with_(op.nn.conv1d, strides=3, groups=2), [of(2, 4, 8), of(4, 2, 2, seed=1)]),
    (
        with_(op.nn.conv3d, strides=(1, 2, 1), padding=(0, 1, 1, 1, 0, 0), dilation=(1, 1, 2)),
        [of(1, 2, 3, 4, 4), of(2, 2, 2, 3, 2, seed=1)],
    ),
    (with_(op.nn.conv3d, groups=2), [of(2, 2, 2, 3, 2), of(4, 1, 1, 2, 2, seed=1)]),
]
TRANSPOSED = [
    (op.nn.conv1d_transpose, [of(2, 3, 4), of(3, 2, 3, seed=1)]),
    (
        with_(op.nn.conv1d_transpose, strides=3, padding=(1, 0), output_padding=2, groups=2),
        [of(2, 4, 3), of(4, 1, 4, seed=1)],
    ),
    (
        with_(op.nn.conv1d_transpose, strides=2, padding=(0, 2), dilation=3, output_padding=1),
        [of(2, 2, 3), of(2, 3, 2, seed=1)],
    ),
    (with_(op.nn.conv2d_transpose, padding=1), [of(1, 2, 3, 4), of(2, 3, 3, 3, seed=1)]),
    (
        with_(
            op.nn.conv2d_transpose,
            strides=(2, 3),
            padding=(1, 0, 0, 1),
            output_padding=(1, 2),
            dilation=(1, 2),
            groups=2,
        ),
        [of(2, 4, 3, 2), of(4, 2, 3, 2, seed=1)],
    ),
    (
        with_(op.nn.conv3d_transpose, strides=(1, 2, 1), output_padding=(0, 1, 0)),
        [of(1, 2, 2, 2, 3), of(2, 2, 2, 1, 2, seed=1)],
    ),
]
WINDOWS: Cases = {
    **{f"nn.conv{r}d": [c for c in CONVS if c[1][0].ndim == r + 2] for r in (1, 3)},
    **{
        f"nn.conv{r}d_transpose": [c for c in TRANSPOSED if c[1][0].ndim == r + 2]
        for r in (1, 2, 3)
    },
    "nn.max_pool1d": [
        (with_(op.nn.max_pool1d, pool_size=3, strides=2, padding=(1, 0)), [apart(2, 2, 7)]),
        (
            with_(op.nn.max_pool1d, pool_size=2, strides=2, dilation=2, ceil_mode=True),
            [apart(1, 2, 8)],
        ),
    ],
    "nn.max_pool3d": [
        (
            with_(op.nn.max_pool3d, pool_size=(2, 1, 2), strides=(1, 2, 2), padding=(1, 0, 0) * 2),
            [apart(1, 2, 3, 3, 4)],
        )
    ],
    "nn.avg_pool1d": [
        (with_(op.nn.avg_pool1d, pool_size=3, strides=2, padding=1), [of(2, 2, 7)]),
        (
            with_(op.nn.avg_pool1d, pool_size=3, padding=1, count_include_pad=True, layout="NWC"),
            [of(1, 5, 2)],
        ),
    ],
    "nn.avg_pool3d": [
        (
            with_(op.nn.avg_pool3d, pool_size=2, strides=(1, 2, 1), padding=(0, 1, 0) * 2),
            [of(1, 2, 3, 3, 2)],
        )
    ],
    "nn.max_pool_indices": [
        (field(op.nn.max_pool_indices, 0, pool_size=(2, 3), strides=1), [apart(2, 2, 4, 5)]),
        (field(op.nn.max_pool_indices, 0, pool_size=(2,), strides=2), [apart(1, 2, 5)]),
    ],
}

MORE: Cases = ACTIVATIONS | NORMS | SCANS | PLACED | IMAGES | PRODUCTS | WINDOWS
