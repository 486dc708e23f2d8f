"""A software pipeline whose copies run on while others compute: groups of them, and waits.

In each step one group is issued, and who needs it waits until all but so many have arrived; see
`inject_software_pipeline`, of which this is a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute, unmarked
from mlcnb.tir.op.calls import ptx_commit_group, ptx_wait_group
from mlcnb.tir.transform.pipeline_dependences import Touched, refusal

#: annotations of a loop that is a pipeline
STAGE = "software_pipeline_stage"
ORDER = "software_pipeline_order"
ASYNC = "software_pipeline_async_stages"
#: key of the attribute around what an asynchronous stage does
ASYNC_SCOPE = "async_scope"


def waits_for(
    func: PrimFunc,
    loop: s.For,
    stages: Sequence[int],
    late: Sequence[int],
    touched: Sequence[Touched],
) -> dict[int, int]:
    """For each statement that needs asynchronous copies how many steps ago they were issued.

    Raises:
        PassError: it is no step ago, so that nothing could run meanwhile.
    """
    found: dict[int, int] = {}
    for a in late:
        for b in range(a + 1, len(stages)):
            if not touched[a].conflicts(touched[b]):
                continue
            apart = stages[b] - stages[a]
            if apart < 1:
                raise refusal(
                    func,
                    loop,
                    f"has statement {b} in the same stage as statement {a}, whose copies are "
                    "asynchronous and which it needs",
                    "what needs asynchronous copies belongs to a later stage",
                )
            found[b] = min(apart, found.get(b, apart))
    return found


@dataclass(frozen=True)
class Asynchronous:
    """A pipeline with asynchronous copies, as steps: in each one group of them is issued.

    waits: see `waits_for`.
    """

    loop: s.For
    stmts: Sequence[s.Stmt]
    stages: Sequence[int]
    order: Sequence[int]
    late: Sequence[int]
    waits: dict[int, int]

    def steps(self) -> Iterator[s.Stmt]:
        """What fills the pipeline; then a loop in which the last statements run in each step."""
        loop, kind, depth = self.loop, self.loop.loop_var.dtype, max(self.stages)
        extent = p.fitted(kind, loop.extent)
        for wall in range(depth):
            active = [k for k, stage in enumerate(self.stages) if wall >= stage]
            yield from self.step(
                active, [p.const(wall - stage, kind) for stage in self.stages], extent
            )
        fresh = Var(loop.loop_var.name, kind)
        places = [fresh + (depth - stage) for stage in self.stages]
        body = s.seq(*self.step(range(len(self.stmts)), places, extent, depth))
        rest = unmarked(loop, STAGE, ORDER, ASYNC)
        yield replace(rest, loop_var=fresh, min=p.const(0, loop.min.dtype), body=body)
        if not self.waits:  # what comes after the loop may need them
            yield s.Evaluate(ptx_wait_group(0))

    def step(
        self, active: Sequence[int], places: Sequence[PrimExpr], extent: PrimExpr, last: int = -1
    ) -> Iterator[s.Stmt]:
        """What runs together: statements of a stage `last` have such an iteration certainly."""
        apart = [self.waits[k] for k in active if k in self.waits]
        if apart:
            yield s.Evaluate(ptx_wait_group(min(apart) - 1))
        open_copies = [k for k in active if k in self.late]
        for k in sorted(active, key=lambda k: self.order[k]):
            stmt = self.stmts[k]
            if k in self.late:
                stmt = s.AttrStmt(p.const(0), ASYNC_SCOPE, p.const(1), stmt)
            if self.stages[k] == last:
                place = p.cast(self.loop.loop_var.dtype, self.loop.min + places[k])
                yield substitute(stmt, {self.loop.loop_var: place})
            else:
                yield from at_step(self.loop, stmt, places[k], extent)
            if k in open_copies:
                open_copies.remove(k)
                if not open_copies:
                    yield s.Evaluate(ptx_commit_group())


def at_step(loop: s.For, stmt: s.Stmt, step: PrimExpr, extent: PrimExpr) -> Iterator[s.Stmt]:
    """The statement in one step of the loop, if there is such a step."""
    runs = p.less(step, extent)
    made = substitute(stmt, {loop.loop_var: p.cast(loop.loop_var.dtype, loop.min + step)})
    if isinstance(runs, e.IntImm):
        if runs.value:
            yield made
    else:
        yield s.IfThenElse(runs, made)
