"""Straight stretches of a function that is not straight as a whole, each one native call.

    lv = call_tir(f, x)          ┐
    lv1 = call_tir(g, lv)        ┘ a Stretch: x -> lv1
    gv = call_packed("h", lv1)     a step
    if c: …                        part of a stretch where its branches could be; else a step, whose
                                   branches have stretches of their own

A stretch whose sizes are open is planned when they are met again: a plan takes longer than its
steps do (`open_steps`). With branches and loops in it, it is planned when they are first met; not
where they have changed time and again, as at each turn of a loop: these would be planned for
nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mlcnb.core.node import FrozenDict
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import definable_vars, symbolic_vars
from mlcnb.relax.analysis.variables import bindings_of, free_vars, leaves, value_uses
from mlcnb.relax.struct_info import ShapeStructInfo, TupleStructInfo
from mlcnb.runtime.graph_call import KEPT, GraphPlans
from mlcnb.runtime.open_steps import Step, prepared, steps_of
from mlcnb.runtime.shapes import Dims
from mlcnb.runtime.whole import Scope, is_known_tensor, is_put, is_whole_binding

if TYPE_CHECKING:
    from mlcnb.runtime.frame import Frame

#: new sizes, one after the other, that are planned for; behind them only what is met again is
MOST_NEW = 8
#: what a sequence is run as
Pieces = list[Any]
#: the values of a stretch's symbolic sizes, None where one has none
Sizes = tuple[int | None, ...]


class Stretch:
    """Bindings that run as one native call.

    Args:
        bindings: in order, each a kernel's call, a view, something that costs nothing, or a branch
            between such.
        outputs: their variables that something after them reads.
        kernels: of the executable; functions: of its module.
    """

    def __init__(
        self,
        bindings: Sequence[rx.Binding],
        outputs: Sequence[rx.Var],
        kernels: Mapping[str, Any],
        functions: Mapping[Any, Any],
    ) -> None:
        self.bindings, self.outputs = tuple(bindings), tuple(outputs)
        self.params = tuple(free_vars(rx.SeqExpr((rx.BindingBlock(self.bindings),), rx.Tuple(()))))
        info = TupleStructInfo(tuple(v.struct_info for v in self.outputs))  # type: ignore[misc]
        seq = rx.SeqExpr((rx.BindingBlock(self.bindings),), rx.Tuple(self.outputs))
        function = rx.Function(self.params, seq, info, True, FrozenDict())
        self.sizes = tuple(_sizes(function))
        self.plans = GraphPlans(function, kernels, functions)
        #: the sizes that were met last, and the native way in for them
        self.fast: tuple[Sizes, Callable[..., Any] | None] = ((), None)
        #: sizes that were met once
        self.met: OrderedDict[Sizes, None] = OrderedDict()
        #: how many that were met last were new, one after the other
        self.changed = 0
        self.kernel = _last_kernel(bindings)
        #: kernels and views, which steps run nearly as fast: rows that are put into a room are not
        self.is_straight = self.plans.straight and not any(
            is_put(getattr(b, "value", None)) for b in bindings
        )
        #: its bindings one by one, made when first needed
        self.steps: list[Step] | None = None

    def __call__(self, frame: Frame) -> None:
        """Bind the outputs in a frame; by single steps where sizes are new all the time."""
        env, known = frame.env, frame.dims
        values = [env[v] for v in self.params]
        sizes = tuple([known.get(v) for v in self.sizes])
        met, native = self.fast
        results = native(*values) if native is not None and met == sizes else NotImplemented
        if results is NotImplemented:
            self.changed = self.changed + 1 if sizes and self.is_new(sizes) else 0
            if self.changed > (0 if self.is_straight else MOST_NEW):
                return self.by_steps(frame)
            dims: Dims = {v: known[v] for v in self.sizes if v in known}
            if not self.plans.runs(dims):
                return self.by_steps(frame)
            results, native = self.plans.lent(values, dims, once=self.changed > 0)
            self.fast = sizes, native
        env.update(zip(self.outputs, results, strict=True))
        frame.kernel = self.kernel

    def by_steps(self, frame: Frame) -> None:
        """Bind one after the other."""
        if self.steps is None:
            self.steps = steps_of(self.bindings, frame.vm.executable.direct)
        for step in self.steps:
            step(frame)

    def is_new(self, sizes: Sizes) -> bool:
        """Whether these sizes are not among those met last; from now on they are."""
        found = sizes in self.met
        self.met[sizes] = None
        self.met.move_to_end(sizes)
        if len(self.met) > KEPT:
            self.met.popitem(last=False)
        return not found


def pieces(
    seq: rx.SeqExpr,
    known: Collection[PrimVar],
    kernels: Mapping[str, Any],
    functions: Mapping[Any, Any],
) -> Pieces:
    """A sequence as Stretches and single bindings, in order.

    known: the symbolic sizes that have values where it begins.
    """
    if not all(k.is_native for k in kernels.values()):
        return list(seq.bindings)
    found: Pieces = []
    needed = set(leaves(seq.body))
    local = {b.var: b for b in seq.bindings if isinstance(_value(b), rx.Function)}
    for is_run, bindings in reversed(_runs(seq, set(known), functions)):
        outputs = [b.var for b in bindings if b.var in needed]
        used = dict.fromkeys(v for b in bindings for v in value_uses(b.value))
        needed.update(used)
        if is_run:
            called = [local[v] for v in used if v in local]
            found.append(Stretch([*called, *bindings], outputs, kernels, functions))
        else:
            found.extend(map(prepared, reversed(bindings)))
    return found[::-1]


def _runs(
    seq: rx.SeqExpr, known: set[PrimVar], functions: Mapping[Any, Any]
) -> list[tuple[bool, list[rx.Binding]]]:
    """The bindings in order, cut where a straight run with a kernel begins or ends."""
    marked = list(_marked(seq, known, functions))
    runs = [(k, [b for _, b in run]) for k, run in groupby(marked, lambda m: m[0])]
    return [(k and any(_is_call(b) for b in run), run) for k, run in runs]


def _marked(
    seq: rx.SeqExpr, known: set[PrimVar], functions: Mapping[Any, Any]
) -> Iterator[tuple[bool, rx.Binding]]:
    """Each binding, and whether it is straight where it stands."""
    local: dict[rx.Var, rx.Function] = {}
    for binding in seq.bindings:
        value = _value(binding)
        if isinstance(value, rx.Function):
            local[binding.var] = value
            yield False, binding
            continue
        used = {v for v in value_uses(value) if isinstance(v, rx.Var)}
        around = {v for f in used & local.keys() for v in free_vars(local[f])}
        read = (used | around) - local.keys()
        placed = all(is_known_tensor(v.struct_info) for v in read) and _is_placed(binding.var)
        scope = Scope(functions, local)
        yield placed and is_whole_binding(binding, known, scope, None, is_inside=False), binding
        if isinstance(binding, rx.MatchCast):
            known.update(definable_vars(binding.struct_info))


def _is_placed(var: rx.Var) -> bool:
    """True for tensors that a plan knows the place of, and for sizes."""
    info = var.struct_info
    return is_known_tensor(info) or (isinstance(info, ShapeStructInfo) and info.values is not None)


def _value(binding: rx.Binding) -> Any:
    return binding.value  # type: ignore[attr-defined]


def _is_call(binding: rx.Binding) -> bool:
    value = _value(binding)
    is_kernel = isinstance(value, rx.Call) and getattr(value.op, "name", "") == "relax.call_tir"
    return is_kernel or isinstance(value, rx.If) or _is_local_call(value)


def _is_local_call(value: Any) -> bool:
    return isinstance(value, rx.Call) and isinstance(value.op, rx.Var)


def _last_kernel(bindings: Sequence[rx.Binding]) -> str | None:
    calls = [_value(b) for b in bindings if _is_call(b) and isinstance(_value(b), rx.Call)]
    if not calls:
        return None
    last = calls[-1]
    return f"function: {last.op.name_hint}" if _is_local_call(last) else last.args[0].name_hint


def _sizes(function: rx.Function) -> Iterator[PrimVar]:
    """The symbolic sizes that a stretch speaks of, each once."""
    infos: list[Any] = [p.struct_info for p in function.params]
    for binding in bindings_of(function):
        shapes = [n for n in leaves(binding.value) if isinstance(n, rx.ShapeExpr)]
        infos += [binding.var.struct_info, *getattr(binding.value, "sinfo_args", ()), *shapes]
    yield from dict.fromkeys(v for info in infos for v in symbolic_vars(info))
