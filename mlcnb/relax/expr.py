"""Relax expressions: a graph program in A-normal form.

    Expr     = Var | DataflowVar | Constant | Tuple | TupleGetItem | Call | If | SeqExpr
             | ShapeExpr | PrimValue | StringImm | DataTypeImm | ExternFunc | Function
             | GlobalVar | Op
    Binding  = VarBinding(var, value) | MatchCast(var, value, struct_info)
    SeqExpr  = BindingBlock* , body        DataflowBlock: pure, its DataflowVars do not escape

Every expression has `struct_info`, filled by `BlockBuilder.normalize` (None before).
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mlcnb.core import above, display
from mlcnb.core.errors import ArgumentError, OperatorArgumentError, TypeInferError
from mlcnb.core.node import EMPTY, FrozenDict, Node, binder, hidden, label, node
from mlcnb.core.operators import both
from mlcnb.core.text import kind_of
from mlcnb.ir import prim_ops
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import FloatImm, GlobalVar, IntImm, PrimExpr
from mlcnb.ir.function import BaseFunc
from mlcnb.ir.memory import mapped_empty
from mlcnb.ir.span import Span
from mlcnb.ir.structural import named
from mlcnb.relax.inplace import checked_inplace, inplace_places
from mlcnb.relax.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    told_by,
)


def _calling(op: str) -> Callable[[Any, Any], Expr]:
    """Calls of a two-operand operator; a Python number takes the dtype of the other side."""

    def apply(a: Any, b: Any) -> Expr:
        like = a if isinstance(a, Expr) else b
        kind = getattr(like.struct_info, "dtype", None) or "float32"
        return Call(Op(op), tuple(x if isinstance(x, Expr) else const(x, kind) for x in (a, b)))

    return apply


class Expr(Node):
    """Base of graph expressions. Python operators on it make calls: `x + y` is `R.add(x, y)`."""

    __slots__ = ()
    struct_info: Any

    @property
    def ty(self) -> Any:
        """TVM 0.27's name of `struct_info`."""
        return self.struct_info

    #: TVM's name of what is None where nobody has said or inferred it
    struct_info_ = ty

    __add__, __radd__ = both(_calling("relax.add"))
    __sub__, __rsub__ = both(_calling("relax.subtract"))
    __mul__, __rmul__ = both(_calling("relax.multiply"))
    __truediv__, __rtruediv__ = both(_calling("relax.divide"))
    __floordiv__, __mod__ = _calling("relax.floor_divide"), _calling("relax.mod")
    __pow__ = _calling("relax.power")
    __lt__, __gt__ = _calling("relax.less"), _calling("relax.greater")
    __le__, __ge__ = _calling("relax.less_equal"), _calling("relax.greater_equal")

    def __neg__(self) -> Expr:
        return Call(Op("relax.negative"), (self,))

    def astype(self, dtype: Any) -> Expr:
        """The call of `relax.astype`: this tensor, of any shape, in another dtype.

        Raises:
            UnsupportedDtypeError: there is no such dtype.
        """
        from mlcnb.relax.operator import declaration, make_call

        return make_call(declaration("relax.astype"), self, dtype=str(_dtype(dtype)))

    def __iter__(self) -> Iterator[Expr]:
        """The fields of a tuple; anything else would go on without end."""
        fields = getattr(self.struct_info, "fields", None)
        if fields is None:
            raise TypeError(f"{kind_of(self)} that is no tuple cannot be iterated")
        return (self[i] for i in range(len(fields)))

    def __call__(self, *args: Any) -> Expr:
        """The call of a function value."""
        return Call(self, args)

    def __getitem__(self, index: int) -> Expr:
        return TupleGetItem(self, index)


@named
@node
class Var(Expr):
    """A variable: a parameter, or bound once by a binding."""

    name_hint: str = label()
    struct_info: StructInfo | None = None
    span: Span | None = hidden(default=None)

    @property
    def name(self) -> str:
        """`name_hint`, as TVM 0.27 calls it."""
        return self.name_hint

    @property
    def vid(self) -> Var:
        """What tells variables apart, which TVM's mutators keep tables by: the variable itself."""
        return self


@named
@node
class DataflowVar(Var):
    """A variable that lives only inside its dataflow block."""


