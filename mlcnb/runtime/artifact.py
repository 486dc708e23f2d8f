"""Saved executables: one tar file, no pickle, the same bytes for the same program.

    model.tar
        manifest.json       format, target; digests of the files below; for each kernel its symbol,
                            workspace, messages
        module.py           the module after all passes, as TVMScript
        constants.safetensors
        kernels/NAME.ll     LLVM IR as given to LLVM
        kernels/NAME.o      object code for the target
        kernels/NAME.cu, .cubin, .ptx      the same of a kernel for a GPU

Code for a GPU is loaded as it is, by whoever has a driver: no compiler is asked. Elsewhere loading
compiles the IR for the CPU at hand (from the disk cache, where it has it). All is checked
before it is used: a damaged file is refused. It is a program all the same, as a shared library is:
load what you trust.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from mlcnb.codegen.cuda.backend import CudaKernel
from mlcnb.codegen.llvm import backend
from mlcnb.codegen.llvm import cache as disk
from mlcnb.codegen.llvm.engine import compile_many
from mlcnb.codegen.llvm.library import link
from mlcnb.codegen.llvm.target_machine import cpu_of
from mlcnb.core.errors import MLCError, ModelError
from mlcnb.core.files import replacing
from mlcnb.core.means import within_means
from mlcnb.ir.dtype import dtype
from mlcnb.relax.expr import Constant
from mlcnb.runtime import threads
from mlcnb.runtime.executable import Executable
from mlcnb.script import parse, script_with_constants
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc

FORMAT = 2


def save(ex: Executable, path: str | Path) -> Path:
    """Write an executable to one file.

    Raises:
        MLCError: it was made for the interpreter, or the file cannot be written; nothing is left of
            it then.
    """
    if ex.target.kind not in ("llvm", "cuda"):
        raise MLCError(
            f"an executable for {ex.target} cannot be saved", hint='target="llvm" or "cuda"'
        )
    text, arrays = script_with_constants(_saved_module(ex))
    manifest = {
        "format": FORMAT,
        "target": str(ex.target),
        "constants": [{"dtype": a.dtype.name, "shape": list(a.shape)} for a in arrays],
        "kernels": {name: k.saved[0] for name, k in ex.kernels.items()},
    }
    files = {"module.py": text.encode(), "constants.safetensors": _pack(arrays)}
    code = {name: data for k in ex.kernels.values() for name, data in k.saved[1].items()}
    files |= {f"kernels/{name}": code[name] for name in sorted(code)}
    manifest["files"] = {name: _digest(data) for name, data in files.items()}
    target = Path(path)
    try:
        with replacing(target) as unfinished, tarfile.open(unfinished, "w") as tar:
            _add(tar, "manifest.json", json.dumps(manifest, indent=1, sort_keys=True).encode())
            for name, data in files.items():
                _add(tar, name, data)
    except OSError as error:
        raise MLCError(
            f"{target} cannot be written: {error.strerror or error}",
            hint="is its folder there, with room in it?",
        ) from error
    return target


def _saved_module(ex: Executable) -> Any:
    """The module, its loop functions for a GPU as they were scheduled."""
    mod = ex.mod
    for name, kernel in ex.kernels.items():
        if kernel.is_on_device:
            mod = mod.with_function(name, kernel.scheduled)
    return mod


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


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
    """Load an executable that `export_library` saved. It is a program: load what you trust.

    Shapes and dtypes of its functions are saved with it, the target too.

    Raises:
        ModelError: the file is damaged, or of another format.
    """
    with within_means(str(path), ModelError):
        members = _members(Path(path))
    try:
        with within_means("its content", ModelError):
            return _load(members)
    except (KeyError, TypeError, ValueError, AttributeError, MLCError) as error:
        raise ModelError(
            f"{path} is no saved executable, or is damaged: {_reason(error)}"
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, MLCError):
        return error.message
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _load(members: dict[str, bytes]) -> Executable:
    manifest = json.loads(members.pop("manifest.json"))
    _check_manifest(manifest)
    _check_files(manifest["files"], members)
    arrays = _unpack(members["constants.safetensors"], manifest["constants"])
    table = {"relax.expr.Constant": [Constant(a) for a in arrays]}
    mod = parse(members["module.py"].decode(), metadata=table)
    target = Target(manifest["target"])
    if target.kind not in _KERNEL_FIELDS:
        raise ValueError(f"made for {target}")
    load = _cuda_kernels if target.kind == "cuda" else _kernels
    kernels = load(mod, target, manifest["kernels"], members)
    loops = {v.name_hint for v, f in mod.of_kind(PrimFunc).items()}
    if loops != set(kernels):
        raise ValueError(f"kernels of other functions: {sorted(loops ^ set(kernels))}")
    return Executable(mod, kernels, target)


#: the entries of a manifest, and those of each of its kernels
_FIELDS = {"format": int, "target": str, "constants": list, "files": dict, "kernels": dict}
_KERNEL_FIELDS: dict[str, dict[str, type]] = {
    "llvm": {"symbol": str, "workspace": int, "messages": list, "sizes": list},
    "cuda": {"name": str, "arch": str, "log": str},
}


def _check_manifest(manifest: Any) -> None:
    """Refuse a manifest whose entries are not of their kinds, or of another format."""
    _check_fields(manifest, _FIELDS, "manifest")
    if manifest["format"] != FORMAT:
        raise ModelError(f"it has format {manifest['format']}, this version reads {FORMAT}")
    fields = _KERNEL_FIELDS.get(Target(manifest["target"]).kind, {})
    for name, entry in manifest["kernels"].items():
        _check_fields(entry, fields, f"kernel {name}")
        if "workspace" in fields and not 0 <= entry["workspace"] <= _MOST_WORKSPACE:
            raise ValueError(f"kernel {name}: workspace of {entry['workspace']} bytes")


#: bytes of scratch memory that a kernel may ask for
_MOST_WORKSPACE = 1 << 34


def _check_fields(entry: Any, fields: dict[str, type], what: str) -> None:
    if not isinstance(entry, dict):
        raise ValueError(f"{what} is no table")
    for field, kind in fields.items():
        if not isinstance(entry.get(field), kind):
            raise ValueError(f"{what}: {field!r} is no {kind.__name__}")


def _check_files(digests: dict[str, Any], members: dict[str, bytes]) -> None:
    """Refuse files that are missing, too many, or not those that were saved."""
    if set(digests) != set(members):
        raise ValueError(f"files missing or too many: {sorted(set(digests) ^ set(members))[:3]}")
    for name, data in members.items():
        if _digest(data) != digests[name]:
            raise ValueError(f"{name} is not what was saved")


def _members(path: Path) -> dict[str, bytes]:
    """The files of the archive, read into memory: nothing is written to disk."""
    try:
        size = path.stat().st_size
        with tarfile.open(path, "r:") as tar:
            found = {}
            for info in tar:
                if info.size > size:
                    raise tarfile.ReadError(f"{info.name!r} is larger than the file")
                file = tar.extractfile(info) if info.isfile() else None
                if file is not None:
                    found[info.name] = file.read()
            return found
    except (OSError, tarfile.TarError) as error:
        hint = "ex.export_library(path) and mlcnb compile write such files"
        if Path(path).suffix == ".onnx":
            hint = f"this is a model: mlc.compile(mlc.from_onnx({str(path)!r}))"
        raise ModelError(
            f"{path} cannot be read as a saved executable: {error}", hint=hint
        ) from error


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
        if any(not isinstance(d, int) or d < 0 for d in entry["shape"]):
            raise ValueError(f"constant {number} of shape {entry['shape']}")
        array = raw[str(number)].view(kind.newbyteorder("<")).astype(kind, copy=False)
        array = array.reshape(tuple(entry["shape"]))
        array.flags.writeable = False
        arrays.append(array)
    return arrays


def _kernels(
    mod: Any, target: Target, entries: dict[str, Any], members: dict[str, bytes]
) -> dict[str, Any]:
    """The kernels, compiled from their IR (from the disk cache, where this machine has them)."""
    cpu = cpu_of(target)
    symbols = sorted({e["symbol"] for e in entries.values()})
    irs = [members[f"kernels/{symbol}.ll"].decode() for symbol in symbols]
    compiled = dict(zip(symbols, compile_many(irs, cpu, store=disk.user_store()), strict=True))
    library = link(list(compiled.values()), threads.symbols()) if cpu.runs_here else None
    absent = [s for s in symbols if s not in compiled[s].defines]
    if absent:
        raise ValueError(f"kernels/{absent[0]}.ll does not define {absent[0]}")
    kernels = {}
    for name, entry in entries.items():
        func = mod[name]
        if not isinstance(func, PrimFunc):
            raise ValueError(f"{name} is no kernel")
        module, told = compiled[entry["symbol"]], tuple(entry["messages"])
        sizes = tuple(map(int, entry["sizes"]))
        code = backend.Code(module, int(entry["workspace"]), told, sizes, library=library)
        kernels[name] = backend.CompiledKernel(name, func, target, None, code)
    return kernels


def _cuda_kernels(
    mod: Any, target: Target, entries: dict[str, Any], members: dict[str, bytes]
) -> dict[str, Any]:
    """The kernels for a GPU with the code that was saved: nothing is compiled."""
    kernels = {}
    for name, entry in entries.items():
        func = mod[name]
        if not isinstance(func, PrimFunc):
            raise ValueError(f"{name} is no kernel")
        made = CudaKernel(entry["name"], func, target).named(name, func)
        parts = [members[f"kernels/{name}.{end}"] for end in ("cu", "cubin", "ptx")]
        made.keep(entry["arch"], entry["log"], *parts)
        kernels[name] = made
    return kernels
