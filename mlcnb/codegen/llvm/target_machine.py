"""The CPU that code is made for, and LLVM's machinery for it.

    Cpu.host()                 what this process runs on, as LLVM names it
    Cpu.named("x86-64-v3")     any other: the code can be read, not run
    machines.borrow(cpu, 3)    one of LLVM's target machines, given back after the `with` block

A target machine serves one thread at a time, so threads borrow from a shelf and give back.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from mlcnb.core.errors import CodegenError, TargetError
from mlcnb.target import Target
from mlcnb.target.cpus import PLAIN_CPUS, promised


@dataclass(frozen=True, slots=True)
class Cpu:
    """A CPU in LLVM's words: target triple, CPU name, and features such as `+avx2,-avx512f`."""

    triple: str
    cpu: str
    features: str = ""

    @staticmethod
    def host() -> Cpu:
        """The CPU of this process, with exactly the features that the operating system allows."""
        return _host()

    @staticmethod
    def named(name: str, features: str = "") -> Cpu:
        """A CPU by LLVM's name (`x86-64-v3`, `znver4`, `apple-m1`) or an architecture.

        Raises:
            CodegenError: the name belongs to no architecture known here.
        """
        here = Cpu.host()
        if name in ("host", "native", here.cpu):
            return replace(here, features=f"{here.features},{features}".strip(","))
        for pattern, triple, default in _FAMILIES:
            if re.fullmatch(pattern, name):
                found = Cpu(triple, default or name, features)
                return found if found.arch != here.arch else replace(found, triple=here.triple)
        raise CodegenError(
            f"no architecture known for CPU {name!r}",
            hint="give the triple yourself: Cpu(triple, cpu, features)",
        )

    @property
    def arch(self) -> str:
        """The first word of the triple, spelled one way: `x86_64`, `aarch64`, `riscv64`."""
        word = self.triple.split("-")[0]
        return {"arm64": "aarch64", "amd64": "x86_64"}.get(word, word)

    @property
    def tuning(self) -> str:
        """The CPU that LLVM puts instructions in order for, where it is not this one; "" else.

        For Intel's cores of 512 bits LLVM's own order keeps loads waiting in registers until loops
        spill (72 spills in the hot loops of ShuffleNet, 38 in the order of a generic CPU).
        """
        return "generic" if re.fullmatch(_SPILLS, self.cpu) else ""

    @property
    def runs_here(self) -> bool:
        """Whether code for this CPU may be loaded into this process."""
        here = Cpu.host()
        return self == here or (self.triple == here.triple and self._features_here())

    def _features_here(self) -> bool:
        have = _host_features()
        said = {f[1:]: f[0] for f in self.features.split(",") if f}  # the last word counts
        if any(said.get(name) == "-" for name in _CALLS):
            return False
        wanted = [f[1:] for f in self.features.split(",") if f.startswith("+")]
        if self.cpu not in (Cpu.host().cpu, "generic"):
            has = promised(self.cpu)
            if has is None:
                return False
            wanted += has
        return all(have.get(name, False) for name in wanted)


#: CPUs whose order of instructions, as LLVM has it, spills
_SPILLS = r"icelake-.*|rocketlake|tigerlake|sapphirerapids|emeraldrapids|graniterapids.*"
#: (pattern of CPU names, triple, LLVM's CPU name where the pattern is not one)
_FAMILIES = (
    (r"x86_64|x86-64", "x86_64-unknown-linux-gnu", "x86-64"),
    (r"aarch64|arm64", "aarch64-unknown-linux-gnu", "generic"),
    (r"riscv64", "riscv64-unknown-linux-gnu", "generic-rv64"),
    (r"apple-.*", "arm64-apple-darwin", ""),
    (r"cortex-[ax].*|neoverse-.*|graviton.*", "aarch64-unknown-linux-gnu", ""),
    (
        r"x86-64-v\d|znver\d|nehalem|westmere|corei7.*|sandybridge|ivybridge|core-avx.*|haswell"
        r"|broadwell|skylake.*|cascadelake|cooperlake|icelake.*|rocketlake|tigerlake"
        r"|sapphirerapids|emeraldrapids|graniterapids.*|alderlake|raptorlake|meteorlake|arrowlake"
        r"|lunarlake|sierraforest",
        "x86_64-unknown-linux-gnu",
        "",
    ),
)

#: architecture -> what LLVM should not use though a CPU has it. AMD's SSE4A has no form for AVX:
#: with wider registers in use, one of its instructions takes as long as hundreds of others
_NEVER = {"x86_64": "-sse4a"}
#: features that calls of the C library rest on
_CALLS = ("sse", "sse2", "64bit")


@cache
def _host_features() -> dict[str, bool]:
    import llvmlite.binding as llvm

    try:
        return dict(llvm.get_host_cpu_features())
    except RuntimeError:  # LLVM cannot ask this operating system: the CPU's name stands for all
        return {}


@cache
def _host() -> Cpu:
    import llvmlite.binding as llvm

    flags = ",".join(("+" if on else "-") + name for name, on in sorted(_host_features().items()))
    return Cpu(llvm.get_process_triple(), llvm.get_host_cpu_name(), flags)


