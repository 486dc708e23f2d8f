"""Symbolic dimensions in text: `("n * 2", 4)` in a signature, `n = T.int64()` in a body.

A signature speaks of variables that its body declares; they are looked up before it is read.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from mlcnb.core.node import Node, identical, replace, rewrite
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Var
from mlcnb.ir.global_info import VDevice, find_vdevice
from mlcnb.relax.expr import Call, Constant, DataflowVar, Tuple
from mlcnb.relax.expr import Var as GraphVar
from mlcnb.relax.struct_info import PrimStructInfo, TensorStructInfo
from mlcnb.script.frames import DimString, NewVar
from mlcnb.script.parser.evaluate import Evaluator
from mlcnb.script.tir.dtypes import DTypeWord
from mlcnb.tir.buffer import Buffer

DIM = dtype("int64")
#: arguments in which nothing is named
PLAIN = frozenset({GraphVar, DataflowVar, Constant})


def resolve_dims(ev: Evaluator, value: Any, place: ast.expr) -> Any:
    """`value` with every string dimension read; unknown names become new int64 variables.

    Strides and offsets of a buffer are of the dtype of its shape.
    """
    if not isinstance(value, Buffer):
        return _resolved(ev, value, DIM, place)
    shape = tuple(_resolved(ev, dim, DIM, place) for dim in value.shape)
    kind = shape[0].dtype if shape else dtype("int32")
    return _resolved(ev, replace(value, shape=shape), kind, place)


def _resolved(ev: Evaluator, value: Any, kind: DType, place: ast.expr) -> Any:
    def rule(n: Node) -> Node | None:
        if isinstance(n, TensorStructInfo) and isinstance(n.vdevice, str):
            return replace(n, vdevice=read_vdevice(ev, n.vdevice, place))
        if isinstance(n, PrimStructInfo):
            return _of_its_value(ev, n, place)
        return _read(ev, n.text, n.kind or kind, place) if isinstance(n, DimString) else None

    return rewrite(value, rule) if isinstance(value, Node) else value


def resolve_devices(ev: Evaluator, value: Any, place: ast.expr) -> Any:
    """`value` with the virtual devices that its calls name, those inside other calls too."""
    kind = type(value)
    if kind is Tuple:
        return replace(value, fields=_all(resolve_devices, ev, value.fields, place))
    if kind is not Call:
        return value
    args = _all(resolve_devices, ev, value.args, place)
    infos = _all(resolve_dims, ev, value.sinfo_args, place) if value.sinfo_args else ()
    if args is not value.args or infos is not value.sinfo_args:
        value = replace(value, args=args, sinfo_args=infos, struct_info=None)
    wanted = getattr(value.attrs, "dst_vdevice", None)
    if not isinstance(wanted, str):
        return value
    attrs = replace(value.attrs, dst_vdevice=read_vdevice(ev, wanted, place))
    return replace(value, attrs=attrs, struct_info=None)


def _all(read: Callable[..., Any], ev: Evaluator, given: tuple, place: ast.expr) -> tuple:
    """What was read of each; the very tuple where nothing is new. A variable costs no call."""
    for x in given:
        if type(x) not in PLAIN:
            made = tuple([read(ev, x, place) for x in given])
            return given if identical(made, given) else made
    return given


def _of_its_value(ev: Evaluator, info: PrimStructInfo, place: ast.expr) -> PrimStructInfo | None:
    """A scalar's type, of the dtype that its value was found to have."""
    if info.value is None or info.value.dtype == info.dtype:
        return None
    if info.dtype != DIM:
        raise ev.error(place, f"the value of R.Prim({str(info.dtype)!r}) is of {info.value.dtype}")
    return replace(info, dtype=info.value.dtype)


def read_vdevice(ev: Evaluator, name: str, place: ast.expr) -> VDevice:
    """The virtual device of a name: of the module; where there is none, what the name says."""
    if ev.vdevices is not None:
        with ev.blame(place):
            return find_vdevice(name, ev.vdevices)
    kind, number, scope = (*name.split(":"), "", "")[:3]
    if number and not number.isdigit():
        raise ev.error(place, f"no virtual device is called {name!r}", '"cuda:0"')
    with ev.blame(place):
        return VDevice(kind, int(number or 0), scope or "global")


def _read(ev: Evaluator, text: str, kind: DType, place: ast.expr) -> Any:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise ev.error(place, f"dimension {text!r} is no expression") from None
    for part in ast.walk(tree):
        if isinstance(part, ast.Name) and not _is_known(ev, part.id):
            ev.scope.define(part.id, Var(part.id, kind))
        if hasattr(part, "lineno"):
            ast.copy_location(part, place)
    before, ev.int_dtype = ev.int_dtype, str(kind)
    try:
        return ev.expr(tree)
    finally:
        ev.int_dtype = before


def _is_known(ev: Evaluator, name: str) -> bool:
    """True for a variable or namespace of the program; Python names around it do not count."""
    inside = [frame[name] for frame in ev.scope.frames if name in frame]
    return (bool(inside) and isinstance(inside[-1], Var)) or name == "T"


def declared_symbols(ev: Evaluator, function: ast.FunctionDef) -> dict[str, Var]:
    """Variables that a function declares: `n = T.int64()`, or `def main[n](…)` (Python 3.12)."""
    generic = [p.name for p in getattr(function, "type_params", ())]
    found = {name: Var(name, DIM) for name in generic}
    for line in function.body:
        for target, value in _pairs(line):
            if target.id not in found and _is_declaration(ev, value):
                made = ev.value(value)
                if isinstance(made, NewVar):
                    found[target.id] = made.make(target.id)
    return found


def _pairs(line: ast.stmt) -> list[tuple[ast.Name, ast.expr]]:
    """Names and what they are assigned, one by one."""
    if not isinstance(line, ast.Assign):
        return []
    target, value = line.targets[0], line.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=False))
    else:
        pairs = [(target, value)]
    return [(t, v) for t, v in pairs if isinstance(t, ast.Name)]


def _is_declaration(ev: Evaluator, value: ast.expr) -> bool:
    """True for a call of a dtype word without arguments."""
    if not isinstance(value, ast.Call) or value.args or not isinstance(value.func, ast.Attribute):
        return False
    return isinstance(ev.value(value.func), DTypeWord)
