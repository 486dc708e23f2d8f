"""Install Chromium where it is missing, without a question: `make test` runs this.

On Debian and Ubuntu by apt-get, as root or through `sudo -n`; elsewhere it says what to do. Where
it cannot be installed, the tests in a browser skip with that reason and this exits with 0, unless
CI is set: there the tests in a browser must run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.browser import chromium

#: with a font that has the letters of the tests' names
PACKAGES = ("chromium", "fonts-dejavu-core")
QUIET = {"DEBIAN_FRONTEND": "noninteractive"}


def main() -> int:
    """Install it if it is not there; 1 where that failed and it is needed."""
    if works(chromium.find()):
        return 0
    reason = install()
    if reason is None and works(chromium.find()):
        return 0
    print(f"tests in a browser: {reason or 'what was installed does not start'}", file=sys.stderr)
    print("install Chromium or Chrome, or set MLCNB_CHROMIUM to its program", file=sys.stderr)
    return 1 if os.environ.get("CI") else 0


def works(path: str | None) -> bool:
    """Whether it starts (on Ubuntu there is a program that only says to install a snap)."""
    if path is None:
        return False
    done = subprocess.run([path, "--version"], capture_output=True, check=False, timeout=60)
    return done.returncode == 0


def install() -> str | None:
    """Install it by the system's own means; returns why that cannot be, or None."""
    command = apt_get()
    if isinstance(command, str):
        return command
    environment = {**os.environ, **QUIET}
    for step in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run([*command, *step], env=environment, stdin=subprocess.DEVNULL)
        if done.returncode:
            return f"apt-get {step[0]} failed"
    return None


def apt_get() -> list[str] | str:
    """The command that may install packages, or why there is none."""
    if shutil.which("apt-get") is None:
        return "there is no Chromium, and no apt-get that could install it"
    if os.geteuid() == 0:
        return ["apt-get"]
    sudo = ["sudo", "-n", f"DEBIAN_FRONTEND={QUIET['DEBIAN_FRONTEND']}", "apt-get"]
    if shutil.which("sudo") and subprocess.run(["sudo", "-n", "true"], check=False).returncode == 0:
        return sudo
    return "there is no Chromium, and installing it needs root or sudo"


if __name__ == "__main__":
    sys.exit(main())
