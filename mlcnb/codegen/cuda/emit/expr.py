"""Scalar expressions as CUDA C++, with no more parentheses than it takes.

i * 4 + j                 (i0 * 32 + i1) // 4 of what is never negative     (i0 * 32 + i1) / 4
A[i]                      what may be negative                              floordiv<int>(a, 4)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.codegen.cuda.emit import functions, types
from mlcnb.codegen.cuda.emit.helpers import HELPERS
from mlcnb.codegen.cuda.emit.types import ctype
from mlcnb.core.errors import CodegenError
from mlcnb.core.node import Node, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.tir.analysis.bulk import Matrix
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.functor import substitute

#: how tightly C++ binds; a higher number binds tighter
ATOM, UNARY, MUL, ADD, SHIFT, LESS, EQUAL, AND, XOR, OR, LAND, LOR, CHOICE = range(16, 3, -1)
_ARITHMETIC = {e.Add: ("+", ADD), e.Sub: ("-", ADD), e.Mul: ("*", MUL)}
_COMPARE = {
    e.LT: ("<", LESS), e.LE: ("<=", LESS), e.GT: (">", LESS), e.GE: (">=", LESS),
    e.EQ: ("==", EQUAL), e.NE: ("!=", EQUAL), e.And: ("&&", LAND), e.Or: ("||", LOR),
}  # fmt: skip
_BITS = {
    "tir.bitwise_and": ("&", AND), "tir.bitwise_or": ("|", OR), "tir.bitwise_xor": ("^", XOR),
    "tir.shift_left": ("<<", SHIFT), "tir.shift_right": (">>", SHIFT),
}  # fmt: skip
#: a buffer of more elements than this is indexed in 64 bits
_LARGE = 2**31 - 1

Text = tuple[str, int]


class Emitter:
    """What is known while a kernel is written: names, bounds of variables, helpers used."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.taken: set[str] = {*_RESERVED, *functions.NAMES, *HELPERS}
        self.analyzer = Analyzer()
        self.helpers: dict[str, None] = {}
        #: where arrays of dynamic shared memory begin in it, in bytes
        self.offsets: dict[e.Var, int] = {}
        #: True if shared memory that threads write is read by products of warpgroups, or that they
        #: read is written by copies in bulk
        self.by_proxies = False
        #: tensor maps that the kernel gets: of a pointer and a matrix the name of the parameter
        self.maps: dict[tuple[e.Var, Matrix], str] = {}
        #: True if the kernel may report an error through its last parameter
        self.reports = False
        #: what it reports, by number
        self.messages: list[str] = []

    def helper(self, name: str) -> str:
        """A device function of `helpers`, which will be written above the kernel."""
        self.helpers.setdefault(name)
        return name

    def map_of(self, data: Any, matrix: Matrix) -> str:
        """The tensor map of a matrix that begins at a pointer."""
        key = data, matrix
        if key not in self.maps:
            self.maps[key] = self.name(key, f"{data.name}_map")
        return self.maps[key]

    def name(self, key: Any, wanted: str | None = None) -> str:
        """The name of a variable: its own, with a number where that is taken."""
        if key not in self.names:
            base = "".join(c if c.isascii() and c.isalnum() else "_" for c in wanted or key.name)
            if not base or base[0].isdigit() or base.startswith("__"):  # these are the compiler's
                base = f"v_{base}"
            found, number = base, 0
            while found in self.taken:
                number += 1
                found = f"{base}_{number}"
            self.taken.add(found)
            self.names[key] = found
        return self.names[key]

    # expressions

    def expr(self, x: e.PrimExpr) -> str:
        """An expression, bare."""
        return self.text(x)[0]

    def operand(self, x: e.PrimExpr, least: int = ATOM) -> str:
        """An expression in parentheses unless it binds at least so tightly."""
        text, binds = self.text(x)
        return text if binds >= least else f"({text})"

    def text(self, x: e.PrimExpr) -> Text:
        """An expression, and how tightly it binds."""
        rule = _RULES.get(type(x))
        if rule is None:
            raise CodegenError(f"the cuda backend has no form for {type(x).__name__}")
        if x.dtype.lanes != 1:
            raise CodegenError(f"a vector of {x.dtype} stands where a number belongs")
        return rule(self, x)

    def is_nonnegative(self, *parts: e.PrimExpr) -> bool:
        """True if expressions are certainly not negative."""
        return all(x.dtype.is_uint or self.analyzer.const_bounds(x)[0] >= 0 for x in parts)

    def is_within(self, x: e.PrimExpr, extent: int) -> bool:
        """True if an expression is certainly one of 0 … extent - 1."""
        low, high = self.analyzer.const_bounds(x)
        return low >= 0 and high < extent

    def refuse_exchange(self, *parts: e.PrimExpr) -> None:
        """Refuse a shuffle where C++ would let some threads pass it by.

        Raises:
            CodegenError: there is one.
        """
        for part in parts:
            if any(isinstance(n, e.Call) and "tvm_warp_shuffle" in str(n.op) for n in walk(part)):
                raise CodegenError(
                    "a shuffle stands where only some threads come by",
                    hint="give its value a name with T.LetStmt before the choice",
                )

    def pointer(self, buffer: Buffer) -> str:
        """The pointer to a buffer's memory, cast where the memory is of another dtype."""
        if buffer.dtype.lanes != 1:
            raise CodegenError(f"buffer {buffer.name} has vectors as elements")
        name = self.name(buffer.data)
        held = buffer.data.pointee[0] if buffer.data.pointee else str(buffer.dtype)
        same = ctype(dtype(held)) == ctype(buffer.dtype)
        return name if same else f"(({ctype(buffer.dtype)}*){name})"

    def element(self, buffer: Buffer, indices: tuple[e.PrimExpr, ...]) -> str:
        """One element of a buffer."""
        if len(indices) != 1:
            raise CodegenError(
                f"buffer {buffer.name} has {len(indices)} dimensions",
                hint="lower the function first: mlcnb.tir.transform.lower(func)",
            )
        return f"{self.pointer(buffer)}[{self.expr(self.index(buffer, indices[0]))}]"

    def index(self, buffer: Buffer, index: e.PrimExpr) -> e.PrimExpr:
        """An index in 64 bits where 32 may not be enough."""
        size = p.as_int(buffer.shape[0]) if buffer.shape else 1
        if index.dtype.bits >= 64 or (size is not None and size <= _LARGE):
            return index
        wide = dtype("int64")

        def rule(n: Node) -> Node | None:
            if isinstance(n, e.Var) and n.dtype == "int32":
                return e.Cast(wide, n)
            if isinstance(n, e.IntImm) and n.dtype == "int32":
                return e.IntImm(wide, n.value)
            return None

        return rewrite(
            index, rule, enter=lambda n: n if isinstance(n, BufferLoad | e.Call) else None
        )


