"""The checkpoints of LangGraph's graphs, in the documents of an engine.

A thread has two namespaces. `checkpoints` has a small document for each checkpoint: its id, its parent, its run, and the versions of its
channels. `data` has the rest: the state and metadata of each checkpoint; each value of a channel once, under the channel's version; the
tasks of each checkpoint and the writes of each task; and the document of the latest checkpoint. Each call that changes something is one
commit, which is computed again if another one was first.
"""

import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
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

from mnemon import Document, DocumentChangedError, DocumentOperation, Engine
from mnemon._values import ALL, deletes, key_of, labels_in, packed, puts, read, space_of, unpacked
from mnemon._wait import wait

# A method has the name of the type.
_Found: TypeAlias = list[Document]

# The values of channels that are written and empty.
EMPTY = ["empty", ""]


class MnemonSaver(BaseCheckpointSaver[str]):
    """Keeps the checkpoints of graphs in an engine's file, below the namespace `prefix`.

    All of LangGraph's interface, its optional methods too, sync and with `await`. The engine stays the caller's: close it after the
    saver's last call.
    """

    def __init__(
        self, engine: Engine, *, prefix: Sequence[str] = ("langgraph", "checkpoints"), serde: SerializerProtocol | None = None
    ) -> None:
        super().__init__(serde=serde)
        self.engine = engine
        self.prefix = tuple(prefix)

    # Reads.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, space = _place(config)
        wanted, tried = get_checkpoint_id(config), None
        while True:
            place = (self._checkpoints(thread), key_of(space, wanted)) if wanted else (self._data(thread), _latest(space))
            document = self.engine.documents(place[0]).get(place[1])
            # The latest one may be pruned between two reads: then another one is the latest.
            if document is None or document.value["id"] == tried:
                return None
            if found := self._tuple(thread, document):
                return found
            tried = document.value["id"]

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
        space, only = options.get("checkpoint_ns"), options.get("checkpoint_id")
        end = get_checkpoint_id(before) if before else None
        left = ALL if limit is None else limit
        for thread in threads:
            found = self._all(thread)
            for document in sorted(found, key=lambda document: document.value["id"], reverse=True):
                value = document.value
                if space not in (None, value["space"]) or only not in (None, value["id"]) or (end and value["id"] >= end):
                    continue
                if left <= 0:
                    return
                one = self._tuple(thread, document)
                if one is None or filter and any(one.metadata.get(key) != wanted for key, wanted in filter.items()):
                    continue
                left -= 1
                yield one

    def _tuple(self, thread: str, document: Document) -> CheckpointTuple | None:
        value = document.value
        space, checkpoint_id, versions = value["space"], value["id"], value["versions"]
        channels = [_channel(space, channel, version) for channel, version in versions.items()]
        keys = [*channels, _tasks(space, checkpoint_id), _state(space, checkpoint_id)]
        *stored, tasks, state = self._values(thread, keys)
        if state is None:  # It was deleted meanwhile.
            return None
        checkpoint: Checkpoint = self._load(state["checkpoint"])
        checkpoint["channel_values"] = {
            channel: self._load(blob) for channel, blob in zip(versions, stored, strict=True) if blob is not None and blob != EMPTY
        }
        writes = self._values(thread, [_task(space, checkpoint_id, task) for task in tasks]) if tasks else []
        ordered = sorted(
            (task["path"], task["id"], int(index), channel, blob)
            for task in writes
            if task is not None
            for index, (channel, blob) in task["writes"].items()
        )
        return CheckpointTuple(
            config=_config(thread, space, checkpoint_id),
            checkpoint=checkpoint,
            metadata=self._load(state["metadata"]),
            parent_config=_config(thread, space, value["parent"]) if value["parent"] else None,
            pending_writes=[(task, channel, self._load(blob)) for _, task, _, channel, blob in ordered],
        )

    # Changes.

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        thread, space = _place(config)
        data, kept = self._data(thread), dict(checkpoint)
        values: dict[str, Any] = kept.pop("channel_values")  # type: ignore[assignment]
        described = get_checkpoint_metadata(config, metadata)
        value = {
            "space": space,
            "id": checkpoint["id"],
            "parent": get_checkpoint_id(config),
            "run": described.get("run_id"),
            "deltas": list(described.get("counters_since_delta_snapshot") or ()),
            "versions": checkpoint["channel_versions"],
        }
        operations = [DocumentOperation.put(self._checkpoints(thread), key_of(space, checkpoint["id"]), value, index=[])]
        state = {"checkpoint": self._dump(kept), "metadata": self._dump(described)}
        operations += puts(data, _state(space, checkpoint["id"]), state)
        for channel, version in new_versions.items():
            blob = self._dump(values[channel]) if channel in values else EMPTY
            operations += puts(data, _channel(space, channel, version), blob)

        def change() -> Iterable[DocumentOperation]:
            before = self.engine.documents(data).get(_latest(space))
            yield from operations
            if before is None or before.value["id"] <= checkpoint["id"]:
                yield DocumentOperation.expect(data, _latest(space), before and before.value)
                yield DocumentOperation.put(data, _latest(space), value, index=[])

        self._commit(change)
        return _config(thread, space, checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        thread, space = _place(config)
        data, checkpoint_id = self._data(thread), config["configurable"]["checkpoint_id"]
        new = {WRITES_IDX_MAP.get(channel, at): [channel, self._dump(value)] for at, (channel, value) in enumerate(writes)}
        keys = [_tasks(space, checkpoint_id), _task(space, checkpoint_id, task_id)]

        def change() -> Iterable[DocumentOperation]:
            documents, (tasks, task) = read(self.engine, data, keys)
            for key, document in zip(keys, documents, strict=True):
                yield DocumentOperation.expect(data, key, document and document.value)
            stored = task["writes"] if task else {}
            # A write that was stored stays; errors, interrupts and the like are replaced.
            added = {str(at): write for at, write in new.items() if at < 0 or str(at) not in stored}
            value = {"id": task_id, "path": task["path"] if task else task_path, "writes": {**stored, **added}}
            yield from puts(data, keys[1], value)
            if task_id not in (tasks or []):
                yield from puts(data, keys[0], [*(tasks or []), task_id])

        self._commit(change)

    def delete_thread(self, thread_id: str) -> None:
        self.engine.delete_namespaces(self._thread(str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        runs = set(run_ids)
        for thread in self._threads() if runs else []:
            self._keep(thread, lambda found: [one for one in found if one.value["run"] not in runs])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        source, target = str(source_thread_id), str(target_thread_id)
        operations = [
            DocumentOperation.put(to, document.key, document.value, index=[])
            for read, to in [
                (self._checkpoints(source), self._checkpoints(target)),
                (self._data(source), self._data(target)),
            ]
            for document in self.engine.documents(read).search(limit=ALL)
        ]
        self.engine.document_batch(operations)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        for thread in map(str, thread_ids):
            if strategy == "keep_latest":
                self._keep(thread, lambda found, thread=thread: self._needed(thread, found))  # type: ignore[misc]
            else:
                self.delete_thread(thread)

    def _needed(self, thread: str, found: _Found) -> _Found:
        """The latest checkpoint of each namespace, and the ancestors that the values of its delta channels are made from."""
        by_id = {(one.value["space"], one.value["id"]): one for one in found}
        latest: dict[str, str] = {}
        for space, checkpoint_id in by_id:
            latest[space] = max(latest.get(space, ""), checkpoint_id)
        kept = []
        for space, checkpoint_id in latest.items():
            one: Document | None = by_id[space, checkpoint_id]
            open_channels = set(by_id[space, checkpoint_id].value["deltas"])
            while one is not None:
                kept.append(one)
                versions = {channel: version for channel, version in one.value["versions"].items() if channel in open_channels}
                keys = [_channel(space, channel, version) for channel, version in versions.items()]
                stored = zip(versions, self._values(thread, keys), strict=True)
                open_channels -= {channel for channel, blob in stored if blob is not None and blob != EMPTY}
                one = by_id.get((space, one.value["parent"])) if open_channels else None
        return kept

    def _keep(self, thread: str, choose: Callable[[_Found], _Found]) -> None:
        """Deletes the checkpoints that are not chosen, their writes, and the values that no other one has."""
        data = self._data(thread)

        def change() -> Iterable[DocumentOperation]:
            found = self._all(thread)
            kept = choose(found)
            keys = {one.key for one in kept}
            gone = [one for one in found if one.key not in keys]
            if not gone:
                return
            # What is decided here holds for these checkpoints.
            for one in found:
                yield DocumentOperation.expect(self._checkpoints(thread), one.key, one.value)
            used = {key for one in kept for key in _channels(one.value)}
            dead = {key for one in gone for key in _channels(one.value)} - used
            places = [(one.value["space"], one.value["id"]) for one in gone]
            tasks = [_tasks(*place) for place in places]
            for place, ids in zip(places, self._values(thread, tasks), strict=True):
                dead |= {_task(*place, task) for task in ids or []}
            yield from deletes(self.engine, data, [*dead, *tasks, *(_state(*place) for place in places)])
            for one in gone:
                yield DocumentOperation.delete(self._checkpoints(thread), one.key)
            for space in {one.value["space"] for one in gone}:
                left = [one.value for one in kept if one.value["space"] == space]
                if left:
                    yield DocumentOperation.put(data, _latest(space), max(left, key=lambda value: value["id"]), index=[])
                else:
                    yield DocumentOperation.delete(data, _latest(space))

        self._commit(change)

    def _commit(self, change: Callable[[], Iterable[DocumentOperation]]) -> None:
        """Commits a change that was computed from what was read, and computes it again if that has changed."""
        while True:
            try:
                self.engine.document_batch(list(change()))
                return
            except DocumentChangedError:
                continue

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
        while (one := await wait(next, found, None)) is not None:
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

    def _thread(self, thread: str) -> str:
        return space_of([*self.prefix, f":{thread}"])

    def _checkpoints(self, thread: str) -> str:
        return space_of([*self.prefix, f":{thread}", "checkpoints"])

    def _data(self, thread: str) -> str:
        return space_of([*self.prefix, f":{thread}", "data"])

    def _threads(self) -> Sequence[str]:
        depth = len(self.prefix)
        names = [labels_in(info["namespace"]) for info in self.engine.namespaces(space_of(self.prefix))]
        return [labels[depth][1:] for labels in names if labels[depth + 1 :] == ["checkpoints"]]

    def _all(self, thread: str) -> _Found:
        return self.engine.documents(self._checkpoints(thread)).search(limit=ALL)

    def _values(self, thread: str, keys: Sequence[str]) -> Sequence[Any]:
        return read(self.engine, self._data(thread), keys)[1]

    def _dump(self, value: Any) -> Sequence[str]:
        kind, data = self.serde.dumps_typed(value)
        return [kind, packed(data)]

    def _load(self, blob: Sequence[str]) -> Any:
        return self.serde.loads_typed((blob[0], unpacked(blob[1])))


def _place(config: RunnableConfig) -> tuple[str, str]:
    options = config["configurable"]
    return str(options["thread_id"]), options.get("checkpoint_ns", "")


def _config(thread: str, space: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": space, "checkpoint_id": checkpoint_id}}


def _latest(space: str) -> str:
    return key_of("latest", space)


def _channel(space: str, channel: str, version: str | int | float) -> str:
    return key_of("channel", space, channel, version)


def _channels(value: dict[str, Any]) -> Iterator[str]:
    return (_channel(value["space"], channel, version) for channel, version in value["versions"].items())


def _state(space: str, checkpoint_id: str) -> str:
    return key_of("state", space, checkpoint_id)


def _tasks(space: str, checkpoint_id: str) -> str:
    return key_of("tasks", space, checkpoint_id)


def _task(space: str, checkpoint_id: str, task: str) -> str:
    return key_of("task", space, checkpoint_id, task)
