"""Kernels for a GPU: PrimFuncs bound to threads, with everything that they went through.

kernels = build({"matmul": func}, Target("cuda -arch=sm_90"))
kernels["matmul"].source, .ptx, .sass, .cubin, .resources, .host, .device_functions
kernels["matmul"].run(arrays, dims)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from mlcnb.codegen.arrivals import copies_by_hand
from mlcnb.codegen.cuda.emit.functions import FIRST_ASSERT
from mlcnb.codegen.cuda.emit.kernel import CudaSource, emit_kernel, whole_text
from mlcnb.codegen.cuda.gpu import Device, Gpu, runs_on
from mlcnb.codegen.cuda.host import HostProgram, why_unbound
from mlcnb.codegen.cuda.nvrtc import CompiledCuda, Resources, compile_text
from mlcnb.codegen.cuda.sass import Sass, disassemble
from mlcnb.codegen.kernel import Kernel, scheduled_by, signature_of
from mlcnb.codegen.races import refuse_races
from mlcnb.core import above
from mlcnb.core.errors import CodegenError, DeviceError, ExecutionError
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import Var
from mlcnb.target import Target
from mlcnb.tir.analysis.escapes import written_memory
from mlcnb.tir.analysis.meaning import meaning_of
from mlcnb.tir.analysis.verify_gpu_code import DEFAULT_ARCH, GpuLimits, assert_gpu_code
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.transform.lower import Lowering, lower
from mlcnb.tir.transform.split_host_device import split_host_device

Schedule = Callable[[PrimFunc, Target], Any]


class CudaKernel(Kernel):
    """One function for a GPU: as given, as scheduled and as lowered, its CUDA C++ and its code.

    A function may be several kernels, which its host part launches one after the other.
    """

    is_on_device = True

    def __init__(
        self,
        name: str,
        func: PrimFunc,
        target: Target,
        schedule: Any = None,
        looks_for_races: bool = False,
    ) -> None:
        self.name = name
        self.func = func
        self.signature = signature_of(func, 0)
        self.target = target
        self.schedule = schedule
        self.scheduled = scheduled_by(schedule, func)
        check_bound(name, self.scheduled)
        steps = lower(self.scheduled, steps=True)
        self.lowered: PrimFunc = steps.result
        if looks_for_races:
            refuse_races(steps["ThreadSync"].after, copies=copies_by_hand(func))
        assert_gpu_code(self.lowered, GpuLimits.of(target))
        self.host, self.device_functions = split_host_device(self.lowered, identifier(name))
        self.sources: dict[str, CudaSource] = {
            symbol: emit_kernel(kernel, symbol) for symbol, kernel in self.device_functions.items()
        }
        self.program = HostProgram(self.host, self.device_functions)
        #: what it was compiled as, which an equal function may share
        self.first = name
        #: its machine code was saved with it, and nothing is to be compiled
        self.is_saved = False

    def named(self, name: str, func: PrimFunc) -> CudaKernel:
        """The same code under another name, for a function that is equal to its own."""
        other = copy(self)
        other.name, other.func = name, func
        return other

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

    def image(self, arch: str) -> tuple[str, bytes]:
        """What the driver of a GPU loads: ("cubin", machine code) or ("ptx", text).

        Where the target names no architecture, it is compiled for that of the GPU.

        Args:
            arch: of the GPU, as "sm_90".

        Raises:
            DeviceError: it was compiled for another architecture.
            MissingDependencyError: it has to be compiled, and NVRTC is not installed.
        """
        is_open = "arch" not in self.target.attrs and not self.is_saved
        found = compile_text(self.source, arch) if is_open else self.binary
        if runs_on(found.arch, arch):
            return "cubin", found.cubin
        if found.arch[-1].isdigit() and _number(found.arch) < _number(arch):
            return "ptx", found.ptx.encode()
        raise DeviceError(
            f"{self.name} was compiled for {found.arch}, and this GPU is {arch}",
            hint=f'target="cuda -arch={arch}", or "cuda" for the GPU that is there',
        )

    @property
    def saved(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """What an artifact keeps of it: its entry in the manifest, and files by name."""
        made = self.binary
        parts = {"cu": self.source.encode(), "cubin": made.cubin, "ptx": made.ptx.encode()}
        entry = {"name": self.first, "arch": made.arch, "log": made.log}
        return entry, {f"{self.name}.{end}": data for end, data in parts.items()}

    def keep(self, arch: str, log: str, source: bytes, cubin: bytes, ptx: bytes) -> None:
        """Take the code that an artifact kept.

        Raises:
            CodegenError: it is code of another text than this version of mlcnb writes.
        """
        if source.decode() != self.source:
            raise CodegenError(
                f"{self.name}: its CUDA C++ is that of another version of mlcnb",
                hint="compile and save the model with this one",
            )
        self.binary = CompiledCuda(self.source, arch, cubin, log, ptx.decode())
        self.is_saved = True

    @property
    def ptx(self) -> str:
        """The text of NVIDIA's virtual instruction set."""
        return self.binary.ptx

    @property
    def cubin(self) -> bytes:
        """Machine code of the target's architecture."""
        return self.binary.cubin

    @cached_property
    def disassembly(self) -> dict[str, Sass]:
        """The instructions of each kernel, in the order of the source; needs no GPU. Where they
        came of is known to `codegen.cuda.linked`, for which they are compiled again.

        Raises:
            MissingDependencyError: NVRTC or nvdisasm is not installed.
            CodegenError: nvdisasm does not know the architecture.
        """
        found = disassemble(self.cubin)
        return {symbol: found[symbol] for symbol in self.sources}

    @property
    def sass(self) -> str:
        """The machine code as text, by nvdisasm."""
        return "\n".join(
            line for name, code in self.disassembly.items() for line in (f"{name}:", *code.lines)
        )

    @property
    def resources(self) -> dict[str, Resources]:
        """Registers, spills and memory of each kernel."""
        return self.binary.resources

    @cached_property
    def gpu(self) -> Device:
        """The GPU that runs it.

        Raises:
            DeviceError: there is none.
            MissingDependencyError: CuPy is not installed.
        """
        return Gpu()

    def run(self, args: Sequence[Any], dims: Mapping[Var, int]) -> None:
        """Run on arrays: CuPy's as they are, NumPy's through copies there and back.

        Args:
            args: one for each parameter, checked already.
            dims: the sizes of symbolic dimensions.

        Raises:
            ExecutionError: the kernel stopped.
        """
        gpu = self.gpu
        values: dict[Var, Any] = dict(dims)
        back = []
        for param, arg in zip(self.signature.params, args, strict=True):
            if not isinstance(param, Buffer):
                values[param] = arg
                continue
            values[param.data] = gpu.upload(arg, param.name)
            if isinstance(arg, np.ndarray) and param.data in self.written:
                back.append((values[param.data], arg))
        self.program.run(values, self._loaded)
        for source, target in back:
            gpu.download(source, target)

    @cached_property
    def _loaded(self) -> Loaded:
        return Loaded(self, self.gpu)

    def values(self, name: str, args: Sequence[Any]) -> list[Any]:
        """The arguments of a launch of one of its kernels, numbers in the dtypes of parameters."""
        params = self.device_functions[name].params
        return [x if p.dtype.is_handle else p.dtype.numpy.type(x)
                for x, p in zip(args, params, strict=True)]  # fmt: skip

    def failure(self, name: str, status: int) -> ExecutionError:
        """The error that a kernel of it reports."""
        source = self.sources[name]
        number = status - FIRST_ASSERT
        if 0 <= number < len(source.messages):
            return ExecutionError(f"{name}: {source.messages[number]}")
        return ExecutionError(f"{name}: an index read from data is out of bounds")

    @cached_property
    def written(self) -> set[Var]:
        """Pointers that its kernels store through, atomically too."""
        return written_memory(self.lowered)


