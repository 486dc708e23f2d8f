"""The generated code of an executable as text: what `get_source` and `imported_modules` give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.runtime.executable import Executable

#: what a form is called -> the attribute of a kernel that holds it
_FORMS = {"ll": "llvm_ir", "asm": "asm", "s": "asm", "cu": "source", "cuda": "source"}


def source_of(ex: Executable, fmt: str) -> str:
    """The code of all kernels, one after the other; `Executable.get_source` says the forms.

    Raises:
        MLCError: there is no such form of this executable.
    """
    word = fmt or ("ll" if ex.target.is_cpu else "cu")
    found = [getattr(k, _FORMS.get(word, ""), None) for k in ex.kernels.values()]
    if word not in _FORMS or None in found:
        have = ("ll", "asm") if ex.target.kind == "llvm" else ("cu",)
        forms = ", ".join(map(repr, have)) if ex.target.kind != "interp" else "none"
        raise MLCError(
            f"an executable for {ex.target.kind} has no source {word!r}", hint=f"it has {forms}"
        )
    return "\n".join(str(text) for text in found)


@dataclass(frozen=True)
class DevicePart:
    """The kernels for a device inside an executable, by TVM's names.

    kind: of the device ("cuda"); text: their source.
    """

    kind: str
    text: str

    @property
    def type_key(self) -> str:
        """`kind`, by TVM's older name."""
        return self.kind

    def get_source(self, fmt: str = "") -> str:
        """The source, in the one form that there is.

        Raises:
            MLCError: another form is asked for.
        """
        if fmt and _FORMS.get(fmt) != "source":
            raise MLCError(f"a part for {self.kind} has no source {fmt!r}", hint='it has "cu"')
        return self.text

    inspect_source = get_source


def device_parts(ex: Executable) -> list[Any]:
    """A part for the device that an executable has kernels for; none where that is the CPU."""
    return [] if ex.target.is_cpu else [DevicePart(str(ex.target.kind), source_of(ex, "cu"))]
