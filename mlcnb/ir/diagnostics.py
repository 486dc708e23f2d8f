"""What the parser found wrong, for programs that ask for it in TVM's way.

    override_renderer(lambda context: seen.extend(context.diagnostics))

Errors are raised in any case (`core.errors.ParseError`); a renderer sees them first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from mlcnb.ir.span import Span


class DiagnosticLevel(IntEnum):
    """How bad it is, by TVM's numbers."""

    BUG = 10
    ERROR = 20
    WARNING = 30
    NOTE = 40
    HELP = 50


@dataclass(frozen=True)
class Diagnostic:
    """One thing that is wrong: where, and what."""

    level: DiagnosticLevel
    span: Span
    message: str


@dataclass
class DiagnosticContext:
    """All that was found wrong in one text."""

    diagnostics: list[Diagnostic] = field(default_factory=list)


Renderer = Callable[[DiagnosticContext], Any]
_renderer: Renderer | None = None


def override_renderer(renderer: Renderer | None) -> None:
    """Show this function what is found wrong from now on; None for nobody."""
    global _renderer
    _renderer = renderer


def get_renderer() -> Renderer | None:
    """The function that is shown what is found wrong."""
    return _renderer


def tell(message: str, span: Span) -> None:
    """Show an error to the renderer, if there is one."""
    if _renderer is not None:
        _renderer(DiagnosticContext([Diagnostic(DiagnosticLevel.ERROR, span, message)]))
