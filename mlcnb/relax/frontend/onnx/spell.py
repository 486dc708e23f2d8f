"""Applying a spelling: its inputs fit its signature, and what goes wrong names the node.

TypeInferError of an operator      ModelError         the model's shapes or dtypes do not fit
refusal of an operator             the same error     with file, node and opset before it
an error of Python's               SpellingError      a fault in mlcnb, or a hostile file
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from mlcnb.core.errors import MLCError, ModelError, UnsupportedError
from mlcnb.relax.frontend.onnx.errors import SpellingError
from mlcnb.relax.frontend.onnx.node import Node

#: what Python raises where a program did not expect what it got
UNPLANNED = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError,
    TypeError, ValueError,
)  # fmt: skip


def apply(spell: Callable[..., Any], node: Node, inputs: list[Any]) -> list[Any]:
    """What a spelling makes of a node: a leaf for each output, None for one that it leaves out.

    Raises:
        ModelError: wrong number of inputs, or they do not fit.
        UnsupportedError: the spelling refuses.
        SpellingError: it failed.
    """
    check_inputs(spell, node, inputs)
    try:
        result = spell(node, *inputs)
        results = list(result) if isinstance(result, tuple | list) else [result]
        return [None if r is None else node.emit(r) for r in results]
    except MLCError as error:
        raise named(error, node) from error
    except UNPLANNED as error:
        raise SpellingError(
            f"{node.where}: the import stopped: {type(error).__name__}: {error}",
            hint="the model may be damaged; if not, this is a fault in mlcnb: please report it",
        ) from error


def named(error: MLCError, node: Node) -> MLCError:
    """The error as one that begins with file and node."""
    if error.message.startswith(f"{node.source.name}: "):
        return error
    kind = type(error) if type(error) in _kinds() else ModelError
    return kind(f"{node.where}: {error.message}", hint=error.hint or "see the ONNX operator")


@cache
def _kinds() -> frozenset[type]:
    """The refusals that are made of a message and a hint alone."""
    return frozenset({UnsupportedError, *UnsupportedError.__subclasses__()})


def check_inputs(spell: Callable[..., Any], node: Node, inputs: list[Any]) -> None:
    """Refuse a node with fewer or more inputs than the spelling takes.

    Raises:
        ModelError: saying how many it takes.
    """
    least, most = bounds(spell)
    missing = [i for i, x in enumerate(inputs[:least]) if x is None]
    if missing:
        raise ModelError(f"{node.where}: input {missing[0]} is left out", hint="it is required")
    if not least <= len(inputs) <= most:
        many = f"{least}" if least == most else f"{least} or more"
        many = many if most > 1000 or least == most else f"{least} to {most}"
        raise ModelError(
            f"{node.where} has {len(inputs)} inputs, it takes {many}",
            hint="the model is damaged, or of another opset than it says",
        )


@cache
def bounds(spell: Callable[..., Any]) -> tuple[int, int]:
    """How many inputs a spelling takes, at least and at most."""
    kinds = inspect.Parameter
    params = list(inspect.signature(spell).parameters.values())[1:]
    places = [p for p in params if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    least = sum(1 for p in places if p.default is kinds.empty)
    is_open = any(p.kind is kinds.VAR_POSITIONAL for p in params)
    return least, 1 << 30 if is_open else len(places)
