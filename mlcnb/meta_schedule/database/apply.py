"""MetaScheduleApplyDatabase: loop functions as the best records of a database schedule them."""

from __future__ import annotations

import warnings
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.node import FrozenDict, replace
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.meta_schedule.database import JSONDatabase
from mlcnb.meta_schedule.database.database import Database
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc


class MetaScheduleApplyDatabase(PrimFuncPass):
    """Schedule each loop function that the database has a record of for the current target.

    A record is of the same loops, shapes and dtypes, whatever the names.

    Args:
        work_dir: the folder of a JSONDatabase; default: the database of the innermost `with`.
        enable_warning: warn of each function without a record.
        target: what the records are for; default: the current one, else "llvm".

    Raises:
        MLCError: there is no database.
        ScheduleError: the steps of a record are not legal for its workload.
    """

    work_dir: str | None = None
    enable_warning: bool = False
    target: Any = None

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """All loop functions, with one database."""
        if self.work_dir is None:
            return super().transform_module(mod, ctx)
        with JSONDatabase(work_dir=self.work_dir, allow_missing=False):
            return super().transform_module(mod, ctx)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """The function scheduled by its best record; as it was where there is none."""
        database = Database.current()
        if database is None:
            raise MLCError(
                "MetaScheduleApplyDatabase: no database",
                hint="`with database:` around it, or work_dir=…",
            )
        where = self.target or Target.current() or "llvm"
        record = database.query_tuning_record(func, where)
        if record is None:
            if self.enable_warning:
                name = next(k.name_hint for k, f in mod.items() if f is func)
                warnings.warn(f"MetaScheduleApplyDatabase: no record of {name}", stacklevel=2)
            return func
        done = record.schedule().mod[record.workload.entry]
        ctx.note(f"{len(record)} steps")
        return replace(done, attrs=FrozenDict({**func.attrs, "tir.is_scheduled": True}))
