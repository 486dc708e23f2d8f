"""Tensor, Parameter, Object, Effect: the values that a module's methods compute with.

    x + 1, x.reshape(2, 3), op.relu(x)   ->   a binding of the function that is being exported

A Tensor has no numbers, only a graph expression of known dtype and shape (integers and symbolic
sizes). A Parameter is a Tensor with a place for numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import numpy as np

from mlcnb.core.errors import ArgumentError, MLCError, TypeInferError
from mlcnb.core.operators import both
from mlcnb.ir.dtype import dtype as as_dtype
from mlcnb.ir.expr import IntImm, PrimExpr
from mlcnb.ir.expr import Var as SizeVar
from mlcnb.op.manipulate.reshape import fill_in
from mlcnb.op.namespace import namespace
from mlcnb.relax.block_builder import BlockBuilder
from mlcnb.relax.expr import Expr, TupleGetItem, Var, const
from mlcnb.relax.struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo
from mlcnb.runtime.tensor import Tensor as Array
from mlcnb.runtime.tensor import as_array, tensor

_default = {"dtype": "float32"}


def get_default_dtype() -> str:
    """The dtype of parameters that name none: "float32", unless it was set."""
    return _default["dtype"]


def set_default_dtype(dtype: str) -> None:
    """Make `dtype` that of parameters that name none."""
    _default["dtype"] = str(as_dtype(dtype))


def size_of(dim: Any) -> Any:
    """A dimension: an int from 0, a symbolic size, or a name that becomes one (int64).

    Raises:
        ArgumentError: anything else.
    """
    if isinstance(dim, str) and dim.isidentifier():
        return SizeVar(dim, as_dtype("int64"))
    if isinstance(dim, IntImm):
        dim = dim.value
    whole = isinstance(dim, int | np.integer) and not isinstance(dim, bool) and dim >= 0
    if whole or (isinstance(dim, PrimExpr) and dim.dtype == "int64"):
        return int(dim) if whole else dim
    raise ArgumentError(
        f"{dim!r} is no dimension",
        hint='an integer from 0, a name as "n", or a symbolic size of dtype int64',
    )


def _calling(sugar: str, name: str = "") -> Callable[[Any, Any], Tensor]:
    """Calls of a two-operand operator; a number takes the dtype of the other side."""

    def apply(a: Any, b: Any) -> Tensor:
        return call(sugar, as_tensor(a, b), b, name=name)

    return apply


class Tensor:
    """A value of the graph that is being made, with its shape and dtype; as TVM's `nn.Tensor`.

    Operators of Python and methods append to the function that is being exported.
    """

    def __init__(self, *, _expr: Any) -> None:
        info = getattr(_expr, "struct_info", None)
        if not isinstance(info, TensorStructInfo) or info.dims is None or info.dtype is None:
            raise TypeInferError(
                f"nn.Tensor: shape and dtype have to be known, here is {info}",
                hint="where sizes depend on data, write the function with relax.BlockBuilder",
            )
        self._expr = _expr

    @staticmethod
    def from_const(data: Any) -> Tensor:
        """A constant: an array or a number."""
        return Tensor(_expr=const(data))

    @staticmethod
    def from_scalar(data: int | float, dtype: str) -> Tensor:
        """A constant of shape () and that dtype.

        Raises:
            ArgumentError: the dtype does not hold the number.
        """
        whole = not isinstance(data, float) or data.is_integer()
        if not whole and as_dtype(dtype).numpy.kind in "iub":
            raise ArgumentError(
                f"{data!r} is no number of dtype {dtype}", hint='x.astype("float32") first'
            )
        return Tensor(_expr=const(data, str(dtype)))

    @staticmethod
    def from_struct_info(struct_info: TensorStructInfo, name: str = "tensor") -> Tensor:
        """A variable of that struct info, bound to nothing."""
        return Tensor(_expr=Var(name, struct_info))

    @staticmethod
    def placeholder(shape: Sequence[Any], dtype: str, name: str = "tensor") -> Tensor:
        """A variable of that shape and dtype: says what a foreign function returns.

        shape: integers, symbolic sizes, or names, each of which becomes a new symbolic size.
        """
        dims = [size_of(d) for d in shape]
        return Tensor(_expr=Var(name, TensorStructInfo(dims, as_dtype(dtype))))

    @property
    def shape(self) -> list[Any]:
        """Length of each dimension: ints, and expressions where it is symbolic."""
        dims = self._expr.struct_info.dims
        return [d.value if isinstance(d, IntImm) else d for d in dims]

    @property
    def ndim(self) -> int:
        """How many dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        return str(self._expr.struct_info.dtype)

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        return f'{type(self).__name__}([{sizes}], "{self.dtype}")'

    # operators -----------------------------------------------------------------------------------

    __add__ = __radd__ = _calling("add")
    __sub__, __rsub__ = both(_calling("subtract"))
    __mul__ = __rmul__ = _calling("multiply", "mul")
    __truediv__, __rtruediv__ = both(_calling("divide"))
    __matmul__ = _calling("matmul")
    __lt__, __gt__ = _calling("less"), _calling("greater")
    __le__, __ge__ = _calling("less_equal"), _calling("greater_equal")

    def __neg__(self) -> Tensor:
        return call("negative", self, name="neg")

    def astype(self, dtype: str) -> Tensor:
        """The same values in another dtype."""
        return call("astype", self, dtype=dtype)

    def maximum(self, other: Any) -> Tensor:
        """The larger of two values, element by element."""
        return call("maximum", self, other)

    def minimum(self, other: Any) -> Tensor:
        """The smaller of two values, element by element."""
        return call("minimum", self, other)

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape; see `op.reshape`."""
        return reshape(self, shape[0] if _is_one_list(shape) else shape)

    def permute_dims(self, *axes: Any) -> Tensor:
        """The dimensions in another order: reversed, unless axes are given."""
        return call("permute_dims", self, axes=(axes[0] if _is_one_list(axes) else axes) or None)

    def repeat(self, repeats: int, axis: int | None = None) -> Tensor:
        """Each element `repeats` times, along an axis or of the flat array."""
        return call("repeat", self, repeats=repeats, axis=axis)


def _is_one_list(values: tuple[Any, ...]) -> bool:
    return len(values) == 1 and (values[0] is None or isinstance(values[0], list | tuple))


def reshape(x: Tensor, shape: Any, name: str = "reshape") -> Tensor:
    """The elements of x in another shape: 0 copies x's dimension, one -1 is what remains."""
    own = x.shape
    copies = [isinstance(d, int) and d == 0 and i < len(own) for i, d in enumerate(shape)]
    dims = [own[i] if copies[i] else d for i, d in enumerate(shape)]
    return call("reshape", x, fill_in(own, dims) or tuple(dims), name=name)


