"""Values of attributes and annotations: what may stand in `T.func_attr({…})` or after `axis=`.

Numbers, strings, booleans and None are themselves; tuples are lists; constants of the IR say their
dtype (`T.int32(1)`), so that they read back as what they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mlcnb.core.doc import Doc, Text, join
from mlcnb.core.node import Node, visit
from mlcnb.ir import expr as e
from mlcnb.ir.structural import structural_equal
from mlcnb.script.printer.context import Printer
from mlcnb.script.printer.prim import call, number, text_string, typed


def mapping(p: Printer, values: Mapping[str, Any]) -> Doc:
    """`{"key": value}`, keys in order."""
    pairs = [[text_string(str(k)), ": ", value(p, values[k])] for k in sorted(values)]
    return ["{", *join(pairs), "}"]


def value(p: Printer, v: Any) -> Doc:
    """One value as Python source that the parser reads back."""
    if isinstance(v, bool) or v is None:
        return Text(str(v), "keyword")
    if isinstance(v, int):
        return number(v)
    if isinstance(v, float):
        return _float(v)
    if isinstance(v, str):
        return text_string(v)
    if isinstance(v, tuple | list):
        return ["[", *join(value(p, x) for x in v), "]"]
    if isinstance(v, Mapping):
        return mapping(p, v)
    if isinstance(v, e.IntImm) and not v.dtype.is_bool:
        return typed(p, v.dtype, number(v.value))
    export = getattr(v, "export", None)
    if callable(export):  # a target
        host = [] if v.host is None else [value(p, v.host.export())]
        return call(p.word("T", "target"), value(p, export()), *host)
    return p.doc(v) if isinstance(v, Node) else text_string(str(v))


def _float(v: float) -> Doc:
    if math.isfinite(v):
        return Text(repr(v), "number")
    return call(Text("float", "builtin"), text_string(str(v)))


def used(n: Node, variables: set[int]) -> set[int]:
    """Those of the variables (by id) that stand in `n`."""
    found: set[int] = set()
    if variables:
        visit(n, lambda x: found.add(id(x)) if id(x) in variables else None)
    return found


def same(a: Any, b: Any) -> bool:
    """True for values that are structurally equal."""
    return a is b or structural_equal(a, b)
