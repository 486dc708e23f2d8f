"""The loop nest of a recurrent layer: states and gates of one sample lie in small buffers.

for n in samples:
    state = initial[n]
    for t in steps:
        gate = x[t, n] + state . weight;  state = cell(gate, state);  y[t, n] = state

Some samples go side by side, each with buffers of its own, so that a weight is read once for all of
them; those with lengths of their own go alone. Some rows of the weight are added at a time, so that
the sums are loaded and stored less often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import Var
from mlcnb.op._accumulate import accumulator
from mlcnb.op._elementwise import short_name
from mlcnb.op._loops import index_dtype, let, load, loop, scratch, store, with_scratch
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.index_check import checked
from mlcnb.tir.stmt import IfThenElse, Stmt, seq

#: steps of samples that are made together: a weight that is read is used for all of them
TOGETHER = 4
#: rows of the weight whose products are added at a time
ROWS = 4


class Cell(NamedTuple):
    """The buffers of one sample.

    states: (hidden); gate: (gates * hidden), which holds what x says and becomes the sums; inner
    and reset: (hidden), for cells that need them.
    """

    states: Sequence[Buffer]
    gate: Buffer
    inner: Buffer
    reset: Buffer

    @staticmethod
    def of(op: Any, states: int, kind: DType, hidden: Any) -> Cell:
        """New ones."""
        inner, reset = (scratch(name, kind, hidden) for name in ("inner", "reset"))
        gate = scratch("gate", kind, hidden * op.gates)
        return Cell([scratch(f"state{i}", kind, hidden) for i in range(states)], gate, inner, reset)

    def used(self, op: Any) -> list[Buffer]:
        """Those that the layer needs."""
        return [*self.states, self.gate, *([self.inner, self.reset] if op.gates == 3 else [])]


class Group(NamedTuple):
    """What some samples' cells work on: the layer's declaration, its weight, the optional arguments
    in order, and the dtype of loop variables."""

    op: Any
    weight: Buffer
    extras: Sequence[Buffer | None]
    counter: DType
    cells: Sequence[Cell]

    @property
    def hidden(self) -> Any:
        """How many elements a state has."""
        return self.weight.shape[0]

    def each(self, body: Callable[[Cell, Var], Stmt], count: int = 1) -> Stmt:
        """For each cell a loop over `count` times the hidden size."""
        size = self.hidden * count
        return seq(*(loop("j", size, partial(body, cell), self.counter) for cell in self.cells))

    def apply(self, number: int, x: Any) -> Any:
        """Activation `number` of what is clipped first."""
        if self.op.clip is not None:
            most = p.const(float(self.op.clip), x.dtype)
            x = p.maximum(p.minimum(x, most), p.neg(most))
        return self.op.functions[number].loop(x)

    def products(
        self,
        state: Callable[[Cell], Buffer],
        into: Callable[[Cell], Buffer],
        first: int,
        count: int,
    ) -> Stmt:
        """into[j] += state . weight[:, j] for `count` gates from gate `first` on, in every cell."""
        whole, rest = self.hidden // ROWS, self.hidden % ROWS

        def rows(at: Any, many: int) -> Stmt:
            def one(j: Var) -> Stmt:
                return seq(*(add(c, j) for c in self.cells))

            def add(cell: Cell, j: Var) -> Stmt:
                total: Any = load(into(cell), j)
                for k in range(many):
                    weight = load(self.weight, at + k, self.hidden * first + j)
                    total = total + load(state(cell), at + k) * p.cast(total.dtype, weight)
                return store(into(cell), [j], total)

            return loop("j", self.hidden * count, one, self.counter)

        several = loop("k", whole, lambda k: rows(k * ROWS, ROWS), self.counter)
        if p.as_int(rest) == 0:
            return several
        last = p.cast(self.counter, p.as_expr(whole * ROWS))
        return seq(several, loop("k", rest, lambda k: rows(last + k, 1), self.counter))


def layer(
    op: Any,
    x: te.Tensor,
    weight: te.Tensor,
    states: Sequence[te.Tensor],
    lengths: te.Tensor | None,
    make: Callable[[Group], Stmt],
    extras: Sequence[te.Tensor | None],
) -> Any:
    """The tensors y and last states of a layer whose steps `make` makes."""
    seq_len, batch, _ = x.shape
    hidden = weight.shape[0]
    given = [e for e in extras if e is not None]
    inputs = [x, weight, *states, *given, *([] if lengths is None else [lengths])]
    shapes = [(seq_len, batch, hidden), *((batch, hidden) for _ in states)]

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        rest = list(ins[2 + len(states) :])
        more = [None if e is None else rest.pop(0) for e in extras]
        return _body(op, ins[: 2 + len(states)], outs, more, rest[0] if rest else None, make)

    return tuple(te.extern(shapes, inputs, body, short_name(op), [str(x.dtype)] * len(shapes)))


def _body(
    op: Any,
    ins: Sequence[Buffer],
    outs: Sequence[Buffer],
    extras: Sequence[Buffer | None],
    lengths: Buffer | None,
    make: Callable[[Group], Stmt],
) -> Stmt:
    x, weight, *initial = ins
    y, *last = outs
    kind, index = accumulator(x.dtype), index_dtype(x, weight)
    batch, hidden = x.shape[1], weight.shape[0]
    alike = 1 if lengths is not None else min(TOGETHER, p.as_int(batch) or TOGETHER)
    cells = [Cell.of(op, len(initial), kind, hidden) for _ in range(alike)]

    def samples(group: Group, first: Any) -> Stmt:
        """All steps of as many samples as there are cells, from `first` on."""
        numbers = {id(cell): first + i for i, cell in enumerate(group.cells)}

        def begin(cell: Cell, j: Var) -> Stmt:
            pairs = zip(cell.states, initial, strict=True)
            return seq(
                *(store(s, [j], p.cast(kind, load(i, numbers[id(cell)], j))) for s, i in pairs)
            )

        def end(cell: Cell, j: Var) -> Stmt:
            pairs = zip(cell.states, last, strict=True)
            return seq(*(store(o, [numbers[id(cell)], j], load(s, j)) for s, o in pairs))

        def steps() -> Stmt:
            count = x.shape[0]
            if lengths is None:
                return loop("s", count, lambda s: step(_at(op, s, count)), index)
            most = p.cast(index, checked(load(lengths, first), count + 1, f"{op.sugar}: lengths"))

            def one(stop: Var) -> Stmt:
                def either(s: Var) -> Stmt:
                    nothing = group.each(lambda c, j: store(y, [s, numbers[id(c)], j], 0))
                    return IfThenElse(s < stop, step(_at(op, s, stop)), nothing)

                return loop("s", count, either, index)

            return let(one, stop=most)

        def step(t: Any) -> Stmt:
            def said(cell: Cell, j: Var) -> Stmt:
                return store(cell.gate, [j], p.cast(kind, load(x, t, numbers[id(cell)], j)))

            def shown(cell: Cell, j: Var) -> Stmt:
                return store(y, [t, numbers[id(cell)], j], load(cell.states[0], j))

            return seq(group.each(said, op.gates), make(group), group.each(shown))

        return seq(group.each(begin), steps(), group.each(end))

    def groups(size: int, count: Any, begin: Any) -> Stmt:
        group = Group(op, weight, extras, index, cells[:size])
        return loop("i0", count, lambda n: samples(group, begin + n * size), index)

    rest = p.as_int(batch % alike)
    parts = [groups(alike, batch // alike, 0)]
    if rest is None:
        done = p.cast(index, batch // alike * alike)
        parts.append(groups(1, batch % alike, done))
    elif rest:
        parts.append(groups(rest, 1, batch - rest))
    buffers = [buffer for cell in cells for buffer in cell.used(op)]
    return with_scratch(buffers, *parts, name=f"{short_name(op)}_steps")


def _at(op: Any, s: Var, count: Any) -> Any:
    """The row of step s."""
    return p.cast(s.dtype, count) - 1 - s if op.reverse else s


def rnn(group: Group) -> Stmt:
    """h' = f(gate)"""

    def one(cell: Cell, j: Var) -> Stmt:
        return store(cell.states[0], [j], group.apply(0, load(cell.gate, j)))

    return seq(group.products(_state, _gate, 0, 1), group.each(one))