class Loaded:
    """A kernel on a device: what its host part allocates and launches with."""

    def __init__(self, kernel: CudaKernel, gpu: Device) -> None:
        self.kernel, self.gpu = kernel, gpu
        self.module = gpu.load(kernel)

    def allocate(self, kind: DType, size: int) -> Any:
        """Global memory of `size` elements."""
        return self.gpu.allocate(kind.numpy, (size,))

    def launch(
        self, name: str, args: Sequence[Any], grid: Sequence[int], block: Sequence[int], shared: int
    ) -> None:
        """Start a kernel; where it can report an error, wait for it.

        Raises:
            ExecutionError: the kernel stopped.
        """
        values = self.kernel.values(name, args)
        reports = self.kernel.sources[name].reports
        status = np.zeros(1, "int32")
        there = self.gpu.upload(status, "status") if reports else None
        self.gpu.launch(
            self.module, name, [*values, there] if reports else values, grid, block, shared
        )
        if reports:
            self.gpu.download(there, status)
            if status[0]:
                raise self.kernel.failure(name, int(status[0]))


def _number(arch: str) -> int:
    return int(arch.removeprefix("sm_").rstrip("af"))


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
    *,
    trusted: bool = False,
    **_host: Any,
) -> dict[str, CudaKernel]:
    """CUDA C++ of PrimFuncs; what they become for a GPU is compiled when it is asked for.

    trusted: nobody looks for races of threads; of kernels that mlcnb's own rules scheduled they are
    not looked for anyway.

    Raises:
        CodegenError: a function that is not bound to threads, or has no form in CUDA C++.
        PassError: a kernel that no GPU of the target can run.
        DataRaceError: two threads touch an element, one writes it, and nothing orders them.
    """
    is_ours = schedule is not None and schedule is above.ask("schedules for GPUs")
    made: dict[str, CudaKernel] = {}
    known: dict[str, CudaKernel] = {}
    for name, func in funcs.items():
        meaning = meaning_of(func)[0]
        if meaning in known:
            made[name] = known[meaning].named(name, func)
        else:
            scheduled = schedule(func, target) if schedule else None
            is_known = trusted or (is_ours and scheduled is not None)
            made[name] = known[meaning] = CudaKernel(name, func, target, scheduled, not is_known)
        if progress is not None:
            progress(1)
    return made
