"""What an operator's function says of itself is read off its declaration."""

from __future__ import annotations

import pytest

from mlcnb import relax, tir
from mlcnb.core.errors import OperatorArgumentError, ScheduleError
from mlcnb.testing.gallery.programs import matmul


def test_an_operator_tells_its_arguments_and_what_it_refuses():
    assert relax.op.concat.__doc__ == (
        "The tensors one after another along `axis` (None: all flattened first).\n"
        "\n"
        "Semantics: https://numpy.org/doc/stable/reference/generated/numpy.concatenate.html\n"
        "\n"
        "Args:\n"
        "    tensors: a tuple of tensors.\n"
        "    axis: int | None, by default 0.\n"
        "\n"
        "Raises:\n"
        "    OperatorArgumentError: arguments of another number, name or kind.\n"
        "    TypeInferError: shapes or dtypes that do not go together, once the call is typed."
    )
    with pytest.raises(OperatorArgumentError, match="no argument 'by'"):
        relax.op.concat([], by=3)


def test_a_primitive_tells_what_it_refuses():
    assert tir.Schedule.get_loops.__doc__ == (
        "The loops around a block, outermost first, up to the block that holds it.\n"
        "\n"
        "Loops of extent 1 are among them; `sch.get(loop).extent` may be an expression of symbolic "
        "sizes.\n"
        "\n"
        "Raises:\n"
        "    ScheduleError: `block` is no block; a handle whose block or loop a step took away."
    )
    sch = tir.Schedule(matmul(8, 8, 8))
    i, j, _ = sch.get_loops("C")
    with pytest.raises(ScheduleError, match="get_loops: .* is no block"):
        sch.get_loops(i)
    sch.fuse(i, j)
    with pytest.raises(ScheduleError, match=r"loop i is no more: step 1 \(fuse\) took it"):
        sch.unroll(i)
