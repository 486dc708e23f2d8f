"""docs/operators.md: every operator, written from the declarations.

    python -m mlcnb.testing.operators_page docs/operators.md

A section for each family (a file of `mlcnb/op`): its operators with their arguments, attributes and
dtypes, then the ONNX and torch operators that are imported to them. A dtype is named where the
operator's type inference takes it for all tensors at once.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir.dtype import dtype
from mlcnb.op import load_all, onnx, torch
from mlcnb.op.grad.rules import differentiable
from mlcnb.relax.operator import OpDecl, declarations, signature_text
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.relax.transform.legalize_ops import has_loops

_KINDS = {
    "bool": "bool",
    "int": "int8 int16 int32 int64",
    "uint": "uint8 uint16 uint32 uint64",
    "float": "float16 bfloat16 float32 float64",
}
_COLUMNS = "| operator | types | dtypes | loops | gradient | what it is |"
_HEAD = """\
# Operators

Every operator of graph programs, `R.name` in text and `relax.op.name` in Python, written from the
declarations in `mlcnb/op` by `python -m mlcnb.testing.operators_page docs/operators.md`. Attributes
follow the arguments, with their defaults. A dtype is named where all tensor arguments may be of it;
"-" says that the arguments are not all tensors, or that an attribute has to be given first. "loops"
says that there is a loop nest, which LegalizeOps makes a kernel of; operators without one run by
their meaning in NumPy, or a pass takes them apart first. "types" are those of the arguments, in
order; those in brackets may be left out. "gradient" says that the pass Gradient goes through it
(`mlcnb/op/grad/rules` says how): {gradients} of {total} have one.
"""


def page() -> str:
    """The whole page, as Markdown."""
    load_all()
    families: dict[str, list[type[OpDecl]]] = {}
    for _, decl in sorted(declarations().items()):
        families.setdefault(family(decl.__module__), []).append(decl)
    spelled = _spelled(families)
    everything = [d for decls in families.values() for d in decls]
    total, gradients = len(everything), sum(map(_has_gradient, everything))
    parts = [_HEAD.format(total=total, gradients=gradients or "none")]
    for name, decls in sorted(families.items()):
        rows = "\n".join(_row(d) for d in decls)
        parts.append(f"## {name}\n\n{_COLUMNS}\n{'|---' * _COLUMNS.count(' | ')}|---|")
        parts[-1] += f"\n{rows}\n"
        parts += [f"{kind}: {', '.join(found)}\n" for kind, found in spelled.get(name, {}).items()]
    if "others" in spelled:
        parts.append("## others\n\nWhat is imported to several operators.\n")
        parts += [f"{kind}: {', '.join(found)}\n" for kind, found in spelled["others"].items()]
    parts.insert(1, f"{total} operators in {len(families)} families.\n")
    return "\n".join(parts)


def family(module: str) -> str:
    """The family of a file: `nn.activation` of `mlcnb.op.nn.activation_onnx`."""
    name = module.removeprefix("mlcnb.op.")
    return name.removesuffix("_onnx").removesuffix("_torch")


def _place(function: Any, foreign: str, families: Mapping[str, list[type[OpDecl]]]) -> str:
    """The family of a foreign operator: of its function's file, or of the operator of its name.

    Functions that many share stand in files of no family; what no name tells goes to "others".
    """
    found = family(function.__module__)
    if found in families:
        return found
    word = foreign.partition(".")[0].replace("_", "").lower()
    alike = [f for f, decls in families.items() if any(_word(d) == word for d in decls)]
    return alike[0] if alike else "others"


def _word(decl: type[OpDecl]) -> str:
    return decl.op_name.rpartition(".")[2].replace("_", "")


def _spelled(families: Mapping[str, list[type[OpDecl]]]) -> dict[str, dict[str, list[str]]]:
    """Family -> where from -> the foreign operators that are imported by functions of its files."""
    found: dict[str, dict[str, list[str]]] = {}
    for (domain, op_type), versions in onnx.spellings().items():
        function: Any = onnx.spelling(domain, op_type, versions[-1])
        name = f"{domain}.{op_type}" if domain else op_type
        text = f"{name} ({versions[0]}-)"
        place = _place(function, op_type, families)
        found.setdefault(place, {}).setdefault("ONNX", []).append(text)
    for target in torch.torch_spellings():
        place = _place(torch.torch_spelling_of(target), target.removeprefix("aten."), families)
        found.setdefault(place, {}).setdefault("torch", []).append(target)
    return found


def _row(decl: type[OpDecl]) -> str:
    text = (inspect.getdoc(decl) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
    loops = "yes" if has_loops(decl) else ""
    gradient = "yes" if _has_gradient(decl) else ""
    types = ", ".join(map(_type, decl.arguments.values())) or "-"
    signature = f"`{signature_text(decl)}`"
    cells = (signature, types, " ".join(dtypes(decl)) or "-", loops, gradient, text)
    return f"| {' | '.join(cells)} |"


def _has_gradient(decl: type[OpDecl]) -> bool:
    return decl.op_name in differentiable()


def _type(kind: str) -> str:
    """A kind of argument as the page has it: [Tensor] where it may be left out."""
    return f"[{kind.removeprefix('Optional')}]" if kind.startswith("Optional") else kind


def dtypes(decl: type[OpDecl]) -> list[str]:
    """Words for the dtypes that an operator takes for all of its tensors at once."""
    words = []
    for word, names in _KINDS.items():
        taken = [name for name in names.split() if _takes(decl, name)]
        words += [word] if len(taken) == len(names.split()) else taken
    return words


def _takes(decl: type[OpDecl], name: str) -> bool:
    kinds = set(decl.arguments.values())
    if not kinds or not kinds <= {"Tensor", "OptionalTensor"}:
        return False
    try:
        decl().infer(*(TensorStructInfo(None, dtype(name)) for _ in decl.arguments))
    except (MLCError, TypeError):
        return False
    return True


def _written(lines: list[str]) -> Iterator[Path]:
    for name in lines:
        path = Path(name)
        path.write_text(page())
        yield path


if __name__ == "__main__":
    for _path in _written(sys.argv[1:]):
        print(f"wrote {_path}")
