"""What tests of schedules compare with, by TVM's names.

assert_structural_equal_ignore_global_symbol(expected, sch.mod["main"])
verify_trace_roundtrip(sch, mod=func)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.record.trace import Trace
from mlcnb.tir.schedule.schedule import Schedule


def assert_structural_equal_ignore_global_symbol(
    func1: PrimFunc, func2: PrimFunc, *args: Any, **kwargs: Any
) -> None:
    """That two functions are the same but for their names.

    Raises:
        AssertionError: they are not; says where.
    """
    one, two = (f.with_attr("global_symbol", "") for f in (func1, func2))
    assert_structural_equal(one, two, *args, **kwargs)


def verify_trace_roundtrip(
    sch: Schedule,
    mod: PrimFunc | IRModule,
    *,
    debug_mask: str | int = "all",
    text_format: str | Sequence[str] = ("python", "json"),
) -> Schedule:
    """That the schedule's trace, done again on `mod`, gives the same program and the same trace.

    Args:
        sch: the schedule that is checked.
        mod: the program that it began with.
        debug_mask: accepted for TVM's sake.
        text_format: "json" reads the trace back from its JSON, "python" does its instructions as
            they are.

    Returns:
        The other schedule.

    Raises:
        AssertionError: the programs or the traces differ.
        ScheduleError: there is no such format.
    """
    again = sch
    for form in (text_format,) if isinstance(text_format, str) else text_format:
        again = Schedule(mod, debug_mask=debug_mask, check=sch.check)
        if form == "json":
            Trace.apply_json_to_schedule(json.loads(json.dumps(sch.trace.as_json())), again)
        elif form == "python":
            sch.trace.apply_to_schedule(again)
        else:
            raise ScheduleError(f"no form {form!r} of a trace", hint="python or json")
        assert_structural_equal(again.mod, sch.mod)
        if str(again.trace) != str(sch.trace):
            raise AssertionError(f"the trace was\n{sch.trace}\nand done again is\n{again.trace}")
    return again
