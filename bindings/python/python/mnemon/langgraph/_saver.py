"""The checkpoints of LangGraph's graphs, in the documents of an engine.

A thread has two namespaces. `checkpoints` has a document for each checkpoint: its id, its run, and its state, which is all of it but the
values of its channels. It also has a document for each checkpoint namespace: the id of the latest checkpoint, and whether another one was
put after it. `data` has each value of a channel once, under the channel's version, and the tasks of each checkpoint with their writes. Each
call that changes something is one commit, which is computed again if another one was first.
"""

import itertools
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from mnemon import AsyncEngine, DocumentChangedError, DocumentOperation, Engine, InvalidValueError
from mnemon._async import engine_of
from mnemon._values import (
    ALL,
    Head,
    Place,
    commit,
    deletes,
    drops,
    expects,
    heads,
    key_of,
    labels_in,
    packed,
    puts,
    read,
    space_of,
    unpacked,
)
from mnemon._wait import wait

# A method has the name of the type.
_Heads: TypeAlias = list[Head]
_Places: TypeAlias = list[Place]
_Found: TypeAlias = list[Head | None]

# The tasks of a checkpoint are in one document, which each write stores again. A task that would make it longer than this, in characters,
# gets a document of its own.
TASKS = 8000
# The checkpoints that are read at once where they are listed with `await`.
TUPLES = 10
# The most checkpoints that a put deletes, and how many are too old before it does, where the time alone decides.
RETIRED = 100
RETIRED_FOR = 32


