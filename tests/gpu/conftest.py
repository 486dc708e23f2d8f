"""A machine may lack what a default schedule is proved by: such tests say so, and are skipped."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from mlcnb.core.errors import MissingDependencyError


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Skips where a dependency is missing that this very program needs."""
    try:
        return (yield)
    except MissingDependencyError as error:
        pytest.skip(str(error))
