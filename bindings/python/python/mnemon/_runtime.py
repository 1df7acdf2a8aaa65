"""The ONNX Runtime of the package `onnxruntime`, for folders of models; the model that is built in needs none."""

import importlib.util
import os
import sys
from pathlib import Path

PATTERN = {"win32": "onnxruntime.dll", "darwin": "libonnxruntime.*dylib"}.get(sys.platform, "libonnxruntime.so*")


def find() -> None:
    """Sets ORT_DYLIB_PATH to the package's library, unless it is set. The package itself is not imported."""
    spec = importlib.util.find_spec("onnxruntime")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for library in sorted(Path(folder, "capi").glob(PATTERN)):
            os.environ.setdefault("ORT_DYLIB_PATH", str(library))
