"""What this machine has for compiling and running models, and what to install for the rest.

    diagnosis = doctor()          CPU        AMD EPYC 9634 (znver4), 2 cores, 256-bit vectors
                                  GPU        none: libcuda.so.1 was not found
                                  onnx       1.23.2
                                  cupy       missing
                                  to install: python -m pip install "mlcnb[cuda]"

Nothing here imports what it looks at, except LLVM: versions come from the installed metadata.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from mlcnb.core import display
from mlcnb.observe.engine import find_engine
from mlcnb.target import Target
from mlcnb.target.measured import Measured, keep, kept

#: features of a CPU that decide which kernels are generated, widest first
CPU_FEATURES = (
    *("amx-tile", "amx-int8", "amx-bf16", "avx512f", "avx512bw", "avx512vl", "avx512vnni"),
    *("avx512bf16", "avx512fp16", "avx2", "avx", "fma", "f16c", "avxvnni", "sse4.2"),
    *("sve2", "sve", "neon", "dotprod", "fullfp16", "bf16", "i8mm", "v"),
)
#: bits of a vector register, by the feature that brings it
VECTOR_BITS = {"avx512f": 512, "avx2": 256, "avx": 256, "sse4.2": 128, "neon": 128}
#: the CUDA version that the packages of the `cuda` extra are built for
OLDEST_CUDA = 13.0


@dataclass(frozen=True)
class Finding:
    """One line of a diagnosis: a thing, what was found, and what to do where it is missing."""

    name: str
    value: str
    ok: bool = True
    remedy: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name:<20} {self.value}"

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON values."""
        return {"value": self.value, "ok": self.ok, "remedy": self.remedy or None, **self.facts}


@dataclass(frozen=True)
class Diagnosis(display.Shown):
    """All findings, by section; `print` it, or look into `sections`."""

    sections: dict[str, tuple[Finding, ...]]

    @property
    def is_healthy(self) -> bool:
        """Nothing that every part of mlcnb needs is missing or too old."""
        return all(finding.ok for finding in self.sections["base"])

    def __str__(self) -> str:
        return "\n\n".join(_section(*section) for section in self.sections.items())

    __repr__ = __str__

    def as_dict(self) -> dict[str, Any]:
        """The diagnosis as JSON values: section -> name -> finding."""
        return {
            title: {finding.name: finding.as_dict() for finding in findings}
            for title, findings in self.sections.items()
        }


def _section(title: str, findings: tuple[Finding, ...]) -> str:
    """The findings, one a line, and below them each command that brings what is missing."""
    remedies = dict.fromkeys(finding.remedy for finding in findings if finding.remedy)
    lines = (title, *map(str, findings), *(f"to install: {command}" for command in remedies))
    return "\n  ".join(lines)


def doctor(measure: bool = False) -> Diagnosis:
    """Look at this machine: CPU, memory, LLVM, GPU, graph pictures, and each package we use.

    Of the CPU the width of its vectors, and the features that decide which dtypes are fast. What is
    missing is a finding, with the command that brings it; nothing is raised.

    Args:
        measure: run kernels for some seconds that tell what a core does in a cycle. The figures
            are kept on disk: what is compiled for this computer goes by them from then on.
    """
    if measure:
        find_measured()
    machine = (find_cpu, find_cores, find_memory, find_python, find_llvm, find_gpu, find_graphviz)
    found = {"machine": tuple(find() for find in machine)}
    told = kept()
    return Diagnosis({**found, "a core": tuple(core(told)), **find_packages()})


def find_measured() -> None:
    """Measure a core of this computer, and keep the figures where they can be kept."""
    from mlcnb.observe import calibrate

    with suppress(OSError):
        keep(calibrate())


def core(measured: Measured | None) -> Iterator[Finding]:
    """What a core does in a cycle, as it was measured."""
    if measured is None:
        yield Finding("not measured", "`mlcnb doctor --measure` does it, in some seconds")
        return
    target = Target("llvm")
    bits, units = target.vector_bits, measured.multiply_adds
    value = f"{units} of {bits} bits in a cycle"
    if measured.halves_vectors:
        value += f", or {2 * units} of {bits // 2} bits"
    facts: dict[str, Any] = {"whole": measured.whole, "half": measured.half}
    yield Finding("clock", f"{measured.gigahertz:.2f} GHz", facts={"GHz": measured.gigahertz})
    yield Finding("multiply-adds", f"{value}; {measured.latency:.1f} cycles each", facts=facts)
    for r in measured.readings:
        value = f"a line in {r.in_order:.1f} cycles in order, in {r.apart:.1f} apart; "
        value += f"{r.latency:.0f} until an address is there"
        yield Finding(r.name, value, facts=asdict(r))


