"""`relax.op`: a function for each declared operator, in nested namespaces, made when first used.

    relax.op.add(x, y)      relax.op.nn.relu(x)      relax.op.image.resize2d(x, size)

A function makes a call of its operator: tensors, shapes and scalars may be Python values, and
attributes are given by position or by name. Signature and text come from the declaration.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from mlcnb.core.text import suggestion
from mlcnb.op import _sugar, load_all
from mlcnb.relax import expr
from mlcnb.relax.operator import OpDecl, declarations, make_call

#: what relax.expr brings: calls of functions
CALLS = "call_tir call_tir_inplace call_dps_packed call_packed call_pure_packed"


class Namespace:
    """Functions whose names begin with `prefix` ("nn."), as attributes."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        full = self._prefix + name
        found: Any = function(full)
        if found is None and any(known.startswith(f"{full}.") for known in names()):
            found = Namespace(f"{full}.")
        if found is None:
            raise AttributeError(f"relax.op has no {full!r}{_suggestion(full)}")
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        inside = (n.removeprefix(self._prefix) for n in names() if n.startswith(self._prefix))
        return sorted({n.partition(".")[0] for n in inside})

    def __repr__(self) -> str:
        return f"relax.op{'.' + self._prefix[:-1] if self._prefix else ''}: {' '.join(dir(self))}"


def names() -> list[str]:
    """Every name, dotted, sorted."""
    return list(_table())


def function(name: str) -> Callable[..., Any] | None:
    """The function of that dotted name, or None."""
    found = _table().get(name)
    return function_of(found) if isinstance(found, type) else found


def _table() -> dict[str, Any]:
    """Dotted name -> declaration or function."""
    load_all()
    table: dict[str, Any] = {n: getattr(expr, n) for n in CALLS.split()}
    table.update({d.sugar: d for d in declarations().values() if d.sugar})
    table.update(_sugar.functions())
    return dict(sorted(table.items()))


def _suggestion(name: str) -> str:
    near = suggestion(name, names())
    return f": {near}" if near else ""


@cache
def function_of(decl: type[OpDecl]) -> Callable[..., Any]:
    """The function that makes calls of a declared operator."""

    def build(*args: Any, **attrs: Any) -> Any:
        return make_call(decl, *args, **attrs)

    build.__name__ = decl.sugar.rpartition(".")[2]
    build.__qualname__ = decl.sugar
    build.__module__ = decl.__module__
    build.__doc__ = described(decl)
    build.__signature__ = signature(decl)  # type: ignore[attr-defined]
    return build


#: what each kind of argument may be
_WORDS = {
    "Tensor": "a tensor, of a shape and dtype that may be symbolic or unknown",
    "Tensors": "a tuple of tensors",
    "Shape": "a shape: a tuple of numbers and symbolic sizes, or an expression",
    "Scalar": "a number, or an expression of one",
    "String": "a string",
    "Dtype": 'a dtype, "float32"',
    "Object": "any value",
}


def described(decl: type[OpDecl]) -> str:
    """The text of a declaration, with what its fields say of arguments, and who refuses them."""
    lines = [inspect.getdoc(decl) or ""]
    if decl.arguments or decl.node_fields:
        lines += ["", "Args:"]
    for name, kind in decl.arguments.items():
        optional = ", or None" if kind.startswith("Optional") else ""
        lines.append(f"    {name}: {_WORDS[kind.removeprefix('Optional')]}{optional}.")
    for name, field in inspect.signature(decl).parameters.items():
        has_default = field.default is not inspect.Parameter.empty
        default = f", by default {field.default!r}" if has_default else ""
        lines.append(f"    {name}: {field.annotation}{default}.")
    lines += [
        "",
        "Raises:",
        "    OperatorArgumentError: arguments of another number, name or kind.",
    ]
    if any(kind.endswith(("Tensor", "Tensors")) for kind in decl.arguments.values()):
        lines.append(
            "    TypeInferError: shapes or dtypes that do not go together, once the call is typed."
        )
    return "\n".join(lines)


def signature(decl: type[OpDecl]) -> inspect.Signature:
    """Arguments, then attributes; those that must be given after some that need not go by name."""
    parameters, optional = [], False
    for name, kind in decl.arguments.items():
        optional = optional or kind.startswith("Optional")
        parameters.append(_parameter(name, kind, None if optional else inspect.Parameter.empty))
    for name, field in inspect.signature(decl).parameters.items():
        by_name = optional and field.default is inspect.Parameter.empty
        parameters.append(_parameter(name, field.annotation, field.default, by_name))
    parameters.sort(key=lambda parameter: parameter.kind)
    return inspect.Signature(parameters, return_annotation="Expr")


def _parameter(name: str, kind: Any, default: Any, by_name: bool = False) -> inspect.Parameter:
    how = inspect.Parameter.KEYWORD_ONLY if by_name else inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, how, default=default, annotation=kind)


#: what `mlcnb.relax.op` is
namespace = Namespace()
