"""DisallowDynamicLoop: no candidates with loops whose number of iterations is not known."""

from __future__ import annotations

from mlcnb.ir.prim_ops import as_int
from mlcnb.meta_schedule.postproc.postprocessor import Postproc
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import For


class DisallowDynamicLoop(Postproc):
    """Every extent is a number."""

    kind = "disallow-dynamic-loop"

    def apply(self, sch: Schedule) -> bool:
        """Whether it is so."""
        loops = (n for n in statements(sch.mod[sch.func_working_on].body) if isinstance(n, For))
        return all(as_int(n.extent) is not None for n in loops)
