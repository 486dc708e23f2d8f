"""ONNX spellings: which function imports which ONNX operator, for which opsets.

    @onnx("LeakyRelu", since=1)
    def leaky_relu(n: OnnxNode, x: Expr) -> Expr:
        return R.nn.leakyrelu(x, alpha=n.attr("alpha", 0.01))

Such functions stand beside the operator that they import to, in the same file of `mlcnb.op`. The
importer knows no operator by name: it looks here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    import numpy as np

    from mlcnb.relax.expr import Expr


class ForeignNode(Protocol):
    """What importers hand to spellings: one node of a foreign graph, and the means to build."""

    #: the node's name in the graph
    name: str

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as int, float, str, tuple, NumPy array (tensor) or graph."""

    def emit(self, value: Any) -> Expr:
        """Bind an expression to a new variable (constants in, constant out: it is folded)."""

    def constant(self, x: Expr | None, what: str) -> np.ndarray:
        """The value of a tensor that must be known at import; else an UnsupportedOpError says
        which.
        """

    def known(self, x: Expr | None) -> np.ndarray | None:
        """The value of a tensor where it is known (an object array of PrimExprs where symbolic)."""

    def dims(self, x: Expr) -> tuple[Any, ...]:
        """The dimensions of a tensor: Python ints, or PrimExprs where symbolic."""

    def dtype(self, x: Expr) -> str:
        """The dtype of a tensor."""

    def refuse(self, why: str, hint: str | None = None) -> NoReturn:
        """Raise an UnsupportedOpError that names operator and node, and says why."""


class OnnxNode(ForeignNode, Protocol):
    """A node of an ONNX graph."""

    op_type: str
    domain: str
    #: opset version of the node's domain in this model
    opset: int
    #: how many outputs the model names (trailing unused ones are not counted)
    num_outputs: int
    #: which outputs are used: names, "" where left out
    outputs: tuple[str, ...]

    def require(self, name: str) -> Any:
        """An attribute that must be there; a ModelError names it if not."""

    def sizes(self, x: Expr | None) -> np.ndarray | None:
        """As `known`, with floats that are computed from sizes: casts, or quotients of casts."""

    def lengths(self, x: Expr | None, what: str) -> list[Any]:
        """The elements of a small integer tensor that only a run knows, as symbolic dimensions.

        They are read as the model runs, which stops there if one is negative.
        """

    def assume(self, condition: Any, holds: bool) -> None:
        """Check, as the model runs, that a condition on sizes holds, or that it does not."""


Spelling = Callable[..., Any]
_spellings: dict[tuple[str, str], list[tuple[int, Spelling]]] = {}


def onnx(op_type: str, since: int = 1, domain: str = "") -> Callable[[Spelling], Spelling]:
    """Decorator: this function imports `op_type` from opset `since` on (until a later spelling)."""

    def keep(fn: Spelling) -> Spelling:
        found = _spellings.setdefault((domain, op_type), [])
        found.append((since, fn))
        found.sort(key=lambda entry: entry[0])
        return fn

    return keep


def spelling(domain: str, op_type: str, opset: int) -> Spelling | None:
    """The function that imports this operator at this opset, or None."""
    best = None
    for since, fn in _spellings.get((domain, op_type), []):
        if since <= opset:
            best = fn
    return best


def spellings() -> dict[tuple[str, str], list[int]]:
    """Which operators are imported: (domain, op_type) -> the opsets where a spelling begins."""
    return {key: [since for since, _ in found] for key, found in sorted(_spellings.items())}
