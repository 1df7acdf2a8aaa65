"""mem0's own client, unchanged, against `mnemon serve`."""

import asyncio
import itertools

import httpx
import pytest
from mem0 import AsyncMemoryClient, MemoryClient
from mem0.client.types import AddMemoryOptions, DeleteAllMemoryOptions, SearchMemoryOptions
from mem0.exceptions import AuthenticationError, MemoryError, MemoryNotFoundError, ValidationError

numbers = itertools.count()


@pytest.fixture
def client(server):
    return MemoryClient(api_key=server.tokens["all"], host=server.url)


@pytest.fixture
def user():
    """A user of this test alone."""
    return f"user-{next(numbers)}"


def texts(answer):
    return [memory["memory"] for memory in answer["results"]]


def every(client, **filters):
    return client.get_all(filters=filters, page_size=200)["results"]


def add(client, text, **options):
    [added] = client.add(text, **options)["results"]
    return added["id"]


def test_the_key_is_checked(server):
    with pytest.raises(ValueError, match="token"):
        MemoryClient(api_key="wrong", host=server.url)
    client = MemoryClient(api_key=server.tokens["all"], host=server.url)
    assert (client.org_id, client.project_id, client.user_email) == ("mnemon", "default", None)
    client.client.headers["Authorization"] = "Token wrong"
    with pytest.raises(AuthenticationError):
        client.get_all(filters={"user_id": "ada"})


def test_add_and_search(server, client, user):
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "I am allergic to peanuts."},
        {"role": "assistant", "content": "I will remember the allergy."},
    ]
    added = client.add(messages, user_id=user, metadata={"topic": "food"}, infer=False)["results"]
    assert [memory["memory"] for memory in added] == ["I am allergic to peanuts.", "I will remember the allergy."]
    assert all(memory["event"] == "ADD" and memory["id"] for memory in added)
    client.add("I row on Thursdays.", user_id=user)
    server.embed()
    found = client.search("What am I allergic to?", filters={"user_id": user})["results"]
    best = found[0]
    assert best["memory"] == "I am allergic to peanuts." and best["id"] == added[0]["id"]
    assert best["user_id"] == user and best["agent_id"] is None and best["metadata"] == {"topic": "food"}
    assert best["categories"] == [] and best["created_at"].endswith("Z") and best["updated_at"] == best["created_at"]
    assert len(found) == 3 and all(0 <= memory["score"] <= 1 for memory in found)


def test_search_options(server, client, user):
    for text in ["I play the cello in an orchestra.", "My sister lives in Porto.", "The car needs new tyres."]:
        client.add(text, user_id=user)
    server.embed()
    filters = {"user_id": user}
    [found] = client.search("Which instrument do I play in the orchestra?", filters=filters, top_k=1, rerank=True)["results"]
    assert "cello" in found["memory"] and found["score"] > 0.5
    [limited] = client.search("orchestra", filters=filters, limit=1)["results"]
    assert limited["id"] == found["id"]
    assert client.search("orchestra", filters=filters, threshold=0.99999)["results"] == []
    about_nothing = client.search("Wie hoch ist der Mount Everest?", filters=filters)["results"]
    assert all(memory["score"] < found["score"] for memory in about_nothing)
    [short] = client.search("orchestra", SearchMemoryOptions(filters=filters, top_k=1, fields=["memory", "score"]))["results"]
    assert sorted(short) == ["id", "memory", "score"]
    assert texts(client.search("What was it last May?", filters=filters, reference_date="2024-06-01", top_k=1))
    for wrong in [{"top_k": 0}, {"top_k": 100_000}, {"reference_date": "soon"}]:
        with pytest.raises(ValidationError, match="top_k|no time"):
            client.search("orchestra", filters=filters, **wrong)
    with pytest.raises(ValidationError, match="filters"):
        client.search("orchestra")


