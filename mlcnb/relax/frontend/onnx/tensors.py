"""TensorProto to NumPy: checked first, then in memory from where vectors are loaded whole.

raw bytes        read-only: those that were read apart as they are, others copied once
float_data, …    converted
external data    read from the model's folder (`external`)
sparse           written out
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, NoReturn

import numpy as np

from mlcnb.core.errors import ModelError, UnsupportedDtypeError
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.memory import aligned
from mlcnb.relax.frontend.onnx import external
from mlcnb.relax.frontend.onnx.apart import TOKEN_BYTES
from mlcnb.relax.frontend.onnx.load import Source
from mlcnb.relax.frontend.shared.limits import element_count, max_tensor_bytes, size_text

#: tensors up to this many bytes are measured before anything is built, larger ones when read
SMALL = 1 << 16
#: the field that holds elements of a dtype where they are no raw bytes
_FIELDS = {
    "float32": "float_data", "complex64": "float_data", "float64": "double_data",
    "int64": "int64_data", "uint64": "uint64_data", "uint32": "uint64_data",
}  # fmt: skip


def dtype_of(number: int, place: str) -> DType:
    """The dtype that ONNX gives this number.

    Raises:
        UnsupportedDtypeError: strings, complex numbers, or no dtype at all.
    """
    import onnx

    try:
        return _dtype_of(number)
    except (KeyError, TypeError, AttributeError, UnsupportedDtypeError) as error:
        known = {v: k.lower() for k, v in onnx.TensorProto.DataType.items()}
        what = f"elements of type {known.get(number, number)}"
        raise UnsupportedDtypeError(
            f"{place} has {what}, which mlcnb does not have",
            hint="supported: bool, integers, float16, bfloat16, float32, float64, small floats",
        ) from error


@cache
def _dtype_of(number: int) -> DType:
    import onnx

    return dtype(onnx.helper.tensor_dtype_to_np_dtype(number).name)


def check_tensor(tensor: Any, source: Source, place: str) -> None:
    """Refuse a tensor whose header is hostile or contradicts its data.

    Raises:
        ModelError: negative or overflowing dimensions, missing data, wrong external data.
    """
    dims = list(tensor.dims)
    count = element_count(dims)
    if count is None:
        _refuse(place, f"dimensions {_short(dims)} that are negative or overflow")
    if tensor.HasField("segment"):
        _refuse(place, "segments, which mlcnb does not read")
    if is_string(tensor):
        return
    kind = dtype_of(tensor.data_type, place)
    needed = stored_bytes(count, kind)
    if needed > max_tensor_bytes():
        _refuse(
            place,
            f"dimensions {_short(dims)} of {kind}: {size_text(needed)}",
            hint=f"the option max_tensor_bytes allows {size_text(max_tensor_bytes())}",
        )
    if is_external(tensor):
        given = external.entries(tensor, place)
        external.parts(given.get("location", ""), place)
        external.span(given, place, needed)
    elif not tensor.HasField("raw_data"):
        check_fields(tensor, kind, count, place)
    elif needed <= SMALL or source.held:
        check_raw(len(_raw(tensor, source)), kind, count, place)


def check_raw(found: int, kind: DType, count: int, place: str) -> None:
    """Refuse raw data of another length than the dimensions say."""
    if found != stored_bytes(count, kind):
        _wrong_length(place, found, "bytes", stored_bytes(count, kind))


def check_fields(tensor: Any, kind: DType, count: int, place: str) -> None:
    """Refuse more or fewer elements in the field of their dtype than the dimensions say."""
    found = len(getattr(tensor, _FIELDS.get(str(kind), "int32_data")))
    packed = {2: 4, 4: 2}.get(kind.bits, 1)
    if found != -(-count // packed):
        _wrong_length(place, found, "elements", -(-count // packed))


def is_string(tensor: Any) -> bool:
    """True for a tensor of strings."""
    return tensor.data_type == 8


def is_external(tensor: Any) -> bool:
    """True where the data lie in another file."""
    return tensor.data_location == 1 or len(tensor.external_data) > 0


def stored_bytes(count: int, kind: DType) -> int:
    """Bytes that `count` elements take as raw data (elements below 8 bits are packed)."""
    return (
        (count * kind.bits + 7) // 8 if kind.bits < 8 and not kind.is_bool else count * kind.nbytes
    )


def to_array(tensor: Any, source: Source, place: str) -> np.ndarray:
    """The tensor as an array that is not to be written to.

    Raises:
        ModelError: as `check_tensor`, or the data are of another length than the dimensions say.
        UnsupportedDtypeError: a dtype that mlcnb does not have.
    """
    check_tensor(tensor, source, place)
    kind = dtype_of(tensor.data_type, place)
    count = element_count(tensor.dims)
    assert count is not None
    if is_external(tensor):
        raw: Any = external.read(tensor, source, place, stored_bytes(count, kind))
    elif tensor.HasField("raw_data"):
        raw = _raw(tensor, source)
    else:
        return _from_fields(tensor, kind)
    check_raw(len(raw), kind, count, place)
    return _from_raw(raw, kind, count).reshape(tuple(tensor.dims))


def _raw(tensor: Any, source: Source) -> np.ndarray:
    """The raw bytes of a tensor: those that were read apart, or the message's own."""
    data = tensor.raw_data
    held = source.held.get(data) if len(data) == TOKEN_BYTES else None
    return np.frombuffer(data, np.uint8) if held is None else held


