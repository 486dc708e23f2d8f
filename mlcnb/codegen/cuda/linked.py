"""A kernel for a GPU in all its forms, and which lines of them belong together.

    found = CudaLinked(kernel)
    found.lowered.lines[12]          "        A_shared_1[ax0 * 33 + ax1] = A_1[…]"
    found.cuda.links[9]              {13}: lines of the lowered program count from 1
    found.ptx.links[40]              {13}; None where NVRTC is not installed
    found.sass.links[25]             {13}; None where nvdisasm is not installed

As for a CPU (`mlcnb.codegen.llvm.linked`) the lowered program is what all links go through. The
writer of the CUDA C++ says which statement each line is for, and NVRTC which line of it each
instruction of the PTX came of, and each of the machine code.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from mlcnb.codegen.cuda.backend import CudaKernel, identifier
from mlcnb.codegen.cuda.emit.kernel import CudaSource, emit_kernel, whole_text
from mlcnb.codegen.cuda.nvrtc import compile_text
from mlcnb.codegen.cuda.sass import disassemble
from mlcnb.codegen.llvm.linked import Form, ProgramForms
from mlcnb.core import display
from mlcnb.core.errors import CodegenError, MissingDependencyError
from mlcnb.core.node import walk
from mlcnb.core.render import Text
from mlcnb.tir import stmt as s
from mlcnb.tir.transform.split_host_device import split_host_device


class CudaLinked(ProgramForms):
    """The forms of a kernel that the cuda backend made. All is made when first asked for."""

    kernel: CudaKernel

    @cached_property
    def _sources(self) -> list[CudaSource]:
        _, kernels = split_host_device(self.func, identifier(self.kernel.name))
        return [emit_kernel(kernel, symbol) for symbol, kernel in kernels.items()]

    @property
    def is_exact(self) -> bool:
        """Whether the text is that of the kernel, to the last character."""
        return whole_text(self._sources) == self.kernel.source

    @cached_property
    def cuda(self) -> Form:
        """The CUDA C++."""
        text = whole_text(self._sources)
        lines = text.rstrip("\n").split("\n")
        links: list[frozenset[int]] = [frozenset()] * len(lines)
        for source in self._sources:
            begin = text[: text.index(source.text)].count("\n")
            for n, made in enumerate(source.made):
                links[begin + n] = frozenset(self._lines.get(id(made), ()))
        return Form([[Text(line)] for line in lines], tuple(links))

    @cached_property
    def _lines(self) -> dict[int, set[int]]:
        """Of each statement, and variable of a thread axis, the lowered line where it begins."""
        page, found = self.page, {}
        for n in walk(self.func.body):
            where = page.places.get(id(n))
            if not where:
                continue
            found[id(n)] = {min(where)[0]}
            if isinstance(n, s.AttrStmt) and isinstance(n.node, s.IterVar):
                found[id(n.node.var)] = {min(where)[0]}
        return found

    @property
    def ptx(self) -> Form | None:
        """The PTX of the target's architecture; None where it cannot be compiled (`silent`)."""
        return self._tried["PTX"][0]

    @property
    def sass(self) -> Form | None:
        """Its machine code; None where nobody can make or read it (`silent`)."""
        return self._tried["SASS"][0]

    @property
    def silent(self) -> dict[str, str]:
        """Of PTX and SASS that are not there, why."""
        return {name: why for name, (form, why) in self._tried.items() if form is None}

    @cached_property
    def _tried(self) -> dict[str, tuple[Form | None, str]]:
        """PTX and SASS, each with why it is not there."""
        found: dict[str, tuple[Form | None, str]] = {}
        for name, make in (("PTX", self._located_ptx), ("SASS", self._located_sass)):
            try:
                lines, places = make()
                found[name] = Form([[Text(line)] for line in lines], self._through(places)), ""
            except (MissingDependencyError, CodegenError) as error:
                found[name] = None, error.message.splitlines()[0]
        return found

    def _through(self, places: Sequence[int]) -> tuple[frozenset[int], ...]:
        """Lines of the lowered program, by way of lines of the CUDA C++ (0: none)."""
        links = self.cuda.links
        return tuple(links[n - 1] if 0 < n <= len(links) else frozenset() for n in places)

    def _located_ptx(self) -> tuple[list[str], list[int]]:
        return compile_text(self.kernel.source, self.kernel.arch).located_ptx

    def _located_sass(self) -> tuple[list[str], list[int]]:
        lines: list[str] = []
        places: list[int] = []
        found = disassemble(self.kernel.binary.located_cubin)
        for name in self.kernel.sources:
            lines += (f"{name}:", *found[name].lines)
            places += (0, *found[name].places)
        return lines, places

    def __repr__(self) -> str:
        return display.text(self)
