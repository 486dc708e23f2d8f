"""Training: losses, optimizers, and what puts them around a model. TVM's `relax.training`.

loss        L1Loss, MSELoss, CrossEntropyLoss, CategoricalCrossEntropyLoss: graph functions
optimizer   SGD, MomentumSGD, Adam: graph functions from parameters and gradients to parameters
utils       AppendLoss: a model and its loss as one function; register_te_gradient
SetupTrainer, Trainer    a module with all of it, and what runs it
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

_HERE = "mlcnb.relax.training"

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        f"{_HERE}.setup_trainer": "SetupTrainer",
        f"{_HERE}.trainer": "Trainer",
        f"{_HERE}.utils": "AppendLoss",
    },
    submodules=("loss", "optimizer", "setup_trainer", "trainer", "utils"),
)
