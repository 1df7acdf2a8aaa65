"""Runs tests that others wrote, as they are, on our stores, savers and sessions, and prints how many pass and which are left out, and why.

The tests come from the source packages, which are fetched. A plugin puts ours in the place of what they make; this module is another one,
which leaves tests out.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

SCORES = "compares scores as cosines; ours are of meaning and words together, and 0 where there is one item"
PRIVATE = "looks at parts of another store or saver, at its tables, or for its way of refusing SQL"
CONNECTION = "is the same on another kind of connection to PostgreSQL"
SAME_THREAD = "expects that sync calls are refused on the event loop's thread; ours may be made there"
VERSIONS = "puts a value of a channel without a new version; in ours, as in memory, a version has one value"
SNAPSHOT = "needs a method of SQLiteSession for compaction that is private"
OLD = "expects that what LangGraph wrote before version 4 of checkpoints is migrated; ours never stored it"


class Suite(NamedTuple):
    package: str
    plugin: str
    files: list[str]
    # Why a test is left out, by its name: a pattern of all of it but the parameters, after its file where others have the name too.
    left_out: dict[str, str]


SUITES = [
    Suite("langgraph-checkpoint==4.3.2", "swap", ["test_store.py"], {"test_embed_with_path": SCORES}),
    Suite(
        "langgraph-checkpoint-sqlite==3.1.2",
        "swap",
        ["test_store.py", "test_async_store.py", "test_ttl.py"],
        {
            "test_embed_with_path": SCORES,
            "test_embed_with_path_operation_config": SCORES,
            "test_scores": SCORES,
            "test_vector_store_initialization": PRIVATE,
            "test_sql_injection_vulnerability": PRIVATE,
            "test_filter_keys_with_hyphens_and_digits": "takes a dot in a key for a step; in memory and in Postgres it is none",
            "test_no_running_loop": SAME_THREAD,
            "test_ttl_refresh": "expects that a sweep counts what expired; ours is gone by itself",
            "test_ttl_override_default": "expects that reads do not refresh by default; BaseStore says that they do",
        },
    ),
    Suite(
        "langgraph-checkpoint-sqlite==3.1.2",
        "swap",
        [
            "test_sqlite.py", "test_aiosqlite.py", "test_delta_channel_migration.py", "test_delta_parent_walk.py",
            "test_get_delta_channel_history.py",
        ],
        {
            "test_checkpoint_search_sql_injection_prevention": PRIVATE,
            "test_walk_step_looks_up_the_parent_by_primary_key": PRIVATE,
            "test_informative_async_errors": "expects that a sync saver has no async methods",
            "test_metadata_filter_keys_with_hyphens_and_digits": "takes a dot in a key for a step; in memory and in Postgres it is none",
            "test_a?sync_walk_reaches_parent_whatever_the_id_order": VERSIONS,
            "test_a?sync_empty_checkpoint_id_reads_from_the_latest_checkpoint": VERSIONS,
            "test_walk_reaches_root_of_long_chain_with_descending_ids": VERSIONS,
            "test_seed_present_when_snapshot_in_ancestor_sync": VERSIONS,
            "test_walk_terminates_when_put_makes_the_parent_chain_cycle": "never ends with BaseCheckpointSaver's own walk, which ours is",
        },
    ),
    Suite(
        "langgraph-checkpoint-postgres==3.2.0",
        "swap",
        ["test_store.py", "test_async_store.py"],
        {
            r".*\[(pipe|pool)\b.*\]": CONNECTION,
            "test_embed_with_path(_sync)?": SCORES,
            "test_embed_with_path_operation_config": SCORES,
            # That one expects 0.
            r"test_scores\[(?!aaa-halfvec-l2).*\]": SCORES,
            "test_async_store.py::test_vector_search_edge_cases": SCORES,
            "test_vector_store_initialization": PRIVATE,
            "test_abatch_uses_single_pool_checkout": PRIVATE,
            "test_omit_expired_.*": PRIVATE,
            "test_no_running_loop": SAME_THREAD,
        },
    ),
    Suite(
        "langgraph-checkpoint-postgres==3.2.0",
        "swap",
        ["test_sync.py", "test_async.py", "test_prune.py", "test_delta_pagination.py", "test_delta_plain_value_seed.py"],
        {
            r".*\[(aio_)?(pipe|pool)\b.*\]": CONNECTION,
            r".*\[shallow\]": "is of a saver of the latest checkpoint alone",
            "test_pending_sends_migration": OLD,
            "test_get_checkpoint_no_channel_values": PRIVATE,
            "test_inline_primitive_seed_is_found": "takes None for no value; in ours, as in memory, it is one",
            "test_a?sync_walk_reads_nothing_newer_than_the_target": PRIVATE,
            r"test_prune\.py::(?!test_prune_conformance|test_keep_latest_keeps_writes_saved_before_their_checkpoint).*": PRIVATE,
        },
    ),
    Suite(
        "openai-agents==0.24.0",
        "swap_agents",
        [
            "memory/test_session.py", "memory/test_session_limit.py", "memory/test_compaction_model_visibility.py",
            "memory/test_openai_responses_compaction_session.py", "test_tool_batch_failure_history.py",
            "test_native_tool_failure_history.py", "test_tool_failure_boundaries.py", "test_run_impl_resume_paths.py",
            "test_soft_cancel.py", "test_max_turns.py",
        ],
        {
            "test_sqlite_session_(close|reaps_connections|keeps_connections|pop_item_returns_none).*": PRIVATE,
            "test_sqlite_session_(file_lock|failed|rollback_failure|post_commit).*": PRIVATE,
            ".*skips_corrupt.*": PRIVATE,
            "test_handoff_resume_after_cancelled.*": PRIVATE,
            "test_settled_(pop|clear)_failure.*": PRIVATE,
            "test_backend_read_limit.*": SNAPSHOT,
            "test_automatic_compaction_(does_not_reload|rollback).*": SNAPSHOT,
            "test_expired_read_overhead.*": SNAPSHOT,
            ".*dictionary.*": "gives settings as a dictionary; ours takes a SessionSettings",
        },
    ),
]


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--left-out", action="append", default=[])


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leaves tests out, each by its whole name."""
    names = [f"{item.path.name}::{item.name}" for item in items]
    left_out = set()
    for pattern in config.getoption("--left-out"):
        found = {name for name in names if re.fullmatch(rf"(.*::)?({pattern})(\[.*\])?", name)}
        if not found:
            raise ValueError(f"no test has the name {pattern}")
        left_out |= found
    config.hook.pytest_deselected(items=[item for item, name in zip(items, names, strict=True) if name in left_out])
    items[:] = [item for item, name in zip(items, names, strict=True) if name not in left_out]


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


