"""ONNX spellings of recurrent layers: RNN, GRU, LSTM.

Each direction is one layer of `recurrent`; the inputs' part of its gates is one product before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlcnb.ir.prim_ops import equal, less_equal
from mlcnb.op._dims import tell_dim, tell_dims
from mlcnb.op._spell import call, filled, want_sizes
from mlcnb.op.nn import recurrent
from mlcnb.op.nn._recurrent_activations import TABLE
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import make_call

#: ONNX's alpha and beta where none are given
DEFAULTS = {
    "Affine": (1.0, 0.0), "LeakyRelu": (0.01, 0.0), "ThresholdedRelu": (1.0, 0.0),
    "ScaledTanh": (1.0, 1.0), "HardSigmoid": (0.2, 0.5), "Elu": (1.0, 0.0),
}  # fmt: skip
#: how many of alpha and beta an activation takes
TAKES = {
    "Affine": (1, 1), "LeakyRelu": (1, 0), "ThresholdedRelu": (1, 0), "ScaledTanh": (1, 1),
    "HardSigmoid": (1, 1), "Elu": (1, 0),
}  # fmt: skip


def activations(n: OnnxNode, defaults: Sequence[str], directions: int) -> list[Any]:
    """(name, alpha, beta) of each activation, for each direction."""
    names = list(n.attr("activations") or list(defaults) * directions)
    if len(names) != len(defaults) * directions:
        n.refuse(f"{len(names)} activations, it takes {len(defaults)} for each direction")
    alphas, betas = (list(n.attr(f"activation_{k}") or ()) for k in ("alpha", "beta"))
    known = {name.lower(): name for name in TABLE}
    found = []
    for given in names:
        name = known.get(given.lower())
        if name is None:
            n.refuse(f"no activation {given!r}", hint=f"one of {', '.join(TABLE)}")
        numbers = zip((alphas, betas), TAKES.get(name, (0, 0)), DEFAULTS.get(name, (0.0, 0.0)))  # noqa: B905
        found.append((name, *(rest.pop(0) if many and rest else d for rest, many, d in numbers)))
    count = len(defaults)
    return [tuple(found[i * count : i * count + count]) for i in range(directions)]


class Layers:
    """A node's layers, one for each direction, and what they share."""

    def __init__(self, n: OnnxNode, x: Expr, w: Expr, r: Expr, gates: int) -> None:
        self.n, self.gates = n, gates
        direction = n.attr("direction", "forward")
        backwards = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
        if direction not in backwards:
            n.refuse(f"direction {direction!r} is none of {', '.join(backwards)}")
        self.backwards = backwards[direction]
        self.batch_first = bool(n.attr("layout", 0))
        self.x = n.emit(call("relax.permute_dims", x, axes=(1, 0, 2))) if self.batch_first else x
        self.batch = n.dims(self.x)[1]
        self.w, self.r = w, r
        self.count = len(self.backwards)
        weights = f"weights of {tell_dims(n.dims(w))} and {tell_dims(n.dims(r))}"
        why = f"{weights} for {self.count} directions"
        want_sizes(n, equal(n.dims(w)[0], self.count), why)
        self.hidden = n.dims(r)[2]

    def part(self, x: Expr, d: int, begin: int = 0, end: int | None = None, axis: int = 0) -> Expr:
        """Direction d of x, from `begin` to `end` along what is then its dimension `axis`."""
        first, *rest = self.n.dims(x)
        last = rest[axis] if end is None else end
        why = f"{tell_dims((first, *rest))} for {self.count} directions of {tell_dim(self.hidden)}"
        for least, size in ((d + 1, first), (last, rest[axis])):
            want_sizes(self.n, less_equal(least, size), why)
        index = const(np.array(d, np.int64))
        found = self.n.emit(call("relax.take", x, index, axis=0, mode="fast"))
        if begin == 0 and end is None:
            return found
        cut = call("relax.strided_slice", found, (axis,), (begin,), (end,), assume_inbound=True)
        return self.n.emit(cut)

    def state(self, given: Expr | None, d: int) -> Expr:
        """(batch, hidden): what is given, or zeros."""
        if given is None:
            zero = const(np.array(0, self.n.dtype(self.x)))
            return self.n.emit(call("relax.full", (self.batch, self.hidden), zero))
        if self.batch_first:
            given = self.n.emit(call("relax.permute_dims", given, axes=(1, 0, 2)))
        return self.part(given, d)

    def inputs(self, d: int, *biases: Expr | None) -> Expr:
        """x . W + biases: (seq, batch, gates * hidden)."""
        turned = self.n.emit(call("relax.permute_dims", self.part(self.w, d)))
        made = self.n.emit(call("relax.matmul", self.x, turned))
        for bias in biases:
            if bias is not None:
                made = self.n.emit(call("relax.add", made, bias))
        return made

    def halves(self, b: Expr | None, d: int) -> list[Expr]:
        """The biases of the inputs, then those of the states; none where there are none."""
        wide = self.gates * self.hidden
        return [] if b is None else [self.part(b, d, i * wide, (i + 1) * wide) for i in range(2)]

    def made(
        self,
        decl: Any,
        defaults: Sequence[str],
        lengths: Expr | None,
        given: Callable[[int], Sequence[Any]],
        **options: Any,
    ) -> Any:
        """The results; given: of each direction the operator's arguments but the lengths."""
        n = self.n
        chosen = activations(n, defaults, len(self.backwards))
        if lengths is not None and n.dtype(lengths) != "int32":
            lengths = n.emit(call("relax.astype", lengths, dtype="int32"))
        limit = n.attr("clip")
        options["clip"] = None if limit is None else float(limit)
        made = []
        for d, backwards in enumerate(self.backwards):
            of = {"reverse": backwards, "activations": chosen[d], **options}
            made.append(n.emit(make_call(decl, *given(d), lengths, **of)))
        return self.results(made)

    def weight(self, d: int) -> Expr:
        """(hidden, gates * hidden)"""
        return self.n.emit(call("relax.permute_dims", self.part(self.r, d)))

    def results(self, made: list[Expr]) -> list[Expr]:
        """Y and the last states of all directions, in the layout that is wanted."""
        rank = 1 if not self.batch_first else 2
        y = self.n.emit(call("relax.stack", [m[0] for m in made], axis=1))
        if self.batch_first:
            y = self.n.emit(call("relax.permute_dims", y, axes=(2, 0, 1, 3)))
        count = 2 if self.gates == 4 else 1
        axis = rank - 1
        states = [call("relax.stack", [m[1 + i] for m in made], axis=axis) for i in range(count)]
        return [y, *map(self.n.emit, states)]