@node
class Constant(Expr):
    """A tensor known at compile time. `data` is not to be written to."""

    data: np.ndarray
    span: Span | None = hidden(default=None)

    @property
    def struct_info(self) -> TensorStructInfo:
        """Tensor of the data's shape and dtype."""
        return _info_of_array(self.data.shape, self.data.dtype)


@lru_cache(maxsize=4096)
def _info_of_array(shape: tuple[int, ...], kind: np.dtype) -> TensorStructInfo:
    dims = tuple(prim_ops.const(int(d), "int64") for d in shape)
    return TensorStructInfo(ShapeExpr(dims), dtype(kind.name))


def _item(kind: str, items: tuple, index: int) -> Any:
    try:
        return items[index]
    except IndexError:
        raise IndexError(f"{kind} index out of range: {index} of {len(items)}") from None


@node
class Tuple(Expr):
    """Several values as one."""

    fields: tuple[Expr, ...]

    def __post_init__(self) -> None:
        _as_tuples(self, "fields")

    @property
    def struct_info(self) -> TupleStructInfo:
        """Tuple of the fields' struct infos."""
        return TupleStructInfo(tuple(e.struct_info or ObjectStructInfo() for e in self.fields))

    def __getitem__(self, index: int) -> Expr:
        """A field: of a tuple that is written out it is what stands there.

        Raises:
            IndexError: there is no such field.
        """
        return _item("Tuple", self.fields, index)

    def __len__(self) -> int:
        return len(self.fields)


@node
class TupleGetItem(Expr):
    """One field of a tuple."""

    tuple_value: Expr
    index: int

    @property
    def struct_info(self) -> StructInfo | None:
        """The field's struct info, where the tuple's is known."""
        info = self.tuple_value.struct_info
        return info.fields[self.index] if isinstance(info, TupleStructInfo) else None


@node
class ShapeExpr(Expr):
    """A shape as a value: int64 dimensions, each a constant or symbolic."""

    values: tuple[PrimExpr, ...]

    def __post_init__(self) -> None:
        if type(self.values) is not tuple or any(type(v) is int for v in self.values):
            object.__setattr__(self, "values", shape_expr(self.values).values)

    @property
    def struct_info(self) -> ShapeStructInfo:
        """Shape of these values."""
        return ShapeStructInfo(self.values, len(self.values))

    def __iter__(self) -> Iterator[Any]:
        """The dimensions, in order."""
        return iter(self.values)

    def __getitem__(self, index: int) -> Any:
        """A dimension.

        Raises:
            IndexError: there is no such dimension.
        """
        return _item("ShapeExpr", self.values, index)

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        return True


@node
class PrimValue(Expr):
    """A scalar as a value; a Python integer is an int64."""

    value: PrimExpr

    def __post_init__(self) -> None:
        if not isinstance(self.value, PrimExpr):
            is_int = isinstance(self.value, int) and not isinstance(self.value, bool)
            made = prim_ops.const(self.value, "int64" if is_int else None)
            object.__setattr__(self, "value", made)

    @property
    def struct_info(self) -> PrimStructInfo:
        """Prim of the scalar's dtype and value."""
        return PrimStructInfo(self.value.dtype, self.value)


@node
class StringImm(Expr):
    """A string as a value."""

    value: str

    @property
    def struct_info(self) -> ObjectStructInfo:
        """Object."""
        return ObjectStructInfo()


@node
class DataTypeImm(Expr):
    """A dtype as a value; its text is accepted."""

    value: DType

    def __post_init__(self) -> None:
        if not isinstance(self.value, DType):
            object.__setattr__(self, "value", _dtype(self.value))

    @property
    def struct_info(self) -> ObjectStructInfo:
        """Object."""
        return ObjectStructInfo()


#: name -> operator
_ops: dict[str, Op] = {}


@node
class Op(Expr):
    """An operator by its name, such as `relax.nn.conv2d`; declared in `mlcnb.op`.

    There is one object for each name, so `call.op == Op.get("relax.add")` asks what it seems to.
    """

    name: str

    def __new__(cls, name: str) -> Op:
        """The one of that name."""
        return _ops.get(name) or _ops.setdefault(name, object.__new__(cls))

    def __getnewargs__(self) -> tuple[str]:
        return (self.name,)

    @staticmethod
    def get(name: str) -> Op:
        """The operator of that name.

        Raises:
            UnsupportedOpError: a graph operator that is not declared.
        """
        made = Op(name)
        if name.startswith("relax."):
            check: Any = display.load("mlcnb.relax.infer:known_operator")
            check(name)
        return made

    @property
    def struct_info(self) -> None:
        """None: an operator is no value."""
        return None

    def same_as(self, other: Any) -> bool:
        """Whether it is the operator of the same name."""
        return self == other


