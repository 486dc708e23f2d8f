"""What is left to do until each thing of the house is said once, counted in its source.

    python -m tests.house            each count
    python -m tests.house NAME       and where it comes from

`tests/test_house.py` holds the counts: they may only fall.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.import_layers import goes_down, place_of, read_layers

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mlcnb"
LONG = 400

#: statements of a loop program; who asks for this many of them by name walks it by hand
STATEMENTS = {
    *("For", "Block", "BlockRealize", "SeqStmt", "IfThenElse", "LetStmt", "Let"),
    *("Allocate", "AttrStmt", "While", "BufferStore", "Evaluate", "AssertStmt", "DeclBuffer"),
}
A_WALK = 4
#: kernels of the three engines; who asks which one it has knows too much
KERNELS = {"CompiledKernel", "CudaKernel", "InterpretedKernel"}
#: packages that a lower one may name by a string, since they show or explain what they are given
SHOWS = ("mlcnb.view", "mlcnb.widgets", "mlcnb.script")
#: a docstring that says what is given and what comes back
SAYS_SHAPES = re.compile(
    r"\bshapes?\b|\bdtypes?\b|\bextents?\b|\([a-z0-9]+(, ?[a-z0-9]+)+\)|float32|int64",
    re.IGNORECASE,
)
SAYS_ERRORS = re.compile(r"\bRaises?\b|\brais\w+\b|\brefuse[sd]?\b|\b\w+Error\b")


class Source(NamedTuple):
    """One module: its dotted name, its path below the repository, its tree and its text."""

    name: str
    path: str
    tree: ast.Module
    text: str

    def at(self, node: ast.AST, note: str = "") -> str:
        """`path:line note`."""
        return f"{self.path}:{getattr(node, 'lineno', 1)} {note}".rstrip()


@cache
def sources() -> tuple[Source, ...]:
    """Every module of the package."""
    return tuple(_source(path) for path in sorted(PACKAGE.rglob("*.py")))


def _source(path: Path) -> Source:
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text(encoding="utf-8")
    return Source(name, str(path.relative_to(ROOT)), ast.parse(text), text)


@cache
def layers() -> dict[str, object]:
    """The layers of the import contract, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return read_layers(project["tool"]["importlinter"]["contracts"][0]["layers"])


def classes_named_access() -> Iterator[str]:
    """Classes that hold what a program touches."""
    for source in sources():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef) and node.name == "Access":
                yield source.at(node)


def folders_that_import_islpy() -> Iterator[str]:
    """Folders that know isl: one should, with one context and budgets named by their purpose."""
    found: dict[str, int] = {}
    for source in sources():
        if "islpy" in imported(source.tree):
            folder = source.path.rpartition("/")[0]
            found[folder] = found.get(folder, 0) + 1
    yield from (f"{folder} ({files} files)" for folder, files in sorted(found.items()))


def files_that_import_islpy() -> Iterator[str]:
    """Files that know isl."""
    yield from (source.path for source in sources() if "islpy" in imported(source.tree))


def imported(tree: ast.Module) -> set[str]:
    """The top-level packages that a module imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def sums_outside_arith() -> Iterator[str]:
    """Functions called `plus` or `times`: integer sums in a form of their own."""
    for source in sources():
        if not source.name.startswith("mlcnb.arith"):
            for node in ast.walk(source.tree):
                if isinstance(node, ast.FunctionDef) and node.name in ("plus", "times"):
                    yield source.at(node, node.name)


def questions_which_kernel() -> Iterator[str]:
    """`isinstance` of an engine's kernel outside of `codegen`."""
    for source in sources():
        if not source.name.startswith("mlcnb.codegen"):
            for node, kinds in kinds_asked_for(source.tree):
                if kinds & KERNELS:
                    yield source.at(node)


def walks_by_hand() -> Iterator[str]:
    """Classes, or functions of a module, that tell statements of a loop program apart."""
    for source in sources():
        for owner in source.tree.body:
            if isinstance(owner, ast.ClassDef | ast.FunctionDef):
                kinds = set().union(*(kinds for _, kinds in kinds_asked_for(owner)), set())
                if len(kinds & STATEMENTS) >= A_WALK:
                    yield source.at(owner, owner.name)


