"""A kernel for a GPU line by line: what became of each line of its lowered program.

Linked source of main: 57 of 66 instructions of the PTX have a line; sm_70
  line  lowered program               TensorIR  Python  step  CUDA C++  PTX  SASS
    13  A_shared_1[ax0_0 * 264 + …    17                      10        8    5
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.render import Text
from mlcnb.view.highlight import CUDA, PLAIN, PYTHON, Language, code
from mlcnb.view.parts import Code, Column, Fold, Line, Part, Table, Title, filled, heads
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, listed, plural

#: rows that are shown unfolded
ROWS = 40
#: the forms in the order of the way down: attribute, name, language
FORMS: tuple[tuple[str, str, Language | None], ...] = (
    ("source", "Python", PYTHON),
    ("trace", "Schedule", PYTHON),
    ("scheduled", "TensorIR", None),
    ("lowered", "TensorIR, lowered", None),
    ("cuda", "CUDA C++", CUDA),
    ("ptx", "PTX", PLAIN),
    ("sass", "SASS", PLAIN),
)
#: where a listing is found, if not as `found.name.texts`
SEE = {"cuda": "kernel.source", "ptx": "kernel.ptx", "sass": "kernel.sass"}


@shows("mlcnb.codegen.cuda.linked:CudaLinked")
def linked(x: Any) -> list[Part]:
    """A row for each line of the lowered program, then the listings."""
    parts: list[Part] = [Title(title(x)), *(Line(text, "note") for text in notes(x)), table(x)]
    for name, told, language in FORMS:
        form = getattr(x, name)
        if form is not None:
            listing = (
                Code(form.lines) if language is None else code("\n".join(form.texts), language)
            )
            see = SEE.get(name, f"found.{name}.texts")
            parts.append(Fold(f"{told}: {plural(len(form.lines), 'line')}", [listing], see))
    return parts


def title(x: Any) -> str:
    """How many instructions have a line."""
    name = f"Linked source of {clip(x.kernel.name)}"
    if x.ptx is None:
        return f"{name}: {plural(len(x.cuda.lines), 'line')} of CUDA C++"
    rows = [bool(of) for line, of in zip(x.ptx.texts, x.ptx.links, strict=True) if is_code(line)]
    return (
        f"{name}: {sum(rows)} of {len(rows)} instructions of the PTX have a line; {x.kernel.arch}"
    )


def is_code(line: str) -> bool:
    """Whether a line of PTX is an instruction."""
    text = line.strip()
    return text.endswith(";") and not text.startswith((".", "//"))


def notes(x: Any) -> list[str]:
    """What is to be known of the listings."""
    found = (
        [] if x.is_exact else ["this is not the text of the kernel: it was compiled another way"]
    )
    silent = {why: name for name, why in reversed(x.silent.items())}  # both may have one reason
    return [*found, *(f"no {name}: {clip(why, 200)}" for why, name in silent.items())]


def table(x: Any) -> Table:
    """A row for each line of the lowered program that something belongs to."""
    columns = heads("line: number | lowered program: code")
    columns += [Column(name) for name in ("TensorIR", "Python", "step", "CUDA C++")]
    code = [form for form in (x.ptx, x.sass) if form is not None]
    columns += [Column(name, "number") for name in ("PTX", "SASS") if name not in x.silent]
    rows = []
    for line, text in enumerate(x.lowered.texts, 1):
        told = [_numbers(form, line) for form in (x.scheduled, x.source, x.trace, x.cuda)]
        counts = [sum(line in of for of in form.links) for form in code]
        if any(told) or any(counts):
            numbers = (str(count or "") for count in counts)
            rows.append((str(line), clip(text.strip(), 72), *told, *numbers))
    return filled(columns, rows, ROWS, "mlc.explore(kernel)")


def _numbers(form: Any, line: int) -> str:
    if form is None:
        return ""
    found = [str(form.first + n) for n, of in enumerate(form.links) if line in of]
    return listed(found, 4)


def tokens(form: Any, language: Language | None) -> list[list[Text]]:
    """The lines of a form, coloured."""
    if language is None:
        return [list(line) for line in form.lines]
    return [list(language.tokens(text)) for text in form.texts]
