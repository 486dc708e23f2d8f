"""Files that appear whole or not at all.

with replacing(Path("model.tar")) as part:     writes model.tar.XXXX.part beside it,
    write(part)                                which takes its place at the end, or goes
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path beside `target` to write to; it becomes `target` if nothing goes wrong.

    Raises:
        OSError: the folder is not there, or cannot be written to.
    """
    part = target.with_name(f"{target.name[:200]}.{secrets.token_hex(4)}.part")
    try:
        yield part
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
