"""The loop nest of a recurrent layer: states and gates of one sample lie in small buffers.

for n in samples:
    state = initial[n]
    for t in steps:
        gate = x[t, n] + state . weight;  state = cell(gate, state);  y[t, n] = state
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import Var
from mlcnb.op._accumulate import accumulator
from mlcnb.op._elementwise import short_name
from mlcnb.op._loops import index_dtype, let, load, loop, nest, scratch, store, with_scratch
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.index_check import checked
from mlcnb.tir.stmt import IfThenElse, Stmt, seq


class Cell(NamedTuple):
    """What a cell works on: the layer's declaration, buffers, and the dtype of loop variables.

    states: (hidden); gate: (gates * hidden), which holds what x says and becomes the sums; inner
    and reset: (hidden), for cells that need them; extras: optional arguments, in order.
    """

    op: Any
    weight: Buffer
    states: Sequence[Buffer]
    gate: Buffer
    inner: Buffer
    reset: Buffer
    extras: Sequence[Buffer | None]
    counter: DType

    @property
    def hidden(self) -> Any:
        """How many elements a state has."""
        return self.states[0].shape[0]

    def each(self, body: Callable[[Var], Stmt], count: int = 1) -> Stmt:
        """A loop over `count` times the hidden size."""
        return loop("j", self.hidden * count, body, self.counter)

    def apply(self, number: int, x: Any) -> Any:
        """Activation `number` of what is clipped first."""
        if self.op.clip is not None:
            most = p.const(float(self.op.clip), x.dtype)
            x = p.maximum(p.minimum(x, most), p.neg(most))
        return self.op.functions[number].loop(x)

    def products(self, state: Buffer, into: Buffer, first: int, count: int) -> Stmt:
        """into[j] += state . weight[:, j] for `count` gates from gate `first` on."""

        def line(k: Var) -> Stmt:
            def one(j: Var) -> Stmt:
                weight = p.cast(into.dtype, load(self.weight, k, self.hidden * first + j))
                return store(into, [j], load(into, j) + load(state, k) * weight)

            return self.each(one, count)

        return loop("k", self.hidden, line, self.counter)


def layer(
    op: Any,
    x: te.Tensor,
    weight: te.Tensor,
    states: Sequence[te.Tensor],
    lengths: te.Tensor | None,
    cell: Callable[[Cell], Stmt],
    extras: Sequence[te.Tensor | None],
) -> Any:
    """The tensors y and last states of a layer whose steps `cell` makes."""
    seq_len, batch, _ = x.shape
    hidden = weight.shape[0]
    given = [e for e in extras if e is not None]
    inputs = [x, weight, *states, *given, *([] if lengths is None else [lengths])]
    shapes = [(seq_len, batch, hidden), *((batch, hidden) for _ in states)]

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        rest = list(ins[2 + len(states) :])
        more = [None if e is None else rest.pop(0) for e in extras]
        return _body(op, ins[: 2 + len(states)], outs, more, rest[0] if rest else None, cell)

    return tuple(te.extern(shapes, inputs, body, short_name(op), [str(x.dtype)] * len(shapes)))


def _body(
    op: Any,
    ins: Sequence[Buffer],
    outs: Sequence[Buffer],
    extras: Sequence[Buffer | None],
    lengths: Buffer | None,
    cell: Callable[[Cell], Stmt],
) -> Stmt:
    x, weight, *initial = ins
    y, *last = outs
    kind, index = accumulator(x.dtype), index_dtype(x, weight)
    hidden = weight.shape[0]
    states = [scratch(f"state{i}", kind, hidden) for i in range(len(initial))]
    gate = scratch("gate", kind, hidden * op.gates)
    inner, reset = (scratch(name, kind, hidden) for name in ("inner", "reset"))
    parts = Cell(op, weight, states, gate, inner, reset, extras, index)

    def sample(n: Var) -> Stmt:
        def begin(j: Var) -> Stmt:
            pairs = zip(states, initial, strict=True)
            return seq(*(store(s, [j], p.cast(kind, load(i, n, j))) for s, i in pairs))

        def end(j: Var) -> Stmt:
            return seq(*(store(o, [n, j], load(s, j)) for s, o in zip(states, last, strict=True)))

        return seq(parts.each(begin), steps(n), parts.each(end))

    def steps(n: Var) -> Stmt:
        count = x.shape[0]
        if lengths is None:
            return loop("s", count, lambda s: step(n, _at(op, s, count)), index)
        most = p.cast(index, checked(load(lengths, n), count + 1, f"{op.sugar}: lengths"))

        def one(stop: Var) -> Stmt:
            def either(s: Var) -> Stmt:
                nothing = parts.each(lambda j: store(y, [s, n, j], 0))
                return IfThenElse(s < stop, step(n, _at(op, s, stop)), nothing)

            return loop("s", count, either, index)

        return let(one, stop=most)

    def step(n: Var, t: Any) -> Stmt:
        def begin(j: Var) -> Stmt:
            return store(gate, [j], p.cast(kind, load(x, t, n, j)))

        def end(j: Var) -> Stmt:
            return store(y, [t, n, j], load(states[0], j))

        return seq(parts.each(begin, op.gates), cell(parts), parts.each(end))

    buffers = [*states, gate, *([inner, reset] if op.gates == 3 else [])]
    return with_scratch(buffers, nest([x.shape[1]], sample, index), name=f"{short_name(op)}_steps")


def _at(op: Any, s: Var, count: Any) -> Any:
    """The row of step s."""
    return p.cast(s.dtype, count) - 1 - s if op.reverse else s


def rnn(cell: Cell) -> Stmt:
    """h' = f(gate)"""
    (h,) = cell.states
    return seq(
        cell.products(h, cell.gate, 0, 1),
        cell.each(lambda j: store(h, [j], cell.apply(0, load(cell.gate, j)))),
    )


