"""NAME.trials.json.xz: an experiment with the results of its finished trials, in less than a tenth of their files.

Left out are checksums, IDs and figures that follow from the rest, and the fingerprints of placements, which are not in
the archive. Lists of records are stored as columns."""
from __future__ import annotations

import functools
import itertools
import json
import lzma
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from shared.plan import fingerprint as fingerprint_of_bytes

Record = dict[str, Any]

SUFFIX = ".trials.json.xz"
SCHEMA = {"schema": "emplace.packed_trials", "version": 3}
FAULTS = (OSError, EOFError, lzma.LZMAError, ValueError, KeyError, IndexError, TypeError, AttributeError)
TABLES = ("episodes", "checks")  # lists of records
COUNTS = ("episode", "evaluations", "evaluation")  # columns that ascend: stored as differences
ABSENT = ""  # in a column: the record lacks the value
FOLLOWS = ""  # in place of a figure of DERIVED that its function returns
LEFT_OUT = ("checksum", "trial", "best_placement_fingerprint")  # members of trial.json and timing.json
# In JSON without blanks: a text, or a number that is no integer.
TEXT_OR_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+(?:e[-+]?[0-9]+)?|e[-+]?[0-9]+)')
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "pb": 0, "dict_size": 1 << 26}]


def _improvement_percent(graph: Record) -> float | None:
    start, best = graph["start_step_time_us"], graph["best_step_time_us"]
    return None if best is None or start <= 0 else (start - best) / start * 100


def _policy_seconds_per_episode(timing: Record) -> float | None:
    return timing["policy_seconds"] / timing["episodes"] if timing["episodes"] > 0 else None


DERIVED = {"improvement_percent": _improvement_percent, "policy_seconds_per_episode": _policy_seconds_per_episode}


def write_packed(path: Path, experiment: Record, trials: Iterable[tuple[Record, Record]]) -> None:
    """`trials`: the contents of trial.json and timing.json. Similar trials are stored beside each other."""
    lines = [{"trial": _essence(trial), "timing": _essence(timing)} for trial, timing in trials]
    lines.sort(key=lambda line: compact(line["trial"]["spec"]))
    head = compact({**SCHEMA, "experiment": _essence(experiment)})
    text = f'{head[:-1]},"trials":[\n' + ",\n".join(map(compact, lines)) + "\n]}\n"
    part = path.with_name(path.name + ".part")
    part.write_bytes(lzma.compress(text.encode(), filters=FILTERS))
    part.replace(path)


def read_packed(path: Path) -> tuple[Record, list[tuple[Record, Record]]]:
    """The experiment, and trial.json and timing.json of each trial, without checksums, by their IDs. Raises one of
    FAULTS for what write_packed did not write."""
    content = json.loads(lzma.decompress(path.read_bytes()), object_hook=_unpacked)
    if {key: content[key] for key in SCHEMA} != SCHEMA:
        raise ValueError(f"is not {SCHEMA['schema']} of version {SCHEMA['version']}")
    trials = [(line["trial"], line["timing"]) for line in content["trials"]]
    for trial, _ in trials:
        trial["trial"] = fingerprint(trial["spec"])
    return content["experiment"], sorted(trials, key=lambda trial: trial[0]["trial"])


def unpack(path: Path, runs: Path) -> Path:
    """Writes the folder of an experiment, as emplace sweep does, into `runs`, and returns it."""
    folder = runs / path.name.removesuffix(SUFFIX)
    write_runs(folder, *read_packed(path))
    return folder


def write_runs(folder: Path, experiment: Record, trials: list[tuple[Record, Record]]) -> None:
    """Writes the folder of an experiment with what read_packed returned."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "experiment.json").write_text(_checked(experiment) + "\n", encoding="utf-8")
    for trial, timing in trials:
        own = folder / trial["trial"]
        own.mkdir(exist_ok=True)
        for name, text in (("spec", compact(trial["spec"])), ("timing", _checked(timing)), ("trial", _checked(trial))):
            (own / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def compact(value: Any) -> str:
    """JSON as emplace writes it, of which it takes fingerprints."""
    return TEXT_OR_NUMBER.sub(_as_emplace_writes, json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _as_emplace_writes(found: re.Match[str]) -> str:
    text = found[0]
    # Only these can be shorter in the other form.
    return _shortest(text) if text[0] != '"' and ("e" in text or "0.000" in text or text.endswith(".0")) else text


def fingerprint(value: Any) -> str:
    """FNV-1a with 64 bits, of the value's JSON and a byte that ends it (sim/base/fingerprint.h)."""
    return fingerprint_of_bytes(compact(value).encode())


@functools.lru_cache(maxsize=1 << 16)
def _shortest(number: str) -> str:
    """The shorter of the number with and without an exponent, as C++'s to_chars has it."""
    sign, digits, exponent = Decimal(number).normalize().as_tuple()
    first, *rest = map(str, digits)
    power = exponent + len(rest)
    scientific = f"{'-' * sign}{first}{'.' if rest else ''}{''.join(rest)}e{'-' if power < 0 else '+'}{abs(power):02}"
    fixed = format(Decimal((sign, digits, exponent)), "f")
    return scientific if len(scientific) < len(fixed) else fixed


def _checked(content: Record) -> str:
    """The content as JSON, with its checksum as the last member."""
    text = compact(content)
    return f'{text[:-1]},"checksum":"{fingerprint_of_bytes(text.encode())}"}}'


def _essence(content: Record) -> Record:
    return _packed({key: value for key, value in content.items() if key not in LEFT_OUT}, "")


def _packed(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return {key: FOLLOWS if _follows(key, value) else _packed(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return _as_columns(value) if key in TABLES else [_packed(item, "") for item in value]
    return value


def _follows(key: str, content: Record) -> bool:
    return key in DERIVED and content[key] == DERIVED[key](content)


def _unpacked(content: Record) -> Record:
    for key in TABLES:
        if isinstance(content.get(key), dict):
            content[key] = _as_records(content[key])
    for key, value_of in DERIVED.items():
        if content.get(key) == FOLLOWS:
            content[key] = value_of(content)
    return content


def _as_columns(records: list[Record]) -> dict[str, list[Any]]:
    rows = [dict(_flat(record)) for record in records]
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = {key: [row.get(key, ABSENT) for row in rows] for key in keys}
    for key in filter(keys.__contains__, COUNTS):
        columns[key] = [now - before for before, now in zip([0, *columns[key]], columns[key])]
    return columns


def _as_records(columns: dict[str, list[Any]]) -> list[Record]:
    for key in filter(columns.__contains__, COUNTS):
        columns[key] = list(itertools.accumulate(columns[key]))
    places = [key.rpartition(".")[::2] for key in columns]
    records: list[Record] = []
    for values in zip(*columns.values(), strict=True):
        record: Record = {}
        for (place, name), value in zip(places, values):
            if value != ABSENT:
                (record.setdefault(place, {}) if place else record)[name] = value
        records.append(record)
    return records


def _flat(record: Record, place: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{place}{key}.")
        else:
            yield place + key, value
