"""Cases of backward operators and marks."""

from __future__ import annotations

import numpy as np

from mlcnb.op import memory
from mlcnb.op.grad import marks, nll_loss, pool, take
from tests.op.harness import Case, numbers

MODULES = tuple(f"mlcnb.op.grad.{name}" for name in ("marks", "nll_loss", "pool", "take"))
RTOL = {"float32": 1e-5, "float16": 4e-3}
POOLS = [
    {"pool_size": (2, 2), "strides": (2, 2)},
    {"pool_size": (3, 2), "strides": (1, 2), "padding": (1, 0, 1, 1)},
    {"pool_size": (2, 2), "strides": (2, 3), "dilation": (2, 1), "ceil_mode": True},
    {"pool_size": (3, 3), "padding": (1, 1, 1, 1), "strides": (2, 2), "ceil_mode": True},
]


def _marks():
    for made in (marks.NoGrad(), marks.StartCheckpoint(), marks.EndCheckpoint()):
        yield Case(made, [numbers((2, 3))])
    yield Case(marks.NoGrad(), [numbers((0, 3), "int64")])
    yield Case(memory.EnsureZeroOffset(), [numbers((2, 3), "int8")])


def _pools():
    for kind in ("float32", "float16"):
        for attrs in POOLS:
            for decl in (pool.MaxPool2dBackward, pool.AvgPool2dBackward):
                yield _pool(decl(**attrs), (2, 3, 5, 6), kind)
    padded = pool.AvgPool2dBackward((3, 3), (2, 2), (1, 1, 1, 1), count_include_pad=True)
    yield _pool(padded, (1, 2, 5, 5))
    for decl in (pool.MaxPool2dBackward, pool.AvgPool2dBackward):
        yield _pool(decl((2, 3), layout="NHWC"), (1, 4, 5, 2))
        yield _pool(decl((2, 2), layout="NCHW4c"), (1, 2, 3, 4, 4))
    for made in (pool.MaxPool1dBackward, pool.AvgPool1dBackward):
        yield _pool(made((3,), (2,), (1, 0), ceil_mode=True), (2, 3, 8))
        yield _pool(made(2, layout="NWC"), (1, 5, 2), "float16")
    for made in (pool.MaxPool3dBackward, pool.AvgPool3dBackward):
        yield _pool(made((2, 1, 3), (1, 2, 2), (1, 0, 1, 0, 0, 1)), (2, 2, 3, 3, 4))
        yield _pool(made(2, dilation=(1, 2, 1)), (1, 2, 2, 4, 3), "float16")
    ties = np.zeros((1, 1, 3, 3), "float32")
    ties[0, 0, 2, 1] = np.nan
    yield Case(pool.MaxPool2dBackward((2, 2)), [numbers((1, 1, 2, 2), seed=3), ties], note="ties")


def _pool(op, shape, kind="float32"):
    data = numbers(shape, kind)
    grad = numbers(op.forward.numpy(data).shape, kind, 1)
    return Case(op, [grad, data], RTOL[kind])


def _losses():
    targets = np.array([[4, 0], [1, 2], [2, 4]], "int64")
    for kind in ("float32", "float16"):
        for reduction in ("mean", "sum", "none"):
            made = nll_loss.NllLossBackward(reduction, 2)
            grad = numbers((3, 2) if reduction == "none" else (), kind, 2)
            x, weights = numbers((3, 5, 2), kind), numbers((5,), kind, 1, 0.5, 2)
            for given in (weights, None):
                yield Case(made, [grad, x, targets, given], RTOL[kind], note=reduction)
    single = [numbers((), seed=1), numbers((5,)), np.array(3), None]
    yield Case(nll_loss.NllLossBackward("sum"), single, 1e-5)


def _takes():
    twice = np.array([[1, 1], [0, 2]], "int64")
    for kind in ("float32", "float16"):
        args = [numbers((3, 2, 2, 2), kind), numbers((3, 4, 2), kind), twice]
        yield Case(take.TakeBackward(1), args, RTOL[kind])
    one = [numbers((3,)), numbers((4,)), np.array([3, 3, 0], "int32")]
    yield Case(take.TakeBackward(), one, 1e-5)
    none = [numbers((0, 2)), numbers((4, 2)), np.zeros((0,), "int32")]
    yield Case(take.TakeBackward(0), none)


CASES = [case for family in (_marks, _pools, _losses, _takes) for case in family()]