@node
class ExternFunc(BaseFunc):
    """A function outside of the module, by its global name."""

    global_symbol: str
    struct_info: StructInfo | None = None
    attrs: FrozenDict = EMPTY


@node
class Call(Expr):
    """An application: of an Op (with `attrs`, an object of its declaration), a function, a
    GlobalVar.

    sinfo_args: struct infos given as arguments (the result of call_tir and of packed calls).
    """

    op: Any
    args: tuple[Expr, ...]
    attrs: Any = None
    sinfo_args: tuple[StructInfo, ...] = ()
    struct_info: StructInfo | None = hidden(default=None)
    span: Span | None = hidden(default=None)

    def __post_init__(self) -> None:
        if type(self.args) is not tuple or type(self.sinfo_args) is not tuple:
            _as_tuples(self, "args", "sinfo_args")
        if isinstance(self.op, int | float | str):
            raise ArgumentError(
                f"Call: {self.op!r} is no function",
                hint="an Op, a GlobalVar, a variable or a function",
            )

    @property
    def ty_args(self) -> tuple[StructInfo, ...]:
        """TVM 0.27's name of `sinfo_args`."""
        return self.sinfo_args


@node
class If(Expr):
    """cond ? true_branch : false_branch, each a SeqExpr."""

    cond: Expr
    true_branch: Expr
    false_branch: Expr
    struct_info: StructInfo | None = hidden(default=None)


def _as_tuples(n: Any, *fields: str) -> None:
    """Lists (and None, for nothing) in fields of a node that were given so become tuples."""
    for field in fields:
        value = getattr(n, field)
        if value is None or isinstance(value, list):
            object.__setattr__(n, field, tuple(value or ()))


class Binding(Node):
    """Base of bindings; each has `var` and `value`."""

    __slots__ = ()
    var: Var
    value: Any


@node
class VarBinding(Binding):
    """var = value"""

    var: Var = binder()
    value: Any


@node
class MatchCast(Binding):
    """var = value, checked at run time to be of `struct_info`, which may define sizes."""

    var: Var = binder()
    value: Expr
    struct_info: StructInfo = binder()


@node
class BindingBlock(Node):
    """Bindings, in order; effects and control flow are allowed."""

    bindings: tuple[Binding, ...]

    def __post_init__(self) -> None:
        _as_tuples(self, "bindings")


@node
class DataflowBlock(BindingBlock):
    """Bindings that are pure and have no control flow. Vars that are no DataflowVar are its
    outputs.
    """


@node
class SeqExpr(Expr):
    """Blocks of bindings, then the value `body`."""

    blocks: tuple[BindingBlock, ...]
    body: Expr

    def __post_init__(self) -> None:
        _as_tuples(self, "blocks")

    @property
    def struct_info(self) -> StructInfo | None:
        """The body's."""
        return self.body.struct_info

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """All bindings of all blocks, in order."""
        return tuple(b for block in self.blocks for b in block.bindings)


@node
class Function(BaseFunc):
    """A graph function: parameters, body, the struct info of its result, purity, attributes."""

    params: tuple[Var, ...] = binder()
    body: SeqExpr
    ret_struct_info: StructInfo | None = None
    is_pure: bool = True
    attrs: FrozenDict = EMPTY
    span: Span | None = hidden(default=None)

    def __post_init__(self) -> None:
        _as_tuples(self, "params")
        if type(self.body) is not SeqExpr and isinstance(self.body, Expr):
            object.__setattr__(self, "body", SeqExpr((), self.body))
        if self.attrs is None:
            object.__setattr__(self, "attrs", EMPTY)
        if self.attrs.get("Primitive", True) is not True:  # TVM's passes write 1, their tests too
            marked = {**self.attrs, "Primitive": bool(self.attrs["Primitive"])}
            object.__setattr__(self, "attrs", FrozenDict(marked))

    @property
    def struct_info(self) -> Any:
        """Func of the parameters' and the result's struct infos."""
        from mlcnb.relax.struct_info import FuncStructInfo

        params = tuple(p.struct_info or ObjectStructInfo() for p in self.params)
        return FuncStructInfo(params, self.ret_struct_info or ObjectStructInfo(), self.is_pure)

    @property
    def ret_ty(self) -> Any:
        """TVM 0.27's name of `ret_struct_info`."""
        return self.ret_struct_info

    def bind_params(self, params: Mapping[Any, Any]) -> Function:
        """This function with constants in place of parameters, by name or Var (`BindParams`)."""
        made: Function = above.ask("bind_params")(self, params)
        return made

    def inline_functions(self, function_map: Mapping[Any, Function]) -> Function:
        """This function with the bodies of others in place of their calls, by name or GlobalVar.

        Raises:
            PassError: those call each other in a circle.
        """
        made: Function = above.ask("inline_functions")(self, function_map)
        return made

    def bind_symbolic_vars(self, binding_map: Mapping[Any, Any]) -> Function:
        """This function with values in place of symbolic sizes, by name or variable.

        Raises:
            PassError: it has no such symbolic size.
        """
        made: Function = above.ask("bind_symbolic_vars")(self, binding_map)
        return made


