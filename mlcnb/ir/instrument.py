"""Instruments: objects that watch passes run, and what they keep.

    with PassContext(instruments=[PassTimingInstrument()]) as ctx: ...     times, as a tree
    run = trace(pipeline, mod)              every step, kept (`mlcnb.ir.pass_trace`)

An instrument has any of the methods of `PassInstrument`; TVM's instruments fit.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from mlcnb.core import above, display
from mlcnb.core.errors import MLCError, PassError
from mlcnb.ir.module import IRModule
from mlcnb.ir.pass_trace import PassStep, PassTrace, trace
from mlcnb.ir.transform import ModulePass, PassContext, PassInfo, Sequential

__all__ = [
    "DumpIR",
    "PassInstrument",
    "PassPrintingInstrument",
    "PassStep",
    "PassTimingInstrument",
    "PassTrace",
    "PrintAfterAll",
    "PrintBeforeAll",
    "PrintIR",
    "WellFormedInstrument",
    "pass_instrument",
    "trace",
]


class PassInstrument:
    """Base of instruments: methods called around passes, all of them doing nothing."""

    def enter_pass_ctx(self) -> None:
        """The PassContext that holds this instrument became current."""

    def exit_pass_ctx(self) -> None:
        """That PassContext ended."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Whether the pass may run; where one instrument says no, it is left out."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """A pass begins on `mod`."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """A pass has ended with `mod`."""

    def skip_pass(self, mod: IRModule, info: PassInfo) -> None:
        """A pass was left out."""


_METHODS = tuple(name for name in vars(PassInstrument) if not name.startswith("_"))


def pass_instrument(cls: type) -> type:
    """Class decorator, as TVM's: the class, with the missing methods of PassInstrument filled in.

    Raises:
        PassError: it has none of the methods.
    """
    if not any(hasattr(cls, name) for name in _METHODS):
        raise PassError(
            f"{cls.__name__} is no instrument", hint=f"define some of {', '.join(_METHODS)}"
        )
    return type(cls.__name__, (cls, PassInstrument), {"__doc__": cls.__doc__})


@dataclass(slots=True)
class _Timed:
    """One run of a pass: its name, when it began, seconds, and the runs inside it."""

    name: str
    started: float
    seconds: float = 0.0
    inside: list[_Timed] = field(default_factory=list)


class PassTimingInstrument(PassInstrument):
    """Measures every pass; `render()` gives the times as a tree."""

    def __init__(self) -> None:
        self._root = _Timed("all", time.perf_counter())
        self._open = [self._root]

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Start the clock of this pass."""
        run = _Timed(info.name, time.perf_counter())
        self._open[-1].inside.append(run)
        self._open.append(run)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Stop it."""
        run = self._open.pop()
        run.seconds = time.perf_counter() - run.started

    def exit_pass_ctx(self) -> None:
        """Forget passes that were cut short by an error."""
        del self._open[1:]

    @property
    def total(self) -> float:
        """Seconds of all outermost passes together."""
        return sum(run.seconds for run in self._root.inside)

    def render(self) -> str:
        """A line for each run: name, milliseconds, share of the pass around it, share of all."""
        rows = list(_rows(self._root.inside, 0, self.total, self.total))
        return "\n".join(rows) or "no pass ran"

    def __repr__(self) -> str:
        return self.render()


def _rows(runs: list[_Timed], depth: int, around: float, total: float) -> Iterator[str]:
    for run in runs:
        name = "  " * depth + run.name
        outer, share = (100 * run.seconds / max(t, 1e-12) for t in (around, total))
        yield f"{name:<40} {run.seconds * 1e3:9.2f} ms {outer:5.1f}% {share:5.1f}%"
        yield from _rows(run.inside, depth + 1, run.seconds, total)


class PassPrintingInstrument(PassInstrument):
    """Prints the module before and after the passes that are named.

    Args:
        before: names of passes to print before.
        after: names of passes to print after.
        file: where to; the standard output if None.
    """

    def __init__(
        self,
        before: Iterable[str] = (),
        after: Iterable[str] = (),
        file: TextIO | None = None,
    ) -> None:
        self.before, self.after, self.file = tuple(before), tuple(after), file

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print where the pass is among `before`."""
        if info.name in self.before:
            _print("before", mod, info, self.file)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print where the pass is among `after`."""
        if info.name in self.after:
            _print("after", mod, info, self.file)


def _print(when: str, mod: IRModule, info: PassInfo, file: TextIO | None) -> None:
    print(f"# {when} {info.name}\n{display.text(mod)}\n", file=file or sys.stdout)


class PrintBeforeAll(PassInstrument):
    """Prints the module before each pass (a Sequential as a whole is left out)."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print."""
        if not isinstance(info.pass_, Sequential):
            _print("before", mod, info, self.file)


class PrintAfterAll(PassInstrument):
    """Prints the module after each pass (a Sequential as a whole is left out)."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print."""
        if not isinstance(info.pass_, Sequential):
            _print("after", mod, info, self.file)


class DumpIR(PassInstrument):
    """Writes the module after every pass to `DIR/000_PassName.py`, `001_…`.

    Args:
        dump_dir: the folder; made if missing.
        refresh: remove files of an earlier run first.
    """

    def __init__(self, dump_dir: str | Path, refresh: bool = False) -> None:
        self.folder = Path(dump_dir)
        self.count = 0
        self.folder.mkdir(parents=True, exist_ok=True)
        if refresh:
            for old in self.folder.glob("[0-9][0-9][0-9]_*.py"):
                old.unlink()

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Write the file."""
        name = re.sub(r"\W", "_", info.name)
        path = self.folder / f"{self.count:03d}_{name}.py"
        path.write_text(display.text(mod) + "\n", encoding="utf-8")
        self.count += 1


class WellFormedInstrument(PassInstrument):
    """Checks the module before and after every pass; an error names the pass.

    Args:
        check_before: check before the first pass too.
    """

    def __init__(self, check_before: bool = True) -> None:
        self.check_before = check_before
        self._checked: Any = None

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Check, unless the pass before left this very module."""
        if self.check_before and mod is not self._checked:
            self._check(mod, f"before {info.name}")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Check what the pass made."""
        if mod is not self._checked:
            self._check(mod, f"after {info.name}")

    def _check(self, mod: IRModule, when: str) -> None:
        try:
            above.ask("assert_well_formed")(mod)
        except MLCError as error:
            raise PassError(
                f"{when}: {error.message}", where=error.where, root=error.root, hint=error.hint
            ) from error
        self._checked = mod


class PrintIR(ModulePass):
    """Print the module as it is at this place of a pipeline."""

    header: str = ""

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Print; nothing changes."""
        print(f"# {self.header}\n{display.text(mod)}" if self.header else display.text(mod))
        return mod
