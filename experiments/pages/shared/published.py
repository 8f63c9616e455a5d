"""Figures of papers: experiments/published/NAME.yaml, as the pages need them."""
from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shared.archive import ROOT, BadInput

FOLDER = ROOT / "experiments" / "published"
_LINE = re.compile(
    r"  - \{match: \{(?P<match>[^}]*)\}, (?:over: \{[^}]*\}, )?metric: (?P<metric>\w+), "
    r'(?:value: (?P<value>[-+.\de]+)|missing: [^,"]+)(?:, rank: \d+)?, place: "[^"]*"\}'
)
_PAIR = re.compile(r'(?P<key>[\w.]+): (?:"(?P<quoted>[^"]*)"|(?P<plain>[^,]+))')


@dataclass(frozen=True)
class Figure:
    """match: what its trials have, as text. value: None where the paper has none."""

    match: Mapping[str, str]
    metric: str
    value: float | None


def read_published(name: str, folder: Path = FOLDER) -> list[Figure]:
    """The figures of a file, each of which has a line of its own there."""
    path = folder / (name + ".yaml")
    figures = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if "match:" not in line:
            continue
        found = _LINE.fullmatch(line)
        if not found:
            raise BadInput(
                f"{path}: line {number}: has a figure of another form than `- {{match: {{...}}, metric: M, value: V, "
                'place: "..."}`'
            )
        match = {pair["key"]: pair["quoted"] or pair["plain"] for pair in _PAIR.finditer(found["match"])}
        figures.append(Figure(match, found["metric"], float(found["value"]) if found["value"] else None))
    if not figures:
        raise BadInput(f"{path}: has no figure")
    return figures
