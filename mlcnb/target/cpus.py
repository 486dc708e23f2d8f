"""What is known of CPUs by LLVM's names of them: caches, instructions, cores of this computer."""

from __future__ import annotations

import os
from functools import cache, lru_cache
from itertools import chain

#: L1 data, L2 and L3: KiB, and lines of a set. Where L3 is in slices of cores, as a usual model of
#: the family has it
_USUAL_CACHES = "32/8 1024/8 16384/16"
_CACHES = {
    "haswell broadwell skylake": "32/8 256/8 8192/16",
    "skylake-avx512 cascadelake": "32/8 1024/16 25344/11",
    "icelake-server": "48/12 1280/20 49152/12",
    "sapphirerapids emeraldrapids graniterapids": "48/12 2048/16 61440/15",
    "znver1": "32/8 512/8 8192/16",
    "znver2": "32/8 512/8 16384/16",
    "znver3": "32/8 512/8 32768/16",
    "znver4": "32/8 1024/8 32768/16",
    "znver5": "48/12 1024/16 32768/16",
    "apple-m1": "128/8 3072/12 8192/16",
    "neoverse-n1 neoverse-v1": "64/4 1024/8 32768/16",
}


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_V2 = "sse2 sse3 ssse3 sse4.1 sse4.2 popcnt"
_V3 = f"{_V2} avx avx2 fma f16c bmi bmi2 lzcnt movbe"
#: features that each level of x86-64 promises, as far as code here cares
LEVELS = {
    "x86-64": "sse2",
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": f"{_V3} avx512f avx512vl avx512dq avx512bw avx512cd",
}
#: CPUs of x86-64: their level, and what LLVM may use of them beside it and what sums products
_X86 = {
    "nehalem westmere corei7": "x86-64-v2",
    "sandybridge corei7-avx": "x86-64-v2 avx",
    "ivybridge core-avx-i": "x86-64-v2 avx f16c",
    "haswell broadwell skylake core-avx2 znver1 znver2 znver3": "x86-64-v3",
    "alderlake raptorlake meteorlake arrowlake lunarlake sierraforest": "x86-64-v3 gfni",
    "skylake-avx512 cascadelake cooperlake": "x86-64-v4",
    "icelake-client icelake-server tigerlake rocketlake znver4 znver5 sapphirerapids "
    "emeraldrapids graniterapids graniterapids-d": "x86-64-v4 gfni avx512vbmi2 avx512ifma "
    "avx512bitalg avx512vpopcntdq",
}
#: what some of these have that LLVM may use as well, and no schedule here asks for
_X86_MORE = {
    "znver5": "avxvnni",
    "sapphirerapids emeraldrapids graniterapids graniterapids-d": "avxvnni avx512fp16",
}


#: CPUs whose instructions sum products of bytes or of bfloat16, and what those are called
_DOT_PRODUCTS = {
    "cascadelake cooperlake": "avx512vnni",
    "znver4 znver5 icelake-client icelake-server tigerlake rocketlake sapphirerapids "
    "emeraldrapids graniterapids graniterapids-d": "avx512vnni avx512vbmi",
    "znver4 znver5 cooperlake sapphirerapids emeraldrapids graniterapids "
    "graniterapids-d": "avx512bf16",
    "alderlake raptorlake meteorlake arrowlake lunarlake sierraforest": "avxvnni",
    "neoverse-n1 cortex-a55 cortex-a76 cortex-a77 cortex-a78 apple-m1": "dotprod",
    "neoverse-v1 neoverse-n2 neoverse-v2 apple-m2 apple-m3 apple-m4": "i8mm",
}


#: multiply-adds of whole vectors that CPUs begin in a cycle; two where nothing is said
_MULTIPLY_ADDS = {
    "znver1 znver4": 1,
    # one unit of 512 bits, two of 256
    "icelake-client tigerlake rocketlake": 1,
    # units of 128 bits
    "gracemont sierraforest grandridge": 1,
    "apple-m1 apple-m2 apple-m3 apple-m4 neoverse-v1 neoverse-v2": 4,
}
#: loads that CPUs begin in a cycle, of numbers that fill a vector; two where nothing is said. Four
#: as AMD describes Zen 5, whose tiles of one vector reach its peak (measured)
_LOADS = {"znver5": 4}
#: CPUs whose longest vectors take as long as two of half the length. AMD, Software Optimization
#: Guide for the Zen4 Microarchitecture, 2.11; Intel, Optimization Reference Manual, of clients
_HALVE_VECTORS = "znver4 icelake-client tigerlake rocketlake".split()

#: architecture -> LLVM's name of its plainest CPU: those that kernels can be written for
PLAIN_CPUS = {
    "x86_64": "x86-64",
    "aarch64": "generic",
    "riscv64": "generic-rv64",
    "powerpc64le": "ppc64le",
    "loongarch64": "generic-la64",
    "mips64el": "mips64r2",
}

#: CPUs that fetch several streams ahead by themselves as fast as memory gives; asking costs them a
#: third (measured: a matrix of 64 MB by a vector)
_FETCH_AHEAD = ["znver3"]

#: cycles in which a line of the shared cache comes to a core, one after the other: a mesh of many
#: cores is slow (measured: 5.7 of Emerald Rapids), a slice that few cores share is not
_FAR_LINE = {
    "skylake-avx512 cascadelake cooperlake icelake-server sapphirerapids emeraldrapids "
    "graniterapids graniterapids-d": 6.0,
}
_USUAL_FAR_LINE = 2.0


