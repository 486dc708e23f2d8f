"""Loads and stores: scalars, vectors that lie together, strided and gathered ones, masked ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlcnb.codegen.llvm.emit import small
from mlcnb.codegen.llvm.emit import types as t
from mlcnb.codegen.llvm.emit.index import index, widened
from mlcnb.codegen.llvm.emit.picks import pick, places
from mlcnb.core.errors import CodegenError
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import DType
from mlcnb.ir.folding import NUMBERS
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.stmt import BufferStore

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.kernel import Emitter


def load(em: Emitter, x: BufferLoad) -> str:
    """The value of a load, as registers hold it."""
    place = _only_index(x.buffer, x.indices)
    kind = x.dtype
    if place.dtype.lanes == 1:
        pointer = address(em, x.buffer, index(em, place))
        raw = em.f.emit(f"load {t.memory_type(kind)}, ptr {pointer}, align {align_of(kind)}")
    elif x.buffer.dtype.lanes != 1:
        raise CodegenError(f"a vector of elements of {x.buffer.name!r}, which are vectors already")
    elif isinstance(place, e.Ramp) and isinstance(place.stride, e.IntImm):
        raw = _load_ramp(em, x, place, place.stride.value)
    else:
        raw = _picked(em, x, place) or _gather(em, x, place)
    return from_memory(em, raw, kind)


def store(em: Emitter, x: BufferStore) -> None:
    """buffer[index] = value"""
    place = _only_index(x.buffer, x.indices)
    kind = x.buffer.dtype.with_lanes(place.dtype.lanes * x.buffer.dtype.lanes)
    value = to_memory(em, em.expr(x.value), kind)
    if place.dtype.lanes == 1:
        pointer = address(em, x.buffer, index(em, place))
        em.f.do(f"store {t.memory_type(kind)} {value}, ptr {pointer}, align {align_of(kind)}")
        return
    if isinstance(place, e.Ramp) and isinstance(place.stride, e.IntImm) and place.stride.value == 1:
        _store_vector(em, x, place, kind, value)
        return
    _scatter(em, x, place, kind, value)


def _only_index(buffer: Buffer, indices: tuple[e.PrimExpr, ...]) -> e.PrimExpr:
    if len(indices) != 1:
        raise CodegenError(
            f"buffer {buffer.name!r} has {len(indices)} indices", hint="run FlattenBuffer first"
        )
    return indices[0]


def align_of(kind: DType) -> int:
    """The alignment that every address has: that of an element, in bytes."""
    return max(1, kind.element.bits // 8)


def address(em: Emitter, buffer: Buffer, offset: str) -> str:
    """Pointer to element `offset` (an i64 operand)."""
    base = em.pointer(buffer.data)
    if offset == "0":
        return base
    element = t.memory_type(buffer.dtype)
    if buffer.dtype.lanes != 1:  # LLVM rounds the size of <3 x float> up
        element = f"[{buffer.dtype.lanes} x {t.memory_scalar(buffer.dtype)}]"
    return em.f.emit(f"getelementptr inbounds {element}, ptr {base}, i64 {offset}", "p")


def from_memory(em: Emitter, raw: str, kind: DType) -> str:
    """bool bytes become i1, bfloat16 bits become float."""
    memory = t.memory_type(kind)
    if kind.is_bool:
        zero = "0" if kind.lanes == 1 else "zeroinitializer"
        return em.f.emit(f"icmp ne {memory} {raw}, {zero}")
    if kind.is_float and kind.bits <= 8:
        return small.decode(em, raw, kind)
    if kind.bits < 8:
        return em.f.emit(f"trunc {memory} {raw} to {t.register_type(kind)}")
    if kind.element == "bfloat16":
        wide = t.vector("i32", kind.lanes)
        extended = em.f.emit(f"zext {memory} {raw} to {wide}")
        amount = t.splat("i32", 16, kind.lanes)
        bits = em.f.emit(f"shl {wide} {extended}, {amount}")
        return em.f.emit(f"bitcast {wide} {bits} to {t.register_type(kind)}")
    return raw


def to_memory(em: Emitter, value: str, kind: DType) -> str:
    """i1 becomes a byte, a float that holds a bfloat16 its upper half."""
    memory, register = t.memory_type(kind), t.register_type(kind)
    if kind.is_float and kind.bits <= 8:
        return small.encode(em, value, kind)
    if kind.bits < 8:
        return em.f.emit(f"zext {register} {value} to {memory}")
    if kind.element == "bfloat16":
        if value in em.f.bfloats:
            narrow = t.vector("bfloat", kind.lanes)
            return em.f.emit(f"bitcast {narrow} {em.f.bfloats[value]} to {memory}")
        wide = t.vector("i32", kind.lanes)
        bits = em.f.emit(f"bitcast {register} {value} to {wide}")
        amount = t.splat("i32", 16, kind.lanes)
        upper = em.f.emit(f"lshr {wide} {bits}, {amount}")
        return em.f.emit(f"trunc {wide} {upper} to {memory}")
    return value


def _load_ramp(em: Emitter, x: BufferLoad, place: e.Ramp, stride: int) -> str:
    kind = x.dtype
    base = index(em, place.base)
    if x.predicate is not None:
        if stride == 1:
            return _masked_load(em, x, base)
        return _picked(em, x, place) or _gather(em, x, place)
    if stride == 1:
        pointer = address(em, x.buffer, base)
        return em.f.emit(f"load {t.memory_type(kind)}, ptr {pointer}, align {align_of(kind)}")
    if stride == 0:
        pointer = address(em, x.buffer, base)
        element = t.memory_scalar(kind)
        one = em.f.emit(f"load {element}, ptr {pointer}, align {align_of(kind)}")
        return em.raw_splat(one, element, kind.lanes)
    if stride == 2 and kind.lanes >= 4:
        return _load_every_other(em, x, base)
    return _picked(em, x, place) or _gather(em, x, place)


def _picked(em: Emitter, x: BufferLoad, place: e.PrimExpr) -> str | None:
    """Lanes at places that lie together: loaded whole. None where that is not known."""
    kind = x.dtype
    live = None if x.predicate is None else _known_lanes(x.predicate)
    found = places(place) if kind.bits >= 8 and kind.lanes > 2 else None
    if found is None or (x.predicate is not None and live is None):
        return None
    memory = t.memory_scalar(kind)

    def load(offset: str, count: int) -> str:
        pointer = address(em, x.buffer, offset)
        return em.f.emit(f"load <{count} x {memory}>, ptr {pointer}, align {align_of(kind)}")

    return pick(em, found, live, load, memory)


def _load_every_other(em: Emitter, x: BufferLoad, base: str) -> str:
    """Lanes base, base + 2, …: two loads that stay within first and last element, one shuffle."""
    kind, lanes = x.dtype, x.dtype.lanes
    memory = t.memory_type(kind)
    second = em.f.emit(f"add nsw i64 {base}, {lanes - 1}")
    halves = []
    for offset in (base, second):
        pointer = address(em, x.buffer, offset)
        halves.append(em.f.emit(f"load {memory}, ptr {pointer}, align {align_of(kind)}"))
    picks = [2 * i if 2 * i < lanes else 2 * i - (lanes - 1) + lanes for i in range(lanes)]
    mask = "<" + ", ".join(f"i32 {p}" for p in picks) + ">"
    return em.f.emit(
        f"shufflevector {memory} {halves[0]}, {memory} {halves[1]}, <{lanes} x i32> {mask}"
    )


def _masked_load(em: Emitter, x: BufferLoad, base: str) -> str:
    kind = x.dtype
    memory, bools = t.memory_type(kind), f"<{kind.lanes} x i1>"
    mask = em.expr(x.predicate)
    fn = em.intrinsic(f"llvm.masked.load.{_overload(kind)}.p0", memory, ("ptr", bools, memory))
    pointer = address(em, x.buffer, base)
    return em.f.emit(
        f"call {memory} {fn}(ptr align {align_of(kind)} {pointer}, {bools} {mask}, "
        f"{memory} zeroinitializer)"
    )


def _overload(kind: DType) -> str:
    element = t.memory_scalar(kind)
    short = {"half": "f16", "float": "f32", "double": "f64"}.get(element, element)
    return f"v{kind.lanes}{short}"


def _store_vector(em: Emitter, x: BufferStore, place: e.Ramp, kind: DType, value: str) -> None:
    memory = t.memory_type(kind)
    pointer = address(em, x.buffer, index(em, place.base))
    if x.predicate is None:
        em.f.do(f"store {memory} {value}, ptr {pointer}, align {align_of(kind)}")
        return
    lanes = _known_lanes(x.predicate)
    has_room = _has_room(em, x.buffer, place, kind)
    if lanes is not None and sum(lanes) < (1 if has_room else 2):
        _store_lane(em, kind, pointer, value, lanes)
        return
    mask = em.expr(x.predicate)
    if lanes is not None and not has_room and not any(lanes[kind.lanes // 2 :]):
        kind, value, mask = _first_lanes(
            em, kind, value, mask, max(n for n, b in enumerate(lanes) if b) + 1
        )
        memory = t.memory_type(kind)
    bools = f"<{kind.lanes} x i1>"
    if has_room:
        old = em.f.emit(f"load {memory}, ptr {pointer}, align {align_of(kind)}")
        merged = em.f.emit(f"select {bools} {mask}, {memory} {value}, {memory} {old}")
        em.f.do(f"store {memory} {merged}, ptr {pointer}, align {align_of(kind)}")
        return
    if "avx512f" in em.features and _may_be_truncated(kind):
        mask = _not_foreseen(em, mask, kind.lanes)
    fn = em.intrinsic(f"llvm.masked.store.{_overload(kind)}.p0", "void", (memory, "ptr", bools))
    em.f.do(
        f"call void {fn}({memory} {value}, ptr align {align_of(kind)} {pointer}, {bools} {mask})"
    )


def _has_room(em: Emitter, buffer: Buffer, place: e.Ramp, kind: DType) -> bool:
    """True if all lanes lie in a buffer on the stack, in every round of the loops around: such a
    buffer can stay in registers where these are written out, but not if it is stored under a mask
    (and a load after that waits long). The last vector of a row gets room behind the buffer.
    """
    held = em.f.on_stack.get(buffer.data)
    if held is None or kind.element.bits < 8:
        return False
    first, last = em.ranges.ends(place.base)
    each, end = kind.element.bits // 8, last + kind.lanes
    if first < 0 or last * each >= held:
        return False
    pointer, _ = em.f.env[buffer.data]
    return end * each <= held or em.f.widen(pointer, t.memory_scalar(kind), int(end))


def _store_lane(em: Emitter, kind: DType, pointer: str, value: str, lanes: list[int]) -> None:
    """A store under a mask that lets one lane through, or none.

    LLVM 22 makes a scalar store of such a mask itself, but not always of the right width
    (`_not_foreseen`).
    """
    if any(lanes):
        element, number = t.memory_scalar(kind), lanes.index(1)
        one = em.f.emit(f"extractelement {t.memory_type(kind)} {value}, i64 {number}")
        place = em.f.emit(f"getelementptr {element}, ptr {pointer}, i64 {number}", "p")
        em.f.do(f"store {element} {one}, ptr {place}, align {align_of(kind)}")


def _first_lanes(
    em: Emitter, kind: DType, value: str, mask: str, count: int
) -> tuple[DType, str, str]:
    """The vector and its mask cut to the shortest power of two of lanes that has the first `count`.

    LLVM 22 ends in an assertion where it finds by itself that the second half of a vector of
    bfloat16 is not stored.
    """
    width = 1 << (count - 1).bit_length()
    order = "<" + ", ".join(f"i32 {i}" for i in range(width)) + ">"
    value, mask = (
        em.f.emit(f"shufflevector {of} {v}, {of} poison, <{width} x i32> {order}")
        for of, v in ((t.memory_type(kind), value), (f"<{kind.lanes} x i1>", mask))
    )
    return kind.with_lanes(width), value, mask


def _may_be_truncated(kind: DType) -> bool:
    """True if vectors of it are made by dropping bits of wider integers."""
    return kind.bits < 64 and t.memory_scalar(kind).startswith("i")


def _not_foreseen(em: Emitter, mask: str, lanes: int) -> str:
    """A mask that LLVM cannot find to be constant, once loops are unrolled and vectors cut.

    Where a mask lets one lane through, and the value is truncated first, LLVM 22 makes a scalar
    store of the wrong width for AVX-512: four bytes of an int8, three of which belong to others.
    """
    one = em.f.emit('call i32 asm "", "=r,0"(i32 1)')
    holds = em.raw_splat(em.f.emit(f"trunc i32 {one} to i1"), "i1", lanes)
    return em.f.emit(f"and <{lanes} x i1> {mask}, {holds}")


def _known_lanes(mask: e.PrimExpr) -> list[int] | None:
    """What each lane of a mask, or of a side of it, is; None where that is not known."""
    count = mask.dtype.lanes
    match mask:
        case e.IntImm(value):
            return [int(value)]
        case e.Broadcast(value=value):
            one = _known_lanes(value)
            return None if one is None else one * count
        case e.Ramp(base=e.IntImm(base), stride=e.IntImm(stride)):
            return [base + i * stride for i in range(count)]
        case e.LT(a=a, b=b) | e.LE(a=a, b=b) | e.And(a=a, b=b):
            sides = _known_lanes(a), _known_lanes(b)
            if sides[0] is None or sides[1] is None:
                return None
            pairs = zip(sides[0], sides[1], strict=True)
            return [int(bool(NUMBERS[type(mask)](x, y))) for x, y in pairs]
    return None


def _offsets(em: Emitter, place: e.PrimExpr) -> str:
    """A vector of i64 offsets."""
    lanes = place.dtype.lanes
    wide = f"<{lanes} x i64>"
    if isinstance(place, e.Ramp):
        base, stride = index(em, place.base), index(em, place.stride)
        steps = "<" + ", ".join(f"i64 {i}" for i in range(lanes)) + ">"
        strides = em.f.emit(f"mul {wide} {steps}, {em.raw_splat(stride, 'i64', lanes)}")
        return em.f.emit(f"add {wide} {em.raw_splat(base, 'i64', lanes)}, {strides}")
    return widened(em, em.expr(place), place.dtype)


def _pointers(em: Emitter, buffer: Buffer, place: e.PrimExpr) -> str:
    lanes = place.dtype.lanes
    offsets = _offsets(em, place)
    element = t.memory_scalar(buffer.dtype)
    base = em.pointer(buffer.data)
    return em.f.emit(f"getelementptr {element}, ptr {base}, <{lanes} x i64> {offsets}")


def _all_lanes(lanes: int) -> str:
    return t.splat("i1", "true", lanes)


def _gather(em: Emitter, x: BufferLoad, place: e.PrimExpr) -> str:
    kind = x.dtype
    lanes, memory = kind.lanes, t.memory_type(kind)
    pointers, bools = f"<{lanes} x ptr>", f"<{lanes} x i1>"
    mask = _all_lanes(lanes) if x.predicate is None else em.expr(x.predicate)
    name = f"llvm.masked.gather.{_overload(kind)}.v{lanes}p0"
    fn = em.intrinsic(name, memory, (pointers, bools, memory))
    where = _pointers(em, x.buffer, place)
    return em.f.emit(
        f"call {memory} {fn}({pointers} align {align_of(kind)} {where}, {bools} {mask}, "
        f"{memory} zeroinitializer)"
    )


def _scatter(em: Emitter, x: BufferStore, place: e.PrimExpr, kind: DType, value: str) -> None:
    lanes, memory = kind.lanes, t.memory_type(kind)
    pointers, bools = f"<{lanes} x ptr>", f"<{lanes} x i1>"
    mask = _all_lanes(lanes) if x.predicate is None else em.expr(x.predicate)
    name = f"llvm.masked.scatter.{_overload(kind)}.v{lanes}p0"
    fn = em.intrinsic(name, "void", (memory, pointers, bools))
    where = f"{pointers} align {align_of(kind)} {_pointers(em, x.buffer, place)}"
    em.f.do(f"call void {fn}({memory} {value}, {where}, {bools} {mask})")
