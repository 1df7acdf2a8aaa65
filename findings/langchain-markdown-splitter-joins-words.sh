#!/usr/bin/env bash
# Expected: MarkdownHeaderTextSplitter puts a text apart at its headings, and leaves what is between them as it is.
# Happens: it takes the spaces from both ends of each line, also in a block of code, and drops every character that Python calls not printable. Python code
# loses its indentation and a nested list its levels; the words on both sides of a no-break space or a tab are joined, Japanese words of an
# ideographic space too, and the joiners in Persian words and in emoji are gone.
# Package: langchain-text-splitters 1.1.3 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check langchain-text-splitters==1.1.3
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
from importlib.metadata import version
from langchain_text_splitters import MarkdownHeaderTextSplitter

print("langchain-text-splitters", version("langchain-text-splitters"))
CASES = {
    "no-break spaces": ("Ada\u00a0Lovelace ran 10\u00a0km", "AdaLovelace ran 10km"),
    "a tab": ("Tea\tMonday", "TeaMonday"),
    "an ideographic space": ("山田\u3000花子", "山田花子"),
    "a Persian word": ("می\u200cخواهم", "میخواهم"),
    "a family": ("\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f468\U0001f469\U0001f467"),
    "code": ("```python\ndef is_open():\n    return True\n```", "```python\ndef is_open():\nreturn True\n```"),
    "a nested list": ("- Ada\n  - has a bicycle\n- Bo", "- Ada\n- has a bicycle\n- Bo"),
}
for name, (text, expected) in CASES.items():
    (part,) = MarkdownHeaderTextSplitter([("#", "heading")]).split_text("# Notes\n\n" + text)
    print(f"{name}: {text!r} is {part.page_content!r}")
    assert part.metadata == {"heading": "Notes"} and part.page_content == expected
print("SEEN: words that are joined, and code without its indentation")
PY
