"""Expressions as values of their dtype: one rule for each node class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlcnb.codegen.llvm.emit import small
from mlcnb.codegen.llvm.emit import types as t
from mlcnb.codegen.llvm.emit.extremes import extreme
from mlcnb.codegen.llvm.emit.index import exact, rounded_down
from mlcnb.codegen.llvm.emit.to_integer import cast_to_integer, saturated
from mlcnb.core.errors import CodegenError
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import DType, dtype
from mlcnb.tir.buffer import BufferLoad

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.kernel import Emitter

#: flags of float arithmetic: a multiplication and an addition may fuse, nothing else may change;
#: but not of float16, which some CPUs would fuse and others cannot: numbers are the same on all
FLAGS = "contract"


def int_imm(em: Emitter, x: e.IntImm) -> str:
    """An integer or bool literal."""
    if x.dtype.is_bool:
        return "true" if x.value else "false"
    return "null" if x.dtype.is_handle and x.value == 0 else str(x.value)


def float_imm(em: Emitter, x: e.FloatImm) -> str:
    """A float literal, exact."""
    return t.float_literal(x.value, x.dtype)


def string(em: Emitter, x: e.StringImm) -> str:
    """The address of the text, ended by a null byte, as C wants it."""
    return constant(em, x.value.encode("utf-8", "surrogatepass") + b"\0", align=1)


def constant(em: Emitter, raw: bytes, align: int = 64) -> str:
    """The address of bytes that stand in the object, once for all that are the same."""
    digits = "".join(f"\\{byte:02X}" for byte in raw)
    line = f'private unnamed_addr constant [{len(raw)} x i8] c"{digits}", align {align}'
    name = f"@.text.{em.module.metadata()}"
    return em.module.declare(line, f"{name} = {line}") and name


def var(em: Emitter, x: e.Var) -> str:
    """A variable; one that is held as an index is narrowed to its dtype."""
    if x not in em.f.env:
        raise CodegenError(f"variable {x.name!r} is used where it is not defined")
    operand, is_index = em.f.env[x]
    if not is_index or x.dtype.bits == 64:
        return operand
    if x.dtype.is_bool:
        return em.f.emit(f"trunc i64 {operand} to i1")
    return em.f.emit(f"trunc i64 {operand} to {t.scalar_type(x.dtype)}")


def arithmetic(float_op: str, int_op: str) -> Callable[[Emitter, Any], str]:
    """+ - * on floats and (wrapping) integers."""

    def rule(em: Emitter, x: Any) -> str:
        a, b = em.expr(x.a), em.expr(x.b)
        if x.dtype.is_float:
            flags = "" if x.dtype.element == "float16" else f" {FLAGS}"
            return em.rounded(em.f.emit(f"{float_op}{flags} {em.type(x.dtype)} {a}, {b}"), x.dtype)
        if x.dtype.is_bool:
            raise CodegenError(f"no {int_op} of bool values", hint="cast to int32 first")
        return em.f.emit(f"{int_op} {em.type(x.dtype)} {a}, {b}")

    return rule


def divide(em: Emitter, x: e.Div) -> str:
    """Float division, or integer division towards zero."""
    if x.dtype.is_float:
        a, b = em.expr(x.a), em.expr(x.b)
        return em.rounded(em.f.emit(f"fdiv {FLAGS} {em.type(x.dtype)} {a}, {b}"), x.dtype)
    return int_division(em, x)[0]


def trunc_mod(em: Emitter, x: e.Mod) -> str:
    """Remainder with the sign of the dividend."""
    if x.dtype.is_float:
        a, b = em.expr(x.a), em.expr(x.b)
        return em.rounded(em.f.emit(f"frem {em.type(x.dtype)} {a}, {b}"), x.dtype)
    return int_division(em, x)[1]


def floor_div(em: Emitter, x: e.FloorDiv) -> str:
    """Integer division towards minus infinity."""
    return floor_pair(em, x)[0]


def floor_mod(em: Emitter, x: e.FloorMod) -> str:
    """Remainder with the sign of the divisor."""
    return floor_pair(em, x)[1]


def int_division(em: Emitter, x: Any) -> tuple[str, str]:
    """Quotient and remainder towards zero; a zero divisor stops the kernel, -1 cannot trap."""
    a, b, kind = em.expr(x.a), em.expr(x.b), em.type(x.dtype)
    return _divide(em, a, b, kind, x.b, x.dtype)


def _divide(
    em: Emitter, a: str, b: str, kind: str, divisor: e.PrimExpr, d: DType
) -> tuple[str, str]:
    f = em.f
    if isinstance(divisor, e.Broadcast):
        divisor = divisor.value
    if d.is_uint:
        if not isinstance(divisor, e.IntImm):
            _stop_on_zero(em, b, kind, d)
            return _shared(em, a, b, d)
        return f.emit(f"udiv {kind} {a}, {b}"), f.emit(f"urem {kind} {a}, {b}")
    if isinstance(divisor, e.IntImm) and divisor.value != -1:
        return f.emit(f"sdiv {kind} {a}, {b}"), f.emit(f"srem {kind} {a}, {b}")
    _stop_on_zero(em, b, kind, d)
    bools = t.vector("i1", d.lanes)
    minus_one = f.emit(f"icmp eq {kind} {b}, {_int_splat(-1, d)}")
    safe = f.emit(f"select {bools} {minus_one}, {kind} {_int_splat(1, d)}, {kind} {b}")
    quotient, remainder = _shared(em, a, safe, d)
    negated = f.emit(f"sub {kind} {t.zero(d)}, {a}")
    return f.emit(f"select {bools} {minus_one}, {kind} {negated}, {kind} {quotient}"), remainder


def _shared(em: Emitter, a: str, b: str, d: DType) -> tuple[str, str]:
    """Quotient and remainder by a divisor that is not 0, and not -1 of signed ones.

    CPUs divide vectors of floats only. One of so many more bits than the integers rounds no
    quotient to a whole number that it does not reach: it lies at least 1 / b below.
    """
    f, kind, sign = em.f, em.type(d), "u" if d.is_uint else "s"
    if d.lanes == 1 or d.bits > 32:
        return f.emit(f"{sign}div {kind} {a}, {b}"), f.emit(f"{sign}rem {kind} {a}, {b}")
    real = t.vector("float" if d.bits <= 16 else "double", d.lanes)
    x, y = (f.emit(f"{sign}itofp {kind} {v} to {real}") for v in (a, b))
    share = f.emit(f"fdiv {real} {x}, {y}")
    quotient = f.emit(f"fpto{sign}i {real} {share} to {kind}")
    taken = f.emit(f"mul {kind} {quotient}, {b}")
    return quotient, f.emit(f"sub {kind} {a}, {taken}")


def _stop_on_zero(em: Emitter, b: str, kind: str, d: DType) -> None:
    zeros = em.f.emit(f"icmp eq {kind} {b}, {t.zero(d)}")
    em.stop_if(em.any_lane(zeros, d.lanes), 2)


def _int_splat(value: int, d: DType) -> str:
    return t.splat(t.scalar_type(d), value, d.lanes)


def floor_pair(em: Emitter, x: Any) -> tuple[str, str]:
    """Floor quotient and remainder, from the truncating ones."""
    d, f = x.dtype, em.f
    kind, bools = em.type(d), t.vector("i1", d.lanes)
    a, b = em.expr(x.a), em.expr(x.b)
    quotient, remainder = _divide(em, a, b, kind, x.b, d)
    if d.is_uint:
        return quotient, remainder
    return rounded_down(f, quotient, remainder, b, kind, bools, t.zero(d), _int_splat(1, d))


def compare(float_op: str, signed: str, unsigned: str) -> Callable[[Emitter, Any], str]:
    """A comparison; of floats ordered, but != which is true of NaN."""

    def rule(em: Emitter, x: Any) -> str:
        d = x.a.dtype
        if d.is_integer and d.lanes == 1 and em.is_index(x.a) and em.is_index(x.b):
            word = unsigned if d.is_uint else signed
            return em.f.emit(f"icmp {word} i64 {exact(em, x.a)}, {exact(em, x.b)}")
        a, b, kind = em.expr(x.a), em.expr(x.b), em.type(d)
        if d.is_float:
            return em.f.emit(f"fcmp {float_op} {kind} {a}, {b}")
        return em.f.emit(f"icmp {unsigned if d.is_uint or d.is_bool else signed} {kind} {a}, {b}")

    return rule


def logical(instruction: str) -> Callable[[Emitter, Any], str]:
    """and / or of bool values; the second is evaluated only where it counts, if it reads memory or
    divides by what may be zero.
    """

    def rule(em: Emitter, x: Any) -> str:
        if x.dtype.lanes == 1 and any(map(_may_stop, walk(x.b))):
            return lazily(em, x, instruction)
        return em.f.emit(f"{instruction} {em.type(x.dtype)} {em.expr(x.a)}, {em.expr(x.b)}")

    return rule


def _may_stop(n: Any) -> bool:
    """True for a load, and for a division of integers by what is no constant."""
    if isinstance(n, e.Div | e.Mod | e.FloorDiv | e.FloorMod):
        return not n.dtype.is_float and not (isinstance(n.b, e.IntImm) and n.b.value)
    return isinstance(n, BufferLoad)


def lazily(em: Emitter, x: Any, instruction: str) -> str:
    """a and b, a or b, with b evaluated in a block of its own."""
    f = em.f
    second, done = f.label("second"), f.label("done")
    a = em.expr(x.a)
    before = f.block
    targets = (second, done) if instruction == "and" else (done, second)
    f.do(f"br i1 {a}, label %{targets[0]}, label %{targets[1]}")
    f.place(second)
    b = em.expr(x.b)
    after = f.block
    f.do(f"br label %{done}")
    f.place(done)
    known = "false" if instruction == "and" else "true"
    return f.emit(f"phi i1 [ {known}, %{before} ], [ {b}, %{after} ]")


def logical_not(em: Emitter, x: e.Not) -> str:
    """not of a bool value."""
    ones = t.splat("i1", "true", x.dtype.lanes)
    return em.f.emit(f"xor {em.type(x.dtype)} {em.expr(x.a)}, {ones}")


def select(em: Emitter, x: e.Select) -> str:
    """condition ? a : b, both evaluated."""
    kind = em.type(x.dtype)
    condition, a, b = em.expr(x.condition), em.expr(x.true_value), em.expr(x.false_value)
    bools = em.type(x.condition.dtype)
    return em.f.emit(f"select {bools} {condition}, {kind} {a}, {kind} {b}")


def let(em: Emitter, x: e.Let) -> str:
    """A variable for an expression."""
    em.f.env[x.var] = (em.expr(x.value), False)
    return em.expr(x.body)


def broadcast(em: Emitter, x: e.Broadcast) -> str:
    """Every lane the same value."""
    return em.splat(em.expr(x.value), x.value.dtype, x.lanes)


def ramp(em: Emitter, x: e.Ramp) -> str:
    """base, base + stride, … as data."""
    kind = em.type(x.dtype)
    element = t.scalar_type(x.dtype)
    base = em.splat(em.expr(x.base), x.base.dtype, x.lanes)
    stride = em.splat(em.expr(x.stride), x.stride.dtype, x.lanes)
    steps = "<" + ", ".join(f"{element} {i}" for i in range(x.lanes)) + ">"
    offsets = em.f.emit(f"mul {kind} {steps}, {stride}")
    return em.f.emit(f"add {kind} {base}, {offsets}")


def shuffle(em: Emitter, x: e.Shuffle) -> str:
    """Lanes picked from the concatenation of vectors: one instruction for one or two alike."""
    kinds = {source.dtype for source in x.vectors}
    places = [i.value for i in x.indices if isinstance(i, e.IntImm)]
    alike = len(kinds) == 1 and len(x.vectors) <= 2 and min(k.lanes for k in kinds) > 1
    if alike and len(places) == len(x.indices) and len(places) > 1:
        return _shufflevector(em, x, places)
    lanes: list[tuple[str, str, int]] = []
    for source in x.vectors:
        operand = em.expr(source)
        kind = em.type(source.dtype)
        lanes.extend((kind, operand, i) for i in range(source.dtype.lanes))
    element = t.scalar_type(x.dtype)
    result, kind = "poison", em.type(x.dtype)
    for position, wanted in enumerate(x.indices):
        if not isinstance(wanted, e.IntImm):
            raise CodegenError("shuffle indices must be constants")
        source_kind, operand, lane = lanes[wanted.value]
        if source_kind.startswith("<"):
            operand = em.f.emit(f"extractelement {source_kind} {operand}, i64 {lane}")
        if not kind.startswith("<"):
            return operand
        result = em.f.emit(f"insertelement {kind} {result}, {element} {operand}, i64 {position}")
    return result


def _shufflevector(em: Emitter, x: e.Shuffle, places: list[int]) -> str:
    kind = em.type(x.vectors[0].dtype)
    operands = [em.expr(source) for source in x.vectors]
    one, two = operands if len(operands) == 2 else (*operands, "poison")
    mask = ", ".join(f"i32 {i}" for i in places)
    return em.f.emit(f"shufflevector {kind} {one}, {kind} {two}, <{len(places)} x i32> <{mask}>")


def cast(em: Emitter, x: e.Cast) -> str:
    """A conversion; floats to integers saturate, NaN gives 0 (NumPy leaves both open)."""
    source, to = x.value.dtype, x.dtype
    if source.is_integer and source.lanes == 1 and em.is_index(x.value) and not to.is_bool:
        return _from_index(em, exact(em, x.value), to)
    if source.is_float and to.is_integer:
        return cast_to_integer(em, x)
    return convert(em, em.expr(x.value), source, to)


def _from_index(em: Emitter, operand: str, to: DType) -> str:
    if to.is_float:
        return convert(em, operand, dtype("int64"), to)
    return operand if to.bits == 64 else em.f.emit(f"trunc i64 {operand} to {em.type(to)}")


def convert(em: Emitter, value: str, source: DType, to: DType) -> str:
    """`value` of dtype `source` as dtype `to`."""
    a, b = em.type(source), em.type(to)
    if to.is_bool:
        return _to_bool(em, value, source)
    if source.is_float and to.is_float:
        return _float_to_float(em, value, source, to)
    if source.is_float:
        return saturated(em, value, source, to)
    if to.is_float:
        signed = source.is_int
        op = "sitofp" if signed else "uitofp"
        if to.bits <= 8:
            wide = em.f.emit(f"{op} {a} {value} to {t.vector('double', to.lanes)}")
            return em.rounded(small.from_double(em, wide, to.lanes), to)
        return em.rounded(em.f.emit(f"{op} {a} {value} to {b}"), to)
    if a == b:
        return value
    if source.is_handle or to.is_handle:
        op = "ptrtoint" if source.is_handle else "inttoptr"
        return em.f.emit(f"{op} {a} {value} to {b}")
    if to.bits < source.bits:
        return em.f.emit(f"trunc {a} {value} to {b}")
    return em.f.emit(f"{'sext' if source.is_int else 'zext'} {a} {value} to {b}")


def _to_bool(em: Emitter, value: str, source: DType) -> str:
    if source.is_bool:
        return value
    op = "fcmp une" if source.is_float else "icmp ne"
    zero = t.zero(source) if source.lanes != 1 or not source.is_handle else "null"
    return em.f.emit(f"{op} {em.type(source)} {value}, {zero}")


def _float_to_float(em: Emitter, value: str, source: DType, to: DType) -> str:
    a, b = em.type(source), em.type(to)
    if a == b:
        return em.rounded(value, to) if source.element != to.element else value
    held = [32 if d.element == "bfloat16" or d.bits <= 8 else d.bits for d in (source, to)]
    if to.bits <= 8 and held[0] == 64:
        return em.rounded(small.from_double(em, value, to.lanes), to)
    by_single = "f16c" in em.features and "avx512fp16" not in em.features
    if to.element == "float16" and held[0] == 64 and by_single:  # LLVM would call for each lane
        value, a = small.from_double(em, value, to.lanes), t.vector("float", to.lanes)
    wider = held[1] > held[0]
    made = em.f.emit(f"{'fpext' if wider else 'fptrunc'} {a} {value} to {b}")
    return em.rounded(made, to)


RULES: dict[type, Callable[[Any, Any], str]] = {
    e.IntImm: int_imm,
    e.StringImm: string,
    e.FloatImm: float_imm,
    e.Var: var,
    e.SizeVar: var,
    e.Add: arithmetic("fadd", "add"),
    e.Sub: arithmetic("fsub", "sub"),
    e.Mul: arithmetic("fmul", "mul"),
    e.Div: divide,
    e.Mod: trunc_mod,
    e.FloorDiv: floor_div,
    e.FloorMod: floor_mod,
    e.Min: extreme("min"),
    e.Max: extreme("max"),
    e.EQ: compare("oeq", "eq", "eq"),
    e.NE: compare("une", "ne", "ne"),
    e.LT: compare("olt", "slt", "ult"),
    e.LE: compare("ole", "sle", "ule"),
    e.GT: compare("ogt", "sgt", "ugt"),
    e.GE: compare("oge", "sge", "uge"),
    e.And: logical("and"),
    e.Or: logical("or"),
    e.Not: logical_not,
    e.Select: select,
    e.Let: let,
    e.Broadcast: broadcast,
    e.Ramp: ramp,
    e.Shuffle: shuffle,
    e.Cast: cast,
}

BOOL = dtype("bool")
