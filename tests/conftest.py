"""What all tests share: a cache of their own, and a sample of the slow ones where time is short.

MLCNB_SLOW=4 runs one in four of the tests that are marked `slow`, the same ones each time; those
that draw their input all run, with a quarter of the examples. Without it all run.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import zlib
from collections.abc import Iterator

os.environ.setdefault("MLCNB_CACHE_DIR", os.path.join(tempfile.gettempdir(), "mlcnb-tests"))

import pytest
from hypothesis import is_hypothesis_test, settings

import mlcnb

# in CI the same examples every time; at home new ones, which find new bugs
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("home", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "home")

#: where hypothesis keeps the settings of a test
_SETTINGS = "_hypothesis_internal_use_settings"
#: of so many slow tests one is run
ONE_IN = max(1, int(os.environ.get("MLCNB_SLOW") or 1))


def pytest_report_header() -> list[str]:
    """Says which tests are left out."""
    return [f"slow tests: one in {ONE_IN}; MLCNB_SLOW=1 runs them all"] if ONE_IN > 1 else []


def pytest_collection_modifyitems(config, items) -> None:
    """Leaves out slow tests, by a number that is made of their names, or examples of them."""
    slow = [item for item in items if item.get_closest_marker("slow")]
    draws = {item.function for item in slow if is_hypothesis_test(item.function)}
    for test in draws if ONE_IN > 1 else ():
        given = getattr(test, _SETTINGS, settings())
        setattr(test, _SETTINGS, settings(given, max_examples=-(-given.max_examples // ONE_IN)))
    out = [item for item in slow if item.function not in draws and not _drawn(item.nodeid)]
    if out:
        config.hook.pytest_deselected(items=out)
        left = set(out)
        items[:] = [item for item in items if item not in left]


def pytest_runtest_setup(item) -> None:
    """Skips what needs a GPU where there is none."""
    if item.get_closest_marker("gpu") and not mlcnb.cuda(0).exist:
        pytest.skip("no CUDA GPU, or CuPy is not installed")


@pytest.fixture
def own_pipelines() -> Iterator[None]:
    """Takes back the pipelines that a test registers: messages name all that there are."""
    given = importlib.import_module("mlcnb.relax.transform.given").GIVEN
    before = dict(given)
    yield
    given.clear()
    given.update(before)


def _drawn(name: str) -> bool:
    return zlib.crc32(name.encode()) % ONE_IN == 0
