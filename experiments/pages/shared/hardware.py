"""What `emplace validate --json` wrote of real steps: experiments/hardware/FOLDER/NAME.validation.json.gz."""
from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from shared.archive import ROOT, BadInput

HARDWARE = ROOT / "experiments" / "hardware"


def read_validation(folder: Path, name: str) -> dict[str, Any]:
    path = folder / (name + ".validation.json.gz")
    try:
        run = json.loads(gzip.decompress(path.read_bytes()))
        if run["schema"] != "emplace.validation":
            raise ValueError(f"schema is {run['schema']}")
        return run
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: is no emplace.validation ({type(error).__name__}: {error})") from error
