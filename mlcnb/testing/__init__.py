"""What tests, notebooks and exercises check with: references and comparisons."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.testing.evaluate": "evaluate assert_same_results",
        "mlcnb.testing.gallery.example": "gallery",
        "mlcnb.testing.compare": "CompareBeforeAfter",
    },
)
