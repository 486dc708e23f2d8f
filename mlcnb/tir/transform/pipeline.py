"""TVM's names for the lowering of loop functions as a pass on a module.

mod = tir.get_tir_pipeline("default")(mod)
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.ir.transform import PrimFuncPass, Sequential
from mlcnb.tir.transform.lower import lower


class StandardLowering(PrimFuncPass):
    """Lower loop functions to flat buffers, by the passes that compilers run."""

    #: with `steps=True` it shows what each pass does
    work = staticmethod(lower)


def get_tir_pipeline(name: str = "default", **options: Any) -> Sequential:
    """The pipeline of that name, as one pass.

    Raises:
        PassError: there is no such pipeline, or an option was given: "default" has none.
    """
    if name != "default":
        raise PassError(
            f"no pipeline {name!r} for loop functions",
            hint='"default", or tir.transform.lower, which shows each step',
        )
    if options:
        raise PassError(
            f"the pipeline 'default' has no option {', '.join(options)}",
            hint="PassContext(config=...) has the options of single passes",
        )
    return Sequential([StandardLowering()], name=name)


def get_default_tir_pipeline(target: Any = None) -> Sequential:
    """The pipeline of a target: one lowering serves all that code is made for here."""
    return get_tir_pipeline("default")
