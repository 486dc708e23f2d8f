"""The GPU of this computer, seen through CuPy: memory, copies, kernels. Nothing else here knows it.

gpu = Gpu()                              gpu.arch                          "sm_90"
x = gpu.upload(array)                    gpu.download(x, array)
module = gpu.load(kernel)                gpu.launch(module, "f_kernel", [x, y, 64], grid, block, 0)

What runs a kernel or a graph asks a `Device` for these eleven things; a test may be one.
"""

from __future__ import annotations

import ctypes
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mlcnb.core.errors import DeviceError, MissingDependencyError, RuntimeInputError
from mlcnb.tir.analysis.bulk import SWIZZLES, Matrix

#: bytes that the address of an argument has to be a multiple of: vectors are loaded at once
ALIGNMENT = 16
#: a block may use this much shared memory without asking
_SHARED_UNASKED = 48 << 10
_HINT = "its source, PTX and resources can be read without a GPU: kernel.source, .ptx, .resources"


class Device(Protocol):
    """Memory of its own, and kernels that run in the order of their launches."""

    @property
    def arch(self) -> str:
        """Its architecture, as "sm_90"."""

    def allocate(self, kind: np.dtype, shape: tuple[int, ...]) -> Any:
        """An array on the device, its content undefined.

        Raises:
            DeviceError: there is not so much memory.
        """

    def upload(self, array: Any, name: str) -> Any:
        """An array on the device of an array's content: itself, where it lies there already.

        Raises:
            DeviceError: there is not so much memory.
            RuntimeInputError: it lies at an address that vectors cannot be loaded from.
        """

    def download(self, source: Any, target: np.ndarray) -> None:
        """Copy to the host, after all that was launched."""

    def copy(self, source: Any) -> Any:
        """The same content in other memory of the device."""

    def part(self, memory: Any, offset: int, kind: np.dtype, shape: tuple[int, ...]) -> Any:
        """The array of this dtype and shape at some bytes of an array, in the same memory."""

    def load(self, kernel: Any) -> Any:
        """The machine code of a `CudaKernel`, on the device.

        Raises:
            DeviceError: it is not for this architecture.
        """

    def launch(
        self,
        module: Any,
        name: str,
        args: Sequence[Any],
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
    ) -> None:
        """Start a kernel of a module. Args are arrays of the device and NumPy scalars; shared the
        bytes of dynamic memory.
        """

    def record(self, launches: Callable[[], None]) -> Callable[[], None]:
        """What launches all that a function launches, at once: a CUDA graph of it.

        The function allocates nothing, and its arrays stay where they are.
        """

    def mark(self) -> Any:
        """The point in time when all is done that was launched here so far."""

    def wait(self, mark: Any) -> None:
        """What is launched from now on begins after a mark, which another stream may have set."""

    def assign(self, target: Any, source: Any) -> None:
        """Copy within the device; both are arrays of it, of the same shape and dtype."""


