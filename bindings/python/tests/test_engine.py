"""The engine from Python: what is put is found, bad input is a clear error, and closing is clean."""

import pickle
import re
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy
import pytest

import mnemon
from mnemon import Config, Engine, Message, Query

NAMESPACE = "acme/ada"


@pytest.fixture
def engine():
    with Engine() as engine:
        yield engine


def texts(hits):
    return [hit.message.text for hit in hits]


def test_the_first_program_finds_what_it_put(tmp_path: Path) -> None:
    with Engine(tmp_path / "memory.redb") as engine:
        report = engine.put(NAMESPACE, [
            Message("I moved my rowing lesson to Thursday morning.", session="monday", name="Ada"),
            {"role": "assistant", "content": "Noted: rowing on Thursday morning.", "session": "monday"},
            Message("My sister's bakery opens in June."),
        ])
        assert report == {"new": 3, "replaced": 0, "unchanged": 0}
        assert engine.flush() == 3 and engine.pending() == 0
        hits = engine.recall(NAMESPACE, "When does she go rowing?", k=2)
        assert len(hits) == 2 and "rowing" in hits[0].message.text and hits[-1].rank == 2
        assert hits[0].score >= hits[1].score and hits[0].breakdown["lexical"] > 0
    with Engine(tmp_path / "memory.redb", create=False) as engine:
        assert [message.role for message in engine.history(NAMESPACE, "monday")] == ["user", "assistant"]
        assert (engine.model["dimension"], engine.model["given"]) == (256, False)


def test_a_message_keeps_its_fields(engine: Engine) -> None:
    written = datetime(2024, 5, 1, 9, 30, tzinfo=timezone(timedelta(hours=2)))
    metadata = {"topic": "boats", "price": 1.5, "tags": ["a", None, True], "n": 2**53 + 1}
    message = Message("hello", "tool", id="m1", session="s", name="Ada", created_at=written, metadata=metadata)
    engine.put(NAMESPACE, [message])
    stored = engine.get(NAMESPACE, "m1")
    assert stored == message and stored.metadata == metadata and stored.created_at == written
    assert Message.from_dict(stored.to_dict()) == stored and stored.to_dict()["created_at"] == written
    assert engine.get(NAMESPACE, "m2") is None
    parts = [{"type": "text", "text": "look"}]
    assert Message(parts).content == parts


def test_messages_expire(engine: Engine) -> None:
    now = datetime.now(timezone.utc)
    kept = Message("the ferry", id="kept", expires_at=now + timedelta(hours=1))
    engine.put(NAMESPACE, [kept, Message("the ferry", id="gone", expires_at=now - timedelta(seconds=1)), Message("the ferry", id="endless")])
    assert engine.get(NAMESPACE, "kept") == kept and kept.expires_at == now + timedelta(hours=1)
    assert Message.from_dict(kept.to_dict()) == kept and kept.to_dict()["expires_at"] == kept.expires_at
    assert pickle.loads(pickle.dumps(kept)) == kept
    assert engine.get(NAMESPACE, "gone") is None and engine.get(NAMESPACE, "endless").expires_at is None
    assert {hit.message.id for hit in engine.recall(NAMESPACE, "ferry")} == {"kept", "endless"}
    engine.set_ttl(NAMESPACE, 30)
    engine.put(NAMESPACE, ["a boat"])
    assert timedelta(minutes=29) < engine.history(NAMESPACE, "default")[-1].expires_at - now < timedelta(minutes=31)
    assert engine.namespaces()[0]["ttl_minutes"] == 30
    engine.set_ttl(NAMESPACE, None)
    assert engine.namespaces()[0]["ttl_minutes"] is None


