"""Saved executables: one tar file, no pickle, the same bytes for the same program.

    model.tar
        manifest.json       format, target, entry; for each kernel its symbol, workspace, messages
        module.py           the module after all passes, as TVMScript
        constants.safetensors
        kernels/NAME.ll     LLVM IR as given to LLVM
        kernels/NAME.o      object code for the target

Loading on a CPU of another kind compiles the IR anew; everything is checked before it is used.
"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from mlcnb.codegen.llvm import backend
from mlcnb.codegen.llvm import cache as disk
from mlcnb.codegen.llvm.emit.kernel import signature_of
from mlcnb.codegen.llvm.engine import compile_many, link
from mlcnb.core.errors import MLCError, ModelError
from mlcnb.ir.dtype import dtype
from mlcnb.relax.expr import Constant
from mlcnb.runtime import threads
from mlcnb.runtime.executable import Executable
from mlcnb.script import parse, script_with_constants
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc

FORMAT = 1


def save(ex: Executable, path: str | Path) -> Path:
    """Write an executable to one file.

    Raises:
        MLCError: it was made for the interpreter.
    """
    if ex.target.kind != "llvm":
        raise MLCError(f"an executable for {ex.target} cannot be saved", hint='target="llvm"')
    text, arrays = script_with_constants(ex.mod)
    manifest = {
        "format": FORMAT,
        "target": str(ex.target),
        "constants": [{"dtype": a.dtype.name, "shape": list(a.shape)} for a in arrays],
        "kernels": {
            name: {
                "symbol": k.symbol,
                "file": k.symbol,
                "workspace": k.signature.workspace,
                "messages": list(k.messages),
            }
            for name, k in ex.kernels.items()
        },
    }
    target = Path(path)
    with tarfile.open(target, "w") as tar:
        _add(tar, "manifest.json", json.dumps(manifest, indent=1, sort_keys=True).encode())
        _add(tar, "module.py", text.encode())
        _add(tar, "constants.safetensors", _pack(arrays))
        for symbol, kernel in sorted({k.symbol: k for k in ex.kernels.values()}.items()):
            _add(tar, f"kernels/{symbol}.ll", kernel.compiled.ir.encode())
            _add(tar, f"kernels/{symbol}.o", kernel.compiled.object)
    return target


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    """A member without time, owner or mode of its own, so that the same program gives the same
    bytes.
    """
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def _pack(arrays: list[np.ndarray]) -> bytes:
    from safetensors.numpy import save as pack

    flat = {str(i): np.frombuffer(_bytes(a), np.uint8) for i, a in enumerate(arrays)}
    return pack(flat)


def _bytes(a: np.ndarray) -> bytes:
    little = a.astype(a.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(little).tobytes()


def load_module(path: str | Path) -> Executable:
    """Load an executable that `export_library` saved.

    Raises:
        ModelError: the file is damaged, or of another format.
    """
    members = _members(Path(path))
    try:
        manifest = json.loads(members["manifest.json"])
        if manifest["format"] != FORMAT:
            raise ModelError(f"{path}: format {manifest['format']}, this version reads {FORMAT}")
        arrays = _unpack(members["constants.safetensors"], manifest["constants"])
        table = {"relax.expr.Constant": [Constant(a) for a in arrays]}
        mod = parse(members["module.py"].decode(), metadata=table)
        target = Target(manifest["target"])
        kernels = _kernels(mod, target, manifest["kernels"], members)
    except (KeyError, TypeError, ValueError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} is no saved executable, or is damaged: {error!r}") from error
    return Executable(mod, kernels, target)


def _members(path: Path) -> dict[str, bytes]:
    """The files of the archive, read into memory: nothing is written to disk."""
    try:
        with tarfile.open(path, "r:") as tar:
            found = {}
            for info in tar:
                file = tar.extractfile(info) if info.isfile() else None
                if file is not None:
                    found[info.name] = file.read()
            return found
    except (OSError, tarfile.TarError) as error:
        raise ModelError(f"{path} cannot be read as a saved executable: {error}") from error


def _unpack(data: bytes, entries: list[dict[str, Any]]) -> list[np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as unpack

    try:
        raw = unpack(data)
    except SafetensorError as error:
        raise ValueError(f"constants: {error}") from error
    arrays = []
    for number, entry in enumerate(entries):
        kind = dtype(entry["dtype"]).numpy
        array = raw[str(number)].view(kind.newbyteorder("<")).astype(kind, copy=False)
        array = array.reshape(tuple(entry["shape"]))
        array.flags.writeable = False
        arrays.append(array)
    return arrays


def _kernels(
    mod: Any, target: Target, entries: dict[str, Any], members: dict[str, bytes]
) -> dict[str, Any]:
    """The kernels, compiled from their IR (from the disk cache, where this machine has them)."""
    cpu = backend.cpu_of(target)
    symbols = sorted({e["symbol"] for e in entries.values()})
    irs = [members[f"kernels/{symbol}.ll"].decode() for symbol in symbols]
    compiled = dict(zip(symbols, compile_many(irs, cpu, store=disk.user_store()), strict=True))
    library = link(list(compiled.values()), threads.symbols()) if cpu.runs_here else None
    kernels = {}
    for name, entry in entries.items():
        func = mod[name]
        if not isinstance(func, PrimFunc):
            raise ValueError(f"{name} is no kernel")
        made = backend.CompiledKernel(
            name,
            func,
            target,
            None,
            compiled[entry["symbol"]],
            signature_of(func, int(entry["workspace"])),
            tuple(entry["messages"]),
        )
        made.library = library
        kernels[name] = made
    return kernels
