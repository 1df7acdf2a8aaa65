"""The `mnemon` command: `python -m mnemon --help`."""

import signal
import sys

from ._mnemon import command


def main() -> None:
    # Python would only note Ctrl-C, and see the note when the command has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(command([sys.executable, "-m", "mnemon"], sys.argv[1:]))


if __name__ == "__main__":
    main()