def test_queries_filter(engine: Engine) -> None:
    time = datetime(2024, 1, 1, tzinfo=timezone.utc)
    engine.put(NAMESPACE, [
        Message(f"the boat number {i}", "user" if i % 2 else "assistant", id=f"m{i}", session=f"s{i % 3}",
                created_at=time + timedelta(days=i), metadata={"price": i})
        for i in range(12)
    ])
    engine.flush()

    def found(**options):
        return {hit.message.id for hit in engine.recall(NAMESPACE, Query("boat", k=20, **options))}

    assert found() == {f"m{i}" for i in range(12)}
    assert found(where={"price": {"$lt": 3}}) == {"m0", "m1", "m2"}
    assert found(session="s1", role="user") == {"m1", "m7"}
    assert found(since=time + timedelta(days=10)) == {"m10", "m11"}
    assert found(ids=["m1", "m2"], except_ids=["m2"]) == {"m1"}
    assert len(engine.recall(NAMESPACE, Query("boat", k=20), k=5)) == 5


def test_deletion_and_forgetting(engine: Engine) -> None:
    engine.put(NAMESPACE, [Message(f"boat {i}", id=f"m{i}") for i in range(5)])
    assert engine.delete(NAMESPACE, ["m0", "m9"]) == 1
    receipt = engine.forget(NAMESPACE, ids=["m1"])
    assert receipt["event"]["forgotten"]["messages"] == 1
    assert "m1" not in {hit.message.id for hit in engine.recall(NAMESPACE, "boat")}
    assert [info["messages"] for info in engine.namespaces("acme")] == [3]
    with pytest.raises(TypeError, match="one of"):
        engine.forget(NAMESPACE, ids=["m1"], below=True)
    assert engine.delete_namespace(NAMESPACE) == 3 and engine.namespaces() == []


def test_documents(engine: Engine) -> None:
    documents = engine.documents(NAMESPACE)
    value = {"title": "The Odyssey", "pages": [1, 2.5, None], "read": False}
    documents.put("k", value, index=["title"], ttl_minutes=60)
    document = documents.get("k")
    assert document.value == value and document.expires_at > document.created_at
    assert [found.key for found in documents.search("odyssey")] == ["k"]
    assert documents.search(where={"read": True}) == []
    assert documents.delete("k") and not documents.delete("k") and documents.get("k") is None


def test_backup_and_purge(tmp_path: Path) -> None:
    with Engine(tmp_path / "memory.redb") as engine:
        engine.put(NAMESPACE, [Message("boat", id="m1")])
        engine.backup(tmp_path / "copy.redb")
        with pytest.raises(mnemon.PathExistsError):
            engine.backup(tmp_path / "copy.redb")
        assert engine.purge()["bytes_after"] > 0
    with Engine(tmp_path / "copy.redb", read_only=True) as engine:
        assert texts(engine.recall(NAMESPACE, "boat")) == ["boat"]
        with pytest.raises(mnemon.ReadOnlyError):
            engine.put(NAMESPACE, [Message("two")])


def test_an_encrypted_file_needs_its_key(tmp_path: Path) -> None:
    path, key = tmp_path / "memory.redb", bytes(range(32))
    with Engine(path, config=Config(encryption_key=key)) as engine:
        engine.put(NAMESPACE, [Message("a secret boat")])
    assert b"secret" not in path.read_bytes()
    with pytest.raises(mnemon.KeyNeededError):
        Engine(path)
    with pytest.raises(mnemon.WrongKeyError):
        Engine(path, config=Config(encryption_key=bytes(32)))
    with pytest.raises(ValueError, match="32 bytes"):
        Config(encryption_key=b"short")


