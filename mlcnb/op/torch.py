"""PyTorch spellings: which function imports which ATen operator.

    @torch_spelling("aten.leaky_relu")
    def torch_leaky_relu(n: TorchNode, x: Expr, negative_slope: float = 0.01) -> Expr:
        return R.nn.leakyrelu(x, alpha=negative_slope)

Such functions stand beside the operator that they import to, as ONNX's do (`mlcnb.op.onnx`). A name
with its overload ("aten.add.Tensor") is asked before one without ("aten.add"), which means all
overloads. Parameters have the names of ATen's schema (`x` for `self` and `input`), in its order;
what a spelling does not take has to be at its default. An operator in place (`add_`) needs none of
its own: the importer makes graphs functional first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from mlcnb.op.onnx import ForeignNode

if TYPE_CHECKING:
    from mlcnb.relax.expr import Expr


class TorchNode(ForeignNode, Protocol):
    """A node of an ATen graph.

    Arguments of a spelling are tensors (Expr), numbers, PrimExprs where an integer is symbolic,
    strings (dtypes too), None, and lists of these. They are what ONNX has as attributes: `attr`
    gives the default alone (see `as_onnx`).
    """

    #: "aten.conv2d.default"
    target: str

    def tensor(self, x: Any, dtype: str, like: Expr | None = None) -> Expr:
        """A tensor, a number or a symbolic integer as a tensor of `dtype` (a number has rank 0)."""

    def common(self, *xs: Any) -> str:
        """The dtype that tensors and numbers have together, by PyTorch's rules of promotion."""

    def result(self, index: int = 0) -> tuple[tuple[Any, ...], str]:
        """Shape (ints, PrimExprs where symbolic) and dtype that PyTorch says of an output."""

    def is_complex(self, index: int = 0) -> bool:
        """Whether an output is a complex tensor: `result` says the dtype of its parts."""

    def count(self) -> int:
        """How many outputs there are."""

    def is_used(self, index: int) -> bool:
        """Whether something reads an output of several."""

    def size(self, x: Expr) -> Any:
        """The only element of an integer tensor as a size, which is found as the model runs; a
        negative one ends the run.
        """

    def memory_order(self, place: int) -> list[int] | None:
        """The dimensions of a tensor argument from the outermost in its memory to the innermost;
        None where that memory has gaps, or is a part of another tensor's.
        """


Spelling = Callable[..., Any]
_spellings: dict[str, Spelling] = {}


def torch_spelling(*targets: str) -> Callable[[Spelling], Spelling]:
    """Decorator: this function imports these operators ("aten.relu", "aten.add.Tensor")."""

    def keep(fn: Spelling) -> Spelling:
        _spellings.update(dict.fromkeys(targets, fn))
        return fn

    return keep


def torch_spelling_of(target: str) -> Spelling | None:
    """The function that imports "aten.add.Tensor", or None."""
    return _spellings.get(target) or _spellings.get(target.rpartition(".")[0])


def spelled_name(target: str) -> str:
    """The name that spellings know an operator by: one that copies a view has the view's
    ("aten.permute_copy.default" is "aten.permute.default").
    """
    if torch_spelling_of(target) is None and "_copy." in target:
        return target.replace("_copy.", ".", 1)
    return target


def torch_spellings() -> tuple[str, ...]:
    """The names that are imported, sorted; one without overload means all of them."""
    return tuple(sorted(_spellings))


class _AsOnnx:
    """A PyTorch node with the attributes of an ONNX node."""

    def __init__(self, n: TorchNode, opset: int, attrs: dict[str, Any]) -> None:
        self._n, self.opset, self._attrs = n, opset, attrs
        self.num_outputs = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._n, name)

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or `default`."""
        return self._attrs.get(name, default)

    def require(self, name: str) -> Any:
        """An attribute that is there."""
        return self._attrs[name]

    def sizes(self, x: Any) -> Any:
        """What is known of a tensor."""
        return self._n.known(x)


def as_onnx(n: TorchNode, opset: int = 22, **attrs: Any) -> Any:
    """The node as one that an ONNX spelling reads: `onnx_elu(as_onnx(n, alpha=2.0), x)`."""
    return _AsOnnx(n, opset, attrs)
