"""ONNX's steps of training: Adagrad, Adam, Momentum (ai.onnx.preview.training), written out.

Inputs are the rate, the number of updates, then of each tensor: values, gradients and states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlcnb.op._spell import Formula
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr

DOMAIN = "ai.onnx.preview.training"


Update = Callable[[Formula, Expr, Expr, Sequence[Expr]], list[Expr]]


def _trains(op_type: str, groups: int) -> Callable[[Update], Update]:
    """Decorator: what a step makes of (rate, count, one tensor of each group), group by group."""

    def keep(update: Update) -> Update:
        @onnx(op_type, domain=DOMAIN)
        def spell(n: OnnxNode, rate: Expr, count: Expr, *rest: Expr) -> list[Expr]:
            many, left = divmod(len(rest), groups)
            if left or not many:
                n.refuse(f"{len(rest)} tensors are not {groups} for each that is trained")
            f = Formula(n, n.dtype(rest[0]))
            steps = f.astype(count, dtype=f.kind)
            given = f.astype(rate, dtype=f.kind)
            made = [update(f, given, steps, rest[i::many]) for i in range(many)]
            return [row[k] for k in range(groups - 1) for row in made]

        spell.__doc__ = update.__doc__
        return update

    return keep


def _attr(f: Formula, name: str, default: float) -> float:
    """An attribute that is a number."""
    return float(f.n.attr(name, default))


def _regular(f: Formula, x: Expr, g: Expr) -> Expr:
    return f.add(f.multiply(x, _attr(f, "norm_coefficient", 0.0)), g)


@_trains("Adagrad", groups=3)
def onnx_adagrad(f: Formula, r: Expr, steps: Expr, tensors: Sequence[Expr]) -> list[Expr]:
    """X - r G / (sqrt(H + G G) + epsilon), where r falls with the number of updates."""
    x, g, h = tensors
    slow = f.add(f.multiply(steps, _attr(f, "decay_factor", 0.0)), 1.0)
    grad = _regular(f, x, g)
    total = f.add(h, f.multiply(grad, grad))
    below = f.add(f.sqrt(total), _attr(f, "epsilon", 1e-6))
    step = f.divide(f.multiply(f.divide(r, slow), grad), below)
    return [f.subtract(x, step), total]


@_trains("Momentum", groups=3)
def onnx_momentum(f: Formula, r: Expr, steps: Expr, tensors: Sequence[Expr]) -> list[Expr]:
    """X - r V, where V = alpha V + beta G; nesterov: X - r (G + alpha V)."""
    x, g, v = tensors
    alpha, beta = f.number(f.n.require("alpha")), f.number(f.n.require("beta"))
    grad = _regular(f, x, g)
    started = f.where(f.greater(steps, 0.0), beta, 1.0)
    new = f.add(f.multiply(alpha, v), f.multiply(started, grad))
    nesterov = f.n.require("mode") == "nesterov"
    by = f.add(grad, f.multiply(alpha, new)) if nesterov else new
    return [f.subtract(x, f.multiply(r, by)), new]


@_trains("Adam", groups=4)
def onnx_adam(f: Formula, r: Expr, steps: Expr, tensors: Sequence[Expr]) -> list[Expr]:
    """X - r V / (sqrt(H) + epsilon), with running means V of gradients and H of their squares."""
    x, g, v, h = tensors
    alpha, beta = _attr(f, "alpha", 0.9), _attr(f, "beta", 0.999)
    grad = _regular(f, x, g)
    mean = f.add(f.multiply(v, alpha), f.multiply(grad, 1 - alpha))
    square = f.multiply(f.multiply(grad, grad), 1 - beta)
    spread = f.add(f.multiply(h, beta), square)
    grown = [f.subtract(1.0, f.power(f.number(b), steps)) for b in (alpha, beta)]
    sound = f.where(f.greater(steps, 0.0), grown[0], 1.0)
    fast = f.divide(f.multiply(r, f.sqrt(grown[1])), sound)
    pace = f.where(f.greater(steps, 0.0), fast, r)
    below = f.add(f.sqrt(spread), _attr(f, "epsilon", 1e-6))
    new = f.subtract(x, f.divide(f.multiply(pace, mean), below))
    kept = f.multiply(new, 1 - _attr(f, "norm_coefficient_post", 0.0))
    return [kept, mean, spread]
