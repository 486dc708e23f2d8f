"""Calling one kernel from Python: its argv filled from arrays and numbers, its status checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb.codegen.llvm.emit.status import FIRST_ASSERT, STATUS
from mlcnb.core.errors import ExecutionError, RuntimeInputError
from mlcnb.runtime.interpreted import InterpretedKernel
from mlcnb.runtime.native_graph import NativeProgram
from mlcnb.runtime.shapes import Dims, evaluate, match_shape
from mlcnb.runtime.tensor import aligned_empty
from mlcnb.tir.buffer import Buffer


def run(kernel: Any, args: Sequence[Any]) -> None:
    """Run a kernel on arrays (read and written in place) and scalars, in the order of its
    parameters.

    Raises:
        RuntimeInputError: wrong number, dtype or shape.
        ExecutionError: the kernel stopped: an assertion, an index out of bounds, a cancelled call.
    """
    dims = check(kernel, args)
    if isinstance(kernel, InterpretedKernel):
        kernel.run(args)
        return
    slots, keep = fill(kernel, args, dims)
    program = NativeProgram([kernel.address], [slots], (kernel.library, keep))
    with program.lock:
        status = program.run()
    if status:
        raise failure(kernel, status)


def check(kernel: Any, args: Sequence[Any]) -> Dims:
    """Check arguments against the kernel's parameters; gives the symbolic sizes."""
    params = kernel.signature.params
    if len(args) != len(params):
        names = ", ".join(p.name for p in params)
        raise RuntimeInputError(
            f"{kernel.name} takes {len(params)} arguments ({names}), outputs included, "
            f"but got {len(args)}"
        )
    dims: Dims = {}
    for param, arg in zip(params, args, strict=True):
        if not isinstance(param, Buffer):
            dims[param] = int(arg) if not param.dtype.is_float else 0
    for param, arg in zip(params, args, strict=True):
        if isinstance(param, Buffer):
            _check_array(kernel.name, param, arg, dims)
    return dims


def _check_array(kernel: str, buffer: Buffer, arg: Any, dims: Dims) -> None:
    what = f"{kernel}: argument {buffer.name!r}"
    if not isinstance(arg, np.ndarray):
        raise RuntimeInputError(f"{what} must be a NumPy array, got {type(arg).__name__}")
    if arg.dtype != buffer.dtype.numpy:
        raise RuntimeInputError(f"{what}: expected dtype {buffer.dtype}, got {arg.dtype}")
    if not arg.flags.c_contiguous:
        raise RuntimeInputError(f"{what} is strided in memory", hint="pass np.ascontiguousarray(x)")
    match_shape(arg.shape, buffer.shape, dims, what)


def fill(kernel: Any, args: Sequence[Any], dims: Dims) -> tuple[list[int], list[Any]]:
    """The slots of argv, and what must stay alive while they are used."""
    signature = kernel.signature
    slots: list[int] = []
    keep: list[Any] = list(args)
    for param, arg in zip(signature.params, args, strict=True):
        slots.append(arg.ctypes.data if isinstance(param, Buffer) else scalar_bits(arg, param))
    slots.extend(evaluate(dim, dims) for dim in signature.dims)
    if signature.workspace:
        space = aligned_empty((signature.workspace,), np.dtype("uint8"))
        keep.append(space)
        slots.append(space.ctypes.data)
    return slots, keep


def scalar_bits(value: Any, param: Any) -> int:
    """A scalar as the int64 whose low bytes are its bytes."""
    raw = np.array([value], param.dtype.numpy).tobytes().ljust(8, b"\0")
    return int(np.frombuffer(raw, np.int64)[0])


def failure(kernel: Any, status: int) -> ExecutionError:
    """The error that a status stands for."""
    number = status - FIRST_ASSERT
    if 0 <= number < len(kernel.messages):
        return ExecutionError(f"{kernel.name}: {kernel.messages[number]}")
    return ExecutionError(f"{kernel.name}: {STATUS.get(status, f'status {status}')}")
