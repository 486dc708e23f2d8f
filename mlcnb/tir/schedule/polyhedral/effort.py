"""A bound on the work that isl may do for one question.

with effort(200_000):
    ...                       raises Undecided when isl has made that many operations
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: isl operations for a step that is asked to be proved (a few seconds)
PATIENT = 20_000_000
#: isl operations for a second opinion on a refusal (about a tenth of a second)
QUICK = 150_000
#: isl operations for one loop that is marked as parallel (about a quarter of a second): threads
#: that fetch a tile which they do not divide need more than `QUICK`
LOOP = 1_000_000


class Undecided(Exception):
    """The question was not answered; says why."""


class NotAffine(Undecided):
    """The program, or a part of it that matters, is not affine; says what."""


_local = threading.local()


def context() -> Any:
    """This thread's isl context: its sets and maps stay in the thread that made them."""
    if not hasattr(_local, "context"):
        import islpy

        _local.context = islpy.Context()
        _local.depth = 0
    return _local.context


@contextmanager
def effort(operations: int) -> Iterator[None]:
    """Let isl make so many operations inside the `with` block; the outermost bound counts.

    Raises:
        Undecided: it would take more.
    """
    import islpy

    ctx = context()
    if _local.depth:
        yield
        return
    _local.depth = 1
    ctx.reset_operations()
    ctx.set_max_operations(operations)
    try:
        yield
    except islpy.Error as error:
        if not _is_spent(error):
            raise
        raise Undecided(f"it takes isl more than {operations:,} operations") from None
    finally:
        _local.depth = 0
        ctx.set_max_operations(0)
        ctx.reset_operations()
        ctx.resume()


def _is_spent(error: Exception) -> bool:
    """True if it was the bound: isl says so, or (where its parser met it) says so when asked
    again.
    """
    import islpy

    if "maximal number of operations" in str(error):
        return True
    try:
        islpy.Set.read_from_str(context(), "{ [i] : 0 <= i < 2 }")
    except islpy.Error as again:
        return "maximal number of operations" in str(again)
    return False
