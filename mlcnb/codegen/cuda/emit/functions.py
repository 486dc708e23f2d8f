"""Intrinsics as CUDA C++: `tir.exp` of a float32 is `expf`, of a float16 `half(expf(float(x)))`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from mlcnb.codegen.cuda.emit.helpers import name_of
from mlcnb.codegen.cuda.emit.types import ctype
from mlcnb.core.errors import CodegenError, UnsupportedOpError
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import dtype
from mlcnb.tir.analysis.bulk import BOX, CREATE, PIECE, WAIT, Matrix, number_of, parity_of
from mlcnb.tir.analysis.mma import FRAGMENTS, Form, neighbours
from mlcnb.tir.analysis.wgmma import ALIGNMENT, OPERANDS, SUMS, Product

if TYPE_CHECKING:
    from mlcnb.codegen.cuda.emit.expr import Emitter

#: statuses below this are the runtime's own; an assertion or a check adds its message's number
FIRST_ASSERT = 16
#: functions of floats: the name for double; with an f behind it for float
_FLOAT = {
    name: name
    for name in (
        "exp exp2 exp10 expm1 log log2 log10 log1p sqrt rsqrt tanh erf sin cos tan asin acos atan "
        "sinh cosh asinh acosh atanh floor ceil trunc fabs pow fmod atan2 copysign hypot "
        "nextafter ldexp fma"
    ).split()
} | {"round": "rint", "nearbyint": "rint", "minnum": "fmin", "maxnum": "fmax"}

#: what tells numbers apart
_TESTS = ("isnan", "isinf", "isfinite")
#: names of CUDA's functions that a kernel may call: no variable has one
NAMES = frozenset(_TESTS) | {f"{name}{end}" for name in _FLOAT.values() for end in ("", "f")}


def call(em: Emitter, x: e.Call) -> str:
    """One call as an operand that needs no parentheses.

    Raises:
        UnsupportedOpError: an intrinsic without a form in CUDA C++.
    """
    if not isinstance(x.op, str):
        raise CodegenError("a kernel cannot call functions of the module")
    name = x.op.removeprefix("tir.")
    special = _SPECIAL.get(name)
    if special is not None:
        return special(em, x)
    if name in _FLOAT or name == "sigmoid":
        return floating(em, name, x)
    raise UnsupportedOpError(f"the cuda backend knows no intrinsic tir.{name}")


def floating(em: Emitter, name: str, x: e.Call) -> str:
    """A function of floats; the 16-bit ones are computed in float32 and rounded once."""
    kind = x.dtype.element
    if not kind.is_float:
        return _of_integers(em, name, x)
    narrow = kind in ("float16", "bfloat16")
    args = [em.expr(a) for a in x.args]
    if narrow:
        args = [f"float({a})" if p.dtype.is_float else a
                for a, p in zip(args, x.args, strict=True)]  # fmt: skip
    if name == "sigmoid":
        text = f"{em.helper('sigmoid')}({args[0]})"
    else:
        text = f"{_FLOAT[name]}{'' if kind == 'float64' else 'f'}({', '.join(args)})"
    return f"{ctype(kind)}({text})" if narrow else text


def _of_integers(em: Emitter, name: str, x: e.Call) -> str:
    if name in ("floor", "ceil", "trunc", "round", "nearbyint"):
        return em.operand(x.args[0])
    if name == "pow":
        a, b = (em.expr(arg) for arg in x.args)
        return f"{em.helper('integer_power')}<{ctype(x.dtype)}>({a}, {b})"
    if name == "fabs":
        return f"abs({em.expr(x.args[0])})"
    raise UnsupportedOpError(f"tir.{name} of {x.dtype}", hint="cast to a float first")


def _of_float(name: str, em: Emitter, x: e.Call) -> str:
    value = em.expr(x.args[0])
    wide = x.args[0].dtype.element in ("float32", "float64")
    return f"{name}({value})" if wide else f"{name}(float({value}))"


def _popcount(em: Emitter, x: e.Call) -> str:
    kind = x.args[0].dtype.element
    value = em.expr(x.args[0])
    if kind.bits == 64:
        return f"__popcll({value})"
    unsigned = dtype(f"uint{max(8, kind.bits)}")
    return f"__popc(({ctype(unsigned)})({value}))"


def _clz(em: Emitter, x: e.Call) -> str:
    kind = x.args[0].dtype.element
    value = em.expr(x.args[0])
    if kind.bits == 64:
        return f"__clzll({value})"
    unsigned = ctype(dtype(f"uint{kind.bits}"))
    return f"(__clz(({unsigned})({value})) - {32 - kind.bits})"


def _check_index(em: Emitter, x: e.Call) -> str:
    em.reports = True
    index, extent = em.expr(x.args[0]), em.expr(x.args[1])
    where = x.args[2].value if len(x.args) > 2 and isinstance(x.args[2], e.StringImm) else ""
    message = f"{where}: the index is out of bounds" if where else "an index is out of bounds"
    if message not in em.messages:
        em.messages.append(message)
    number = FIRST_ASSERT + em.messages.index(message)
    return f"{em.helper('check_index')}({index}, {extent}, status, {number})"


def _extern(em: Emitter, x: e.Call) -> str:
    name = x.args[0]
    if not isinstance(name, e.StringImm):
        raise CodegenError("a call of a function outside needs its name as a string")
    if name.value.startswith("llvm."):
        raise UnsupportedOpError(f"the cuda backend cannot call {name.value}", hint="use tir.*")
    if re.fullmatch(r"[A-Za-z_]\w*(::\w+)*", name.value, re.ASCII) is None:
        raise CodegenError(f"{name.value!r} is no name of a function in C++")
    return f"{name.value}({', '.join(em.expr(a) for a in x.args[1:])})"


def _shuffle(name: str) -> Callable[[Emitter, e.Call], str]:
    def rule(em: Emitter, x: e.Call) -> str:
        value, by, width = (em.expr(a) for a in x.args[1:4])
        mask = f"0x{x.args[0].value:x}u" if isinstance(x.args[0], e.IntImm) else em.expr(x.args[0])
        text = f"{name}({mask}, {value}, {by}, {width})"
        return f"({ctype(x.dtype)}){text}" if x.dtype.bits < 16 else text

    return rule


def _barrier(em: Emitter, x: e.Call) -> str:
    scope = getattr(x.args[0], "value", "")
    if scope in ("shared", "shared.dyn"):
        return f"{em.helper('barrier_of_proxies')}()" if em.by_proxies else "__syncthreads()"
    if scope == "warp":
        return "__syncwarp()"
    raise CodegenError(
        f"a kernel has no barrier for {scope} memory: its blocks do not wait for each other",
        hint="make it two kernels",
    )


def _mma(em: Emitter, x: e.Call) -> str:
    form = Form.of(x)
    a, b, c = (f"{em.expr(x.args[n])} + {em.operand(x.args[n + 1])}" for n in FRAGMENTS)
    return f"{em.helper(f'mma_{form.shape}_{form.given.ptx}')}({c}, {a}, {b})"


def _load_matrices(em: Emitter, x: e.Call) -> str:
    trans, count, _, *places = x.args
    if neighbours(x) and getattr(count, "value", 0) != 4:
        raise UnsupportedOpError(f"the cuda backend has no ldmatrix of {count}", hint="4 of .b16")
    own, shared = (f"{em.expr(data)} + {em.operand(at)}" for data, at in (places[:2], places[2:]))
    name = "ldmatrix_x4_trans" if getattr(trans, "value", 0) else "ldmatrix_x4"
    return f"{em.helper(name)}({own}, {shared})"


def _warpgroup_product(em: Emitter, x: e.Call) -> str:
    made = Product.of(x)
    places = [f"{em.expr(data)} + {em.operand(at)}"
              for data, at in (x.args[n : n + 2] for n in (SUMS, *OPERANDS))]  # fmt: skip
    for first in OPERANDS:
        data: Any = x.args[first]
        if em.offsets.get(data, 1) % ALIGNMENT:
            raise CodegenError(
                f"{data.name}, which ptx_wgmma reads, does not begin at a multiple of {ALIGNMENT} "
                "bytes of shared memory",
                where=x,
                hint=f"allocate it in scope shared.dyn, with tiles of a multiple of {ALIGNMENT} "
                "bytes before it",
            )
    return f"{em.helper(name_of(made))}({', '.join(places)})"


def _async_copy(em: Emitter, x: e.Call) -> str:
    to, start = (f"{em.expr(data)} + {em.operand(at)}" for data, at in (x.args[:2], x.args[2:4]))
    size, *holds = (em.expr(a) for a in x.args[4:])
    if size not in ("4", "8", "16"):
        raise UnsupportedOpError(f"no cp.async of {size} bytes", hint="4, 8 or 16")
    name = em.helper("cp_async_or_zeros" if holds else "cp_async")
    return f"{name}<{size}>({', '.join([to, start, *holds])})"


def _create_barriers(em: Emitter, x: e.Call) -> str:
    return f"__shared__ __align__(8) unsigned long long {em.name(CREATE, 'barriers')}[{x.args[0]}]"


def _of_barrier(helper: str) -> Callable[[Emitter, e.Call], str]:
    """What a thread does with a barrier: its number, and perhaps one more."""

    def rule(em: Emitter, x: e.Call) -> str:
        more = [parity_of(x)] if x.op == WAIT else x.args[1:]
        return f"{em.helper(helper)}({', '.join([_barrier_of(em, x), *map(em.expr, more)])})"

    return rule


def _barrier_of(em: Emitter, x: e.Call) -> str:
    return f"{em.name(CREATE, 'barriers')} + {em.operand(number_of(x))}"


def _bulk_copy(em: Emitter, x: e.Call) -> str:
    to: Any = x.args[0]
    made = Matrix.of(x) if x.op == BOX else None
    unit = made.alignment if made else PIECE
    known = 0 if made is None else 1
    if em.offsets.get(to, known) % unit:
        raise CodegenError(
            f"{to.name}, which {str(x.op).removeprefix('tir.')} writes, does not begin at a "
            f"multiple of {unit} bytes of shared memory",
            where=x,
            hint=f"allocate it in scope shared.dyn, with tiles of a multiple of {unit} bytes "
            "before it",
        )
    there = f"{em.expr(to)} + {em.operand(x.args[1])}"
    if made is None:
        start = f"{em.expr(x.args[2])} + {em.operand(x.args[3])}"
        given = [there, start, em.expr(x.args[4])]
    else:
        em.helper("tensor_map")
        place = map(em.expr, x.args[5:7])
        given = [there, f"&{em.map_of(x.args[2], made)}", *place]
    name = em.helper("cp_async_bulk" if made is None else "cp_async_bulk_tensor")
    return f"{name}({', '.join([*given, _barrier_of(em, x)])})"


#: dtypes that `atomicAdd` of CUDA knows, and those that it knows by another one's name
_ATOMIC = {
    **dict.fromkeys(("int32", "uint32", "float32", "float64", "float16", "bfloat16"), ""),
    **dict.fromkeys(("int64", "uint64"), "unsigned long long"),
}


def _atomic_add(em: Emitter, x: e.Call) -> str:
    kind, other = str(x.dtype), _ATOMIC.get(str(x.dtype))
    if other is None:
        raise UnsupportedOpError(f"no atomicAdd of {kind}", hint=", ".join(_ATOMIC))
    address, value = (em.expr(a) for a in x.args)
    if not other:
        return f"atomicAdd({address}, {value})"
    return f"({ctype(x.dtype)})atomicAdd(({other}*){address}, ({other})({value}))"


def _left_over(em: Emitter, x: e.Call) -> str:
    raise CodegenError("tvm_thread_allreduce is left", hint="run LowerThreadAllreduce first")


def _refused(em: Emitter, x: e.Call) -> str:
    raise CodegenError(f"a kernel cannot call {x.op}")


_SPECIAL: dict[str, Callable[[Emitter, e.Call], str]] = {
    **{name: partial(_of_float, name) for name in _TESTS},
    "likely": lambda em, x: em.operand(x.args[0]),
    "popcount": _popcount,
    "clz": _clz,
    "reinterpret": lambda em, x: f"{em.helper('bits_as')}<{ctype(x.dtype)}>({em.expr(x.args[0])})",
    "check_index": _check_index,
    "call_extern": _extern,
    "call_pure_extern": _extern,
    "call_llvm_intrin": _extern,
    "call_llvm_pure_intrin": _extern,
    "address_of": lambda em, x: f"(&{em.expr(x.args[0])})",
    "tvm_access_ptr": lambda em, x: f"({em.expr(x.args[1])} + {em.operand(x.args[2])})",
    "tvm_warp_shuffle": _shuffle("__shfl_sync"),
    "tvm_warp_shuffle_up": _shuffle("__shfl_up_sync"),
    "tvm_warp_shuffle_down": _shuffle("__shfl_down_sync"),
    "tvm_warp_activemask": lambda em, x: "__activemask()",
    "tvm_storage_sync": _barrier,
    "atomic_add": _atomic_add,
    "ptx_mma": _mma,
    "ptx_ldmatrix": _load_matrices,
    "ptx_wgmma": _warpgroup_product,
    "ptx_cp_async": _async_copy,
    "ptx_cp_async_bulk": _bulk_copy,
    "ptx_cp_async_bulk_tensor": _bulk_copy,
    "create_barriers": _create_barriers,
    "ptx_init_barrier_thread_count": _of_barrier("barrier_init"),
    "ptx_arrive_barrier": _of_barrier("barrier_arrive"),
    "ptx_arrive_barrier_expect_tx": _of_barrier("barrier_arrive_expect"),
    "ptx_wait_barrier": _of_barrier("barrier_wait"),
    "ptx_commit_group": lambda em, x: f"{em.helper('cp_async_commit')}()",
    "ptx_wait_group": lambda em, x: f"{em.helper('cp_async_wait')}<{em.expr(x.args[0])}>()",
    "tvm_thread_allreduce": _left_over,
    "tvm_call_packed": _refused,
    "tvm_call_cpacked": _refused,
    "ret": _refused,
}
