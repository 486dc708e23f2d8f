"""An import-linter contract: layers where a package and its subpackages may stand apart.

    layers (top to bottom)        mlcnb.relax.transform.fuse_ops -> layer 0
        mlcnb.relax.transform     mlcnb.op.nn                    -> layer 1
        mlcnb.op                  mlcnb.relax.expr               -> layer 2
        mlcnb.relax
                                  allowed: 0 -> 1, 0 -> 2, 1 -> 2;  refused: 2 -> 0, 2 -> 1, 1 -> 0

import-linter's own `layers` contract takes a package with all that lies in it; here a module
belongs to the layer with the longest matching name. Every module lies in a layer, so looking at
direct imports is enough: a chain that goes up has a link that goes up. The root package itself is
matched only by its own name, so a new folder has to be given a place. A contract `within` a package
says the order of what lies in it; what may go up nevertheless is listed as `exceptions`.
"""

from __future__ import annotations

from typing import NamedTuple

from grimp import ImportGraph
from importlinter.application import output
from importlinter.domain import fields
from importlinter.domain.contract import Contract, ContractCheck


class Place(NamedTuple):
    """Where a module stands: the depth of its layer, and its name within the layer."""

    depth: int
    name: str


class LongestNameLayers(Contract):
    """Imports go to the same or a lower layer; `a | b` stay apart, `a & b` are one."""

    type_name = "longest_name"
    layers = fields.ListField(subfield=fields.StringField())
    within = fields.StringField(required=False)
    exceptions = fields.ListField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Look at each direct import of the package."""
        places = read_layers(self.layers)
        faults = []
        within = f"{self.within or self.layers[-1].partition('.')[0]}."
        for module in sorted(graph.modules):
            if not f"{module}.".startswith(within):
                continue
            here = place_of(module, places)
            if here is None:
                faults.append(f"{module} belongs to no layer: give it a line in pyproject.toml")
                continue
            for imported in sorted(graph.find_modules_directly_imported_by(module)):
                there = place_of(imported, places)
                if f"{module} -> {imported}" in (self.exceptions or ()):
                    continue
                if there is not None and not goes_down(here, there):
                    lines = graph.get_import_details(importer=module, imported=imported)
                    at = ", ".join(str(line["line_number"]) for line in lines)
                    faults.append(f"{module}:{at} imports {imported} ({here.name} -> {there.name})")
        return ContractCheck(kept=not faults, metadata={"faults": faults})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """One line for each import that goes up."""
        for fault in check.metadata["faults"]:
            output.print_error(fault)


def read_layers(layers: list[str]) -> dict[str, Place]:
    """The place of each name in the list."""
    return {
        name.strip(): Place(depth, part.strip())
        for depth, line in enumerate(layers)
        for part in line.split("|")
        for name in part.split("&")
    }


def place_of(module: str, places: dict[str, Place]) -> Place | None:
    """The place with the longest name that `module` is or lies in."""
    if module in places or "." not in module:
        return places.get(module)
    name = module
    while "." in name:
        if name in places:
            return places[name]
        name = name.rpartition(".")[0]
    return None


def goes_down(here: Place, there: Place) -> bool:
    """Whether an import from `here` to `there` is allowed."""
    return here.depth < there.depth or here == there
