"""The whole `mnemon` command, as a program: with `serve`, `mcp` and `hook`, which the package `mnemon-engine` alone does not have."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

COMMAND = Path(__file__).with_name("mnemon.exe" if os.name == "nt" else "mnemon")


def run(arguments: Sequence[str]) -> NoReturn:
    """Runs the command in the place of this process. On Windows, which cannot do that, it waits for it."""
    if os.name == "nt":
        sys.exit(subprocess.run([COMMAND, *arguments]).returncode)
    os.execv(COMMAND, [str(COMMAND), *arguments])


def main() -> NoReturn:
    run(sys.argv[1:])
