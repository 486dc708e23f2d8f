"""What this machine is, for the head of every table of figures."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

from mlcnb.target import Target, available_cores


def describe(*packages: str) -> dict[str, str]:
    """CPU, cores, vector width, Python and the versions of packages."""
    import llvmlite.binding as llvm

    facts = {
        "cpu": llvm.get_host_cpu_name(),
        "model": model_name(),
        "cores": str(available_cores()),
        "vector bits": str(Target("llvm").vector_bits),
        "python": platform.python_version(),
        "system": platform.system(),
    }
    return {k: v for k, v in facts.items() if v} | {name: version(name) for name in packages}


def model_name() -> str:
    """What the CPU calls itself, where Linux tells."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "")


def line(facts: dict[str, str]) -> str:
    """The facts in one line."""
    return ", ".join(f"{name} {value}" for name, value in facts.items())
