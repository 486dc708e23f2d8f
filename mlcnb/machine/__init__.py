"""Models of machines, for scores and pictures: what a kernel could reach, and where it stands.

cache         set-associative caches: of every touch hit or miss, and what it drove out
addresses     where the arrays of a program lie, and which of its accesses is which
stream        every access of a program in order
reuse         reuse distances: what a cache of any size would hit
roofline      peak of the multiply-add units, bandwidth of each level of memory
convolution   what a convolution costs by each algorithm, and why
prediction    what caches, vectors and cores will make of a loop program, by reading it
locality      the accesses of a program and the steps that they take in each loop
winograd      how one by Winograd's algorithm is cut into pieces for registers and caches
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.machine.roofline": "Level Roofline",
        "mlcnb.machine.cache": "Cache caches",
        "mlcnb.machine.prediction": "Prediction predict",
    },
    submodules=("cache", "reuse", "addresses", "stream", "roofline", "convolution", "winograd"),
)
