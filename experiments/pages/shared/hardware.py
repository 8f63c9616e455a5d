"""What was measured on real devices: files of experiments/results/FOLDER."""
from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from shared.archive import BadInput


def read_validation(folder: Path, name: str) -> dict[str, Any]:
    """NAME.validation.json.gz: what `emplace validate --json` printed."""
    return _read(folder / (name + ".validation.json.gz"), "emplace.validation")


def _read(path: Path, schema: str) -> dict[str, Any]:
    try:
        file = json.loads(gzip.decompress(path.read_bytes()))
        if file["schema"] != schema:
            raise ValueError(f"schema is {file['schema']}")
        return file
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: is not an {schema} ({type(error).__name__}: {error})") from error
