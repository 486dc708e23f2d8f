"""LegalizeOps: every operator becomes the call of a loop nest.

lv = R.add(x, y)     ->     lv = R.call_tir(cls.add, (x, y), out_sinfo=R.Tensor((2, 3), …))

                            @T.prim_func(private=True)
                            def add(x1: T.Buffer((2, 3)), x2: T.Buffer((2, 3)), T_add: …):
                                for i0, i1 in T.grid(2, 3): …

The loops are the declaration's `compute`. Calls that mean the same loops share one PrimFunc. An
operator without loops, on a tensor of unknown shape or of a dtype that no CPU has, stays: the
runtime runs it as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from mlcnb.core.errors import CodegenError, IntegerRangeError, UnsupportedOpError
from mlcnb.core.node import replace
from mlcnb.core.text import plural
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import GlobalVar, IntImm, Var
from mlcnb.ir.function import BaseFunc
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import const
from mlcnb.ir.rules import Rule, declare, declare_family
from mlcnb.ir.structural import structural_digest
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.op.shape import TensorToShape
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import static_shape, symbolic_vars
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import OpDecl, attrs_of, call_arguments, declaration, make_call
from mlcnb.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from mlcnb.relax.te_call import TeCall, TeInputs, call_te, finish
from mlcnb.relax.traits import Measured
from mlcnb.te.prim_func import operations
from mlcnb.tir.analysis.made import note_declared

Legalizer = Callable[[Any, rx.Call], Any]


class LegalizeOps(ModulePass):
    """Replace every operator by a call_tir of the loop nest that its declaration gives.

    A tensor of unknown shape, an operator without loops, and 8-bit floats and 4-bit integers stay
    operators, which the virtual machine runs by their meaning in NumPy.

    Raises:
        IntegerRangeError: a number of an operator is beyond what its loops can count with.
    """

    #: operator name -> function(builder, call) -> expression, used in place of the declaration
    customize_legalize_map: Mapping[str, Legalizer] = field(default_factory=dict)
    #: names of operators that stay as they are
    skip_ops: Sequence[str] | None = None
    #: warn of every operator that stays although it was not skipped
    enable_warning: bool = False
    #: dtype of loops and of sizes: a graph's own, or None: int32 where everything fits
    index_dtype: str | None = "int64"

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """All graph functions, with one table of PrimFuncs."""
        table = FunctionTable(mod.functions)
        skipped = frozenset(self.skip_ops or ())
        custom = self.customize_legalize_map or {}
        legalizer = _Legalizer(table, custom, skipped, self.index_dtype)
        table.rewrite(legalizer.rewrite, "Codegen")
        made = len(table.functions) - len(mod)
        if legalizer.count:
            functions = plural(made, "loop function")
            ctx.note(f"{plural(legalizer.count, 'operator')} became calls of {functions}")
        for name, why in legalizer.kept.items():
            ctx.note(f"{name} stays: {why}")
            if self.enable_warning:
                warnings.warn(f"LegalizeOps: {name} stays: {why}", stacklevel=2)
        return table.module(mod)


def has_loops(decl: type[OpDecl]) -> bool:
    """Whether a declaration says how it is computed: `compute`, or what `Measured` has."""
    return decl.compute is not OpDecl.compute or issubclass(decl, Measured)


def rule_of(decl: type[OpDecl]) -> Rule:
    """The rewrite rule `LegalizeOps.nn.relu` of a declaration: its loop nest."""
    said = decl.measure if issubclass(decl, Measured) else decl.compute
    return declare(f"LegalizeOps.{decl.op_name.removeprefix('relax.')}", said)


def _find_rule(short: str) -> Rule | None:
    decl = declaration(f"relax.{short}", missing_ok=True)
    return None if decl is None or not has_loops(decl) else rule_of(decl)


declare_family("LegalizeOps", _find_rule)


class _Legalizer(Mutator):
    """Also what a custom legalization gets as its builder: emit, emit_te, call_te, normalize."""

    def __init__(
        self,
        table: FunctionTable,
        custom: Mapping[str, Legalizer],
        skip: frozenset[str],
        index_dtype: str | None,
    ) -> None:
        super().__init__(table.functions)
        self.index_dtype = index_dtype
        self.table, self.custom, self.skip = table, custom, skip
        self.count = 0
        self.kept: dict[str, str] = {}
        #: what was made before, by operator, attributes and static shapes, and what it reads
        self.known: dict[bytes, tuple[GlobalVar, list[int]]] = {}

    def visit_call(self, call: rx.Call, var: rx.Var) -> Any:
        """The call_tir in place of an operator."""
        if not isinstance(call.op, rx.Op) or call.op.name in self.skip:
            return None
        custom = self.custom.get(call.op.name)
        if custom is not None:
            self.count += 1
            return custom(self, call)
        decl = declaration(call.op, missing_ok=True)
        if decl is None or not has_loops(decl):
            self.kept.setdefault(call.op.name.removeprefix("relax."), "it has no loop nest")
            return None
        if call.struct_info is None:  # its operands are known better now
            call = self.emitter.value(call)
        narrow = _narrow_dtype((*(a.struct_info for a in call.args), call.struct_info))
        if narrow is not None:
            self.kept.setdefault(decl.sugar, f"no kernel computes with {narrow}")
            return None
        rule = rule_of(decl)
        if not rule.is_on:
            self.kept.setdefault(decl.sugar, "its rule is disabled")
            return None
        try:
            made = (self.measured if attrs_of(call).is_measured else self.legalize)(call, decl)
        except IntegerRangeError as error:
            raise _too_large(call, decl, error) from error
        except (CodegenError, UnsupportedOpError) as error:
            self.kept.setdefault(decl.sugar, error.message)
            return None
        self.count += 1
        rule.fire(call, var)
        info = call.struct_info
        is_one = isinstance(info, TupleStructInfo) and len(info.fields) == 1
        return rx.Tuple((self.emit(made),)) if is_one else made

    def legalize(self, call: rx.Call, decl: type[OpDecl]) -> rx.Call:
        """The declaration's loops, made or found, and their call."""
        pairs = zip(call_arguments(call), decl.arguments.values(), strict=True)
        args = [self.opened(arg, kind) for arg, kind in pairs]
        if decl.takes_scalars:
            args = _with_number(args)
        key = _static_key(call, args)
        found = None if key is None else self.known.get(key)
        if found is not None:
            name, read = found
            given = [e for arg in args for e in _tensors(arg)]
            return _call(name, call, [given[i] for i in read], ())
        inputs, values = _te_values(args, decl)
        result = attrs_of(call).compute(*values)
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        read = _read(inputs, outputs)
        name, made = self.loops(_name_of(decl), call, inputs, outputs)
        if key is not None:
            self.known[key] = name, read
        return _call(name, call, list(made.args), made.tir_vars)

    def measured(self, call: rx.Call, decl: type[OpDecl]) -> rx.Call:
        """Two calls for a result whose size depends on data: sizes are found, and read, before the
        result is made of them.

        lv = R.nonzero(x)    ->    lv = R.call_tir(cls.nonzero_shape_func, (x,), R.Tensor((1,)))
                                   lv1 = R.tensor_to_shape(lv)
                                   lv2 = R.match_cast(lv1, R.Shape([s]))
                                   lv3 = R.call_tir(cls.nonzero, (x,), R.Tensor((2, s), "int64"))
        """
        attrs: Any = attrs_of(call)
        inputs, values = _te_values(call_arguments(call), decl)
        measured = list(attrs.measure(*values))
        made = self.called(f"{_name_of(decl)}_shape_func", call, inputs, measured)
        found = self.emit(made)
        parts = [found]
        if len(measured) > 1:
            parts = [self.emit(rx.TupleGetItem(found, i)) for i in range(len(measured))]
        read = self.emit(make_call(TensorToShape, parts[-1]))
        sizes = tuple(Var("s", dtype("int64")) for _ in range(int(measured[-1].shape[0])))
        self.match_cast(read, ShapeStructInfo(sizes, len(sizes)))
        inputs, values = _te_values(call_arguments(call), decl)
        given = [inputs.tensor(part) for part in parts[:-1]]
        result = attrs.fill([inputs.scalar(v) for v in sizes], given, *values)
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        return self.called(_name_of(decl), call, inputs, outputs)

    def called(self, name: str, call: rx.Call, inputs: TeInputs, outputs: list[Any]) -> rx.Call:
        """The call_tir of a function, kept in the table, that makes `outputs`."""
        _read(inputs, outputs)
        key, made = self.loops(name, call, inputs, outputs)
        return replace(made.by(key), span=call.span)

    def loops(
        self, name: str, call: rx.Call, inputs: TeInputs, outputs: list[Any]
    ) -> tuple[GlobalVar, TeCall]:
        """A function that makes `outputs`, kept in the table: its name there, and its call."""
        made = finish(inputs, outputs, self.index_dtype)
        note_declared(made.func.body)
        func = replace(made.func.without_attr("global_symbol"), span=call.span)
        return self.table.add_shared(func, name), made

    def opened(self, arg: Any, kind: str) -> Any:
        """An argument with its tuple opened: fields that are not named yet are bound."""
        if kind != "Tensors" or not isinstance(arg, rx.Var):
            return arg
        value = self.value_of(arg)
        if isinstance(value, rx.Tuple):
            return value
        info: Any = arg.struct_info
        return rx.Tuple(tuple(self.emit(rx.TupleGetItem(arg, i)) for i in range(len(info.fields))))

    def call_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> rx.Call:
        """As BlockBuilder.call_te."""
        return call_te(self.emitter, self.table, func, args, kwargs)

    def emit_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> rx.Var:
        """As BlockBuilder.emit_te."""
        return self.emit(self.call_te(func, *args, **kwargs))

    def normalize(self, expr: Any) -> Any:
        """As BlockBuilder.normalize."""
        return self.emitter.value(expr)

    def add_func(self, func: BaseFunc, func_name: str) -> GlobalVar:
        """As BlockBuilder.add_func."""
        shared = not isinstance(func, rx.Function)
        return (self.table.add_shared if shared else self.table.add)(func, func_name)

    def match_cast(self, value: Any, struct_info: Any, name_hint: str = "") -> rx.Var:
        """As BlockBuilder.match_cast."""
        start = len(self.emitter.bindings)
        var = self.emitter.match_cast(value, struct_info, name_hint)
        self._record(start)
        return var


