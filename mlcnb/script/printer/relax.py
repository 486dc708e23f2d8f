"""Graph expressions: variables, constants, operators, calls across levels.

R.add(lv, R.const(1.0, "float32"))        R.nn.softmax(lv, axis=-1)
R.call_tir(cls.add1, (x,), out_sinfo=R.Tensor((n, 4), dtype="float32"))
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import numpy as np

from mlcnb.core.doc import Doc, Text, join
from mlcnb.core.node import FrozenDict
from mlcnb.ir.dtype import dtype
from mlcnb.op import _sugar
from mlcnb.relax import expr as rx
from mlcnb.relax.operator import declaration
from mlcnb.relax.struct_info import StructInfo, TupleStructInfo
from mlcnb.script import literals
from mlcnb.script.plain_calls import PLAIN_CALLS
from mlcnb.script.printer import values
from mlcnb.script.printer.context import Printer, prints
from mlcnb.script.printer.prim import call, keyword, sequence, text_string
from mlcnb.script.printer.struct_info import vdevice


@prints(rx.Var)
def _var(p: Printer, n: rx.Var) -> Doc:
    return Text(p.name_of(n, n.name_hint), "name")


@prints(rx.Tuple)
def _tuple(p: Printer, n: rx.Tuple) -> Doc:
    return sequence([p.doc(f) for f in n.fields]) if n.fields else call(p.word("R", "tuple"))


@prints(rx.TupleGetItem)
def _item(p: Printer, n: rx.TupleGetItem) -> Doc:
    return [p.doc(n.tuple_value), "[", Text(str(n.index), "number"), "]"]


@prints(rx.ShapeExpr)
def _shape(p: Printer, n: rx.ShapeExpr) -> Doc:
    return call(p.word("R", "shape"), ["[", *join(p.doc(d) for d in n.values), "]"])


@prints(rx.PrimValue)
def _prim_value(p: Printer, n: rx.PrimValue) -> Doc:
    if p.words.is_new:
        return p.doc(n.value)
    return call(p.word("R", "prim_value"), p.doc(n.value))


@prints(rx.StringImm)
def _string(p: Printer, n: rx.StringImm) -> Doc:
    return call(p.word("R", "str"), text_string(n.value))


@prints(rx.DataTypeImm)
def _dtype(p: Printer, n: rx.DataTypeImm) -> Doc:
    return call(p.word("R", "dtype"), text_string(n.value))


@prints(rx.Op)
def _op(p: Printer, n: rx.Op) -> Doc:
    if n.name == "relax.null_value":
        return Text("None", "keyword")
    return call(p.word("R", "Op"), text_string(n.name))


@prints(rx.ExternFunc)
def _extern(p: Printer, n: rx.ExternFunc) -> Doc:
    info = [] if n.struct_info is None else [p.doc(n.struct_info)]
    return call(p.word("R", "ExternFunc"), text_string(n.global_symbol), *info)


@prints(rx.Constant)
def _constant(p: Printer, n: rx.Constant) -> Doc:
    if n.data.ndim == 0:
        return call(p.word("R", "const"), *_scalar(n.data))
    return p.stored(n.data)


def _scalar(data: np.ndarray) -> tuple[Doc, Doc]:
    """The value and the dtype of a scalar constant."""
    kind = dtype(data.dtype.name)
    value = data.item()
    shown: Doc
    if kind.is_bool:
        shown = Text(str(bool(value)), "keyword")
    elif kind.is_float:
        text = literals.number(float(value), kind)
        shown = Text(text, "number")
        if not math.isfinite(float(value)):
            shown = call(Text("float", "builtin"), Text(text, "string"))
    else:
        shown = Text(str(int(value)), "number")
    return shown, text_string(kind)


@prints(rx.Call)
def _call(p: Printer, n: rx.Call) -> Doc:
    if isinstance(n.op, rx.Op):
        special = _SPECIAL.get(n.op.name)
        written = (special and special(p, n)) or _operator(p, n) or _plain(p, n)
        return written or _generic(p, n)
    if isinstance(n.op, rx.ExternFunc):
        return _packed(p, n, "call_packed", n.op, n.args) or _generic(p, n)
    if n.attrs or n.sinfo_args:
        return _generic(p, n)
    return call(p.doc(n.op), *map(p.doc, n.args))


def _operator(p: Printer, n: rx.Call) -> Doc | None:
    """`R.nn.softmax(x, axis=1)`: arguments in order, attributes that are not the default."""
    decl = declaration(n.op, missing_ok=True)
    if decl is None or not decl.sugar:
        return None
    if n.sinfo_args or len(n.args) > len(decl.arguments):
        return None
    if type(n.attrs) is not (decl if decl.node_fields else type(None)):
        return None
    args: list[Doc] = [p.doc(a) for a in n.args]
    needed = _NEEDED.get(decl.sugar, ()) if p.words.name == "0.27" else ()
    args += [keyword(name, values.value(p, v)) for name, v in given_attrs(decl, n.attrs, needed)]
    return call(p.word("R", decl.sugar), *args)


#: what TVM 0.27 has no default for
_NEEDED = {
    "hamming_window": ("dtype",),
    "nn.batch_norm": ("axis",),
    "nn.group_norm": ("channel_axis", "axes"),
    "nn.instance_norm": ("channel_axis", "axes"),
    "nn.layer_norm": ("axes",),
}


def given_attrs(decl: Any, attrs: Any, needed: Collection[str] = ()) -> list[tuple[str, Any]]:
    """The attributes of a call that are needed or no defaults, in order of declaration.

    An operator whose function under R has defaults of its own (R.arange) shows them all.
    """
    defaults = {} if decl.sugar in _sugar.functions() else _defaults(decl)
    shown = []
    for name in decl.node_fields:
        value = getattr(attrs, name)
        default = name in defaults and name not in needed
        if default and _is_default(attrs, name, defaults[name], value):
            continue
        shown.append((name, value))
    return shown


def _is_default(attrs: Any, name: str, default: Any, value: Any) -> bool:
    """True for the default, also as it settles here: a convolution's `out_layout=None`."""
    if values.same(default, value):
        return True
    return values.same(getattr(dataclasses.replace(attrs, **{name: default}), name), value)


