#!/usr/bin/env bash
# Expected: `search` and `get_all` return the best, or all, of the memories that have not expired; expired ones cost nothing but space.
# Happens: expired memories are never deleted, and are left out after the store's limit was applied, the greater of 60 and four times top_k. 200 expired
# ones that match better leave a search without any result, though five live ones are there; after their deletion, the same search finds all five.
# Package: mem0ai 2.2.1, qdrant-client 1.20.0 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check mem0ai==2.2.1 qdrant-client==1.20.0
cat > "$T/model.py" <<'PY'
# A server on loopback with fixed answers: an embedder that counts letters, and a chat model that extracts nothing. It writes down what it is asked.
import http.server, json, sys


class Model(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        head = {"model": body["model"], "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}}
        if self.path.endswith("/embeddings"):
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            vectors = [[text.lower().count(letter) + 0.01 for letter in "abcdefghijklmnop"] for text in texts]
            answer = {**head, "object": "list",
                      "data": [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]}
        else:
            with open(sys.argv[1], "a") as asked:
                asked.write(json.dumps(body["messages"]) + "\n")
            message = {"role": "assistant", "content": '{"memory": []}'}
            answer = {**head, "id": "chat-1", "object": "chat.completion", "created": 1,
                      "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(server.server_port, flush=True)
server.serve_forever()
PY
python3 "$T/model.py" "$T/asked" > "$T/port" &
SERVER=$!
for _ in $(seq 100); do [ -s "$T/port" ] && break; sleep 0.1; done
URL="http://127.0.0.1:$(cat "$T/port")/v1"
cd "$T"
env -i HOME="$T" PATH="$PATH" URL="$URL" ASKED="$T/asked" OPENAI_API_KEY=dummy MEM0_TELEMETRY=False MEM0_DIR="$T/mem0" \
    timeout 200 "$T/venv/bin/python" <<'PY'
import importlib.metadata as meta
import json
import os
from mem0 import Memory

print("mem0ai", meta.version("mem0ai"), "| qdrant-client", meta.version("qdrant-client"))
url = os.environ["URL"]
memory = Memory.from_config({
    "llm": {"provider": "openai", "config": {"model": "local", "openai_base_url": url}},
    "embedder": {"provider": "openai", "config": {"model": "local", "openai_base_url": url, "embedding_dims": 16}},
    "vector_store": {"provider": "qdrant", "config": {"path": "vectors", "collection_name": "notes", "embedding_model_dims": 16}},
    "history_db_path": "history.db",
})
for i in range(200):
    memory.add(f"The gate code is {i:03}", user_id="ada", infer=False, expiration_date="2020-01-01")
for i in range(5):
    memory.add(f"The gate has a new lock with a fingerprint reader, number {i}", user_id="ada", infer=False)


def search():
    return len(memory.search("The gate code is what?", top_k=5, filters={"user_id": "ada"})["results"])


live = len(memory.get_all(filters={"user_id": "ada"}, top_k=1000)["results"])
page = len(memory.get_all(filters={"user_id": "ada"}, top_k=5)["results"])
before = search()
for row in memory.get_all(filters={"user_id": "ada"}, top_k=1000, show_expired=True)["results"]:
    if row["memory"].startswith("The gate code"):
        memory.delete(row["id"])
after = search()
print("live memories:", live, "| of 5 asked for, get_all returns", page, "| search finds", before)
print("search after the expired ones were deleted:", after)
assert live == 5 and before == 0 and after == 5
memory.vector_store.client.close()
print("SEEN: expired memories that hide live ones")
PY
