"""Backward operators against PyTorch's automatic gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb.op.grad import nll_loss, pool, take
from tests.op.harness import Case, numbers

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
F = torch.nn.functional


def check(op: Any, forward: Any, given: np.ndarray, *rest: Any) -> None:
    """The meaning and the loops of a backward operator are what torch says of `forward(given)`."""
    x = torch.tensor(given, requires_grad=True)
    out = forward(x)
    grad = numbers(tuple(out.shape), "float32", 7)
    out.backward(torch.tensor(grad))
    case = Case(op, [grad, given, *rest], 1e-5)
    (found,) = case.expected()
    np.testing.assert_allclose(found, x.grad.numpy(), rtol=1e-5, atol=1e-5)
    case.check(case.run_loops())


WINDOWS = st.tuples(*[st.integers(1, 3)] * 4, st.booleans())


@settings(max_examples=15, deadline=None)
@given(WINDOWS, st.integers(0, 99))
def test_max_pool2d(window: Any, seed: int) -> None:
    kh, kw, stride, dilation, ceil = window
    pad = (kh // 2, kw // 2)
    x = numbers((1, 2, 7, 8), "float32", seed)
    op = pool.MaxPool2dBackward((kh, kw), stride, (*pad, *pad), dilation, ceil)
    check(op, lambda t: F.max_pool2d(t, (kh, kw), stride, pad, dilation, ceil), x)


@settings(max_examples=15, deadline=None)
@given(WINDOWS, st.booleans())
def test_avg_pool2d(window: Any, include: bool) -> None:
    kh, kw, stride, _, ceil = window
    pad = (kh // 2, kw // 2)
    x = numbers((2, 1, 7, 6), "float32")
    op = pool.AvgPool2dBackward(
        (kh, kw), stride, (*pad, *pad), ceil_mode=ceil, count_include_pad=include
    )
    check(op, lambda t: F.avg_pool2d(t, (kh, kw), stride, pad, ceil, include), x)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_nll_loss(reduction: str, weighted: bool) -> None:
    x, weights = numbers((4, 3, 2), "float32"), numbers((3,), "float32", 1, 0.5, 2)
    targets = np.array([[0, 2], [1, 1], [2, 0], [1, 2]], "int64")
    given = torch.tensor(weights) if weighted else None
    check(
        nll_loss.NllLossBackward(reduction, 1),
        lambda t: F.nll_loss(t, torch.tensor(targets), given, reduction=reduction, ignore_index=1),
        x,
        targets,
        weights if weighted else None,
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take(axis: int) -> None:
    x, indices = numbers((3, 4, 3), "float32"), np.array([2, 0, 2, 1], "int64")
    op = take.TakeBackward(axis)
    check(op, lambda t: torch.index_select(t, axis, torch.tensor(indices)), x, indices)