def _state(cell: Cell) -> Buffer:
    return cell.states[0]


def _gate(cell: Cell) -> Buffer:
    return cell.gate


def lstm(group: Group) -> Stmt:
    """i, o, f, c' and h', each place of the state by itself."""
    (peephole,), size = group.extras, group.hidden

    def one(cell: Cell, j: Var) -> Stmt:
        h, c = cell.states
        old = load(c, j)

        def gate(number: int, seen: Any = None, place: int = 0) -> Any:
            value = load(cell.gate, size * number + j)
            if peephole is None or seen is None:
                return value
            return value + p.cast(value.dtype, load(peephole, size * place + j)) * seen

        def with_i(i: Var) -> Stmt:
            forget = p.const(1, i.dtype) - i
            if not group.op.input_forget:
                forget = group.apply(0, gate(2, old, 2))
            return let(with_c, m=forget * old + i * group.apply(1, gate(3)))

        def with_c(m: Var) -> Stmt:
            out = group.apply(0, gate(1, m, 1)) * group.op.functions[2].loop(m)
            return seq(store(h, [j], out), store(c, [j], m))

        return let(with_i, i=group.apply(0, gate(0, old, 0)))

    return seq(group.products(_state, _gate, 0, 4), group.each(one))


def gru(group: Group) -> Stmt:
    """z and r first, then what the reset state adds to the third gate."""
    (bias,), size = group.extras, group.hidden
    early = group.op.linear_before_reset

    def begin(cell: Cell, j: Var) -> Stmt:
        value = 0 if bias is None else p.cast(cell.inner.dtype, load(bias, j))
        return store(cell.inner, [j], value)

    def settle(cell: Cell, j: Var) -> Stmt:
        z, r = (group.apply(0, load(cell.gate, size * i + j)) for i in range(2))
        kept = seq(store(cell.gate, [j], z), store(cell.gate, [size + j], r))
        again = load(cell.gate, size + j) * load(cell.states[0], j)
        return kept if early else seq(kept, store(cell.reset, [j], again))

    def one(cell: Cell, j: Var) -> Stmt:
        (h,) = cell.states
        z, r = load(cell.gate, j), load(cell.gate, size + j)
        inside = r * load(cell.inner, j) if early else load(cell.inner, j)
        new = group.apply(1, load(cell.gate, size * 2 + j) + inside)
        return store(h, [j], (p.const(1, h.dtype) - z) * new + z * load(h, j))

    def read(cell: Cell) -> Buffer:
        return cell.states[0] if early else cell.reset

    return seq(
        group.each(begin),
        group.products(_state, _gate, 0, 2),
        group.each(settle),
        group.products(read, lambda c: c.inner, 2, 1),
        group.each(one),
    )
