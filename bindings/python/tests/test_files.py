"""Files of other programs: imported, or only read."""

import asyncio
import json
import zipfile
from pathlib import Path
from typing import Any

import mnemon
import pytest

CHAT = "[01.05.24, 09:30:00] Ada: The bridge is closed.\n[31.05.24, 09:31:00] Bob: Since when?\n"


def line(**fields: Any) -> str:
    return json.dumps({"role": "user", **fields}) + "\n"


def chat(folder: Path) -> Path:
    path = folder / "_chat.txt"
    path.write_text(CHAT)
    return path


def test_files_are_imported_once(tmp_path: Path) -> None:
    path = chat(tmp_path)
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.write(path, "_chat.txt")
        archive.writestr("picture.png", b"\x89PNG")
    with mnemon.Engine() as engine:
        report = engine.import_files(path, namespace="acme/ada", me="Ada", time_zone="Europe/Berlin")
        assert (report["new"], report["formats"], report["namespaces"]) == (2, {"whatsapp": 1}, ["acme/ada"])
        again = engine.import_files(path, namespace="acme/ada", me="Ada", time_zone="Europe/Berlin")
        assert (again["new"], again["replaced"], again["unchanged"]) == (0, 0, 2)
        zipped = engine.import_files(str(tmp_path / "export.zip"), namespace="acme/bob")
        assert (zipped["new"], zipped["unknown_files"]) == (2, 1)
        (tmp_path / "folder").mkdir()
        chat(tmp_path / "folder")
        assert engine.import_files(tmp_path / "folder", namespace="acme/eve")["new"] == 2
        hit = engine.recall("acme/ada", "What is closed?", k=1)[0]
        assert hit.message.name == "Ada" and str(hit.message.created_at) == "2024-05-01 07:30:00+00:00"

    async def imported() -> int:
        async with await mnemon.AsyncEngine.open() as engine:
            return (await engine.import_files(path, namespace="acme/ada"))["new"]

    assert asyncio.run(imported()) == 2


def test_files_are_read_without_an_engine(tmp_path: Path) -> None:
    path = chat(tmp_path)
    read = list(mnemon.read_files(path))
    assert [(namespace, message.name, message.text) for namespace, message in read] == [
        (None, "Ada", "The bridge is closed."),
        (None, "Bob", "Since when?"),
    ]
    with mnemon.Engine() as engine:
        engine.put("acme/ada", [message for _, message in read])
        assert engine.import_files(path, namespace="acme/ada")["unchanged"] == 2
    many = tmp_path / "many.jsonl"
    many.write_text("".join(line(content=f"{at}", namespace="acme/ada") for at in range(1000)))
    messages = mnemon.read_files(many)
    assert next(messages)[0] == "acme/ada"
    assert [message.text for _, message in messages] == [f"{at}" for at in range(1, 1000)]
    # One that is not read to its end ends its thread.
    next(mnemon.read_files(many))


def test_what_cannot_be_read_says_so(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(line(content="one") + "{}\n" + line(content="three"))
    with mnemon.Engine(tmp_path / "memory.redb") as engine:
        with pytest.raises(mnemon.InvalidMessageError, match="bad.jsonl:2"):
            engine.import_files(path, namespace="a")
        assert engine.history("a", "default")[0].text == "one"
        report = engine.import_files(path, namespace="a", skip_bad=True)
        assert (report["new"], report["unchanged"], report["skipped"]) == (1, 1, 1)
        assert "bad.jsonl:2" in report["notes"][0]
        with pytest.raises(mnemon.InvalidMessageError, match="no namespace"):
            engine.import_files(path)
        for call in [
            lambda **options: engine.import_files(path, namespace="a", **options),
            lambda **options: mnemon.read_files(path, **options),
        ]:
            with pytest.raises(mnemon.InvalidArgumentError, match="chatgpt, claude-ai"):
                call(format="chatgpt2")
            with pytest.raises(mnemon.InvalidConfigError, match="not a time zone"):
                call(time_zone="Mars")
        with pytest.raises(FileNotFoundError):
            engine.import_files(tmp_path / "none", namespace="a")
    read = mnemon.read_files(path)
    assert next(read)[1].text == "one"
    with pytest.raises(mnemon.InvalidMessageError, match="bad.jsonl:2"):
        next(read)
    skipping = mnemon.read_files(path, skip_bad=True)
    assert [message.text for _, message in skipping] == ["one", "three"]
    assert "bad.jsonl:2" in skipping.notes[0]
    with pytest.raises(FileNotFoundError):
        mnemon.read_files(tmp_path / "none")
    with mnemon.Engine(tmp_path / "memory.redb", read_only=True) as engine:
        with pytest.raises(mnemon.ReadOnlyError):
            engine.import_files(path, namespace="a")


def test_secrets_in_files_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "secret.jsonl"
    path.write_text(line(content=f"My key is sk-{'aB3dE5gH' * 4}."))
    assert [message.text for _, message in mnemon.read_files(path, remove_secrets=True)] == ["My key is [key removed]."]
    with mnemon.Engine() as engine:
        engine.import_files(path, namespace="a", remove_secrets=True)
        assert engine.history("a", "default")[0].text == "My key is [key removed]."
