"""What PyTorch refuses to export, as errors of ours.

    if x.sum() > 0: …       only a run knows which way is taken: an UnsupportedError with the line
    Dim("n"), but x[12]     a size that the model fixes: one with PyTorch's words

What a model raises by itself, as eager PyTorch does too, comes as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mlcnb.core.errors import UnsupportedError
from mlcnb.relax.frontend.torch.node import users_line


@contextmanager
def refusals(model: Any) -> Iterator[None]:
    """While it is entered, errors of the exporter about the model become ours.

    Raises:
        UnsupportedError: naming the model, the line where it is known, and what to do.
    """
    from torch._dynamo.exc import TorchDynamoException
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
    )
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    elements = (
        GuardOnDataDependentSymNode, DataDependentOutputException, DynamicOutputShapeException,
    )  # fmt: skip
    name = type(model).__name__
    try:
        yield
    except elements as error:
        found = users_line(str(error))
        where = "" if found is None else f" at {found[0]}"
        asked = str(error).strip().partition("\n")[0]
        raise UnsupportedError(
            f"{name}: PyTorch does not export it: what it does{where} depends on elements of a "
            f"tensor: {asked}",
            hint="torch.where or torch.cond for an if, or torch.compile(model, backend='mlcnb'), "
            "which leaves such places to Python",
        ) from error
    except TorchDynamoException as error:
        told = str(error).partition("\nThe error above occurred when")[0].strip()
        raise UnsupportedError(
            f"{name}: PyTorch does not export it: {told}",
            hint="change the model, or the dynamic_shapes that were given",
        ) from error
