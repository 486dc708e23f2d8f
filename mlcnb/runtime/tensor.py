"""Tensors at run time: NumPy arrays, and what can be seen as one without a copy.

`tensor(x)` wraps data under TVM's name; programs take and give NumPy arrays all the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from mlcnb.codegen.cuda.gpu import Gpu, plain
from mlcnb.core import display
from mlcnb.core.errors import RuntimeInputError
from mlcnb.core.text import kind_of
from mlcnb.ir.memory import address_of, aligned_empty
from mlcnb.runtime.device import Device, cpu, cuda


class Tensor(display.Shown):
    """An n-dimensional array on a device, with TVM's methods; CuPy's memory on a GPU."""

    __slots__ = ("_data", "device")

    def __init__(self, data: Any, device: Device) -> None:
        self._data = data
        self.device = device

    def numpy(self) -> np.ndarray:
        """The data as a NumPy array: shared on the CPU, copied from a GPU."""
        if self.device.kind == "cpu":
            return self._data  # type: ignore[no-any-return]
        host = np.empty(self.shape, self._data.dtype)
        Gpu(self.device.index).download(self._data, host)
        return host

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where the data lie on a GPU; a tensor on the CPU has no such attribute."""
        return self._data.__cuda_array_interface__  # type: ignore[no-any-return]

    def on_the_gpu(self) -> Any:
        """The array on the GPU, shared."""
        return self._data

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each dimension, in elements."""
        return tuple(self._data.shape)

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        return self._data.dtype.name

    #: TVM's older name
    asnumpy = numpy

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return self._data.ndim

    def copyto(self, target: Tensor | Device) -> Tensor:
        """Copy the data into `target`, of the same shape, or to a device."""
        if isinstance(target, Device):
            return tensor(self.numpy(), target)
        return target.copyfrom(self)

    def copyfrom(self, source: Any) -> Tensor:
        """Copy the elements of an array of the same shape into this tensor."""
        given = np.asarray(source)
        if self.device.kind == "cpu":
            np.copyto(self._data, given)
        else:
            same = np.broadcast_to(given, self.shape).astype(self._data.dtype, order="C")
            self._data[...] = Gpu(self.device.index).upload(same, "source")
        return self

    def __len__(self) -> int:
        return len(self._data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        data = self.numpy()
        if copy:
            return data.astype(dtype or data.dtype, copy=True)
        return data if dtype is None else data.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape}, dtype={self.dtype}, device={self.device})\n{self._data}"


def tensor(data: Any, device: Device | None = None, mem_scope: str | None = None) -> Tensor:
    """A tensor that holds a copy of `data` (an array, a list of float32, a number).

    Raises:
        RuntimeInputError: a memory that the device has not, or a dtype that CuPy has not.
        DeviceError: there is no such GPU, or not enough of its memory.
        MissingDependencyError: a GPU is asked for, and CuPy is not installed.
    """
    where = device or cpu()
    if mem_scope not in (None, "global"):
        raise RuntimeInputError(f"{where} has no memory {mem_scope!r}", hint='"global"')
    made = np.array(data, order="C")
    if where.kind == "cpu":
        return Tensor(made, where)
    return Tensor(Gpu(where.index).upload(_for_cupy(made), "data"), where)


def _for_cupy(made: np.ndarray) -> np.ndarray:
    if plain(made.dtype) != made.dtype:
        raise RuntimeInputError(
            f"CuPy, which holds tensors on a GPU, has no {made.dtype.name}",
            hint="pass a NumPy array to the executable: it is copied there",
        )
    return made


#: TVM's older name
array = tensor


def empty(shape: tuple[int, ...], dtype: str = "float32", device: Device | None = None) -> Tensor:
    """A tensor of undefined content."""
    where = device or cpu()
    if where.kind == "cpu":
        return Tensor(aligned_empty(shape, np.dtype(dtype)), where)
    return Tensor(Gpu(where.index).allocate(np.dtype(dtype), tuple(shape)), where)


def from_dlpack(data: Any) -> Tensor:
    """A tensor that shares the memory of a DLPack object."""
    return Tensor(np.from_dlpack(data), cpu())


def on_the_gpu(value: Any, name: str) -> Any:
    """An argument in the memory of a GPU, shared: a CuPy array, a Tensor's, or a torch tensor's."""
    if isinstance(value, Tensor):
        return value.on_the_gpu()
    return value if isinstance(value.dtype, np.dtype) else Gpu().upload(value.detach(), name)


def as_array(value: Any, name: str) -> np.ndarray:
    """A C-contiguous NumPy array of an argument: shared where possible, copied where strided.

    Raises:
        RuntimeInputError: it is no array of numbers.
    """
    if isinstance(value, Tensor):
        value = value.numpy()
    elif not isinstance(value, np.ndarray):
        value = _foreign(value, name)
    elif type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
        raise RuntimeInputError(
            f"input {name!r} is a masked array: programs know no masks", hint="x.filled(value)"
        )
    kind = value.dtype
    if kind.hasobject or kind.kind in "USMm" or kind.names:
        raise RuntimeInputError(f"input {name!r} holds {kind}, not numbers")
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    return value if value.flags.c_contiguous else np.ascontiguousarray(value)


def _foreign(value: Any, name: str) -> np.ndarray:
    if hasattr(value, "__dlpack__"):
        if hasattr(value, "detach"):
            value = value.detach()
        try:
            return _of_torch(value) if is_torch(value) else np.from_dlpack(value)
        except (RuntimeError, BufferError, TypeError) as error:
            raise RuntimeInputError(
                f"input {name!r}: {type(value).__name__} cannot be shared through DLPack: {error}",
                hint="pass a NumPy array on the CPU",
            ) from error
    if isinstance(value, np.generic):
        return np.asarray(value)
    hint = "pass a NumPy array or a DLPack object"
    if isinstance(value, Mapping):
        hint = "inputs by name go in with two stars: ex(**inputs)"
    raise RuntimeInputError(f"input {name!r} is {kind_of(value)}", hint=hint)


#: dtypes that PyTorch and ml_dtypes have by the same name, and NumPy does not exchange
_BY_BITS = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


def _of_torch(tensor: Any) -> np.ndarray:
    """A torch.Tensor's memory as an array, of ml_dtypes' dtypes too."""
    kind = str(tensor.dtype).removeprefix("torch.")
    if kind not in _BY_BITS:
        return np.from_dlpack(tensor)
    import ml_dtypes
    import torch

    bits = torch.int16 if tensor.element_size() == 2 else torch.int8
    return np.from_dlpack(tensor.view(bits)).view(getattr(ml_dtypes, kind))


def from_numbers(value: Any, dtype: np.dtype | None, name: str) -> np.ndarray:
    """An array of a number or of nested lists, in the dtype that is wanted.

    Raises:
        RuntimeInputError: rows of several lengths, no numbers, or numbers that `dtype` cannot hold.
    """
    try:
        given = np.asarray(value)
    except ValueError:
        raise RuntimeInputError(f"input {name!r}: the lists differ in length or depth") from None
    except OverflowError as error:
        raise RuntimeInputError(f"input {name!r}: {error}") from None
    given = as_array(given, name)
    if dtype is None or given.dtype == dtype:
        return given
    with np.errstate(all="ignore"):
        made = given.astype(dtype) if _may_become(given, dtype) else None
    if made is None or not _holds(made, given):
        raise RuntimeInputError(
            f"input {name!r}: {dtype.name} does not hold these numbers ({given.dtype})",
            hint=f"convert them first: np.asarray(x, {dtype.name!r})",
        )
    return made


def _may_become(given: np.ndarray, dtype: np.dtype) -> bool:
    return not given.size or given.dtype.kind != "c" or dtype.kind == "c"


def _holds(made: np.ndarray, given: np.ndarray) -> bool:
    """True if no number was lost: integers are the same, floats did not overflow."""
    if made.dtype.kind in "iub":
        return bool(np.array_equal(made, given))
    return bool(np.array_equal(np.isfinite(made), np.isfinite(given)))


def fresh(result: Any, taken: Iterable[np.ndarray] = ()) -> Any:
    """A result in memory of its own.

    What lies in a `taken` array, or is read-only, is copied. Each result is taken for those after.
    """
    if type(result) is np.ndarray:
        apart = result.flags.writeable and _lies_apart(result, taken)
        return result if apart else result.copy()
    return _fresh(result, _Taken(taken))


def _lies_apart(array: np.ndarray, others: Iterable[np.ndarray]) -> bool:
    """Whether no byte of an array may be one of others."""
    start, end = _bytes_of(array)
    ends = map(_bytes_of, others)
    return not any(start < last and first < end for first, last in ends if first < last)


def _fresh(result: Any, taken: _Taken) -> Any:
    if isinstance(result, tuple):
        return tuple(_fresh(item, taken) for item in result)
    if not isinstance(result, np.ndarray):
        return result
    if not result.flags.writeable or taken.reaches(result):
        result = result.copy()
    taken.add(result)
    return result


class _Taken:
    """The bytes that some arrays lie in, as pieces that are apart, in order."""

    def __init__(self, arrays: Iterable[np.ndarray]) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        for array in arrays:
            self.add(array)

    def reaches(self, array: np.ndarray) -> bool:
        """Whether one of the pieces and the bytes from the array's first to its last meet."""
        start, end = _bytes_of(array)
        at = bisect_right(self.ends, start)
        return start < end and at < len(self.starts) and self.starts[at] < end

    def add(self, array: np.ndarray) -> None:
        """One more array; pieces that it touches become one."""
        start, end = _bytes_of(array)
        if start == end:
            return
        first, last = bisect_left(self.ends, start), bisect_right(self.starts, end)
        if first < last:
            start, end = min(start, self.starts[first]), max(end, self.ends[last - 1])
        self.starts[first:last], self.ends[first:last] = [start], [end]


