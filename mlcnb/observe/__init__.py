"""What a program does, looked at: one function and one type of result for each question.

accesses(f, cache="32K/8way")   every access through a model of caches, played (`AccessReplay`)
access_counts(f)                the same of any length, counted and not kept (`AccessCounts`)
warp_lens(kernel)               what each warp of a GPU asks of memory (`WarpLens`)
gpu_report(kernel)              races, bounds, occupancy and a predicted time on a GPU (`GpuReport`)
replay(sch)                     a schedule's programs one after the other, timed (`Replay`)
benchmark(f, *args), peak()     calls timed in turns (`Benchmark`), what a core could do
roofline()                      how fast this machine can be (`Roofline`)
calibrate()                     what a core does in a cycle (`Measured`)
compare(model, x)               another library on the same model (`Comparison`)
doctor()                        what this machine has, and what is missing (`Diagnosis`)
image                           photos in, class names out

`choice` is a pass that measures, `magics` what a cell of a notebook asks for.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.widgets.access": "accesses",
        "mlcnb.observe.counts": "access_counts",
        "mlcnb.widgets.warp": "warp_lens",
        "mlcnb.observe.gpu": "gpu_report",
        "mlcnb.observe.replay": "replay",
        "mlcnb.observe.benchmark": "benchmark peak",
        "mlcnb.observe.ceilings": "calibrate roofline",
        "mlcnb.observe.peers": "compare",
        "mlcnb.observe.diagnosis": "doctor",
    },
    submodules=("image",),
)
