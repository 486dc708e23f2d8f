"""Models of machines, for scores and pictures: what a kernel could reach, and where it stands.

cache         set-associative caches: of every touch hit or miss, and what it drove out
reuse         reuse distances: what a cache of any size would hit
roofline      peak of the multiply-add units, bandwidth of each level of memory
convolution   what a convolution costs by each algorithm, and why
winograd      how one by Winograd's algorithm is cut into pieces for registers and caches
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {"mlcnb.machine.roofline": "Level Roofline", "mlcnb.machine.cache": "Cache caches"},
    submodules=("cache", "reuse", "roofline", "convolution", "winograd"),
)
