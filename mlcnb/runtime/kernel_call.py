"""Calling one kernel from Python: its argv filled from arrays and numbers, its status checked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mlcnb.codegen.interp.memory import element_shape
from mlcnb.codegen.llvm.emit.status import FIRST_ASSERT, STATUS
from mlcnb.core.errors import ExecutionError, RuntimeInputError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.memory import aligned_empty
from mlcnb.runtime import threads
from mlcnb.runtime.native_graph import NativeProgram
from mlcnb.runtime.shapes import Dims, match_shapes, open_sizes
from mlcnb.tir.analysis.escapes import written_memory
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.index_check import told


def run(kernel: Any, args: Sequence[Any]) -> Any:
    """Run a kernel on arrays (read and written in place) and scalars, in the order of its
    parameters.

    Returns:
        The number that it returns, or None.

    Raises:
        RuntimeInputError: wrong number, dtype or shape.
        ExecutionError: the kernel stopped: an assertion, an index out of bounds, a cancelled call.
    """
    dims = check(kernel, args)
    if not kernel.is_native:
        return kernel.run(args, dims)
    slots, keep = fill(kernel, args, dims)
    status = NativeProgram([kernel.address], [slots], (kernel.library, keep)).run()
    if status:
        raise failure(kernel, status, args)
    return None if kernel.signature.result is None else keep[-1][0].item()


def run_timed(kernel: Any, args: Sequence[Any]) -> tuple[int, Dims]:
    """As `run`; the nanoseconds that it took, and the sizes of its symbolic variables."""
    dims = check(kernel, args)
    if not kernel.is_native:
        start = time.perf_counter_ns()
        run(kernel, args)
        return time.perf_counter_ns() - start, dims
    status, nanoseconds = _program(kernel, args, dims).run_timed()
    if status:
        raise failure(kernel, status, args)
    return int(nanoseconds[0]), dims


def _program(kernel: Any, args: Sequence[Any], dims: Dims) -> NativeProgram:
    """One call of a kernel."""
    slots, keep = fill(kernel, args, dims)
    return NativeProgram([kernel.address], [slots], (kernel.library, keep))


def check_outputs(func: PrimFunc, args: Sequence[Any]) -> None:
    """Refuse to write to an array that may not be written, or that another argument lies in.

    Raises:
        RuntimeInputError: naming the argument.
    """
    names = [func.buffer_map.get(p, p).name for p in func.params]
    arrays = [a if isinstance(a, np.ndarray) else None for a in args]
    for i in written(func):
        out = arrays[i]
        if out is None:
            continue
        what = f"{func.attrs.get('global_symbol', 'main')}: argument {names[i]!r}"
        if not out.flags.writeable:
            raise RuntimeInputError(f"{what} is written to, but is read-only")
        for j, other in enumerate(arrays):
            if i != j and other is not None and func.attrs.get("tir.noalias"):
                if np.may_share_memory(out, other):
                    raise RuntimeInputError(
                        f"{what} is written to, and shares memory with {names[j]!r}",
                        hint="pass an array of its own",
                    )


@lru_cache(maxsize=1024)
def written(func: PrimFunc) -> tuple[int, ...]:
    """Positions of the parameters that a PrimFunc stores to, or lets others write through."""
    pointers = written_memory(func)
    buffers = [func.buffer_map.get(p) for p in func.params]
    return tuple(i for i, b in enumerate(buffers) if b is not None and b.data in pointers)


def check(kernel: Any, args: Sequence[Any]) -> Dims:
    """Check arguments against the kernel's parameters; gives the symbolic sizes."""
    params = kernel.signature.params
    if len(args) != len(params):
        names = ", ".join(p.name for p in params)
        raise RuntimeInputError(
            f"{kernel.name} takes {len(params)} arguments ({names}), outputs included, "
            f"but got {len(args)}",
            hint=_made_first(kernel) if len(args) < len(params) else None,
        )
    dims: Dims = {}
    for param, arg in zip(params, args, strict=True):
        if not isinstance(param, Buffer):
            number = checked_number(kernel.name, param, arg)
            dims[param] = 0 if param.dtype.is_float else number
    shapes = [
        _checked_array(kernel.name, param, arg)
        for param, arg in zip(params, args, strict=True)
        if isinstance(param, Buffer)
    ]
    match_shapes(shapes, dims)
    return dims


