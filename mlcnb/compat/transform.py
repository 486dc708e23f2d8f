"""What runs over a module: `tvm.transform` by TVM's name, with what records a run beside it."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.ir.transform": (
            "Pass PassInfo PassContext Sequential ModulePass FunctionPass PrimFuncPass "
            "module_pass function_pass prim_func_pass "
            "register_config list_configs"
        ),
        "mlcnb.ir.apply_pass": "ApplyPassToFunction",
        "mlcnb.ir.instrument": (
            "PassInstrument pass_instrument PassTimingInstrument PrintBeforeAll PrintAfterAll "
            "PassPrintingInstrument DumpIR WellFormedInstrument PassTrace PassStep PrintIR trace"
        ),
    },
)
