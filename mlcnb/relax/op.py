"""`relax.op.add`, `relax.op.nn.relu`, …: the operators as functions that make calls.

They are derived from the declarations in `mlcnb.op`, which lies above this package and is loaded
when the first of them is used.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core import above

__path__: list[str] = []  # TVM's `relax.op` is a package: `relax.op.base` is found
#: ways of calling that no declaration stands behind; in programs they are written with R
_CALLS = (
    "call_builtin_with_ctx call_inplace_packed call_py_func call_tir_with_grad invoke_closure "
    "invoke_pure_closure make_closure null_value"
).split()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _CALLS:
        return above.ask("relax.op calls")(name)
    return getattr(above.ask("relax.op"), name)


def __dir__() -> list[str]:
    return sorted([*dir(above.ask("relax.op")), *_CALLS])
