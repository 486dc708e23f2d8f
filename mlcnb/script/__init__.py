"""TVMScript: the text face of both levels. Printer, parser, and the namespaces I, R, T.

print(mod.script())                        text
mlcnb.script.parse(text)                   the object again, structurally equal
from mlcnb.script import ir as I, relax as R, tir as T
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.script.printer": "document script script_with_constants",
        "mlcnb.script.highlight": "show",
        "mlcnb.script.parser.decorators": "ir_module",
        "mlcnb.script.parser": "parse from_source=parse",
    },
    submodules=("ir", "ir_builder", "relax", "tir", "tirx", "printer", "excerpt", "highlight"),
)
__all__ = [*__all__, "text_of"]


def text_of(obj: Any) -> str:
    """The text of any node, for its repr: a program without header lines."""
    from mlcnb.script.printer import script

    return script(obj, header=False)
