"""Databases: the records of workloads, and the best of them for a loop function at hand.

MemoryDatabase        as long as the process lives
JSONDatabase          two files of lines (json_database.py)
OrderedUnionDatabase  the first of several that has a record
with db:              mlc.compile and MetaScheduleApplyDatabase ask this one
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from mlcnb.codegen.llvm.target_machine import Cpu
from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.ir.module import IRModule
from mlcnb.meta_schedule.database.in_use import current, databases
from mlcnb.meta_schedule.database.record import TuningRecord, Workload
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule


class Database(display.Shown, ABC):
    """What every database does. A subclass keeps workloads and records."""

    @property
    @abstractmethod
    def workloads(self) -> Sequence[Workload]:
        """The workloads, in the order in which they came."""

    @abstractmethod
    def get_all_tuning_records(self) -> Sequence[TuningRecord]:
        """The records, in the order in which they came."""

    @abstractmethod
    def commit_workload(self, mod: Any) -> Workload:
        """The workload of a PrimFunc or of a module with one; a new one is kept.

        Raises:
            MLCError: it is no single loop function.
        """

    @abstractmethod
    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Keep a record.

        Raises:
            MLCError: its workload is not this database's (`commit_workload` first).
        """

    def commit(self, sch: Schedule, run_secs: Any, target: Any = None) -> TuningRecord:
        """Keep a schedule and what its runs took: the workload is what the schedule began with.

        Args:
            sch: a schedule of one loop function.
            run_secs: seconds of a run, or of several.
            target: what it ran on; default: the current target, else this computer's CPU.

        Raises:
            MLCError: the schedule is of several functions.
            ScheduleError: its steps cannot be done again from the start.
        """
        runs = list(run_secs) if isinstance(run_secs, Sequence) else [run_secs]
        where = target or Target.current() or "llvm"
        record = TuningRecord(sch.trace, Workload.of(sch.steps[0].mod), runs, where)
        record.schedule()  # it can be done again, or is not kept
        record.workload = self.commit_workload(record.workload.mod)
        self.commit_tuning_record(record)
        return record

    def has_workload(self, mod: Any) -> bool:
        """True if the workload of this function is kept."""
        return self.find_workload(mod) is not None

    def find_workload(self, mod: Any) -> Workload | None:
        """The workload that is kept of a function equal to this one, or None."""
        meaning = Workload.of(mod).meaning
        return next((w for w in self.workloads if w.meaning == meaning), None)

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """The fastest records of a workload, at most `top_k`; those without runs are left out.

        Raises:
            MLCError: top_k is negative.
        """
        if top_k < 0:
            raise MLCError(f"get_top_k: top_k is {top_k}", hint="pass 0 or more")
        timed = [(s, r) for r in self.records_of(workload) if (s := r.seconds) is not None]
        return [r for _, r in sorted(timed, key=lambda pair: pair[0])[:top_k]]

    def records_of(self, workload: Workload) -> list[TuningRecord]:
        """The records of a workload, in the order in which they came."""
        meaning = workload.meaning
        return [r for r in self.get_all_tuning_records() if r.workload.meaning == meaning]

    def query_tuning_record(
        self, mod: Any, target: Any = None, workload_name: str | None = None
    ) -> TuningRecord | None:
        """The fastest record of a function, or None.

        Args:
            mod: a PrimFunc, or a module with one.
            target: only records of this target; default: of any.
            workload_name: for TVM's callers; names tell nothing apart here.
        """
        found = self.find_workload(mod)
        if found is None:
            return None
        wanted = None if target is None else Target(target)
        best = self.get_top_k(found, len(self))
        return next((r for r in best if wanted is None or _is_for(r.target, wanted)), None)

    def query_schedule(
        self, mod: Any, target: Any = None, workload_name: str | None = None
    ) -> Schedule | None:
        """A schedule with the steps of the fastest record done, or None."""
        record = self.query_tuning_record(mod, target, workload_name)
        return None if record is None else record.schedule()

    def query_ir_module(
        self, mod: Any, target: Any = None, workload_name: str | None = None
    ) -> IRModule | None:
        """The workload's module as the fastest record schedules it, or None."""
        sch = self.query_schedule(mod, target, workload_name)
        return None if sch is None else sch.mod

    def query(
        self,
        mod: Any,
        target: Any = None,
        *,
        workload_name: str | None = None,
        kind: str = "schedule",
    ) -> Any:
        """The fastest record ("record"), its schedule ("schedule") or its module ("ir_module").

        Raises:
            MLCError: another kind.
        """
        kinds = {
            "record": self.query_tuning_record,
            "schedule": self.query_schedule,
            "ir_module": self.query_ir_module,
        }
        if kind not in kinds:
            raise MLCError(f"query: no kind {kind!r}", hint=f"one of {', '.join(kinds)}")
        return kinds[kind](mod, target, workload_name)

    @staticmethod
    def current() -> Database | None:
        """The database of the innermost `with`, or None."""
        return current()

    def __enter__(self) -> Database:
        databases.set((*databases.get(), self))
        return self

    def __exit__(self, *_args: Any) -> None:
        databases.set(databases.get()[:-1])

    def __len__(self) -> int:
        return len(self.get_all_tuning_records())

    def __iter__(self) -> Iterator[TuningRecord]:
        return iter(self.get_all_tuning_records())

    def __bool__(self) -> bool:
        return True  # one that is empty is a database as well