def test_latest_only_leaves_out_what_was_superseded(server, client, user):
    client.add("My rent is 900 euros.", user_id=user, timestamp=1_700_000_000)
    client.add("My rent is 950 euros.", user_id=user, timestamp=1_710_000_000)
    server.embed()
    filters = {"user_id": user}
    assert len(client.search("How much is my rent?", filters=filters)["results"]) == 2
    assert texts(client.search("How much is my rent?", filters=filters, latest_only=True)) == ["My rent is 950 euros."]


def test_get_all_has_pages(client, user):
    for at in range(7):
        client.add(f"memory {at}", user_id=user, timestamp=1_700_000_000 + at)
    newest_first = [f"memory {at}" for at in reversed(range(7))]
    whole = client.get_all(filters={"user_id": user})
    assert (whole["count"], whole["next"], whole["previous"]) == (7, None, None)
    assert texts(whole) == newest_first
    pages = [client.get_all(filters={"user_id": user}, page=page, page_size=3) for page in (1, 2, 3, 4)]
    assert [texts(page) for page in pages] == [newest_first[:3], newest_first[3:6], newest_first[6:], []]
    assert all(page["count"] == 7 for page in pages)
    assert [bool(page["next"]) for page in pages] == [True, True, False, False]
    assert [bool(page["previous"]) for page in pages] == [False, True, True, True]
    for wrong in [{"page": 0}, {"page_size": 1000}]:
        with pytest.raises(ValidationError):
            client.get_all(filters={"user_id": user}, **wrong)
    assert client.get_all(filters={"user_id": "nobody"})["count"] == 0


def test_get_update_delete_and_history(client, user):
    id = add(client, "I live in Porto.", user_id=user, agent_id="guide", metadata={"a": 1})
    memory = client.get(id)
    assert memory["memory"] == "I live in Porto." and memory["agent_id"] == "guide" and memory["metadata"] == {"a": 1}
    [event] = client.history(id)
    assert (event["event"], event["memory_id"], event["new_memory"]) == ("ADD", id, "I live in Porto.")
    assert event["input"] == [{"role": "user", "content": "I live in Porto."}]

    updated = client.update(id, text="I live in Lisbon.", metadata={"b": 2})
    assert updated["text"] == updated["memory"] == "I live in Lisbon."
    memory = client.get(id)
    assert memory["memory"] == "I live in Lisbon." and memory["metadata"] == {"b": 2} and memory["agent_id"] == "guide"
    assert memory["created_at"] < memory["updated_at"]
    added, update = client.history(id)
    assert (added["event"], added["old_memory"], added["new_memory"]) == ("ADD", None, "I live in Porto.")
    assert (update["event"], update["old_memory"], update["new_memory"]) == ("UPDATE", "I live in Porto.", "I live in Lisbon.")
    assert (added["metadata"], update["metadata"]) == ({"a": 1}, {"b": 2}) and added["created_at"] < update["created_at"]
    client.update(id, metadata={"c": 3})
    assert client.get(id)["metadata"] == {"c": 3} and client.get(id)["memory"] == "I live in Lisbon."
    client.update(id, timestamp="2024-05-01T09:30:00Z", expiration_date=None)
    assert client.get(id)["created_at"] == "2024-05-01T09:30:00Z"
    assert client.get(id)["expiration_date"] is None
    client.update(id, expiration_date="2130-01-01")
    assert client.get(id)["expiration_date"] == "2130-01-01"
    client.update(id, text="I live in Faro.")
    events = client.history(id)
    assert [event["new_memory"] for event in events] == ["I live in Porto.", "I live in Lisbon.", "I live in Faro."]
    assert events[2]["old_memory"] == "I live in Lisbon." and len({event["id"] for event in events}) == 3
    assert client.get(id)["expiration_date"] == "2130-01-01"
    client.update(id, expiration_date=None)
    assert client.get(id)["expiration_date"] is None
    with pytest.raises(ValidationError, match="expiration_date"):
        client.update(id, expiration_date="tomorrow")

    assert client.delete(id) == {"message": "Memory deleted successfully!"}
    for gone in [lambda: client.get(id), lambda: client.delete(id), lambda: client.history(id), lambda: client.update(id, text="x")]:
        with pytest.raises(MemoryNotFoundError):
            gone()
    for foreign in ["0198f2d1-6f3a-7c3e-9d62-3b8f6c1f0a77", "x", "ä/ö"]:
        with pytest.raises(MemoryNotFoundError):
            client.get(foreign)


