"""Calls of intrinsics: LLVM's own, our vector math, libm, and some with a meaning of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlcnb.codegen.llvm.emit import numbers
from mlcnb.codegen.llvm.emit import types as t
from mlcnb.codegen.llvm.emit.checks import check_index
from mlcnb.codegen.llvm.emit.choose import if_then_else
from mlcnb.codegen.llvm.emit.expr import convert
from mlcnb.codegen.llvm.emit.index import index
from mlcnb.codegen.llvm.emit.jumps import leave_function, leave_loop
from mlcnb.codegen.llvm.emit.memory import address, from_memory, to_memory
from mlcnb.codegen.llvm.target_machine import MARK
from mlcnb.core.errors import CodegenError
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.prim_ops import as_int
from mlcnb.tir.buffer import BufferLoad

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.kernel import Emitter

#: tir name -> LLVM float intrinsic of one or more operands of one type
_FLOAT_INTRINSICS = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "roundeven",
    "nearbyint": "roundeven",
    "fabs": "fabs",
    "copysign": "copysign",
    "fma": "fma",
}
#: tir name -> function of the C math library
_LIBM = {
    **{n: n for n in "sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh".split()},
    **{n: n for n in "log2 log10 log1p expm1 exp2 fmod log exp tanh erf".split()},
    "pow": "pow",
    "power": "pow",
    "hypot": "hypot",
}


def call(em: Emitter, x: e.Call) -> str:
    """The value of a call; '' for one that has none."""
    if not isinstance(x.op, str):
        raise CodegenError(f"a kernel cannot call {x.op!r}", hint="inline the function first")
    name = x.op.removeprefix("tir.")
    special = _SPECIAL.get(name)
    if special is not None:
        return special(em, x)
    if name in ("pow", "power") and not x.dtype.is_float:
        return numbers.integer_power(em, x)
    if x.dtype.is_float and x.dtype.element not in ("float32", "float64"):
        return _through_float32(em, x)
    if name == "ldexp":
        return numbers.ldexp(em, x)
    if name in ("pow", "power"):
        made = numbers.exact_power(em, x)
        if made is not None:
            return made
    if name in _FLOAT_INTRINSICS:
        return _intrinsic(em, x, _FLOAT_INTRINSICS[name])
    if em.has_math(name, x.dtype):
        return _math(em, x, name)
    if name in _LIBM:
        return _libm(em, x, _LIBM[name])
    raise CodegenError(
        f"the llvm backend does not know the intrinsic {x.op}", hint="target='interp' may run it"
    )


def _through_float32(em: Emitter, x: e.Call) -> str:
    """A 16-bit float function is computed in float32 and rounded once."""
    wide = dtype("float32").with_lanes(x.dtype.lanes)
    args = tuple(e.Cast(wide, a) if a.dtype.is_float else a for a in x.args)
    value = call(em, e.Call(wide, x.op, args))
    return convert(em, value, wide, x.dtype)


def _operands(em: Emitter, x: e.Call) -> list[tuple[str, str]]:
    return [(em.type(a.dtype), em.expr(a)) for a in x.args]


def _intrinsic(em: Emitter, x: e.Call, name: str) -> str:
    kind = em.type(x.dtype)
    operands = _operands(em, x)
    full = f"llvm.{name}.{t.intrinsic_suffix(x.dtype)}"
    fn = em.intrinsic(full, kind, tuple(k for k, _ in operands))
    return em.f.emit(f"call {kind} {fn}({', '.join(f'{k} {v}' for k, v in operands)})")


def _math(em: Emitter, x: e.Call, name: str) -> str:
    kind = em.type(x.dtype)
    operands = _operands(em, x)
    fn = em.math(name, x.dtype)
    return em.f.emit(f"call {kind} {fn}({', '.join(f'{k} {v}' for k, v in operands)})")


def _libm(em: Emitter, x: e.Call, name: str) -> str:
    """One scalar call for each lane."""
    element = t.scalar_type(x.dtype)
    symbol = name + ("f" if x.dtype.element == "float32" else "")
    operands = [(t.scalar_type(a.dtype), em.expr(a)) for a in x.args]
    fn = em.external(symbol, element, tuple(element for _ in operands))
    return em.f.each_lane(fn, operands, x.dtype.lanes, element)


def _rsqrt(em: Emitter, x: e.Call) -> str:
    root = e.Call(x.dtype, "tir.sqrt", x.args)
    one: e.PrimExpr = e.FloatImm(x.dtype.element, 1.0)
    if x.dtype.lanes != 1:
        one = e.Broadcast(one, x.dtype.lanes)
    return em.expr(e.Div(one, root))


def _abs(em: Emitter, x: e.Call) -> str:
    if x.dtype.is_float:
        return _intrinsic(em, x, "fabs")
    if not x.dtype.is_int:
        return em.expr(x.args[0])
    kind = em.type(x.dtype)
    fn = em.intrinsic(f"llvm.abs.{t.intrinsic_suffix(x.dtype)}", kind, (kind, "i1 immarg"))
    return em.f.emit(f"call {kind} {fn}({kind} {em.expr(x.args[0])}, i1 false)")


def _bitwise(instruction: str) -> Callable[[Emitter, e.Call], str]:
    def rule(em: Emitter, x: e.Call) -> str:
        (kind, a), (_, b) = _operands(em, x)
        return em.f.emit(f"{instruction} {kind} {a}, {b}")

    return rule


def _bitwise_not(em: Emitter, x: e.Call) -> str:
    ones = t.splat(t.scalar_type(x.dtype), "true" if x.dtype.is_bool else -1, x.dtype.lanes)
    return em.f.emit(f"xor {em.type(x.dtype)} {em.expr(x.args[0])}, {ones}")


def _shift(left: bool) -> Callable[[Emitter, e.Call], str]:
    """Shifts by the width or more give 0 (the sign for a signed shift to the right)."""

    def rule(em: Emitter, x: e.Call) -> str:
        (kind, a), (_, b) = _operands(em, x)
        d, f = x.dtype, em.f
        limit = t.splat(t.scalar_type(d), d.bits - 1, d.lanes)
        over = f.emit(f"icmp ugt {kind} {b}, {limit}")
        bools = t.vector("i1", d.lanes)
        safe = f.emit(f"select {bools} {over}, {kind} {limit}, {kind} {b}")
        signed = d.is_int and not left
        op = "shl" if left else ("ashr" if signed else "lshr")
        shifted = f.emit(f"{op} {kind} {a}, {safe}")
        if signed:
            return shifted
        return f.emit(f"select {bools} {over}, {kind} {t.zero(d)}, {kind} {shifted}")

    return rule


def _float_test(
    make: Callable[[Emitter, str, str, DType], str],
) -> Callable[[Emitter, e.Call], str]:
    def rule(em: Emitter, x: e.Call) -> str:
        source = x.args[0].dtype
        if not source.is_float:
            return em.expr(e.IntImm(dtype("bool"), 0))
        return make(em, em.expr(x.args[0]), em.type(source), source)

    return rule


def _isnan(em: Emitter, value: str, kind: str, source: DType) -> str:
    return em.f.emit(f"fcmp uno {kind} {value}, {value}")


def _beside_infinity(test: str) -> Callable[[Emitter, str, str, DType], str]:
    """Whether the magnitude is infinite (`oeq`), or below that (`olt`)."""

    def make(em: Emitter, value: str, kind: str, source: DType) -> str:
        fn = em.intrinsic(f"llvm.fabs.{t.intrinsic_suffix(source)}", kind, (kind,))
        size = em.f.emit(f"call {kind} {fn}({kind} {value})")
        infinity = t.float_literal(float("inf"), source)
        infinities = t.splat(t.scalar_type(source), infinity, source.lanes)
        return em.f.emit(f"fcmp {test} {kind} {size}, {infinities}")

    return make


def _likely(em: Emitter, x: e.Call) -> str:
    return em.expr(x.args[0])


def _reinterpret(em: Emitter, x: e.Call) -> str:
    source = x.args[0].dtype
    raw = to_memory(em, em.expr(x.args[0]), source)
    kinds = t.memory_type(source), t.memory_type(x.dtype)
    if kinds[0] != kinds[1]:
        raw = em.f.emit(f"{_bit_cast(source, x.dtype)} {kinds[0]} {raw} to {kinds[1]}")
    return from_memory(em, raw, x.dtype)


def _bit_cast(source: DType, to: DType) -> str:
    if source.is_handle != to.is_handle:
        return "ptrtoint" if source.is_handle else "inttoptr"
    return "bitcast"


def _call_extern(em: Emitter, x: e.Call) -> str:
    name = x.args[0]
    if not isinstance(name, e.StringImm):
        raise CodegenError("call_extern needs a name as its first argument")
    operands = [(em.type(a.dtype), em.expr(a)) for a in x.args[1:]]
    result = "void" if x.dtype == "void" else em.type(x.dtype)
    fn = em.external(name.value, result, tuple(k for k, _ in operands))
    text = f"call {result} {fn}({', '.join(f'{k} {v}' for k, v in operands)})"
    if result == "void":
        em.f.do(text)
        return ""
    return em.f.emit(text)


def _llvm_intrinsic(em: Emitter, x: e.Call) -> str:
    name = x.args[0]
    if not isinstance(name, e.StringImm):
        raise CodegenError("call_llvm_intrin needs the intrinsic's name as its first argument")
    rest = e.Call(x.dtype, x.op, x.args[1:])
    kind = em.type(x.dtype)
    operands = [_machine_operand(em, a) for a in rest.args]
    suffix = "" if name.value.count(".") > 1 else f".{t.intrinsic_suffix(x.dtype)}"
    if not re.fullmatch(r"llvm(\.\w+)+", name.value):
        raise CodegenError(
            f"{name.value!r} is no name of an LLVM intrinsic", hint="e.g. llvm.fma.f32"
        )
    if not _KNOWN_INTRINSICS.match(name.value):
        em.module.declare(MARK, f"{MARK} {name.value}")
    fn = em.intrinsic(name.value + suffix, kind, tuple(k for k, _ in operands))
    return em.f.emit(f"call {kind} {fn}({', '.join(f'{k} {v}' for k, v in operands)})")


#: intrinsics that LLVM has instructions for wherever it takes them: of all CPUs, and those of our
#: own tensor intrinsics, whose features `check_intrinsics` asks for
_KNOWN_INTRINSICS = re.compile(
    r"llvm\.(fma|fmuladd|sqrt|fabs|floor|ceil|trunc|rint|nearbyint|round|roundeven|copysign|minnum"
    r"|maxnum|minimum|maximum|ctpop|ctlz|cttz|bswap|bitreverse|abs|[su](min|max)|prefetch"
    r"|x86\.avx2\.pmadd\.(wd|ub\.sw)|x86\.avx512\.(vpdpbusd\.\d+|pmaddw\.d\.512)"
    r"|x86\.avx512bf16\.dpbf16ps\.\d+"
    r"|aarch64\.neon\.(addp|saddlp|[su]dot|usdot|smull)(\.v\d+i\d+)*)(\.|$)"
)


def _machine_operand(em: Emitter, x: e.PrimExpr) -> tuple[str, str]:
    """An operand as an instruction takes it: bfloat16 as itself, not as the float it equals."""
    if x.dtype.element != "bfloat16":
        return em.type(x.dtype), em.expr(x)
    bits, kind = t.memory_type(x.dtype), t.vector("bfloat", x.dtype.lanes)
    return kind, em.f.emit(f"bitcast {bits} {to_memory(em, em.expr(x), x.dtype)} to {kind}")


def _popcount(em: Emitter, x: e.Call) -> str:
    source = x.args[0].dtype
    kind = em.type(source)
    fn = em.intrinsic(f"llvm.ctpop.{t.intrinsic_suffix(source)}", kind, (kind,))
    value = em.f.emit(f"call {kind} {fn}({kind} {em.expr(x.args[0])})")
    return convert(em, value, source, x.dtype)


def _clz(em: Emitter, x: e.Call) -> str:
    source = x.args[0].dtype
    kind = em.type(source)
    fn = em.intrinsic(f"llvm.ctlz.{t.intrinsic_suffix(source)}", kind, (kind, "i1 immarg"))
    value = em.f.emit(f"call {kind} {fn}({kind} {em.expr(x.args[0])}, i1 false)")
    return convert(em, value, source, x.dtype)


def _prefetch(em: Emitter, x: e.Call) -> str:
    """T.prefetch(address[, write, locality, data]): constants, as LLVM wants them."""
    fn = em.intrinsic("llvm.prefetch.p0", "void", ("ptr", "i32", "i32", "i32"))
    given = [as_int(arg) for arg in x.args[1:]]
    write, near, data = given if len(given) == 3 and None not in given else (0, 3, 1)
    em.f.do(f"call void {fn}(ptr {em.expr(x.args[0])}, i32 {write}, i32 {near}, i32 {data})")
    return ""


def _address_of(em: Emitter, x: e.Call) -> str:
    load = x.args[0]
    if not isinstance(load, BufferLoad):
        raise CodegenError("address_of needs an element of a buffer, such as T.address_of(A[0])")
    return address(em, load.buffer, index(em, load.indices[0]))


def _atomic_add(em: Emitter, x: e.Call) -> str:
    """T.atomic_add(address, value): what the element was before."""
    kind = x.dtype.element
    if x.dtype.lanes != 1 or kind.is_bool or kind.bits < 32:
        raise CodegenError(f"no atomic_add of {x.dtype}", hint="numbers of 32 or 64 bits")
    place, value = (em.expr(a) for a in x.args)
    how = "fadd" if kind.is_float else "add"
    return em.f.emit(f"atomicrmw {how} ptr {place}, {t.scalar_type(kind)} {value} monotonic")


def _access_pointer(em: Emitter, x: e.Call) -> str:
    """A pointer to an element of a buffer's data."""
    kind, data, offset = x.args[:3]
    element = t.memory_type(kind.dtype)
    return em.f.emit(f"getelementptr {element}, ptr {em.expr(data)}, i64 {index(em, offset)}")


