"""What all tests share: a cache of their own, so that none of them reads or fills the user's."""

from __future__ import annotations

import os
import tempfile

os.environ.setdefault("MLCNB_CACHE_DIR", os.path.join(tempfile.gettempdir(), "mlcnb-tests"))

from hypothesis import settings

# in CI the same examples every time; at home new ones, which find new bugs
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("home", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "home")
