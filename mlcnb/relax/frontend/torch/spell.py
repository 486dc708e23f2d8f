"""Applying a spelling to an ATen node: its arguments, and what it made against what PyTorch says.

TypeInferError of an operator      UnsupportedOpError     named after the node and its line
an error of Python's               SpellingError          a fault in mlcnb
another dtype, rank or size        SpellingError          a fault too: never a silent wrong answer
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from mlcnb.core.errors import MLCError, UnsupportedError, UnsupportedOpError
from mlcnb.ir.prim_ops import as_int
from mlcnb.op._complex import Complex, mapped
from mlcnb.relax.expr import Expr
from mlcnb.relax.frontend.shared.errors import UNPLANNED, SpellingError
from mlcnb.relax.frontend.torch.node import Node
from mlcnb.relax.struct_info import describe

#: arguments that say where and how a result is stored, or its dtype, which `Node.result` knows
STORAGE = frozenset(
    "dtype layout device pin_memory non_blocking copy memory_format implicit other_dtype "
    "cudnn_enabled generator cudnn_enable _stacklevel sparse scale_grad_by_freq allow_tf32 "
    "half_to_float benchmark deterministic cudnn_enabled input_dtype stable".split()
)


def apply(spell: Callable[..., Any], node: Node, arguments: Mapping[str, Any]) -> list[Any]:
    """What a spelling makes of a node: a leaf for each output, None for one that it leaves out.

    Args:
        spell: the spelling.
        node: the node.
        arguments: all of its schema's arguments, by name and in order.

    Raises:
        UnsupportedError: the spelling refuses, or does not take an argument.
        SpellingError: it failed, or made something else than PyTorch.
    """
    try:
        args, more = _taken(spell, node, arguments)
        made = spell(node, *args, **more)
        results = list(made) if isinstance(made, tuple | list) else [made]
        found = [None if r is None else mapped(node.emit, r) for r in results]
    except UnsupportedError as error:
        raise _named(error, node) from error
    except MLCError as error:
        raise UnsupportedOpError(f"{node.where}: {error.message}", hint=error.hint) from error
    except (MemoryError, *UNPLANNED) as error:
        raise SpellingError(
            f"{node.where}: the import stopped: {type(error).__name__}: {error}",
            hint="this is a fault in mlcnb: please report it",
        ) from error
    for index, value in enumerate(found):
        if value is not None:
            found[index] = mapped(partial(node.learned, index=index), value)
            check_result(node, found[index], index)
    return found


def _named(error: UnsupportedError, node: Node) -> MLCError:
    if error.message.startswith(node.where):
        return error
    return type(error)(f"{node.where}: {error.message}", hint=error.hint)


def check_result(node: Node, value: Any, index: int) -> None:
    """Refuse a result whose dtype, rank or sizes differ from PyTorch's.

    Raises:
        SpellingError: saying both.
    """
    if not hasattr(node.output(index), "shape"):
        return
    dims, kind = node.result(index)
    if isinstance(value, Complex) != node.is_complex(index):
        kind, value = "complex", value.re if isinstance(value, Complex) else value
    for part in (value.re, value.im) if isinstance(value, Complex) else (value,):
        _check(node, part.struct_info, dims, kind)


def _check(node: Node, info: Any, dims: Sequence[Any], kind: str) -> None:
    have = getattr(info, "dims", None)
    fits = str(info.dtype) == kind and (have is None or len(have) == len(dims))
    for a, b in zip(have or (), dims, strict=False):
        known = as_int(a), as_int(b)
        fits = fits and (None in known or known[0] == known[1])
    if not fits:
        shape = ", ".join(map(str, dims))
        raise SpellingError(
            f"{node.where} is imported as {describe(info)}, but PyTorch makes ({shape}) {kind}",
            hint="this is a fault in mlcnb: please report it",
        )


@cache
def _parameters(spell: Callable[..., Any]) -> tuple[tuple[str, ...], bool, frozenset[str]]:
    """The arguments that are taken by place, whether any number is, and those taken by name."""
    kinds = inspect.Parameter
    params = list(inspect.signature(spell).parameters.values())[1:]
    places = tuple(p.name for p in params if p.kind is kinds.POSITIONAL_OR_KEYWORD)
    is_open = any(p.kind is kinds.VAR_POSITIONAL for p in params)
    names = frozenset(p.name for p in params if p.kind is kinds.KEYWORD_ONLY)
    return places, is_open, names


def _taken(
    spell: Callable[..., Any], node: Node, arguments: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by place and by name; what is left over says nothing, or is refused."""
    places, is_open, names = _parameters(spell)
    schema = {a.name: a for a in node.fx.target._schema.arguments}
    by_place = [n for n, a in schema.items() if not a.kwarg_only and n not in names]
    by_place = [n for n in by_place if n not in STORAGE] if is_open else by_place[: len(places)]
    names |= {n for n in places[len(by_place) :] if n in schema and schema[n].kwarg_only}
    for name, value in arguments.items():
        if name in by_place or name in names or name in STORAGE:
            continue
        if isinstance(value, Expr) or value != schema[name].default_value:
            node.refuse(f"argument {name} = {value!r} is not supported")
    return [arguments[n] for n in by_place], {n: arguments[n] for n in names if n in arguments}
