"""The spans of the server in a real collector, Rotel. $MNEMON is the program, built with the feature `otel`."""

import os
import re
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest
import rotel

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SECRET = "xylophone"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def spans(text):
    """The spans that the collector printed, by their names: the trace, the span's id, its parent's, and all of its lines."""
    found = {}
    for part in re.split(r"^Span #\d+", text, flags=re.M)[1:]:
        field = lambda name: re.search(rf"^\s*{name}\s*: *(.*)", part, re.M)[1].strip()
        found.setdefault(field("Name"), []).append((field("Trace ID"), field("ID"), field("Parent ID"), part))
    return found


@pytest.fixture
def collector(tmp_path):
    port, log = free_port(), tmp_path / "collector.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                Path(rotel.__file__).with_name("rotel-agent"), "start", "--exporter", "blackhole",
                "--debug-log", "traces", "--debug-log-verbosity", "detailed",
                "--otlp-http-endpoint", f"127.0.0.1:{port}", "--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}",
            ],
            stdout=output, stderr=output,
        )
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}", log
    process.kill()
    process.wait()


def start(folder, endpoint):
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "XDG_RUNTIME_DIR": str(folder)}
    server = subprocess.Popen(
        [os.environ["MNEMON"], "serve", "--db", folder / "m.redb", "--listen", "127.0.0.1:0"],
        env=environment, stderr=subprocess.PIPE, text=True,
    )
    return server, server.stderr.readline().split()[-1]


def test_spans_of_requests_and_calls_reach_a_collector(tmp_path, collector):
    endpoint, log = collector
    server, url = start(tmp_path, endpoint)
    client = httpx.Client(base_url=url, headers=HEADERS)
    space = f"/v1/namespaces/{SECRET}-space"
    message = {"role": "user", "content": f"The {SECRET} is in the attic."}
    assert client.post(f"{space}/messages", json={"messages": [message]}).status_code == 200
    assert client.post("/v1/flush").status_code == 200
    assert client.post(f"{space}/recall", json={"query": f"Where is the {SECRET}?"}).json()["hits"]
    call = {"name": "search_memories", "arguments": {"query": SECRET, "namespace": f"{SECRET}-space"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    accept = {"accept": "application/json, text/event-stream"}
    assert client.post("/mcp", json=call, headers=accept).status_code == 200
    # The last spans are sent when the server ends.
    server.terminate()
    assert server.wait(20) == 0
    time.sleep(1)
    text = log.read_text()
    found = spans(text)
    put = "POST /v1/namespaces/{namespace}/messages"
    recall = "POST /v1/namespaces/{namespace}/recall"
    for name in [put, recall, "POST /mcp", "tools/call search_memories", "put", "flush", "recall"]:
        assert name in found, sorted(found)
    for request, inner in [(put, "put"), (recall, "recall"), ("POST /mcp", "tools/call search_memories")]:
        [(trace, identity, parent, lines)] = found[request]
        assert (trace, parent) == (TRACE, PARENT) and "http.response.status_code: Int(200)" in lines, lines
        assert any(inner[0] == TRACE and inner[2] == identity for inner in found[inner]), found[inner]
    [(_, tool, _, _)] = found["tools/call search_memories"]
    assert any(parent == tool for _, _, parent, _ in found["recall"])
    assert re.search(r"service.name.*mnemon", text)
    assert SECRET not in text


def test_a_server_works_without_its_collector(tmp_path):
    server, url = start(tmp_path, f"http://127.0.0.1:{free_port()}")
    assert httpx.post(f"{url}/v1/flush").status_code == 200
    started = time.monotonic()
    server.terminate()
    assert server.wait(20) == 0 and time.monotonic() - started < 10
    assert "OTLP export exhausted retries" in server.stderr.read()
