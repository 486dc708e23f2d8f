"""JSONDatabase: two files with a line of JSON for each workload and each record.

    database_workload.json          [module as text]
    database_tuning_record.json     [number of the workload, [trace, run_secs, target, arguments]]

A line is added when something is committed, so that nothing is lost when a process is ended. What a
line says is read as data: nothing in it is run but schedule primitives, when it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlcnb.core.errors import MLCError, ModelError
from mlcnb.meta_schedule.database.database import MemoryDatabase
from mlcnb.meta_schedule.database.record import TuningRecord, Workload

#: names of the files in a work_dir, as TVM has them
WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"


class JSONDatabase(MemoryDatabase):
    """Records in two files.

    Args:
        path_workload: file of the workloads.
        path_tuning_record: file of the records.
        work_dir: instead of both: the folder that holds them under their usual names.
        allow_missing: make what is not there; else it is refused.
        module_equality: "structural".

    Raises:
        MLCError: neither the files nor a folder are given, or one is missing and may not be.
        ModelError: a line is damaged, saying which.
    """

    def __init__(
        self,
        path_workload: Any = None,
        path_tuning_record: Any = None,
        *,
        work_dir: Any = None,
        allow_missing: bool = True,
        module_equality: str = "structural",
    ) -> None:
        super().__init__(module_equality)
        if work_dir is not None:
            path_workload = path_workload or Path(work_dir) / WORKLOADS
            path_tuning_record = path_tuning_record or Path(work_dir) / RECORDS
        if path_workload is None or path_tuning_record is None:
            raise MLCError("JSONDatabase: where?", hint='pass work_dir="…", or both files')
        self.path_workload = Path(path_workload)
        self.path_tuning_record = Path(path_tuning_record)
        for path in (self.path_workload, self.path_tuning_record):
            _prepare(path, allow_missing)
        # a workload's number is that of its line; two lines may hold the same one
        self._lines: list[str] = []
        for made in _lines(self.path_workload, Workload.from_json):
            self._workloads.setdefault(made.meaning, made)
            self._lines.append(made.meaning)
        self._records = _lines(self.path_tuning_record, self._record)

    def _record(self, line: Any) -> TuningRecord:
        if not isinstance(line, list) or len(line) != 2:
            raise ModelError("[number of the workload, record] is expected")
        number, written = line
        known = [self._workloads[meaning] for meaning in self._lines]
        if type(number) is not int or not 0 <= number < len(known):
            raise ModelError(f"there is no workload {number!r}: {len(known)} are kept")
        return TuningRecord.from_json(written, known[number])

    def commit_workload(self, mod: Any) -> Workload:
        """The workload that is kept of this function; a new one is a new line."""
        made = super().commit_workload(mod)
        if made.meaning not in self._lines:
            _append(self.path_workload, made.as_json())
            self._lines.append(made.meaning)
        return made

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Keep a record: a new line."""
        super().commit_tuning_record(record)
        number = self._lines.index(record.workload.meaning)
        _append(self.path_tuning_record, [number, record.as_json()])


def _prepare(path: Path, allow_missing: bool) -> None:
    if path.exists():
        return
    if not allow_missing:
        raise MLCError(f"JSONDatabase: no file {path}", hint="allow_missing=True makes it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def _lines(path: Path, read: Callable[[Any], Any]) -> list[Any]:
    made = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            made.append(read(json.loads(line)))
        except (ValueError, MLCError) as error:
            raise ModelError(
                f"JSONDatabase: {path}, line {number}: {error}",
                hint="take the line out, or begin with another file",
            ) from error
    return made


def _append(path: Path, value: Any) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(value, allow_nan=False) + "\n")