def test_bad_input_is_a_clear_error(engine: Engine, tmp_path: Path) -> None:
    assert issubclass(mnemon.InvalidNamespaceError, mnemon.MnemonError)
    with pytest.raises(mnemon.InvalidNamespaceError):
        engine.put("", [Message("x")])
    with pytest.raises(mnemon.InvalidMessageError):
        Message("x", "wizard")
    with pytest.raises(mnemon.InvalidMessageError, match="unknown field"):
        engine.put(NAMESPACE, [{"role": "user", "content": "x", "colour": "red"}])
    with pytest.raises(mnemon.InvalidFilterError):
        Query("x", where={"a": {"$bigger": 1}})
    with pytest.raises(ValueError, match="time zone"):
        Query("x", since=datetime(2024, 1, 1))
    with pytest.raises(mnemon.InvalidQueryError):
        Query("x", strategy="magic")
    with pytest.raises(mnemon.InvalidConfigError, match="colour: there is no such setting"):
        Config(colour=1)
    with pytest.raises(mnemon.InvalidConfigError):
        Engine(config=Config(m=1))
    with pytest.raises(mnemon.DatabaseNotFoundError):
        Engine(tmp_path / "none.redb", create=False)
    (tmp_path / "text").write_text("not a database at all" * 1000)
    with pytest.raises(mnemon.NotADatabaseError):
        Engine(tmp_path / "text")
    with pytest.raises(mnemon.InvalidArgumentError, match="a Message, a dict or a str is needed here, not int"):
        engine.put(NAMESPACE, [5])


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be moved there")
def test_a_file_that_was_moved_takes_nothing(tmp_path: Path) -> None:
    with Engine(tmp_path / "memory.redb") as engine:
        engine.put(NAMESPACE, "The boat is red.")
        (tmp_path / "memory.redb").rename(tmp_path / "moved.redb")
        with pytest.raises(mnemon.DatabaseMovedError, match="nothing was changed"):
            engine.put(NAMESPACE, "The oars are new.")
        (tmp_path / "moved.redb").rename(tmp_path / "memory.redb")
        engine.put(NAMESPACE, "The oars are new.")


def test_an_older_copy_is_noticed(tmp_path: Path) -> None:
    path, copy = tmp_path / "memory.redb", tmp_path / "copy.redb"
    with Engine(path) as engine:
        engine.backup(copy)
        engine.put(NAMESPACE, "The boat is red.")
        anchor = engine.anchor()
    Engine(path, config=Config(anchor=anchor)).close()
    copy.rename(path)
    with pytest.raises(mnemon.OlderDatabaseError, match="older copy"):
        Engine(path, config=Config(anchor=anchor))
    with pytest.raises(mnemon.InvalidConfigError):
        Config(anchor="yesterday")


def test_a_closed_engine_says_so(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "memory.redb")
    with pytest.raises(mnemon.DatabaseLockedError):
        Engine(tmp_path / "memory.redb")
    memory, documents = engine.memory(NAMESPACE, "s"), engine.documents(NAMESPACE)
    engine.close()
    engine.close()
    for call in (engine.flush, memory.get, lambda: documents.get("k")):
        with pytest.raises(mnemon.ClosedError):
            call()
    Engine(tmp_path / "memory.redb").close()  # the session did not keep the file open


def test_each_error_of_the_crate_has_an_exception() -> None:
    source = (Path(__file__).parents[3] / "src" / "error.rs").read_text()
    variants = re.findall(r"^    ([A-Z]\w+)(?: \{|\(|,)", source.split("pub enum Error {")[1].split("\n}")[0], re.MULTILINE)
    mapped = re.findall(r"^    (\w+) => (\w+Error)\b", (Path(__file__).parents[1] / "src" / "errors.rs").read_text(), re.MULTILINE)
    assert len(variants) > 40 and sorted(variants) == sorted(variant for variant, _ in mapped)
    for _, name in mapped:
        assert issubclass(getattr(mnemon, name), mnemon.MnemonError)