def _too_large(call: rx.Call, decl: type[OpDecl], error: IntegerRangeError) -> IntegerRangeError:
    """A number of an operator that its loops cannot count with: which operator, which node."""
    attrs = attrs_of(call)
    given = ", ".join(f"{name} {getattr(attrs, name)}" for name in decl.node_fields)
    node = f" of node {call.span.name}" if call.span is not None and call.span.name else ""
    return IntegerRangeError(
        f"{decl.sugar}{node}: its loops cannot count so far: {error.message}"
        + (f"; its attributes are {given}" if given else ""),
        where=call,
        hint="smaller numbers among its attributes and dimensions",
    )


def _narrow_dtype(infos: tuple[Any, ...]) -> DType | None:
    """A dtype among those of tensors that no CPU computes with: 8-bit floats, 4-bit integers."""
    for info in infos:
        inside = info.fields if isinstance(info, TupleStructInfo) else ()
        kind = info.dtype if isinstance(info, TensorStructInfo) else _narrow_dtype(inside)
        if kind and (kind.is_float and kind.bits < 16 or kind.is_integer and kind.bits < 8):
            return kind
    return None


def _name_of(decl: type[OpDecl]) -> str:
    return decl.tir_name or decl.op_name.rpartition(".")[2]


def _read(inputs: TeInputs, outputs: list[Any]) -> list[int]:
    """Which tensors the outputs are made of; the others, of which only the shape counts, go."""
    used = {id(op) for op in operations(outputs)}
    read = [i for i, t in enumerate(inputs.tensors) if id(t.op) in used]
    inputs.tensors = [inputs.tensors[i] for i in read]
    inputs.args = [inputs.args[i] for i in read]
    return read