class Gpu:
    """A `Device` through CuPy, on CuPy's current stream."""

    def __init__(self, index: int = 0) -> None:
        self.cupy = cupy_with_gpu()
        if index >= self.cupy.cuda.runtime.getDeviceCount():
            raise DeviceError(f"there is no cuda({index})", hint="mlcnb.cuda(0) is the first one")
        self.index = index

    @cached_property
    def arch(self) -> str:
        """The architecture, as "sm_90"."""
        return f"sm_{self.cupy.cuda.Device(self.index).compute_capability}"

    def allocate(self, kind: np.dtype, shape: tuple[int, ...]) -> Any:
        """Global memory; see Device."""
        with self._on_it(f"{kind} of shape {shape}"):
            return self.cupy.empty(shape, plain(kind))

    def upload(self, array: Any, name: str) -> Any:
        """An argument on the GPU; see Device."""
        with self._on_it(name):
            if isinstance(array, np.ndarray):
                return self.cupy.asarray(array.view(plain(array.dtype)))
            found = array if isinstance(array, self.cupy.ndarray) else self.cupy.asarray(array)
            if not found.flags.c_contiguous:
                found = self.cupy.ascontiguousarray(found)
        if found.size and found.data.ptr % ALIGNMENT:
            raise RuntimeInputError(
                f"argument {name!r} lies at an address that is no multiple of {ALIGNMENT} bytes",
                hint="pass a copy: x.copy()",
            )
        return found

    def download(self, source: Any, target: np.ndarray) -> None:
        """Copy a result to the host; see Device."""
        with self._on_it("a result"):
            target[...] = self.cupy.asnumpy(source).view(target.dtype).reshape(target.shape)

    def copy(self, source: Any) -> Any:
        """A copy on the GPU; see Device."""
        with self._on_it("a copy"):
            return source.copy()

    def part(self, memory: Any, offset: int, kind: np.dtype, shape: tuple[int, ...]) -> Any:
        """A piece of an array; see Device."""
        count = int(np.prod(shape, dtype=np.int64))
        raw = memory.reshape(-1).view(self.cupy.uint8)
        return raw[offset : offset + count * kind.itemsize].view(plain(kind)).reshape(shape)

    def load(self, kernel: Any) -> Any:
        """The kernel's code; see Device."""
        suffix, image = kernel.image(self.arch)
        maps = {name: source.maps for name, source in kernel.sources.items() if source.maps}
        return _Module(self.cupy, image, suffix, maps)

    def launch(
        self,
        module: Any,
        name: str,
        args: Sequence[Any],
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
    ) -> None:
        """Start a kernel; see Device."""
        with self._on_it(name):
            function = module.function(name)
            if shared > _SHARED_UNASKED:
                function.max_dynamic_shared_size_bytes = shared
            function(
                tuple(grid), tuple(block), (*args, *module.tensor_maps(name, args)),
                shared_mem=shared,
            )  # fmt: skip

    def record(self, launches: Callable[[], None]) -> Callable[[], None]:
        """A CUDA graph of some launches; see Device."""
        with self._on_it("a CUDA graph"), self.cupy.cuda.Stream(non_blocking=True) as stream:
            stream.begin_capture()
            try:
                launches()
            finally:
                graph = stream.end_capture()

        def replay() -> None:
            with self._on_it("a CUDA graph"):
                graph.launch(self.cupy.cuda.get_current_stream())

        return replay

    def mark(self) -> Any:
        """An event on the current stream; see Device."""
        with self._on_it("an event"):
            event = self.cupy.cuda.Event(disable_timing=True)
            event.record()
            return event

    def wait(self, mark: Any) -> None:
        """Let the current stream wait for an event; see Device."""
        with self._on_it("an event"):
            self.cupy.cuda.get_current_stream().wait_event(mark)

    def assign(self, target: Any, source: Any) -> None:
        """Copy on the GPU; see Device."""
        with self._on_it("a copy"):
            self.cupy.copyto(target, source.reshape(target.shape))

    @contextmanager
    def _on_it(self, what: str) -> Iterator[None]:
        """CuPy's errors as ours, on this GPU."""
        cuda = self.cupy.cuda
        try:
            with cuda.Device(self.index):
                yield
        except cuda.memory.OutOfMemoryError as error:
            free = cuda.runtime.memGetInfo()[0]
            raise DeviceError(
                f"out of memory on cuda({self.index}) for {what}: {free} bytes are free",
                hint="a smaller batch, or cupy.get_default_memory_pool().free_all_blocks()",
            ) from error
        except (cuda.driver.CUDADriverError, cuda.runtime.CUDARuntimeError) as error:
            raise DeviceError(
                f"cuda({self.index}) stopped at {what}: {error}",
                hint='run it with target="interp" to see which access is wrong',
            ) from error


class _Module:
    """Machine code on the GPU: CuPy reads it from a file, which stays as long as it does."""

    def __init__(
        self, cupy: Any, image: bytes, suffix: str, maps: Mapping[str, Sequence[Any]]
    ) -> None:
        self.maps = maps
        #: tensor maps by address: what they say stays true whatever lies there
        self._encoded: dict[tuple[int, Matrix], np.ndarray] = {}
        folder = tempfile.mkdtemp(prefix="mlcnb-")
        self._removed = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        path = Path(folder) / f"kernel.{suffix}"
        path.write_bytes(image)
        self._module = cupy.RawModule(path=str(path))
        self._functions: dict[str, Any] = {}

    def function(self, name: str) -> Any:
        """A kernel of it."""
        if name not in self._functions:
            self._functions[name] = self._module.get_function(name)
        return self._functions[name]

    def tensor_maps(self, name: str, args: Sequence[Any]) -> list[np.ndarray]:
        """What a kernel gets behind its arguments, which some of its copies need."""
        found = []
        for number, matrix in self.maps.get(name, ()):
            key = args[number].data.ptr, matrix
            if key not in self._encoded:
                if len(self._encoded) >= _MOST_MAPS:
                    self._encoded.clear()
                self._encoded[key] = encoded(*key)
            found.append(self._encoded[key])
        return found