def _is_null(em: Emitter, x: e.Call) -> str:
    return em.f.emit(f"icmp eq ptr {em.expr(x.args[0])}, null")


def _packed(em: Emitter, x: e.Call) -> str:
    name = x.args[0].value if isinstance(x.args[0], e.StringImm) else x.args[0]
    raise CodegenError(
        f"a kernel cannot call the packed function {name!r}",
        hint='target="interp" calls what mlcnb.register_func registered; T.call_extern calls C',
    )


def _nothing(em: Emitter, x: e.Call) -> str:
    return ""


_SPECIAL: dict[str, Callable[[Any, e.Call], str]] = {
    "rsqrt": _rsqrt,
    "abs": _abs,
    "fabs": _abs,
    "bitwise_and": _bitwise("and"),
    "bitwise_or": _bitwise("or"),
    "bitwise_xor": _bitwise("xor"),
    "bitwise_not": _bitwise_not,
    "shift_left": _shift(left=True),
    "shift_right": _shift(left=False),
    "isnan": _float_test(_isnan),
    "isinf": _float_test(_beside_infinity("oeq")),
    "isfinite": _float_test(_beside_infinity("olt")),
    "if_then_else": if_then_else,
    "check_index": check_index,
    "likely": _likely,
    "reinterpret": _reinterpret,
    "call_extern": _call_extern,
    "call_pure_extern": _call_extern,
    "call_llvm_intrin": _llvm_intrinsic,
    "call_llvm_pure_intrin": _llvm_intrinsic,
    "popcount": _popcount,
    "clz": _clz,
    "prefetch": _prefetch,
    "address_of": _address_of,
    "atomic_add": _atomic_add,
    "tvm_storage_sync": _nothing,
    "assume": _nothing,
    "type_annotation": _nothing,
    "undef": numbers.undefined,
    "isnullptr": _is_null,
    "large_uint_imm": numbers.large_integer,
    "tvm_access_ptr": _access_pointer,
    "vectorlow": numbers.half,
    "vectorhigh": numbers.half,
    "vectorcombine": numbers.combined,
    "get_active_lane_mask": numbers.lane_mask,
    "exp10": numbers.exp10,
    "nextafter": numbers.only_wide_floats("nextafter", lambda em, x: _libm(em, x, "nextafter")),
    "tvm_call_packed": _packed,
    "tvm_call_cpacked": _packed,
    "break_loop": leave_loop,
    "continue_loop": leave_loop,
    "ret": leave_function,
}
