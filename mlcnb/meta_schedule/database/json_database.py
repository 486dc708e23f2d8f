"""JSONDatabase: two files with a line of JSON for each workload and each record.

    database_workload.json          [module as text]
    database_tuning_record.json     [number of the workload, [trace, run_secs, target, arguments]]

A line is added when something is committed, by one process at a time, so that nothing is lost when
a process is ended, and several may write. What a line says is read as data: nothing in it is run
but schedule primitives, when it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlcnb.core.errors import MLCError, ModelError
from mlcnb.core.files import append_line, locked
from mlcnb.core.means import within_means
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
        self._read = {self.path_workload: 0, self.path_tuning_record: 0}
        self._catch_up()

    def _catch_up(self) -> None:
        """Read what has been added to the files, by whomever, since they were read.

        Records first: the workloads of all that are there by then have been written.
        """
        records = _whole_lines(self.path_tuning_record)
        for made in self._new(
            self.path_workload, _whole_lines(self.path_workload), Workload.from_json
        ):
            self._workloads.setdefault(made.meaning, made)
            self._lines.append(made.meaning)
        self._records += self._new(self.path_tuning_record, records, self._record)

    def _new(self, path: Path, whole: list[bytes], read: Callable[[Any], Any]) -> list[Any]:
        """What the lines say that were not read yet."""
        made = []
        for number, line in enumerate(whole[self._read[path] :], self._read[path] + 1):
            if line.strip():
                try:
                    with within_means("what it says", ModelError):
                        made.append(read(json.loads(line)))
                except (ValueError, MLCError) as error:
                    raise ModelError(
                        f"JSONDatabase: {path}, line {number}: {error}",
                        hint="take the line out, or begin with another file",
                    ) from error
        self._read[path] = len(whole)
        return made

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
        made = Workload.of(mod)
        if made.meaning not in self._lines:
            with locked(self.path_tuning_record):
                self._catch_up()
                if made.meaning not in self._lines:
                    self._add(self.path_workload, made.as_json())
                    self._lines.append(made.meaning)
        return super().commit_workload(mod)

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Keep a record: a new line."""
        written = record.as_json()
        with locked(self.path_tuning_record):
            self._catch_up()
            super().commit_tuning_record(record)
            try:
                number = self._lines.index(record.workload.meaning)
                self._add(self.path_tuning_record, [number, written])
            except MLCError:
                self._records.pop()
                raise

    def _add(self, path: Path, value: Any) -> None:
        """A line, which counts as read."""
        try:
            append_line(path, json.dumps(value, allow_nan=False))
        except OSError as error:
            raise MLCError(
                f"JSONDatabase: {path} cannot be written: {error.strerror or error}",
                hint="is there room on its disk? Nothing was added",
            ) from error
        self._read[path] += 1


def _whole_lines(path: Path) -> list[bytes]:
    """The lines that have an end: another is still being written, or its process was ended."""
    return path.read_bytes().split(b"\n")[:-1]


def _prepare(path: Path, allow_missing: bool) -> None:
    if path.exists():
        return
    if not allow_missing:
        raise MLCError(f"JSONDatabase: no file {path}", hint="allow_missing=True makes it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
