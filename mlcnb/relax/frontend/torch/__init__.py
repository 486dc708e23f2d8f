"""PyTorch models as IRModules, and mlcnb as a backend of torch.compile.

mod = from_exported_program(torch.export.export(model, (x,)))
mod = from_torch(model, (x,))                  exports first; the name `mlcnb.from_torch`
torch.compile(model, backend="mlcnb")(x)
coverage()                                     which ATen operators are imported
"""

from __future__ import annotations

import sys

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.relax.frontend.torch.entry": "from_exported_program from_torch from_fx coverage",
        "mlcnb.relax.frontend.torch.dynamo": (
            "relax_dynamo dynamo_capture_subgraphs register_backend"
        ),
    },
)

if "torch" in sys.modules:  # an installed mlcnb is found by its entry point, a checkout is not
    from mlcnb.relax.frontend.torch.dynamo import register_backend as _register

    _register()
