"""Runs tests that LangGraph wrote, as they are, on our store and saver, and prints how many pass and which are left out, and why.

The tests come from the source packages, which are fetched. `swap.py` puts ours in the place of what they make.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

PACKAGES = {
    "langgraph-checkpoint==4.3.2": ["test_store.py"],
    "langgraph-checkpoint-sqlite==3.1.2": [
        "test_store.py", "test_async_store.py", "test_ttl.py", "test_get_delta_channel_history.py",
    ],
}

# Parts of tests' names, by package and reason.
SCORES = "it compares scores as cosines; ours are of meaning and words together"
PRIVATE = "it looks at SQLite's tables, or for its way of refusing SQL"
EXCEPTIONS = {
    "langgraph-checkpoint": {
        "test_embed_with_path": SCORES,
    },
    "langgraph-checkpoint-sqlite": {
        "test_embed_with_path": SCORES,
        "test_scores": SCORES,
        "test_vector_store_initialization": PRIVATE,
        "test_nonnull_migrations": PRIVATE,
        "test_sql_injection_vulnerability": PRIVATE,
        "test_filter_keys_with_hyphens_and_digits": "a dot in a key is a step there; in memory and in Postgres it is none",
        "test_no_running_loop": "it expects that sync calls are refused on the event loop's thread; ours may be made there",
        "test_ttl_refresh": "it expects that a sweep counts what expired; ours is gone by itself",
        "test_ttl_override_default": "it expects that reads do not refresh by default; BaseStore says that they do",
        "test_seed_present_when_snapshot_in_ancestor_sync": "it changes a value and not its version, which is kept once",
    },
}


def fetch(package: str, folder: Path) -> Path:
    """The source package, unpacked."""
    name, version = package.split("==")
    source = folder / f"{name.replace('-', '_')}-{version}"
    if not source.exists():
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--no-binary", ":all:", "--dest", str(folder), package], check=True)
        with tarfile.open(f"{source}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return source


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the source packages are kept")
    folder = parser.parse_args().folder.resolve()
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    rows, failed = [], False
    for package, files in PACKAGES.items():
        name = package.split("==")[0]
        source, left_out = fetch(package, folder), EXCEPTIONS[name]
        command = [
            sys.executable, "-m", "pytest", "-p", "swap", "-p", "no:cacheprovider", "-q", "-rf", "--tb=short", "--retries", "2",
            "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function",
            "-k", " and ".join(f"not {part}" for part in left_out), *(f"tests/{file}" for file in files),
        ]
        # Without the package's own modules beside its tests, the installed ones are imported.
        result = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
        summary = re.findall(r"(\d+) (passed|failed|deselected|error)", result.stdout.splitlines()[-1])
        counts = {kind: int(count) for count, kind in summary}
        rows.append((package, counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0), counts.get("deselected", 0)))
        if result.returncode:
            failed = True
            print(result.stdout[-8000:], result.stderr[-2000:], sep="\n")
    print("| tests of | passed | failed | left out |\n| --- | --- | --- | --- |")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    for name, left_out in EXCEPTIONS.items():
        for part, reason in left_out.items():
            print(f"{name}: {part}: {reason}")
    return int(failed or not all(row[1] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