def install_command(*extras: str) -> str:
    """The pip command that brings the dependencies of these extras: to this interpreter."""
    wanted = f"mlcnb[{','.join(extras)}]" if extras else "mlcnb"
    if display.in_notebook():
        return f'%pip install "{wanted}"'
    return f'{_short(Path(sys.executable))} -m pip install "{wanted}"'


def find_cpu() -> Finding:
    """The CPU's name and the features that matter here, as LLVM reads them."""
    name = cpu_name()
    try:
        import llvmlite.binding as llvm
    except ImportError:
        return Finding("CPU", f"{name}; features are read by llvmlite, which is missing")
    has = llvm.get_host_cpu_features()
    features = [feature for feature in CPU_FEATURES if has.get(feature)]
    bits = max((VECTOR_BITS.get(feature, 0) for feature in features), default=0)
    value = f"{name} ({llvm.get_host_cpu_name()}), {bits}-bit vectors: {' '.join(features)}"
    facts = {"llvm_name": llvm.get_host_cpu_name(), "features": features, "vector_bits": bits}
    return Finding("CPU", value, facts={"model": name, **facts})


def cpu_name() -> str:
    """The CPU as its maker calls it, or its architecture."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        match = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
        if match:
            return match[1].strip()
    if sys.platform == "darwin":
        shown = _output("sysctl", "-n", "machdep.cpu.brand_string")
        if shown:
            return shown
    return platform.processor() or platform.machine()


def find_cores() -> Finding:
    """How many cores this process may use, of how many the machine has."""
    total = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else total
    quota = _cgroup_cores()
    facts = {"total": total, "usable": usable, "quota": quota}
    limit = f", at most {quota:g} of them at once (container)" if quota else ""
    return Finding("cores", f"{usable} of {total}{limit}", facts=facts)


def find_memory() -> Finding:
    """Memory of the machine, and of the container around this process where there is one."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return Finding("memory", "unknown", facts={"bytes": None, "limit": None})
    limit = _cgroup_memory()
    shown = f"{total / 2**30:.1f} GB"
    if limit is not None and limit < total:
        shown += f", at most {limit / 2**30:.1f} GB of it (container)"
    return Finding("memory", shown, facts={"bytes": total, "limit": limit})


def find_python() -> Finding:
    """The interpreter and the system."""
    value = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Finding("Python", value, facts={"executable": sys.executable})


def find_llvm() -> Finding:
    """The LLVM that generates the machine code."""
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        return Finding("LLVM", f"missing: {error}", ok=False, remedy=install_command())
    version = ".".join(str(part) for part in llvm.llvm_version_info)
    return Finding(
        "LLVM", f"{version} (llvmlite {_version('llvmlite')})", facts={"version": version}
    )


def find_gpu(load: Callable[[str], Any] = ctypes.CDLL) -> Finding:
    """The NVIDIA GPUs, asked of the driver library itself: no CUDA toolkit and no CuPy is needed.

    Args:
        load: opens a shared library by name, or raises OSError.
    """
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    facts: dict[str, Any] = {"looked_for": library, "devices": [], "driver": None}
    try:
        driver = load(library)
    except OSError:
        return Finding("GPU", f"none: no NVIDIA driver ({library} was not found)", facts=facts)
    status = driver.cuInit(0)
    if status != 0:
        value = f"none: the NVIDIA driver refused to start (cuInit returned {status})"
        return Finding("GPU", value, facts=facts)
    facts["driver"] = _cuda_version(driver)
    facts["devices"] = [_cuda_device(driver, i) for i in range(_ask(driver.cuDeviceGetCount))]
    if not facts["devices"]:
        return Finding("GPU", "none: the NVIDIA driver sees no device", facts=facts)
    shown = ", ".join(
        f"{gpu['name']} (sm_{gpu['capability']}, {gpu['bytes'] / 2**30:.0f} GB)"
        for gpu in facts["devices"]
    )
    value = f"{shown}; driver for CUDA {facts['driver']}"
    if float(facts["driver"]) < OLDEST_CUDA:
        value += f", but the cuda extra needs {OLDEST_CUDA}: update the NVIDIA driver"
    return Finding("GPU", value, facts=facts)