def _bytes_of(array: np.ndarray) -> tuple[int, int]:
    """The addresses of the first byte of an array, and behind its last."""
    if array.flags.c_contiguous:
        start = address_of(array)
        return start, start + array.nbytes
    start, end = byte_bounds(array)
    return (start, end) if array.size else (start, start)


def flatten(values: Any) -> list[np.ndarray]:
    """The arrays of nested tuples and lists, in order."""
    flat: list[np.ndarray] = []
    for value in values:
        if isinstance(value, tuple | list):
            flat.extend(flatten(value))
        elif isinstance(value, np.ndarray):
            flat.append(value)
    return flat


def is_torch(value: Any) -> bool:
    """True for a torch.Tensor, without importing torch."""
    return type(value).__module__.split(".")[0] == "torch" and hasattr(value, "detach")


def _as_torch(array: np.ndarray) -> Any:
    """An array as a torch.Tensor over the same memory, of ml_dtypes' dtypes too."""
    import torch

    if (kind := array.dtype.name) in _BY_BITS:
        array = array.view(f"int{8 * array.dtype.itemsize}")
    made = torch.from_numpy(array)
    return made.view(getattr(torch, kind)) if kind in _BY_BITS else made


def _as_torch_on_a_gpu(array: Any) -> Any:
    """The same of an array on a GPU."""
    import torch

    return torch.as_tensor(array, device="cuda")