def test_a_recall_as_of_a_time_finds_what_was_known(engine: Engine) -> None:
    before = datetime.now(timezone.utc)
    engine.put(NAMESPACE, [
        Message("the boat is red", id="past", created_at=before - timedelta(days=9)),
        Message("the boat will be blue", id="future", created_at=before + timedelta(days=9)),
    ])
    engine.flush()
    after = datetime.now(timezone.utc)

    def known(as_of):
        return {hit.message.id for hit in engine.recall(NAMESPACE, Query("boat", as_of=as_of))}

    assert known(before) == set() and known(after) == {"past"} and known(None) == {"past", "future"}
    with pytest.raises(ValueError, match="time zone"):
        Query("boat", as_of=datetime(2024, 1, 1))


def test_versions_are_kept_and_found_as_of_a_time() -> None:
    with Engine(config=Config(keep_versions=True)) as engine:
        engine.put(NAMESPACE, Message("the boat is red", id="m"))
        known = datetime.now(timezone.utc)
        engine.put(NAMESPACE, Message("the boat is blue", id="m"))
        [(message, until)] = engine.versions(NAMESPACE, "m")
        assert (message.id, message.text) == ("m", "the boat is red") and known < until < datetime.now(timezone.utc)
        assert texts(engine.recall(NAMESPACE, Query("red boat", as_of=known))) == ["the boat is red"]
        assert texts(engine.recall(NAMESPACE, Query("red boat"))) == ["the boat is blue"]
        assert engine.versions(NAMESPACE, "other") == [] == engine.versions("other", "m")


def test_a_hit_says_what_it_supersedes_and_what_it_belongs_to(engine: Engine) -> None:
    time = datetime(2024, 5, 1, tzinfo=timezone.utc)
    engine.put(NAMESPACE, [
        Message("My rent is 900 euros a month.", id="old", created_at=time),
        Message("Noted.", "assistant", id="answer"),
        Message("My rent is 950 euros a month now.", id="new", session="later", created_at=time + timedelta(days=9)),
    ])
    engine.flush()
    hits = engine.recall(NAMESPACE, Query("How much is my rent a month?", k=2, unit="turn"))
    assert {hit.message.id: hit.supersedes for hit in hits} == {"old": [], "new": ["old"]}
    assert {hit.message.id: [other.id for other in hit.others] for hit in hits} == {"old": ["answer"], "new": []}


def test_recalls_are_noted_and_asked_again() -> None:
    with Engine(config=Config(journal=10)) as engine:
        engine.put(NAMESPACE, [Message("The boat leaks.", id="boat"), Message("My bike is in the cellar.", id="bike")])
        engine.flush()
        begin = datetime.now(timezone.utc)
        hits = engine.recall(NAMESPACE, Query("Which boat leaks?", k=1, role="user"))
        engine.recall(NAMESPACE, "bike")
        second, first = engine.journal(NAMESPACE)
        assert (first.number, second.number, second.text) == (1, 2, "bike")
        assert engine.journal(NAMESPACE, limit=1) == [second] and engine.journal(NAMESPACE, before=2) == [first]
        assert (first.namespace, first.text, first.options) == (NAMESPACE, "Which boat leaks?", {"k": 1, "role": "user"})
        assert begin <= first.at <= datetime.now(timezone.utc) and first.query().text == first.text
        assert (first.version, first.cut_short, first.answerability) == (None, False, hits.answerability)
        assert first.next_seq > 0 and engine.model["name"] in first.model
        [noted], [hit] = first.hits, hits
        assert noted == {
            "id": "boat", "rank": 1, "score": hit.score, "similarity": hit.similarity, "breakdown": hit.breakdown,
        }
        replay = engine.replay(first)
        assert replay["is_unchanged"] and replay["entry"] == 1 and replay["at"] > first.at and not replay["is_other_model"]
        standing = {"rank": 1, "score": hit.score}
        assert replay["hits"] == [
            {"id": "boat", "change": "kept", "is_newer": False, "then": standing, "now": standing, "terms": []},
        ]
        engine.delete(NAMESPACE, ["boat"])
        replay = engine.replay(first)
        assert {hit["id"]: hit["change"] for hit in replay["hits"]} == {"bike": "new", "boat": "gone"}
        assert not replay["is_unchanged"] and replay["answerability"][0] == first.answerability
        assert len(engine.journal(NAMESPACE)) == 2, "a replay is not noted"
        engine.forget(NAMESPACE, ids=["bike"])
        assert engine.journal(NAMESPACE) == []
        with pytest.raises(mnemon.InvalidNamespaceError):
            engine.journal("")
    with pytest.raises(mnemon.InvalidConfigError):
        Engine(config=Config(journal=10_000_001))


