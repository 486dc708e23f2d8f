"""Devices: where tensors live and programs run. `cpu()`, `cuda(0)`, `device("cuda:1")`."""

from __future__ import annotations

from dataclasses import dataclass

from mlcnb.core.errors import MLCError

_TYPES = {"cpu": 1, "cuda": 2}


@dataclass(frozen=True)
class Device:
    """A device by its kind ("cpu", "cuda") and index."""

    kind: str
    index: int = 0

    def __repr__(self) -> str:
        return f"{self.kind}({self.index})"

    @property
    def device_type(self) -> int:
        """DLPack's number of the kind: 1 for the CPU, 2 for CUDA."""
        return _TYPES[self.kind]

    @property
    def exist(self) -> bool:
        """True if the device is there."""
        return (
            self.kind == "cpu" and self.index == 0 or self.kind == "cuda" and _has_cuda(self.index)
        )


def cpu(index: int = 0) -> Device:
    """The CPU.

    Tensors of every shape and dtype lie on the first, index 0; of another one `exist` is False, and
    `runtime.tensor` refuses it.
    """
    return Device("cpu", index)


def cuda(index: int = 0) -> Device:
    """A CUDA GPU by its number.

    Nothing is asked of the machine: `exist` says whether it is there. Kernels run on it, with
    arrays of CuPy of their shapes and dtypes; `runtime.tensor` refuses it with RuntimeInputError.
    """
    return Device("cuda", index)


def device(spec: str | Device, index: int = 0) -> Device:
    """A device by name: "cpu", "cuda", "cuda:1".

    A tensor of any shape and dtype is brought there by `runtime.tensor(array, device)`.

    Raises:
        MLCError: no such kind of device.
    """
    if isinstance(spec, Device):
        return spec
    kind, _, number = spec.partition(":")
    kind = {"llvm": "cpu", "gpu": "cuda"}.get(kind, kind)
    if kind not in _TYPES or (number and not number.isdigit()):
        raise MLCError(f"no device {spec!r}", hint='"cpu", "cuda" or "cuda:1"')
    return Device(kind, int(number) if number else index)


def _has_cuda(index: int) -> bool:
    try:
        import cupy
    except ImportError:
        return False
    try:
        return index < cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        return False
