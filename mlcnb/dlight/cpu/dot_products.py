"""Instructions that sum some products of narrow values at once, by what a target has.

| values | sums | AVX-512 | AVX | NEON |
| --- | --- | --- | --- | --- |
| four of uint8, int8 | int32 | vpdpbusd | vpdpbusd, vpmaddwd | usdot, sdot |
| two of bfloat16 | float32 | vdpbf16ps | | |

`dot` has the same values on the left for all sums of a vector, `taps` others for each.
"""

from __future__ import annotations

from typing import Any

from mlcnb.dlight.survey import BlockInfo
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule


def instruction(kind: str, target: Target, values: str = "uint8") -> str | None:
    """The tensor intrinsic for sums of products of `values`; None where the target has none."""
    lanes, have = target.lanes("int32"), target.features
    if values == "bfloat16":
        return f"{kind}_{lanes}x2_bf16" if lanes >= 8 and target.sums_pairs(values) else None
    if (lanes == 16 and "avx512vnni" in have) or (lanes == 8 and "avxvnni" in have):
        return f"{kind}_{lanes}x4_vnni"
    if lanes == 4 and "i8mm" in have:
        return f"{kind}_4x4_usdot"
    if lanes == 4 and "dotprod" in have:
        return f"{kind}_4x4_shifted_sdot"
    return f"{kind}_8x4_avx2" if lanes == 8 and "avx2" in have else None


def use_instruction(
    sch: Schedule, anchor: BlockInfo, lanes: Any, kind: str, target: Target
) -> None:
    """The loops over a vector's sums and the products of each, as the target can do them."""
    data = anchor.node.reads[0].buffer.dtype
    name = instruction(kind, target, "bfloat16" if data == "bfloat16" else "uint8")
    if name is None:
        sch.vectorize(lanes)
    else:
        sch.tensorize(lanes, name)
