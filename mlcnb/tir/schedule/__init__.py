"""Schedules: a loop program changed one legal step at a time. `from mlcnb.tir.schedule import
Schedule`.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.tir.schedule.schedule": "Schedule ScheduleState",
        "mlcnb.tir.schedule.history": "Step",
        "mlcnb.tir.schedule.handles": "BlockRV SBlockRV=BlockRV LoopRV ExprRV",
        "mlcnb.tir.schedule.trace": "Trace",
        "mlcnb.tir.schedule.instruction": "Instruction InstructionKind",
        "mlcnb.tir.schedule.state": "StmtSRef ScheduleDebugMask CachedFlags",
        "mlcnb.tir.schedule.flags": ("BlockScope=SRefScope Dependency=SRefDependency DepKind"),
        "mlcnb.tir.schedule.legal": "legal_steps LegalSteps",
        "mlcnb.tir.schedule.counterexample": "CounterExample",
        "mlcnb.core.errors": "ScheduleError",
    },
    submodules=("analysis", "testing", "state", "transform"),
)
