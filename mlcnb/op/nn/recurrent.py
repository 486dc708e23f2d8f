"""Recurrent layers: nn.rnn, nn.gru and nn.lstm, one step after the other in one loop nest.

    for each sample:  state = initial
        for t:  gates = x[t] + state . weight           x: the inputs' part, a product made before
                state = the cell's function of gates and state;   y[t] = state

Gates lie beside each other in the last dimension, in ONNX's order: GRU z, r, h; LSTM i, o, f, c.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mlcnb.op._accumulate import accumulator
from mlcnb.op._dims import differ, refuse, tell, tensor, want_rank, want_same_dtype
from mlcnb.op._elementwise import FLOATS, want_kinds
from mlcnb.op.nn import _recurrent_loops as loops
from mlcnb.op.nn._recurrent_activations import TABLE, Activation, activation
from mlcnb.relax.operator import OpDecl, OptionalTensor, Tensor, operator
from mlcnb.relax.struct_info import TupleStructInfo


class Recurrent(OpDecl):
    """What recurrent layers have in common: one direction of one layer."""

    __slots__ = ()
    reverse: bool
    activations: Any
    clip: float | None
    #: gates of a cell
    gates: ClassVar[int]
    #: states besides the output
    cells: ClassVar[int] = 0

    def check(self, x: Any, weight: Any, lengths: Any, **states: Any) -> Any:
        """Refuse what does not fit together; the hidden size and the dimensions of x."""
        named = {"x": x, "weight": weight, **states}
        want_kinds(self, FLOATS, x=x)
        want_same_dtype(self, **named)
        want_rank(self, "x", x, 3)
        want_rank(self, "weight", weight, 2)
        if lengths is not None and lengths.dtype and lengths.dtype != "int32":
            refuse(self, f"lengths must be int32, but is {tell(lengths)}")
        for each in self.activations:
            if each[0] not in TABLE:
                refuse(self, f"no activation {each[0]!r}", hint=f"one of {', '.join(TABLE)}")
        if x.dims is None or weight.dims is None:
            return None
        hidden, wide = weight.dims
        if differ(wide, hidden * self.gates) or differ(x.dims[2], wide):
            refuse(self, f"{tell(x)} and {tell(weight)} are not {self.gates} gates of {hidden}")
        return hidden

    def outcome(self, x: Any, weight: Any, hidden: Any) -> Any:
        """y (seq, batch, hidden) and the last states (batch, hidden)."""
        if hidden is None:
            state = tensor(None, x.dtype, 2)
            return TupleStructInfo((tensor(None, x.dtype, 3), state, *([state] * self.cells)))
        state = tensor([x.dims[1], hidden], x.dtype)
        y = tensor([*x.dims[:2], hidden], x.dtype)
        return TupleStructInfo((y, state, *([state] * self.cells)))

    @property
    def functions(self) -> list[Activation]:
        """The activations."""
        return [activation(*each) for each in self.activations]

    def clipped(self, x: np.ndarray) -> np.ndarray:
        """What goes into an activation."""
        return x if self.clip is None else np.clip(x, -self.clip, self.clip)

    def steps(self, x: np.ndarray, lengths: Any, states: list[np.ndarray], cell: Any) -> Any:
        """The meaning: `cell` makes of a row of x and the states of a sample its next states."""
        seq, batch, _ = x.shape
        kind = accumulator(x.dtype.name).numpy
        rows = x.astype(kind)
        states = [np.array(s, kind) for s in states]
        y = np.zeros((seq, batch, states[0].shape[1]), kind)
        for n in range(batch):
            count = seq if lengths is None else int(lengths[n])
            if not 0 <= count <= seq:
                refuse(self, f"lengths[{n}] is {count}, outside of 0 to {seq}")
            for t in range(count - 1, -1, -1) if self.reverse else range(count):
                for state, value in zip(states, cell(rows[t, n], *(s[n] for s in states))):  # noqa: B905
                    state[n] = value
                y[t, n] = states[0][n]
        return tuple(v.astype(x.dtype) for v in (y, *states))


@operator("relax.nn.rnn")
class Rnn(Recurrent):
    """h' = f(x + h . weight)

    x (seq, batch, hidden), weight (hidden, hidden), h (batch, hidden), lengths (batch), int32: how
    many steps each sample has. reverse: from the last step to the first. activations: a name, alpha
    and beta for each. Gives y (seq, batch, hidden) and the last h.
    Semantics: https://onnx.ai/onnx/operators/onnx__RNN.html
    """

    x: Tensor
    weight: Tensor
    h: Tensor
    lengths: OptionalTensor
    reverse: bool = False
    activations: tuple[Any, ...] = (("Tanh", 0.0, 0.0),)
    clip: float | None = None
    gates: ClassVar[int] = 1

    def infer(self, x: Any, weight: Any, h: Any, lengths: Any = None) -> Any:
        """y and h"""
        return self.outcome(x, weight, self.check(x, weight, lengths, h=h))

    def numpy(self, x: Any, weight: Any, h: Any, lengths: Any = None) -> Any:
        """As the formula says"""
        (f,) = self.functions
        w = weight.astype(accumulator(weight.dtype.name).numpy)
        return self.steps(x, lengths, [h], lambda row, s: (f.meaning(self.clipped(row + s @ w)),))

    def compute(self, x: Any, weight: Any, h: Any, lengths: Any = None) -> Any:
        """One loop over steps inside of one over samples."""
        return loops.layer(self, x, weight, [h], lengths, loops.rnn, [])


@operator("relax.nn.gru")
class Gru(Recurrent):
    """z, r: f(x + h . weight);  c = g(x + (r * h) . weight);  h' = (1 - z) * c + z * h

    With linear_before_reset c = g(x + r * (h . weight + bias)). x (seq, batch, 3 hidden), weight
    (hidden, 3 hidden), h (batch, hidden), bias (hidden); the rest as of nn.rnn.
    Semantics: https://onnx.ai/onnx/operators/onnx__GRU.html
    """

    x: Tensor
    weight: Tensor
    h: Tensor
    bias: OptionalTensor
    lengths: OptionalTensor
    reverse: bool = False
    activations: tuple[Any, ...] = (("Sigmoid", 0.0, 0.0), ("Tanh", 0.0, 0.0))
    clip: float | None = None
    linear_before_reset: bool = False
    gates: ClassVar[int] = 3

    def infer(self, x: Any, weight: Any, h: Any, bias: Any = None, lengths: Any = None) -> Any:
        """y and h"""
        return self.outcome(x, weight, self.check(x, weight, lengths, h=h, bias=bias))

    def numpy(self, x: Any, weight: Any, h: Any, bias: Any = None, lengths: Any = None) -> Any:
        """As the formula says"""
        f, g = self.functions
        w = weight.astype(accumulator(weight.dtype.name).numpy)
        size = w.shape[0]
        more = 0 if bias is None else bias.astype(w.dtype)

        def cell(row: np.ndarray, s: np.ndarray) -> Any:
            zr = f.meaning(self.clipped(row[: 2 * size] + s @ w[:, : 2 * size]))
            z, r = zr[:size], zr[size:]
            last = w[:, 2 * size :]
            inside = r * (s @ last + more) if self.linear_before_reset else (r * s) @ last + more
            c = g.meaning(self.clipped(row[2 * size :] + inside))
            return ((1 - z) * c + z * s,)

        return self.steps(x, lengths, [h], cell)

    def compute(self, x: Any, weight: Any, h: Any, bias: Any = None, lengths: Any = None) -> Any:
        """One loop over steps inside of one over samples."""
        return loops.layer(self, x, weight, [h], lengths, loops.gru, [bias])


@operator("relax.nn.lstm")
class Lstm(Recurrent):
    """i, o, f: f(x + h . weight + p * c);  c' = f * c + i * g(x + h . weight);  h' = o * k(c')

    x (seq, batch, 4 hidden), weight (hidden, 4 hidden), h and c (batch, hidden), peephole
    (3 hidden): of i, o and f, where o sees c'. input_forget: f is 1 - i. Gives y, h, c.
    Semantics: https://onnx.ai/onnx/operators/onnx__LSTM.html
    """

    x: Tensor
    weight: Tensor
    h: Tensor
    c: Tensor
    peephole: OptionalTensor
    lengths: OptionalTensor
    reverse: bool = False
    activations: tuple[Any, ...] = (
        ("Sigmoid", 0.0, 0.0), ("Tanh", 0.0, 0.0), ("Tanh", 0.0, 0.0),
    )  # fmt: skip
    clip: float | None = None
    input_forget: bool = False
    gates: ClassVar[int] = 4
    cells: ClassVar[int] = 1

    def infer(
        self, x: Any, weight: Any, h: Any, c: Any, peephole: Any = None, lengths: Any = None
    ) -> Any:
        """y, h and c"""
        hidden = self.check(x, weight, lengths, h=h, c=c, peephole=peephole)
        return self.outcome(x, weight, hidden)

    def numpy(
        self, x: Any, weight: Any, h: Any, c: Any, peephole: Any = None, lengths: Any = None
    ) -> Any:
        """As the formula says"""
        f, g, k = self.functions
        w = weight.astype(accumulator(weight.dtype.name).numpy)
        size = w.shape[0]
        seen = np.zeros(3 * size) if peephole is None else peephole.astype(w.dtype)
        pi, po, pf = seen[:size], seen[size : 2 * size], seen[2 * size :]

        def cell(row: np.ndarray, s: np.ndarray, m: np.ndarray) -> Any:
            i, o, forget, new = np.split(row + s @ w, 4)
            i = f.meaning(self.clipped(i + pi * m))
            forget = 1 - i if self.input_forget else f.meaning(self.clipped(forget + pf * m))
            m = forget * m + i * g.meaning(self.clipped(new))
            return f.meaning(self.clipped(o + po * m)) * k.meaning(m), m

        return self.steps(x, lengths, [h, c], cell)

    def compute(
        self, x: Any, weight: Any, h: Any, c: Any, peephole: Any = None, lengths: Any = None
    ) -> Any:
        """One loop over steps inside of one over samples."""
        return loops.layer(self, x, weight, [h, c], lengths, loops.lstm, [peephole])