def _with_number(args: list[Any]) -> list[Any]:
    """The arguments with one constant that has no dimensions as a number, the last first."""
    for place in reversed(range(len(args))):
        found = _number(args[place])
        if found is not None:
            return [*args[:place], found, *args[place + 1 :]]
    return args


def _number(arg: Any) -> rx.PrimValue | None:
    """A constant without dimensions as a number that stands in the loops."""
    if not isinstance(arg, rx.Constant) or arg.data.ndim:
        return None
    return rx.PrimValue(const(arg.data.item(), dtype(arg.data.dtype.name)))


def _call(name: GlobalVar, call: rx.Call, args: list[rx.Expr], tir_vars: Any) -> rx.Call:
    """The call_tir with the operator's struct info and span."""
    info = call.struct_info
    out: Any = list(info.fields) if isinstance(info, TupleStructInfo) else info
    made = rx.call_tir(
        name, rx.Tuple(tuple(args)), out, rx.ShapeExpr(tir_vars) if tir_vars else None
    )
    return replace(made, span=call.span)


def _tensors(arg: Any) -> list[rx.Expr]:
    if isinstance(arg, rx.Tuple):
        return list(arg.fields)
    is_tensor = isinstance(getattr(arg, "struct_info", None), TensorStructInfo)
    return [arg] if is_tensor else []