def _is_for(measured: Target | None, wanted: Target) -> bool:
    """Whether a record of one target holds for another: this CPU by its name is this CPU."""
    if measured is None or measured == wanted:
        return True
    if {measured.kind, wanted.kind} != {"llvm"}:
        return False
    return _named(measured) == _named(wanted)


def _named(target: Target) -> Target:
    """The target with the name of the CPU, where that is this one."""
    named = {**target.export(), "mcpu": Cpu.host().cpu}
    return Target(named) if target.mcpu == "host" else target


class MemoryDatabase(Database):
    """Records that are kept as long as the process lives."""

    def __init__(self, module_equality: str = "structural") -> None:
        check_equality(module_equality)
        self._workloads: dict[str, Workload] = {}
        self._records: list[TuningRecord] = []

    @property
    def workloads(self) -> Sequence[Workload]:
        """In the order in which they came."""
        return tuple(self._workloads.values())

    def get_all_tuning_records(self) -> Sequence[TuningRecord]:
        """In the order in which they came."""
        return tuple(self._records)

    def commit_workload(self, mod: Any) -> Workload:
        """The workload that is kept of this function from now on."""
        made = Workload.of(mod)
        return self._workloads.setdefault(made.meaning, made)

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Keep a record; its workload must be here."""
        if record.workload.meaning not in self._workloads:
            raise MLCError(
                f"the workload {record.workload.name!r} of this record is not kept here",
                hint="workload=db.commit_workload(mod), or db.commit(sch, run_secs)",
            )
        self._records.append(record)


class OrderedUnionDatabase(Database):
    """Several databases as one: the first that has a record for a function gives it.

    What is committed goes to the first.
    """

    def __init__(self, *databases: Database) -> None:
        if not databases:
            raise MLCError("a union of no databases", hint="pass one or more")
        self.databases = databases

    @property
    def workloads(self) -> Sequence[Workload]:
        """Those of all databases, each once."""
        known = {w.meaning: w for db in reversed(self.databases) for w in db.workloads}
        return tuple(known.values())

    def get_all_tuning_records(self) -> Sequence[TuningRecord]:
        """Those of all databases, one after the other."""
        return tuple(r for db in self.databases for r in db.get_all_tuning_records())

    def commit_workload(self, mod: Any) -> Workload:
        """Kept in the first database."""
        return self.databases[0].commit_workload(mod)

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Kept in the first database."""
        self.databases[0].commit_tuning_record(record)

    def query_tuning_record(
        self, mod: Any, target: Any = None, workload_name: str | None = None
    ) -> TuningRecord | None:
        """The fastest of the first database that has one."""
        found = (db.query_tuning_record(mod, target, workload_name) for db in self.databases)
        return next((r for r in found if r is not None), None)


def check_equality(module_equality: str) -> None:
    """Refuse TVM's other ways to compare workloads."""
    if module_equality != "structural":
        raise MLCError(
            f"no module equality {module_equality!r} here",
            hint='"structural": functions are one workload where their loops compute the same',
        )
