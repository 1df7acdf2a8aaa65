"""The programs that are shown run as they are shown."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent
EXAMPLES = sorted(FOLDER.glob("examples/**/*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    result = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    assert "Thursday" in result.stdout


@pytest.mark.parametrize("readme", [FOLDER / "README.md", FOLDER.parent.parent / "README.md"])
def test_the_readme_shows_the_first_example(readme: Path) -> None:
    shown = readme.read_text().split("```python\n")[1].split("```")[0]
    assert shown == (FOLDER / "examples/recall.py").read_text()
