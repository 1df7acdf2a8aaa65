#!/usr/bin/env bash
# Expected: with one partition for each user, what is written to or deleted from Bo's partition leaves Ada's alone; `upsert` puts a record in the place of the one
# with its id.
# Happens: an id is one record for the whole collection. Bo's note 1 makes Ada's note 1 disappear, and `delete(ids=[2], partition_name="bo")` deletes Ada's note 2.
# And `upsert` merges, also with partial_update=False: Bo's new record has the field that only Ada's had, with her value.
# Package: milvus-lite 3.2.2, pymilvus 3.0.2 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check milvus-lite==3.2.2 pymilvus==3.0.2
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
from importlib.metadata import version
from pymilvus import DataType, MilvusClient

print("milvus-lite", version("milvus-lite"), "| pymilvus", version("pymilvus"))
client = MilvusClient("./notes.db")
schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
schema.add_field("id", DataType.INT64, is_primary=True)
schema.add_field("vector", DataType.FLOAT_VECTOR, dim=2)
index = client.prepare_index_params()
index.add_index("vector", index_type="FLAT", metric_type="COSINE")
client.create_collection("notes", schema=schema, index_params=index)
for user in "ada", "bo":
    client.create_partition("notes", user)


def note(id, text, **more):
    return {"id": id, "vector": [1.0, 0.0], "text": text, **more}


def notes(user):
    rows = client.query("notes", filter="id >= 0", partition_names=[user], output_fields=["*"])
    return [{key: value for key, value in row.items() if key != "vector"} for row in rows]


client.insert("notes", [note(1, "Ada has a bicycle", gate="4711"), note(2, "Ada plays the piano"), note(3, "Ada cooks soup")], partition_name="ada")
client.upsert("notes", [note(1, "Bo has a boat")], partition_name="bo", partial_update=False)
client.delete("notes", ids=[2], partition_name="bo")
client.insert("notes", [note(3, "Bo has a garden")], partition_name="bo")
ada, bo = notes("ada"), notes("bo")
print("Ada's notes:", ada, "| Bo's notes:", bo)
client.close()
assert ada == []
assert sorted(bo, key=lambda row: row["id"]) == [{"id": 1, "text": "Bo has a boat", "gate": "4711"}, {"id": 3, "text": "Bo has a garden"}]
print("SEEN: writing in one partition changes another")
PY
