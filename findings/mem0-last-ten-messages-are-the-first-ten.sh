#!/usr/bin/env bash
# Expected: of a conversation that is added in one call, mem0 keeps the last ten messages as the context of the next call: `get_last_messages`.
# Happens: it keeps the first ten. All messages of a call have one time, and of equal times SQLite keeps the rows that were written first. Of 14
# messages the language model is shown the turns 0 to 9 by the next `add`; the four newest, which it would need to understand "it", are gone.
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
memory.add([{"role": "user", "content": f"turn-{i:02}"} for i in range(14)], user_id="ada")
memory.add("And when does it open?", user_id="ada")
with open(os.environ["ASKED"]) as file:
    request = file.readlines()[-1]
shown = [i for i in range(14) if f"turn-{i:02}" in request]
print("14 messages in one call; turns that the next call shows the model:", shown)
assert shown == list(range(10)), shown
# One call for each message keeps the last ten.
for i in range(14):
    memory.add(f"turn-{i:02}", user_id="bob")
memory.add("And when does it open?", user_id="bob")
with open(os.environ["ASKED"]) as file:
    request = file.readlines()[-1]
shown = [i for i in range(14) if f"turn-{i:02}" in request]
print("the same in 14 calls:", shown)
assert shown == list(range(4, 14)), shown
memory.vector_store.client.close()
print("SEEN: the oldest ten messages as the last ten")
PY
