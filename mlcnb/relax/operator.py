"""The form of an operator's declaration; the declarations themselves are in `mlcnb.op`.

    @operator("relax.nn.leakyrelu", sugar="nn.leakyrelu")
    class LeakyRelu(OpDecl):
        '''max(x, alpha * x), elementwise.'''

        x: Tensor                      # arguments: Tensor, Tensors, Shape, Scalar, Optional of them
        alpha: float = 0.01            # attributes: everything else

        def infer(self, x): return x                         # struct infos -> struct info
        def numpy(self, x): return np.where(x > 0, x, x * self.alpha)
        def compute(self, x): return te.compute(...)         # te tensors -> te tensor(s)
        cost = 2                                             # operations an element; or flops
        finite = True                                        # what passes may know: relax/traits.py

An object of the class holds the attributes of one call (`call.attrs.alpha`); arguments are fields
of the declaration only. `R.nn.leakyrelu` and `relax.op.nn.leakyrelu` are derived from it. What a
family has in common, its base may declare: an operator without fields of its own has those.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from mlcnb.core import above
from mlcnb.core.errors import ArgumentError, MLCError, OperatorArgumentError, UnsupportedOpError
from mlcnb.core.node import Node, node
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import FloatImm, IntImm
from mlcnb.ir.prim_ops import as_expr
from mlcnb.ir.prim_ops import const as prim_const
from mlcnb.ir.span import merge
from mlcnb.relax import expr as rx
from mlcnb.relax.operands import OF_ANOTHER_KIND, first_by_name, of_another_kind
from mlcnb.relax.traits import Traits

#: the words that mark an argument in a declaration
ARGUMENTS = (
    *"Tensor Tensors Shape Scalar String Dtype Object".split(),
    *"OptionalTensor OptionalShape OptionalScalar OptionalDtype".split(),
)


class Tensor:
    """Marks a tensor argument. infer gets its TensorStructInfo, numpy an array, compute a
    te.Tensor.
    """


class Tensors:
    """Marks an argument that is a tuple of tensors; the functions get Python tuples."""


class Shape:
    """Marks a shape argument: infer gets a ShapeStructInfo, numpy and compute a tuple of
    dimensions.
    """


class Scalar:
    """Marks a scalar argument: infer gets a PrimStructInfo, numpy a number, compute a PrimExpr."""


class String:
    """Marks a string argument (`R.str`): the functions get a Python string."""


class Dtype:
    """Marks a dtype argument (`R.dtype`): the functions get a DType."""


class Object:
    """Marks an argument of any kind; infer gets its struct info."""


class OptionalTensor:
    """Marks a tensor argument that may be left out; the functions then get None."""


class OptionalShape:
    """Marks a shape argument that may be left out; the functions then get None."""


class OptionalScalar:
    """Marks a scalar argument that may be left out; the functions then get None."""


class OptionalDtype:
    """Marks a dtype argument that may be left out; the functions then get None."""


class OpDecl(Traits, Node):
    """Base of operator declarations; see the module's text."""

    __slots__ = ()
    op_name: ClassVar[str] = ""
    #: what calls of it name
    op: ClassVar[rx.Op] = rx.Op("")
    #: name under `R.` and `relax.op.`
    sugar: ClassVar[str] = ""
    #: argument name -> kind (one of ARGUMENTS), in order
    arguments: ClassVar[dict[str, str]] = {}
    #: attributes that are one number, or True or False -> what they may be
    numbers: ClassVar[dict[str, Any]] = {}
    #: the argument that is the result's shape, where one is
    shape_argument: ClassVar[str] = ""
    #: TVM's name of its loop function, where that is not the last part of `op_name`
    tir_name: ClassVar[str] = ""
    #: True where a scalar (`R.prim_value`) may stand for a tensor
    takes_scalars: ClassVar[bool] = False

    def validate(self) -> None:
        """Refuse attributes that fit no arguments; asked when a call is made, before `infer`."""

    def infer(self, *args: Any) -> Any:
        """Struct info of the result from the struct infos of the arguments."""
        raise NotImplementedError

    def partly(self, *args: Any) -> Any:
        """What `infer` cannot say of a result whose size depends on data: its dimensions, None for
        those that only a run knows. A list of such where the result is a tuple; None: nothing.
        """
        return None

    def numpy(self, *args: Any) -> Any:
        """The meaning, in NumPy: arrays to array (or tuple of arrays)."""
        raise UnsupportedOpError(f"{self.op_name} has no NumPy meaning")

    def compute(self, *args: Any) -> Any:
        """The loop nest, as a tensor expression (or a tuple of them)."""
        raise UnsupportedOpError(
            f"{self.op_name} has no loop nest", hint="it runs only where a pass removes it first"
        )


_declared: dict[str, type[OpDecl]] = {}
#: names that TVM has for a form of an operator -> the operator's name
_also: dict[str, str] = {}
#: annotation of an attribute that is one number, True or False, or a list -> what it may be
_NUMBERS: dict[str, Any] = {"int": Integral, "float": Real, "bool": (Integral, np.bool_)}
_NUMBERS["int | tuple[int, ...]"] = _LISTED = (Integral, tuple)


