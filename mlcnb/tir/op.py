"""Intrinsics and helpers: `exp(x)` is `Call(x.dtype, "tir.exp", (x,))`.

    mathematics   exp log sqrt tanh sigmoid erf pow fmod …      integers are cast to float32 first
    rounding      floor ceil round trunc abs                    integers stay as they are
    predicates    isnan isinf isfinite likely all any
    bits          popcount clz reinterpret
    reductions    sum max min prod, comm_reducer                `max(a, b)` of two scalars is a Max
    calls         call_extern call_packed call_intrin call_llvm_pure_intrin …
    memory        address_of tvm_access_ptr tvm_storage_sync

Names and meaning follow TVM's `tvm.tir.op`, with one exception: `round` rounds halves to even.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Call, PrimExpr, StringImm, Var
from mlcnb.ir.prim_ops import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    ceildiv,
    floordiv,
    floormod,
    if_then_else,
    infinity,
    max_value,
    min_value,
    shift_left,
    shift_right,
    truncdiv,
    truncmod,
)
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.stmt import CommReducer, IterVar, Reduce

__all__ = [
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "ceildiv", "div", "floordiv",
    "floormod", "if_then_else", "infinity", "max_value", "min_value", "shift_left", "shift_right",
    "truncdiv", "truncmod",
]  # fmt: skip

Unary = Callable[[Any], PrimExpr]


def const(value: Any, dtype: Any = None) -> PrimExpr:
    """A constant of a dtype (default: int32 for int, float32 for float, bool for bool)."""
    return p.const(value, dtype)


def div(a: Any, b: Any) -> PrimExpr:
    """a / b as in C: integers rounded towards zero (see `truncdiv`, `floordiv`)."""
    a, b = p.match_dtypes(a, b)
    return p.div(a, b) if a.dtype.is_float else truncdiv(a, b)


#: divisions of indices, which are not negative where it matters
indexdiv, indexmod = floordiv, floormod


def call_intrin(dtype: str, name: str, *args: Any) -> Call:
    """A call of the intrinsic `name` ("tir.exp") that gives `dtype`."""
    return Call(_kind(dtype), name, tuple(map(_argument, args)))


def _argument(value: Any) -> PrimExpr:
    """An argument of a call: of a buffer, the pointer to its elements."""
    return value.data if isinstance(value, Buffer) else p.as_expr(value)


def _kind(spelling: str) -> DType:
    return dtype(str(spelling))


def _float_operand(x: Any) -> PrimExpr:
    """`x` as an expression, an integer or bool cast to float32."""
    x = p.as_expr(x)
    if x.dtype.is_handle:
        raise MLCError("an intrinsic of numbers got a handle")
    return x if x.dtype.is_float else p.cast("float32", x)


def _math(name: str, meaning: str) -> Unary:
    def build(x: Any) -> PrimExpr:
        x = _float_operand(x)
        return Call(x.dtype, f"tir.{name}", (x,))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""{meaning} of a float, in its dtype; integers are cast to float32.

    Raises:
        MLCError: x is a handle.
    """
    return build


exp = _math("exp", "e ** x")
exp2 = _math("exp2", "2 ** x")
exp10 = _math("exp10", "10 ** x")
log = _math("log", "Natural logarithm")
log2 = _math("log2", "Logarithm to base 2")
log10 = _math("log10", "Logarithm to base 10")
log1p = _math("log1p", "log(1 + x)")
expm1 = _math("expm1", "e ** x - 1")
sqrt = _math("sqrt", "Square root")
rsqrt = _math("rsqrt", "1 / sqrt(x)")
tanh = _math("tanh", "Hyperbolic tangent")
sigmoid = _math("sigmoid", "1 / (1 + exp(-x))")
erf = _math("erf", "Error function")
sin = _math("sin", "Sine")
cos = _math("cos", "Cosine")
tan = _math("tan", "Tangent")
asin = _math("asin", "Inverse sine")
acos = _math("acos", "Inverse cosine")
atan = _math("atan", "Inverse tangent")
sinh = _math("sinh", "Hyperbolic sine")
cosh = _math("cosh", "Hyperbolic cosine")
asinh = _math("asinh", "Inverse hyperbolic sine")
acosh = _math("acosh", "Inverse hyperbolic cosine")
atanh = _math("atanh", "Inverse hyperbolic tangent")