def test_expired_memories_are_not_returned(client, user):
    add(client, "I live in Porto.", user_id=user, expiration_date="2130-12-31")
    gone = add(client, "I live in Faro.", user_id=user, expiration_date="2020-12-31")
    [memory] = every(client, user_id=user)
    assert (memory["memory"], memory["expiration_date"]) == ("I live in Porto.", "2130-12-31")
    found = client.search("Where do I live?", filters={"user_id": user}, show_expired=True)["results"]
    assert [memory["memory"] for memory in found] == ["I live in Porto."]
    for read in [client.get, client.history, client.delete]:
        with pytest.raises(MemoryNotFoundError):
            read(gone)


def test_add_refuses_what_it_cannot_keep(client, user):
    with pytest.raises(ValidationError, match="user_id, agent_id, app_id or run_id"):
        client.add("text")
    with pytest.raises(ValidationError, match="expiration_date"):
        client.add("text", user_id=user, expiration_date="2030-01-01T00:00:00Z")
    with pytest.raises(ValidationError):
        client.add("text", user_id="*")
    assert every(client, user_id=user) == []
    # An empty message costs no other one.
    client.add([{"role": "user", "content": "   "}, {"role": "user", "content": "Ada rows."}], user_id=user)
    assert sorted(memory["memory"].strip() for memory in every(client, user_id=user)) == ["Ada rows."]


def test_add_takes_ids_in_filters_and_times(client, user):
    client.add("typed", AddMemoryOptions(filters={"user_id": user, "run_id": "r1"}, timestamp=1_700_000_000))
    [memory] = every(client, user_id=user)
    assert (memory["user_id"], memory["run_id"], memory["created_at"]) == (user, "r1", "2023-11-14T22:13:20Z")


def test_entities(server, client, user):
    agent, app, run = f"agent of {user}", f"app of {user}", f"run of {user}"
    client.add("with all", user_id=user, agent_id=agent, app_id=app, run_id=run)
    client.add("with a run", user_id=user, run_id=run)
    client.add("of the agent", agent_id=agent)
    client.add("of the app", app_id=app)
    client.add("of the run", run_id=run)
    server.embed()

    def names(**filters):
        return sorted(memory["memory"] for memory in every(client, **filters))

    assert names(user_id=user) == ["with a run", "with all"]
    assert names(user_id=user, agent_id=agent) == names(AND=[{"user_id": user}, {"app_id": app}]) == ["with all"]
    assert names(user_id=user, run_id=run) == ["with a run", "with all"]
    assert names(user_id=user, run_id="other") == []
    assert names(AND=[{"user_id": user}, {"agent_id": "*"}]) == ["with all"]
    assert names(AND=[{"user_id": user}, {"agent_id": None}]) == ["with a run"]
    assert names(AND=[{"user_id": user}, {"agent_id": {"ne": agent}}]) == ["with a run"]
    assert names(agent_id=agent) == ["of the agent"]
    assert names(app_id=app) == ["of the app"]
    assert names(run_id=run) == ["of the run"]
    assert names(OR=[{"user_id": user}, {"agent_id": agent}]) == ["of the agent", "with a run", "with all"]
    everyones = {"AND": [{"user_id": "*"}, {"agent_id": agent}]}
    assert [memory["memory"] for memory in every(client, **everyones)] == ["with all"]
    assert texts(client.search("with", filters=everyones)) == ["with all"]
    assert texts(client.search("with a run", filters={"user_id": user, "run_id": run}, top_k=1)) == ["with a run"]
    found = client.search("of the agent", filters={"OR": [{"user_id": user}, {"agent_id": agent}]})["results"]
    assert found[0]["memory"] == "of the agent" and found[0]["agent_id"] == agent and found[0]["user_id"] is None
    assert len(found) == 3

    listed = client.users()
    kinds = {(entity["type"], entity["name"]): entity["total_memories"] for entity in listed["results"]}
    assert kinds[("user", user)] == 2 and kinds[("agent", agent)] == kinds[("app", app)] == kinds[("run", run)] == 1
    assert listed["count"] == len(listed["results"])
    assert client.delete_users(agent_id=agent) == {"message": "Entity deleted successfully."}
    with pytest.raises(MemoryNotFoundError):
        client.delete_users(agent_id=agent)
    assert names(agent_id=agent) == [] and names(user_id=user) == ["with a run", "with all"]