def operator(
    name: str, sugar: str | None = None, also: tuple[str, ...] = ()
) -> Callable[[type], type]:
    """Class decorator: declare an operator under `name` ("relax.nn.relu").

    sugar: the name under `R.` (default: `name` without "relax."); "" for none.
    also: names that TVM has for some of its calls; `declaration` knows them.
    """

    def declare(cls: type) -> type:
        annotations = dict(declared_fields(cls))
        arguments = {n: _kind(a) for n, a in annotations.items() if _kind(a) in ARGUMENTS}
        cls.__annotations__ = {n: a for n, a in annotations.items() if n not in arguments}
        made: Any = node(cls)
        made.op_name, made.op, made.arguments = name, rx.Op(name), arguments
        made.numbers = _numbers_of(made)
        made.sugar = name.removeprefix("relax.") if sugar is None else sugar
        if name in _declared and _declared[name].__module__ != made.__module__:
            raise MLCError(f"operator {name!r} is declared twice")
        _declared[name] = made
        _also.update(dict.fromkeys(also, name))
        return made

    return declare


def declared_fields(cls: type) -> dict[str, Any]:
    """The arguments and attributes of a class, or of its nearest base that has some: a family's."""
    bases = cls.__mro__[: cls.__mro__.index(OpDecl)]
    return next(filter(None, map(inspect.get_annotations, bases)), {})


