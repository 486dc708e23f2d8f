"""JupyterLab as a reader uses it: open a notebook, run it, look at an output, save, come back.

nb = lab.open(["x = 1", "x"])          cells, or a whole notebook of nbformat
nb.run(); nb.output(1)                 a Playwright locator of the outputs of a cell
nb.save(); nb = nb.reopen()            what was saved, with a kernel that has run nothing
lab.theme(dark=True)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import nbformat
from nbformat import v4

from tests.browser.guard import Guard
from tests.browser.server import Server

#: a notebook is opened by JupyterLab's own command, which is awaited with its kernel
_OPEN = """async ([path, live]) => {
  const preference = live ? {name: "python3", autoStartDefault: true}
                          : {shouldStart: false, canStart: false, autoStartDefault: false};
  const panel = await jupyterapp.commands.execute("docmanager:open",
      {path, factory: "Notebook", kernelPreference: preference});
  window.panels = {...(window.panels || {}), [path]: panel};
  await panel.context.ready;
  await panel.revealed;
  if (live) { await panel.sessionContext.ready; await panel.sessionContext.session.kernel.info; }
  jupyterapp.shell.activateById(panel.id);
}"""
# the list of files hidden: room for notebooks
_READY = """async () => {
  await jupyterapp.restored;
  jupyterapp.shell.collapseLeft();
}"""
_RUN = """async ([path]) => {
  jupyterapp.shell.activateById(panels[path].id);
  await jupyterapp.commands.execute("notebook:run-all-cells");
}"""
_START = """([path]) => {
  jupyterapp.shell.activateById(panels[path].id);
  jupyterapp.commands.execute("notebook:run-all-cells");
}"""
_EXECUTE = """async ([path, code]) => {
  const kernel = panels[path].sessionContext.session.kernel;
  return (await kernel.requestExecute({code, silent: true}).done).content;
}"""
# what is left of a notebook whose opening came to nothing
_FORGET = """([path]) => [...jupyterapp.shell.widgets("main")]
  .filter(widget => widget.context?.path === path)
  .forEach(widget => { widget.context.model.dirty = false; widget.dispose(); })"""
_SAVE = "async ([path]) => { await panels[path].context.save(); }"
_CLOSE = """async ([path]) => {
  const panel = panels[path], session = panel.sessionContext.session?.id;
  panel.context.model.dirty = false;
  panel.dispose();
  delete panels[path];
  if (session) { await jupyterapp.serviceManager.sessions.shutdown(session); }
}"""
_ERRORS = """([path]) => [...panels[path].content.model.cells]
  .filter(cell => cell.type === "code").flatMap(cell => cell.outputs.toJSON())
  .filter(output => output.output_type === "error")
  .map(output => `${output.ename}: ${output.evalue}`)"""

_SIDE = """open => {
  if (open) jupyterapp.shell.expandLeft();
  else jupyterapp.shell.collapseLeft();
}"""
#: JupyterLab shows the cells of a notebook when its page is idle, or a few in three seconds: a page
#: that Chromium does not draw is never idle. Here the clock says when.
_IDLE = """
window.requestIdleCallback = (call) =>
  setTimeout(() => call({didTimeout: false, timeRemaining: () => 50}), 1);
