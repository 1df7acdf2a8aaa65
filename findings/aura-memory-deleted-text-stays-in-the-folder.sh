#!/usr/bin/env bash
# Expected: after `delete` has returned True and the store is closed, the text is no longer in its folder.
# Happens: recall does not show it any more, but its words are in three files, also after the store was opened and closed once more.
# Package: aura-memory 1.64.2 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check aura-memory==1.64.2
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" <<'PY'
import importlib.metadata as meta
import pathlib
import aura

print("aura-memory", meta.version("aura-memory"))
store = aura.Aura("memory")
name = store.store("The shed key is under the blue flowerpot")
before = str(store.recall("shed key"))
print("delete:", gone := store.delete(name))
after = str(store.recall("shed key"))
print("recall has the text before:", "flowerpot" in before, "| after:", "flowerpot" in after)
store.close()
again = aura.Aura("memory")
again.close()
kept = sorted(p.name for p in pathlib.Path("memory").rglob("*") if p.is_file() and b"flowerpot" in p.read_bytes())
print("files with the text:", kept)
assert gone is True and "flowerpot" in before and "flowerpot" not in after
assert {"brain.aura", "brain.cog", "brain.audit"} <= set(kept), kept
print("SEEN: deleted text in the folder")
PY
