"""From a path, bytes or a ModelProto to a ModelProto and where it came from.

Only regular files are read, whole and once, large tensors beside the rest (`apart`); what is no
ONNX file is named for what it is.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from mlcnb.core.errors import ModelError
from mlcnb.relax.frontend.onnx.apart import Apart, NotApart
from mlcnb.relax.frontend.shared.limits import MAX_FILE_BYTES, size_text


@dataclass(frozen=True)
class Source:
    """Where a model came from.

    name: what messages call it; folder: where its external data lie (None: it may have none);
    held: the data of large tensors, by the token that the ModelProto has in their place.
    """

    name: str
    folder: Path | None = None
    held: Mapping[bytes, Any] = field(default_factory=dict, repr=False)


def load(model: Any) -> tuple[Any, Source]:
    """The model and its source.

    Raises:
        ModelError: there is no such file, or it is none of ONNX's.
    """
    import onnx

    if isinstance(model, onnx.ModelProto):
        return model, Source("the model")
    if isinstance(model, bytes | bytearray | memoryview):
        data = bytes(model)
        return _parse_file(BytesIO(data), len(data), Source("the model"))
    if not isinstance(model, str | os.PathLike):
        raise ModelError(
            f"from_onnx takes a path, bytes or a ModelProto, not {type(model).__name__}",
            hint='mlcnb.from_onnx("model.onnx")',
        )
    path = Path(model)
    return _read(path, Source(path.name, path.parent))


def _read(path: Path, source: Source) -> tuple[Any, Source]:
    """The model in a regular file.

    Raises:
        ModelError: it cannot be read, is larger than an ONNX file can be, or no model.
    """
    name = source.name
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            kind = "a folder" if stat.S_ISDIR(info.st_mode) else "no regular file"
            raise ModelError(f"{name}: this is {kind}", hint="pass the path of an .onnx file")
        if info.st_size > MAX_FILE_BYTES:
            raise ModelError(
                f"{name}: {size_text(info.st_size)} is more than an ONNX file can have (2 GiB)",
                hint="save its weights apart: onnx.save(m, path, save_as_external_data=True)",
            )
        with path.open("rb") as file:
            return _parse_file(file, os.fstat(file.fileno()).st_size, source)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}",
            hint=f"is the path right? {str(path)!r}",
        ) from error


def _parse_file(file: BinaryIO, size: int, source: Source) -> tuple[Any, Source]:
    """The model in an open file: its large tensors apart, where it has the form of messages."""
    try:
        apart = Apart(file, size)
    except NotApart:
        file.seek(0)
        return parse(file.read(), source), source
    source = replace(source, held=apart.held)
    return parse(apart.message, source), source


def parse(data: bytes, source: Source) -> Any:
    """A ModelProto of the bytes of a file.

    Raises:
        ModelError: they are empty, damaged, or something else.
    """
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    if not data:
        raise ModelError(f"{source.name}: the file is empty", hint="download or export it again")
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise ModelError(
            f"{source.name}: no ONNX model: {what_it_is(data) or 'damaged or cut off'}",
            hint="download or export it again",
        ) from error
    if not model.HasField("graph"):
        raise ModelError(
            f"{source.name}: no ONNX model: {what_it_is(data) or 'it has no graph'}",
            hint="download or export it again",
        )
    return model


_BEGINNINGS = {
    b"version https://git-lfs": "a pointer of git-lfs (run `git lfs pull`)",
    b"<!doctype html": "a web page",
    b"<html": "a web page",
    b"<?xml": "XML",
    b"\x80": "a pickle, perhaps of PyTorch",
    b"pk\x03\x04": "a zip archive, perhaps of PyTorch",
    b"\x1f\x8b": "a gzip archive (unpack it first)",
    b"\x7felf": "a program",
    b"\x89hdf": "an HDF5 file",
    b"\x89png": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"gif8": "a picture",
    b"\x93numpy": "an array of NumPy",
    b"{": "text",
}


def what_it_is(data: bytes) -> str | None:
    """What a file is that is not ONNX, by its first bytes."""
    start = data[:64].lstrip().lower()
    for beginning, what in _BEGINNINGS.items():
        if start.startswith(beginning):
            return what
    if start and all(32 <= c < 127 or c in b"\r\n\t" for c in data[:256]):
        return "text"
    return None