def _rounding(name: str, meaning: str) -> Unary:
    def build(x: Any) -> PrimExpr:
        x = p.as_expr(x)
        return Call(x.dtype, f"tir.{name}", (x,)) if x.dtype.is_float else x

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{meaning}, in the dtype of x; an integer stays as it is, none is refused."
    return build


floor = _rounding("floor", "The largest integer <= x")
ceil = _rounding("ceil", "The smallest integer >= x")
trunc = _rounding("trunc", "x without its fraction")
round = _rounding("round", "The nearest integer, halves to the even one")
nearbyint = _rounding("nearbyint", "The nearest integer, halves to the even one")


def abs(x: Any) -> PrimExpr:
    """|x|: `tir.fabs` of a float, a Select of a signed integer.

    The dtype is that of x; the smallest integer stays negative, as in C. An unsigned integer stays
    as it is, nothing is refused.
    """
    x = p.as_expr(x)
    if x.dtype.is_float:
        return Call(x.dtype, "tir.fabs", (x,))
    if isinstance(x, e.IntImm):
        return p.wrapped(-x.value if x.value < 0 else x.value, x.dtype)
    if x.dtype.is_int:
        return e.Select(p.greater_equal(x, p.const(0, x.dtype)), x, p.neg(x))
    return x


fabs = abs


def _binary(name: str, meaning: str) -> Callable[[Any, Any], PrimExpr]:
    def build(x: Any, y: Any) -> PrimExpr:
        x, y = p.match_dtypes(x, y)
        if not x.dtype.is_float:
            x, y = _float_operand(x), _float_operand(y)
        return Call(x.dtype, f"tir.{name}", (x, y))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = (
        f"{meaning}, in their common float dtype; integers are cast to float32.\n\nRaises:\n"
        "    MLCError: a pointer among them, or vectors of different lanes."
    )
    return build


atan2 = _binary("atan2", "The angle of the point (y, x): arguments in the order y, x")
fmod = _binary("fmod", "The remainder of x / y with the sign of x")
copysign = _binary("copysign", "|x| with the sign of y")
hypot = _binary("hypot", "sqrt(x * x + y * y)")
nextafter = _binary("nextafter", "The next number after x towards y")


def power(x: Any, y: Any) -> PrimExpr:
    """x ** y of two floats, or of two integers (the exponent then must not be negative).

    In the common dtype of both, so a float to an integer is float to float.

    Raises:
        MLCError: vectors of different lanes, or a pointer beside a number of another dtype.
    """
    x, y = p.match_dtypes(x, y)
    return Call(x.dtype, "tir.pow", (x, y))


pow = power


def ldexp(x: Any, y: Any) -> PrimExpr:
    """x * 2 ** y; y is an integer.

    In the dtype of x; an integer x is cast to float32.

    Raises:
        MLCError: y is no integer.
    """
    x, y = _float_operand(x), p.as_expr(y)
    p.integers("ldexp", y)
    return Call(x.dtype, "tir.ldexp", (x, y))


def _bool_like(x: PrimExpr) -> DType:
    return dtype("bool").with_lanes(x.dtype.lanes)


def isnan(x: Any) -> PrimExpr:
    """True where x is not a number; False for integers. Its dtype is bool, with the lanes of x;
    none is refused.
    """
    x = p.as_expr(x)
    kind = _bool_like(x)
    return Call(kind, "tir.isnan", (x,)) if x.dtype.is_float else p.const(False, kind)


def isinf(x: Any) -> PrimExpr:
    """True where x is plus or minus infinity; False for integers. Its dtype is bool, with the lanes
    of x; none is refused.
    """
    x = p.as_expr(x)
    if not x.dtype.is_float:
        return p.const(False, _bool_like(x))
    return p.logical_and(p.equal(abs(x), p.infinity(x.dtype)), p.logical_not(isnan(x)))