def lstm(cell: Cell) -> Stmt:
    """i, o, f, c' and h', each place of the state by itself."""
    (h, c), (peephole,), size = cell.states, cell.extras, cell.hidden

    def gate(number: int, j: Var, seen: Any = None, place: int = 0) -> Any:
        value = load(cell.gate, size * number + j)
        if peephole is None or seen is None:
            return value
        return value + p.cast(value.dtype, load(peephole, size * place + j)) * seen

    def one(j: Var) -> Stmt:
        old = load(c, j)

        def with_i(i: Var) -> Stmt:
            forget = p.const(1, i.dtype) - i
            if not cell.op.input_forget:
                forget = cell.apply(0, gate(2, j, old, 2))
            return let(with_c, m=forget * old + i * cell.apply(1, gate(3, j)))

        def with_c(m: Var) -> Stmt:
            out = cell.apply(0, gate(1, j, m, 1)) * cell.op.functions[2].loop(m)
            return seq(store(h, [j], out), store(c, [j], m))

        return let(with_i, i=cell.apply(0, gate(0, j, old, 0)))

    return seq(cell.products(h, cell.gate, 0, 4), cell.each(one))


def gru(cell: Cell) -> Stmt:
    """z and r first, then what the reset state adds to the third gate."""
    (h,), (bias,), size = cell.states, cell.extras, cell.hidden
    inner, reset, kind = cell.inner, cell.reset, cell.gate.dtype
    early = cell.op.linear_before_reset

    def begin(j: Var) -> Stmt:
        return store(inner, [j], 0 if bias is None else p.cast(kind, load(bias, j)))

    def settle(j: Var) -> Stmt:
        z, r = (cell.apply(0, load(cell.gate, size * i + j)) for i in range(2))
        kept = seq(store(cell.gate, [j], z), store(cell.gate, [size + j], r))
        return (
            kept if early else seq(kept, store(reset, [j], load(cell.gate, size + j) * load(h, j)))
        )

    def one(j: Var) -> Stmt:
        z, r = load(cell.gate, j), load(cell.gate, size + j)
        inside = r * load(inner, j) if early else load(inner, j)
        new = cell.apply(1, load(cell.gate, size * 2 + j) + inside)
        return store(h, [j], (p.const(1, kind) - z) * new + z * load(h, j))

    return seq(
        cell.each(begin),
        cell.products(h, cell.gate, 0, 2),
        cell.each(settle),
        cell.products(h if early else reset, inner, 2, 1),
        cell.each(one),
    )
