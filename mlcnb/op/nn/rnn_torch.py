"""PyTorch spellings of recurrent layers: lstm, gru, rnn_tanh, rnn_relu.

    gates = x . W' + b (+ c)           of all steps at once
    y, h, c = nn.lstm(gates, R', h, c)    one operator for a layer and a direction, of any length

PyTorch's gates (LSTM i, f, g, o; GRU r, z, n) are put into the order of `recurrent`. A projected
state h' = P s, where s is what the cell makes, is that of a cell whose weight is R P: gates of the
first step take what the given h brings, and y is P s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.op._torch import Formula
from mlcnb.op.nn import recurrent
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import make_call

#: where our gates stand among PyTorch's
ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}


@dataclass(frozen=True)
class Weights:
    """Of one layer one way: of inputs, of states, their biases, of a projection."""

    w: Expr
    r: Expr
    b: Expr | None
    c: Expr | None
    projection: Expr | None


def _weights(given: Sequence[Expr], count: int, has_biases: bool) -> list[Weights]:
    """The weights of `count` layers; a projection follows the others where there is one."""
    each = len(given) // count
    found = []
    for i in range(count):
        w, r, *rest = given[i * each : (i + 1) * each]
        b, c = rest[:2] if has_biases else (None, None)
        projection = rest[2 * has_biases :]
        found.append(Weights(w, r, b, c, projection[0] if projection else None))
    return found


class _Layer:
    """One layer one way.

    Args:
        f: builds calls.
        kind: "lstm", "gru", "rnn_tanh", "rnn_relu".
        weights: of the layer.
        reverse: from the last step to the first.
    """

    def __init__(self, f: Formula, kind: str, weights: Weights, reverse: bool) -> None:
        self.f, self.kind, self.weights, self.reverse = f, kind, weights, reverse
        self.hidden = f.n.dims(weights.r)[0] // len(ORDER[kind])

    def ordered(self, x: Expr) -> Expr:
        """Gates along the first dimension in our order."""
        parts = ORDER[self.kind]
        if parts == tuple(range(len(parts))):
            return x
        cut = self.f.split(x, indices_or_sections=len(parts), axis=0)
        return self.f.concat([self.f.n.emit(cut[i]) for i in parts], axis=0)

    def turned(self, x: Expr) -> Expr:
        """A matrix of gates as what stands on the right of a product."""
        return self.f.permute_dims(self.ordered(x), axes=(1, 0))

    def gates(self, x: Expr) -> Expr:
        """What inputs bring: (steps, batch, gates)."""
        found = self.f.matmul(x, self.turned(self.weights.w))
        for bias in (self.weights.b, self.outside()):
            if bias is not None:
                found = self.f.add(found, self.ordered(bias))
        return found

    def outside(self) -> Expr | None:
        """The states' bias, zero where it stands inside of what a GRU resets."""
        c = self.weights.c
        if c is None or self.kind != "gru":
            return c
        zero = self.f.zeros((self.hidden,), dtype=self.f.kind)
        return self.f.concat([self.part(c, 0, 2), zero], axis=0)

    def part(self, x: Expr, begin: int, end: int) -> Expr:
        """Some gates of a bias."""
        h = self.hidden
        return self.f.strided_slice(x, (0,), (begin * h,), (end * h,), assume_inbound=True)

    def run(self, x: Expr, states: Sequence[Expr]) -> list[Expr]:
        """Results (steps, batch, size), and the last states."""
        gates, weight = self.gates(x), self.turned(self.weights.r)
        if self.kind == "gru":
            inside = None if self.weights.c is None else self.part(self.weights.c, 2, 3)
            made = make_call(
                recurrent.Gru, gates, weight, *states, inside, None, reverse=self.reverse,
                linear_before_reset=True,
            )  # fmt: skip
        elif self.kind == "lstm":
            made = make_call(recurrent.Lstm, *self.projected(gates, weight, states), None, None,
                             reverse=self.reverse)  # fmt: skip
        else:
            name = {"rnn_tanh": "Tanh", "rnn_relu": "Relu"}[self.kind]
            made = make_call(
                recurrent.Rnn, gates, weight, *states, None, reverse=self.reverse,
                activations=((name, 0.0, 0.0),),
            )  # fmt: skip
        every = self.f.n.emit(made)
        y, h, *cell = (self.f.n.emit(every[i]) for i in range(1 + len(states)))
        if self.weights.projection is not None:
            narrow = self.f.permute_dims(self.weights.projection, axes=(1, 0))
            y, h = self.f.matmul(y, narrow), self.f.matmul(h, narrow)
        return [y, h, *cell]

    def projected(self, gates: Expr, weight: Expr, states: Sequence[Expr]) -> list[Expr]:
        """Gates, weight and states of an LSTM whose state is not projected."""
        if self.weights.projection is None:
            return [gates, weight, *states]
        f, (h, c) = self.f, states
        first = f.expand_dims(f.matmul(h, weight), axis=(0,))
        steps = f.n.dims(gates)[0]
        begin, end = (steps - 1, steps) if self.reverse else (0, 1)
        line = f.strided_slice(gates, (0,), (begin,), (end,), assume_inbound=True)
        rest = (0, begin) if self.reverse else (end, steps)
        others = f.strided_slice(gates, (0,), (rest[0],), (rest[1],), assume_inbound=True)
        both = [f.add(line, first), others]
        gates = f.concat(both[::-1] if self.reverse else both, axis=0)
        weight = f.matmul(f.permute_dims(self.weights.projection, axes=(1, 0)), weight)
        return [gates, weight, f.zeros_like(c), c]


def _run(
    n: TorchNode,
    x: Expr,
    states: Sequence[Expr],
    params: Sequence[Expr],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    if train and dropout > 0 and num_layers > 1:
        n.refuse(f"it drops elements at random (p = {dropout})", "call model.eval() first")
    kind, f = n.target.split(".")[1], Formula(n, n.dtype(x))
    single = len(n.dims(x)) == 2
    if single:
        x = f.expand_dims(x, axis=(1,))
        states = [f.expand_dims(s, axis=(1,)) for s in states]
    elif batch_first:
        x = f.permute_dims(x, axes=(1, 0, 2))
    ways = 2 if bidirectional else 1
    weights = _weights(params, num_layers * ways, has_biases)
    last: list[list[Expr]] = []
    for first in range(0, len(weights), ways):
        made = [
            _Layer(f, kind, weights[place], reverse=place > first).run(
                x, [f.take(s, f.n.tensor(place, "int64"), axis=0, mode="fast") for s in states]
            )
            for place in range(first, first + ways)
        ]
        last += [m[1:] for m in made]
        x = made[0][0] if ways == 1 else f.concat([m[0] for m in made], axis=2)
    ends = [f.stack([s[k] for s in last], axis=0) for k in range(len(states))]
    if single:
        x, ends = f.squeeze(x, axis=(1,)), [f.squeeze(e, axis=(1,)) for e in ends]
    elif batch_first:
        x = f.permute_dims(x, axes=(1, 0, 2))
    return (x, *ends)


@torch_spelling("aten.lstm.input")
def torch_lstm(n: TorchNode, x: Expr, hx: Sequence[Expr], params: Any, *more: Any) -> Any:
    """Result, last h, last c."""
    return _run(n, x, hx, params, *more)


@torch_spelling("aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input")
def torch_gru(n: TorchNode, x: Expr, hx: Expr, params: Any, *more: Any) -> Any:
    """Result, last h."""
    return _run(n, x, [hx], params, *more)