def main(suites: list[Suite]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the source packages are kept")
    folder = parser.parse_args().folder.resolve()
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    rows, failed = [], False
    for package, plugin, files, left_out in suites:
        command = [
            sys.executable, "-m", "pytest", "-p", plugin, "-p", "run", "-p", "no:cacheprovider", "-q", "-rf", "--tb=short",
            "--retries", "2", "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function",
            *(f"--left-out={name}" for name in left_out), *(f"tests/{file}" for file in files),
        ]
        # Without the package's own modules beside its tests, the installed ones are imported.
        source = fetch(package, folder)
        result = subprocess.run(command, cwd=source, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
        summary = re.findall(r"(\d+) (passed|failed|error|skipped|deselected)", (result.stdout.splitlines() or [""])[-1])
        counts = {kind: int(count) for count, kind in summary}
        row = [counts.get(kind, 0) for kind in ("passed", "skipped", "deselected")]
        rows.append((package, ", ".join(files), row[0], counts.get("failed", 0) + counts.get("error", 0), *row[1:]))
        if result.returncode or not row[0]:
            failed = True
            print(result.stdout[-8000:], result.stderr[-2000:], sep="\n")
    print("| package | tests | passed | failed | make none of ours | left out |\n| --- | --- | --- | --- | --- | --- |")
    for line in rows:
        print("| " + " | ".join(map(str, line)) + " |")
    for package, _, _, left_out in suites:
        for name, reason in left_out.items():
            print(f"{package}: {name} {reason}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(SUITES))