def encoded(address: int, matrix: Matrix, encode: Callable[..., int] | None = None) -> np.ndarray:
    """The tensor map of a matrix at an address of the GPU: 128 bytes that the driver makes, as one
    element of an array, which CuPy passes by value ("Custom user types").

    encode: `cuTensorMapEncodeTiled`, the driver's where it is not given.

    Raises:
        DeviceError: the driver refuses it, or there is none that knows tensor maps.
    """
    if address % ALIGNMENT:
        raise DeviceError(
            f"a tensor map of {matrix} begins at an address that is no multiple of {ALIGNMENT} "
            "bytes",
            hint="pass a copy: x.copy()",
        )
    words = (ctypes.c_uint64 * (2 * _MAP_BYTES // 8))()  # begins at a multiple of 64 somewhere
    first = -ctypes.addressof(words) % 64
    place = ctypes.addressof(words) + first
    failed = (encode or _driver().cuTensorMapEncodeTiled)(
        ctypes.c_void_p(place),
        _MAP_TYPES[matrix.dtype],
        ctypes.c_uint32(2),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * 2)(matrix.width, matrix.height),
        (ctypes.c_uint64 * 1)(matrix.width * matrix.size),
        (ctypes.c_uint32 * 2)(matrix.columns, matrix.rows),
        (ctypes.c_uint32 * 2)(1, 1),
        0,  # elements lie side by side
        SWIZZLES.index(matrix.swizzle),
        _THROUGH_L2,
        0,  # zeros outside
    )
    if failed:
        raise DeviceError(
            f"the driver encodes no tensor map of {matrix} (error {failed})",
            hint="cuTensorMapEncodeTiled is for GPUs from sm_90 on",
        )
    return np.frombuffer(ctypes.string_at(place, _MAP_BYTES), [("words", "u8", _MAP_BYTES // 8)])


#: bytes of a tensor map, how many a module keeps
_MAP_BYTES, _MOST_MAPS = 128, 1024
#: what the driver calls dtypes (CUtensorMapDataType), and fetching 128 bytes into L2 at once
_MAP_TYPES = {
    "int8": 0, "uint8": 0, "uint32": 2, "int32": 3, "float16": 6, "float32": 7, "float64": 8,
    "bfloat16": 9,
}  # fmt: skip
_THROUGH_L2 = 2


@cache
def _driver() -> Any:
    """The library of the driver.

    Raises:
        DeviceError: there is none that encodes tensor maps.
    """
    hint = "a driver of CUDA 12 or newer has cuTensorMapEncodeTiled"
    for name in ("libcuda.so.1", "nvcuda.dll"):
        try:
            found = ctypes.CDLL(name)
        except OSError:
            continue
        if hasattr(found, "cuTensorMapEncodeTiled"):
            found.cuTensorMapEncodeTiled.restype = ctypes.c_int
            return found
        raise DeviceError("the CUDA driver encodes no tensor maps", hint=hint)
    raise DeviceError("no CUDA driver was found, which encodes tensor maps", hint=hint)


def runs_on(compiled: str, gpu: str) -> bool:
    """True if machine code of one architecture runs on a GPU of another.

    Within a major version upwards; never where it ends in a letter (CUDA C++ Programming Guide,
    "Binary Compatibility", "Feature Set Compiler Targets").
    """
    if not compiled[-1].isdigit():
        return compiled.rstrip("af") == gpu
    made, here = (divmod(int(x.removeprefix("sm_")), 10) for x in (compiled, gpu))
    return made[0] == here[0] and made[1] <= here[1]


def plain(kind: np.dtype) -> np.dtype:
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