def like_input(result: Any, args: Sequence[Any]) -> Any:
    """A result in the caller's kind of array.

    torch where torch came in, Tensors where a Tensor did, else NumPy.
    """
    given = parts_of(args)
    if any(map(is_torch, given)):
        return _each_array(result, _as_torch, _as_torch_on_a_gpu)
    there = [a.device for a in given if isinstance(a, Tensor) and a.device.kind != "cpu"]
    return as_tensors(result, *there[:1]) if has_tensor(given) else result


def like_input_of_machine(result: Any, args: Sequence[Any]) -> Any:
    """As `like_input`, and Tensors where no array came in: a machine's way, which is TVM's."""
    given = parts_of(args)
    if any(isinstance(a, np.ndarray | Tensor) or is_torch(a) for a in given):
        return like_input(result, args)
    return as_tensors(result)


def as_tensors(value: Any, gpu: Device | None = None) -> Any:
    """A value whose arrays are Tensors, which share their memory; `gpu`: where CuPy's are."""
    return _each_array(value, lambda a: Tensor(a, cpu()), lambda a: Tensor(a, gpu or cuda(0)))


def is_on_the_cpu(value: Any) -> bool:
    """Whether it is a Tensor whose array is NumPy's."""
    return type(value) is Tensor and value.device.kind == "cpu"


def arrays_of(args: Sequence[Any]) -> Sequence[Any]:
    """The arrays of arguments that are all Tensors on the CPU, shared; else the arguments."""
    if args and all(map(is_on_the_cpu, args)):
        return tuple(x.numpy() for x in args)
    return args


def has_tensor(args: Sequence[Any]) -> bool:
    """Whether one of the arguments of a call, or of their fields, is a Tensor."""
    return any(isinstance(a, Tensor) for a in parts_of(args))


def parts_of(values: Any) -> list[Any]:
    """Arguments, the fields of tuples among them one by one."""
    flat: list[Any] = []
    for value in values:
        flat.extend(parts_of(value) if isinstance(value, tuple | list) else (value,))
    return flat


def _each_array(
    result: Any, make: Callable[[np.ndarray], Any], on_gpu: Callable[[Any], Any]
) -> Any:
    """A result with every array in it made anew."""
    if isinstance(result, tuple):
        return tuple(_each_array(item, make, on_gpu) for item in result)
    if isinstance(result, np.ndarray):
        return make(result)
    return on_gpu(result) if hasattr(result, "__cuda_array_interface__") else result
