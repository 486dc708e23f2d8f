"""Applying a spelling: its inputs fit its signature, and what goes wrong names the node.

TypeInferError of an operator      ModelError         the model's shapes or dtypes do not fit
refusal of an operator             the same error     with file, node and opset before it
an error of Python's               ModelError         where ONNX's own inference refuses the node
                                   SpellingError      else: a fault in mlcnb, or a hostile file
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from mlcnb.core.errors import MLCError, ModelError, UnsupportedError
from mlcnb.relax.frontend.onnx.diagnose import reason
from mlcnb.relax.frontend.onnx.node import Node
from mlcnb.relax.frontend.shared.errors import UNPLANNED, SpellingError

#: stands for any number of inputs
OPEN = 1 << 30


def apply(spell: Callable[..., Any], node: Node, inputs: list[Any]) -> list[Any]:
    """What a spelling makes of a node: a leaf for each output, None for one that it leaves out.

    Raises:
        ModelError: wrong number of inputs, or they do not fit.
        UnsupportedError: the spelling refuses.
        SpellingError: it failed.
    """
    check_inputs(spell, node, inputs)
    try:  # as `guarded`, without the calls of a context for every node
        result = spell(node, *inputs)
        results = list(result) if isinstance(result, tuple | list) else [result]
        return [None if r is None else node.emit(r) for r in results]
    except (MLCError, MemoryError, *UNPLANNED) as error:
        raise typed(error, node, inputs) from error


@contextmanager
def guarded(node: Node, inputs: list[Any]) -> Iterator[None]:
    """What goes wrong in the block is an error that names the node."""
    try:
        yield
    except (MLCError, MemoryError, *UNPLANNED) as error:
        raise typed(error, node, inputs) from error


def typed(error: Exception, node: Node, inputs: list[Any]) -> MLCError:
    """What went wrong in a node as an error that names it."""
    if isinstance(error, MLCError):
        return named(error, node)
    if isinstance(error, MemoryError):
        return ModelError(
            f"{node.where}: its constants take more memory than there is: {error}",
            hint="the model asks for too much",
        )
    why = reason(node, inputs)
    if why is not None:
        return ModelError(
            f"{node.where}: ONNX's own inference refuses it: {why}",
            hint="the model is damaged: export it again",
        )
    return SpellingError(
        f"{node.where}: the import stopped: {type(error).__name__}: {error}",
        hint="the model may be damaged; if not, this is a fault in mlcnb: please report it",
    )


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
    needed = inputs if most >= OPEN else inputs[:least]
    missing = [i for i, x in enumerate(needed) if x is None]
    if missing:
        raise ModelError(f"{node.where}: input {missing[0]} is left out", hint="it is required")
    if not least <= len(inputs) <= most:
        many = f"{least}" if least == most else f"{least} or more"
        many = many if most >= OPEN or least == most else f"{least} to {most}"
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
    return least, OPEN if is_open else len(places)
