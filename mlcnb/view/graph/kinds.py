"""What sort of work a node of a graph does, and how each sort looks: by shape and by colour.

The sort of an operator follows from the file that declares it (`mlcnb.op.nn.conv` holds products);
that of a kernel from the names of its blocks, and where these say nothing from what they compute.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlcnb.core.node import walk
from mlcnb.ir.expr import Mul
from mlcnb.relax.operator import declaration, declarations
from mlcnb.tir.buffer import BufferLoad, reads_memory
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Block, BufferStore, IterType
from mlcnb.view.survey import blocks_of, remembered


@dataclass(frozen=True)
class Look:
    """How one sort of node is drawn.

    shape: see `mlcnb.view.graph.drawing`; dot: graphviz's shape; fill and ink: of area and border;
    words: for the legend.
    """

    shape: str
    dot: str
    fill: str
    ink: str
    words: str


#: sort -> look; where several are joined, the first of them in this order wins
LOOKS: dict[str, Look] = {
    "product": Look("box", "box", "#fde2c4", "#9a4a00", "products"),
    "normalise": Look("hexagon", "hexagon", "#efe3fb", "#6f42c1", "normalise"),
    "reduction": Look("funnel", "invtrapezium", "#dff3e4", "#22703a", "reduce"),
    "control": Look("octagon", "octagon", "#fff3c4", "#7a5d00", "control"),
    "movement": Look("slanted", "parallelogram", "#eceff2", "#57606a", "move data"),
    "elementwise": Look("rounded", "box", "#d8ecfb", "#1f5fa8", "elementwise"),
    "other": Look("octagon", "octagon", "#fff3c4", "#7a5d00", "other"),
    "input": Look("stadium", "ellipse", "#ffffff", "#24292f", "input"),
    "output": Look("stadium", "ellipse", "#e4e8ec", "#24292f", "output"),
}

#: start of the name of the declaring module, below mlcnb.op -> sort; the longest that fits decides
_MODULES = {
    start: sort
    for sort, starts in {
        "product": "linear_algebra nn.conv nn.attention qnn",
        "elementwise": "qnn.elementwise unary binary ternary compare datatype quantize nn",
        "reduction": "nn.pool nn.loss reduction scan search sorting set median vision grad",
        "normalise": "nn.batch_norm nn.layer_norm nn.softmax nn.lrn",
        "movement": (
            "manipulate indexing shape memory vm telling creation random image inspect grad.marks"
        ),
    }.items()
    for start in starts.split()
}


def of_operator(name: str) -> str:
    """The sort of an operator by its full name, such as `relax.nn.conv2d`."""
    found = declaration(name, missing_ok=True)
    return "other" if found is None else _of_module(found.__module__)


@cache
def _of_module(module: str) -> str:
    below = module.removeprefix("mlcnb.op.")
    fits = [start for start in _MODULES if below.startswith(start)]
    return _MODULES[max(fits, key=len)] if fits else "other"


@cache
def _by_short_name() -> dict[str, str]:
    """Of several operators that end alike (matmul, qnn.matmul) the one with the shortest name."""
    names = sorted(declarations().items(), key=lambda item: len(item[0]), reverse=True)
    found = {n.rpartition(".")[2]: _of_module(d.__module__) for n, d in names}
    return {"transpose": "movement", **found}  # what topi calls permute_dims


@remembered
def of_kernel(func: PrimFunc) -> str:
    """The sort of a kernel: the heaviest of its blocks'."""
    return heaviest(of_block(block) for block in blocks_of(func))


def of_block(block: Block) -> str:
    """The sort of a block: of the operator in its name, else as its loops look."""
    named = _named(block.name_hint)
    if named is not None:
        return named
    stored = [n.value for n in walk(block.body) if isinstance(n, BufferStore)]
    if any(axis.iter_type is IterType.REDUCE for axis in block.iter_vars):
        return "product" if any(_multiplies(value) for value in stored) else "reduction"
    return "movement" if all(isinstance(v, BufferLoad) for v in stored) else "elementwise"


def _named(name: str) -> str | None:
    """The sort of the operator with the longest name among the words of `T_softmax_exp`."""
    known = _by_short_name()
    return known.get(max((s for s in _spans(name) if s in known), key=len, default=""))


def of_name(name: str) -> str:
    """The sort of a kernel that is only known by its name, `fused_conv2d_add_relu`."""
    return of_operators(_spans(name))


def _spans(name: str) -> list[str]:
    """Every run of words of a name; of a long name, of its first words."""
    words = name.split("_", 16)[:16]
    ends = range(1, len(words) + 1)
    return ["_".join(words[i:j]) for i in range(len(words)) for j in ends if i < j]


def _multiplies(value: Any) -> bool:
    """Whether a value has a product of two elements in it."""
    return any(isinstance(n, Mul) and reads_memory(n.a) and reads_memory(n.b) for n in walk(value))


def of_operators(names: Iterable[str]) -> str:
    """The sort that stands for several operators, given by their short names."""
    known = _by_short_name()
    return heaviest(known[name] for name in names if name in known)


def heaviest(sorts: Iterable[str]) -> str:
    """The sort that stands for several."""
    return min(sorts, key=list(LOOKS).index, default="other")
