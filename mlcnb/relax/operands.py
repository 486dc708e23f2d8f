"""How operands may be given to an operator: by which names, and what is said of a wrong one."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from mlcnb.core.errors import ArgumentError, MLCError, OperatorArgumentError

#: what TVM calls the first operand, in one operator or another
_FIRST = ("x", "data", "input_tensor", "expr", "input", "tensor")


def first_by_name(
    given: dict[str, Any], names: Sequence[str], known: Container[str] = ()
) -> dict[str, Any]:
    """Arguments given by name, where the first operand has whichever name TVM has for one:
    `R.nn.relu(data=x)`, `R.reshape(x=y, shape=s)`.

    names: those of the function, in order; known: those that are given already.
    """
    other = next((n for n in given if n in _FIRST and n not in names), None)
    if other is None or names[0] in given or names[0] in known:
        return given
    return {names[0] if n == other else n: value for n, value in given.items()}


#: what is said of a value that is no such thing as was asked for: by Python and NumPy, by us
OF_ANOTHER_KIND = (TypeError, ValueError, AttributeError, LookupError, OverflowError)


def of_another_kind(name: str, error: Exception, hint: str) -> OperatorArgumentError | None:
    """What a call of an operator raises where its arguments made that error; None: the error
    itself, which is ours and says what is wrong.
    """
    if isinstance(error, MLCError) and not isinstance(error, ArgumentError):
        return None
    said = error.message if isinstance(error, MLCError) else f"{type(error).__name__}: {error}"
    return OperatorArgumentError(f"{name}: an argument is of another kind: {said}", hint=hint)
