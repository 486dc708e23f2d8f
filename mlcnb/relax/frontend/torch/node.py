"""One node of an ATen graph, as spellings see it (`mlcnb.op.torch.TorchNode`)."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

from mlcnb.core.errors import UnsupportedDtypeError
from mlcnb.core.node import identical
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.span import Span
from mlcnb.op.torch import spelled_name
from mlcnb.relax.expr import Expr, const, tensor_info
from mlcnb.relax.frontend.shared.loop_values import size_tensor
from mlcnb.relax.frontend.shared.node import GraphNode
from mlcnb.relax.frontend.shared.values import Values
from mlcnb.relax.frontend.torch.numbers import as_tensor
from mlcnb.relax.frontend.torch.symbols import Symbols
from mlcnb.relax.operator import declaration, make_call

_FRAME = re.compile(r'^ *File "([^"]*)", line (\d+), in (.*)$', re.MULTILINE)


def dtype_of(kind: Any, place: str) -> str:
    """A torch.dtype by its name.

    Raises:
        UnsupportedDtypeError: complex numbers, and quantised ones.
    """
    name = str(kind).removeprefix("torch.")
    if name.startswith(("complex", "q", "bits")):
        raise UnsupportedDtypeError(f"{place} holds {name}", hint="mlcnb has real numbers only")
    return name


def part_dtype(kind: Any, place: str) -> str:
    """A torch.dtype by its name; of complex numbers that of their parts."""
    return dtype_of(kind.to_real() if kind.is_complex else kind, place)


def is_complex(fake: Any) -> bool:
    """True for a complex tensor, and for several with one among them."""
    if isinstance(fake, tuple | list):
        return any(map(is_complex, fake))
    return hasattr(fake, "dtype") and fake.dtype.is_complex


def origin_of(fx_node: Any, kind: str) -> Span:
    """Where a node comes from: the innermost line of the user's own code.

    Frames of torch itself are left out, as what a module of torch.nn does is not the user's.
    """
    found = users_line(fx_node.meta.get("stack_trace") or "")
    if found is None:
        return Span("torch", fx_node.name, kind=kind)
    place, line = found
    return Span("torch", f"{fx_node.name} at {place}", line, kind=kind)


def users_line(frames: str) -> tuple[str, int] | None:
    """The innermost of the user's lines in a stack trace, as "model.py:7" and 7."""
    own = [f for f in _FRAME.findall(frames) if _is_users(f[0])]
    if not own:
        return None
    file, line, _ = own[-1]
    return f"{os.path.basename(file)}:{line}", int(line)


def _is_users(file: str) -> bool:
    """True for a file outside of PyTorch, whose own stand in the package or are named from there,
    and of this folder, which calls functions as modules.
    """
    import torch

    own = (os.path.dirname(torch.__file__), "torch/", "<eval", os.path.dirname(__file__))
    return not file.startswith(own)


