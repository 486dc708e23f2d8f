"""Gradients of operators beside those of PyTorch, where there are zeros and ties too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mlcnb.relax import op
from mlcnb.relax.expr import const
from mlcnb.relax.transform import Gradient
from mlcnb.testing import evaluate
from tests.op.gradient_cases import apart, of, positive, whole, with_, zeroed
from tests.op.test_gradients import program

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
F = torch.nn.functional

INDEX = np.array([[2, 0, 2], [1, 1, 1]])
TIES = np.array([[1.0, 1.0, 0.0, 1.0], [0.0, 2.0, 2.0, -1.0]])


def reduced(x: Any, u: Any, how: str) -> Any:
    return x.scatter_reduce(1, torch.tensor(INDEX), u, how)


def conv_cases() -> Any:
    for rank in (1, 2, 3):
        x, w = of(2, 4, *(7, 6, 5)[:rank]), of(6, 2, *(3, 2, 3)[:rank], seed=1)
        given = {"strides": 2, "padding": 1, "dilation": 2, "groups": 2}
        ours = with_(getattr(op.nn, f"conv{rank}d"), **given)
        theirs = with_(getattr(F, f"conv{rank}d"), stride=2, padding=1, dilation=2, groups=2)
        yield f"conv{rank}d", ours, theirs, [x, w]
        w = of(4, 3, *(3, 2, 3)[:rank], seed=1)
        ours = with_(getattr(op.nn, f"conv{rank}d_transpose"), **given, output_padding=1)
        theirs = with_(
            getattr(F, f"conv_transpose{rank}d"),
            stride=2, padding=1, dilation=2, groups=2, output_padding=1,
        )  # fmt: skip
        yield f"conv{rank}d_transpose", ours, theirs, [x, w]


def pool_cases() -> Any:
    for rank in (1, 2, 3):
        x = np.round(of(2, 2, *(7, 6, 5)[:rank]))  # many are equal
        ours = {"pool_size": 3, "strides": 2, "padding": 1}
        theirs = {"kernel_size": 3, "stride": 2, "padding": 1}
        for kind in ("max", "avg"):
            more = {} if kind == "max" else {"count_include_pad": True}
            pool = with_(getattr(op.nn, f"{kind}_pool{rank}d"), **ours, **more)
            yield pool.func.__name__, pool, with_(getattr(F, f"{kind}_pool{rank}d"), **theirs), [x]
        pool = with_(getattr(op.nn, f"adaptive_avg_pool{rank}d"), output_size=(3,) * rank)
        peer = getattr(F, f"adaptive_avg_pool{rank}d")
        yield "adaptive", pool, lambda x, peer=peer, rank=rank: peer(x, (3,) * rank), [x]


def norm_cases() -> Any:
    x, line = of(2, 4, 3, 5), [of(4, seed=1), of(4, seed=2)]
    layer = [of(3, 5, seed=1), of(3, 5, seed=2)]
    yield (
        "layer_norm",
        with_(op.nn.layer_norm, axes=[-2, -1]),
        lambda x, g, b: F.layer_norm(x, (3, 5), g, b),
        [x, *layer],
    )
    yield (
        "group_norm",
        with_(op.nn.group_norm, num_groups=2),
        lambda x, g, b: F.group_norm(x, 2, g, b),
        [x, *line],
    )
    yield (
        "instance_norm",
        op.nn.instance_norm,
        lambda x, g, b: F.instance_norm(x, weight=g, bias=b),
        [x, *line],
    )
    yield (
        "rms_norm",
        with_(op.nn.rms_norm, axes=[-1], epsilon=1e-5),
        lambda x, w: F.rms_norm(x, (5,), w, 1e-5),
        [x, of(5, seed=1)],
    )


def image_cases() -> Any:
    x, grid = of(2, 2, 4, 5), of(2, 2, 3, 2, low=-1.37, high=1.41, seed=1)
    for method, mode in (("linear", "bilinear"), ("cubic", "bicubic")):
        for name, corners in (("half_pixel", False), ("align_corners", True)):
            resize = with_(
                op.image.resize2d,
                size=(7, 3), method=method, coordinate_transformation_mode=name,
            )  # fmt: skip
            peer = with_(F.interpolate, size=(7, 3), mode=mode, align_corners=corners)
            yield f"resize2d {method} {name}", resize, peer, [x]
    for mode in ("nearest", "bilinear", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (False, True):
                ours = with_(
                    op.image.grid_sample, method=mode, padding_mode=padding, align_corners=corners
                )
                peer = with_(F.grid_sample, mode=mode, padding_mode=padding, align_corners=corners)
                yield (
                    f"grid_sample {mode} {padding} {corners}",
                    ours,
                    lambda x, g, peer=peer: peer(x, g.permute(0, 2, 3, 1)),
                    [x, grid],
                )


def other_cases() -> Any:
    zeros = zeroed(of(3, 4), (0, 1), (1, 0), (1, 3))
    yield "prod", with_(op.prod, axis=-1), lambda x: x.prod(-1), [zeros]
    yield "prod of all", op.prod, lambda x: x.prod(), [zeroed(of(2, 3), (1, 1))]
    yield "cumprod", with_(op.cumprod, axis=1), lambda x: x.cumprod(1), [zeros]
    flat = np.concatenate([of(1, 4), np.full((1, 4), 0.5)])
    yield "std", with_(op.std, axis=1), lambda x: x.std(1, correction=0), [flat]
    yield "median", op.median, lambda x: x.median(), [TIES]
    yield (
        "topk", with_(op.topk, k=2, ret_type="values"), lambda x: x.topk(2).values, [apart(3, 5)],
    )  # fmt: skip
    yield "prelu", op.nn.prelu, F.prelu, [zeroed(of(2, 3, 4), (0, 0, 0)), of(3, seed=1)]
    yield "selu", op.nn.selu, F.selu, [zeroed(of(3, 4, low=-40, high=40), (0, 0))]
    yield "gelu_tanh", op.nn.gelu_tanh, with_(F.gelu, approximate="tanh"), [of(3, 4, low=-9)]
    yield "mod", op.mod, torch.fmod, [of(3, 4) * 3, positive(3, 4) + 0.3]
    yield "log_add_exp", op.log_add_exp, torch.logaddexp, [of(3, 4) * 300, of(3, 4, seed=1)]
    for ours, theirs in (("add", "sum"), ("mul", "prod"), ("min", "amin"), ("max", "amax")):
        yield (
            f"scatter {ours}",
            lambda x, u, how=ours: op.scatter_elements(x, const(INDEX), u, 1, how),
            lambda x, u, how=theirs: reduced(x, u, how),
            [TIES, TIES[:, :3].copy()],
        )
    for mode, peer in (("edge", "replicate"), ("reflect", "reflect"), ("wrap", "circular")):
        yield (
            f"pad {mode}",
            with_(op.nn.pad, pad_width=(0, 0, 0, 0, 1, 2), pad_mode=mode),
            lambda x, peer=peer: F.pad(x, (1, 2), peer),
            [of(2, 3, 4)],
        )
    yield (
        "grouped_matmul",
        lambda x, w: op.grouped_matmul(x, w, whole(0, 0, 2, 2)),
        lambda x, w: torch.cat([x[:2] @ w[0], x[2:] @ w[2]]),
        [of(4, 3), of(3, 3, 2, seed=1)],
    )
    yield "slogdet", lambda x: op.linalg.slogdet(x)[1], lambda x: x.slogdet()[1], [of(2, 3, 3)]


CASES = [
    *conv_cases(), *pool_cases(), *norm_cases(), *image_cases(), *other_cases(),
]  # fmt: skip


@pytest.mark.parametrize("name, ours, theirs, given", CASES, ids=[c[0] for c in CASES])
def test_beside_pytorch(
    name: str, ours: Callable[..., Any], theirs: Callable[..., Any], given: list[np.ndarray]
) -> None:
    tensors = [torch.tensor(x, requires_grad=True) for x in given]
    out = theirs(*tensors)
    out.backward(torch.tensor(of(*out.shape, seed=9)))
    _, found = evaluate(Gradient("main")(program(ours, given)), *given, name="main_adjoint")
    for tensor, grad in zip(tensors, found, strict=True):
        np.testing.assert_allclose(grad, tensor.grad.numpy(), rtol=1e-7, atol=1e-9)