def _immediate(em: Emitter, x: e.IntImm) -> Text:
    return types.integer(x.value, x.dtype), ATOM if x.value >= 0 else UNARY


def _floating(em: Emitter, x: e.FloatImm) -> Text:
    return types.floating(x.value, x.dtype), ATOM if x.value >= 0 else UNARY


def _variable(em: Emitter, x: e.Var) -> Text:
    return em.name(x), ATOM


def _cut(text: str, binds: int, kind: DType) -> Text:
    """The result of arithmetic, cut back to a dtype that C++ computes as int."""
    if kind.element in types.NARROW:
        return f"({ctype(kind)})({text})", UNARY
    return text, binds


def _arithmetic(em: Emitter, x: Any) -> Text:
    sign, binds = _ARITHMETIC[type(x)]
    left = em.operand(x.a, binds)
    right = em.operand(x.b, binds if isinstance(x, e.Add) and _is_index(x) else binds + 1)
    return _cut(f"{left} {sign} {right}", binds, x.dtype)


def _is_index(x: e.PrimExpr) -> bool:
    """True for integers: their sums may be regrouped."""
    return x.dtype.is_integer


def _compare(em: Emitter, x: Any) -> Text:
    sign, binds = _COMPARE[type(x)]
    if isinstance(x, e.And | e.Or):
        em.refuse_exchange(x.b)
    return f"{em.operand(x.a, binds)} {sign} {em.operand(x.b, binds + 1)}", binds


def _not(em: Emitter, x: e.Not) -> Text:
    return f"!{em.operand(x.a, UNARY)}", UNARY


def _division(em: Emitter, x: e.Div) -> Text:
    return _cut(f"{em.operand(x.a, MUL)} / {em.operand(x.b, MUL + 1)}", MUL, x.dtype)


def _remainder(em: Emitter, x: e.Mod) -> Text:
    if x.dtype.is_float:
        return em.text(e.Call(x.dtype, "tir.fmod", (x.a, x.b)))
    return _cut(f"{em.operand(x.a, MUL)} % {em.operand(x.b, MUL + 1)}", MUL, x.dtype)


def _floordiv(em: Emitter, x: e.FloorDiv) -> Text:
    if x.dtype.is_float:
        return em.text(e.Call(x.dtype, "tir.floor", (e.Div(x.a, x.b),)))
    if em.is_nonnegative(x.a, x.b):
        return _division(em, e.Div(x.a, x.b))
    args = f"{em.expr(x.a)}, {em.expr(x.b)}"
    return f"{em.helper('floordiv')}<{ctype(x.dtype)}>({args})", ATOM


def _floormod(em: Emitter, x: e.FloorMod) -> Text:
    args = f"{em.expr(x.a)}, {em.expr(x.b)}"
    if x.dtype.is_float:
        wide = "double" if x.dtype == "float64" else "float"
        found = f"{em.helper('floormod_float')}<{wide}>({args})"
        return (found if wide == ctype(x.dtype) else f"{ctype(x.dtype)}({found})"), ATOM
    if em.is_nonnegative(x.a, x.b):
        return _remainder(em, e.Mod(x.a, x.b))
    return f"{em.helper('floormod')}<{ctype(x.dtype)}>({args})", ATOM


