"""plan.jsonl of docs/formats.md: trials of an experiment that a worker runs."""
from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def fingerprint(text: bytes) -> str:
    """FNV-1a of 64 bits, with a zero at the end, as of sim/base/fingerprint.h."""
    value = 0xCBF29CE484222325
    for byte in text + b"\0":
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def write_plan(folder: Path, experiment: str, planned_by: str, trials: Sequence[dict[str, Any]]) -> None:
    """A plan of these trials alone, each with its `folder` and `spec`. `planned_by`: version and revision, as emplace
    writes them into a plan; a worker takes only plans of its own version."""
    lines = b""
    for trial in trials:
        line = {"folder": trial["folder"], "work": 1, "spec": trial["spec"]}
        lines += json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    head = {"schema": "emplace.plan", "version": 1, "experiment": experiment, "emplace": planned_by}
    head |= {"hardware": False, "trials": len(trials), "checksum": fingerprint(lines)}
    (folder / "plan.jsonl").write_bytes(json.dumps(head, separators=(",", ":")).encode() + b"\n" + lines)


def work(emplace: str, folder: Path, jobs: int) -> str:
    """Runs the trials of a folder's plan; the last line of what the worker says where one fails."""
    command = [emplace, "worker", folder, "--jobs", str(jobs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stderr.strip().splitlines() or ["emplace worker failed"])[-1]