def const(value: Any, dtype: Any = None) -> Constant:
    """A constant tensor of a number, a nested list or an array.

    Python floats become float32 and ints int32 unless `dtype` (or a TensorStructInfo in its place)
    says otherwise. A writeable array is copied: a constant does not change with it.

    Raises:
        ArgumentError: the value is no such thing, or a number that the dtype cannot hold.
        UnsupportedDtypeError: there is no such dtype.
    """
    if isinstance(dtype, TensorStructInfo):
        dtype = None if dtype.dtype is None else str(dtype.dtype)
    if dtype is None and isinstance(value, float):
        dtype = "float32"
    if dtype is None and isinstance(value, int):
        dtype = "bool" if isinstance(value, bool) else "int32"
    array = _as_array(value, dtype)
    if not array.flags.c_contiguous or (array.flags.writeable and _is_shared(array, value)):
        copy = mapped_empty(array.shape, array.dtype)
        copy[...] = array
        array = copy
    array.flags.writeable = False
    return Constant(array)


def _as_array(value: Any, kind: Any) -> np.ndarray:
    to = None if kind is None else _dtype(kind).numpy
    if isinstance(value, PrimExpr) and not isinstance(value, IntImm | FloatImm):
        why = "it is a scalar that the run finds out"
        raise ArgumentError(_no_constant(value, kind, why), hint="R.prim_value(n)")
    try:
        array = np.asarray(value, dtype=to)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(_no_constant(value, kind, str(error)), hint=_CONSTANTS) from error
    if array.dtype.kind in "OUS":
        raise ArgumentError(_no_constant(value, kind, f"it holds {array.dtype}"), hint=_CONSTANTS)
    return array


_CONSTANTS = "give a number, a nested list of numbers, or an array"


def _no_constant(value: Any, kind: Any, why: str) -> str:
    of = "" if kind is None else f" of {kind}"
    return f"{type(value).__name__} {reprlib.repr(value)} is no constant tensor{of}: {why}"


def _is_shared(array: np.ndarray, value: Any) -> bool:
    """True if somebody else may write to the array: it is, or lies in, what was given."""
    return array is value or array.base is not None


_dtype = dtype


def shape_expr(dims: Sequence[Any]) -> ShapeExpr:
    """A ShapeExpr of ints, expressions and `R.prim_value`s of them, all int64.

    Raises:
        TypeInferError: a dimension is a float. OperatorArgumentError: `dims` is one number.
    """
    if not isinstance(dims, Iterable):
        raise OperatorArgumentError(
            f"a shape is a tuple of dimensions, not {dims}", hint=f"of one dimension: ({dims},)"
        )
    dims = [d.value if isinstance(d, PrimValue) else d for d in dims]
    for d in dims:
        if isinstance(d, float | FloatImm):
            raise TypeInferError(f"a dimension is an integer, not {d}")
    return ShapeExpr(tuple(prim_ops.cast("int64", d) for d in dims))


def tensor_info(dims: Sequence[Any] | None, kind: str | None, ndim: int = -1) -> TensorStructInfo:
    """A TensorStructInfo of dimensions (ints or expressions; None: unknown) and dtype."""
    made = None if kind is None else dtype(str(kind))
    if dims is None:
        return TensorStructInfo(None, made, ndim=ndim)
    return TensorStructInfo(shape_expr(dims), made)