def _from_raw(raw: np.ndarray, kind: DType, count: int) -> np.ndarray:
    """Little-endian bytes as elements, in memory that kernels read as it is."""
    if kind.is_bool:
        return np.asarray(raw != 0)
    if kind.bits < 8:
        return _unpacked(raw, kind, count)
    made = aligned(raw).view(kind.numpy)
    made = made if sys.byteorder == "little" else made.byteswap()
    made.flags.writeable = False
    return made


def _unpacked(raw: np.ndarray, kind: DType, count: int) -> np.ndarray:
    """Elements of 2 or 4 bits, the first in the low bits of the first byte."""
    shifts = np.arange(0, 8, kind.bits, dtype=np.uint8)
    low = ((raw[:, None] >> shifts) & ((1 << kind.bits) - 1)).reshape(-1)[:count]
    if kind.is_int:
        top = 1 << (kind.bits - 1)
        return ((low ^ top).astype(np.int8) - top).astype(kind.numpy)
    return low.astype(kind.numpy) if kind.is_uint else low.astype(np.uint8).view(kind.numpy)


def _from_fields(tensor: Any, kind: DType) -> np.ndarray:
    """Elements from the field of their dtype."""
    import onnx

    made = onnx.numpy_helper.to_array(tensor)
    if kind.is_bool:
        made = made.view(np.uint8) != 0
    return np.asarray(made)


def to_dense(sparse: Any, source: Source, place: str) -> np.ndarray:
    """A sparse tensor written out.

    Raises:
        ModelError: indices that are not inside, or do not fit the values.
    """
    values = to_array(sparse.values, source, f"{place} (values)")
    indices = to_array(sparse.indices, source, f"{place} (indices)")
    dims = tuple(sparse.dims)
    count = element_count(dims)
    if count is None or count * values.itemsize > max_tensor_bytes():
        _refuse(place, f"dimensions {_short(list(dims))}, which are too large")
    if values.ndim != 1 or indices.dtype != np.int64:
        _refuse(place, "values and indices that fit no sparse tensor")
    if indices.shape == (len(values), len(dims)) and indices.ndim == 2:
        inside = bool(((indices >= 0) & (indices < np.array(dims, np.int64))).all())
        at = (
            np.ravel_multi_index(tuple(indices.T), dims)
            if inside and len(values)
            else indices[:, 0]
        )
    elif indices.shape == values.shape:
        inside, at = bool(((indices >= 0) & (indices < count)).all()), indices
    else:
        _refuse(place, f"{len(values)} values, but indices of shape {indices.shape}")
    if not inside:
        _refuse(place, "indices that lie outside of its dimensions")
    dense = np.zeros(count, values.dtype)
    dense[at] = values
    return dense.reshape(dims)


def _short(dims: list[int]) -> str:
    text = ", ".join(map(str, dims[:8]))
    return f"[{text}{', …' if len(dims) > 8 else ''}]"


def _wrong_length(place: str, found: int, unit: str, wanted: int) -> NoReturn:
    _refuse(place, f"{found} {unit} of data, but its dimensions need {wanted}")


def _refuse(place: str, what: str, hint: str | None = None) -> NoReturn:
    raise ModelError(f"{place} has {what}", hint=hint or "the file is damaged: export it again")
