"""What was measured of this computer, kept on disk: `mlcnb doctor --measure` writes it, and so does
the first model that is compiled on a CPU that no table tells of.

    kept()           what a measuring before found here, or None
    is_wanted()      nothing is known of this computer's CPU
    keep(measured)   for later processes, and for this one

A file holds one computer's figures: its name is of the CPU, of what LLVM reads of it, and of its
caches, so that computers that share a home do not mix theirs up. What cannot be read is not there.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mlcnb.core.files import kept_folder, replacing
from mlcnb.target.cpus import cpu_name, features, host_caches, is_told

#: changes when figures mean something else
_FORM = 1
#: multiply-adds of vectors that a CPU may begin in a cycle
UNITS = (1, 2, 4)


@dataclass(frozen=True)
class Reading:
    """Cycles of reading from one level of memory, on one thread.

    name: L1, L2, L3 or memory; nbytes: what was read again and again; in_order: for a line after
    the one beside it; apart: for a line after one that lies elsewhere; latency: until what a load
    brings can be the address of the next.
    """

    name: str
    nbytes: int
    in_order: float
    apart: float
    latency: float


@dataclass(frozen=True)
class Measured:
    """What a core does in a cycle.

    gigahertz: cycles in a nanosecond; whole: multiply-adds of the longest vectors of float32 that
    begin in a cycle; half: of vectors half as long; latency: cycles of one that the next one needs;
    readings: of each level of memory.
    """

    gigahertz: float
    whole: float
    half: float
    latency: float
    readings: tuple[Reading, ...] = ()

    @property
    def multiply_adds(self) -> int:
        """`whole` as a number of units: what is measured falls a little short of it, or over."""
        return _units(self.whole)

    @property
    def halves_vectors(self) -> bool:
        """True if twice as many of half the length begin in a cycle."""
        return _units(self.half) > self.multiply_adds

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON values; `of_dict` reads them."""
        return dataclasses.asdict(self)

    @staticmethod
    def of_dict(given: dict[str, Any]) -> Measured:
        """What `as_dict` wrote.

        Raises:
            TypeError, ValueError: it was something else.
        """
        readings = tuple(Reading(**r) for r in given.pop("readings"))
        found = Measured(**given, readings=readings)
        numbers = [found.gigahertz, found.whole, found.half, found.latency]
        if not all(isinstance(x, float) and 0 < x < 1e6 for x in numbers):
            raise ValueError(f"no figures of a core: {numbers}")
        return found


def _units(rate: float) -> int:
    return min(UNITS, key=lambda units: max(rate / units, units / rate))


def kept() -> Measured | None:
    """What was measured of this computer before, or None; read once for each folder."""
    folder = kept_folder()
    return None if folder is None else _read(folder)


def is_wanted() -> bool:
    """True if no table tells of this computer's CPU, nobody has measured it, and figures last."""
    return kept_folder() is not None and not is_told(cpu_name("host")) and kept() is None


def keep(measured: Measured) -> Path | None:
    """Write the figures; the file, or None where nothing is kept.

    Raises:
        OSError: the folder cannot be written to.
    """
    folder = kept_folder()
    if folder is None:
        return None
    path = folder / _file_name()
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_text(json.dumps({"form": _FORM, **measured.as_dict()}), encoding="utf-8")
    _read.cache_clear()
    return path


@cache
def _read(folder: Path) -> Measured | None:
    try:
        given = json.loads((folder / _file_name()).read_text(encoding="utf-8"))
        return Measured.of_dict(given) if given.pop("form") == _FORM else None
    except (OSError, ImportError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _file_name() -> str:
    """Of this computer; two of one kind share a name, and its figures."""
    facts = (platform.processor(), platform.machine(), cpu_name("host"), host_caches())
    text = f"{facts} {sorted(features('host', ''))}"
    return f"measured-{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}.json"
