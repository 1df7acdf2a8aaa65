"""Runs the tests that the frameworks of `make test-frameworks` carry in their source packages, as `run.py` does with those of others."""

import sys

from run import Suite, main

SUITES: list[Suite] = []

if __name__ == "__main__":
    sys.exit(main(SUITES))