def _static_key(call: rx.Call, args: list[Any]) -> bytes | None:
    """What the loops depend on; None where a shape is symbolic."""
    if not _is_static(call.struct_info):
        return None
    parts: list[Any] = []
    for arg in args:
        info = getattr(arg, "struct_info", None)
        if info is not None and not _is_static(info):
            return None
        parts.append(info if info is not None or arg is None else arg)
    name = call.op.name  # type: ignore[union-attr]
    return structural_digest((name, attrs_of(call), tuple(parts)))


def _is_static(info: Any) -> bool:
    if isinstance(info, TupleStructInfo):
        return all(map(_is_static, info.fields))
    if isinstance(info, ShapeStructInfo):
        return info.values is not None and all(isinstance(d, IntImm) for d in info.values)
    if isinstance(info, PrimStructInfo):
        return info.value is not None and not symbolic_vars(info.value)
    return not isinstance(info, TensorStructInfo) or static_shape(info) is not None


def _te_values(args: Sequence[Any], decl: type[OpDecl]) -> tuple[TeInputs, list[Any]]:
    """Arguments as `compute` takes them, and what they became."""
    inputs = TeInputs()
    pairs = zip(args, decl.arguments.items(), strict=True)
    return inputs, [_te_value(inputs, arg, name, kind) for arg, (name, kind) in pairs]


def _te_value(inputs: TeInputs, arg: Any, name: str, kind: str) -> Any:
    """One argument as `compute` takes it."""
    if arg is None:
        return None
    if kind.endswith("Tensor"):
        info = getattr(arg, "struct_info", None)
        if isinstance(info, PrimStructInfo) and info.value is not None:
            return inputs.scalar(info.value)
        return inputs.tensor(arg, name)
    if kind == "Tensors":
        return tuple(inputs.tensor(f, f"{name}{i}") for i, f in enumerate(arg.fields))
    if kind.endswith("Shape"):
        return tuple(
            d.value if isinstance(d, IntImm) else inputs.scalar(d) for d in _shape_values(arg)
        )
    if kind == "Scalar" and isinstance(arg, rx.PrimValue):
        return inputs.scalar(arg.value)
    if kind in ("String", "Dtype"):
        return arg.value
    raise CodegenError(f"argument {name!r} is known only at run time")


def _shape_values(arg: Any) -> Any:
    info = arg.struct_info
    if not isinstance(info, ShapeStructInfo) or info.values is None:
        raise CodegenError("a shape is known only at run time")
    return info.values
