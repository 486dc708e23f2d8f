"""The GPU of this computer through CuPy: memory, and kernels compiled by `cupy.RawModule`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from mlcnb.codegen.cuda.emit.functions import FIRST_ASSERT
from mlcnb.codegen.cuda.emit.kernel import CudaSource
from mlcnb.codegen.cuda.nvrtc import include_folders
from mlcnb.core.errors import (
    DeviceError,
    ExecutionError,
    MissingDependencyError,
    RuntimeInputError,
)
from mlcnb.ir.dtype import DType
from mlcnb.tir.function import PrimFunc

#: bytes that the address of an argument has to be a multiple of: vectors are loaded at once
ALIGNMENT = 16
#: a block may use this much shared memory without asking
_SHARED_UNASKED = 48 << 10
_HINT = "its source, PTX and resources can be read without a GPU: kernel.source, .ptx, .resources"


class Gpu:
    """Runs the kernels of one source."""

    def __init__(
        self, text: str, sources: Mapping[str, CudaSource], kernels: Mapping[str, PrimFunc]
    ) -> None:
        self.cupy = cupy_with_gpu()
        self.sources = sources
        self.kernels = kernels
        options = ("--std=c++17", *(f"-I{x}" for x in include_folders()))
        self.module = self.cupy.RawModule(code=text, options=options, backend="nvrtc")

    def allocate(self, kind: DType, size: int) -> Any:
        """Global memory of `size` elements."""
        return self.cupy.empty(size, _plain(kind.numpy))

    def to_device(self, array: Any, name: str) -> Any:
        """An argument as an array on the GPU: itself, or a copy.

        Raises:
            RuntimeInputError: it lies at an address that vectors cannot be loaded from.
        """
        if isinstance(array, np.ndarray):
            return self.cupy.asarray(array.view(_plain(array.dtype)))
        found = self.cupy.asarray(array)
        if found.size and found.data.ptr % ALIGNMENT:
            raise RuntimeInputError(
                f"argument {name!r} lies at an address that is no multiple of {ALIGNMENT} bytes",
                hint="pass a copy: x.copy()",
            )
        return found

    def to_host(self, source: Any, target: np.ndarray) -> None:
        """Copy a result to an array of the caller."""
        target[...] = self.cupy.asnumpy(source).view(target.dtype).reshape(target.shape)

    def launch(
        self, name: str, args: Sequence[Any], grid: Sequence[int], block: Sequence[int], shared: int
    ) -> None:
        """Start a kernel; where it can report an error, wait for it.

        Raises:
            ExecutionError: the kernel stopped.
        """
        function = self.module.get_function(name)
        if shared > _SHARED_UNASKED:
            function.max_dynamic_shared_size_bytes = shared
        params = self.kernels[name].params
        values = [_argument(x, p.dtype) for x, p in zip(args, params, strict=True)]
        source = self.sources[name]
        status = self.cupy.zeros(1, "int32") if source.reports else None
        if status is not None:
            values.append(status)
        function(tuple(grid), tuple(block), tuple(values), shared_mem=shared)
        if status is not None and int(status[0]):
            raise _failure(source, int(status[0]))


def _argument(value: Any, kind: DType) -> Any:
    return value if kind.is_handle else kind.numpy.type(value)


def _failure(source: CudaSource, status: int) -> ExecutionError:
    number = status - FIRST_ASSERT
    if 0 <= number < len(source.messages):
        return ExecutionError(f"{source.name}: {source.messages[number]}")
    return ExecutionError(f"{source.name}: an index read from data is out of bounds")


def _plain(kind: np.dtype) -> np.dtype:
    """A dtype that CuPy knows: the 16-bit floats of ml_dtypes go as their bits."""
    return kind if kind.kind in "biufc" else np.dtype(f"uint{kind.itemsize * 8}")


@cache
def cupy_with_gpu() -> Any:
    """CuPy, if it finds a GPU.

    Raises:
        MissingDependencyError: CuPy is not installed.
        DeviceError: there is no GPU, or no driver for it.
    """
    try:
        import cupy
    except ImportError as error:
        raise MissingDependencyError(
            "CuPy, which runs kernels on a GPU, is not installed",
            hint=f'pip install "mlcnb[cuda]"; {_HINT}',
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(f"no CUDA GPU was found: {error}", hint=_HINT) from error
    if count == 0:
        raise DeviceError("no CUDA GPU was found", hint=_HINT)
    return cupy
