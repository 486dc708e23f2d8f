"""What all tests share: a cache of their own, so that none of them reads or fills the user's."""

from __future__ import annotations

import os
import tempfile

os.environ.setdefault("MLCNB_CACHE_DIR", os.path.join(tempfile.gettempdir(), "mlcnb-tests"))
