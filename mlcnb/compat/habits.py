"""Names that people write out of habit, of TVM's older interface or of other libraries, and what to
write here: an AttributeError says it.
"""

from __future__ import annotations

_SEARCH = "mlcnb.tune searches schedules"
_SCHEDULE = "loop programs are scheduled: mlcnb.tir.Schedule(te.create_prim_func([A, B]))"

#: who is asked -> the name -> what to write
INSTEAD: dict[str, dict[str, str]] = {
    "module 'mlcnb'": {
        "relay": "graphs are mlcnb.relax here; mlcnb.from_onnx reads one",
        "autotvm": _SEARCH,
        "auto_scheduler": _SEARCH,
        "lower": "mlcnb.compile(mod) does it all, mlcnb.tir.transform.lower(mod) this part",
        "create_schedule": "mlcnb.tir.Schedule(mod)",
        "load": "mlcnb.from_onnx reads a model, mlcnb.load_module a compiled one",
        "show": "ask the object: mod.show(); mlcnb.explore(mod) is a page",
        "optimize": 'mlcnb.get_pipeline("default")(mod), or mlcnb.compile(mod)',
        "run": "mlcnb.compile(mod)(x)",
        "Schedule": "it is mlcnb.tir.Schedule",
        "PrimFunc": "it is mlcnb.tir.PrimFunc",
        "Target": "it is mlcnb.target.Target",
        "BlockBuilder": "it is mlcnb.relax.BlockBuilder",
        "VirtualMachine": "it is mlcnb.relax.VirtualMachine",
        "PassContext": "it is mlcnb.transform.PassContext",
        "Sequential": "it is mlcnb.transform.Sequential",
        "placeholder": "it is mlcnb.te.placeholder",
        "prim_func": "from mlcnb.script import tir as T: @T.prim_func",
        "ir_module": "from mlcnb.script import ir as I: @I.ir_module",
    },
    "module 'mlcnb.te'": {
        "create_schedule": _SCHEDULE,
        "lower": "te.create_prim_func([A, B])",
        "build": "mlcnb.compile(te.create_prim_func([A, B]))",
    },
    "module 'mlcnb.compat.contrib'": {
        "graph_executor": "mlcnb.compile(mod)(x), or mlcnb.relax.VirtualMachine(ex, mlcnb.cpu())",
    },
    "Schedule": {
        "tile": "two splits and a reorder: sch.split(i, [None, 4]), sch.reorder(…)",
        "cache": "sch.cache_read(block, 0, scope), sch.cache_write(block, 0, scope)",
        "build": "mlcnb.compile(sch)",
        "stages": "sch.steps, sch.get_child_blocks",
        "pragma": "sch.annotate(loop, key, value)",
        "prefetch": 'sch.annotate(loop, "software_pipeline_stage", …)',
        "tune": "mlcnb.tune(func)",
    },
}