def test_a_recall_over_several_namespaces(engine: Engine) -> None:
    for namespace in ("acme/ada", "acme/bob", "acme/team/x", "other"):
        engine.put(namespace, [Message(f"the boat of {namespace}")])
    engine.flush()
    hits = engine.recall_in("boat", namespaces=["acme/ada"], under=["acme/team"], weights=[("acme/team", 50.0)])
    assert [hit.namespace for hit in hits] == ["acme/team/x", "acme/ada"]


def test_sessions_and_namespaces_move(engine: Engine, tmp_path: Path) -> None:
    engine.put(NAMESPACE, [Message(f"text {i}", session="s") for i in range(5)])
    assert engine.copy_session(NAMESPACE, "s", "t") == 5 and len(engine.history(NAMESPACE, "t")) == 5
    written = engine.export(tmp_path / "all.jsonl", NAMESPACE)
    assert engine.import_from(tmp_path / "all.jsonl", "acme/copy") == written and written["messages"] == 10
    with pytest.raises(FileExistsError):
        engine.export(tmp_path / "all.jsonl")
    with pytest.raises(mnemon.NamespaceNotEmptyError):
        engine.import_from(tmp_path / "all.jsonl")
    assert engine.stats()


def test_what_is_held_is_not_forgotten(engine: Engine) -> None:
    engine.put(NAMESPACE, [Message("x", id="m1")])
    engine.hold(NAMESPACE, "a lawsuit")
    with pytest.raises(mnemon.LegalHoldError, match="lawsuit"):
        engine.forget(NAMESPACE)
    assert len(engine.holds()) == 1 and engine.release(NAMESPACE) and engine.release(NAMESPACE) is None
    assert engine.forget(NAMESPACE)


def test_a_reader_reads_everything_beside_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "memory.redb"
    with Engine(path, config=Config(journal=10)) as writer:
        writer.put(NAMESPACE, [Message("a boat", id="m", session="s")])
        writer.documents(NAMESPACE).put("key", {"text": "a value"})
        writer.flush()
        writer.hold("acme/bob", "a request")
        writer.recall(NAMESPACE, "a boat")
        memory = writer.memory(NAMESPACE, "t")
        memory.put([Message("hello")])
        while not writer.journal(NAMESPACE):
            pass
        with Engine(path, read_only=True) as reader:
            assert reader.get(NAMESPACE, "m").text == "a boat" and len(reader.history(NAMESPACE, "s")) == 1
            assert [session["session"] for session in reader.sessions(NAMESPACE)] == ["s", "t"]
            assert len(reader.holds()) == 1 and len(reader.audit()["entries"]) == 1 and reader.blocks(NAMESPACE) == []
            assert texts(reader.recall(NAMESPACE, "a boat", k=1)) == ["a boat"]
            assert texts(reader.recall_in("a boat", namespaces=[NAMESPACE], k=1)) == ["a boat"]
            entry = reader.journal(NAMESPACE)[0]
            assert reader.replay(entry)["entry"] == entry.number
            assert reader.documents(NAMESPACE).get("key").value == {"text": "a value"}
            assert len(reader.documents(NAMESPACE).search("value")) == 1
            assert reader.export(tmp_path / "export.jsonl")["messages"] == 2
            assert reader.namespaces()[0]["messages"] == 2 and reader.pending() == writer.pending()
            assert [message.text for message in reader.memory(NAMESPACE, "t").history()] == ["hello"]
            with pytest.raises(mnemon.ReadOnlyError):
                reader.put(NAMESPACE, [Message("no")])
        writer.put(NAMESPACE, [Message("the writer goes on")])


