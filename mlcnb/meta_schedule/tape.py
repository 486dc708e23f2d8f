"""Tape: what a search was told from outside, so that it can be played again without measuring.

    found = mlc.tune(func, seconds=30)
    found.save("tuning.json")
    again = ms.replay_tuning("tuning.json")      the same trials, ratios and winner, in a second

All that a search draws follows from its seed; the rest is told: what runs took, what time it was,
when it was stopped. A tape is plain data, read as such.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlcnb.core.errors import MLCError, ModelError
from mlcnb.core.means import within_means

Answers = list[dict[str, Any]]
#: fields of a job that do not tell what is asked
_ASIDE = ("args", "threads")


class Tape:
    """Records, or plays what was recorded.

    Args:
        recorded: what `as_json` gave: it is played. Default: record.
    """

    def __init__(self, recorded: dict[str, Any] | None = None) -> None:
        self.head: dict[str, Any] = {}
        self.clock: list[float] = []
        self.answers: list[list[Any]] = []
        self.stopped: list[int] | None = None
        self.is_playing = recorded is not None
        self._at, self._was_stopped = [0, 0], False
        if recorded is not None:
            try:
                self.head, self.clock = dict(recorded["head"]), list(recorded["clock"])
                self.answers, self.stopped = list(recorded["answers"]), recorded["stopped"]
            except (KeyError, TypeError, ValueError) as error:
                raise ModelError(
                    f"no tape of a search: {error}", hint="found.save(path) writes one"
                ) from error

    def as_json(self) -> dict[str, Any]:
        """Plain data: head, clock, answers, and where it was stopped."""
        return {
            "head": self.head,
            "clock": self.clock,
            "answers": self.answers,
            "stopped": self.stopped,
        }

    def now(self, clock: Callable[[], float]) -> float:
        """Seconds since the search began."""
        if not self.is_playing:
            self.clock.append(clock())
            return self.clock[-1]
        self._stop_here()
        return float(self._next(self.clock, 0))

    def told(self, jobs: Answers, ask: Callable[[], Answers]) -> Answers:
        """What came of jobs."""
        asked = _digest(jobs)
        if not self.is_playing:
            found = ask()
            self.answers.append([asked, found])
            return found
        self._stop_here()
        known, found = self._next(self.answers, 1)
        if known != asked:
            raise MLCError(
                "replay_tuning: the search asks for something else than it did",
                hint="rules, target or space have changed since: tune again",
            )
        return list(found)

    def note_stop(self) -> None:
        """The search was interrupted here."""
        if not self.is_playing:
            self.stopped = [len(self.clock), len(self.answers)]

    def _stop_here(self) -> None:
        if self._at == self.stopped and not self._was_stopped:
            self._was_stopped = True
            raise KeyboardInterrupt

    def _next(self, recorded: list[Any], which: int) -> Any:
        at = self._at[which]
        if at >= len(recorded):
            raise MLCError(
                "replay_tuning: the search goes on where its record ends",
                hint="rules, target or space have changed since: tune again",
            )
        self._at[which] += 1
        return recorded[at]


def _digest(jobs: Answers) -> str:
    """What is asked, in short."""
    plain = [{k: v for k, v in job.items() if k not in _ASIDE} for job in jobs]
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def read_tape(source: Any) -> Tape:
    """The tape of a file, of plain data, or of what `tune` found.

    Raises:
        ModelError: it is none.
    """
    given = getattr(source, "tape", source)
    if isinstance(given, Tape):
        return Tape(json.loads(json.dumps(given.as_json())))
    if isinstance(given, str | Path):
        try:
            with within_means(str(given), ModelError):
                given = json.loads(Path(given).read_text())
        except (OSError, ValueError) as error:
            raise ModelError(
                f"{given}: no tape of a search: {error}", hint="found.save(path) writes one"
            ) from error
    return Tape(given)
