"""`relax.op.add`, `relax.op.nn.relu`, …: the operators as functions that make calls.

They are derived from the declarations in `mlcnb.op`, which lies above this package and is loaded
when the first of them is used.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core import display

_NAMESPACE = "mlcnb.op.namespace:namespace"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(display.load(_NAMESPACE), name)


def __dir__() -> list[str]:
    return dir(display.load(_NAMESPACE))
