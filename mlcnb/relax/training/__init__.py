"""What training needs beside `relax.transform.Gradient`; so far the gradients of loop functions."""

from __future__ import annotations

from mlcnb.relax.training import utils

__all__ = ["utils"]
