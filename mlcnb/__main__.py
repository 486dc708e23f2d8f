"""`python -m mlcnb` is the `mlcnb` command."""

from __future__ import annotations

import sys

from mlcnb.cli import main

if __name__ == "__main__":
    sys.exit(main())