def _plain(p: Printer, n: rx.Call) -> Doc | None:
    """`R.memory.alloc_tensor(…)`: a call that no declaration stands behind, attributes by name."""
    name = n.op.name.removeprefix("relax.")
    if name not in PLAIN_CALLS or declaration(n.op, missing_ok=True) is not None:
        return None
    if not isinstance(n.attrs, FrozenDict | None) or n.attrs == {}:
        return None
    args: list[Doc] = [p.doc(a) for a in n.args]
    args += _sinfo_args(p, n)
    args += [keyword(k, values.value(p, v)) for k, v in (n.attrs or {}).items()]
    return call(p.word("R", name), *args)


@cache
def _defaults(decl: Any) -> dict[str, Any]:
    missing = dataclasses.MISSING
    return {f.name: f.default for f in dataclasses.fields(decl) if f.default is not missing}


def _generic(p: Printer, n: rx.Call) -> Doc:
    """Any call at all: `R.Call(op, (args,), attrs={…}, sinfo_args=(…,))`."""
    args: list[Doc] = [p.doc(n.op), sequence([p.doc(a) for a in n.args])]
    if n.attrs is not None:
        args.append(keyword("attrs", values.value(p, n.attrs)))
    return call(p.word("R", "Call"), *args, *_sinfo_args(p, n))


def _sinfo_args(p: Printer, n: rx.Call) -> list[Doc]:
    """`sinfo_args=(…,)`, or nothing."""
    infos = [p.doc(i) for i in n.sinfo_args]
    return [keyword(p.words.sinfo_args, sequence(infos))] if infos else []


def _out_sinfo(p: Printer, info: StructInfo) -> Doc:
    shown = p.doc(info)
    if isinstance(info, TupleStructInfo) and len(info.fields) != 1:
        shown = ["[", *join(p.doc(f) for f in info.fields), "]"]
    return keyword(p.words.out_sinfo, shown)


def _call_tir(p: Printer, n: rx.Call) -> Doc | None:
    """`R.call_tir(cls.f, (x,), out_sinfo=…, tir_vars=R.shape([m]))`"""
    name = n.op.name.removeprefix("relax.")
    if len(n.args) not in (2, 3) or not isinstance(n.args[1], rx.Tuple) or len(n.sinfo_args) != 1:
        return None
    inplace = _inplace_indices(n)
    if inplace is None:
        return None
    fields: list[Doc] = [p.doc(f) for f in n.args[1].fields]
    extra: list[Doc] = []
    if len(n.args) == 3:
        if p.words.is_new and isinstance(n.args[2], rx.ShapeExpr):
            fields += [p.doc(v) for v in n.args[2].values]
        else:
            extra.append(keyword("tir_vars", p.doc(n.args[2])))
    inputs = sequence(fields) if fields else call(p.word("R", "tuple"))
    info = _out_sinfo(p, n.sinfo_args[0])
    return call(p.word("R", name), p.doc(n.args[0]), inputs, info, *inplace_doc(p, inplace), *extra)


def _inplace_indices(n: rx.Call) -> tuple[int, ...] | None:
    """() for call_tir, the indices of call_tir_inplace; None where the attributes are others."""
    if n.op.name == "relax.call_tir":
        return () if n.attrs is None else None
    found = n.attrs.get("inplace_indices") if isinstance(n.attrs, dict) else None
    return found if found and len(n.attrs) == 1 else None


def inplace_doc(p: Printer, indices: tuple[int, ...]) -> list[Doc]:
    """`inplace_indices=[0, -1]`, or nothing."""
    return [keyword("inplace_indices", values.value(p, indices))] if indices else []


def _call_dps_packed(p: Printer, n: rx.Call) -> Doc | None:
    if len(n.args) != 2 or n.attrs is not None or len(n.sinfo_args) != 1:
        return None
    function, inputs = n.args
    if not isinstance(inputs, rx.Tuple):
        return None
    info = _out_sinfo(p, n.sinfo_args[0])
    return call(p.word("R", "call_dps_packed"), _extern_name(p, function), p.doc(inputs), info)


