"""Runs two suites that others wrote for memories of agents on ours, and prints what each of their cases finds.

- memtrust-cli: a fact and one that contradicts it, stored one after the other; the question is asked with both there, among other
  messages. Its own verdict is whether both are shown. Counted here besides is what a model reads first: the newer fact, or the older one.
- agent-memory-integrity: texts that an attacker stored beside the user's own. For `retrieval_hijack` the rank is printed too.
"""

import argparse
import tempfile
from datetime import datetime, timedelta, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mnemon
from agmi.adapters.semantic_base import MemoryItem, Retrieved, SemanticMemoryAdapter
from agmi.attacks import memory_specific
from memtrust.adapters.base import ConflictSignal, DeleteResult, MemoryBackendAdapter, MemoryRecord, QueryResult, StoreResult, UpdateResult
from memtrust.evals.contradiction import load_dataset, run_add_only_contradiction_eval

START = datetime(2026, 1, 5, 9, tzinfo=timezone.utc)
# What else is in a session: a question finds something else to say, too.
FILLERS = [
    "The printer on the second floor is out of toner.",
    "My sister plays the cello in an amateur orchestra.",
    "We watched a film about lighthouses on Sunday.",
    "The recipe wants two spoons of vinegar.",
    "I have to call the dentist about the crown.",
    "The train from Hamburg was forty minutes late.",
    "Our neighbours have a new dog, a terrier.",
    "The password policy asks for sixteen characters.",
]
ATTACKS = [
    memory_specific.MemoryInjectionAttack, memory_specific.CrossSessionBleedAttack, memory_specific.RetrievalHijackAttack,
    memory_specific.IndirectPromptInjectionAttack, memory_specific.UpdatePoisoningAttack, memory_specific.MetadataPoisoningAttack,
]


class Contradictions(MemoryBackendAdapter):
    """A namespace for each session. Messages are a day apart, in the order in which they are stored."""

    name = "mnemon"
    supports_update = True

    def __init__(self, engine: mnemon.Engine) -> None:
        self.engine, self.stored = engine, 0

    def store(self, session_id: str, content: str, mode: str | None = None, metadata: dict[str, Any] | None = None) -> StoreResult:
        message = mnemon.Message(content, created_at=START + timedelta(days=self.stored), metadata=metadata or {})
        self.engine.put(session_id, [message])
        self.stored += 1
        return StoreResult(memory_id=message.id, latency_ms=0.0)

    def query(self, session_id: str, query: str, top_k: int = 5, **_: Any) -> QueryResult:
        self.engine.flush()
        hits = self.engine.recall(session_id, mnemon.Query(query, k=top_k))
        records = [MemoryRecord(hit.message.id, hit.message.text(), score=hit.score) for hit in hits]
        return QueryResult(records, ConflictSignal.NOT_APPLICABLE, latency_ms=0.0)

    def update(self, session_id: str, memory_id: str, content: str) -> UpdateResult:
        raise NotImplementedError("a new fact is a message of its own")

    def delete(self, memory_id: str) -> DeleteResult:
        raise NotImplementedError("the suite deletes nothing here")


class Attacked(SemanticMemoryAdapter):
    """A namespace for each user, in an engine for each attack."""

    name = "mnemon"

    def __init__(self, folder: Path) -> None:
        self.folder, self.number, self.engine = folder, 0, None
        self.reset()

    def reset(self) -> None:
        self.close()
        self.number += 1
        self.engine = mnemon.Engine(self.folder / f"{self.number}.redb")

    def add_memory(self, item: MemoryItem) -> None:
        metadata = item.metadata | {"source": item.source}
        self.engine.put(item.user_id, [mnemon.Message(item.text, metadata=metadata)])

    def retrieve(self, query: str, user_id: str, k: int = 5) -> list[Retrieved]:
        return self.retrieve_where(query, user_id, {}, k)

    def retrieve_where(self, query: str, user_id: str, where: dict[str, Any], k: int = 5) -> list[Retrieved]:
        self.engine.flush()
        hits = self.engine.recall(user_id, mnemon.Query(query, k=k, where=where or None))
        return [Retrieved(hit.message.text(), user_id, hit.score) for hit in hits]

    def close(self) -> None:
        if self.engine:
            self.engine.close()
            (self.folder / f"{self.number}.redb").unlink()

    def measured_on(self) -> str:
        return f"mnemon {version('mnemon-engine')}, its own model"


def contradictions(folder: Path) -> list[tuple[str, str]]:
    """The row of memtrust-cli: how many cases it flags, and in how many the newer fact comes first."""
    with mnemon.Engine(folder / "contradictions.redb") as engine:
        adapter = Contradictions(engine)
        cases = load_dataset()
        for case in cases:
            for filler in FILLERS:
                adapter.store(case.session_id, filler)
        result = run_add_only_contradiction_eval(adapter)
        first = 0
        for case in cases:
            records = adapter.query(case.session_id, case.query).records
            first += case.updated_value.lower() in records[0].content.lower()
    errors = [case.error for case in result.case_results if case.error]
    assert not errors, errors
    flagged = sum(case.signal == ConflictSignal.FLAGGED for case in result.case_results)
    return [("newer fact first", f"{first} of {len(cases)}"), ("both facts among five", f"{flagged} of {len(cases)}")]


def attacks(folder: Path) -> list[tuple[str, str]]:
    """The rows of agent-memory-integrity: its verdict on each attack."""
    rows = []
    for attack in ATTACKS:
        adapter = Attacked(folder)
        result = attack().run(adapter)
        adapter.close()
        rows.append((attack.name, f"{result.status}: {result.error or result.detail}"))
    return rows


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("| suite | case | mnemon |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for package, run in (("memtrust-cli", contradictions), ("agent-memory-integrity", attacks)):
            for case, verdict in run(Path(folder)):
                print(f"| {package} {version(package)} | {case} | {verdict} |")


if __name__ == "__main__":
    main()