class Parameter(Tensor):
    """A weight: a Tensor that may be bound to numbers; as TVM's `nn.Parameter`.

    Args:
        shape: integers, symbolic sizes, or names of sizes; equal names in one module are one size.
        dtype: `get_default_dtype()` if None.
    """

    def __init__(self, shape: Sequence[Any], dtype: str | None = None) -> None:
        made = Tensor.placeholder(shape, dtype or get_default_dtype(), "param")
        super().__init__(_expr=made._expr)
        self._data: Array | None = None
        self.attrs: dict[str, Any] = {}

    @property
    def data(self) -> Array | None:
        """Its numbers, or None."""
        return self._data

    @data.setter
    def data(self, data: Any) -> None:
        if data is None:
            self._data = None
            return
        array = as_array(data, "data")
        if len(array.shape) != self.ndim or not all(map(_fits, self.shape, array.shape)):
            sizes = ", ".join(map(str, self.shape))
            raise ArgumentError(f"Shape mismatch: expected ({sizes}), got {array.shape}")
        if array.dtype.name != self.dtype:
            raise ArgumentError(
                f"Dtype mismatch: expected {self.dtype}, got {array.dtype.name}",
                hint=f'data.astype("{self.dtype}"), or module.to("{array.dtype.name}") before',
            )
        self._data = data if isinstance(data, Array) else tensor(array)

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of a parameter that has no numbers yet.

        Raises:
            ArgumentError: it has some.
        """
        if dtype is None:
            return
        if self._data is not None:
            raise ArgumentError(
                "a Parameter with numbers keeps its dtype: they would lose precision in silence",
                hint="module.to(dtype) first, load the numbers after",
            )
        self._expr = Tensor.placeholder(self.shape, dtype, "param")._expr


def _fits(dim: Any, length: int) -> bool:
    return not isinstance(dim, int) or dim == length


@contextmanager
def kept_expressions(parameters: Sequence[Parameter]) -> Iterator[None]:
    """Inside the `with` block parameters may stand for other variables; then for what they did."""
    before = [p._expr for p in parameters]
    try:
        yield
    finally:
        for parameter, expr in zip(parameters, before, strict=True):
            parameter._expr = expr


class Object:
    """A value of the graph that is no tensor, such as a cache; as TVM's `nn.Object`."""

    def __init__(self, *, _expr: Any, _name: str) -> None:
        self._expr = _expr if isinstance(_expr, Var) else builder("Object").emit(_expr, _name)
        if not isinstance(self._expr.struct_info, ObjectStructInfo):
            raise TypeInferError(f"nn.Object: {_name} is {self._expr.struct_info}, not an object")


