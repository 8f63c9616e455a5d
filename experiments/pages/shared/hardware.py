"""What was measured on real devices: files of experiments/results/FOLDER."""
from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from shared.archive import BadInput, NamedTrials, Trial


def read_validation(folder: Path, name: str) -> dict[str, Any]:
    """NAME.validation.json.gz: what `emplace validate --json` printed."""
    return _read(folder / (name + ".validation.json.gz"), "emplace.validation")


def read_trials(folder: Path, name: str) -> NamedTrials:
    """NAME.trials.json.gz: what tools/pack_trials wrote."""
    path = folder / (name + ".trials.json.gz")
    file = _read(path, "emplace.packed_trials")
    runs = NamedTrials(name)
    try:
        runs.trials += [Trial(trial["trial"], trial["timing"]) for trial in file["trials"]]
    except (KeyError, TypeError, IndexError) as error:
        raise BadInput(f"{path}: holds what is no trial ({type(error).__name__}: {error})") from error
    if not runs.trials:
        raise BadInput(f"{path}: holds no trial")
    return runs


def _read(path: Path, schema: str) -> dict[str, Any]:
    try:
        file = json.loads(gzip.decompress(path.read_bytes()))
        if file["schema"] != schema:
            raise ValueError(f"schema is {file['schema']}")
        return file
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: is no {schema} ({type(error).__name__}: {error})") from error