def isfinite(x: Any) -> PrimExpr:
    """True where x is neither infinite nor NaN; True for integers. Its dtype is bool, with the
    lanes of x; none is refused.
    """
    x = p.as_expr(x)
    if not x.dtype.is_float:
        return p.const(True, _bool_like(x))
    return p.logical_and(p.logical_not(isinf(x)), p.logical_not(isnan(x)))


def popcount(x: Any) -> PrimExpr:
    """The number of bits set, in the dtype of x.

    Raises:
        MLCError: x is no integer.
    """
    x = p.as_expr(x)
    p.integers("popcount", x)
    return Call(x.dtype, "tir.popcount", (x,))


def clz(x: Any) -> PrimExpr:
    """The number of leading zero bits of an integer, int32; undefined for 0.

    Counted in the dtype of x: clz of int64 1 is 63.

    Raises:
        MLCError: x is no integer.
    """
    x = p.as_expr(x)
    p.integers("clz", x)
    return Call(dtype("int32"), "tir.clz", (x,))


def vscale() -> Call:
    """How many times longer the vectors of the machine are than 128 bits: scalable vectors."""
    return Call(dtype("int32"), "tir.vscale", ())


def likely(condition: Any) -> PrimExpr:
    """The condition, marked as usually true: a loop bound that a split brought.

    Means the condition, in its dtype (bool); nothing is refused.
    """
    condition = p.as_expr(condition)
    if isinstance(condition, e.IntImm):
        return condition
    return Call(condition.dtype, "tir.likely", (condition,))


def reinterpret(dtype: str, value: Any) -> PrimExpr:
    """The bits of `value` as a number of `dtype`, which has as many bits.

    Raises:
        MLCError: `dtype` has another number of bits.
    """
    value = p.as_expr(value)
    kind = _kind(dtype)
    if value.dtype == kind:
        return value
    if value.dtype.bits * value.dtype.lanes != kind.bits * kind.lanes:
        raise MLCError(f"reinterpret: {value.dtype} and {kind} differ in size")
    return Call(kind, "tir.reinterpret", (value,))


def ret(value: Any) -> PrimExpr:
    """End the function with `value` as its result."""
    value = p.as_expr(value)
    return Call(value.dtype, "tir.ret", (value,))


# calls of functions outside


def call_extern(dtype: str, func_name: str, *args: Any) -> Call:
    """Call the C function `func_name`, which may have effects."""
    return call_intrin(dtype, "tir.call_extern", StringImm(func_name), *args)


def call_pure_extern(dtype: str, func_name: str, *args: Any) -> Call:
    """Call the C function `func_name`, which has no effects."""
    return call_intrin(dtype, "tir.call_pure_extern", StringImm(func_name), *args)


def call_packed(func_name: str, *args: Any) -> Call:
    """Call the function registered as `func_name` (`mlcnb.register_func`)."""
    return call_intrin("int32", "tir.tvm_call_packed", StringImm(func_name), *args)


def call_cpacked(func_name: str, *args: Any) -> Call:
    """Call a packed function of the same module by its symbol."""
    return call_intrin("int32", "tir.tvm_call_cpacked", StringImm(func_name), *args)


def call_llvm_intrin(dtype: str, name: str, *args: Any) -> Call:
    """Call an LLVM intrinsic ("llvm.prefetch") that has effects."""
    return call_intrin(dtype, "tir.call_llvm_intrin", StringImm(name), *args)


def call_llvm_pure_intrin(dtype: str, name: str, *args: Any) -> Call:
    """Call an LLVM intrinsic ("llvm.fma.f32") that has no effects."""
    return call_intrin(dtype, "tir.call_llvm_pure_intrin", StringImm(name), *args)


# memory


def address_of(obj: Any) -> Call:
    """The address of an element (`A[i]`) or of a buffer's first element.

    Raises:
        MLCError: it is neither.
    """
    if not isinstance(obj, BufferLoad | Buffer):
        raise MLCError(
            f"address_of: {obj!r} lies nowhere", hint="give an element A[i], or a buffer A"
        )
    if not isinstance(obj, BufferLoad):
        obj = BufferLoad(obj, tuple(p.const(0, extent.dtype) for extent in obj.shape))
    return Call(dtype("handle"), "tir.address_of", (obj,))


