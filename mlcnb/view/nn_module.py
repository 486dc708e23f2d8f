"""nn.Module: its parts as a tree, the shape and dtype of each parameter, how many numbers.

A parameter that stands in several places is counted once.

MLP: 203,530 parameters (814 kB)
  part        kind     shape       dtype    parameters
  ├─ fc1      Linear                           200,960
  │  ├─ weight         [256, 784]  float32     200,704
  │  └─ bias           [256]       float32         256
  └─ relu     ReLU                                   0
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from mlcnb.ir.dtype import dtype
from mlcnb.relax.frontend.nn.module import Module, parts_of
from mlcnb.relax.frontend.nn.tensor import Effect, Parameter
from mlcnb.view.parts import Part, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, plural, size

_COLUMNS = heads("part: code | kind | shape: code | dtype | parameters: number")


@shows("mlcnb.relax.frontend.nn.module:Module")
def module(m: Module) -> list[Part]:
    """Title with the totals, and a row for each part."""
    parameters = list(dict.fromkeys(m.parameters()))
    known = [p for p in parameters if _count(p) is not None]
    total = sum(_count(p) or 0 for p in known)
    nbytes = sum((_count(p) or 0) * dtype(p.dtype).numpy.itemsize for p in known)
    told = f"{clip(type(m).__name__, 60)}: {total:,} parameters ({size(nbytes)})"
    if len(known) < len(parameters):
        told += f" and {plural(len(parameters) - len(known), 'parameter')} of open size"
    rows = list(_rows(m, ""))
    return [
        Title(told),
        *([Table(_COLUMNS, rows, see="dict(m.named_parameters())")] if rows else []),
    ]


def _rows(m: Module, before: str) -> Iterator[tuple[str, ...]]:
    parts = [(n, p) for n, p in parts_of(m) if isinstance(p, Module | Parameter | Effect)]
    for i, (name, part) in enumerate(parts):
        last = i == len(parts) - 1
        label = f"{before}{'└─' if last else '├─'} {clip(name, 60)}"
        yield (label, *_cells(part))
        if isinstance(part, Module):
            yield from _rows(part, before + ("   " if last else "│  "))


def _cells(part: Any) -> tuple[str, ...]:
    if isinstance(part, Parameter):
        count = _count(part)
        shape = f"[{', '.join(map(str, part.shape))}]"
        return ("", clip(shape, 60), part.dtype, "open" if count is None else f"{count:,}")
    kind = clip(type(part).__name__, 60)
    if isinstance(part, Effect):
        return (kind, "", "", "")
    counts = [_count(p) for p in dict.fromkeys(part.parameters())]
    return (kind, "", "", f"{sum(c or 0 for c in counts):,}{' + open' if None in counts else ''}")


def _count(parameter: Parameter) -> int | None:
    """Numbers in a parameter, or None where a size is open."""
    shape = parameter.shape
    return prod(shape) if all(isinstance(d, int) for d in shape) else None