@pytest.fixture(scope="module")
def filtered(server):
    client = MemoryClient(api_key=server.tokens["all"], host=server.url)
    rows = [
        ("one pizza", {"n": 1, "s": "Alpha", "tags": ["x"], "categories": ["food", "health"]}, "2024-05-01T00:00:00Z"),
        ("two Pizzas", {"n": 2.5, "s": "beta", "o": {"k": [1]}, "a.b": "dot"}, "2024-06-01T00:00:00Z"),
        ("three", {"categories": ["finance_personal"]}, "2024-07-01T00:00:00Z"),
    ]
    ids = {}
    for text, metadata, time in rows:
        ids[text.split()[0]] = add(client, text, user_id="filtered", metadata=metadata, timestamp=time)
    client.update(ids["three"], metadata={"categories": ["finance_personal"], "late": True})
    server.embed()
    return client, ids


@pytest.mark.parametrize(
    "condition, expected",
    [
        ({"metadata": {"n": 1}}, "one"),
        ({"metadata": {"n": 1.0, "s": "Alpha"}}, "one"),
        ({"metadata": {"n": {"gt": 1}}}, "two"),
        ({"metadata": {"n": {"gte": 1, "lt": 2.5}}}, "one"),
        ({"metadata": {"n": {"ne": 1}}}, "two three"),
        ({"metadata": {"n": {"in": [2.5, 3]}}}, "two"),
        ({"metadata": {"n": "*"}}, "one two"),
        ({"metadata": {"s": {"contains": "lph"}}}, "one"),
        ({"metadata": {"s": {"contains": "LPH"}}}, ""),
        ({"metadata": {"s": {"icontains": "LPH"}}}, "one"),
        ({"metadata": {"tags": {"contains": "x"}}}, "one"),
        ({"metadata": {"o": {"k": [1]}}}, "two"),
        ({"metadata": {"a.b": "dot"}}, "two"),
        ({"categories": {"in": ["health", "sport"]}}, "one"),
        ({"categories": {"contains": "finance"}}, "three"),
        ({"categories": "food"}, "one"),
        ({"NOT": {"categories": {"in": ["food"]}}}, "two three"),
        ({"NOT": [{"categories": "food"}, {"metadata": {"n": 2.5}}]}, "three"),
        ({"created_at": {"gte": "2024-06-01"}}, "two three"),
        ({"created_at": {"gt": "2024-05-01", "lt": "2024-07-01T00:00:00Z"}}, "two"),
        ({"created_at": {"lte": 1714521600}}, "one"),
        ({"timestamp": {"eq": "2024-06-01T02:00:00+02:00"}}, "two"),
        ({"updated_at": {"gte": "2025-01-01"}}, "three"),
        ({"updated_at": {"lt": "2025-01-01"}}, "one two"),
        ({"keywords": {"contains": "Pizza"}}, "two"),
        ({"keywords": {"icontains": "pizza"}}, "one two"),
        ({"OR": [{"metadata": {"n": 1}}, {"keywords": {"contains": "three"}}]}, "one three"),
        ({"OR": [{"metadata": {"n": 1}}, {"AND": [{"categories": "finance_personal"}, {"metadata": {"late": True}}]}]}, "one three"),
    ],
)
def test_filters(filtered, condition, expected):
    client, ids = filtered
    filters = {"AND": [{"user_id": "filtered"}, condition]}
    expected = sorted(ids[name] for name in expected.split())
    assert sorted(memory["id"] for memory in every(client, **filters)) == expected
    found = client.search("pizza", filters=filters)["results"]
    assert sorted(memory["id"] for memory in found) == expected


