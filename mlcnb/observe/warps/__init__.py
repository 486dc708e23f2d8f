"""Warps of a kernel and what memory makes of them: coalescing and bank conflicts.

kernels     a lowered kernel: its grid, its blocks, its loads and stores as instructions
requests    what one warp asks for, in order, with the address of each lane
totals      what all warps ask for, counted
lens        one warp and the totals of one kernel, as they are shown

The rules are in `mlcnb.machine.warp`.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {"mlcnb.observe.warps.lens": "WarpRun warp_run"})
