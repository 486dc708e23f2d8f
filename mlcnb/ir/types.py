"""Types by TVM's names: of a scalar, a pointer, a tuple.

    PrimType("int32")    PointerType(PrimType("float32"), "shared")    TupleType([PrimType("int8")])

Here dtypes and the `pointee` of a variable say what these say; TVM's programs ask for them as
`var.type_annotation`.
"""

from __future__ import annotations

from mlcnb.core.node import Node, node
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.structural import structural_equal, structural_hash


class Type(Node):
    """Base of the types; two that say the same are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return structural_equal(self, other)

    def __hash__(self) -> int:
        return structural_hash(self)


@node
class PrimType(Type):
    """A scalar or vector of a dtype."""

    dtype: DType

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", dtype(str(self.dtype)))


@node
class PointerType(Type):
    """A pointer to elements in a memory scope."""

    element_type: Type
    storage_scope: str = "global"


@node
class TupleType(Type):
    """Several values."""

    fields: tuple[Type, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
