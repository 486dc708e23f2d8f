"""A JupyterLab of its own: free port, token, nothing of the user's, gone with the tests.

python -m tests.browser.server ARGUMENTS    JupyterLab, until standard input ends: the pipe closes
                                            even where the tests are killed
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from mlcnb.cli.lab import SETTINGS, is_root, with_settings

ROOT = Path(__file__).parents[2]
#: seconds
START, STOP = 60, 10


class Server:
    """A running JupyterLab whose files all lie below one folder."""

    def __init__(self, folder: Path) -> None:
        self.notebooks = folder / "notebooks"
        self.notebooks.mkdir(parents=True)
        self.log = folder / "server.log"
        self.token = secrets.token_hex(16)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = environment(folder)
        self.start()

    def start(self) -> None:
        """Start it, again where it has ended: at the same address."""
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, *self.arguments()],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        self.wait()

    def arguments(self) -> list[str]:
        """How it is started."""
        settings = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": self.port,
            "ServerApp.port_retries": 0,
            "ServerApp.root_dir": self.notebooks,
            "ServerApp.open_browser": False,
            "ServerApp.allow_root": is_root(),
            "IdentityProvider.token": self.token,
            "LabApp.expose_app_in_browser": True,
            "LabApp.app_settings_dir": SETTINGS,
            "LabApp.extension_manager": "readonly",
            "LabApp.news_url": "",
        }
        return [f"--{name}={value}" for name, value in settings.items()]

    def wait(self) -> None:
        """Until it answers."""
        end = time.monotonic() + START
        while time.monotonic() < end:
            try:
                return self.ask("GET", "/api/status") and None
            except (urllib.error.URLError, ConnectionError):
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        self.stop()
        raise RuntimeError(f"JupyterLab did not start:\n{self.log.read_text()[-2000:]}")

    def ask(self, method: str, path: str) -> Any:
        """The answer of the server's API."""
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Authorization", f"token {self.token}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            body = answer.read()
        return json.loads(body) if body else None

    def trust(self, name: str) -> None:
        """Sign a notebook, as its owner would."""
        self.ask("POST", f"/api/contents/{name}/trust")

    def stop(self) -> None:
        """End it and its kernels."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(STOP)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def environment(folder: Path) -> dict[str, str]:
    """The process's own, with every folder of Jupyter's under `folder`."""
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    paths = {name: str(folder / part) for name, part in folders.items()}
    own = {**os.environ, **paths, "PYTHONPATH": str(ROOT), "JUPYTER_PREFER_ENV_PATH": "1"}
    return with_settings(own)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main() -> None:
    """Run JupyterLab until standard input ends."""
    from jupyterlab.labapp import LabApp

    def stop_with_the_tests() -> None:
        sys.stdin.buffer.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_with_the_tests, daemon=True).start()
    LabApp.launch_instance(sys.argv[1:])


if __name__ == "__main__":
    main()