def _as_tuple(args: Any) -> Tuple:
    if isinstance(args, Tuple):
        return args
    return Tuple(tuple(args) if isinstance(args, list | tuple) else (args,))


def call_tir(gvar: GlobalVar, args: Any, out_sinfo: Any, tir_vars: ShapeExpr | None = None) -> Call:
    """Call a PrimFunc: inputs, then outputs that are allocated as `out_sinfo` (one or a list) says.

    tir_vars: values of the PrimFunc's trailing scalar parameters.

    Shapes and dtypes of the inputs and of `out_sinfo` are those of the PrimFunc's buffers:
    `well_formed` finds, and `compile` refuses with WellFormedError, what differs.
    """
    return _dps("relax.call_tir", (gvar, _as_tuple(args)), out_sinfo, tir_vars)


def call_tir_inplace(
    gvar: GlobalVar,
    args: Any,
    inplace_indices: Sequence[int],
    out_sinfo: Any,
    tir_vars: ShapeExpr | None = None,
) -> Call:
    """As call_tir, where output i is written into argument inplace_indices[i] (-1: allocated).

    That argument has the shape and dtype of the output, and is not read afterwards; refused as
    call_tir is.

    Raises:
        ArgumentError: the places are not one an output, lie outside of the arguments, or repeat.
    """
    call = _dps("relax.call_tir_inplace", (gvar, _as_tuple(args)), out_sinfo, tir_vars)
    attrs = FrozenDict(inplace_indices=inplace_places(inplace_indices))
    return checked_inplace(Call(call.op, call.args, attrs, call.sinfo_args, call.struct_info))


def call_tir_with_grad(
    gvar: GlobalVar,
    args: Any,
    out_sinfo: Any,
    tir_vars: ShapeExpr | None = None,
    te_grad_name: str = "",
    te_grad_kwargs: Mapping[str, Any] | None = None,
) -> Call:
    """As call_tir; its gradient is a registered function of tensor expressions.

    te_grad_name: that function's; te_grad_kwargs: what it is called with besides tensors.
    """
    call = _dps("relax.call_tir_with_grad", (gvar, _as_tuple(args)), out_sinfo, tir_vars)
    attrs = FrozenDict(te_grad_name=te_grad_name, te_grad_kwargs=FrozenDict(te_grad_kwargs or {}))
    return Call(call.op, call.args, attrs, call.sinfo_args, call.struct_info)


def call_dps_packed(func: str | ExternFunc, args: Any, out_sinfo: Any) -> Call:
    """Call a registered Python function that writes into its trailing output tensors.

    They are allocated in the shapes and dtypes of `out_sinfo`. The run raises MLCError if no
    function has the name.
    """
    extern = func if isinstance(func, ExternFunc) else ExternFunc(func)
    return _dps("relax.call_dps_packed", (extern, _as_tuple(args)), out_sinfo, None)


def _dps(op: str, args: tuple, out_sinfo: Any, tir_vars: ShapeExpr | None) -> Call:
    info: Any = told_by(out_sinfo) if isinstance(out_sinfo, list | tuple) else out_sinfo
    if isinstance(tir_vars, list | tuple):
        tir_vars = shape_expr(tir_vars)
    extra = () if tir_vars is None else (tir_vars,)
    return Call(Op(op), (*args, *extra), None, (info,), info)


def call_packed(func: str | ExternFunc, *args: Expr, sinfo_args: Any = ()) -> Call:
    """Call a registered Python function for its value; it may have effects.

    `sinfo_args` says what comes back, `R.Tensor((2,), "float32")`; an Object where it is left out.
    The run raises MLCError if no function has the name, ExecutionError if it gives something else.
    """
    extern = func if isinstance(func, ExternFunc) else ExternFunc(func)
    infos = tuple(sinfo_args) if isinstance(sinfo_args, list | tuple) else (sinfo_args,)
    return Call(extern, args, None, infos, told_by(infos) if infos else ObjectStructInfo())


def call_pure_packed(func: str | ExternFunc, *args: Expr, sinfo_args: Any = ()) -> Call:
    """Call a registered Python function that has no effects; `sinfo_args` says the shape and dtype
    of what comes back, as in call_packed.

    That it has no effects is taken on trust: a call that nothing
    uses is dropped, none is refused.
    """
    call = call_packed(func, *args, sinfo_args=sinfo_args)
    op = Op("relax.call_pure_packed")
    return Call(op, (call.op, *args), None, call.sinfo_args, call.struct_info)