def test_filters_by_ids_and_options(filtered):
    client, ids = filtered
    filters = {"AND": [{"user_id": "filtered"}, {"memory_ids": [ids["two"], ids["three"], "unknown"]}]}
    assert sorted(texts(client.search("pizza", filters=filters))) == ["three", "two Pizzas"]
    assert sorted(texts(client.get_all(filters=filters))) == ["three", "two Pizzas"]
    user = {"user_id": "filtered"}
    assert texts(client.get_all(filters=user, start_date="2024-06-01", end_date="2024-06-02")) == ["two Pizzas"]
    assert texts(client.get_all(filters=user, categories=["food"])) == ["one pizza"]
    assert texts(client.search("pizza", filters=user, metadata={"n": 1})) == ["one pizza"]


@pytest.mark.parametrize(
    "filters, reason",
    [
        ({}, "must name"),
        ({"AND": [{"created_at": {"gte": "2024-01-01"}}]}, "must name"),
        ({"OR": [{"user_id": "a"}, {"categories": "x"}]}, "must name"),
        ({"NOT": {"user_id": "a"}}, "must name"),
        ({"user": "a"}, "unknown"),
        ({"user_id": {"nin": ["a"]}}, "operator"),
        ({"user_id": ["a", None]}, "takes a string"),
        ({"user_id": "a", "created_at": {"gte": "soon"}}, "no time"),
        ({"AND": {"user_id": "a"}}, "list"),
    ],
)
def test_filters_that_are_refused(client, filters, reason):
    for ask in [lambda: client.search("x", filters=filters), lambda: client.get_all(filters=filters)]:
        with pytest.raises(ValidationError, match=reason):
            ask()


def test_ids_beside_the_filters_are_refused(server):
    headers = {"Authorization": f"Token {server.tokens['all']}"}
    for path, body in [("search/", {"query": "x"}), ("", {})]:
        answer = httpx.post(f"{server.url}/v3/memories/{path}", headers=headers, json={"user_id": "a", "filters": {"user_id": "b"}, **body})
        assert answer.status_code == 400 and "`filters`" in answer.json()["detail"]


def test_paths_need_no_slash(server, client, user):
    id = add(client, "text", user_id=user)
    headers = {"Authorization": f"Token {server.tokens['all']}"}
    for path in [f"v1/memories/{id}", f"v1/memories/{id}/history", "v1/entities", "v1/ping"]:
        for slash in ["", "/"]:
            assert httpx.get(f"{server.url}/{path}{slash}", headers=headers).status_code == 200, path