def _extreme(name: str) -> Callable[[Emitter, Any], Text]:
    def rule(em: Emitter, x: Any) -> Text:
        args = f"{em.expr(x.a)}, {em.expr(x.b)}"
        return f"{em.helper(name)}<{ctype(x.dtype)}>({args})", ATOM

    return rule


def _select(em: Emitter, x: e.Select) -> Text:
    """Both sides may be evaluated: a choice of C++ evaluates one, which is no less defined."""
    return _choice(em, x.condition, x.true_value, x.false_value)


def _choice(em: Emitter, condition: e.PrimExpr, yes: e.PrimExpr, no: e.PrimExpr) -> Text:
    em.refuse_exchange(yes, no)
    parts = [em.operand(part, CHOICE + 1) for part in (condition, yes, no)]
    return f"{parts[0]} ? {parts[1]} : {parts[2]}", CHOICE


def _cast(em: Emitter, x: e.Cast) -> Text:
    source, target = x.value.dtype.element, x.dtype.element
    if source == target:
        return em.text(x.value)
    if target.is_bool:
        return _compare(em, e.NE(x.value, p.const(0, source)))
    if source.is_float and not target.is_float:
        return _to_integer(em, x, target), ATOM
    if target.is_float and (source in types.HEADERS or target in types.HEADERS):
        inner = em.expr(x.value)
        if source in types.HEADERS and target != "float32":
            inner = f"float({inner})"
        return f"{ctype(target)}({inner})", ATOM
    return f"({ctype(target)}){em.operand(x.value, UNARY)}", UNARY


def _to_integer(em: Emitter, x: e.Cast, target: DType) -> str:
    value = em.expr(x.value)
    if x.value.dtype.element in types.HEADERS:
        value = f"float({value})"
    low, high = (types.integer(v, target) for v in (target.min_value, target.max_value))
    return f"{em.helper('to_integer')}<{ctype(target)}>({value}, {low}, {high})"


def _let(em: Emitter, x: e.Let) -> Text:
    return em.text(substitute(x.body, {x.var: x.value}))


def _call(em: Emitter, x: e.Call) -> Text:
    if x.op in _BITS:
        sign, binds = _BITS[x.op]
        a, b = x.args
        if binds == SHIFT and not em.is_within(b, x.dtype.bits):
            kind, name = ctype(x.dtype), x.op.removeprefix("tir.")
            return f"{em.helper(name)}<{kind}, {x.dtype.bits}>({em.expr(a)}, {em.expr(b)})", ATOM
        return _cut(f"{em.operand(a, binds)} {sign} {em.operand(b, binds + 1)}", binds, x.dtype)
    if x.op == "tir.bitwise_not":
        sign = "!" if x.dtype.is_bool else "~"
        return _cut(f"{sign}{em.operand(x.args[0], UNARY)}", UNARY, x.dtype)
    if x.op == "tir.if_then_else":
        return _choice(em, *x.args)
    if x.op == LANE:
        return f"{em.name(x.args[0])}[{em.expr(x.args[1])}]", ATOM
    return functions.call(em, x), ATOM


def _load(em: Emitter, x: BufferLoad) -> Text:
    return em.element(x.buffer, x.indices), ATOM


#: one lane of a vector that is held in a variable: not part of TIR, made while kernels are written
LANE = "cuda.lane"

_RULES: dict[type, Callable[[Any, Any], Text]] = {
    e.IntImm: _immediate,
    e.FloatImm: _floating,
    e.Var: _variable,
    e.SizeVar: _variable,
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(_COMPARE, _compare),
    e.Not: _not,
    e.Div: _division,
    e.Mod: _remainder,
    e.FloorDiv: _floordiv,
    e.FloorMod: _floormod,
    e.Min: _extreme("minimum"),
    e.Max: _extreme("maximum"),
    e.Select: _select,
    e.Cast: _cast,
    e.Let: _let,
    e.Call: _call,
    BufferLoad: _load,
}

#: words of C++, of CUDA, and of what is written here: no variable has one of these names
_RESERVED = (
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t "
    "char32_t class compl concept const const_cast consteval constexpr constinit continue "
    "co_await co_return co_yield decltype default delete do double dynamic_cast else enum "
    "explicit export extern false float for friend goto half if inline int long main mutable "
    "namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
    "register reinterpret_cast requires restrict return short signed sizeof static static_assert "
    "static_cast struct switch template this thread_local throw true try typedef typeid typename "
    "union unsigned using vec virtual void volatile wchar_t while xor xor_eq threadIdx blockIdx "
    "blockDim gridDim warpSize status shared_memory uint uchar ushort NULL abs exp log pow min "
    "max floor ceil y0 y1 j0 j1 yn jn"
).split()