class Machines:
    """Target machines that are free, by CPU and optimisation level."""

    def __init__(self) -> None:
        self._free: dict[tuple[Cpu, int, bool], list[Any]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def borrow(self, cpu: Cpu, level: int, jit: bool = True) -> Iterator[Any]:
        """An `llvmlite` TargetMachine for the length of a `with` block.

        Args:
            cpu: what to make code for.
            level: 0 to 3, the effort of instruction selection and register allocation.
            jit: for loading into this process (on Windows that means ELF objects).

        Raises:
            CodegenError: LLVM knows no such target.
        """
        key = (cpu, level, jit)
        with self._lock:
            shelf = self._free.setdefault(key, [])
            machine = shelf.pop() if shelf else None
        if machine is None:
            machine = new_machine(cpu, level, jit)
        try:
            yield machine
        finally:
            with self._lock:
                shelf.append(machine)


machines = Machines()


def new_machine(cpu: Cpu, level: int = 3, jit: bool = True) -> Any:
    """A new TargetMachine: position-independent, small code model, so that any address will do."""
    import llvmlite.binding as llvm

    _initialize(cpu.arch == Cpu.host().arch)
    triple = cpu.triple
    if jit and "windows" in triple and not triple.endswith("-elf"):
        triple += "-elf"
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise CodegenError(f"LLVM has no target {triple!r}: {error}") from error
    features = ",".join(filter(None, (cpu.features, _NEVER.get(cpu.arch))))
    return target.create_target_machine(
        cpu=cpu.cpu, features=features, opt=level, reloc="pic", codemodel="small"
    )


@cache
def _initialize(native_only: bool) -> None:
    import llvmlite.binding as llvm

    if native_only:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


#: target intrinsics by prefix and the x86 feature that each needs; the longest prefix counts
_X86_INTRINSICS = {
    "x86.sse2.": "sse2",
    "x86.sse3.": "sse3",
    "x86.ssse3.": "ssse3",
    "x86.sse41.": "sse4.1",
    "x86.avx.": "avx",
    "x86.avx2.": "avx2",
    "x86.fma.": "fma",
    "x86.avx512.": "avx512f",
    "x86.avx512.vpdp": "avx512vnni",
    "x86.avx512.pmadd": "avx512bw",
    "x86.avx512bf16.": "avx512bf16",
    "x86.amx.": "amx-tile",
    "x86.tdpb": "amx-int8",
}
#: what the IR of a kernel says that calls an intrinsic by a name that mlcnb does not know
MARK = "; asks LLVM for"
_TARGET_INTRINSIC = re.compile(r"@llvm\.((?:x86|aarch64|arm|riscv|nvvm|amdgcn)\.[\w.]+)")


def check_intrinsics(ir: str, cpu: Cpu) -> None:
    """Refuse target intrinsics that this CPU lacks: LLVM would abort the process on them.

    Raises:
        CodegenError: names the intrinsic and the feature that is missing.
    """
    family = {"x86_64": "x86", "riscv64": "riscv", "nvptx64": "nvvm"}.get(cpu.arch, cpu.arch)
    for name in sorted(set(_TARGET_INTRINSIC.findall(ir))):
        if name.split(".")[0] != family:
            raise CodegenError(f"llvm.{name} is not an instruction of {cpu.arch}")
        _check_feature(name, cpu)


def _check_feature(name: str, cpu: Cpu) -> None:
    known = {f[1:]: f[0] == "+" for f in cpu.features.split(",") if f}
    prefix = max((p for p in _X86_INTRINSICS if name.startswith(p)), key=len, default="")
    feature = _X86_INTRINSICS.get(prefix, "")
    if feature and not known.get(feature, True):
        raise CodegenError(
            f"llvm.{name} needs the CPU feature {feature}, which {cpu.cpu} here lacks",
            hint="take the vector instructions from the target's features",
        )


def cpu_of(target: Target) -> Cpu:
    """LLVM's description of the target's CPU.

    Raises:
        TargetError: a triple of no CPU that kernels can be written for.
    """
    if "mtriple" in target.attrs:
        return _of_triple(str(target.attrs["mtriple"]), target)
    return Cpu.named(target.mcpu, str(target.attrs.get("mattr", "")))


def _system(triple: str) -> tuple[str, ...]:
    """A triple without its vendor, which no code depends on: `x86_64-linux-gnu`."""
    first, *rest = triple.split("-")
    return Cpu(first, "").arch, *(word for word in rest if word not in ("unknown", "pc"))


def _of_triple(triple: str, target: Target) -> Cpu:
    """A CPU of a triple: the one that is named, or the plainest of its architecture."""
    features, here = str(target.attrs.get("mattr", "")), Cpu.host()
    found = Cpu(triple, target.mcpu, features)
    if found.arch not in PLAIN_CPUS:
        raise TargetError(
            f"kernels are written for CPUs of 64 bits, lowest byte first, and {triple!r} is none",
            hint=f"a triple such as riscv64-linux-gnu; there are {', '.join(PLAIN_CPUS)}",
        )
    if target.mcpu in ("host", "native"):
        if found.arch != here.arch:
            raise TargetError(f"mcpu={target.mcpu} is this computer's CPU, and no {found.arch}")
        found = replace(Cpu.named("host", features), triple=triple)
    own = replace(found, triple=here.triple)
    if _system(triple) == _system(here.triple) and own.runs_here:
        return own
    if found.arch == "riscv64" and not {"mattr", "mcpu"} & target.attrs.keys():
        return replace(found, features="+m,+a,+f,+d,+c")  # what the systems for it are built with
    return found
