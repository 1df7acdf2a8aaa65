#!/usr/bin/env bash
# Expected: what a person types in Claude Code is in a user line with origin human, or in a field that says that these are the person's words.
# Happens: words typed with a refused permission are in userFeedback of the tool's result line (and again in its text, behind a sentence of Claude Code).
# Words typed with a granted one (Tab) are a bare text block behind the tool_result block: no origin, no promptSource, no userFeedback.
# Package: @anthropic-ai/claude-code 2.1.332 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
(cd "$T" && timeout 300 npm install --prefix "$T" --no-save --no-audit --no-fund @anthropic-ai/claude-code@2.1.332 > "$T/install.txt" 2>&1) ||
    { cat "$T/install.txt"; exit 1; }
cat > "$T/model.py" <<'PY'
# A model server on loopback with fixed answers.
import http.server, json


def reply(messages):
    last = json.dumps(messages[-1])
    if "tool_result" in last:
        return [{"type": "text", "text": "The poem is done."}]
    order = {"file_path": "poem.txt", "content": "Roses."}
    return [{"type": "tool_use", "id": f"toolu_{len(messages)}", "name": "Write", "input": order}]


class Model(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        self.send(b"{}", "application/json")

    do_HEAD = do_GET

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        blocks = reply(body["messages"])
        stop = "tool_use" if any(b["type"] == "tool_use" for b in blocks) else "end_turn"
        usage = {"input_tokens": 9, "output_tokens": 9}
        message = {"id": f"msg_{id(body)}", "type": "message", "role": "assistant", "model": body["model"], "content": [],
                   "stop_reason": None, "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            answer = {**message, "content": blocks, "stop_reason": stop}
            return self.send(json.dumps(answer).encode(), "application/json")
        events = [{"type": "message_start", "message": message}]
        for n, b in enumerate(blocks):
            if b["type"] == "text":
                empty, delta = {**b, "text": ""}, {"type": "text_delta", "text": b["text"]}
            else:
                empty, delta = {**b, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(b["input"])}
            events += [{"type": "content_block_start", "index": n, "content_block": empty},
                       {"type": "content_block_delta", "index": n, "delta": delta},
                       {"type": "content_block_stop", "index": n}]
        events += [{"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
                   {"type": "message_stop"}]
        self.events(events)

    def events(self, events):
        lines = [f"event: {e.get('type', 'message')}\ndata: {json.dumps(e)}\n\n" for e in events]
        self.send("".join(lines).encode(), "text/event-stream")

    def send(self, data, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(server.server_port, flush=True)
server.serve_forever()
PY
python3 "$T/model.py" > "$T/port" &
SERVER=$!
for _ in $(seq 100); do [ -s "$T/port" ] && break; sleep 0.1; done
URL="http://127.0.0.1:$(cat "$T/port")"
mkdir -p "$T/home" "$T/work"
echo '{"hasCompletedOnboarding": true, "theme": "dark"}' > "$T/home/.claude.json"
cat > "$T/terminal.py" <<'PY'
# Types into Claude Code in a terminal of its own: pairs of what to wait for on the screen (without spaces) and what to type then.
import fcntl, os, pty, re, select, struct, sys, termios, time

pid, terminal = pty.fork()
if pid == 0:
    os.execvp("node", ["node", *sys.argv[1:]])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 150, 0, 0))


def wait(words):
    shown, end = "", time.time() + 40
    while words not in re.sub(r"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07]*\x07|\s", "", shown):
        if time.time() > end:
            raise SystemExit(f"the screen never showed {words!r}: {shown[-2000:]!r}")
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 65536).decode(errors="ignore")


for words, keys in [
        ("Yes,Itrustthisfolder", ["\x1b[B", "\r"]),
        ("usethisAPIkey?", ["\x1b[A", "\r"]),
        ("forshortcuts", ["Please write the poem.", "\r"]),
        ("Tabtoamend", ["\x1b[B", "\x1b[B", "\t", "Use violets instead.", "\r"]),
        ("Thepoemisdone", ["Please write the poem again.", "\r"]),
        ("Tabtoamend", ["\t", "And read it to me aloud.", "\r"]),
        ("Thepoemisdone", ["/exit", "\r"])]:
    wait(words)
    for key in keys:
        time.sleep(1)
        os.write(terminal, key.encode())
time.sleep(2)
os.kill(pid, 15)
PY
(cd "$T/work" && env -i HOME="$T/home" PATH="$PATH" TERM=xterm-256color LANG=C.UTF-8 ANTHROPIC_BASE_URL="$URL" ANTHROPIC_API_KEY=dummy \
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 \
    timeout 200 python3 "$T/terminal.py" "$T/node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs" --permission-mode default)
node "$T/node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs" --version
python3 - "$T"/home/.claude/projects/*/*.jsonl <<'PY'
import json, sys
seen = {}
for line in open(sys.argv[1]):
    x = json.loads(line)
    for words in "Use violets instead.", "And read it to me aloud.":
        if x["type"] == "user" and words in json.dumps(x):
            seen[words] = x
            marks = {k: x[k] for k in ("origin", "promptSource", "userFeedback") if k in x}
            print(words, "|", [b["type"] for b in x["message"]["content"]], "|", marks)
refused, granted = seen["Use violets instead."], seen["And read it to me aloud."]
assert refused["userFeedback"] == "Use violets instead." and len(refused["message"]["content"]) == 1
assert [b["type"] for b in granted["message"]["content"]] == ["tool_result", "text"]
assert not {"origin", "promptSource", "userFeedback"} & set(granted)
print("SEEN: a person's words as a second block of a tool's result, without a mark")
PY
