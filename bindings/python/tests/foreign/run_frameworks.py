"""Runs the tests that the frameworks of `make test-frameworks` carry in their source packages, as `run.py` does with those of others."""

import sys

from run import PRIVATE, Suite, main

SUITES = [
    Suite(
        "crewai==1.15.28",
        "swap_crewai",
        ["memory"],
        {"test_(flush_to_central|dual_shard_search|orphaned_shard_cleanup)": PRIVATE},
    ),
]

if __name__ == "__main__":
    sys.exit(main(SUITES))