def _ask(function: Callable[..., int], *args: Any, kind: Any = ctypes.c_int) -> int:
    result = kind()
    function(ctypes.byref(result), *args)
    return int(result.value)


def _cuda_version(driver: Any) -> str:
    number = _ask(driver.cuDriverGetVersion)
    return f"{number // 1000}.{number % 1000 // 10}"


def _cuda_device(driver: Any, index: int) -> dict[str, Any]:
    device = _ask(driver.cuDeviceGet, index)
    name = ctypes.create_string_buffer(128)
    driver.cuDeviceGetName(name, len(name), device)
    major, minor = (_ask(driver.cuDeviceGetAttribute, which, device) for which in (75, 76))
    size = _ask(driver.cuDeviceTotalMem_v2, device, kind=ctypes.c_size_t)
    return {"name": name.value.decode(), "capability": f"{major}{minor}", "bytes": size}


def find_graphviz() -> Finding:
    """What draws the graphs: a system `dot`, or else the one that pip installs."""
    engine = find_engine()
    if engine is None:
        remedy = install_command()
        return Finding("graph pictures", "no engine", False, remedy, {"engine": None})
    facts = {"engine": str(engine)}
    if engine.stem != "dot":
        return Finding("graph pictures", f"{engine.stem} {_version(engine.stem)}", facts=facts)
    shown = _output(str(engine), "-V").removeprefix("dot - graphviz version ")
    return Finding("graph pictures", f"dot {shown or 'version unknown'}", facts=facts)


def find_packages() -> dict[str, tuple[Finding, ...]]:
    """Each package that mlcnb names, by the extra that brings it; `base` is needed always."""
    found: dict[str, list[Finding]] = {"base": []}
    for extra, name, specifier in requirements():
        remedy = install_command(*([extra] if extra != "base" else []))
        found.setdefault(extra, []).append(find_package(name, specifier, remedy))
    if not found["base"]:
        value = "the metadata of mlcnb is missing"
        remedy = f"{_short(Path(sys.executable))} -m pip install --editable ."
        found["base"].append(Finding("mlcnb", value, ok=False, remedy=remedy))
    return {extra: tuple(findings) for extra, findings in found.items()}


def find_package(name: str, specifier: str, remedy: str) -> Finding:
    """The version of a package, or the remedy where it is missing or not in `specifier`."""
    from packaging.specifiers import SpecifierSet

    version = _version(name)
    facts = {"version": version, "needs": specifier}
    if version is None:
        return Finding(name, "missing", ok=False, remedy=remedy, facts=facts)
    if not SpecifierSet(specifier).contains(version, prereleases=True):
        value = f"{version}, but mlcnb needs {specifier}"
        return Finding(name, value, ok=False, remedy=f"{remedy} --upgrade", facts=facts)
    return Finding(name, version, facts=facts)


def requirements() -> Iterator[tuple[str, str, str]]:
    """(extra or "base", name, version specifier) of each dependency that the project declares."""
    from packaging.requirements import Requirement

    try:
        declared = metadata.requires("mlcnb") or []
    except metadata.PackageNotFoundError:
        return
    for line in declared:
        requirement = Requirement(line)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", str(requirement.marker or ""))
        yield (extra[1] if extra else "base"), requirement.name, str(requirement.specifier)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _output(*command: str) -> str:
    """What a command prints, on either stream; '' where it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout or done.stderr).strip()


def _cgroup_cores() -> float | None:
    """The share of cores that a Linux container may use, e.g. 1.5."""
    words = _read("/sys/fs/cgroup/cpu.max").split()
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
        return int(words[0]) / int(words[1])
    return None


def _cgroup_memory() -> int | None:
    """The memory in bytes that a Linux container may use."""
    limit = _read("/sys/fs/cgroup/memory.max").strip()
    return int(limit) if limit.isdigit() else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _short(path: Path) -> str:
    """`path` from the current folder where it lies below it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
