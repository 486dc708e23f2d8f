"""Errors that say what, where, and what to try.

    raise ScheduleError("split: factors [3, 5] do not cover loop i of extent 16",
                        where=loop, root=func, hint="use None for one factor")

`where` is the node at fault and `root` the program it stands in: the message then shows the program
with a caret under the node (a view, loaded when the error is shown). Control characters in names
are shown as `\\x1b`: a message goes to a terminal.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import cached_property
from typing import Any

from mlcnb.core import display
from mlcnb.core.text import kind_of, visible


class MLCError(RuntimeError, display.Shown):
    """Base of every error that mlcnb raises on purpose; a RuntimeError, as TVM's TVMError is.

    Args:
        message: one sentence with names and numbers.
        where: the node at fault, if there is one.
        root: the function or module that `where` stands in; shown with a caret, as text with
            shapes and dtypes.
        hint: what to do, as a phrase.
    """

    def __init__(
        self, message: str, *, where: Any = None, root: Any = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.root = root
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.message]
        excerpt = self.excerpt()
        if excerpt:
            lines.append(excerpt)
        lines += self.details()
        if self.advice:
            lines.append(f"hint: {self.advice}")
        return visible("\n".join(lines))

    @property
    def advice(self) -> str:
        """What to do: the hint, or what a kind of error has for all cases."""
        return self.hint or ""

    def excerpt(self) -> str:
        """The lines of `root` around `where` with carets, or '' where neither is known."""
        if self.where is None or self.root is None or excerpt_view is None:
            return ""
        try:
            return display.load(excerpt_view)((self.root, self.where))
        except Exception:  # noqa: BLE001 (an error must reach the user even if its picture fails)
            return ""

    def details(self) -> list[str]:
        """More lines, below the program: a counter-example."""
        return []

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Its text in a cell: IPython takes no other's for an object that has a repr."""
        printer.text(display.cell(self))

    def _render_traceback_(self) -> list[str]:
        """What IPython prints where nobody caught it: a card instead of frames."""
        try:
            return list(display.load(uncaught_view or traceback.format_exception)(self))
        except Exception:  # noqa: BLE001 (an error must reach the user even if its picture fails)
            return traceback.format_exception(self)


#: "module:function" that draws (root, where) as text with carets; set by the package
excerpt_view: str | None = None
#: "module:function" that gives the lines that IPython prints for an error that nobody caught
uncaught_view: str | None = None


class NotEqualError(MLCError, ValueError):
    """Two programs that should have been structurally equal."""


class ArgumentError(MLCError, ValueError):
    """An argument that a function cannot take."""


def as_name(value: Any, what: str) -> str:
    """A string that names something.

    Raises:
        ArgumentError: it is something else; `what` says what it was to name.
    """
    if isinstance(value, str):
        return value
    raise ArgumentError(f"{what} is a string, not {kind_of(value)}")


class TruthValueError(MLCError, ValueError):
    """A symbolic expression where Python wants True or False."""


class ParseError(MLCError):
    """TVMScript text that is not a program: points at the token."""


class WellFormedError(MLCError):
    """A module or function that breaks a rule of the IR."""


class IntegerRangeError(MLCError):
    """An integer that the dtype it stands in, or is computed in, cannot hold."""


class TypeInferError(MLCError, ValueError, TypeError):
    """Arguments of an operator whose shapes or dtypes do not fit.

    A ValueError and a TypeError: TVM raises the one for shapes, the other for kinds and dtypes.
    """


class OperatorArgumentError(TypeInferError):
    """A call of an operator with arguments or attributes that it does not have, or not so."""


class ScheduleError(MLCError):
    """A schedule step that is illegal; the program is as it was.

    Attributes:
        evidence: gives the counter-example; asked when the error is shown, not when it is raised.
    """

    evidence: Callable[[], Any] | None = None

    @cached_property
    def counterexample(self) -> Any:
        """Two iterations that would be in the wrong order, and what comes of it; None where there
        is none.
        """
        return self.evidence() if self.evidence is not None else None

    @property
    def advice(self) -> str:
        """The hint, or where to look for a step that is legal."""
        place = {"For": "loop", "Block": "block"}.get(type(self.where).__name__)
        if self.hint or place is None:
            return self.hint or ""
        return f"mlc.tir.legal_steps(sch, {place}) lists what can be done at this {place}"

    def details(self) -> list[str]:
        """The counter-example."""
        found = self.counterexample
        return [] if found is None else ["counter-example:", *(f"  {x}" for x in found.lines)]


class StepArgumentError(ScheduleError, TypeError):
    """A step with an argument that it does not have, or without one that it needs."""


class UnknownHandleError(ScheduleError, IndexError):
    """A handle that the schedule does not know: of another schedule, or of a step undone."""


class NoFunctionError(ScheduleError, ValueError):
    """A schedule of several functions that was not told which one to work on."""


class PassError(MLCError, ValueError):
    """A pass that cannot do its work on this module."""


class CodegenError(MLCError):
    """A program that a backend cannot turn into code."""


class TargetError(MLCError):
    """A target string or attribute that means nothing."""


class RuntimeInputError(MLCError, ValueError):
    """A call with a wrong number, name, dtype or shape of inputs."""


class ExecutionError(MLCError):
    """A running program that stopped: out of bounds, a failed assertion, a cancelled call."""


class CancelledError(ExecutionError):
    """A call that somebody told to stop, from another thread."""


class DataRaceError(ExecutionError):
    """Two threads of a GPU touch one element, one of them writes it, and nothing orders them.

    Attributes:
        buffer: the buffer's name.
        index: the element.
        threads: where the two threads stand: {axis: number}, in the order of the run.
        accesses: what each of them does: ("read" or "write", the statement).
    """

    buffer: str = ""
    index: tuple[int, ...] = ()
    threads: tuple[dict[str, int], ...] = ()
    accesses: tuple[tuple[str, Any], ...] = ()


class BarrierError(ExecutionError):
    """Threads that should meet do not: some wait where others never come by."""


class ModelError(MLCError):
    """A model file that is damaged, hostile or contradicts itself."""


class UnsupportedError(MLCError):
    """Something that is real but that mlcnb does not do: base of the typed refusals."""


class UnsupportedOpError(UnsupportedError):
    """An operator (of a model or of the IR) that has no declaration, or none for this opset."""


class UnsupportedOperationError(UnsupportedOpError, TypeError):
    """An operation of a tensor expression that has no loops."""


class UnsupportedDtypeError(UnsupportedError):
    """A dtype that an operator or a backend does not handle."""


class DeviceError(MLCError):
    """A machine that is needed and is not there: no GPU, no driver."""


class MissingDependencyError(MLCError):
    """An optional package that is not installed; the hint names the extra that brings it."""
