"""Target: what code is made for, and what that machine has.

    Target("llvm")                        this computer's CPU
    Target("llvm -mcpu=x86-64-v3")        any CPU that LLVM knows
    Target({"kind": "cuda", "arch": "sm_90"})
    Target("interp")                      the reference interpreter

Schedules ask a target for its vector width, registers, caches and cores, never for its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from mlcnb.core.errors import TargetError
from mlcnb.core.node import FrozenDict, Node, node
from mlcnb.core.text import kind_of
from mlcnb.target.cpus import (
    PLAIN_CPUS,
    available_cores,
    caches_of,
    cpu_name,
    far_line_of,
    features,
    fetches_ahead_of,
    halves_vectors_of,
    host_caches,
    multiply_adds_of,
)
from mlcnb.target.measured import Measured, Reading, kept

#: lines apart come as fast as lines in order where they take less than this much longer
SAME_SPEED = 1.25
#: a line from memory takes so many times as long as one from the shared cache (Zen 5: 2.6)
FROM_MEMORY = 3.0
#: target kind -> what it is
KINDS = {
    "llvm": "CPU code through LLVM",
    "cuda": "GPU code as CUDA C++",
    "cuda-sim": "GPU code simulated on this CPU",
    "interp": "the reference interpreter, element by element",
}
#: GPUs that a module may name, for its virtual devices: no backend here compiles for them
NAMED_GPUS = ("metal", "opencl", "rocm", "vulkan", "webgpu")
_ATTRIBUTES = {
    "mcpu": str,
    "mtriple": str,
    "mattr": str,
    "device": str,
    "num-cores": int,
    "vector-bits": int,
    "arch": str,
    "max_num_threads": int,
    "max_threads_per_block": int,
    "max_shared_memory_per_block": int,
    "thread_warp_size": int,
    "opt-level": int,
    "unroll-loops": int,
}
#: TVM's tags of GPUs -> their architecture
TAGS = {
    f"nvidia/{name}": arch
    for arch, names in {
        "sm_60": "nvidia-p100 tesla-p100",
        "sm_61": "geforce-gtx-1080-ti nvidia-p4 nvidia-p40",
        "sm_70": "nvidia-v100 tesla-v100 nvidia-titan-v",
        "sm_75": "nvidia-t4 geforce-rtx-2060 geforce-rtx-2070 geforce-rtx-2080 geforce-rtx-2080-ti",
        "sm_80": "nvidia-a100 nvidia-a30",
        "sm_86": "geforce-rtx-3060 geforce-rtx-3070 geforce-rtx-3080 geforce-rtx-3090 "
        "geforce-rtx-3090-ti nvidia-a10 nvidia-a10g nvidia-a40 rtx-a4000 rtx-a6000",
        "sm_89": "geforce-rtx-4060 geforce-rtx-4070 geforce-rtx-4080 geforce-rtx-4090 nvidia-l4 "
        "nvidia-l40",
        "sm_90a": "nvidia-h100",
    }.items()
    for name in names.split()
}
#: what all of them have
_OF_TAGS = {
    "max_shared_memory_per_block": 49152,
    "max_threads_per_block": 1024,
    "thread_warp_size": 32,
}
#: what a target of a kind has where it does not say so itself
_OF_KIND: dict[str, dict[str, Any]] = {
    "cuda": {"max_num_threads": 1024, **_OF_TAGS},
}
_current: ContextVar[tuple[Target, ...]] = ContextVar("targets", default=())


class TargetKind(str):
    """The word of a target's kind; `target.kind` and `target.kind.name` both are it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The word as a plain string."""
        return str(self)


@node
class TargetNode(Node):
    """The immutable part of a Target: kind, attributes, host."""

    kind: str
    attrs: FrozenDict
    host: Any = None


