"""PyTorch spellings of recurrent layers: lstm, gru, rnn_tanh, rnn_relu, written out step by step.

    gates[t] = x[t] . W' + b + h . R' + c          of all steps the first product at once
    lstm   i, f, g, o = gates;  c = sigmoid(f) c + sigmoid(i) tanh(g);  h = sigmoid(o) tanh(c)
    gru    r, z, n;  h = (1 - z) tanh(nx + r nh) + z h

The number of steps has to be known; layers, both directions, batch_first as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._torch import Formula
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr

#: steps of all layers that are written out
MAX_STEPS = 4096

State = tuple[Expr, ...]
Step = Callable[[Formula, Expr, Expr, State], State]


def _cut(f: Formula, x: Expr, parts: int) -> list[Expr]:
    both = f.split(x, indices_or_sections=parts, axis=-1)
    return [f.n.emit(both[i]) for i in range(parts)]


def _lstm(f: Formula, x: Expr, h: Expr, state: State) -> State:
    i, forget, g, o = _cut(f, f.add(x, h), 4)
    kept = f.multiply(f.sigmoid(forget), state[1])
    cell = f.add(kept, f.multiply(f.sigmoid(i), f.tanh(g)))
    return f.multiply(f.sigmoid(o), f.tanh(cell)), cell


def _gru(f: Formula, x: Expr, h: Expr, state: State) -> State:
    (rx, zx, nx), (rh, zh, nh) = _cut(f, x, 3), _cut(f, h, 3)
    r, z = f.sigmoid(f.add(rx, rh)), f.sigmoid(f.add(zx, zh))
    new = f.tanh(f.add(nx, f.multiply(r, nh)))
    return (f.add(new, f.multiply(z, f.subtract(state[0], new))),)


def _plain(name: str) -> Step:
    def step(f: Formula, x: Expr, h: Expr, state: State) -> State:
        total = f.add(x, h)
        return (f.tanh(total) if name == "tanh" else f.nn("relu", total),)

    return step


class _Layers:
    """All layers and directions of one recurrent operator."""

    def __init__(self, n: TorchNode, x: Expr, weights: Sequence[Expr], step: Step) -> None:
        self.n, self.f, self.step = n, Formula(n, n.dtype(x)), step
        self.weights = list(weights)

    def taken(self, has_biases: bool, projected: bool) -> list[Expr | None]:
        """The weights of the next layer: input, state, their biases, projection."""
        count = 4 if has_biases else 2
        found: list[Expr | None] = [*self.weights[:count], *[None] * (4 - count)]
        self.weights = self.weights[count:]
        found.append(self.weights.pop(0) if projected else None)
        return found

    def product(self, x: Expr, weight: Expr, bias: Expr | None) -> Expr:
        """x . weight' + bias"""
        f = self.f
        found = f.matmul(x, f.permute_dims(weight, axes=(1, 0)))
        return found if bias is None else f.add(found, bias)

    def direction(
        self, x: Expr, state: State, weights: list[Expr | None], backwards: bool
    ) -> tuple[Expr, State]:
        """One layer one way: results (steps, batch, size) and the last state."""
        f, n = self.f, self.n
        w, r, b, c, projection = weights
        assert w is not None and r is not None
        steps = int(n.dims(x)[0])
        gates = self.product(x, w, b)
        rows = [gates] if steps == 1 else []
        if steps > 1:
            both = f.split(gates, indices_or_sections=steps, axis=0)
            rows = [n.emit(both[t]) for t in range(steps)]
        found: list[Expr] = []
        for row in reversed(rows) if backwards else rows:
            at = f.squeeze(row, axis=(0,))
            state = self.step(f, at, self.product(state[0], r, c), state)
            if projection is not None:
                state = (self.product(state[0], projection, None), *state[1:])
            found.append(f.expand_dims(state[0], axis=(0,)))
        ordered = found[::-1] if backwards else found
        return (ordered[0] if steps == 1 else f.concat(ordered, axis=0)), state


def _run(
    n: TorchNode,
    step: Step,
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
    layers = _Layers(n, x, params, step)
    f, single = layers.f, len(n.dims(x)) == 2
    if single:
        x = f.expand_dims(x, axis=(1,))
        states = [f.expand_dims(s, axis=(1,)) for s in states]
    elif batch_first:
        x = f.permute_dims(x, axes=(1, 0, 2))
    ways = 2 if bidirectional else 1
    steps = as_int(n.dims(x)[0])
    if not steps or steps * num_layers * ways > MAX_STEPS:
        n.refuse(
            f"{n.dims(x)[0]} steps of {num_layers} layers: a fixed number, at most {MAX_STEPS} in "
            "all, is written out",
            "export with a fixed length, in parts",
        )
    projected = len(params) == num_layers * ways * (5 if has_biases else 3)
    last: list[State] = []
    for layer in range(num_layers):
        results = []
        for way in range(ways):
            place = layer * ways + way
            start = tuple(_picked(f, s, place) for s in states)
            found, end = layers.direction(x, start, layers.taken(has_biases, projected), way == 1)
            results.append(found)
            last.append(end)
        x = results[0] if ways == 1 else f.concat(results, axis=2)
    ends = [f.stack([s[k] for s in last], axis=0) for k in range(len(states))]
    if single:
        x, ends = f.squeeze(x, axis=(1,)), [f.squeeze(e, axis=(1,)) for e in ends]
    elif batch_first:
        x = f.permute_dims(x, axes=(1, 0, 2))
    return (x, *ends)


def _picked(f: Formula, state: Expr, place: int) -> Expr:
    line = f.strided_slice(state, (0,), (place,), (place + 1,), (1,))
    return f.squeeze(line, axis=(0,))


@torch_spelling("aten.lstm.input")
def torch_lstm(n: TorchNode, x: Expr, hx: Sequence[Expr], params: Any, *more: Any) -> Any:
    """Result, last h, last c."""
    return _run(n, _lstm, x, hx, params, *more)


@torch_spelling("aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input")
def torch_gru(n: TorchNode, x: Expr, hx: Expr, params: Any, *more: Any) -> Any:
    """Result, last h."""
    kind = n.target.split(".")[1]
    step = _gru if kind == "gru" else _plain(kind.removeprefix("rnn_"))
    return _run(n, step, x, [hx], params, *more)
