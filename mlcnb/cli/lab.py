"""Copy the notebooks into a folder of yours and open them in JupyterLab.

The copy is kept from one start to the next. Files that you have changed stay as they are; those
that you have not are brought up to date. In a checkout, mlcnb lab notebooks opens ours themselves.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from mlcnb.core.errors import MissingDependencyError, MLCError

#: what this command wrote, as {file: SHA-256}: a file with another hash is the user's
RECORD = ".mlcnb-files.json"
#: settings for JupyterLab: no news, no question about a newer version, so that nothing is fetched
SETTINGS = Path(__file__).with_name("jupyterlab")
#: settings for all programs of Jupyter: a notebook that is saved as HTML shows the static form of a
#: page before its live one, which is blank without scripts from the network; and for its server,
#: which saves notebooks so that they are read like that elsewhere
JUPYTER = Path(__file__).with_name("settings")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path("mlcnb-notebooks"), metavar="DIR"
    )
    parser.add_argument("--no-open", action="store_true", help="copy only")
    parser.add_argument("--no-browser", action="store_true", help="start the server only")


def run(args: argparse.Namespace) -> int:
    """Copy, say what was done, and open JupyterLab on the tour."""
    source = find_notebooks()
    if args.folder.resolve() != source.resolve():
        print(copy_notebooks(source, args.folder))
    if args.no_open:
        return 0
    if importlib.util.find_spec("jupyterlab") is None:
        from mlcnb.observe.diagnosis import install_command

        raise MissingDependencyError("JupyterLab is not installed", hint=install_command("lab"))
    print(f"JupyterLab opens {args.folder / '00_tour.ipynb'} in some seconds; Ctrl-C here ends it")
    command = [sys.executable, "-m", "jupyterlab", f"--LabApp.app_settings_dir={SETTINGS}"]
    command += ["--no-browser"] if args.no_browser else []
    command += ["--allow-root"] if is_root() else []
    command.append(str(args.folder / "00_tour.ipynb"))
    return subprocess.run(command, env=with_settings(os.environ), check=False).returncode


def with_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program of Jupyter that reads these settings too."""
    path = [str(JUPYTER), environment.get("JUPYTER_CONFIG_PATH", "")]
    return {**environment, "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, path))}


def is_root() -> bool:
    """Whether this is the system's administrator, as in most containers; JupyterLab asks for a word
    of its own before it starts for one."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


@dataclass(frozen=True)
class Copied:
    """What happened to the files of a folder: new, brought up to date, kept as the user's although
    ours are other ones now."""

    folder: Path
    new: tuple[str, ...]
    updated: tuple[str, ...]
    kept: tuple[str, ...]

    def __str__(self) -> str:
        done = f"{len(self.new)} new, {len(self.updated)} updated"
        kept = (f"  kept yours: {name} (ours is new: rename it to get both)" for name in self.kept)
        lines = [f"{self.folder}: yours to change; {done}", *kept]
        return "\n".join(lines)


def find_notebooks() -> Path:
    """The folder of notebooks that came with mlcnb: of the checkout, or of the installation."""
    checkout = Path(__file__).parents[2] / "notebooks"
    if (checkout / "assets").is_dir():
        return checkout
    for file in metadata.files("mlcnb") or ():
        if file.parts[-2:-1] == ("notebooks",) and file.suffix == ".ipynb":
            return Path(str(file.locate())).resolve().parent
    raise MLCError("the notebooks of mlcnb are missing from this installation", hint="reinstall it")


def copy_notebooks(source: Path, target: Path) -> Copied:
    """Copy the notebooks and their assets; a file that the user has changed is not touched."""
    target.mkdir(parents=True, exist_ok=True)
    record = read_record(target)
    done: dict[str, list[str]] = {"new": [], "updated": [], "kept": [], "same": [], "yours": []}
    for file in shipped_files(source):
        name = file.relative_to(source).as_posix()
        what = place(file, target / name, record.get(name))
        done[what].append(name)
        if what not in ("kept", "yours"):
            record[name] = digest(file)
    (target / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    return Copied(target, tuple(done["new"]), tuple(done["updated"]), tuple(done["kept"]))


def place(file: Path, target: Path, recorded: str | None) -> str:
    """Copy one file where that loses nothing; returns new, same, updated, kept (both have changed)
    or yours (only the user's has)."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
        return "new"
    there = digest(target)
    if there == digest(file):
        return "same"
    if there != recorded:
        return "yours" if digest(file) == recorded else "kept"
    shutil.copyfile(file, target)
    return "updated"


def shipped_files(source: Path) -> list[Path]:
    """The notebooks and what they show."""
    return sorted([*source.glob("*.ipynb"), *(f for f in source.glob("assets/*") if f.is_file())])


def read_record(target: Path) -> dict[str, str]:
    """What an earlier copy wrote; a record that cannot be read counts as none."""
    try:
        record = json.loads((target / RECORD).read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def digest(file: Path) -> str:
    """The SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
