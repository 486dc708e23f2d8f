"""Min and Max of integers and floats, where a NaN operand gives NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlcnb.codegen.llvm.emit import types as t
from mlcnb.codegen.llvm.emit.bounds import bounds
from mlcnb.core.node import walk
from mlcnb.ir.dtype import DType
from mlcnb.tir.buffer import BufferLoad

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.kernel import Emitter


def extreme(name: str) -> Callable[[Emitter, Any], str]:
    """Min and Max; a NaN operand gives NaN, of two zeros it may be either one (`nsz`: two
    instructions fewer on x86). Against what is no NaN this is one instruction.
    """

    def rule(em: Emitter, x: Any) -> str:
        kind = em.type(x.dtype)
        a, b = em.expr(x.a), em.expr(x.b)
        if not x.dtype.is_float:
            sign = "u" if x.dtype.is_uint or x.dtype.is_bool else "s"
            fn = em.intrinsic(
                f"llvm.{sign}{name}.{t.intrinsic_suffix(x.dtype)}", kind, (kind, kind)
            )
            return em.f.emit(f"call {kind} {fn}({kind} {a}, {kind} {b})")
        numbers = bounds(x.a).is_number, bounds(x.b).is_number
        constant, other = (a, b) if numbers[0] else (b, a)
        if any(numbers):
            # compare so that a NaN in `other` makes the comparison false and `other` is kept
            order = "ogt" if name == "max" else "olt"
            test = em.f.emit(f"fcmp {order} {kind} {constant}, {other}")
            bools = t.vector("i1", x.dtype.lanes)
            return em.f.emit(f"select {bools} {test}, {kind} {constant}, {kind} {other}")
        native = _native_extreme(em, name, x.dtype)
        if native and _is_carried(em, x.a):
            return _extreme_of_running(em, native, x.dtype, a, b)
        fn = em.intrinsic(f"llvm.{name}imum.{t.intrinsic_suffix(x.dtype)}", kind, (kind, kind))
        return em.f.emit(f"call nsz {kind} {fn}({kind} {a}, {kind} {b})")

    return rule


#: lanes of float32 -> the CPU's feature, its intrinsic, an argument more
_X86_EXTREMES = {
    4: ("avx", "llvm.x86.sse.{}.ps", ""),
    8: ("avx", "llvm.x86.avx.{}.ps.256", ""),
    16: ("avx512f", "llvm.x86.avx512.{}.ps.512", ", i32 4"),
}


def _native_extreme(em: Emitter, name: str, kind: DType) -> tuple[str, str] | None:
    """x86's own instruction, which gives its second operand where either is NaN."""
    feature, intrinsic, more = _X86_EXTREMES.get(kind.lanes, ("", "", ""))
    if str(kind.element) != "float32" or feature not in em.features:
        return None
    return None if 32 * kind.lanes > em.vector_bits else (intrinsic.format(name), more)


def _is_carried(em: Emitter, so_far: Any) -> bool:
    """True if an extreme goes from round to round: it lies where the innermost loop does not move.

    In a window that is written out it does not, and LLVM should see that it begins at -inf.
    """
    found = isinstance(so_far, BufferLoad) and em.innermost is not None
    return found and all(n is not em.innermost for i in so_far.indices for n in walk(i))


def _extreme_of_running(em: Emitter, native: tuple[str, str], dtype: DType, a: str, b: str) -> str:
    """The extreme so far, `a`, with `b`, which is new: only `b` is compared to itself, so that in a
    chain `a` waits for one instruction and a blend. `llvm.maximum` compares `a`: twice as long.
    """
    f, kind, bools = em.f, em.type(dtype), t.vector("i1", dtype.lanes)
    name, more = native
    fn = em.intrinsic(name, kind, (kind, kind, *(["i32"] if more else [])))
    found = f.emit(f"call {kind} {fn}({kind} {b}, {kind} {a}{more})")
    is_nan = f.emit(f"fcmp uno {kind} {b}, {b}")
    return f.emit(f"select {bools} {is_nan}, {kind} {b}, {kind} {found}")
