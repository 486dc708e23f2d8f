"""Traits: what a declaration lets passes know of its operator. None of them is asked by its name.

    class Relu(…):  elementwise = finite = idempotent = True            SinkReshape, ConvertLayout,
                                                                        SimplifyOps ask `called(x)`

A trait that depends on attributes or arguments is a method; each has the answer that is always
right, so that an operator of which nothing is said stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, ClassVar

from mlcnb.arith import simplify
from mlcnb.core.errors import ArgumentError
from mlcnb.core.node import walk
from mlcnb.core.text import suggestion
from mlcnb.ir.expr import Var as ScalarVar
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax.expr import Call, Var

#: the order in which dimensions lie: (0, 2, 3, 1) of NCHW is NHWC
Order = tuple[int, ...]


class Readable:
    """Attributes read by their names, as those of TVM: `call.attrs["axis"]`, `attrs.get_int(…)`."""

    __slots__ = ()
    #: the names of the attributes, in order
    node_fields: ClassVar[tuple[str, ...]]

    def keys(self) -> list[str]:
        """The names."""
        return list(self.node_fields)

    def __getitem__(self, name: str) -> Any:
        """One attribute.

        Raises:
            ArgumentError: there is none of that name.
        """
        if name not in self.node_fields:
            raise ArgumentError(
                f"{type(self).__name__} has no attribute {name!r}",
                hint=suggestion(name, self.node_fields),
            )
        return getattr(self, name)

    def get_int(self, name: str) -> int:
        """One attribute that is a number."""
        return int(self[name])

    def get_int_tuple(self, name: str) -> tuple[int, ...]:
        """One attribute that is several numbers."""
        return tuple(map(int, self[name]))

    def get_str(self, name: str) -> str:
        """One attribute as text."""
        return str(self[name])


class Traits(Readable):
    """Base of `OpDecl`: each trait, with what holds of any operator."""

    __slots__ = ()
    #: False for operators with effects or randomness
    pure: ClassVar[bool] = True
    #: of one that is not pure: its effect is new memory, which nobody sees, so it may stand in pure
    #: functions; still no pass merges, moves or drops it
    allocates: ClassVar[bool] = False
    #: True where two arguments may change places
    commutative: ClassVar[bool] = False
    #: each element of the result depends on the elements at its own place alone
    elementwise: ClassVar[bool] = False
    #: and is finite where they are, unless it is too large
    finite: ClassVar[bool] = False
    #: of one that works on channels in blocks: what fills up the last block would be seen
    sees_filling: ClassVar[bool] = False
    #: the result is the first argument's memory, seen in another shape
    view: ClassVar[bool] = False
    #: each element of the result is one of the first argument, or of the tensors that it is a tuple
    #: of: by its place, or as the largest of some; so what rounds or scales comes before or after
    moves: ClassVar[bool] = False
    #: of one that moves: zeros are put where there is no element
    fills: ClassVar[bool] = False
    #: it lays out what it is given for what reads it: of constants that is done once, however much
    #: larger they become
    prepares: ClassVar[bool] = False
    #: the number n for which `x op n` is x; for a commutative operator `n op x` too
    neutral: ClassVar[float | None] = None
    #: of one argument: what it gives, it leaves as it is
    idempotent: ClassVar[bool] = False
    #: of two arguments: constant c -> (scale, shift) where `x op c` is x * scale + shift
    line: ClassVar[Callable[[Any], tuple[Any, Any]] | None] = None
    #: nearly all of its work are sums of products: of half precision, they are sums of float32
    product: ClassVar[bool] = False
    #: a product whose operands may be rounded to half precision before
    rounds: ClassVar[bool] = False
    #: it computes in half precision where its arguments are of that; others want float32 back
    follows: ClassVar[bool] = False
    #: floating-point operations for each element of the first argument, a transcendental function
    #: counted as one; None where `flops` counts in another way, or nobody does
    cost: ClassVar[int | None] = None

    def flops(self, *args: Any) -> Any:
        """Floating-point operations of one call, from struct infos; None where not counted."""
        if self.cost is None or args[0].dims is None:
            return None
        known = [(as_int(d), d) for d in args[0].dims]
        count: Any = prod((d if n is None else n for n, d in known), start=self.cost)
        if isinstance(count, int):
            return count
        return simplify(count, {v: (0, None) for v in walk(count) if isinstance(v, ScalarVar)})

    def simplified(self, call: Call, value_of: Callable[[Any], Any]) -> Any:
        """What a call of it says in fewer words: an expression, of calls perhaps; None where it
        stays. value_of: from a variable to what it is bound to.
        """
        return None

    def for_inference(self, call: Call, emit: Callable[[Any], Var]) -> Any:
        """A call of it in smaller operators, which fold and fuse better; None where it stays.
        emit: binds a value that is used twice.
        """
        return None

    def for_training(self, call: Call, emit: Callable[[Any], Var]) -> Any:
        """As `for_inference`, of operators that have a gradient."""
        return None

    @property
    def is_measured(self) -> bool:
        """Whether a result whose size depends on data is made as `Measured` says."""
        return False

    def is_elementwise(self, *args: Any) -> bool:
        """Whether it is elementwise on arguments of these struct infos."""
        return self.elementwise

    def in_order(self, order: Order) -> tuple[Any, Any] | None:
        """The attributes that mean the same where the dimensions of the first argument, or of the
        tensors in it, lie in an order, and the order of the result (a list of them, or None, for
        the fields of a tuple). None: it takes them in their own order.
        """
        return None

    def in_blocks(self, layout: str) -> Any:
        """The attributes for images (N, C, H, W) with channels in blocks, `layout` "NCHW16c", which
        the result has too. None: it takes no blocks.
        """
        return None

    def is_batched(self, *args: Any) -> bool:
        """Whether a product multiplies samples with samples, by the struct infos of its arguments;
        else the second argument is a weight, the same for all of them.
        """
        return False

    def clamps(self, *args: Any) -> tuple[float, float] | None:
        """(low, high), where the result is min(max(x, low), high) of the first argument."""
        return None


class Measured:
    """Of a result whose size depends on data: loops that find the sizes, and loops that then make
    it. A declaration that is one of these has them in place of `compute`.
    """

    __slots__ = ()

    @property
    def is_measured(self) -> bool:
        """False of attributes by which no size depends on data: then `compute` has the loops."""
        return True

    def measure(self, *args: Any) -> Any:
        """Tensor expressions: what `fill` reads, and last one of one dimension, int64, of the sizes
        that only a run knows.
        """
        raise NotImplementedError

    def fill(self, sizes: Any, found: Any, *args: Any) -> Any:
        """The result, or a tuple of them, by its sizes and by what else `measure` found."""
        raise NotImplementedError
