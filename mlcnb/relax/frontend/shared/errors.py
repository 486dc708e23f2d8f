"""Errors that only an import raises.

MLCError
├── UnsupportedOpError
│   └── UnknownValueError    a value is needed that is computed as the model runs
└── SpellingError            a spelling stopped in a way that nobody planned
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import MLCError, UnsupportedOpError

#: what Python raises where a program did not expect what it got
UNPLANNED = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip


class UnknownValueError(UnsupportedOpError):
    """A value (or a shape) is needed at import that is computed as the model runs.

    Attributes:
        inputs: names of the model's inputs that it is computed from.
    """

    def __init__(self, message: str, inputs: tuple[str, ...] = (), **more: Any) -> None:
        super().__init__(message, **more)
        self.inputs = inputs


class SpellingError(MLCError):
    """The function that imports an operator stopped with an error of Python's.

    Either a fault in mlcnb, or an attribute that is damaged in a way that no check found.
    """
