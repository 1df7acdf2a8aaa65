"""The `mnemon` command: `python -m mnemon --help`. It is the program of the package `mnemon-engine-server`, if that is installed."""

import signal
import sys
from importlib.util import find_spec

from ._mnemon import command


def main() -> None:
    if find_spec("mnemon_engine_server"):
        from mnemon_engine_server import run

        run(sys.argv[1:])
    # Python would only note Ctrl-C, and see the note when the command has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(command([sys.executable, "-m", "mnemon"], sys.argv[1:]))


if __name__ == "__main__":
    main()
