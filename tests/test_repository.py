"""Rules that hold for the whole repository."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import FunctionType

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import mlcnb

ROOT = Path(__file__).parents[1]
MODULES = ["mlcnb", *sorted(m.name for m in pkgutil.walk_packages(mlcnb.__path__, "mlcnb."))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!_]+")


@pytest.mark.parametrize("name", MODULES)
def test_module_imports_and_is_documented(name):
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    assert [*undocumented(module)] == []


def undocumented(module):
    """Public names of a module, and public members of its classes, that have no docstring."""
    listed = getattr(module, "__all__", None)
    for name in listed if listed is not None else vars(module):
        if listed is None and name.startswith("_"):
            continue
        found = getattr(module, name)
        if listed is None and getattr(found, "__module__", None) != module.__name__:
            continue
        if inspect.ismodule(found) or inspect.isroutine(found) or inspect.isclass(found):
            if not inspect.getdoc(found):
                yield name
        if inspect.isclass(found) and found.__module__.startswith("mlcnb"):
            yield from (f"{name}.{member}" for member in undocumented_members(found))


def undocumented_members(kind):
    """Public methods and properties that a class adds to its bases, without a docstring."""
    inherited = {name for base in kind.__mro__[1:] for name in vars(base)}
    for name, member in vars(kind).items():
        if name.startswith("_") or name in inherited:
            continue
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        here = getattr(member, "__qualname__", "") == f"{kind.__qualname__}.{name}"
        is_def = isinstance(member, FunctionType) and here
        if (is_def or isinstance(member, property)) and not member.__doc__:
            yield name


def test_import_is_light():
    """`import mlcnb` loads NumPy and nothing heavier; the time is printed, not judged."""
    heavy = "IPython anywidget cupy graphviz ipywidgets islpy llvmlite matplotlib ml_dtypes onnx"
    heavy += " onnxruntime packaging safetensors torch tqdm traitlets"
    code = (
        "import sys, time; start = time.perf_counter(); import numpy; "
        "middle = time.perf_counter(); import mlcnb; end = time.perf_counter(); "
        f"print(*(name for name in {heavy.split()} if name in sys.modules), sep=','); "
        "print(f'import numpy {middle - start:.3f} s, import mlcnb {end - middle:.3f} s more')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, seconds = done.stdout.splitlines()
    print(f"\n{seconds}")
    assert loaded == ""


LOCKS = ("requirements.lock", "requirements-cuda.lock", "binder/requirements.txt")


@pytest.mark.parametrize("name", LOCKS)
def test_lock_is_name_and_version_only(name):
    lines = (ROOT / name).read_text().splitlines()
    assert [line for line in lines if not PIN.fullmatch(line)] == []
    names = [canonical(line.partition("==")[0]) for line in lines]
    assert len(set(names)) == len(names)
    assert not {"mlcnb", "torch", "pip"} & set(names)


@pytest.mark.parametrize(("extra", "name"), [("torch", "torch"), ("gpu", "cupy-cuda13x")])
def test_lock_of_an_extra_adds_to_the_others(extra, name):
    lock = f"requirements-{extra}.lock"
    lines = (ROOT / lock).read_text().splitlines()
    assert [line for line in lines if not PIN.fullmatch(line)] == []
    added, base = pins(lock), pins("requirements.lock") | pins("requirements-cuda.lock")
    assert name in added and not added.keys() & base.keys()
    wanted = [x for lines in PROJECT["project"]["optional-dependencies"].values() for x in lines]
    for requirement in map(Requirement, wanted):
        if canonical(requirement.name) in added:
            assert requirement.specifier.contains(added[canonical(requirement.name)])


def test_lock_satisfies_the_project():
    versions = pins("requirements.lock") | pins("requirements-cuda.lock")
    extras = PROJECT["project"]["optional-dependencies"]
    for line in PROJECT["project"]["dependencies"] + extras["lab"] + extras["dev"]:
        requirement = Requirement(line)
        assert requirement.specifier.contains(versions[canonical(requirement.name)]), line


def test_binder_installs_what_the_tests_have_seen():
    assert pins("binder/requirements.txt").items() <= pins("requirements.lock").items()


def pins(name):
    lines = (ROOT / name).read_text().split()
    return {canonical(a): b for a, _, b in (line.partition("==") for line in lines)}


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_version_is_the_same_everywhere():
    version = PROJECT["project"]["version"]
    assert mlcnb.__version__ == version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


@cache
def tracked_files():
    """The files that git knows and that are text; without git, this test has nothing to see."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    paths = (ROOT / name for name in done.stdout.split("\0") if name)
    return [p for p in paths if p.is_file() and p.suffix not in (".onnx", ".png", ".jpg", ".pb")]


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("a path of one machine", rf"(?<![\w.~>-])/(work|tmp|root)/\w|{ROOT}/|{Path.home()}/"),
        ("a host of packages", r"pypi\.(org|io)|pythonhosted|npmjs|anaconda\.(org|com)"),
        ("a pickle", r"^\s*(import|from) (c?[pP]ickle|dill|marshal|shelve)\b|allow_pickle=True"),
        ("an unfinished thing", r"\b(TODO|FIXME|XXX)\b"),
    ],
)
def test_nowhere(what, pattern):
    wanted = re.compile(pattern, re.MULTILINE)
    here = Path(__file__)
    found = [
        f"{path.relative_to(ROOT)}: {match[0].strip()}"
        for path in tracked_files()
        if path != here
        for match in wanted.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == [], what


def test_texts_at_the_root_are_for_readers():
    """Nothing that was left lying: each page there is one that readers need."""
    found = {path.name for path in tracked_files() if path.parent == ROOT if path.suffix == ".md"}
    assert found == {"README.md", "CHANGELOG.md", "CONTRIBUTING.md"}


def test_no_text_is_run_as_python():
    """A model's text is parsed, never evaluated."""
    wanted = re.compile(r"(?<![\w.])(?<!def )(eval|exec)\(|__import__\(|yaml\.load\(|torch\.load\(")
    files = (ROOT / "mlcnb").rglob("*.py")
    found = [(str(path), match[0]) for path in files for match in wanted.finditer(path.read_text())]
    assert found == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "notebooks/assets/README.md"])
