"""lrn: a window along channels that lie in blocks (local response normalisation).

for n, h, w, cb, c in …:                        for n_h in T.parallel(…):
    one[n, h, w, cb, c] = x[…] ** 2                 for w in range(55):
for n, cb, h, w, c, r in …:              ->             for cb: one[cb, 0:16] = x[…] ** 2
    s[n, cb, h, w, c] += one[…, c + r]                  for cb:
for n, cb, h, w, c in …:                                    acc = sum of 5 vectors of `one`
    y[…] = x[…] / f(s[…])                                   y[…] = x[…] / f(acc)

The squares of one place, all its channels, are a few hundred bytes, which stay in the first cache;
a window is a sum of vectors that begin one element after the other.
"""

from __future__ import annotations

from mlcnb.dlight.cpu.blocked_window import fuse_epilogue, is_blocked_window
from mlcnb.dlight.cpu.elementwise import spread
from mlcnb.dlight.survey import Survey
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule


def lrn(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to a sum over a window of channels, of what another block lays side by side."""
    anchor = survey.anchor
    lanes = target.lanes("float32")
    if anchor is None or not is_blocked_window(anchor, lanes) or len(anchor.reduced()) != 1:
        return False
    before, after = survey.before(anchor), survey.after(anchor)
    if len(before) != 1 or before[0].kinds != "SSSSS" or before[0].extents[4] != lanes:
        return False
    if not after or any(b.spatial() != anchor.spatial() or not b.is_spatial for b in after):
        return False
    last = fuse_epilogue(sch, anchor, after)
    n, oc, oh, ow, c, window = sch.get_loops(anchor.handle)
    sch.reorder(n, oh, ow, oc, window, c)
    sch.reverse_compute_at(last, oc)
    sch.compute_at(before[0].handle, ow)
    start = sch.decompose_reduction(anchor.handle, window)
    for block in (before[0].handle, start, anchor.handle, last):
        sch.vectorize(sch.get_loops(block)[-1])
    sch.unroll(window)
    spread(sch, [n, oh], anchor.work)
    return True