def kinds_asked_for(tree: ast.AST) -> Iterator[tuple[ast.AST, set[str]]]:
    """Each `isinstance(x, A | B)` and `case A():` with the names of the classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "isinstance" and len(node.args) == 2:
                yield node, {last_name(part) for part in ast.walk(node.args[1])}
        elif isinstance(node, ast.MatchClass):
            yield node, {last_name(node.cls)}


def last_name(node: ast.AST) -> str:
    """`C` of `C` and of `a.b.C`."""
    return getattr(node, "id", None) or getattr(node, "attr", None) or ""


def names_given_to_attach(tree: ast.Module) -> set[ast.AST]:
    """Modules from which a package has public names, by its `attach(__name__, {…})`."""
    return {
        key
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and last_name(node.func) == "attach"
        for given in node.args[1:2]
        if isinstance(given, ast.Dict)
        for key in given.keys
        if key is not None
    }


def strings_that_go_up() -> Iterator[str]:
    """Modules named in a string by a lower layer, but for what shows an object.

    What a package is the public name of (`relax.VirtualMachine`, as TVM has it) is no dependency
    of the package: its `attach` may say where it is found.
    """
    known = {source.name for source in sources()}
    places = layers()
    for source in sources():
        here = place_of(source.name, places)
        public = names_given_to_attach(source.tree)
        for node in ast.walk(source.tree):
            if node in public or not (
                isinstance(node, ast.Constant) and isinstance(node.value, str)
            ):
                continue
            module = node.value.partition(":")[0]
            if module not in known or "." not in module or module.startswith(SHOWS):
                continue
            there = place_of(module, places)
            if here and there and not goes_down(here, there):
                yield source.at(node, f"{here.name} -> {node.value}")


@cache
def operator_names() -> frozenset[str]:
    """Names of operators, as passes write them."""
    from mlcnb.relax import operator

    return frozenset(name for name in operator.declarations())


def operators_named_by_passes() -> Iterator[str]:
    """Operators that a graph pass knows by a string; a trait of the declaration should say it.

    A rule and a variable may have such a name: `@rule("Pass", "equal")`, `fresh("size")`.
    """
    for source in sources():
        if source.name.startswith("mlcnb.relax.transform"):
            called = {
                word
                for node in ast.walk(source.tree)
                if isinstance(node, ast.Call) and last_name(node.func) in ("rule", "fresh")
                for given in node.args
                for word in ast.walk(given)
            }
            for node in ast.walk(source.tree):
                if node in called:
                    continue
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    if {node.value, f"relax.{node.value}"} & operator_names():
                        yield source.at(node, node.value)


def modules_in_the_root() -> Iterator[str]:
    """Loose modules beside the packages."""
    kept = {"__init__", "__main__", "driver", "target"}
    for path in sorted(PACKAGE.glob("*.py")):
        if path.stem not in kept:
            yield path.name


def names_of_layers() -> Iterator[str]:
    """Lines of the import contract."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    yield from project["tool"]["importlinter"]["contracts"][0]["layers"]


def long_files() -> Iterator[str]:
    """Files of more than 400 lines."""
    for source in sources():
        lines = source.text.count("\n")
        if lines > LONG:
            yield f"{source.path} {lines}"


def modules_with_one_importer() -> Iterator[str]:
    """Modules that one other module uses: they may read better inside of it."""
    users: dict[str, set[str]] = {source.name: set() for source in sources()}
    for source in sources():
        for name in modules_imported(source):
            if name in users and name != source.name:
                users[name].add(source.name)
    for name in users:  # a folder whose files are found by lying there uses each of them
        folder = name.rpartition(".")[0]
        if folder in finders():
            users[name].add(folder)
    for source in sources():
        if len(users[source.name]) == 1 and not source.path.endswith("__init__.py"):
            (user,) = users[source.name]
            if user.rpartition(".")[0] == source.name.rpartition(".")[0]:
                yield f"{source.path} <- {user}"


@cache
def finders() -> frozenset[str]:
    """Packages that import what lies in their folder."""
    inits = (x for x in sources() if x.path.endswith("__init__.py"))
    finds = re.compile(r"iter_modules\(__path__\)|= found\(globals\(\)\)|\bclasses=r")
    return frozenset(x.name for x in inits if finds.search(x.text))


def modules_imported(source: Source) -> Iterator[str]:
    """Dotted names of modules that a module imports."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def names_at_the_top() -> Iterator[str]:
    """What `mlcnb.<TAB>` offers."""
    import mlcnb

    yield from (name for name in dir(mlcnb) if not name.startswith("_"))


def docstrings_without_shapes() -> Iterator[str]:
    """Public functions of the user's packages whose docstring names no shape and no dtype."""
    yield from (name for name, text in public_docstrings() if not SAYS_SHAPES.search(text))


def docstrings_without_errors() -> Iterator[str]:
    """Public functions of the user's packages whose docstring names no error."""
    yield from (name for name, text in public_docstrings() if not SAYS_ERRORS.search(text))


@cache
def public_docstrings() -> tuple[tuple[str, str], ...]:
    """Functions that a user calls, each with its docstring: the top level, Schedule, relax, te."""
    import inspect

    import mlcnb

    owners = {
        "mlcnb": mlcnb,
        "Schedule": mlcnb.tir.Schedule,
        "relax.op": mlcnb.relax.op,
        "relax.transform": mlcnb.relax.transform,
        "te": mlcnb.te,
    }
    found = []
    for owner, holder in owners.items():
        for name in dir(holder):
            member = getattr(holder, name)
            if not name.startswith("_") and callable(member):
                found.append((f"{owner}.{name}", inspect.getdoc(member) or ""))
    return tuple(found)


COUNTS: dict[str, Callable[[], Iterator[str]]] = {
    made.__name__.replace("_", " "): made
    for made in (
        classes_named_access,
        files_that_import_islpy,
        folders_that_import_islpy,
        sums_outside_arith,
        questions_which_kernel,
        walks_by_hand,
        strings_that_go_up,
        operators_named_by_passes,
        modules_in_the_root,
        modules_with_one_importer,
        names_of_layers,
        names_at_the_top,
        long_files,
        docstrings_without_shapes,
        docstrings_without_errors,
    )
}


def main(wanted: list[str]) -> None:
    """Print the counts, and what is behind those that are named."""
    for name, find in COUNTS.items():
        places = [*find()]
        print(f"{len(places):5d}  {name}")
        if any(word in name for word in wanted):
            print(*(f"       {place}" for place in places), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