def test_sessions_and_histories_are_read_in_pages(engine: Engine) -> None:
    for session in ("monday", "tuesday"):
        engine.put(NAMESPACE, [Message(f"row {number}", id=f"{session} {number}", session=session) for number in range(5)])
    whole = engine.history(NAMESPACE, "monday")
    assert engine.history(NAMESPACE, "monday", limit=2) == whole[3:]
    assert engine.history(NAMESPACE, "monday", limit=2, before="monday 3") == whole[1:3]
    assert engine.history(NAMESPACE, "monday", before="monday 2") == whole[:2] and engine.history(NAMESPACE, "monday", limit=0) == []
    with pytest.raises(mnemon.InvalidQueryError, match="monday.*tuesday 1"):
        engine.history(NAMESPACE, "monday", before="tuesday 1")
    with pytest.raises(mnemon.InvalidQueryError, match="no message"):
        engine.history(NAMESPACE, "no session", before="tuesday 1")
    with pytest.raises(TypeError):
        engine.history(NAMESPACE, "monday", limit="2")  # type: ignore[arg-type]
    sessions = engine.sessions(NAMESPACE)
    assert [(found["session"], found["messages"]) for found in sessions] == [("monday", 5), ("tuesday", 5)]
    assert engine.sessions(NAMESPACE, limit=1) == sessions[:1] and engine.sessions(NAMESPACE, after="monday") == sessions[1:]


def test_stored_vectors_are_arrays(engine: Engine) -> None:
    said = ["I row on Thursdays.", "My sister bakes.", "So that is that. " * 3000]
    engine.put(NAMESPACE, [Message(text, id=str(number)) for number, text in enumerate(said)])
    assert not numpy.asarray(engine.vectors(NAMESPACE, ["0"])).any(), "it is pending"
    engine.flush()
    found = numpy.asarray(engine.vectors(NAMESPACE, ["2", "nobody's", "0", "1"]))
    assert found.shape == (4, 256) and found.dtype == numpy.float32 and not found[1].any()
    numpy.testing.assert_allclose(found[[2, 3, 0]], engine.embed_documents(said), atol=2e-3)
    assert len(engine.vectors(NAMESPACE, [])) == 0 and numpy.asarray(engine.vectors("nobody/here", ["0"])).shape == (1, 256)


