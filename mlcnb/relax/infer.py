"""Struct info of expressions: what `BlockBuilder.normalize` fills in.

infer(call, functions)        R.add(x, y)          -> declaration("relax.add").infer(x's, y's)
                              R.call_tir(f, …)     -> out_sinfo
                              cls.helper(x)        -> helper's result, its n replaced by x's
                              R.reshape(x, s)      -> Tensor(s, …) where only `s` knows dimensions
                              R.add(x, y)          -> on the virtual device of x and y
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mlcnb.core.errors import TypeInferError
from mlcnb.core.node import replace
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import GlobalVar, PrimExpr
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.function import BaseFunc
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import (
    BaseCheckResult,
    erase_to_well_defined,
    match_vars,
    struct_info_base_check,
    struct_info_lca,
    substitute,
    symbolic_vars,
)
from mlcnb.relax.operand_infos import operand_infos
from mlcnb.relax.operator import (
    NULL,
    OF_ANOTHER_KIND,
    attrs_of,
    call_arguments,
    declaration,
    of_another_kind,
    signature_text,
)
from mlcnb.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    describe,
    told_by,
)
from mlcnb.tir.function import PrimFunc

Functions = Mapping[GlobalVar, BaseFunc]

#: operators whose result is what `sinfo_args` says
GIVEN = frozenset(
    f"relax.{name}"
    for name in (
        "call_tir call_tir_inplace call_tir_with_grad call_dps_packed call_inplace_packed "
        "call_pure_packed call_py_func call_builtin_with_ctx invoke_closure invoke_pure_closure"
    ).split()
)

#: operators that are no declared operator's call and have effects
IMPURE = frozenset(
    f"relax.{name}"
    for name in "invoke_closure call_builtin_with_ctx call_py_func print assert_op".split()
)


#: operators that show or check values: they take any number of them, and give nothing
TELLING = frozenset({"relax.print", "relax.assert_op"})

#: calls of closures: made by `make_closure`, which gives an object
_CLOSURES = frozenset({"relax.make_closure"})


def known_operator(name: str) -> None:
    """Refuse the name of an operator that there is not.

    Raises:
        UnsupportedOpError: neither a declared operator nor a way of calling.
    """
    if name not in GIVEN | TELLING | _CLOSURES | {NULL.name}:
        declaration(name)


def infer(expr: Any, functions: Functions | None = None) -> StructInfo | None:
    """The struct info of an expression whose parts have theirs; None for an Op.

    Args:
        expr: a leaf, or a Call, If, Tuple… of leaves.
        functions: the functions that GlobalVars name.

    Raises:
        TypeInferError: arguments do not fit. UnsupportedOpError: an operator is not declared.
    """
    if isinstance(expr, rx.Call):
        return expr.struct_info or infer_call(expr, functions or {})
    if isinstance(expr, rx.If):
        branches = (expr.true_branch.struct_info, expr.false_branch.struct_info)
        return expr.struct_info or struct_info_lca(*(b or ObjectStructInfo() for b in branches))
    if isinstance(expr, GlobalVar):
        return function_info((functions or {}).get(expr))
    if isinstance(expr, rx.TupleGetItem):
        return _field(expr)
    return getattr(expr, "struct_info", None)


def _field(expr: rx.TupleGetItem) -> StructInfo:
    info = expr.tuple_value.struct_info
    if isinstance(info, TupleStructInfo):
        if not 0 <= expr.index < len(info.fields):
            raise TypeInferError(
                f"a tuple of {len(info.fields)} has no field {expr.index}", where=expr
            )
        return info.fields[expr.index]
    if info is None or isinstance(info, ObjectStructInfo):
        return ObjectStructInfo()
    raise TypeInferError(
        f"[{expr.index}] of what is no tuple: {type(info).__name__}",
        where=expr,
        hint="only tuples have fields; a row of a tensor is R.take or R.strided_slice",
    )


def function_info(func: Any) -> StructInfo:
    """The struct info of a function of a module; Object for a PrimFunc or an unknown one."""
    if isinstance(func, rx.Function):
        return func.struct_info
    return getattr(func, "struct_info", None) or ObjectStructInfo()


def infer_call(call: rx.Call, functions: Functions) -> StructInfo:
    """The struct info of a call's result."""
    op = call.op
    if isinstance(op, rx.Op):
        return _infer_op(call, op)
    if isinstance(op, rx.ExternFunc):
        return told_by(call.sinfo_args) if call.sinfo_args else ObjectStructInfo()
    if isinstance(op, GlobalVar):
        func = functions.get(op)
        if isinstance(func, PrimFunc):
            kind = func.ret_type
            return TupleStructInfo(()) if kind is None else PrimStructInfo(dtype(kind))
        return _infer_function(call, op.name_hint, function_info(func))
    return _infer_function(call, getattr(op, "name_hint", "function"), op.struct_info)


