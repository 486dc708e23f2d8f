"""ONNX's steps of training: Adagrad, Adam, Momentum (ai.onnx.preview.training), written out.

Inputs are the rate, the number of updates, then of each tensor: values, gradients and states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlcnb.op._spell import call
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const

DOMAIN = "ai.onnx.preview.training"


class Terms:
    """Arithmetic on tensors of a node; numbers become constants of the tensors' dtype."""

    def __init__(self, n: OnnxNode, kind: str) -> None:
        self.n, self.kind = n, kind

    def __call__(self, op: str, *args: Any) -> Expr:
        """A call of relax.`op`, bound."""
        given = [self.number(a) if isinstance(a, int | float) else a for a in args]
        return self.n.emit(call(f"relax.{op}", *given))

    def number(self, value: float) -> Expr:
        """A constant without dimensions."""
        return const(np.array(value), self.kind)

    def attr(self, name: str, default: float) -> float:
        """An attribute that is a number."""
        return float(self.n.attr(name, default))


Update = Callable[[Terms, Expr, Expr, Sequence[Expr]], list[Expr]]


def _updated(n: OnnxNode, inputs: Sequence[Expr], groups: int, update: Update) -> list[Expr]:
    """What `update` makes of (rate, count, one tensor of each group), group by group."""
    rate, count, *rest = inputs
    many, left = divmod(len(rest), groups)
    if left or not many:
        n.refuse(f"{len(rest)} tensors are not {groups} for each that is trained")
    terms = Terms(n, n.dtype(rest[0]))
    steps = n.emit(call("relax.astype", count, dtype=terms.kind))
    given = n.emit(call("relax.astype", rate, dtype=terms.kind))
    made = [update(terms, given, steps, rest[i::many]) for i in range(many)]
    return [row[k] for k in range(groups - 1) for row in made]


def _regular(t: Terms, x: Expr, g: Expr) -> Expr:
    return t("add", t("multiply", x, t.attr("norm_coefficient", 0.0)), g)


@onnx("Adagrad", domain=DOMAIN)
def onnx_adagrad(n: OnnxNode, rate: Expr, count: Expr, *rest: Expr) -> Any:
    """X - r G / (sqrt(H + G G) + epsilon), where r falls with the number of updates."""

    def update(t: Terms, r: Expr, steps: Expr, tensors: Sequence[Expr]) -> list[Expr]:
        x, g, h = tensors
        slow = t("add", t("multiply", steps, t.attr("decay_factor", 0.0)), 1.0)
        grad = _regular(t, x, g)
        total = t("add", h, t("multiply", grad, grad))
        below = t("add", t("sqrt", total), t.attr("epsilon", 1e-6))
        step = t("divide", t("multiply", t("divide", r, slow), grad), below)
        return [t("subtract", x, step), total]

    return _updated(n, (rate, count, *rest), 3, update)


@onnx("Momentum", domain=DOMAIN)
def onnx_momentum(n: OnnxNode, rate: Expr, count: Expr, *rest: Expr) -> Any:
    """X - r V, where V = alpha V + beta G; nesterov: X - r (G + alpha V)."""

    def update(t: Terms, r: Expr, steps: Expr, tensors: Sequence[Expr]) -> list[Expr]:
        x, g, v = tensors
        alpha, beta = t.number(n.require("alpha")), t.number(n.require("beta"))
        grad = _regular(t, x, g)
        started = t("where", t("greater", steps, 0.0), beta, 1.0)
        new = t("add", t("multiply", alpha, v), t("multiply", started, grad))
        nesterov = n.require("mode") == "nesterov"
        by = t("add", grad, t("multiply", alpha, new)) if nesterov else new
        return [t("subtract", x, t("multiply", r, by)), new]

    return _updated(n, (rate, count, *rest), 3, update)


@onnx("Adam", domain=DOMAIN)
def onnx_adam(n: OnnxNode, rate: Expr, count: Expr, *rest: Expr) -> Any:
    """X - r V / (sqrt(H) + epsilon), with running means V of gradients and H of their squares."""

    def update(t: Terms, r: Expr, steps: Expr, tensors: Sequence[Expr]) -> list[Expr]:
        x, g, v, h = tensors
        alpha, beta = t.attr("alpha", 0.9), t.attr("beta", 0.999)
        grad = _regular(t, x, g)
        mean = t("add", t("multiply", v, alpha), t("multiply", grad, 1 - alpha))
        square = t("multiply", t("multiply", grad, grad), 1 - beta)
        spread = t("add", t("multiply", h, beta), square)
        grown = [t("subtract", 1.0, t("power", t.number(b), steps)) for b in (alpha, beta)]
        sound = t("where", t("greater", steps, 0.0), grown[0], 1.0)
        fast = t("divide", t("multiply", r, t("sqrt", grown[1])), sound)
        pace = t("where", t("greater", steps, 0.0), fast, r)
        below = t("add", t("sqrt", spread), t.attr("epsilon", 1e-6))
        new = t("subtract", x, t("divide", t("multiply", pace, mean), below))
        kept = t("multiply", new, 1 - t.attr("norm_coefficient_post", 0.0))
        return [kept, mean, spread]

    return _updated(n, (rate, count, *rest), 4, update)
