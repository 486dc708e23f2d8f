"""Schedules: a loop program changed one legal step at a time.

schedule      the class that a person holds: `from mlcnb.tir.schedule import Schedule`
offers/       what can be done here, what in place of a refused step
analysis/     questions about programs, by TVM's names
primitives/   a legal change of a program each, found by lying there
edit/         programs taken apart and put together: what primitives share
legality/     whether a step may be made, and the judge who remembers why
record/       the program as a tree, handles, snapshots, the trace

Each knows those below it (`pyproject.toml`).
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.tir.schedule.schedule": "Schedule",
        "mlcnb.tir.schedule.free_state": "ScheduleState",
        "mlcnb.tir.schedule.record.history": "Step",
        "mlcnb.tir.schedule.record.handles": "BlockRV SBlockRV=BlockRV LoopRV ExprRV",
        "mlcnb.tir.schedule.record.trace": "Trace",
        "mlcnb.tir.schedule.record.instruction": "Instruction InstructionKind",
        "mlcnb.tir.schedule.record.state": "StmtSRef ScheduleDebugMask CachedFlags",
        "mlcnb.tir.schedule.legality.flags": (
            "BlockScope=SRefScope Dependency=SRefDependency DepKind"
        ),
        "mlcnb.tir.schedule.offers.legal": "legal_steps LegalSteps",
        "mlcnb.tir.schedule.legality.counterexample": "CounterExample",
        "mlcnb.core.errors": "ScheduleError",
    },
    submodules=("analysis", "testing", "transform"),
    elsewhere={"mlcnb.tir.schedule.record": "state"},
)