def _infer_op(call: rx.Call, op: rx.Op) -> StructInfo:
    if op.name in GIVEN:
        return told_by(call.sinfo_args) if call.sinfo_args else ObjectStructInfo()
    if op.name in TELLING:
        return TupleStructInfo(())
    if op.name in _CLOSURES:
        return ObjectStructInfo()
    try:
        infos = operand_infos(call)
        return on_device(shaped(attrs_of(call).infer(*infos), call), infos)
    except TypeInferError as error:
        if error.where is None:
            error.where = call
        raise
    except OF_ANOTHER_KIND as error:
        decl = declaration(op)
        if (told := of_another_kind(decl.sugar, error, signature_text(decl))) is None:
            raise
        told.where = call
        raise told from error


class Inference:
    """`infer_call` that remembers: one operator of the same struct infos gives one object.

        relu(x: (n, 3)), relu(y: (n, 3))    one inference, one struct info

    Struct infos of static or equally named dimensions are one object, however they were made. For
    one walk over one function: it keeps what it has seen.
    """

    def __init__(self) -> None:
        self.results: dict[Any, StructInfo] = {}
        self.tensors: dict[Any, StructInfo] = {}

    def __call__(self, call: rx.Call, args: tuple[Any, ...], span: Any) -> rx.Call:
        """The call on these arguments, which are leaves, with its struct info."""
        key = self.key(call, args)
        info = None if key is None else self.results.get(key)
        if info is None:
            flat = rx.Call(call.op, args, call.attrs, call.sinfo_args, None, span)
            info = self.one(infer_call(flat, {}))
            if key is not None:
                self.results[key] = info
        return rx.Call(call.op, args, call.attrs, call.sinfo_args, info, span)

    def key(self, call: rx.Call, args: tuple[Any, ...]) -> Any:
        """What the result depends on; None where that is more than tensors' struct infos."""
        key: list[Any] = [call.op]
        for arg in args:
            if type(arg) is rx.Var:
                key.append(arg.struct_info)
            elif type(arg) is rx.Constant:
                key += (arg.data.shape, arg.data.dtype)
            else:
                return None
        if call.attrs is not None:
            given = call.attrs.values_of(call.attrs)
            key += (given, *map(type, given))
        if type(call.op) is not rx.Op or call.sinfo_args or not _hashes(key):
            return None
        return tuple(key)

    def one(self, info: StructInfo) -> StructInfo:
        """The one object that stands for all struct infos of tensors that are the same."""
        if not isinstance(info, TensorStructInfo) or info.dims is None:
            return info
        dims = [d if (whole := as_int(d)) is None else whole for d in info.dims]
        return self.tensors.setdefault((info.dtype, info.vdevice, *dims), info)


def _hashes(values: list[Any]) -> bool:
    try:
        return hash(tuple(values)) is not None
    except TypeError:
        return False


def derive_call_ret_struct_info(func_sinfo: Any, call: rx.Call, ctx: Any = None) -> StructInfo:
    """What a call gives of a function that is known by its struct info; `ctx` is TVM's.

    Sizes are those of the arguments, whose struct infos are known.

    Raises:
        TypeInferError: it is no function's, or the arguments do not fit.
    """
    if not isinstance(func_sinfo, FuncStructInfo):
        raise TypeInferError(f"{describe(func_sinfo)} is no function", where=call)
    return _infer_function(call, "the function", func_sinfo)