def test_vectors_of_documents_are_given(tmp_path: Path) -> None:
    given = mnemon.GivenVectors("theirs", 3)
    assert given == mnemon.GivenVectors("theirs", 3) and repr(given) == 'GivenVectors("theirs", 3)'
    with Engine(tmp_path / "memory.redb", embedder=given) as engine:
        documents = engine.documents(NAMESPACE)
        documents.put("boat", {"text": "a red boat"}, index=["text"], vectors=numpy.array([[0.6, 0.8, 0]], dtype=numpy.float32))
        documents.put("kite", {"text": "a blue kite"}, index=["text"], vectors=[(0, 2, 0)])
        engine.put(NAMESPACE, ["My bicycle is in the cellar."])
        engine.flush()
    with Engine(tmp_path / "memory.redb") as engine:
        assert engine.model["given"]
        documents = engine.documents(NAMESPACE)
        found = documents.search(vector=[1.0, 0.0, 0.0])
        assert [(one.key, round(one.score or 0, 2)) for one in found] == [("boat", 0.6), ("kite", 0)]
        assert documents.search("kite", vector=numpy.array([0, 1, 0], dtype=numpy.float32), limit=1)[0].key == "kite"
        assert documents.search("kite", limit=1)[0].key == "kite", "by its words"
        numpy.testing.assert_allclose(documents.vectors(["kite", "none", "boat"]), [[0, 1, 0], [0, 0, 0], [0.6, 0.8, 0]], atol=1e-3)
        assert engine.recall(NAMESPACE, "where is the bicycle?")[0].message.text == "My bicycle is in the cellar."
        operation = mnemon.DocumentOperation.search(NAMESPACE, vector=[0, 1, 0], limit=1)
        assert engine.document_batch(operation)[0][0].key == "kite"
        for refused in [[[1.0, 0.0]], [[1.0, 0.0, 0.0]] * 2, [[float("nan"), 0.0, 0.0]]]:
            with pytest.raises(mnemon.InvalidDocumentError):
                documents.put("boat", {"text": "x"}, index=["text"], vectors=refused)
        with pytest.raises(TypeError):
            documents.put("boat", {"text": "x"}, index=["text"], vectors=["x"])
        with pytest.raises(mnemon.InvalidQueryError, match="2 components"):
            documents.search(vector=[1.0, 0.0])
        for embed in [lambda: engine.embed_query("x"), lambda: engine.embed_documents(["x"])]:
            with pytest.raises(mnemon.EmbeddingError, match="given"):
                embed()
    with pytest.raises(mnemon.ModelMismatchError):
        Engine(tmp_path / "memory.redb", embedder=mnemon.GivenVectors("others", 3))
    with Engine() as engine, pytest.raises(mnemon.InvalidDocumentError, match="give none"):
        engine.documents(NAMESPACE).put("boat", "a boat", vectors=[[1.0, 0.0, 0.0]])


def test_secrets_are_removed_from_all_that_is_stored() -> None:
    key = "ghp_" + "a1B2" * 9
    said = f"My key is {key}."

    def store(engine: Engine) -> str:
        engine.put(NAMESPACE, [Message(said, id="m", session="s"), {"role": "user", "content": "", "metadata": {"deep": [{"id": said}]}}])
        engine.put_all([(NAMESPACE, Message(said, id="n", session="s"))])
        assert engine.set_metadata(NAMESPACE, "n", {"session": key})
        memory = engine.memory(NAMESPACE, "t")
        memory.put(said)
        memory.sync([said, {"role": "tool", "content": said, "tool_call_id": "c"}])
        memory.set(said)
        documents = engine.documents(NAMESPACE)
        documents.put("d", {"key": key, "text": said})
        put = mnemon.DocumentOperation.put(NAMESPACE, "e", {"id": said})
        engine.document_batch([put, mnemon.DocumentOperation.put_messages(NAMESPACE, Message(said, session="u"))])
        # What was stored is what is expected.
        engine.document_batch([mnemon.DocumentOperation.expect(NAMESPACE, "e", {"id": said}), put])
        profile = mnemon.Profile(engine, NAMESPACE)
        profile.set({"github": key})
        profile.patch({"password": key})
        collection = mnemon.Collection(engine, f"{NAMESPACE}/facts")
        collection.add({"text": said})
        asked: list[str] = []

        def model(request: mnemon.ChatRequest) -> str:
            asked.append(str(request.to_openai()))
            return "{}"

        profile.update([said], model)
        collection.update([said], model)
        assert len(asked) == 2
        create = {"command": "create", "path": "/memories/a.txt", "file_text": said}
        mnemon._mnemon.memory_tool(engine, NAMESPACE, create)
        histories = [message.to_dict() for session in ("default", "s", "t", "u") for message in engine.history(NAMESPACE, session)]
        values = [document.value for document in documents.search(below=True, limit=100)]
        assert len(histories) == 5 and len(values) >= 5
        return str((histories, values, asked))

    with Engine(remove_secrets=True) as engine:
        stored = store(engine)
        assert key not in stored and stored.count(" removed]") >= 13, stored
        # A name is no secret, whatever it looks like.
        engine.put(key, Message("Hello", id=key, session=key))
        assert [message.id for message in engine.history(key, key)] == [key]
    with Engine() as engine:
        assert key in store(engine)