@onnx("RNN")
def onnx_rnn(
    n: OnnxNode,
    x: Expr,
    w: Expr,
    r: Expr,
    b: Expr | None = None,
    lengths: Expr | None = None,
    h: Expr | None = None,
) -> Any:
    """h' = f(x . W + h . R + Wb + Rb)"""
    layers = Layers(n, x, w, r, 1)

    def given(d: int) -> Sequence[Any]:
        return layers.inputs(d, *layers.halves(b, d)), layers.weight(d), layers.state(h, d)

    return layers.made(recurrent.Rnn, ("Tanh",), lengths, given)


@onnx("GRU")
def onnx_gru(
    n: OnnxNode,
    x: Expr,
    w: Expr,
    r: Expr,
    b: Expr | None = None,
    lengths: Expr | None = None,
    h: Expr | None = None,
) -> Any:
    """Gates z, r, h; the last third of Rb stands inside of what is reset."""
    layers = Layers(n, x, w, r, 3)
    early, hidden = bool(n.attr("linear_before_reset", 0)), layers.hidden

    def given(d: int) -> Sequence[Any]:
        biases, inside = [], None
        if b is not None:
            own = layers.part(b, d, 3 * hidden, 5 * hidden)
            inside = layers.part(b, d, 5 * hidden, 6 * hidden)
            zero = filled(n, 0, [hidden], n.dtype(b))
            more = n.emit(call("relax.concat", [own, zero], axis=0))
            biases = [layers.part(b, d, 0, 3 * hidden), more]
        return layers.inputs(d, *biases), layers.weight(d), layers.state(h, d), inside

    gates = ("Sigmoid", "Tanh")
    return layers.made(recurrent.Gru, gates, lengths, given, linear_before_reset=early)


@onnx("LSTM")
def onnx_lstm(
    n: OnnxNode,
    x: Expr,
    w: Expr,
    r: Expr,
    b: Expr | None = None,
    lengths: Expr | None = None,
    h: Expr | None = None,
    c: Expr | None = None,
    p: Expr | None = None,
) -> Any:
    """Gates i, o, f, c; peepholes of i, o, f."""
    layers = Layers(n, x, w, r, 4)

    def given(d: int) -> Sequence[Any]:
        biases = layers.halves(b, d)
        seen = None if p is None else layers.part(p, d)
        states = layers.state(h, d), layers.state(c, d)
        return layers.inputs(d, *biases), layers.weight(d), *states, seen

    coupled, gates = bool(n.attr("input_forget", 0)), ("Sigmoid", "Tanh", "Tanh")
    return layers.made(recurrent.Lstm, gates, lengths, given, input_forget=coupled)
