"""What a program or a file asks for beyond this machine's means is an error that says so.

    with within_means("m.onnx", ModelError):    MemoryError     ->  m.onnx: it takes more memory …
        …                                       RecursionError  ->  m.onnx: it is nested too deep

For work on what others made: models, saved programs, texts. Where a run allocates memory,
`mlcnb.ir.memory` says how much it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mlcnb.core.errors import MLCError


@contextmanager
def within_means(what: str, kind: type[MLCError]) -> Iterator[None]:
    """Inside, running out of memory or of nesting is an error of `kind` about `what`."""
    try:
        yield
    except MemoryError as error:
        raise kind(
            f"{what}: it takes more memory than there is",
            hint="fix open dimensions to smaller sizes, or free memory",
        ) from error
    except RecursionError as error:
        raise kind(
            f"{what}: it is nested too deep",
            hint="split it: bind parts of deep expressions to variables, or export it in parts",
        ) from error