class Target(TargetNode):
    """A machine to compile for; usable as `with Target("cuda"):` for a default.

    Args:
        spec: "llvm -mcpu=…", a dict with "kind", or a Target.
        host: the target of the host part, for GPU kinds.

    Raises:
        TargetError: an unknown kind or attribute.
    """

    __slots__ = ("_tokens",)
    _tokens: list[Any]

    def __init__(self, spec: Any = "llvm", host: Any = None) -> None:
        kind, attrs = _parse(spec)
        inside = spec.get("host") if isinstance(spec, Mapping) else getattr(spec, "host", None)
        host = host or inside
        TargetNode.__init__(
            self, TargetKind(kind), FrozenDict(attrs), Target(host) if host else None
        )
        object.__setattr__(self, "_tokens", [])

    def __str__(self) -> str:
        return " ".join([self.kind, *(f"-{k}={v}" for k, v in sorted(self.attrs.items()))])

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Target) and str(other) == str(self) and other.host == self.host

    def __hash__(self) -> int:
        return hash(str(self))

    def __enter__(self) -> Target:
        self._tokens.append(_current.set((*_current.get(), self)))
        return self

    def __exit__(self, *_args: Any) -> None:
        _current.reset(self._tokens.pop())

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The innermost `with Target(...)`, or None.

        Raises:
            TargetError: there is none and `allow_none` is False.
        """
        stack = _current.get()
        if not stack and not allow_none:
            raise TargetError("no current target", hint='use `with Target("llvm"):`')
        return stack[-1] if stack else None

    @staticmethod
    def from_device(device: Any) -> Target:
        """The target of a device that is there: `cpu()`, `cuda(0)`, or its name.

        Raises:
            TargetError: there is no such device.
        """
        kind = str(getattr(device, "kind", device)).partition(":")[0]
        if kind in ("cpu", "llvm"):
            return Target("llvm")
        if kind != "cuda" or not getattr(device, "exist", False):
            raise TargetError(
                f"no {device} here to make a target of",
                hint='name one: Target("nvidia/geforce-rtx-3090-ti"), or Target("llvm")',
            )
        import cupy

        number = cupy.cuda.Device(device.index).compute_capability
        return Target({"kind": "cuda", "arch": f"sm_{number}", **_OF_TAGS})

    def __getattr__(self, name: str) -> Any:
        """An attribute of the target by its name: `target.arch`, `target.max_num_threads`."""
        word = name if name in _ATTRIBUTES else name.replace("_", "-")
        if name.startswith("_") or word not in _ATTRIBUTES:
            raise AttributeError(f"a Target has no {name!r}")
        return self.attrs.get(word, _OF_KIND.get(self.kind, {}).get(word))

    def export(self) -> dict[str, Any]:
        """The target as a dict that `Target` takes back."""
        return {"kind": str(self.kind), **self.attrs}

    @property
    def is_cpu(self) -> bool:
        """True for kinds that are programmed as a CPU is: GPUs are not, real or simulated."""
        return self.kind not in ("cuda", "cuda-sim", *NAMED_GPUS)

    @property
    def mcpu(self) -> str:
        """LLVM's name of the CPU; "host" for this computer's.

        Of another triple, where none is named, the plainest of its architecture.
        """
        usual = PLAIN_CPUS.get(self.architecture, "generic") if "mtriple" in self.attrs else "host"
        return str(self.attrs.get("mcpu", usual))

    @property
    def architecture(self) -> str:
        """The architecture that `mtriple` names, spelled one way; "" where there is none."""
        word = str(self.attrs.get("mtriple", "")).split("-")[0]
        return {"arm64": "aarch64", "amd64": "x86_64"}.get(word, word)

    @property
    def features(self) -> frozenset[str]:
        """CPU features, LLVM's words: avx2, fma, avx512f, neon, …"""
        return features(self.mcpu, str(self.attrs.get("mattr", "")), self.architecture)

    @property
    def vector_bits(self) -> int:
        """Width of a vector register, in bits."""
        if "vector-bits" in self.attrs:
            return int(self.attrs["vector-bits"])
        have = self.features
        if "avx512f" in have:
            return 512
        return 256 if "avx2" in have or "avx" in have else 128

    @property
    def has_scalable_vectors(self) -> bool:
        """True if vectors may be as long as the machine has them: SVE, RVV."""
        return bool({"sve", "v"} & self.features)

    @property
    def vector_registers(self) -> int:
        """How many vector registers the instruction set names."""
        have = self.features
        return 32 if "avx512f" in have or "neon" in have or "v" in have else 16

    def lanes(self, dtype: str = "float32") -> int:
        """Elements of `dtype` in one vector register."""
        from mlcnb.ir.dtype import dtype as make

        return max(1, self.vector_bits // max(8, make(dtype).bits))

    @property
    def halves_vectors(self) -> bool:
        """True if the longest vectors are worked on in two halves: half of one takes half the time.

        As measured on this computer (`mlcnb doctor --measure`), else by the CPU's name.
        """
        if self.vector_bits != 512:
            return False
        found = self._measured
        return found.halves_vectors if found else halves_vectors_of(cpu_name(self.mcpu))

    @property
    def fetches_ahead(self) -> bool:
        """True if rows that are read side by side come from memory at all speed, unasked.

        As measured on this computer: lines apart come as fast as lines in order; else by the CPU's
        name.
        """
        memory = self._reading("memory")
        if memory is not None:
            return memory.apart < SAME_SPEED * memory.in_order
        return fetches_ahead_of(cpu_name(self.mcpu))

    @property
    def far_line(self) -> float:
        """Cycles of a line from the shared cache to a core: as measured, else by the CPU's name."""
        shared = self._reading("L3")
        return far_line_of(cpu_name(self.mcpu)) if shared is None else shared.in_order

    @property
    def memory_line(self) -> float:
        """Cycles of a line from memory, one after the other: as measured, else some times those of
        the shared cache."""
        memory = self._reading("memory")
        return FROM_MEMORY * self.far_line if memory is None else memory.in_order

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of whole vectors that begin in a cycle.

        As measured on this computer, else by the CPU's name; two where that is not known.
        """
        found, name = self._measured, cpu_name(self.mcpu)
        if found:
            return found.multiply_adds
        is_half = self.vector_bits != 512 and halves_vectors_of(name)
        return multiply_adds_of(name) * (2 if is_half else 1)

    def _reading(self, level: str) -> Reading | None:
        readings = self._measured.readings if self._measured else ()
        return next((r for r in readings if r.name == level), None)

    @property
    def _measured(self) -> Measured | None:
        """What was measured, where this is this computer's CPU with all that it has."""
        is_whole = self.mcpu == "host" and not {"mattr", "vector-bits"} & self.attrs.keys()
        return kept() if is_whole else None

    def sums_pairs(self, dtype: str) -> bool:
        """True if an instruction sums products of two and two values of `dtype` in float32."""
        return dtype == "bfloat16" and {"avx512bf16", "avx512f"} <= self.features

    @property
    def num_cores(self) -> int:
        """Cores to schedule for."""
        return int(self.attrs.get("num-cores", 0)) or available_cores()

    @property
    def caches(self) -> tuple[int, int, int]:
        """Bytes of L1 data, L2 and L3 (per core, per core, shared); usual sizes where not known."""
        return self._levels[0]

    @property
    def cache_ways(self) -> tuple[int, int, int]:
        """How many lines a set of L1 data, L2 and L3 holds; usual numbers where not known."""
        return self._levels[1]

    @property
    def _levels(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        return host_caches() if self.mcpu == "host" else caches_of(self.mcpu)


def _parse(spec: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(spec, Target):
        return str(spec.kind), dict(spec.attrs)
    if isinstance(spec, Mapping):
        given = dict(spec)
        kind = str(given.pop("kind", "llvm"))
        given.pop("host", None)
        given.pop("keys", None)
        given.pop("tag", None)
    elif isinstance(spec, str):
        kind, given = _parse_string(spec)
    else:
        raise TargetError(
            f"a target is a string or a dict, not {kind_of(spec)}", hint='e.g. "llvm" or "cuda"'
        )
    if kind not in KINDS and kind not in NAMED_GPUS:
        raise TargetError(
            f"no target kind {kind!r}",
            hint=f"there are {', '.join(KINDS)}: llvm is this CPU, cuda-sim a GPU simulated on it",
        )
    return kind, {name: _attribute(name, value) for name, value in given.items()}


def _parse_string(spec: str) -> tuple[str, dict[str, Any]]:
    words = spec.split()
    if not words:
        raise TargetError("an empty target string", hint='e.g. "llvm"')
    given: dict[str, Any] = {}
    if words[0] in TAGS:
        given, words[0] = {"arch": TAGS[words[0]], **_OF_TAGS}, "cuda"
    for word in words[1:]:
        match = re.fullmatch(r"--?([\w-]+)=(.+)", word)
        if match is None:
            raise TargetError(f"target {spec!r}: cannot read {word!r}", hint="write -name=value")
        given[match[1]] = match[2]
    return {"cpu": "llvm"}.get(words[0], words[0]), given


def _attribute(name: str, value: Any) -> Any:
    kind = _ATTRIBUTES.get(name)
    if kind is None:
        raise TargetError(
            f"no target attribute {name!r}", hint=f"there are {', '.join(sorted(_ATTRIBUTES))}"
        )
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    try:
        found = kind(value)
    except ValueError as error:
        raise TargetError(f"target attribute {name}={value!r} is no {kind.__name__}") from error
    may_be, what = _MAY_BE.get(name, (_anything, ""))
    if not may_be(found):
        raise TargetError(f"target attribute {name}={value!r} is not {what}")
    return found


def _anything(_value: Any) -> bool:
    return True


#: what a number among the attributes may be, and how that is called
_MAY_BE: dict[str, tuple[Any, str]] = {
    "opt-level": (range(4).__contains__, "0, 1, 2 or 3"),
    "vector-bits": (
        (64, 128, 256, 512, 1024, 2048).__contains__,
        "64, 128, 256, 512, 1024 or 2048",
    ),
    "num-cores": (range(1, 1 << 16).__contains__, "a number of cores"),
}
