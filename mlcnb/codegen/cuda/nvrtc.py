"""NVRTC: CUDA C++ text to PTX or to a cubin, with or without a GPU.

    compiled = compile_text(source, "sm_90")
    compiled.ptx, compiled.cubin, compiled.resources["main_kernel"].registers

ptxas gives up registers where one more block then fits on a multiprocessor, and may keep a few in
memory for it. Such a kernel is compiled again with as many blocks as fit by its launch bounds, then
with fewer, until nothing spills:

    __launch_bounds__(256) main_kernel(…)    ->    __launch_bounds__(256, 2) main_kernel(…)

The library comes with the wheel nvidia-cuda-nvrtc (or a CUDA toolkit), the headers for 16-bit
floats with nvidia-cuda-runtime and nvidia-cuda-cccl.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from mlcnb.codegen.llvm import cache as disk
from mlcnb.core.errors import CodegenError, MissingDependencyError

_PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
_HEADER_PACKAGES = ("nvidia-cuda-runtime", "nvidia-cuda-cccl", "nvidia-cuda-runtime-cu12")
#: of a multiprocessor
REGISTERS = 65_536
_LIBRARY = r"nvrtc64_\d+_\d+\.dll" if sys.platform == "win32" else r"libnvrtc\.so(\.\d+)*"


@dataclass(frozen=True)
class Resources:
    """What ptxas gives one kernel; memory in bytes, of a thread (stack, spills) or a block."""

    registers: int
    shared: int
    stack: int
    spill_stores: int
    spill_loads: int
    constant: int


@dataclass(frozen=True)
class CompiledCuda:
    """A source compiled for an architecture, as it was compiled.

    kept: its PTX, where that was saved with it.
    """

    source: str
    arch: str
    cubin: bytes
    log: str
    kept: str = ""

    @cached_property
    def ptx(self) -> str:
        """The text of NVIDIA's virtual instruction set."""
        return self.kept or _run(self.source, [self._virtual])[0].decode()

    @cached_property
    def located_ptx(self) -> tuple[list[str], list[int]]:
        """The lines of the same, and of each the line of the source that it came of; 0: none."""
        return _located(_run(self.source, [self._virtual, "--generate-line-info"])[0].decode())

    @cached_property
    def located_cubin(self) -> bytes:
        """The machine code with the line of the source that each instruction came of.

        Of code that was saved, where NVRTC is not installed, the code as it is.
        """
        try:
            return _run(self.source, [self._real, "--generate-line-info"])[0]
        except MissingDependencyError:
            return self.cubin

    @property
    def _real(self) -> str:
        return f"--gpu-architecture={self.arch}"

    @property
    def _virtual(self) -> str:
        return f"--gpu-architecture={self.arch.replace('sm_', 'compute_')}"

    @property
    def resources(self) -> dict[str, Resources]:
        """Registers and memory of each kernel by name."""
        return dict(_resources(self.log))


def compile_text(source: str, arch: str) -> CompiledCuda:
    """Compile CUDA C++ for an architecture, such as "sm_90". Nothing of it needs a GPU.

    Raises:
        MissingDependencyError: NVRTC is not installed.
        CodegenError: NVRTC refuses the text; its log says where.
    """
    return _compiled(source, arch)


@cache
def _compiled(source: str, arch: str) -> CompiledCuda:
    store = disk.user_store()
    key = f"cubin {_version()} {arch}\n{source}"
    blob = None if store is None else store.get(key)
    kept = None if blob is None else disk.unpack(blob)
    if kept is not None and len(kept) == 3:
        return CompiledCuda(kept[2].decode(), arch, kept[0], kept[1].decode())
    made = _without_spills(_machine_code(source, arch))
    if store is not None:
        store.put(key, disk.pack([made.cubin, made.log.encode(), made.source.encode()]))
    return made


def _machine_code(source: str, arch: str) -> CompiledCuda:
    cubin, log = _run(source, [f"--gpu-architecture={arch}", "--ptxas-options=-v"])
    return CompiledCuda(source, arch, cubin, log)


def _without_spills(made: CompiledCuda) -> CompiledCuda:
    """The same with launch bounds under which its kernels do not spill, where there are any."""
    for name, found in made.resources.items():
        place = re.search(rf"__launch_bounds__\((\d+)\)(?=\s+{name}\()", made.source)
        if place is None or not (found.spill_stores or found.spill_loads):
            continue
        threads = int(place[1])
        start, end = made.source[: place.start()], made.source[place.end() :]
        fitting = REGISTERS // (threads * -(-found.registers // 8) * 8)
        for blocks in range(fitting, 0, -1):
            bounds = f"__launch_bounds__({threads}, {blocks})"
            other = _machine_code(f"{start}{bounds}{end}", made.arch)
            if not (other.resources[name].spill_stores or other.resources[name].spill_loads):
                made = other
                break
    return made


