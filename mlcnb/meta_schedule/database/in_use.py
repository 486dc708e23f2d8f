"""The databases of the `with` blocks that are open; asking for them imports nothing else."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlcnb.meta_schedule.database.database import Database

databases: ContextVar[tuple[Database, ...]] = ContextVar("databases", default=())


def current() -> Database | None:
    """The database of the innermost `with`, or None."""
    stack = databases.get()
    return stack[-1] if stack else None
