"""Kernels for a GPU: PrimFuncs bound to threads, with everything that they went through.

kernels = build({"matmul": func}, Target("cuda -arch=sm_90"))
kernels["matmul"].source, .ptx, .cubin, .resources, .host, .device_functions
kernels["matmul"].run(arrays, dims)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mlcnb.codegen.cuda.emit.kernel import CudaSource, emit_kernel, whole_text
from mlcnb.codegen.cuda.gpu import Gpu
from mlcnb.codegen.cuda.host import HostProgram, why_unbound
from mlcnb.codegen.cuda.nvrtc import CompiledCuda, Resources, compile_text
from mlcnb.codegen.kernel import Kernel, scheduled_by, signature_of
from mlcnb.core.errors import CodegenError
from mlcnb.core.node import walk
from mlcnb.ir.expr import Var
from mlcnb.target import Target
from mlcnb.tir.analysis.verify_gpu_code import DEFAULT_ARCH, GpuLimits, assert_gpu_code
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import BufferStore
from mlcnb.tir.transform.lower import Lowering, lower
from mlcnb.tir.transform.split_host_device import split_host_device

Schedule = Callable[[PrimFunc, Target], Any]


class CudaKernel(Kernel):
    """One function for a GPU: as given, as scheduled and as lowered, its CUDA C++ and its code.

    A function may be several kernels, which its host part launches one after the other.
    """

    def __init__(self, name: str, func: PrimFunc, target: Target, schedule: Any = None) -> None:
        self.name = name
        self.func = func
        self.signature = signature_of(func, 0)
        self.target = target
        self.schedule = schedule
        self.scheduled = scheduled_by(schedule, func)
        check_bound(name, self.scheduled)
        self.lowered: PrimFunc = lower(self.scheduled)
        assert_gpu_code(self.lowered, GpuLimits.of(target))
        self.host, self.device_functions = split_host_device(self.lowered, identifier(name))
        self.sources: dict[str, CudaSource] = {
            symbol: emit_kernel(kernel, symbol) for symbol, kernel in self.device_functions.items()
        }
        self.program = HostProgram(self.host, self.device_functions)

    @property
    def steps(self) -> Lowering:
        """What every lowering pass made of it."""
        return lower(self.scheduled, steps=True)

    @property
    def source(self) -> str:
        """The CUDA C++ of all its kernels."""
        return whole_text(list(self.sources.values()))

    @property
    def arch(self) -> str:
        """The architecture that it is compiled for where no GPU says otherwise."""
        return str(self.target.attrs.get("arch", DEFAULT_ARCH))

    @cached_property
    def binary(self) -> CompiledCuda:
        """The source compiled by NVRTC for the target's architecture; needs no GPU."""
        return compile_text(self.source, self.arch)

    @property
    def ptx(self) -> str:
        """The text of NVIDIA's virtual instruction set."""
        return self.binary.ptx

    @property
    def cubin(self) -> bytes:
        """Machine code of the target's architecture."""
        return self.binary.cubin

    @property
    def resources(self) -> dict[str, Resources]:
        """Registers, spills and memory of each kernel."""
        return self.binary.resources

    @cached_property
    def gpu(self) -> Gpu:
        """The GPU that runs it.

        Raises:
            DeviceError: there is none.
            MissingDependencyError: CuPy is not installed.
        """
        return Gpu(self.source, self.sources, self.device_functions)

    def run(self, args: Sequence[Any], dims: Mapping[Var, int]) -> None:
        """Run on arrays: CuPy's as they are, NumPy's through copies there and back.

        Args:
            args: one for each parameter, checked already.
            dims: the sizes of symbolic dimensions.
        """
        gpu = self.gpu
        values: dict[Var, Any] = dict(dims)
        back = []
        for param, arg in zip(self.signature.params, args, strict=True):
            if not isinstance(param, Buffer):
                values[param] = arg
                continue
            values[param.data] = gpu.to_device(arg, param.name)
            if isinstance(arg, np.ndarray) and param.data in self.written:
                back.append((values[param.data], arg))
        self.program.run(values, gpu)
        for source, target in back:
            gpu.to_host(source, target)

    @cached_property
    def written(self) -> set[Var]:
        """Pointers that its kernels store through."""
        return {n.buffer.data for n in walk(self.lowered.body) if isinstance(n, BufferStore)}


def identifier(name: str) -> str:
    """A name as C++ takes it."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain and not plain[0].isdigit() else f"_{plain}"


def check_bound(name: str, func: PrimFunc) -> None:
    """Refuse a function with work that is bound to no thread.

    Raises:
        CodegenError: naming the block.
    """
    found = why_unbound(func)
    if found is not None:
        message, where = found
        raise CodegenError(
            f"{name}: {message}: it cannot run on a GPU",
            where=where,
            root=func,
            hint='bind its loops: sch.bind(loop, "blockIdx.x"), sch.bind(loop, "threadIdx.x")',
        )


def build(
    funcs: Mapping[str, PrimFunc],
    target: Target,
    schedule: Schedule | None = None,
    progress: Callable[[float], Any] | None = None,
    **_host: Any,
) -> dict[str, CudaKernel]:
    """CUDA C++ of PrimFuncs; what they become for a GPU is compiled when it is asked for.

    Raises:
        CodegenError: a function that is not bound to threads, or has no form in CUDA C++.
        PassError: a kernel that no GPU of the target can run.
    """
    made = {}
    for name, func in funcs.items():
        made[name] = CudaKernel(name, func, target, schedule(func, target) if schedule else None)
        if progress is not None:
            progress(1)
    return made
