"""The table of ONNX operators: which are imported, at which opsets, and how.

Add            7-28  spelling        Clip    11-28  spelling      StringConcat  20-28  -
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlcnb.core import display
from mlcnb.relax.frontend.onnx.operators import how


@dataclass(frozen=True)
class Entry:
    """One form of an operator.

    first, last: the opsets in which ONNX has this form; how: "spelling", "structure" or "function"
    (by ONNX's own definition), None where it is not imported.
    """

    domain: str
    op_type: str
    first: int
    last: int
    how: str | None

    def __str__(self) -> str:
        name = f"{self.domain}::{self.op_type}" if self.domain else self.op_type
        return f"{name:32} {self.first:3}-{self.last:<3} {self.how or '-'}"


@dataclass(frozen=True)
class Coverage:
    """Every form of every operator."""

    entries: tuple[Entry, ...]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def missing(self) -> tuple[str, ...]:
        """Operators whose newest form is not imported."""
        newest = {(e.domain, e.op_type): e for e in self.entries}
        return tuple(e.op_type for e in newest.values() if e.how is None)

    @property
    def imported(self) -> tuple[str, ...]:
        """Operators whose newest form is imported."""
        newest = {(e.domain, e.op_type): e for e in self.entries}
        return tuple(e.op_type for e in newest.values() if e.how is not None)

    def __repr__(self) -> str:
        done, total = len(self.imported), len(self.imported) + len(self.missing)
        head = f"{done} of {total} ONNX operators are imported"
        return "\n".join([head, *map(str, self.entries)])


def table(domain: str = "") -> Coverage:
    """The operators of one domain of ONNX, by name and version.

    Args:
        domain: "" for ai.onnx, "ai.onnx.ml" and so on.
    """
    import onnx

    display.load("mlcnb.op:load_all")()  # type: ignore[call-arg]
    newest = onnx.helper.VERSION_TABLE[-1]
    last = {"": onnx.defs.onnx_opset_version(), "ai.onnx.ml": newest[3]}.get(domain, 1)
    versions: dict[str, list[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == domain:
            versions.setdefault(schema.name, []).append(schema.since_version)
    entries = []
    for name, found in sorted(versions.items()):
        starts = sorted(found)
        ends = [*(v - 1 for v in starts[1:]), max(last, starts[-1])]
        entries += [
            Entry(domain, name, a, b, how(domain, name, a))
            for a, b in zip(starts, ends, strict=True)
        ]
    return Coverage(tuple(entries))