def test_delete_all(client, user):
    other = f"other than {user}"
    def fill():
        client.add("mine", user_id=user)
        client.add("in a run", user_id=user, run_id="r")
        client.add("with an agent", user_id=user, agent_id="O'Neil")
        client.add("of another", user_id=other)

    def left():
        return sorted(memory["memory"] for memory in every(client, user_id={"in": [user, other]}))

    fill()
    assert client.delete_all(user_id=user, run_id="r") == {"message": "Memories deleted successfully!"}
    assert left() == ["mine", "of another", "with an agent"]
    client.delete_all(user_id=user, agent_id="O'Neil")
    assert left() == ["mine", "of another"]
    client.delete_all(user_id=user)
    assert left() == ["of another"]
    fill()
    client.delete_all(DeleteAllMemoryOptions(filters={"user_id": user, "agent_id": "O'Neil"}))
    assert left() == ["in a run", "mine", "of another", "of another"]
    client.delete_all(filters={"AND": [{"user_id": user}]})
    assert left() == ["of another", "of another"]
    for wrong in [{}, {"user_id": user, "metadata": {"a": 1}}, {"users": "x"}, {"filters": {"users": "x"}}, {"filters": "x"}, {"user_id": [user, other]}]:
        with pytest.raises(ValidationError):
            client.delete_all(**wrong)
    with pytest.raises(MemoryNotFoundError):
        client.delete_all(user_id="nobody")
    assert left() == ["of another", "of another"]


def test_batches(client, user):
    ids = [add(client, f"memory {at}", user_id=user) for at in range(3)]
    changes = [{"memory_id": ids[0], "text": "changed"}, {"memory_id": ids[1], "metadata": {"a": 1}}]
    assert client.batch_update(changes) == {"message": "Successfully updated 2 memories"}
    assert client.get(ids[0])["memory"] == "changed" and client.get(ids[1])["metadata"] == {"a": 1}
    with pytest.raises(MemoryNotFoundError):
        client.batch_update([{"memory_id": ids[2], "text": "lost"}, {"memory_id": "unknown", "text": "x"}])
    assert client.get(ids[2])["memory"] == "memory 2"
    with pytest.raises(MemoryNotFoundError):
        client.batch_delete([{"memory_id": ids[2]}, {"memory_id": "unknown"}])
    assert client.batch_delete([{"memory_id": id} for id in ids[:2]]) == {"message": "Successfully deleted 2 memories"}
    assert [memory["id"] for memory in every(client, user_id=user)] == [ids[2]]


def test_pages_and_batches_are_bounded_in_bytes(client, user):
    ids = [add(client, f"{at} " + "long " * 200_000, user_id=user) for at in range(35)]
    with pytest.raises(ValidationError, match="fewer"):
        client.get_all(filters={"user_id": user})
    assert len(client.get_all(filters={"user_id": user}, page_size=20)["results"]) == 20
    with pytest.raises(ValidationError, match="fewer"):
        client.batch_update([{"memory_id": id, "metadata": {"a": 1}} for id in ids])
    for some in [ids[:20], ids[20:]]:
        client.batch_update([{"memory_id": id, "text": "short"} for id in some])
    assert client.get_all(filters={"user_id": user})["count"] == 35


def test_unicode_and_strange_ids(client):
    for user in ["Zoë/Ω 你好", "a%2Fb", "..", "a b?c#d&e=f", "'\"", "ada@example.com", "x" * 300]:
        id = add(client, "Ich wohne in Zürich 🏔️ – «ünïcödé».", user_id=user, metadata={"schlüssel": "wért"})
        memory = client.get(id)
        assert memory["user_id"] == user and memory["memory"] == "Ich wohne in Zürich 🏔️ – «ünïcödé».", user
        assert texts(client.search("Zürich", filters={"user_id": user})) == [memory["memory"]]
        assert any(entity["name"] == user for entity in client.users()["results"])
        client.delete_all(user_id=user)
        assert every(client, user_id=user) == []
        if user != "..":
            client.add("again", user_id=user)
            client.delete_users(user_id=user)
            assert every(client, user_id=user) == []
    with pytest.raises(ValidationError):
        client.add("text", user_id="")


