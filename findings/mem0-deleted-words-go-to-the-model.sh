#!/usr/bin/env bash
# Expected: after `delete_all(user_id="ada")` nothing that Ada said is kept, or shown to the language model again.
# Happens: `get_all` is empty, but the last ten messages of each user are in the table messages of history.db, which `delete_all` leaves as it is.
# The next `add`, a good morning, sends the deleted words to the language model, as context for what it should remember.
# Package: mem0ai 2.2.1, qdrant-client 1.20.0 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check mem0ai==2.2.1 qdrant-client==1.20.0
cat > "$T/model.py" <<'PY'
# A server on loopback with fixed answers: an embedder that counts letters, and a chat model that extracts a
# memory from the first request and none from later ones. It writes down what it is asked.
import http.server, json, os, sys


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
            memories = [] if os.path.exists(sys.argv[1]) else [{"text": "The shed key is under the blue flowerpot"}]
            with open(sys.argv[1], "a") as asked:
                asked.write(json.dumps(body["messages"]) + "\n")
            message = {"role": "assistant", "content": json.dumps({"memory": memories})}
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


def asked():
    """Whether the last request to the language model has the words."""
    with open(os.environ["ASKED"]) as file:
        return "flowerpot" in file.readlines()[-1]


memory.add("The shed key is under the blue flowerpot", user_id="ada")
first, before = asked(), memory.get_all(filters={"user_id": "ada"})["results"]
memory.delete_all(user_id="ada")
after = memory.get_all(filters={"user_id": "ada"})["results"]
memory.add("Good morning", user_id="ada")
second = asked()
print("memories before delete_all:", len(before), "| after:", len(after))
print("the model is shown the words by the first add:", first, "| by an add after delete_all:", second)
assert first and len(before) == 1 and after == [] and second
memory.vector_store.client.close()
print("SEEN: deleted words in a request to the model")
PY
