"""Notebooks that mlcnb lab saves: pages are static in the file, and live when it is opened again.

    in JupyterLab    output.data[VIEW], and the widgets' states in notebook.metadata.widgets
    in the file      output.metadata.mlcnb, and these states in notebook.metadata.mlcnb.widgets

nbconvert, nbviewer, GitHub and other editors know nothing of the second form: they show the static
HTML of a page, which needs no network. Of the first they take the live form, whose scripts come
from a network, or say that a widget's model is not found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
#: where the file has them, in an output's metadata and in the notebook's
OWN = "mlcnb"


class SavedNotebooks(AsyncLargeFileManager):
    """The files of the server: notebooks are read as JupyterLab wants them, written static."""

    async def get(self, path: str, content: bool = True, *args: Any, **options: Any) -> Any:
        """A file; of a notebook with live pages, if it has their states."""
        model = await super().get(path, content, *args, **options)
        if content and model["type"] == "notebook":
            take_back(model["content"])
        return model

    async def save(self, model: Any, path: str = "") -> Any:
        """Write a file; a notebook with static pages."""
        if model.get("type") == "notebook" and model.get("content"):
            put_away(model["content"])
        return await super().save(model, path)

    def check_and_sign(self, nb: Any, path: str = "", **options: Any) -> None:
        """Sign a notebook that its owner trusts, as it is in the file."""
        super().check_and_sign(put_away(nb), path, **options)


def put_away(notebook: Any) -> Any:
    """The notebook, changed in place: what has a static form shows only that."""
    held = states(take_back(notebook))
    shown: list[str] = []
    live: list[str] = []
    for output in outputs(notebook):
        data = _within(output, "data")
        name = str(_within(data, VIEW).get("model_id"))
        if VIEW in data and "text/html" in data:
            output.setdefault("metadata", {})[OWN] = data.pop(VIEW)
            shown.append(name)
        elif VIEW in data:
            live.append(name)
    if away := made_of(shown, held) - made_of(live, held):
        kept = {name: held.pop(name) for name in sorted(away)}
        notebook["metadata"][OWN] = {"widgets": kept}
        if not held:
            del notebook["metadata"]["widgets"]
    return notebook


def take_back(notebook: Any) -> Any:
    """The notebook, changed in place: pages whose states it has are live again."""
    metadata = _within(notebook, "metadata")
    if kept := _within(metadata, OWN, "widgets"):
        empty = {"version_major": 2, "version_minor": 0, "state": {}}
        metadata.setdefault("widgets", {}).setdefault(STATE, empty)
        states(notebook).update(kept)
    metadata.pop(OWN, None)
    held = states(notebook)
    for output in outputs(notebook):
        view = _within(output, "metadata").pop(OWN, None)
        if isinstance(view, dict) and str(view.get("model_id")) in held:
            output["data"][VIEW] = view
    return notebook


def states(notebook: Any) -> dict[str, Any]:
    """The states of widgets that the notebook has, by name; to be changed in place."""
    return _within(notebook, "metadata", "widgets", STATE, "state")


def outputs(notebook: Any) -> Iterator[Any]:
    """What its cells show, in order."""
    for cell in notebook.get("cells", ()):
        yield from cell.get("outputs", ())


def made_of(names: Iterable[str], held: dict[str, Any]) -> set[str]:
    """These widgets and all those in them."""
    found: set[str] = set()
    names = list(names)
    while names:
        name = names.pop()
        if name in held and name not in found:
            found.add(name)
            parts = re.findall(r'IPY_MODEL_(\w+)|"model_id": "(\w+)"', json.dumps(held[name]))
            names += [first or second for first, second in parts]
    return found


def _within(whole: Any, *names: str) -> dict[str, Any]:
    """What stands under these names; nothing where one of them is no mapping."""
    for name in names:
        whole = whole.get(name) if isinstance(whole, dict) else None
    return whole if isinstance(whole, dict) else {}