class MnemonSaver(BaseCheckpointSaver[str]):
    """Keeps the checkpoints of graphs in an engine's file, below the namespace `prefix`.

    All of LangGraph's interface, its optional methods too, sync and with `await`. The engine stays the caller's: close it after the
    saver's last call.

    Every step of a graph puts a checkpoint, and all are kept unless the saver is told otherwise: `keep_last` of each thread and checkpoint
    namespace, and those that were made within `keep_for`. With both, one stays if either keeps it. The newest always stays, and so do the
    writes and values of those that stay, and the checkpoints that values of their delta channels are made from; parents of those that
    stay may be missing. A put deletes those that are too many, up to 100 of them, once they are a quarter of `keep_last`, or 32 with
    `keep_for` alone: it then reads the checkpoints that stay. So a thread whose checkpoints were kept until now becomes shorter put by
    put; `prune` makes it short at once.
    """

    def __init__(
        self,
        engine: Engine | AsyncEngine,
        *,
        prefix: Sequence[str] = ("langgraph", "checkpoints"),
        serde: SerializerProtocol | None = None,
        keep_last: int | None = None,
        keep_for: timedelta | None = None,
    ) -> None:
        super().__init__(serde=serde)
        if keep_last is not None and keep_last < 1:
            raise InvalidValueError(f"keep_last is {keep_last}; keep 1 or more, or give None to keep all")
        if keep_for is not None and keep_for < timedelta(0):
            raise InvalidValueError(f"keep_for is {keep_for}; give a time that is not negative, or None to keep all")
        self.keep_last, self.keep_for = keep_last, keep_for
        self.engine = engine_of(engine)
        self.prefix = tuple(prefix)

    # Reads.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, space = _ids(config)
        tried = None
        # The latest one may be pruned between two reads: then another one is the latest.
        while (wanted := get_checkpoint_id(config) or self._latest_id(thread, space)) not in (None, tried):
            [head] = heads(self.engine, [self._checkpoint(thread, space, wanted)])
            if head and (state := self._state(thread, head)) and (found := self._tuple(thread, head, state)):
                return found
            tried = wanted
        return None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        options = config["configurable"] if config else {}
        threads = [str(options["thread_id"])] if "thread_id" in options else self._threads()
        space, only, end = options.get("checkpoint_ns"), options.get("checkpoint_id"), before and get_checkpoint_id(before)
        # Other documents have no space.
        where: dict[str, Any] = {"space": {"$exists": True} if space is None else space}
        if only or end:
            where["id"] = ({"$eq": only} if only else {}) | ({"$lt": end} if end else {})
        left = ALL if limit is None else limit
        for thread in threads if left > 0 else []:
            found = self._documents(self._space(thread, "checkpoints"), where, ALL if filter else left)
            if len(found) == left and (space is None or self._is_mixed(thread, space)):
                found = self._documents(self._space(thread, "checkpoints"), where)
            for head in sorted(found.values(), key=lambda head: head["id"], reverse=True):
                state = self._state(thread, head)
                if state is None or filter and any(state["metadata"].get(key) != wanted for key, wanted in filter.items()):
                    continue
                if one := self._tuple(thread, head, state):
                    yield one
                    left -= 1
                    if left == 0:
                        return

    def _tuple(self, thread: str, head: Head, state: dict[str, Any]) -> CheckpointTuple | None:
        """The tuple of a checkpoint that was read; `None` if it was deleted meanwhile."""
        space, checkpoint_id, checkpoint = head["space"], head["id"], state["checkpoint"]
        versions = checkpoint["channel_versions"]
        *blobs, text = self._texts([*self._channels(thread, space, versions), self._tasks(thread, space, checkpoint_id)])
        tasks: dict[str, Any] = json.loads(text) if text else {}
        if alone := [task for task, value in tasks.items() if value is None]:
            texts = self._texts([self._task(thread, space, checkpoint_id, task) for task in alone])
            tasks |= {task: json.loads(text) for task, text in zip(alone, texts, strict=True) if text}
        if None in (*blobs, text, *tasks.values()) and heads(self.engine, [self._checkpoint(thread, space, checkpoint_id)]) == [None]:
            return None
        values = {channel: self._load(blob) for channel, blob in zip(versions, blobs, strict=True) if blob is not None}
        writes = sorted(
            (task["path"], task_id, int(index), channel, blob)
            for task_id, task in tasks.items()
            for index, (channel, blob) in task["writes"].items()
        )
        return CheckpointTuple(
            config=_config(thread, space, checkpoint_id),
            checkpoint=checkpoint | {"channel_values": values},
            metadata=state["metadata"],
            parent_config=_config(thread, space, state["parent"]) if state["parent"] else None,
            pending_writes=[(task_id, channel, self._load(blob)) for _, task_id, _, channel, blob in writes],
        )

    # Changes.

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        thread, space = _ids(config)
        checkpoint_id, kept = checkpoint["id"], dict(checkpoint)
        values: dict[str, Any] = kept.pop("channel_values")  # type: ignore[assignment]
        described, parent = get_checkpoint_metadata(config, metadata), get_checkpoint_id(config)
        state = self._dump({"checkpoint": kept, "metadata": described, "parent": parent})
        # A channel may be written and empty.
        blobs = [self._dump(values[channel]) if channel in values else None for channel in new_versions]
        places = self._channels(thread, space, new_versions)
        at, latest = self._checkpoint(thread, space, checkpoint_id), self._latest(thread, space)
        # Nothing is read before the first try: a checkpoint is nearly always new, and its parent the latest.
        guess: _Found = [*(None for _ in places), None, {"id": parent} if parent else None]

        def change() -> Iterator[DocumentOperation]:
            *olds, old, last = found = guess.copy() or heads(self.engine, [*places, at, latest])
            guess.clear()
            yield from expects([*places, at, latest], found)
            for place, blob, before in zip(places, blobs, olds, strict=True):
                yield from deletes(place, before) if blob is None else puts(place, blob, before)
            yield from puts(at, state, old, space=space, id=checkpoint_id, run=described.get("run_id"))
            if last is None or last["id"] < checkpoint_id:
                yield DocumentOperation.put(*latest, {**(last or {}), "id": checkpoint_id}, index=[])
            elif last["id"] > checkpoint_id:
                yield DocumentOperation.put(*latest, {**last, "mixed": True}, index=[])

        commit(self.engine, change)
        if self.keep_last is not None or self.keep_for is not None:
            self._retire(thread, space)
        return _config(thread, space, checkpoint_id)

    def _retire(self, thread: str, space: str) -> None:
        """Deletes the oldest checkpoints of a namespace that are not to be kept, if there are enough of them."""
        last = self.keep_last or 1
        few = max(1, last // 4) if self.keep_last else RETIRED_FOR
        end = None if self.keep_for is None else _first_id(datetime.now(timezone.utc) - self.keep_for)
        where = {"space": space} | ({"id": {"$lt": end}} if end else {})
        # Those that were put last are nearly always the last, and with a limit on time the last is none of these.
        skipped = last - 1 + few if end is None or self.keep_last else few - 1
        if not self.engine.documents(self._space(thread, "checkpoints")).search(where=where, limit=1, offset=skipped):
            return

        def choose(found: _Heads) -> _Heads:
            newest_first = sorted(found, key=lambda head: head["id"], reverse=True)
            gone = [head for head in newest_first[last:] if end is None or head["id"] < end][-RETIRED:]
            gone_ids = {head["id"] for head in gone}
            return self._needed(thread, found, [head for head in found if head["id"] not in gone_ids])

        self._keep(thread, choose, space)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        thread, space = _ids(config)
        checkpoint_id = config["configurable"]["checkpoint_id"]
        new = {WRITES_IDX_MAP.get(channel, at): [channel, self._dump(value)] for at, (channel, value) in enumerate(writes)}
        places = [self._tasks(thread, space, checkpoint_id), self._task(thread, space, checkpoint_id, task_id)]

        def change() -> Iterator[DocumentOperation]:
            found, texts = read(self.engine, places)
            yield from expects(places, found)
            tasks, task = (json.loads(text) if text else {} for text in texts)
            task = tasks.get(task_id) or task or {"path": task_path, "writes": {}}
            # A write that was stored stays; errors, interrupts and the like are replaced.
            task["writes"] |= {str(at): write for at, write in new.items() if at < 0 or str(at) not in task["writes"]}
            text = json.dumps({**tasks, task_id: task})
            if found[1] or len(text) > TASKS:
                yield from puts(places[1], json.dumps(task), found[1])
                text = json.dumps({**tasks, task_id: None})
            yield from puts(places[0], text, found[0])

        commit(self.engine, change)

    def delete_thread(self, thread_id: str) -> None:
        self.engine.delete_namespaces(space_of(*self.prefix, f":{thread_id}"))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        runs = set(run_ids)
        for thread in self._threads() if runs else []:
            self._keep(thread, lambda found: [head for head in found if head["run"] not in runs])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        source, target = str(source_thread_id), str(target_thread_id)

        def change() -> Iterator[DocumentOperation]:
            checkpoints = self._documents(self._space(source, "checkpoints"))
            # What these checkpoints are made of is there as long as they are.
            yield from expects(checkpoints, checkpoints.values())
            for kind, found in [("checkpoints", checkpoints), ("data", self._documents(self._space(source, "data")))]:
                # They are put in the order in which they were: the last put is found first.
                places = [(self._space(target, kind), key) for _, key in reversed(found)]
                olds = heads(self.engine, places)
                yield from expects(places, olds)
                for place, new, old in zip(places, reversed(found.values()), olds, strict=True):
                    if old and "id" in new and "space" not in new:
                        new = {"id": max(new["id"], old["id"]), "mixed": True}
                    yield DocumentOperation.put(*place, new, index=[])
                    yield from drops(place, new, old)

        commit(self.engine, change)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        if strategy not in ("keep_latest", "delete"):
            raise InvalidValueError(f'the strategy is {strategy!r}, and may be "keep_latest" or "delete"')
        for thread in map(str, thread_ids):
            if strategy == "delete":
                self.delete_thread(thread)
            else:
                self._keep(thread, lambda found, thread=thread: self._needed(thread, found, _latest_of(found)))  # type: ignore[misc]

    def _needed(self, thread: str, found: _Heads, wanted: _Heads) -> _Heads:
        """These checkpoints, and the ancestors that the values of their delta channels are made from."""
        by_id = {(head["space"], head["id"]): head for head in found}
        kept = {}
        for one in wanted:
            head: Head | None = one
            space = one["space"]
            open_channels: set[str] | None = None
            while head is not None:
                kept[space, head["id"]] = head
                state = self._known_state(thread, head)
                if open_channels is None:
                    open_channels = set(state["metadata"].get("counters_since_delta_snapshot") or ())
                versions = {name: version for name, version in state["checkpoint"]["channel_versions"].items() if name in open_channels}
                stored = heads(self.engine, self._channels(thread, space, versions))
                open_channels -= {name for name, blob in zip(versions, stored, strict=True) if blob is not None}
                head = by_id.get((space, state["parent"])) if open_channels else None
        return [*kept.values()]

    def _keep(self, thread: str, choose: Callable[[_Heads], _Heads], only: str | None = None) -> None:
        """Deletes the checkpoints that are not chosen, their writes, and the values that no other one has: in one namespace or in all."""

        def change() -> Iterator[DocumentOperation]:
            documents = self._documents(self._space(thread, "checkpoints"), None if only is None else {"space": only})
            if only is not None and (last := heads(self.engine, [self._latest(thread, only)])[0]):
                documents[self._latest(thread, only)] = last
            found = [head for head in documents.values() if "space" in head]
            kept = choose(found)
            ids = {(head["space"], head["id"]) for head in kept}
            gone = [head for head in found if (head["space"], head["id"]) not in ids]
            if not gone:
                return
            # What is decided here holds for these checkpoints, and as long as the latest ones are.
            yield from expects(documents, documents.values())
            tasks = [self._tasks(thread, head["space"], head["id"]) for head in gone]
            dead, used = ({place for head in some for place in self._values(thread, head)} for some in (gone, kept))
            dead -= used
            for head, text in zip(gone, self._texts(tasks), strict=True):
                names = [name for name, task in json.loads(text or "{}").items() if task is None]
                dead |= {self._task(thread, head["space"], head["id"], name) for name in names}
            places = [*dead, *tasks]
            olds = heads(self.engine, places)
            yield from expects(places, olds)
            for place, old in zip(places, olds, strict=True):
                yield from deletes(place, old)
            for head in gone:
                yield from deletes(self._checkpoint(thread, head["space"], head["id"]), head)
            for space in {head["space"] for head in gone}:
                latest = self._latest(thread, space)
                if left := [head["id"] for head in kept if head["space"] == space]:
                    yield DocumentOperation.put(*latest, documents[latest] | {"id": max(left)}, index=[])
                else:
                    yield DocumentOperation.delete(*latest)

        commit(self.engine, change)

    # The same with `await`.

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await wait(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while some := await wait(lambda: [*itertools.islice(found, TUPLES)]):
            for one in some:
                yield one

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        return await wait(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await wait(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await wait(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await wait(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await wait(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await wait(self.prune, thread_ids, strategy=strategy)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Versions of two branches differ: each ends with a random number."""
        number = int(str(current).split(".")[0]) if current is not None else 0
        return f"{number + 1:032}.{random.random():016}"

    # Places.

    def _space(self, thread: str, kind: str) -> str:
        return space_of(*self.prefix, f":{thread}", kind)

    def _checkpoint(self, thread: str, space: str, checkpoint_id: str) -> Place:
        return self._space(thread, "checkpoints"), key_of(space, checkpoint_id)

    def _latest(self, thread: str, space: str) -> Place:
        return self._space(thread, "checkpoints"), key_of(space)

    def _channels(self, thread: str, space: str, versions: Mapping[str, str | int | float]) -> _Places:
        data = self._space(thread, "data")
        return [(data, key_of("channel", space, name, version)) for name, version in versions.items()]

    def _tasks(self, thread: str, space: str, checkpoint_id: str) -> Place:
        return self._space(thread, "data"), key_of("tasks", space, checkpoint_id)

    def _task(self, thread: str, space: str, checkpoint_id: str, task_id: str) -> Place:
        return self._space(thread, "data"), key_of("task", space, checkpoint_id, task_id)

    # What is there.

    def _threads(self) -> Sequence[str]:
        depth = len(self.prefix)
        names = [labels_in(info["namespace"]) for info in self.engine.namespaces(space_of(*self.prefix))]
        return [labels[depth][1:] for labels in names if labels[depth + 1 :] == ("checkpoints",)]

    def _latest_id(self, thread: str, space: str) -> str | None:
        [latest] = heads(self.engine, [self._latest(thread, space)])
        return latest["id"] if latest else None

    def _is_mixed(self, thread: str, space: str) -> bool:
        """Whether a checkpoint was put after one with a greater id. Otherwise the last that were put are the latest."""
        [latest] = heads(self.engine, [self._latest(thread, space)])
        return latest is not None and "mixed" in latest

    def _documents(self, namespace: str, where: dict[str, Any] | None = None, limit: int = ALL) -> dict[Place, Head]:
        """The documents of a namespace, the last put first."""
        found = self.engine.documents(namespace).search(where=where, limit=limit)
        return {(namespace, document.key): document.value for document in found}

    def _texts(self, places: Sequence[Place]) -> Sequence[str | None]:
        return read(self.engine, places)[1]

    def _state(self, thread: str, head: Head) -> dict[str, Any] | None:
        """All of a checkpoint but the values of its channels; `None` if it was deleted meanwhile."""
        text = head.get("text") or self._texts([self._checkpoint(thread, head["space"], head["id"])])[0]
        return self._load(text) if text else None

    def _known_state(self, thread: str, head: Head) -> dict[str, Any]:
        if (state := self._state(thread, head)) is None:
            raise DocumentChangedError(f"the checkpoint {head['id']!r} was deleted")
        return state

    def _values(self, thread: str, head: Head) -> _Places:
        """The values of a checkpoint's channels."""
        return self._channels(thread, head["space"], self._known_state(thread, head)["checkpoint"]["channel_versions"])

    def _dump(self, value: Any) -> str:
        kind, data = self.serde.dumps_typed(value)
        return f"{kind} {packed(data)}"

    def _load(self, blob: str) -> Any:
        kind, _, data = blob.rpartition(" ")
        return self.serde.loads_typed((kind, unpacked(data)))


def _latest_of(found: _Heads) -> _Heads:
    """The latest checkpoint of each namespace."""
    return [*{head["space"]: head for head in sorted(found, key=lambda head: head["id"])}.values()]


def _first_id(time: datetime) -> str:
    """The least id that LangGraph makes at a time: a UUID of version 6, which begins with it."""
    ticks = (time - datetime(1582, 10, 15, tzinfo=timezone.utc)) // timedelta(microseconds=1) * 10
    return f"{ticks >> 28:08x}-{ticks >> 12 & 0xFFFF:04x}-6{ticks & 0xFFF:03x}-"


def _ids(config: RunnableConfig) -> tuple[str, str]:
    options = config["configurable"]
    return str(options["thread_id"]), options.get("checkpoint_ns", "")


def _config(thread: str, space: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": space, "checkpoint_id": checkpoint_id}}
