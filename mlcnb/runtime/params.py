"""Parameters of a model as bytes: TVM's own format, read and written.

data = save_param_dict({"w": w, "b": b})        load_param_dict(data)["w"].numpy()

    u64 magic of a list, u64 0        u64 count, names: u64 length and bytes each
    u64 count, then of each tensor:   u64 magic, u64 0, i32 device type, i32 device number,
                                      i32 rank, u8 kind, u8 bits, u16 lanes,
                                      i64 of each dimension, i64 bytes, the elements

All numbers are little-endian. Nothing of the bytes is run, and lengths are checked before use.
Source of the format: https://tvm.apache.org/docs/reference/api/python/runtime/runtime.html
(save_param_dict), and what TVM 0.27 writes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mlcnb.core.errors import ModelError
from mlcnb.ir.dtype import dtype
from mlcnb.runtime.tensor import Tensor, as_array, tensor

_LIST, _TENSOR = 0xF7E58D4F05049CB7, 0xDD5E40F096B4A13F
#: DLPack's number of each kind of element
_KINDS = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Tensors by name (arrays, Tensors, or what DLPack shares) as bytes.

    Raises:
        RuntimeInputError: a value is no tensor of numbers.
    """
    names = [name.encode() for name in params]
    out = [struct.pack("<QQQ", _LIST, 0, len(names))]
    out += [struct.pack("<Q", len(name)) + name for name in names]
    out.append(struct.pack("<Q", len(names)))
    out += [_tensor_bytes(as_array(value, name)) for name, value in params.items()]
    return b"".join(out)


def _tensor_bytes(a: np.ndarray) -> bytes:
    kind, bits = _kind(a.dtype)
    head = struct.pack("<QQiiiBBH", _TENSOR, 0, 1, 0, a.ndim, kind, bits, 1)
    little = a.astype(a.dtype.newbyteorder("<"), copy=False)
    dims = struct.pack(f"<{a.ndim}q", *a.shape)
    return head + dims + struct.pack("<q", a.nbytes) + little.tobytes()


def _kind(kind: np.dtype) -> tuple[int, int]:
    word = kind.name.rstrip("0123456789")
    if word not in _KINDS:
        raise ModelError(f"save_param_dict: {kind.name} has no place in the format")
    return _KINDS[word], kind.itemsize * 8


def load_param_dict(data: bytes) -> dict[str, Tensor]:
    """The tensors behind bytes that `save_param_dict` made, here or in TVM.

    Raises:
        ModelError: the bytes are something else, or damaged.
    """
    reader = _Reader(bytes(data))
    if reader.number("Q") != _LIST:
        raise ModelError(
            "load_param_dict: these are no parameters", hint="save_param_dict makes them"
        )
    reader.number("Q")
    names = [reader.name() for _ in range(reader.count(8))]
    if reader.count(36) != len(names):
        raise ModelError("load_param_dict: damaged, as many names as tensors are expected")
    found = {name: reader.tensor(name) for name in names}
    if reader.at != len(reader.data) or len(found) != len(names):
        raise ModelError("load_param_dict: damaged, there is more than the tensors")
    return found


class _Reader:
    """Reads numbers and tensors one after the other, never beyond the end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count < 0 or count > len(self.data) - self.at:
            raise ModelError("load_param_dict: damaged, the bytes end too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> int:
        """One number of `struct`'s form."""
        return int(struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0])

    def count(self, least: int) -> int:
        """How many things follow, of at least so many bytes each."""
        found = self.number("Q")
        if found * least > len(self.data) - self.at:
            raise ModelError("load_param_dict: damaged, the bytes end too early")
        return found

    def name(self) -> str:
        """One name."""
        try:
            return self.take(self.number("Q")).decode()
        except UnicodeDecodeError as error:
            raise ModelError(f"load_param_dict: damaged, a name is no text: {error}") from error

    def tensor(self, name: str) -> Tensor:
        """One tensor."""
        if self.number("Q") != _TENSOR:
            raise ModelError(f"load_param_dict: damaged, {name!r} is no tensor")
        self.take(16)
        ndim, code, bits, lanes = (self.number(f) for f in "iBBH")
        words = [word for word, number in _KINDS.items() if number == code]
        if not words or lanes != 1 or not 0 <= ndim <= 64:
            raise ModelError(f"load_param_dict: {name!r} is of a dtype that is not known here")
        shape = [self.number("q") for _ in range(ndim)]
        kind = dtype("bool" if words[0] == "bool" else f"{words[0]}{bits}").numpy
        size = self.number("q")
        if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != size:
            raise ModelError(f"load_param_dict: damaged, {name!r} is of {size} bytes")
        raw = np.frombuffer(self.take(size), kind.newbyteorder("<"))
        return tensor(raw.astype(kind, copy=False).reshape(shape))


def save_param_dict_to_file(params: Mapping[str, Any], path: str | Path) -> None:
    """Write tensors by name to a file."""
    Path(path).write_bytes(save_param_dict(params))


def load_param_dict_from_file(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a file that `save_param_dict_to_file` wrote, here or in TVM.

    Raises:
        ModelError: the file is something else, or damaged.
    """
    return load_param_dict(Path(path).read_bytes())
