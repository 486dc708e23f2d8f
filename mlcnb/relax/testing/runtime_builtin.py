"""The codes that `vm.builtin.match_shape` and `vm.builtin.make_shape` take, as TVM numbers them."""

from __future__ import annotations

from enum import IntEnum


class MatchShapeCode(IntEnum):
    """What is done with one dimension; the number after it is a value, or a place in the heap."""

    ASSERT_EQUAL_TO_IMM = 0
    STORE_TO_HEAP = 1
    NO_OP = 2
    ASSERT_EQUAL_TO_LOAD = 3


class MakeShapeCode(IntEnum):
    """Where one dimension comes from: the number after the code, or that place in the heap."""

    USE_IMM = 0
    LOAD_SHAPE = 1
