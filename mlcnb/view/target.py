"""Target: the machine that code is made for, as schedules see it."""

from __future__ import annotations

from typing import Any

from mlcnb.target import KINDS
from mlcnb.view.parts import Facts, Part, Title
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, listed, memory

#: features worth a word, widest first
_TELLING = (
    "amx-tile avx512f avx512vnni avx512bf16 avx512fp16 avx2 avx fma f16c sse4.2 sve2 sve neon "
    "dotprod fullfp16 bf16 i8mm v"
).split()


@shows("mlcnb.target:Target")
def target(t: Any) -> list[Part]:
    """Kind, vectors, cores, caches, attributes."""
    pairs = _cpu(t) if t.kind == "llvm" else []
    given = [f"{name}={clip(str(value), 40)}" for name, value in sorted(t.attrs.items())]
    pairs += [("attributes", listed(given))] if given else []
    pairs += [("host", str(t.host))] if t.host is not None else []
    return [Title(f"Target {clip(str(t))}: {KINDS[t.kind]}"), *([Facts(pairs)] if pairs else [])]


def _cpu(t: Any) -> list[tuple[str, str]]:
    features = [name for name in _TELLING if name in t.features]
    levels = zip(("L1", "L2", "L3"), t.caches, strict=True)
    return [
        ("vectors", f"{t.vector_bits} bits, {t.vector_registers} registers"),
        ("features", listed(features, len(_TELLING))),
        ("cores", str(t.num_cores)),
        ("caches", ", ".join(f"{name} {memory(n)}" for name, n in levels)),
    ]