def _extern_name(p: Printer, function: Any) -> Doc:
    plain = isinstance(function, rx.ExternFunc) and function.struct_info is None
    return text_string(function.global_symbol) if plain else p.doc(function)


def _packed(
    p: Printer, n: rx.Call, word: str, function: Any, args: tuple, where: tuple[int, ...] = ()
) -> Doc | None:
    if n.attrs is not None and not where:
        return None
    shown: list[Doc] = [_extern_name(p, function), *map(p.doc, args), *inplace_doc(p, where)]
    return call(p.word("R", word), *shown, *_sinfo_args(p, n))


def _call_pure_packed(p: Printer, n: rx.Call) -> Doc | None:
    return _packed(p, n, "call_pure_packed", n.args[0], n.args[1:]) if n.args else None


def _call_builtin_with_ctx(p: Printer, n: rx.Call) -> Doc | None:
    if len(n.args) != 2 or not isinstance(n.args[1], rx.Tuple):
        return None
    return _packed(p, n, "call_builtin_with_ctx", n.args[0], n.args[1:])


def _call_tir_with_grad(p: Printer, n: rx.Call) -> Doc | None:
    """`R.call_tir_with_grad(cls.f, (x,), out_sinfo=…, te_grad_name="g", te_grad_kwargs={…})`"""
    if not isinstance(n.attrs, dict) or set(n.attrs) != {"te_grad_name", "te_grad_kwargs"}:
        return None
    if len(n.args) not in (2, 3) or not isinstance(n.args[1], rx.Tuple) or len(n.sinfo_args) != 1:
        return None
    shown = [p.doc(n.args[0]), p.doc(n.args[1]), _out_sinfo(p, n.sinfo_args[0])]
    shown += [keyword(k, values.value(p, n.attrs[k])) for k in ("te_grad_name", "te_grad_kwargs")]
    shown += [keyword("tir_vars", p.doc(a)) for a in n.args[2:]]
    return call(p.word("R", "call_tir_with_grad"), *shown)


def _call_py_func(p: Printer, n: rx.Call) -> Doc | None:
    """`R.call_py_func("f", (x,), out_sinfo=…)`"""
    if len(n.args) != 2 or not isinstance(n.args[0], rx.StringImm) or len(n.sinfo_args) != 1:
        return None
    name, info = text_string(n.args[0].value), _out_sinfo(p, n.sinfo_args[0])
    return call(p.word("R", "call_py_func"), name, p.doc(n.args[1]), info)


def _call_inplace_packed(p: Printer, n: rx.Call) -> Doc | None:
    where = _inplace_indices(n)
    if not where or not n.args:
        return None
    return _packed(p, n, "call_inplace_packed", n.args[0], n.args[1:], where)


def _null_value(p: Printer, n: rx.Call) -> Doc | None:
    plain = not (n.args or n.attrs or n.sinfo_args)
    return call(p.word("R", "null_value")) if plain else None


def _telling(p: Printer, n: rx.Call) -> Doc | None:
    """`R.print(x, format=R.str("x: {}"))`, `R.assert_op(cond, x, format=R.str("bad {}"))`"""
    place = 0 if n.op.name == "relax.print" else 1
    if len(n.args) <= place or not isinstance(n.args[place], rx.StringImm) or n.attrs is not None:
        return None
    shown = [p.doc(a) for i, a in enumerate(n.args) if i != place]
    shown.append(keyword("format", p.doc(n.args[place])))
    return call(p.word("R", n.op.name.removeprefix("relax.")), *shown)


def _to_vdevice(p: Printer, n: rx.Call) -> Doc | None:
    """`R.to_vdevice(x, dst_vdevice="cuda:0")`"""
    where = keyword("dst_vdevice", vdevice(p, n.attrs.dst_vdevice))
    return call(p.word("R", "to_vdevice"), p.doc(n.args[0]), where)


def _hint_on_device(p: Printer, n: rx.Call) -> Doc | None:
    """`R.hint_on_device(x, R.device(device_type=1, index=0), "global")`"""
    numbers = [keyword(k, values.value(p, getattr(n.attrs, k))) for k in ("device_type", "index")]
    where = call(p.word("R", "device"), *numbers)
    scope = text_string(n.attrs.memory_scope)
    return call(p.word("R", "hint_on_device"), p.doc(n.args[0]), where, scope)


_SPECIAL: dict[str, Callable[[Printer, rx.Call], Doc | None]] = {
    "relax.call_tir": _call_tir,
    "relax.call_tir_inplace": _call_tir,
    "relax.call_dps_packed": _call_dps_packed,
    "relax.call_pure_packed": _call_pure_packed,
    "relax.call_tir_with_grad": _call_tir_with_grad,
    "relax.call_builtin_with_ctx": _call_builtin_with_ctx,
    "relax.call_py_func": _call_py_func,
    "relax.call_inplace_packed": _call_inplace_packed,
    "relax.null_value": _null_value,
    "relax.print": _telling,
    "relax.assert_op": _telling,
    "relax.to_vdevice": _to_vdevice,
    "relax.hint_on_device": _hint_on_device,
}
