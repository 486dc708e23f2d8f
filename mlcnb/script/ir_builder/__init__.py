"""IRBuilder: programs built by calls, frame by frame, where a text would be in the way.

with IRBuilder() as ib:                                   @T.prim_func
    with T.prim_func():                                   def main(A: T.Buffer((8,), "float32")):
        T.func_name("main")                                   for i in range(8):
        A = T.arg("A", T.Buffer((8,), "float32"))     ->          with T.block("A"):
        with T.serial(8) as i:                                        v = T.axis.spatial(8, i)
            with T.block("A"):                                        A[v] = T.float32(0.0)
                v = T.axis.spatial(8, i)
                T.buffer_store(A, 0.0, [v])
func = ib.get()

`from mlcnb.script.ir_builder import tir as T` has the words of a loop program, `relax as R` of a
graph, `ir as I` of a module.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.script.ir_builder.builder": "IRBuilder",
        "mlcnb.script.ir_builder.ir": "ir_module module_attrs",
    },
    submodules=("ir", "relax", "tir"),
)