def _numbers_of(decl: Any) -> dict[str, Any]:
    """The attributes that are one number, or True or False."""
    told = {f.name: str(getattr(f.type, "__name__", f.type)) for f in dataclasses.fields(decl)}
    kinds = {name: _NUMBERS.get(kind.removesuffix(" | None")) for name, kind in told.items()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _kind(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")


def _all() -> dict[str, type[OpDecl]]:
    above.ask("all declarations")()
    return _declared


def declaration(op: str | rx.Op, missing_ok: bool = False) -> Any:
    """The declaration class of an operator.

    Raises:
        UnsupportedOpError: it is not declared and `missing_ok` is False.
    """
    name = op.name if isinstance(op, rx.Op) else op
    found = _declared.get(name) or _all().get(_also.get(name, name))
    if found is None and not missing_ok:
        raise UnsupportedOpError(f"no operator {name!r} is declared", hint="see mlcnb.op.names()")
    return found


def declarations() -> dict[str, type[OpDecl]]:
    """All declarations by name."""
    return dict(_all())


def called(value: Any) -> type[OpDecl]:
    """The declaration of the operator that a value calls, asked for its traits and whether it is a
    certain one: `called(x) is Matmul`. Of any other value `OpDecl`, which has no traits.
    """
    if not isinstance(value, rx.Call) or not isinstance(value.op, rx.Op):
        return OpDecl
    return declaration(value.op, missing_ok=True) or OpDecl


def attrs_of(call: rx.Call) -> OpDecl:
    """The attribute object of a call (made with the defaults where there is none)."""
    if isinstance(call.attrs, OpDecl):
        return call.attrs
    return attributes_of(declaration(call.op), call.attrs or {})


def with_operand(call: rx.Call, before: rx.Call) -> rx.Call:
    """The call on the first operand of `before`, whose result it took."""
    span = merge(before.span, call.span)
    return rx.Call(
        call.op, (before.args[0], *call.args[1:]), call.attrs, (), call.struct_info, span
    )


def make_call(decl: type[OpDecl], *args: Any, **attrs: Any) -> rx.Call:
    """A call of a declared operator; Python values become constants, shapes and scalars.

    Positional values beyond the arguments are attributes, in order.

    Raises:
        OperatorArgumentError: wrong number or names of arguments or attributes, or an attribute of
            another kind.
    """
    if not attrs and len(args) == len(decl.arguments) and not decl.node_fields:
        if all(isinstance(a, rx.Expr) for a in args):
            return rx.Call(decl.op, args)
    names = list(decl.arguments)
    values: dict[str, Any] = dict(zip([*names, *decl.node_fields], args, strict=False))
    if len(args) > len(names) + len(decl.node_fields) or values.keys() & attrs.keys():
        raise OperatorArgumentError(f"{decl.sugar}: too many arguments", hint=signature_text(decl))
    attrs = first_by_name(attrs, (*names, *decl.node_fields), values)
    values.update(attrs)
    unknown = [n for n in values if n not in names and n not in decl.node_fields]
    missing = [n for n in names if n not in values and "Optional" not in decl.arguments[n]]
    if unknown or missing:
        what = f"no argument {unknown[0]!r}" if unknown else f"argument {missing[0]!r} is missing"
        raise OperatorArgumentError(f"{decl.sugar}: {what}", hint=signature_text(decl))
    like = next((v for v in values.values() if isinstance(v, rx.Expr)), None)
    attributes = {n: _attribute(decl, n, v) for n, v in values.items() if n in decl.node_fields}
    try:
        exprs = [as_argument(values.get(n), decl.arguments[n], like) for n in names]
        made = decl(**attributes)
        made.validate()
    except OF_ANOTHER_KIND as error:
        if (told := of_another_kind(decl.sugar, error, signature_text(decl))) is None:
            raise
        raise told from error
    while exprs and exprs[-1] is None:
        exprs.pop()
    args_given = tuple(NULL if e is None else e for e in exprs)
    return rx.Call(decl.op, args_given, made if decl.node_fields else None)


def attributes_of(decl: type[OpDecl], given: Mapping[str, Any]) -> OpDecl:
    """The attribute object of a call whose attributes are given by name.

    Raises:
        OperatorArgumentError: the operator has no such attribute, or one is of another kind.
    """
    unknown = next((n for n in given if n not in decl.node_fields), None)
    if unknown is not None:
        message = f"{decl.sugar}: no attribute {unknown!r}"
        raise OperatorArgumentError(message, hint=signature_text(decl))
    made = decl(**{n: _attribute(decl, n, v) for n, v in given.items()})
    made.validate()
    return made


def signature_text(decl: type[OpDecl]) -> str:
    """`conv2d(data, weight, strides=(1, 1))`: what to call."""
    parts = list(decl.arguments)
    for name, parameter in inspect.signature(decl).parameters.items():
        empty = parameter.default is inspect.Parameter.empty
        parts.append(name if empty else f"{name}={parameter.default!r}")
    return f"{decl.sugar}({', '.join(parts)})"


def _attribute(decl: type[OpDecl], name: str, value: Any) -> Any:
    """An attribute as a call holds it, as TVM does: no `out_dtype` "void", one axis as a list of
    one, and a whole number as the float that is declared."""
    if name == "out_dtype" and isinstance(value, str) and value in ("void", ""):
        return None
    kind, found = decl.numbers.get(name), _frozen(value)
    if kind is _LISTED and type(found) is int and name in ("axis", "repeats"):
        return (found,)
    if kind in (None, _LISTED) or found is None:
        return found
    if not isinstance(found, kind):
        what = "one number" if kind in (Integral, Real) else "True or False"
        message = f"{decl.sugar}: {name} is {what}, not {value!r}"
        raise OperatorArgumentError(message, hint=signature_text(decl))
    return float(found) if kind is Real and type(found) is int else found


def _frozen(value: Any) -> Any:
    """Lists as tuples, constants (`T.float32(0)`, `R.prim_value(1)`) as the numbers they are."""
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, IntImm) and value.dtype.is_bool:
        return bool(value.value)
    return _frozen(value.value) if isinstance(value, IntImm | FloatImm | rx.PrimValue) else value


#: stands in a call for an optional argument that is left out before one that is given
NULL = rx.Op("relax.null_value")


def as_argument(value: Any, kind: str, like: rx.Expr | None = None) -> Any:
    """A Python value as the expression that an argument of `kind` wants."""
    if value is None:
        return None
    if isinstance(value, rx.Expr) or (kind == "Object" and isinstance(value, Node)):
        return value
    if kind.endswith("Shape"):
        return value if isinstance(value, rx.ShapeExpr) else rx.shape_expr(value)
    if kind == "Tensors":
        if any(v is None for v in value):
            raise ArgumentError("None stands among the tensors")
        return rx.Tuple(tuple(as_argument(v, "Tensor") for v in value))
    if kind.endswith("Scalar"):
        if isinstance(value, str):
            raise ArgumentError(f"{value!r} is no number")
        whole = isinstance(value, int) and not isinstance(value, bool)
        return rx.PrimValue(prim_const(value, "int64") if whole else as_expr(value))
    if kind == "String":
        return rx.StringImm(str(value))
    if kind.endswith("Dtype"):
        return rx.DataTypeImm(dtype(value))
    if kind == "Object" and isinstance(value, list | tuple):
        return rx.Tuple(tuple(as_argument(v, kind) for v in value))
    if hasattr(value, "shape"):
        return rx.const(value)
    kind_of_like = getattr(getattr(like, "struct_info", None), "dtype", None)
    return rx.const(value, kind_of_like)


def call_arguments(call: rx.Call) -> list[Any]:
    """The arguments of an operator call, as declared: Expr, or None where left out."""
    decl = declaration(call.op)
    kinds = list(decl.arguments.values())
    given: list[Any] = [
        None if is_null(a) or kind.startswith("Optional") and _is_empty(a) else a
        for a, kind in zip(call.args, kinds, strict=False)
    ]
    given += call.args[len(kinds) :]
    return given + [None] * (len(decl.arguments) - len(given))


def _is_empty(arg: Any) -> bool:
    """True for `R.tuple()`, which TVM writes for an argument that is left out."""
    return isinstance(arg, rx.Tuple) and not arg.fields


def is_null(arg: Any) -> bool:
    """True for `NULL` and for a call of it (`R.null_value()`)."""
    op = arg.op if isinstance(arg, rx.Call) else arg
    return isinstance(op, rx.Op) and op.name == NULL.name
