"""External data: tensors in files beside the model, read without leaving its folder.

    location  "weights/layer0.bin"    relative, below the model's folder; no "..", no links
    offset, length                    whole numbers inside the file

Every part of the path is opened relative to the one before without following links, and what was
opened is what is read: a file that is swapped meanwhile is not.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from mlcnb.core.errors import ModelError
from mlcnb.ir.memory import mapped_empty
from mlcnb.relax.frontend.onnx.load import Source

#: what an entry of external_data may be called
KEYS = frozenset({"location", "offset", "length", "checksum", "basepath"})
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def entries(tensor: Any, place: str) -> dict[str, str]:
    """The entries of a tensor's external_data, by key.

    Raises:
        ModelError: an unknown key, or one that comes twice.
    """
    found: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key not in KEYS or entry.key in found:
            why = "twice" if entry.key in found else "which means nothing"
            _refuse(place, f"the key {entry.key!r}, {why}")
        found[entry.key] = entry.value
    return found


def span(given: Mapping[str, str], place: str, count: int) -> int:
    """The offset at which `count` bytes of the tensor begin.

    Raises:
        ModelError: offset or length are no sizes, or the length is another one.
    """
    offset = _size(given.get("offset", "0"), "offset", place)
    length = _size(given.get("length", str(count)), "length", place)
    if length != count:
        _refuse(place, f"a length of {length} bytes, but shape and dtype need {count}")
    return offset


def _size(text: str, key: str, place: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text[:20]) >= 1 << 62:
        _refuse(place, f"{key} {text[:40]!r}, which is no size")
    return int(text)


def parts(location: str, place: str) -> list[str]:
    """The folders and the file of a location.

    Raises:
        ModelError: it is absolute, or would leave the folder.
    """
    found = location.replace("\\", "/").split("/")
    strange = "\0" in location or ":" in found[0]
    if not location or found[0] == "" or strange or any(p in ("", "..") for p in found):
        _refuse(place, f"the location {location[:80]!r}, which leaves the model's folder")
    return [p for p in found if p != "."] or _refuse(place, f"the location {location!r}")


def read(tensor: Any, source: Source, place: str, count: int) -> np.ndarray:
    """The `count` bytes of a tensor, read into memory of their own.

    Raises:
        ModelError: the model has no folder, or the data lie outside of it, or are not there.
    """
    given = entries(tensor, place)
    offset = span(given, place, count)
    names = parts(given.get("location", ""), place)
    if source.folder is None:
        raise ModelError(
            f"{place} has its data in the file {given['location']!r}, but bytes have no folder",
            hint="pass the path of the model in place of its content",
        )
    try:
        with _opened(os.fspath(source.folder) or ".", names, place) as file:
            info = os.fstat(file)
            _check_file(info, place, given["location"])
            if offset + count > info.st_size:
                _refuse(place, f"bytes {offset} to {offset + count} of {info.st_size}")
            return _bytes(file, offset, count, place)
    except OSError as error:
        _refuse(place, f"a file that cannot be read: {given['location']!r}: {error.strerror}")


def _check_file(info: os.stat_result, place: str, location: str) -> None:
    if not stat.S_ISREG(info.st_mode):
        _refuse(place, f"{location!r}, which is no regular file")
    if info.st_nlink > 1:
        _refuse(place, f"{location!r}, which has another name elsewhere (a hard link)")


@contextmanager
def _opened(folder: str, names: list[str], place: str) -> Iterator[int]:
    """A file descriptor of the file, each part of its path opened without following links."""
    if os.open not in os.supports_dir_fd:
        path = os.path.join(folder, *names)
        if os.path.realpath(path) != os.path.join(os.path.realpath(folder), *names):
            _refuse(place, f"{'/'.join(names)!r}, which goes through a link")
        current = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    else:
        current = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        for name in names[:-1]:
            current = _step(current, name, os.O_DIRECTORY, place)
        current = _step(current, names[-1], os.O_NONBLOCK, place)
    try:
        yield current
    finally:
        os.close(current)


def _step(folder: int, name: str, flags: int, place: str) -> int:
    """The descriptor of `name` in an open folder, which is closed."""
    try:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            _refuse(place, f"{name!r}, which is a link")
        return os.open(name, os.O_RDONLY | _NOFOLLOW | flags, dir_fd=folder)
    finally:
        os.close(folder)


def _bytes(descriptor: int, offset: int, count: int, place: str) -> np.ndarray:
    """`count` bytes of an open file from `offset` on."""
    data = mapped_empty((count,), np.dtype(np.uint8))
    view, done = data.data, 0
    with io.FileIO(descriptor, closefd=False) as file:
        file.seek(offset)
        while done < count:
            got = file.readinto(view[done:])
            if not got:
                _refuse(place, "fewer bytes than its file had")
            done += got
    return data


def _refuse(place: str, what: str) -> NoReturn:
    raise ModelError(
        f"{place} has external data with {what}",
        hint="external data are regular files in the model's folder or below it",
    )
