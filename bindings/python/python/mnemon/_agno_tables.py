"""Agno's database in memory with the tables that it lacks and an agent writes to: what it learned, and what compaction replaced.

They do what Agno's `SqliteDb` does, but raise what that only notes. Methods take the names of whose a learning is as keywords.
"""

# mypy: disable-error-code="override"

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from agno.db.in_memory import InMemoryDb
from agno.db.utils import learning_search_patterns

Row = dict[str, Any]

# The columns that say whose a learning is, beside its type.
OWNERS = ("user_id", "agent_id", "team_id", "workflow_id", "session_id", "namespace", "entity_id", "entity_type")
# Fields of a learning's content that say nothing.
SILENT = re.compile(r"(^|_)(id|at|type)$|^(namespace|source|version)$")


class Tables(InMemoryDb):
    """Agno's database in memory, with learnings and compactions."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._learnings: list[Row] = []
        self._compactions: list[Row] = []

    def delete_session(self, session_id: str, user_id: str | None = None) -> bool:
        is_deleted = bool(super().delete_session(session_id, user_id))
        if is_deleted:
            self.delete_compactions_for_session(session_id)
        return is_deleted

    def delete_sessions(self, session_ids: list[str], user_id: str | None = None) -> None:
        for session_id in session_ids:
            self.delete_session(session_id, user_id)

    # Learnings.

    def get_learning(self, learning_type: str, **owners: str | None) -> Row | None:
        row = next(self._learned(learning_type, owners), None)
        return row and {"content": row["content"]}

    def upsert_learning(
        self, id: str, learning_type: str, content: Row, metadata: Row | None = None, **owners: str | None
    ) -> None:
        if self.update_learning(id, content, metadata):
            return
        row = {"learning_id": id, "learning_type": learning_type, **dict.fromkeys(OWNERS), **owners, "content": content}
        self._learnings.append({**row, "metadata": metadata, "created_at": int(time.time()), "updated_at": int(time.time())})

    def update_learning(self, id: str, content: Row, metadata: Row | None = None) -> bool:
        row = self.get_learning_by_id(id)
        if row is not None:
            row |= {"content": content, "metadata": metadata, "updated_at": int(time.time())}
        return row is not None

    def delete_learning(self, id: str) -> bool:
        return self._unlearn(row for row in self._learnings if row["learning_id"] == id) > 0

    def delete_user_learnings(self, user_id: str, learning_type: str | None = None) -> int:
        return self._unlearn(self._learned(learning_type, {"user_id": user_id}))

    def get_learnings(self, learning_type: str | None = None, limit: int | None = None, **owners: str | None) -> list[Row]:
        return _newest(self._learned(learning_type, owners))[:limit]

    def search_learnings(
        self, query: str, learning_type: str | None = None, limit: int | None = None, **owners: str | None
    ) -> list[Row]:
        patterns = [_like(pattern) for pattern in learning_search_patterns(query)]
        rows = self._learned(learning_type, owners)
        return _newest(row for row in rows if any(like.fullmatch(json.dumps(row["content"])) for like in patterns))[:limit]

    def get_learning_by_id(self, id: str) -> Row | None:
        return next((row for row in self._learnings if row["learning_id"] == id), None)

    def list_learnings(
        self,
        learning_type: str | None = None,
        include_global: bool = False,
        limit: int = 100,
        page: int = 1,
        sort_by: str | None = None,
        sort_order: str | None = None,
        **owners: str | None,
    ) -> tuple[list[Row], int]:
        user = owners.pop("user_id", None)
        users = (user, None) if include_global else (user,)
        rows = [row for row in self._learned(learning_type, owners) if user is None or row["user_id"] in users]
        first = (page - 1) * limit
        return _sorted(rows, sort_by or "updated_at", sort_order)[first : first + limit], len(rows)

    def get_learnings_user_stats(
        self,
        learning_type: str | None = None,
        limit: int | None = None,
        page: int | None = None,
        user_id: str | None = None,
        sort_by: str | None = None,
        sort_order: str | None = None,
    ) -> tuple[list[Row], int]:
        last: dict[str, int] = {}
        for row in self._learned(learning_type, {"user_id": user_id}):
            if row["user_id"] is not None:
                last[row["user_id"]] = max(row["updated_at"], last.get(row["user_id"], 0))
        users = [{"user_id": user, "last_learning_updated_at": at} for user, at in last.items()]
        column = sort_by if sort_by == "user_id" else "last_learning_updated_at"
        first = (page - 1) * limit if page and limit else 0
        return _sorted(users, column, sort_order)[first : limit and first + limit], len(users)

    def _learned(self, learning_type: str | None, owners: dict[str, str | None]) -> Iterator[Row]:
        if unknown := owners.keys() - set(OWNERS):
            raise TypeError(f"learnings have no {', '.join(sorted(unknown))}")
        wanted = {name: value for name, value in {"learning_type": learning_type, **owners}.items() if value is not None}
        return (row for row in self._learnings if wanted.items() <= {name: row[name] for name in wanted}.items())

    def _unlearn(self, rows: Iterable[Row]) -> int:
        ids = {row["learning_id"] for row in rows}
        self._learnings = [row for row in self._learnings if row["learning_id"] not in ids]
        return len(ids)

    # Compactions: each is written once.

    def upsert_compaction(self, row: Row) -> None:
        if self.get_compaction(row["compaction_id"]) is None:
            self._compactions.append(dict(row))

    def get_compaction(self, compaction_id: str) -> Row | None:
        return next((row for row in self._compactions if row["compaction_id"] == compaction_id), None)

    def get_compactions_for_session(self, session_id: str, limit: int | None = None) -> list[Row]:
        return _newest((row for row in self._compactions if row["session_id"] == session_id), "created_at")[:limit]

    def delete_compactions_for_session(self, session_id: str) -> int:
        kept = [row for row in self._compactions if row["session_id"] != session_id]
        deleted, self._compactions = len(self._compactions) - len(kept), kept
        return deleted

    def search_compactions(self, session_id: str, query: str | Sequence[str], limit: int = 10) -> list[Row]:
        terms = [term.lower() for term in ([query] if isinstance(query, str) else query) if term]
        rows = self.get_compactions_for_session(session_id)
        return [row for row in rows if any(term in (row["archived_messages"] or "").lower() for term in terms)][:limit]


def said_in(content: Any, name: str = "") -> str:
    """The texts of a learning's content, a line each."""
    if isinstance(content, dict):
        return "\n".join(filter(None, (said_in(value, str(name)) for name, value in content.items())))
    if isinstance(content, list):
        return "\n".join(filter(None, (said_in(value, name) for value in content)))
    return content.strip() if isinstance(content, str) and not SILENT.search(name) else ""


def _newest(rows: Iterable[Row], column: str = "updated_at") -> list[Row]:
    return sorted(rows, key=lambda row: -(row[column] or 0))


def _sorted(rows: list[Row], column: str, order: str | None) -> list[Row]:
    """Rows by a column, descending unless the order says otherwise, in any order if there is no such column."""
    known = [row for row in rows if row.get(column) is not None]
    unknown = [row for row in rows if row.get(column) is None]
    ordered = sorted(known, key=lambda row: row[column], reverse=order != "asc")
    return unknown + ordered if order == "asc" else ordered + unknown


def _like(pattern: str) -> re.Pattern[str]:
    """A pattern of SQL's LIKE, with a backslash before what is meant as it is."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return re.compile("".join(wild.get(part) or re.escape(part[-1]) for part in parts), re.IGNORECASE | re.DOTALL)
