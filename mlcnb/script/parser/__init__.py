"""The parser: TVMScript text, through Python's `ast`, to the IR. Nothing of the text is executed.

`parse(text)` reads a module or function from a string; the decorators of `I`, `R` and `T` read the
source of what they decorate. Both spellings (TVM 0.21 and 0.27) are read.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.script.parser.entry": "parse from_source=parse",
        "mlcnb.script.parser.source": "SourceError",
        "mlcnb.script": "ir relax tir",
    },
    submodules=("core",),
)
