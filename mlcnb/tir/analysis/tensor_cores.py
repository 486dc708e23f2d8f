"""What a call does on tensor cores, by warps (`ptx_mma`) or warpgroups (`ptx_wgmma`)."""

from __future__ import annotations

import re
from math import prod

from mlcnb.ir import expr as e
from mlcnb.tir.analysis.mma import FORMS, MMA, WARP
from mlcnb.tir.analysis.wgmma import DEPTH, WGMMA, Product


def product_flops(x: e.Call) -> int:
    """A thread's share of a warp's product: `m16n8k16` is 2 * 16 * 8 * 16 by 32 threads; of one of
    a warpgroup, which may be several of 64 x n x 16. Other calls: 0.
    """
    if x.op == WGMMA:
        made = Product.of(x)
        return 2 * made.own * DEPTH * made.count
    if x.op != MMA:
        return 0
    sizes = re.findall(r"\d+", str(getattr(x.args[0], "value", "")))
    return 2 * prod(map(int, sizes)) // WARP


def operands_of(x: e.Call) -> str:
    """What a product multiplies: a dtype, or "tf32", as float32 is taken."""
    if x.op == WGMMA:
        return Product.of(x).dtype
    word = str(getattr(x.args[3], "value", ""))
    kinds = {form.given.word: form.given.dtype for form in FORMS.values() if not form.is_rounded}
    return kinds.get(word, word)
