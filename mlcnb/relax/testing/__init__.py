"""What tests of graph programs share: TVM's `relax.testing`.

vm                  packed functions `test.vm.…`, and `check_saved_func`
nn                  modules that emit into the current BlockBuilder: Placeholder, Parameter, Linear
transform           what may be written in place, as questions about one dataflow block
runtime_builtin     the codes of VMShapeLower's checks and shapes
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {},
    submodules=("nn", "runtime_builtin", "transform", "vm"),
)
