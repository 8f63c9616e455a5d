"""The library of instances: what is known of each, and the ratio that `emplace report` calls best_known_ratio."""
from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shared.archive import ROOT, BadInput, Trial

RATIO_OF_NOTHING = 10.0  # where nothing that fits was found; also the largest ratio

_ROW = re.compile(r"  - \{name: (?P<name>[^,]+), .*?ops: (?P<ops>\d+), graph: (?P<graph>\{.*\}), cluster: ")


@dataclass(frozen=True)
class Instance:
    """Times are in ms."""

    name: str
    ops: int
    graph: str  # the recipe, which instances of one graph on several clusters share
    best_known: float
    lower_bound: float
    status: str

    @property
    def family(self) -> str:
        """The recipe's kind and name, such as `synthetic: layered`."""
        return re.match(r"\{(\w+: [\w.-]+)", self.graph)[1]


def read_library(folder: Path = ROOT / "datasets" / "library") -> dict[str, Instance]:
    """The frozen instances by name. One row a line, as tools/update_library writes them."""
    known = {}
    for number, line in enumerate(_lines(folder / "best_known.yaml"), 1):
        if line.startswith("  - "):
            try:
                row = json.loads(line[4:])
                known[row["instance"]] = row
            except (ValueError, KeyError) as error:
                place = f"{folder / 'best_known.yaml'}:{number}"
                raise BadInput(f"{place}: is not a row of an instance ({error})") from error
    library = {}
    for line in _lines(folder / "instances.yaml"):
        found = _ROW.match(line)
        row = known.get(found["name"]) if found else None
        if row:
            library[found["name"]] = Instance(
                found["name"],
                int(found["ops"]),
                found["graph"],
                row["step_time_ns"] / 1e6,
                row["lower_bound_ns"] / 1e6,
                row["status"],
            )
    return library


def best_known_ratio(trial: Trial, library: Mapping[str, Instance]) -> float:
    """Best step time over the best known one."""
    known = instance_of(trial, library).best_known
    if trial.best is None:
        return RATIO_OF_NOTHING
    if known == 0:
        return RATIO_OF_NOTHING if trial.best > 0 else 1.0
    return min(RATIO_OF_NOTHING, trial.best / known)


def instance_of(trial: Trial, library: Mapping[str, Instance]) -> Instance:
    name = trial.get("graph.instance")
    if name not in library:
        place = f"trial {trial.record.get('trial', '')}"
        raise BadInput(f"{place}: {name or 'its graph'} is not an instance of the library")
    return library[name]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from error