def _infer_function(call: rx.Call, name: str, info: Any) -> StructInfo:
    if not isinstance(info, FuncStructInfo):
        return told_by(call.sinfo_args) if call.sinfo_args else ObjectStructInfo()
    if info.params is None:
        return info.ret
    if len(info.params) != len(call.args):
        raise TypeInferError(
            f"{name} takes {len(info.params)} arguments, {len(call.args)} are given", where=call
        )
    found: dict[PrimVar, PrimExpr] = {}
    for param, arg in zip(info.params, call.args, strict=True):
        match_vars(param, infer(arg), found)
    for number, (param, arg) in enumerate(zip(info.params, call.args, strict=True)):
        given = infer(arg)
        if given is not None and not _fits(substitute(param, found), given):
            raise TypeInferError(
                f"{name}: argument {number} is {describe(given)}, it takes {describe(param)}",
                where=call,
            )
    free = [v for v in symbolic_vars(info.ret) if not _defined_by(v, info)]
    if isinstance(call.op, GlobalVar) and isinstance(info.ret, FuncStructInfo):
        own = {v: type(v)(v.name, v.dtype) for v in free}  # each call gives a function of its own
        found.update(own)
        free = list(own.values())
    known = [*free, *(v for value in found.values() for v in symbolic_vars(value))]
    return erase_to_well_defined(substitute(info.ret, found), known)


def _defined_by(var: PrimVar, info: FuncStructInfo) -> bool:
    return any(var in symbolic_vars(p) for p in info.params or ())


def _fits(wanted: StructInfo, given: StructInfo) -> bool:
    return struct_info_base_check(wanted, given) is not BaseCheckResult.FAIL_L0


def is_pure_call(call: rx.Call, functions: Functions | None = None) -> bool:
    """False for a call with effects: of a packed or loop function, an impure function or operator.

    A function that `functions` does not have counts as pure.
    """
    op = call.op
    if isinstance(op, rx.Op):
        if op.name in GIVEN or op.name in TELLING:
            return op.name not in IMPURE
        found = declaration(op, missing_ok=True)
        return found is None or found.pure
    if isinstance(op, rx.ExternFunc):
        return False
    if isinstance(op, GlobalVar):
        func = (functions or {}).get(op)
        info: Any = function_info(func)
        unknown = func is None
    else:
        info, unknown = op.struct_info, False
    return info.purity if isinstance(info, FuncStructInfo) else unknown


def is_leaf(expr: Any) -> bool:
    """True for what may stand as an argument in A-normal form, tuples of such included."""
    if isinstance(expr, rx.Tuple):
        return all(map(is_leaf, expr.fields))
    return not isinstance(expr, rx.Call | rx.If | rx.SeqExpr | rx.TupleGetItem | rx.Function)


def children_of(value: Any) -> tuple[rx.Expr, ...]:
    """The expressions that a bound value uses directly, tuples among them opened."""
    if isinstance(value, rx.Call):
        heads = () if isinstance(value.op, rx.Op | GlobalVar | rx.ExternFunc) else (value.op,)
        return (*heads, *_opened(value.args))
    if isinstance(value, rx.TupleGetItem):
        return _opened((value.tuple_value,))
    if isinstance(value, rx.Tuple):
        return _opened(value.fields)
    return (value,)


def _opened(exprs: tuple[Any, ...]) -> tuple[rx.Expr, ...]:
    flat: list[rx.Expr] = []
    for e in exprs:
        flat.extend(_opened(e.fields) if isinstance(e, rx.Tuple) else (e,))
    return tuple(flat)


def shaped(result: StructInfo, call: rx.Call) -> StructInfo:
    """A result of unknown dimensions whose shape is the value of a variable: of that shape."""
    decl = declaration(call.op)
    if (
        not decl.shape_argument
        or not isinstance(result, TensorStructInfo)
        or result.dims is not None
    ):
        return result
    shape = call_arguments(call)[list(decl.arguments).index(decl.shape_argument)]
    return replace(result, shape=shape) if isinstance(shape, rx.Var) else result


def on_device(result: StructInfo, operands: list[Any]) -> StructInfo:
    """The result on the virtual device that its operands lie on.

    Raises:
        TypeInferError: they lie on several.
    """
    devices = set(_devices(operands))
    if not devices:
        return result
    if len(devices) > 1:
        names = " and ".join(sorted(map(str, devices)))
        raise TypeInferError(
            f"the tensors lie on several devices, {names}", hint="bring one over: R.to_vdevice"
        )
    return _placed(result, devices.pop())


def _devices(infos: Iterable[Any]) -> Iterator[Any]:
    for info in infos:
        if isinstance(info, tuple):
            yield from _devices(info)
        elif isinstance(info, TensorStructInfo) and info.vdevice is not None:
            yield info.vdevice


def _placed(info: Any, device: Any) -> Any:
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(tuple(_placed(f, device) for f in info.fields))
    if isinstance(info, TensorStructInfo) and info.vdevice is None:
        return replace(info, vdevice=device)
    return info
