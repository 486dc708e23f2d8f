"""What models compile to on other CPUs: counted in the assembly, nothing is run.

python -m tests.benchmarks assembly resnet50 --cpus x86-64-v4 x86-64-v3 cortex-a72

vector     the part of the model's FLOPs in kernels whose hot loop works on whole vectors: at
           least half of its multiply-adds, or of its instructions where it has none; the
           others are named
spilling   kernels that store or load vectors on the stack in their hot loop
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mlcnb as mlc
from tests.benchmarks import models

CPUS = ("x86-64-v4", "x86-64-v3", "cortex-a72")
#: models without --names: small enough that all CPUs take a minute
DEFAULT = ("resnet50", "shufflenet", "squeezenet", "efficientnet", "minilm")
#: kernels of less than this part of the work are not named
SMALL = 0.005


@dataclass(frozen=True)
class Row:
    """One model on one CPU.

    bits: the widest vector that a hot loop uses; vector: a part of the FLOPs, 0 to 1; scalar,
    spilling: names of kernels.
    """

    model: str
    cpu: str
    kernels: int
    bits: int
    vector: float
    scalar: tuple[str, ...]
    spilling: tuple[str, ...]

    def __str__(self) -> str:
        head = f"{self.model:<20}{self.cpu:<14}{self.kernels:>8}{self.bits:>6}"
        line = f"{head}{self.vector:>8.1%}{len(self.spilling):>10}"
        named = [f"    scalar: {', '.join(self.scalar)}"] if self.scalar else []
        named += [f"    spilling: {', '.join(self.spilling)}"] if self.spilling else []
        return "\n".join([line, *named])


def heading() -> str:
    """What the columns are."""
    return f"{'model':<20}{'cpu':<14}{'kernels':>8}{'bits':>6}{'vector':>8}{'spilling':>10}"


def run(names: list[str], cpus: list[str]) -> Iterator[Row]:
    """A row for each model and CPU, as soon as it is there."""
    for case in models.cases(names=tuple(names) or DEFAULT):
        mod = mlc.from_onnx(case.path)
        for cpu in cpus:
            ex = mlc.compile(mod, target="llvm" if cpu == "host" else f"llvm -mcpu={cpu}")
            yield counted(case.name, cpu, ex)


def counted(model: str, cpu: str, ex: Any) -> Row:
    """The strips of an executable, put together."""
    strips = ex.strips(measured=False)
    total = sum(s.flops or 0 for s in strips) or 1
    vector = [s for s in strips if is_vector(s.hot)]
    scalar = [s for s in strips if s not in vector and (s.flops or 0) > SMALL * total]
    return Row(
        model,
        cpu,
        len(strips),
        max((s.facts.vector_bits for s in vector), default=0),
        sum(s.flops or 0 for s in vector) / total,
        tuple(s.kernel for s in scalar),
        tuple(s.kernel for s in strips if s.facts.hot and s.hot.spills),
    )


def is_vector(hot: Any) -> bool:
    """Whether a hot loop works on whole vectors."""
    return 2 * hot.vector_fma >= hot.fma if hot.fma else hot.vector_share >= 0.5