window.cancelIdleCallback = clearTimeout;
"""
#: what Chromium says of a promise that nothing can keep any more: JupyterLab dropped it
_DROPPED = "promise was garbage collected"
#: and where nothing listens any more
_REFUSED = "ERR_CONNECTION_REFUSED"
_TRIES = 3
#: milliseconds that JupyterLab has to come up
_LOAD = 60_000

#: JupyterLab's own words when a notebook is closed while it still greets its kernel
KNOWN = (
    r"Could not restore the debugger state",
    r"uncaught: [^\n]*removeChild[\s\S]*/jlab_core\.",
    r"uncaught: [^\n]*'kernel'\)[\s\S]*/jupyterlab-manager/static/",
    r"uncaught: Error: Canceled future for create_subshell_request message",
)
_THEME = """async ([name]) => {
  await jupyterapp.commands.execute("apputils:change-theme", {theme: name});
}"""


class Lab:
    """One page with a JupyterLab in it."""

    def __init__(self, server: Server, page: Any) -> None:
        self.server = server
        self.page = page
        self.guard = Guard(page, server.url.removeprefix("http://"), KNOWN)
        page.add_init_script(_IDLE)
        self.names = (f"n{number}.ipynb" for number in count())
        self.opened: list[Notebook] = []
        self.load()

    def load(self) -> None:
        """JupyterLab in the page; where it does not come up, it is loaded again, as a person would,
        and where its server has ended, this is started again.

        It is asked by the clock: frames, which are asked by default, stand still in a page that
        Chromium does not draw.
        """
        from playwright.sync_api import Error
        from playwright.sync_api import TimeoutError as TooLate

        heard = ""
        for _ in range(_TRIES):
            try:
                self.page.goto(f"{self.server.url}/lab?token={self.server.token}&reset")
                self.page.wait_for_function("window.jupyterapp", timeout=_LOAD, polling=100)
                self.page.evaluate(_READY)
                return
            except TooLate:
                heard = "\n".join(self.guard.heard)
                self.guard.heard.clear()
            except Error as error:
                if _REFUSED not in str(error):
                    raise
                heard = str(error)
                self.guard.heard.clear()
                self.server.stop()
                self.server.start()
        log = self.server.log.read_text()[-4000:]
        raise RuntimeError(f"JupyterLab did not come up.\nHeard: {heard}\nThe server: {log}")

    def open(
        self, cells: Sequence[str] | Any, *, trusted: bool = False, live: bool = True
    ) -> Notebook:
        """A notebook of these cells in a tab of its own; `live`: with a kernel."""
        name = next(self.names)
        nbformat.write(notebook_of(cells), self.server.notebooks / name)
        if trusted:
            self.server.trust(name)
        return self.show(name, live)

    def show(self, name: str, live: bool) -> Notebook:
        """A notebook that the server has.

        JupyterLab sometimes drops what it promised while it opens one; then it is asked again.
        """
        for _ in range(_TRIES - 1):
            try:
                self.page.evaluate(_OPEN, [name, live])
                break
            except Exception as error:
                if _DROPPED not in str(error):
                    raise
                self.page.evaluate(_FORGET, [name])
        else:
            self.page.evaluate(_OPEN, [name, live])
        made = Notebook(self, name)
        self.opened.append(made)
        return made

    def theme(self, dark: bool) -> None:
        """JupyterLab's light or dark theme."""
        self.page.evaluate(_THEME, [f"JupyterLab {'Dark' if dark else 'Light'}"])
        wanted = "false" if dark else "true"
        self.page.wait_for_selector(f"body[data-jp-theme-light={wanted}]", state="attached")

    def resize(self, width: int = 1280, with_files: bool = False) -> None:
        """Another width of the window, with the list of files or without."""
        self.page.set_viewport_size({"width": width, "height": 1600})
        self.page.evaluate(_SIDE, with_files)

    def end(self) -> None:
        """Close the notebooks of a test; nothing that must not happen has happened."""
        for notebook in [*self.opened]:
            notebook.close()
        self.guard.check()


class Notebook:
    """A notebook that is open."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab = lab
        self.name = name
        tab = f".jp-NotebookPanel[data-notebook='{name}']"
        lab.page.evaluate("([path]) => { panels[path].node.dataset.notebook = path; }", [name])
        self.root = lab.page.locator(tab)

    @property
    def path(self) -> Path:
        """The file."""
        return self.lab.server.notebooks / self.name

    def call(self, code: str) -> Any:
        """What JavaScript says that is given this notebook's path."""
        return self.lab.page.evaluate(code, [self.name])

    def run(self) -> None:
        """Run all cells and wait for the last; no cell may raise."""
        self.call(_RUN)
        assert self.errors() == []

    def start(self) -> None:
        """Run all cells, and wait for none."""
        self.call(_START)

    def execute(self, code: str) -> None:
        """Run code in the kernel, outside the cells; it may not raise."""
        answer = self.lab.page.evaluate(_EXECUTE, [self.name, code])
        assert answer["status"] == "ok", answer

    def errors(self) -> list[str]:
        """The errors that the cells show."""
        return self.call(_ERRORS)

    def output(self, number: int) -> Any:
        """The outputs of a cell, by its place in the notebook."""
        cell = self.root.locator(f".jp-Cell[data-windowed-list-index='{number}']")
        return cell.locator(".jp-OutputArea-output")

    def save(self) -> Any:
        """Save it with the widgets' state; gives the notebook of the file."""
        self.call(_SAVE)
        return nbformat.read(self.path, as_version=4)

    def reopen(self) -> Notebook:
        """Close it, and open what was saved: with a new kernel, which knows nothing of it.

        JupyterLab's own widget manager shows no widget where there is no kernel at all.
        """
        self.close()
        return self.lab.show(self.name, live=True)

    def close(self) -> None:
        """Close its tab and end its kernel."""
        self.call(_CLOSE)
        self.lab.opened.remove(self)


def notebook_of(cells: Sequence[str] | Any) -> Any:
    """A notebook of these sources; what is a notebook already stays."""
    if isinstance(cells, nbformat.NotebookNode):
        return cells
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return v4.new_notebook(cells=[v4.new_code_cell(text) for text in cells], metadata=metadata)


def with_outputs(bundles: Sequence[dict[str, Any]], state: dict[str, Any] | None = None) -> Any:
    """A notebook that shows these mime bundles, as if cells had been run; `state`: of widgets."""
    notebook = notebook_of([f"# {number}" for number in range(len(bundles))])
    for cell, bundle in zip(notebook.cells, bundles, strict=True):
        cell.execution_count = 1
        cell.outputs = [v4.new_output("execute_result", data=bundle, execution_count=1)]
    if state is not None:
        notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": state}
    return notebook