def _made_first(kernel: Any) -> str | None:
    """How to make the arrays that a kernel writes: `C = np.empty((8, 8), 'float32')`."""
    params = kernel.signature.params
    outputs = [params[n] for n in written(kernel.func)]
    if any(p.as_int(x) is None for b in outputs for x in b.shape):
        return None
    made = [
        f"{b.name} = np.empty({tuple(map(p.as_int, b.shape))}, {str(b.dtype)!r})" for b in outputs
    ]
    return f"make what it writes first: {'; '.join(made)}"


def checked_number(kernel: str, param: e.Var, arg: Any) -> int:
    """The whole part of a scalar argument, which must be a number of the parameter's dtype."""
    fits = isinstance(arg, int | float | np.number | np.bool_)
    if fits and not param.dtype.is_float:
        fits = int(arg) == arg and param.dtype.min_value <= int(arg) <= param.dtype.max_value
    if not fits:
        raise RuntimeInputError(
            f"{kernel}: argument {param.name!r} must be a number of {param.dtype}, got {arg!r}"
        )
    return 0 if param.dtype.is_float else int(arg)


def _checked_array(kernel: str, buffer: Buffer, arg: Any) -> tuple[Any, Any, str]:
    """(shape, dimensions that are wanted, name) of an argument of the right kind and dtype."""
    what = f"{kernel}: argument {buffer.name!r}"
    if not isinstance(arg, np.ndarray) and not is_on_gpu(arg):
        raise RuntimeInputError(f"{what} must be a NumPy array, got {type(arg).__name__}")
    if arg.dtype != buffer.dtype.numpy:
        raise RuntimeInputError(
            f"{what}: expected dtype {buffer.dtype}, got {arg.dtype}",
            hint=f"convert it first: x.astype({str(buffer.dtype)!r})",
        )
    if not arg.flags.c_contiguous:
        raise RuntimeInputError(f"{what} is strided in memory", hint="pass np.ascontiguousarray(x)")
    return element_shape(buffer, arg.shape), buffer.shape, what


def is_on_gpu(value: Any) -> bool:
    """True for an array in the memory of a GPU, such as CuPy's."""
    if isinstance(value, np.ndarray):
        return False
    told = getattr(value, "is_cuda", None)  # of torch, whose interface takes long to ask for
    return told if told is not None else hasattr(value, "__cuda_array_interface__")


def fill(kernel: Any, args: Sequence[Any], dims: Dims) -> tuple[list[int], list[Any]]:
    """The slots of argv, and what must stay alive while they are used."""
    signature = kernel.signature
    slots: list[int] = []
    keep: list[Any] = list(args)
    for param, arg in zip(signature.params, args, strict=True):
        slots.append(arg.ctypes.data if isinstance(param, Buffer) else scalar_bits(arg, param))
    slots.extend(open_sizes(signature, dims))
    if signature.workspace:
        space = aligned_empty((signature.workspace,), np.dtype("uint8"))
        keep.append(space)
        slots.append(space.ctypes.data)
    if signature.result is not None:
        result = np.zeros(1, signature.result.numpy)
        keep.append(result)
        slots.append(result.ctypes.data)
    return slots, keep


def scalar_bits(value: Any, param: Any) -> int:
    """A scalar as the int64 whose low bytes are its bytes."""
    raw = np.array([value], param.dtype.numpy).tobytes().ljust(8, b"\0")
    return int(np.frombuffer(raw, np.int64)[0])


def failure(kernel: Any, status: int, args: Sequence[Any] = ()) -> ExecutionError:
    """The error that a status stands for; `args` are looked at for what was wrong with them."""
    number = status - FIRST_ASSERT
    if 0 <= number < len(kernel.messages):
        named = {p.name: a for p, a in zip(kernel.signature.params, args, strict=False)}
        text = told(kernel.messages[number], threads.fault(), named)
        return ExecutionError(f"{kernel.name}: {text}")
    return ExecutionError(f"{kernel.name}: {STATUS.get(status, f'status {status}')}")
