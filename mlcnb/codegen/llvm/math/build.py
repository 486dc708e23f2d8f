"""Writing LLVM IR of straight-line mathematics, for any number of lanes.

    body = Body(16)                     %1 = fmul <16 x float> %x, splat (float 0x4000000000000000)
    x = body.argument("x")        ->    %2 = fadd <16 x float> %1, %x
    y = x * 2.0 + x

A `Value` is a name or a literal with the kind of its lanes; operators append instructions, and
Python numbers become constants of the other operand's kind. One lane is a scalar, not a vector.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: kinds of lanes, with the integer kind of the same width where there is one
_SAME_WIDTH = {"float": "i32", "double": "i64", "i32": "float", "i64": "double"}
_MANGLED = {"float": "f32", "double": "f64", "i1": "i1"}


def factors(table: str) -> tuple[float, ...]:
    """The factors of a polynomial, from the constant up: floats in hexadecimal, as `fit.py` prints
    them.
    """
    return tuple(map(float.fromhex, table.split()))


def _operator(name: str) -> Callable[[Value, Value | float], Value]:
    return lambda self, other: self.body.binary(name, self, other)


@dataclass(frozen=True, slots=True)
class Value:
    """Lanes of one kind: `float`, `double`, `i32`, `i64` or `i1`."""

    body: Body
    text: str
    kind: str

    __add__, __sub__, __mul__, __truediv__ = map(_operator, ("add", "sub", "mul", "div"))
    __and__, __or__, __xor__ = map(_operator, ("and", "or", "xor"))
    __lshift__, __rshift__ = map(_operator, ("shl", "ashr"))

    def lt(self, other: Value | float) -> Value:
        """Lanes where self < other; false where either is not a number."""
        return self.body.compare("lt", self, other)

    def gt(self, other: Value | float) -> Value:
        """Lanes where self > other; false where either is not a number."""
        return self.body.compare("gt", self, other)

    def eq(self, other: Value | float) -> Value:
        """Lanes where self == other; false where either is not a number."""
        return self.body.compare("eq", self, other)


class Body:
    """The instructions of one function over `lanes` lanes.

    Args:
        lanes: 1 or more.
        features: of the CPU that may be used, LLVM's words.
    """

    def __init__(self, lanes: int, features: frozenset[str] = frozenset()) -> None:
        self.lanes = lanes
        self.features = features
        self.lines: list[str] = []
        self._count = 0

    def type(self, kind: str) -> str:
        """The LLVM type of all lanes."""
        return kind if self.lanes == 1 else f"<{self.lanes} x {kind}>"

    def suffix(self, kind: str) -> str:
        """How intrinsics spell that type: `v16f32`, `f32`."""
        return _MANGLED[kind] if self.lanes == 1 else f"v{self.lanes}{_MANGLED[kind]}"

    def argument(self, name: str, kind: str = "float") -> Value:
        """A parameter of the function."""
        return Value(self, f"%{name}", kind)

    def constant(self, value: float | int, kind: str) -> Value:
        """The same number in every lane."""
        text = str(int(value)) if kind.startswith("i") else _float_text(value, kind)
        return Value(self, text if self.lanes == 1 else f"splat ({kind} {text})", kind)

    def emit(self, kind: str, instruction: str) -> Value:
        """Append an instruction that yields a value of all lanes."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {instruction}")
        return Value(self, name, kind)

    def binary(self, op: str, a: Value, b: Value | float) -> Value:
        """`add sub mul div` on floats or integers, `and or xor shl ashr` on integers."""
        prefix = "f" if a.kind in ("float", "double") else ""
        right = self._like(a, b).text
        return self.emit(a.kind, f"{prefix}{op} {self.type(a.kind)} {a.text}, {right}")

    def compare(self, op: str, a: Value, b: Value | float) -> Value:
        """Ordered comparison of floats, signed comparison of integers."""
        if a.kind in ("float", "double"):
            word = f"fcmp o{op}"
        else:
            word = "icmp eq" if op == "eq" else f"icmp s{op}"
        return self.emit("i1", f"{word} {self.type(a.kind)} {a.text}, {self._like(a, b).text}")

    def select(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        """`a` where the condition holds, else `b`; at least one of them is a Value."""
        model = a if isinstance(a, Value) else b
        assert isinstance(model, Value)
        kind = self.type(model.kind)
        yes, no = self._like(model, a).text, self._like(model, b).text
        return self.emit(
            model.kind,
            f"select {self.type('i1')} {condition.text}, {kind} {yes}, {kind} {no}",
        )

    def fma(self, a: Value, b: Value | float, c: Value | float) -> Value:
        """a * b + c, in one rounding where the CPU has such an instruction."""
        return self.fused(a, b, c, "fmuladd")

    def fused(self, a: Value, b: Value | float, c: Value | float, name: str = "fma") -> Value:
        """a * b + c in one rounding; without such an instruction it is slow."""
        arguments = ", ".join(f"{self.type(a.kind)} {self._like(a, v).text}" for v in (a, b, c))
        symbol = f"@llvm.{name}.{self.suffix(a.kind)}"
        return self.emit(a.kind, f"call {self.type(a.kind)} {symbol}({arguments})")

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """c0 + c1 x + c2 x^2 + ..., by Horner's rule."""
        *rest, top = coefficients
        total: Value | float = top
        for coefficient in reversed(rest):
            total = self.fma(x, total, coefficient)
        assert isinstance(total, Value)
        return total

    @property
    def has_fma(self) -> bool:
        """True if one instruction multiplies and adds in one rounding."""
        return bool(self.features & {"fma", "neon"})

    @property
    def has_scalef(self) -> bool:
        """True if one instruction multiplies these lanes by powers of two."""
        needed = {"avx512f"} if self.lanes == 16 else {"avx512f", "avx512vl"}
        return self.lanes in (4, 8, 16) and needed <= self.features

    def scalef(self, x: Value, n: Value) -> Value:
        """x 2^n, n a whole number in a float; denormals round once (AVX-512's vscalefps)."""
        kind, mask = self.type("float"), 16 if self.lanes == 16 else 8
        given = f"{kind} {x.text}, {kind} {n.text}, {kind} {x.text}, i{mask} -1"
        mode = ", i32 4" if self.lanes == 16 else ""
        name = f"@llvm.x86.avx512.mask.scalef.ps.{32 * self.lanes}"
        return self.emit("float", f"call {kind} {name}({given}{mode})")

    def bits(self, x: Value) -> Value:
        """The same bits, as integers of floats or as floats of integers."""
        return self.convert("bitcast", x, _SAME_WIDTH[x.kind])

    def convert(self, op: str, x: Value, kind: str) -> Value:
        """`fpext`, `fptrunc`, `fptosi`, `sitofp`, `trunc`, `sext`, `bitcast`."""
        return self.emit(kind, f"{op} {self.type(x.kind)} {x.text} to {self.type(kind)}")

    def root(self, x: Value) -> Value:
        """The square root, rounded right; nan of what is below 0."""
        kind = self.type(x.kind)
        return self.emit(x.kind, f"call {kind} @llvm.sqrt.{self.suffix(x.kind)}({kind} {x.text})")

    def absolute(self, x: Value) -> Value:
        """x without its sign."""
        mask = 0x7FFFFFFF if x.kind == "float" else 0x7FFFFFFFFFFFFFFF
        return self.bits(self.bits(x) & mask)

    def signed_like(self, x: Value, sign: Value) -> Value:
        """x, which has no sign bit, with the sign bit of `sign`."""
        mask = -0x80000000 if x.kind == "float" else -0x8000000000000000
        return self.bits(self.bits(x) | (self.bits(sign) & mask))

    def clamp(self, x: Value, low: float | None, high: float | None) -> Value:
        """x kept within bounds; what is not a number stays so."""
        if high is not None:
            x = self.select(x.gt(high), high, x)
        if low is not None:
            x = self.select(x.lt(low), low, x)
        return x

    def lane(self, x: Value, index: int) -> str:
        """The name of one lane, as a scalar."""
        if self.lanes == 1:
            return x.text
        vector = f"{self.type(x.kind)} {x.text}"
        return self.emit(x.kind, f"extractelement {vector}, i64 {index}").text

    def per_lane(self, function: str, arguments: Sequence[Value]) -> Value:
        """Call a scalar function of the C library once per lane."""
        kind = arguments[0].kind
        result = Value(self, "poison", kind)
        for index in range(self.lanes):
            given = ", ".join(f"{kind} {self.lane(v, index)}" for v in arguments)
            scalar = self.emit(kind, f"call {kind} @{function}({given})")
            if self.lanes == 1:
                return scalar
            vector = f"{self.type(kind)} {result.text}"
            result = self.emit(kind, f"insertelement {vector}, {kind} {scalar.text}, i64 {index}")
        return result

    def unless_any(self, rare: Value, usual: Value, function: str, *given: Value) -> Value:
        """`usual`, or where a lane is rare, all lanes by a scalar function, off the hot path."""
        return self.either(rare, lambda: usual, lambda: self.per_lane(function, given))

    def either(self, rare: Value, usual: Callable[[], Value], whole: Callable[[], Value]) -> Value:
        """What `usual` makes, or where a lane is rare, what `whole` does, off the hot path."""
        any_lane = rare.text
        if self.lanes > 1:
            reduce = f"@llvm.vector.reduce.or.{self.suffix('i1')}"
            any_lane = self.emit("i1", f"call i1 {reduce}({self.type('i1')} {rare.text})").text
        unlikely = self.emit("i1", f"call i1 @llvm.expect.i1(i1 {any_lane}, i1 false)").text
        usually, slow, done = (f"{x}{self._count}" for x in ("usual", "slow", "done"))
        self.lines += [f"  br i1 {unlikely}, label %{slow}, label %{usually}", f"{usually}:"]
        ways = [(usual(), usually)]
        self.lines += [f"  br label %{done}", f"{slow}:"]
        ways.append((whole(), slow))
        self.lines += [f"  br label %{done}", f"{done}:"]
        choices = ", ".join(f"[ {value.text}, %{label} ]" for value, label in ways)
        kind = ways[0][0].kind
        return self.emit(kind, f"phi {self.type(kind)} {choices}")

    def _like(self, model: Value, other: Value | float) -> Value:
        return other if isinstance(other, Value) else self.constant(other, model.kind)


def _float_text(value: float, kind: str) -> str:
    """LLVM's spelling: the bits of the double, which for `float` must be one of float32's."""
    if kind == "float":
        (value,) = struct.unpack("<f", struct.pack("<f", value))
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