class Node(GraphNode):
    """An fx.Node of an ATen operator, with the importer's means to build.

    Args:
        fx_node: the node.
        values: what is known of tensors.
        symbols: makes symbolic sizes.
        source: what the model is called.
    """

    advice = "write that part of the model with other operators"

    def __init__(self, fx_node: Any, values: Values, symbols: Symbols, source: str) -> None:
        self.fx = fx_node
        self.name: str = fx_node.name
        self.target = spelled_name(target_name(fx_node.target))
        self.values = values
        self.symbols = symbols
        self.source = source

    def __repr__(self) -> str:
        return f"node {self.name!r} ({self.target})"

    @property
    def where(self) -> str:
        """`Net: node 'conv2d' (aten.conv2d.default) at net.py:12`: how messages begin."""
        line = self.span.name.partition(" at ")[2]
        return f"{self.source}: {self!r}{' at ' if line else ''}{line}"

    @cached_property
    def span(self) -> Span:
        """Where calls that are made for this node come from."""
        return origin_of(self.fx, self.target.removeprefix("aten.").partition(".")[0])

    def attr(self, name: str, default: Any = None) -> Any:
        """The default: ATen's arguments are given to the spelling."""
        return default

    def result(self, index: int = 0) -> tuple[tuple[Any, ...], str]:
        """Shape and dtype that PyTorch says of an output; of complex numbers their parts'."""
        fake = self.output(index)
        return self.symbols.dims(fake.shape), part_dtype(fake.dtype, self.where)

    def is_complex(self, index: int = 0) -> bool:
        """Whether an output is a complex tensor."""
        return is_complex(self.output(index))

    def count(self) -> int:
        """How many outputs there are."""
        val = self.fx.meta["val"]
        return len(val) if isinstance(val, tuple | list) else 1

    def is_used(self, index: int) -> bool:
        """Whether something reads an output of several."""
        readers = [u for u in self.fx.users if u.target is operator.getitem]
        return any(u.args[1] == index and u.users for u in readers)

    def memory_order(self, place: int) -> list[int] | None:
        """The dimensions of an argument from the outermost in memory to the innermost; None where
        that memory has gaps, or is a part of another tensor's.
        """
        fake = self.fx.args[place].meta["val"]
        sizes, strides = tuple(fake.shape), tuple(fake.stride())
        whole = fake.numel() * fake.element_size()
        if not all(isinstance(v, int) for v in (*sizes, *strides, whole)):
            return None
        order = sorted(range(len(sizes)), key=lambda i: (-strides[i], sizes[i] == 1))
        dense = 1
        for i in reversed(order):
            if sizes[i] != 1 and strides[i] != dense:
                return None
            dense *= sizes[i]
        is_whole = fake.storage_offset() == 0 and fake.untyped_storage().nbytes() == whole
        return order if is_whole else None

    def learned(self, value: Any, index: int) -> Any:
        """The value of an output, after what it says of sizes that PyTorch leaves to the run: a
        size that is known by now is asked for as the model runs.
        """
        fake = self.output(index)
        have = getattr(value.struct_info, "dims", None)
        if have is None or not hasattr(fake, "shape") or len(have) != len(fake.shape):
            return value
        for size, dim in zip(fake.shape, have, strict=True):
            self.symbols.learn(size, dim)
        want = self.symbols.learned_dims(fake.shape, have)
        if identical(want, have):
            return value
        return self.values.cast(value, tensor_info(want, value.struct_info.dtype))

    def output(self, index: int = 0) -> Any:
        """What PyTorch says of an output."""
        found = self.fx.meta["val"]
        return found[index] if isinstance(found, tuple | list) else found

    def tensor(self, x: Any, kind: str, like: Expr | None = None) -> Any:
        """A tensor, a number or one that is computed from sizes as a tensor of a dtype."""
        if isinstance(x, Expr):
            if self.dtype(x) == kind:
                return x
            return self.emit(make_call(declaration("relax.astype"), x, dtype=kind))
        if isinstance(x, PrimExpr):
            is_float = x.dtype.is_float
            return self.tensor(as_tensor(self, x) if is_float else size_tensor(self, x), kind)
        return const(_number(x, kind), kind)

    def common(self, *xs: Any) -> str:
        """The dtype that values have together: tensors with dimensions count before those
        without, and those before numbers, but a higher kind (bool, int, float) always wins.
        """
        import torch

        kinds: list[Any] = [None, None, None]
        for x in xs:
            if isinstance(x, Expr):
                place, kind = (0 if self.rank(x) else 1), getattr(torch, self.dtype(x))
            else:
                place, kind = 2, _number_kind(x)
            kinds[place] = kind if kinds[place] is None else torch.promote_types(kinds[place], kind)
        found = None
        for kind in kinds:
            if found is None or (kind is not None and _category(kind) > _category(found)):
                found = kind
        return dtype_of(found, self.where)

    def size(self, x: Any) -> Any:
        """The only element of an integer tensor as a size, which is found as the model runs."""
        known = self.known(x)
        if known is not None and known.dtype != object and known.item() >= 0:
            return known.item()
        return self.values.lengths(x, 1)[0]

    def rank(self, x: Any) -> int:
        """How many dimensions a tensor has."""
        return len(self.dims(x))

    @property
    def outputs(self) -> tuple[Any, ...]:
        """What tells this node's results from those of others."""
        return (self.fx.name, id(self.fx.graph))

    def unknown(self, x: Any, why: str) -> NoReturn:
        """Refuse what is computed as the model runs."""
        self.refuse(why, "carry tensors of a fixed number of dimensions")


def target_name(target: Any) -> str:
    """`aten.add.Tensor` of torch.ops.aten.add.Tensor; the name of a Python function."""
    return str(target) if hasattr(target, "_schema") else getattr(target, "__name__", str(target))


def _number(x: Any, kind: str) -> Any:
    """A number as one of a dtype: integers wrap, as in PyTorch."""
    to = dtype(kind)
    if to.is_bool:
        return bool(x)
    return float(x) if to.is_float else int(x)


def _number_kind(x: Any) -> Any:
    import torch

    if isinstance(x, bool):
        return torch.bool
    is_float = isinstance(x, float) or (isinstance(x, PrimExpr) and x.dtype.is_float)
    return torch.get_default_dtype() if is_float else torch.int64


def _category(kind: Any) -> int:
    if kind.is_floating_point:
        return 2
    return 0 if str(kind) == "torch.bool" else 1


def bound_arguments(fx_node: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Every argument of the operator's schema by its name, defaults filled in."""
    import torch

    schema = fx_node.target._schema.arguments
    found = dict(zip((a.name for a in schema), args, strict=False)) | dict(kwargs)
    for a in schema:
        if a.name not in found:
            value = a.default_value
            kind = isinstance(value, torch.dtype)
            found[a.name] = dtype_of(value, fx_node.name) if kind else value
    return {a.name: found[a.name] for a in schema}
