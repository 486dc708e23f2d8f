"""What all tests share: a cache of their own, and a sample of the slow ones where time is short.

MLCNB_SLOW=4 runs one in four of the tests that are marked `slow`, the same ones each time;
without it all run.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import zlib

os.environ.setdefault("MLCNB_CACHE_DIR", os.path.join(tempfile.gettempdir(), "mlcnb-tests"))

import pytest
from hypothesis import settings

import mlcnb

# in CI the same examples every time; at home new ones, which find new bugs
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("home", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "home")

#: of so many slow tests one is run
ONE_IN = max(1, int(os.environ.get("MLCNB_SLOW") or 1))


def pytest_report_header() -> list[str]:
    """Says which tests are left out."""
    return [f"slow tests: one in {ONE_IN}; MLCNB_SLOW=1 runs them all"] if ONE_IN > 1 else []


def pytest_collection_modifyitems(config, items) -> None:
    """Leaves out slow tests, by a number that is made of their names."""
    out = [item for item in items if item.get_closest_marker("slow") and not _drawn(item.nodeid)]
    if out:
        config.hook.pytest_deselected(items=out)
        left = set(out)
        items[:] = [item for item in items if item not in left]


def pytest_runtest_setup(item) -> None:
    """Skips what needs a GPU where there is none."""
    if item.get_closest_marker("gpu") and not mlcnb.cuda(0).exist:
        pytest.skip("no CUDA GPU, or CuPy is not installed")


@pytest.fixture
def own_pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes back the pipelines that a test registers: messages name all that there are."""
    registry = importlib.import_module("mlcnb.relax.transform.pipeline")
    monkeypatch.setattr(registry, "_pipelines", dict(registry._pipelines))


def _drawn(name: str) -> bool:
    return zlib.crc32(name.encode()) % ONE_IN == 0
