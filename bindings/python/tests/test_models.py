"""Models by name, vectors, reindexing, and models of servers."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy
import pytest

import mnemon
from mnemon import Engine, Message

NAMESPACE = "acme/ada"
MINILM = Path(__file__).parents[3] / "models" / "all-MiniLM-L6-v2-int8"


class Axes:
    """Puts each text on an axis."""

    name = "axes"
    dimension = 8

    def embed_documents(self, texts):
        return numpy.eye(8, dtype="float32")[[len(text) % 8 for text in texts]]


def test_vectors_are_arrays_without_a_copy() -> None:
    with Engine() as engine:
        vectors = engine.embed_documents(["a boat", "a bicycle", "a train"])
        array = numpy.asarray(vectors)
        assert array.shape == (3, 256) and array.dtype == numpy.float32 and not array.flags.owndata
        assert len(vectors) == 3 and vectors[-1] == vectors.tolist()[2] == list(vectors)[2] == array[2].tolist()
        assert numpy.allclose(numpy.linalg.norm(array, axis=1), 1, atol=1e-5)
        del vectors
        assert array.sum() == array.copy().sum()
        assert max(array @ numpy.asarray(engine.embed_query("a boat"), dtype="float32")) == pytest.approx(1, abs=0.2)
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1
        with pytest.raises(IndexError):
            engine.embed_documents(["x"])[1]
        assert engine.embed_documents([]).tolist() == []
        assert memoryview(engine.embed_documents(["x"])).shape == (1, 256)


def test_a_long_text_has_the_mean_of_its_parts() -> None:
    with Engine() as engine:
        long = " ".join(f"word{number}" for number in range(3000))
        for vector in (engine.embed_documents([long, "short"])[0], engine.embed_query(long)):
            assert numpy.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
        alone, beside = engine.embed_documents(["short"])[0], engine.embed_documents([long, "short"])[1]
        assert alone == beside


def test_an_array_of_an_embedder_is_read_as_it_lies() -> None:
    class Flipped(Axes):
        def embed_documents(self, texts):
            return numpy.asfortranarray(super().embed_documents(texts))

    with Engine(embedder=Flipped()) as engine:
        assert engine.embed_documents(["aaa"])[0] == [0, 0, 0, 1, 0, 0, 0, 0]


def test_a_database_moves_to_another_model_and_back(tmp_path: Path) -> None:
    with Engine(tmp_path / "memory.redb") as engine:
        engine.put(NAMESPACE, [Message(f"text {i} {'x' * i}") for i in range(60)])
        engine.flush()
        steps = []
        report = engine.reindex(Axes(), min_recall=0, progress=steps.append)
        assert report["switched"] and report["embedded"] == 60 and engine.model["name"] == "axes"
        assert steps[-1]["phase"] == "switched" and {"done", "total", "rate", "left"} < set(steps[0])
        assert engine.rollback("static-en-256")["to"].startswith("static-en-256") and engine.model["dimension"] == 256
        assert engine.drop_previous() and not engine.drop_previous()
        with pytest.raises(mnemon.NoPreviousError):
            engine.rollback(Axes())

        def fail(step):
            raise RuntimeError("stop")

        with pytest.raises(RuntimeError, match="stop"):
            engine.reindex(Axes(), progress=fail)
        assert not engine.reindex(Axes(), progress=lambda step: False)["switched"]
        assert engine.model["dimension"] == 256 and len(engine.recall(NAMESPACE, "text", k=3)) == 3


def test_a_model_that_is_not_there_is_an_error_with_a_remedy() -> None:
    with pytest.raises(mnemon.ModelNotFoundError, match="no-such-model"):
        Engine(embedder="no-such-model")
    with pytest.raises(mnemon.ModelNotFoundError):
        Engine(reranker=Path("no/such/reranker"))


@pytest.mark.skipif(not MINILM.exists(), reason="make model-minilm builds the model")
def test_a_model_folder_runs_beside_an_imported_onnxruntime(tmp_path: Path) -> None:
    program = """
import sys
order = sys.argv[3]
if order == "first":
    import onnxruntime
import mnemon
with mnemon.Engine(sys.argv[1], embedder=sys.argv[2]) as engine:
    if order == "last":
        import onnxruntime
    engine.put("n", [mnemon.Message("My bike is in the cellar."), mnemon.Message("The bakery opens in June.")])
    engine.flush()
    print(engine.recall("n", "where is the bicycle?", k=1)[0].message.text, engine.model["dimension"])
    session = onnxruntime.InferenceSession(sys.argv[2] + "/model.onnx", providers=["CPUExecutionProvider"])
    print(len(session.get_inputs()) > 0)
"""
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DYLIB_PATH"}
    for order in ("first", "last"):
        run = [sys.executable, "-c", program, str(tmp_path / f"{order}.redb"), str(MINILM), order]
        result = subprocess.run(run, capture_output=True, text=True, env=environment)
        assert result.returncode == 0, result.stderr
        assert result.stdout == "My bike is in the cellar. 384\nTrue\n"


class Server(BaseHTTPRequestHandler):
    """Answers as a server of OpenAI's protocol does."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["Authorization"] == "Bearer secret"
        if self.path == "/v1/embeddings":
            vectors = Axes().embed_documents(request["input"]).tolist()
            answer = {"data": [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)]}
        else:
            message = {"role": "assistant", "content": '{"model": "%s"}' % request["model"]}
            answer = {"choices": [{"message": message, "finish_reason": "stop"}]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_models_of_servers() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        chat = mnemon.OpenAiChat(url, "small", api_key="secret", timeout=5)
        assert "secret" not in repr(chat)
        with Engine(embedder=mnemon.OpenAiEmbedder(url, "axes", 8, api_key="secret")) as engine:
            assert engine.embed_documents(["aaa"])[0][3] == 1
            assert mnemon.Profile(engine, NAMESPACE).update([Message("hello")], chat) == {"model": "small"}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