def is_told(mcpu: str) -> bool:
    """Whether a table here tells of the CPU of LLVM's name."""
    tables = (_CACHES, _DOT_PRODUCTS, _MULTIPLY_ADDS, _FAR_LINE, _LOADS, _HALVE_VECTORS)
    return mcpu in LEVELS or any(mcpu in names.split() for names in chain(*tables))


def multiply_adds_of(mcpu: str) -> int:
    """Multiply-adds of whole vectors that a CPU of LLVM's name begins in a cycle."""
    return next((n for names, n in _MULTIPLY_ADDS.items() if mcpu in names.split()), 2)


def loads_of(mcpu: str) -> int:
    """Loads, of numbers that fill a vector, that a CPU of LLVM's name begins in a cycle."""
    return _LOADS.get(mcpu, 2)


def halves_vectors_of(mcpu: str) -> bool:
    """Whether a CPU of LLVM's name works on its longest vectors in two halves."""
    return mcpu in _HALVE_VECTORS


def far_line_of(mcpu: str) -> float:
    """Cycles of a line from the shared cache of a CPU of LLVM's name, one after the other."""
    return next((n for names, n in _FAR_LINE.items() if mcpu in names.split()), _USUAL_FAR_LINE)


def fetches_ahead_of(mcpu: str) -> bool:
    """Whether a CPU of LLVM's name reads several streams at once at all speed, unasked."""
    return mcpu in _FETCH_AHEAD


@cache
def cpu_name(mcpu: str) -> str:
    """LLVM's name of the CPU, this computer's for "host"."""
    if mcpu != "host":
        return mcpu
    import llvmlite.binding as llvm

    return str(llvm.get_host_cpu_name())


def _said_of(mcpu: str, table: dict[str, str]) -> set[str]:
    """All words that a table has for a CPU of LLVM's name."""
    return {word for names, has in table.items() if mcpu in names.split() for word in has.split()}


def _of_x86(mcpu: str) -> set[str]:
    """What a CPU of x86-64 has, by its level; nothing where it is not known."""
    found = {mcpu} if mcpu in LEVELS else _said_of(mcpu, _X86)
    return {f for word in found for f in LEVELS.get(word, word).split()}


def promised(mcpu: str) -> frozenset[str] | None:
    """All features that LLVM may use of a CPU of x86-64, as far as code here can make it; None
    where it is not known.
    """
    known = _of_x86(mcpu)
    more = _said_of(mcpu, _DOT_PRODUCTS) | _said_of(mcpu, _X86_MORE)
    return frozenset(known | more) if known else None


@cache
def features(mcpu: str, mattr: str, arch: str = "") -> frozenset[str]:
    """What the CPU can do, by LLVM's names of features; mattr: "+name", "-name" add to it."""
    if arch not in ("", "x86_64") or "rv64" in mcpu or mcpu.startswith(("riscv", "sifive")):
        found = {"neon"} if arch == "aarch64" else set()
    elif mcpu in ("host", "native"):
        import llvmlite.binding as llvm

        found = {name for name, present in llvm.get_host_cpu_features().items() if present}
    elif mcpu.startswith(("apple", "cortex", "neoverse", "aarch64", "generic-arm")):
        found = {"neon"}
    else:
        found = _of_x86(mcpu) or set(LEVELS["x86-64-v3"].split())
    found |= _said_of(mcpu, _DOT_PRODUCTS)
    for word in filter(None, mattr.split(",")):
        (found.discard if word.startswith("-") else found.add)(word.lstrip("+-"))
    return frozenset(found)


@cache
def caches_of(mcpu: str) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Bytes and ways of L1, L2 and L3 of a CPU by LLVM's name."""
    told = next((text for names, text in _CACHES.items() if mcpu in names.split()), _USUAL_CACHES)
    first, second, third = ([int(n) for n in level.split("/")] for level in told.split())
    return (
        (first[0] << 10, second[0] << 10, third[0] << 10),
        (first[1], second[1], third[1]),
    )


@lru_cache(maxsize=1)
def host_caches() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The same of this computer, as Linux tells it where it does."""
    sizes, ways = map(list, caches_of(cpu_name("host")))
    folder = "/sys/devices/system/cpu/cpu0/cache"
    if os.path.isdir(folder):
        for entry in sorted(os.listdir(folder)):
            found = _cache_entry(os.path.join(folder, entry))
            if found is not None:
                sizes[found[0] - 1], ways[found[0] - 1] = found[1:]
    return (sizes[0], sizes[1], sizes[2]), (ways[0], ways[1], ways[2])


def _cache_entry(path: str) -> tuple[int, int, int] | None:
    """(level, bytes, ways) of one entry in Linux's list of caches; None for instruction caches."""
    try:
        fields = {}
        for name in ("level", "type", "size", "ways_of_associativity"):
            with open(os.path.join(path, name), encoding="ascii") as file:
                fields[name] = file.read().strip()
        if fields["type"] == "Instruction" or not 1 <= int(fields["level"]) <= 3:
            return None
        factor = {"K": 1 << 10, "M": 1 << 20}[fields["size"][-1]]
        nbytes, ways = int(fields["size"][:-1]) * factor, int(fields["ways_of_associativity"])
        return (int(fields["level"]), nbytes, ways) if ways > 0 else None
    except (OSError, KeyError, ValueError, IndexError):
        return None