def test_links_lead_somewhere(name):
    text = (ROOT / name).read_text()
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", text) + re.findall(r'(?:src|href)="([^"#]+)"', text)
    local = [link for link in links if not link.startswith(("https:", "mailto:"))]
    assert [link for link in local if not ((ROOT / name).parent / link).exists()] == []


def test_commands_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands[:2] == ["lab", "test"]
    assert [name for name in commands if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


PACKAGES = "lib/python3.11/site-packages"
INSTALLED = {
    f"{PACKAGES}/babel/core.py": "",
    f"{PACKAGES}/babel/locale-data/en.dat": "",
    f"{PACKAGES}/babel/locale-data/en_GB.dat": "",
    f"{PACKAGES}/babel/locale-data/root.dat": "",
    f"{PACKAGES}/jedi/third_party/typeshed/stdlib/os/__init__.pyi": "",
    f"{PACKAGES}/jinja2/tests.py": "",
    f"{PACKAGES}/numpy/testing/__init__.py": "",
    f"{PACKAGES}/onnx/backend/test.py": "",
    f"{PACKAGES}/fontTools/misc/bezierTools.py": "",
    f"{PACKAGES}/debugpy/cython.so": "",
    f"{PACKAGES}/jupyterlab/static/main.js": "lab" * 5000,
    f"{PACKAGES}/widgets/main.js": "LAB" * 5000,
    f"{PACKAGES}/widgets/small.js": "lab",
    "share/jupyter/lab/static/main.js": "lab" * 5000,
    "share/jupyter/lab/static/small.js": "lab",
}
UNREAD = (
    "babel/locale-data/de.dat",
    "babel/locale-data/ensues.dat",
    "jedi/third_party/typeshed/stubs/six/__init__.pyi",
    "numpy/_core/tests/data/sin.csv",
    "numpy/tests/__init__.py",
    "onnx/backend/test/data/conv.pb",
    "jupyterlab/galata/index.js",
    "fontTools/misc/bezierTools.c",
    "fontTools/misc/bezierTools.so",
    "debugpy/cython.c",
    "widgets/main.js.map",
)


def test_make_lab_keeps_what_is_read(tmp_path):
    """What packages test with or compile from goes; a file that is there twice is stored once."""
    for name, text in INSTALLED.items() | {(f"{PACKAGES}/{name}", "") for name in UNREAD}:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "lib64").symlink_to("lib")
    trim = runpy.run_path(str(ROOT / "binder" / "trim.py"))
    before = trim["size"](tmp_path)
    trim["trim"](tmp_path)
    after = {path.relative_to(tmp_path).as_posix(): path for path in trim["files"](tmp_path)}
    assert {name: path.read_text() for name, path in after.items()} == INSTALLED
    links = {name: path.stat().st_nlink for name, path in after.items()}
    assert [name for name in links if links[name] == 2] == [
        name for name in links if name.endswith("lab/static/main.js")
    ]
    assert [path for path in tmp_path.rglob("*") if path.is_dir() and not any(path.iterdir())] == []
    assert trim["size"](tmp_path) < before
    trim["trim"](tmp_path)
    assert {name: path.read_text() for name, path in after.items()} == INSTALLED


def test_jupyter_beside_the_package_has_its_settings():
    """However it is installed: from a wheel, by make or by Binder, which install it in place."""
    file = "mlcnb/cli/settings/jupyter_config.json"
    assert PROJECT["tool"]["setuptools"]["data-files"]["etc/jupyter"] == [file]
    dry = ["make", "--dry-run", "--always-make", ".venv/.lab"]
    told = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"cp {file} .venv/etc/jupyter/" in told
    assert f"cp {file} " in (ROOT / "binder" / "postBuild").read_text()


@pytest.mark.parametrize("name", [".ci/run", "binder/postBuild", "binder/start"])
def test_script_can_be_run(name):
    assert os.access(ROOT / name, os.X_OK)
    subprocess.run(["bash", "-n", str(ROOT / name)], check=True)


def test_the_devcontainer_does_what_is_there():
    """Its Python is one that we support, its commands parse, its paths and its port are ours."""
    from mlcnb.cli import make_parser

    asked = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    image, _, version = asked["image"].rpartition(":")
    assert image == "mcr.microsoft.com/devcontainers/python"
    assert SpecifierSet(PROJECT["project"]["requires-python"]).contains(version)
    commands = f"{asked['postCreateCommand']} && {asked['postAttachCommand']}".split(" && ")
    for command in commands:
        program, *given = shlex.split(command)
        if program == "make":
            dry = [program, "--dry-run", "--always-make", *given]
            told = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=True).stdout
            assert "binder/requirements.txt" in told and "--editable" in told
        else:
            assert program == ".venv/bin/mlcnb"
            assert make_parser(given).parse_args(given).command == "lab"
    python = asked["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert python == "${containerWorkspaceFolder}/.venv/bin/python"
    assert asked["forwardPorts"] == [8888] and "8888" in asked["portsAttributes"]