def _version() -> str:
    """Of NVRTC, and where it has its headers: both make code."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return " ".join((f"{major.value}.{minor.value}", *include_folders()))


def is_available() -> bool:
    """True if NVRTC can be loaded."""
    try:
        _library()
    except MissingDependencyError:
        return False
    return True


def has_headers() -> bool:
    """True if the headers for 16-bit floats are there."""
    return any((Path(folder) / "nv" / "target").exists() for folder in include_folders())


def include_folders() -> tuple[str, ...]:
    """Folders with CUDA's headers."""
    found = dict.fromkeys(
        str(path.parent)
        for package in _HEADER_PACKAGES
        for path in files_of(package)
        if path.name in ("cuda_fp16.h",) or (path.name == "target" and path.parent.name == "nv")
    )
    tops = [str(Path(x).parent) if Path(x).name == "nv" else x for x in found]
    return tuple(dict.fromkeys(tops))


def files_of(package: str) -> Iterator[Path]:
    """The files of an installed package; none where it is not there."""
    try:
        listed = files(package) or []
    except PackageNotFoundError:
        return
    for entry in listed:
        yield Path(str(entry.locate()))


@cache
def _library() -> ctypes.CDLL:
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise MissingDependencyError(
        "NVRTC, which compiles CUDA C++, is not installed",
        hint='pip install "mlcnb[cuda]", or nvidia-cuda-nvrtc alone to compile without a GPU',
    )


def _candidates() -> Iterator[str]:
    for package in _PACKAGES:
        for path in files_of(package):
            if re.fullmatch(_LIBRARY, path.name):
                yield str(path)
    found = ctypes.util.find_library("nvrtc")
    if found:
        yield found


def _run(source: str, options: list[str]) -> tuple[bytes, str]:
    """(cubin or PTX, log)"""
    lib = _library()
    flags = [*options, "--std=c++17", *(f"--include-path={x}" for x in include_folders())]
    program = ctypes.c_void_p()
    _check(lib.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None
    ))  # fmt: skip
    try:
        listed = (ctypes.c_char_p * len(flags))(*(x.encode() for x in flags))
        status = lib.nvrtcCompileProgram(program, len(flags), listed)
        log = _bytes(program, "ProgramLog").decode(errors="replace").rstrip("\0")
        if status != 0:
            raise CodegenError(f"NVRTC refuses the kernel:\n{log.strip()}")
        is_ptx = "compute_" in options[0]
        made = _bytes(program, "PTX" if is_ptx else "CUBIN")
        return (made.rstrip(b"\0") if is_ptx else made), log
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))


def _bytes(program: ctypes.c_void_p, what: str) -> bytes:
    lib = _library()
    size = ctypes.c_size_t()
    _check(getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(lib, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _check(status: int) -> None:
    if status != 0:
        lib = _library()
        lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise CodegenError(f"NVRTC: {lib.nvrtcGetErrorString(status).decode()}")


#: the line of an instruction; of what was inlined that of the call
_LOCATION = re.compile(r"\s*\.loc\s+\d+\s+(\d+)\s.*?(?:inlined_at\s+\d+\s+(\d+)\s|$)")


def _located(ptx: str) -> tuple[list[str], list[int]]:
    """PTX without its directives of location, and the line that each instruction came of."""
    lines: list[str] = []
    places: list[int] = []
    now = 0
    for line in ptx.split("\n"):
        found = _LOCATION.match(line)
        if found:
            now = int(found[2] or found[1])
        elif line.lstrip().startswith((".file", ".section", "}")):
            now = 0
            if line.startswith("}"):
                lines.append(line)
                places.append(0)
        else:
            is_code = line.strip().endswith(";") and not line.strip().startswith(".")
            lines.append(line)
            places.append(now if is_code else 0)
    return lines, places


_ENTRY = re.compile(r"Compiling entry function '(\w+)' for")
_FACTS = {
    "registers": r"Used (\d+) registers",
    "shared": r"(\d+) bytes smem",
    "stack": r"(\d+) bytes stack frame",
    "spill_stores": r"(\d+) bytes spill stores",
    "spill_loads": r"(\d+) bytes spill loads",
    "constant": r"(\d+) bytes cmem\[0\]",
}


def _resources(log: str) -> Iterator[tuple[str, Resources]]:
    parts = _ENTRY.split(log)
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        found = {key: re.search(pattern, text) for key, pattern in _FACTS.items()}
        yield name, Resources(**{key: int(m[1]) if m else 0 for key, m in found.items()})