def type_annotation(dtype: str) -> Call:
    """A dtype as an argument: the zero of that dtype, never evaluated."""
    return Call(_kind(dtype), "tir.type_annotation", ())


def tvm_access_ptr(ptype: Any, data: Var, offset: Any, extent: Any, rw_mask: int) -> Call:
    """A pointer to `extent` elements from `data + offset`; rw_mask: 1 read, 2 written, 3 both."""
    kind = ptype if isinstance(ptype, PrimExpr) else type_annotation(ptype)
    return call_intrin("handle", "tir.tvm_access_ptr", kind, data, offset, extent, rw_mask)


def tvm_storage_sync(scope: str) -> Call:
    """Barrier: all threads of the block wait, and see what was written to `scope`."""
    return call_intrin("int32", "tir.tvm_storage_sync", StringImm(scope))


def atomic_add(address: Any, value: Any) -> Call:
    """An element goes up by a number, and no other thread comes in between.

    Args:
        address: `T.address_of(B[i])`.
        value: the number, of the element's dtype.

    Returns:
        The call; its value is what the element was before.
    """
    term = p.as_expr(value)
    return Call(term.dtype, "tir.atomic_add", (address, term))


def ptx_commit_group() -> Call:
    """The asynchronous copies that a thread has issued since the last group are one group."""
    return Call(dtype("void"), "tir.ptx_commit_group", ())


def ptx_wait_group(num: int) -> Call:
    """A thread waits until all but its last `num` groups of asynchronous copies have arrived."""
    return Call(dtype("void"), "tir.ptx_wait_group", (p.const(num),))


def ptx_cp_async(
    dtype: str,
    shared_ptr: Any,
    shared_offset: Any,
    global_ptr: Any,
    global_offset: Any,
    bytes: Any,
    predicate: Any = None,
) -> Call:
    """Copy 4, 8 or 16 bytes from global to shared memory while the thread goes on (`cp.async`).

    Args:
        dtype: of the elements, in which the offsets count.
        shared_ptr, shared_offset: where to.
        global_ptr, global_offset: where from.
        bytes: how many.
        predicate: where it does not hold zeros are written, and nothing is read.
    """
    args = [shared_ptr, shared_offset, global_ptr, global_offset, bytes]
    more = [] if predicate is None else [predicate]
    return call_intrin(dtype, "tir.ptx_cp_async", *args, *more)


def ptx_ldmatrix(
    dtype: str,
    trans: Any,
    num: Any,
    type: str,
    local_ptr: Any,
    local_offset: Any,
    smem_ptr: Any,
    smem_offset: Any,
) -> Call:
    """Load `num` matrices of 8 x 8 halves from shared memory into the registers of a warp.

    Args:
        dtype: of the elements, in which the offsets count.
        trans: the matrices are turned on the way.
        num: 1, 2 or 4.
        type: ".b16".
        local_ptr, local_offset: where the thread's own 2 * num elements go.
        smem_ptr, smem_offset: where a row of 8 begins: thread t gives row t % 8 of matrix t // 8.
    """
    args = [local_ptr, local_offset, smem_ptr, smem_offset]
    return call_intrin(dtype, "tir.ptx_ldmatrix", trans, num, type, *args)


def tvm_thread_allreduce(*args: Any) -> Call:
    """Combine values across threads; arguments as in TVM."""
    return call_intrin("handle", "tir.tvm_thread_allreduce", *args)