def test_a_prefix_separates(server, client, user):
    acme = MemoryClient(api_key=server.tokens["acme"], host=server.url)
    outside = add(client, "outside", user_id=user)
    inside = add(acme, "inside", user_id=user)
    server.embed()
    assert texts(acme.get_all(filters={"user_id": user})) == ["inside"]
    assert texts(client.get_all(filters={"user_id": user})) == ["outside"]
    assert texts(acme.search("outside", filters={"user_id": "*"})) == ["inside"]
    assert [(entity["type"], entity["name"]) for entity in acme.users()["results"]] == [("user", user)]
    for ask in [
        lambda: acme.get(outside),
        lambda: acme.history(outside),
        lambda: acme.update(outside, text="changed"),
        lambda: acme.delete(outside),
        lambda: acme.batch_delete([{"memory_id": outside}]),
        lambda: acme.batch_update([{"memory_id": outside, "text": "changed"}]),
    ]:
        with pytest.raises(MemoryNotFoundError):
            ask()
    acme.delete_all(user_id="*")
    assert client.get(outside)["memory"] == "outside"
    with pytest.raises(MemoryNotFoundError):
        acme.get(inside)


def test_rights(server, client, user):
    id = add(client, "text", user_id=user)
    reader = MemoryClient(api_key=server.tokens["reader"], host=server.url)
    assert reader.get(id)["memory"] == "text" and reader.search("text", filters={"user_id": user})["results"]
    for ask in [
        lambda: reader.add("x", user_id=user),
        lambda: reader.update(id, text="x"),
        lambda: reader.delete(id),
        lambda: reader.delete_all(user_id=user),
        lambda: reader.delete_users(user_id=user),
        lambda: reader.batch_update([{"memory_id": id, "text": "x"}]),
        lambda: reader.batch_delete([{"memory_id": id}]),
    ]:
        with pytest.raises(AuthenticationError, match="no right"):
            ask()
    assert len(every(client, user_id=user)) == 1


def test_what_is_not_served_says_so(client, user):
    id = add(client, "text", user_id=user)
    for ask in [
        lambda: client.feedback(id, "POSITIVE"),
        lambda: client.create_memory_export("{}", user_id=user),
        lambda: client.get_memory_export(user_id=user),
        lambda: client.get_summary(),
        lambda: client.get_profile(user),
        lambda: client.generate_profile(user),
        lambda: client.get_profile_settings(),
        lambda: client.get_webhooks("p"),
        lambda: client.project.get(),
        lambda: client.project.update(custom_instructions="x"),
    ]:
        with pytest.raises(MemoryError, match="not this one"):
            ask()


def test_reset_deletes_all_entities(server):
    acme = MemoryClient(api_key=server.tokens["acme"], host=server.url)
    for kind in ["user_id", "agent_id", "app_id", "run_id"]:
        acme.add("text", **{kind: "one"})
    acme.reset()
    assert acme.users()["results"] == []


def test_the_async_client(server, user):
    async def run():
        async with AsyncMemoryClient(api_key=server.tokens["all"], host=server.url) as client:
            turns = [f"I own {at} bicycles and {at} boats." for at in range(5)]
            added = await asyncio.gather(*(client.add(turn, user_id=user) for turn in turns))
            server.embed()
            ids = [answer["results"][0]["id"] for answer in added]
            assert (await client.get_all(filters={"user_id": user}, page=1, page_size=2))["count"] == 5
            found = await client.search("How many bicycles?", filters={"user_id": user}, top_k=2)
            assert len(found["results"]) == 2
            await client.update(ids[0], text="I own a boat.")
            assert (await client.get(ids[0]))["memory"] == "I own a boat."
            assert len(await client.history(ids[0])) == 2
            await client.batch_update([{"memory_id": ids[1], "text": "none"}])
            await client.batch_delete([{"memory_id": ids[1]}])
            await client.delete(ids[2])
            with pytest.raises(MemoryNotFoundError):
                await client.get(ids[2])
            assert user in [entity["name"] for entity in (await client.users())["results"]]
            await client.delete_all(user_id=user)
            assert (await client.get_all(filters={"user_id": user}))["results"] == []
            with pytest.raises(MemoryError, match="not this one"):
                await client.feedback(ids[0], "POSITIVE")

    asyncio.run(run())