class Effect:
    """A state that goes through a function: an input before, an output after; TVM's `nn.Effect`."""

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Any]:
        """Emit what makes the first state; its variables."""
        raise NotImplementedError

    def create(self, name_hint: str) -> list[Any]:
        """New variables for the state that a function is given."""
        raise NotImplementedError

    def set_state(self, state_vars: list[Any]) -> None:
        """Take these variables as the state now."""
        raise NotImplementedError

    def finalize(self) -> list[Any]:
        """The state at the end, which the function returns."""
        raise NotImplementedError

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of the state, where it has one."""


def builder(what: str) -> BlockBuilder:
    """The builder of the function that is being exported.

    Raises:
        MLCError: none is.
    """
    found = BlockBuilder.current()
    if found is None:
        raise MLCError(
            f"nn: {what} appends to a function, and none is being exported",
            hint="call it in a method of an nn.Module, then module.export_tvm(spec)",
        )
    return found


def as_tensor(value: Any, like: Tensor) -> Tensor:
    """A number as a constant of the dtype of `like`; a Tensor as it is.

    Raises:
        ArgumentError: something else, or a fraction beside integers.
    """
    if isinstance(value, Tensor):
        return value
    number = getattr(value, "value", value) if isinstance(value, PrimExpr) else value
    if isinstance(number, int | float | np.number):
        plain = number.item() if isinstance(number, np.number) else number
        return Tensor.from_scalar(plain, like.dtype)
    raise ArgumentError(
        f"nn: {type(value).__name__} is no nn.Tensor and no number: {value!r}",
        hint="nn.Tensor.from_const(array) for a constant",
    )


def unwrap(value: Any, like: Tensor | None = None) -> Any:
    """The graph expression of a Tensor or Object, of each in a list; numbers become constants."""
    if isinstance(value, Tensor | Object):
        return value._expr
    if isinstance(value, list | tuple):
        return type(value)(unwrap(v) for v in value)
    if like is not None and isinstance(value, int | float | np.number | PrimExpr):
        return as_tensor(value, like)._expr
    return value


def named(function: Any, name: str, text: str) -> Any:
    """The function under a name of its own, with what it does."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


def call(sugar: str, *args: Any, name: str = "", **attrs: Any) -> Any:
    """Emit a call of `relax.op.<sugar>`.

    Args:
        args: Tensors (numbers beside them take their dtype), shapes, None.
        name: the variable's name; the operator's if empty.
        attrs: as the operator takes them.
    """
    like = next((a for a in args if isinstance(a, Tensor)), None)
    function = attrgetter(sugar)(namespace)
    made = function(*(unwrap(a, like) for a in args), **attrs)
    return wrap_nested(made, name or sugar.rpartition(".")[2])


def wrap_nested(expr: Expr, name: str) -> Any:
    """Bind an expression to a variable: a Tensor, or a tuple of them for a tuple.

    Raises:
        TypeInferError: it is neither, or its shape or dtype are not known.
    """
    var = expr if isinstance(expr, Var) else builder(name).emit(expr, name)
    info = var.struct_info
    if isinstance(info, TupleStructInfo):
        fields = range(len(info.fields))
        return tuple(wrap_nested(TupleGetItem(var, i), f"{name}_{i}") for i in fields)
    return Tensor(_expr=var)