# reductions


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """A reduction of your own: `fcombine(x, y)` combines, `fidentity(dtype)` starts.

    The identity and what is combined are cast to the dtype of the expression. That `fcombine` is
    commutative is taken on trust: what is not is refused by rfactor alone, which knows + * min max.

    Both return tuples for a reduction of several values at once; fidentity then gets several dtypes
    and fcombine two tuples. The result is called as `reducer(expr, axis=k)` in a tensor expression
    (with `where=` and `init=`), or as `reducer(a, b)` to combine two scalars.
    """

    def reducer(expr: Any, axis: Any = None, where: Any = None, init: Any = None) -> Any:
        if axis is None:
            raise MLCError(
                f"{name}: the axis to reduce over is missing",
                hint=f'k = te.reduce_axis((0, n), "k"); te.{name}(A[i, k], axis=k)',
            )
        axes = axis if isinstance(axis, list | tuple) else [axis]
        if _all_iter_vars(axes):
            return _reduce(fcombine, fidentity, expr, axes, where, init)
        return fcombine(expr, axis)

    reducer.__name__ = reducer.__qualname__ = name
    reducer.__doc__ = f"""{name} of an expression over reduce axes, or of two scalars.

    The dtype is that of the expression (of two scalars the common one): cast before where it is
    too narrow. `where` says which elements count, `init` what to start from.

    Raises:
        MLCError: when it is put into a `te.compute` as a part of its body, not as the whole.
    """
    return reducer


def _all_iter_vars(axes: Sequence[Any]) -> bool:
    """True where there is at least one axis and each is an IterVar."""
    return len(axes) > 0 and not [a for a in axes if not isinstance(a, IterVar)]


def _reduce(
    fcombine: Callable, fidentity: Callable, expr: Any, axes: Any, where: Any, init: Any
) -> Any:
    several = isinstance(expr, tuple | list)
    sources = tuple(p.as_expr(x) for x in (expr if several else (expr,)))
    kinds = [x.dtype for x in sources]
    lhs = tuple(Var(f"x{i}" if several else "x", kind) for i, kind in enumerate(kinds))
    rhs = tuple(Var(f"y{i}" if several else "y", kind) for i, kind in enumerate(kinds))
    combined = fcombine(lhs, rhs) if several else (fcombine(lhs[0], rhs[0]),)
    identity = fidentity(*kinds) if several else (fidentity(kinds[0]),)
    reducer = CommReducer(lhs, rhs, _of_kinds(combined, kinds), _of_kinds(identity, kinds))
    start = () if init is None else _of_kinds(init if several else (init,), kinds)
    condition = p.const(True) if where is None else p.as_expr(where)
    made = [Reduce(reducer, sources, tuple(axes), condition, i, start) for i in range(len(sources))]
    return tuple(made) if several else made[0]


def _of_kinds(values: Sequence[Any], kinds: Sequence[DType]) -> tuple[PrimExpr, ...]:
    return tuple(p.cast(k, p.as_expr(v, k)) for v, k in zip(values, kinds, strict=True))


def _lowest(kind: DType) -> PrimExpr:
    """What `max` starts from: -inf where the dtype has it."""
    has_infinity = kind.is_float and kind.bits >= 16
    return p.const(-float("inf"), kind) if has_infinity else p.min_value(kind)


def _highest(kind: DType) -> PrimExpr:
    has_infinity = kind.is_float and kind.bits >= 16
    return p.infinity(kind) if has_infinity else p.max_value(kind)


sum = comm_reducer(p.add, lambda kind: p.const(0, kind), "sum")
prod = comm_reducer(p.multiply, lambda kind: p.const(1, kind), "prod")
max = comm_reducer(p.maximum, _lowest, "max")
min = comm_reducer(p.minimum, _highest, "min")
_reduce_all = comm_reducer(p.logical_and, lambda kind: p.const(True, kind), "all")
_reduce_any = comm_reducer(p.logical_or, lambda kind: p.const(False, kind), "any")


def all(*conditions: Any, axis: Any = None) -> Any:
    """All conditions hold; with `axis`, one condition holds everywhere along reduce axes.

    Of dtype bool; without any, true.

    Raises:
        TypeError: more than one condition, and `axis`.
    """
    if axis is not None:
        return _reduce_all(*conditions, axis=axis)
    return p.all_of(*conditions)


def any(*conditions: Any, axis: Any = None) -> Any:
    """One of the conditions holds; with `axis`, one condition holds somewhere along reduce axes.

    Of dtype bool; without any, false.

    Raises:
        TypeError: more than one condition, and `axis`.
    """
    if axis is not None:
        return _reduce_any(*conditions, axis=axis)
    return p.any_of(*conditions)
