"""ConvertToDataflow: runs of pure bindings become dataflow blocks.

lv = R.exp(x)                         with R.dataflow():
gv = R.add(lv, x)           ->            lv = R.exp(x)
                                          gv = R.add(lv, x)
                                          R.output(gv)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain, groupby
from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.purity import has_effects
from mlcnb.relax.analysis.variables import sequences_of, use_counts, value_uses
from mlcnb.relax.emitter import block_is_dataflow
from mlcnb.relax.infer import Functions
from mlcnb.relax.mutator import Renamer
from mlcnb.relax.transform.normalize import merged

Run = list[rx.Binding]


class ConvertToDataflow(FunctionPass):
    """Put runs of pure bindings into dataflow blocks, where the graph passes work.

    Runs of fewer than `min_size` bindings stay; shapes and dtypes play no part, nothing is refused.
    """

    #: shorter runs stay as they are
    min_size: int = 2

    def transform_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> rx.Function:
        """Plain blocks of the function and of its branches."""
        return convert_to_dataflow(func, mod.functions, self.min_size)


def convert_to_dataflow(
    func: rx.Function,
    functions: Functions | None = None,
    min_size: int = 2,
    names: Mapping[rx.Var, str] | None = None,
) -> rx.Function:
    """`func` with runs of at least `min_size` pure bindings in dataflow blocks.

    names: new names for variables that are bound, given on the way.
    """
    cutter = _Cutter(functions or {}, min_size)
    total = use_counts(func)
    given = names or {}
    new: dict[rx.Var, rx.Var] = {v: rx.Var(n, v.struct_info, v.span) for v, n in given.items()}
    for run in cutter.runs_below(func.body):
        inside = Counter(chain.from_iterable(value_uses(b.value) for b in run))
        for binding in run:
            var = binding.var
            if inside.get(var, 0) == total.get(var, 0):
                name = given.get(var, var.name_hint)
                new[var] = rx.DataflowVar(name, var.struct_info, var.span)
    return _Converter(new, cutter).rewrite(func)


class _Cutter:
    """Cuts plain blocks into runs."""

    def __init__(self, functions: Functions, min_size: int) -> None:
        self.functions, self.min_size = functions, min_size
        #: operator -> whether a call of it is pure
        self.known: dict[rx.Op, bool] = {}

    def is_dataflow(self, run: Run) -> bool:
        """True for a run of pure bindings that is long enough."""
        return len(run) >= self.min_size and self.is_pure(run[0])

    def is_pure(self, binding: rx.Binding) -> bool:
        """True for a binding that may stand in a dataflow block."""
        value = binding.value
        if type(value) is rx.Call and type(value.op) is rx.Op:
            found = self.known.get(value.op)
            if found is None:
                found = self.known[value.op] = not has_effects(value, self.functions)
            return found
        return not isinstance(value, rx.If | rx.Function) and not has_effects(value, self.functions)

    def runs(self, block: rx.BindingBlock) -> list[Run]:
        """The bindings of a block, cut where purity changes."""
        return [list(run) for _, run in groupby(block.bindings, self.is_pure)]

    def runs_below(self, seq: rx.SeqExpr) -> Iterator[Run]:
        """Every run that becomes a dataflow block, in branches too."""
        for inner in sequences_of(seq):
            for block in inner.blocks:
                if not block_is_dataflow(block):
                    yield from filter(self.is_dataflow, self.runs(block))


class _Converter(Renamer):
    def __init__(self, local: dict[rx.Var, rx.Var], cutter: _Cutter) -> None:
        super().__init__(local)
        self.cutter = cutter

    def _sequence(self, seq: Any) -> rx.SeqExpr:
        made = super()._sequence(seq)
        blocks: list[rx.BindingBlock] = []
        for block in made.blocks:
            blocks.extend([block] if block_is_dataflow(block) else self.cut(block))
        return replace(made, blocks=tuple(blocks))

    def cut(self, block: rx.BindingBlock) -> list[rx.BindingBlock]:
        """A plain block as its runs."""
        runs = self.cutter.runs(block)
        if not any(map(self.cutter.is_dataflow, runs)):
            return [block]
        kinds = [rx.DataflowBlock if self.cutter.is_dataflow(r) else rx.BindingBlock for r in runs]
        made = (kind(tuple(run)) for kind, run in zip(kinds, runs, strict=True))
        return list(merged(tuple(made)))
