"""The runs behind a page: trials of experiments/results/NAME.trials.json.xz, and what `emplace report` says of them."""
from __future__ import annotations

import csv
import functools
import io
import json
import lzma
import math
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.packed import FAULTS, SUFFIX, read_packed, write_runs

ROOT = Path(__file__).resolve().parents[3]
MEANS = ("step_time_us", "mean_step_time_us", "entropy")  # of episodes that were left out; null where none has it
ROOM = 2 << 30  # bytes that a folder for unpacked archives has free


class BadInput(Exception):
    """What cannot be read: file, place and what was expected, in one line."""


def geometric_mean(values: Iterable[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


class NoArchive(Exception):
    """Why a page cannot be recomputed here, though nothing is wrong."""


def extremes(values: Iterable[float]) -> tuple[float, float]:
    """The smallest and the largest."""
    ordered = sorted(values)
    return ordered[0], ordered[-1]


def percent_faster(ours: float, others: float) -> float:
    """By how many percent a step of `ours` is shorter."""
    return 100 * (1 - ours / others)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


class Trial:
    """A finished trial, or its part on one of several graphs. Times are in ms; None: nothing that fits was found."""

    def __init__(self, record: dict[str, Any], timing: dict[str, Any], index: int = 0) -> None:
        self.record, self.timing, self.index = record, timing, index
        self.spec = record["spec"]
        if "together" in self.spec:
            self.spec = {**self.spec, "graph": self.spec["together"][index]}
        self.graph = record["graphs"][index]
        self.transfers = record.get("transfer", [])  # as in trial.json
        self.label = self.spec["agent"].get("label", self.spec["agent"]["name"])
        self.seed = self.spec["seed"]
        self.gpus = sum(not device.startswith("cpu") for device in self.spec["cluster"]["devices"])

    def get(self, key: str) -> str:
        """The value of a key path of spec.json as text, as --where compares it; also num_devices and gpus."""
        if key == "num_devices":
            return str(self.graph["num_devices"])
        if key == "gpus":
            return str(self.gpus)
        if key == "agent.label":
            return self.label
        value: Any = self.spec
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return "" if value is None else _text(value)

    @property
    def uncommitted(self) -> bool:
        """Made by a revision with changes that were not committed."""
        return self.record["revision"].endswith("dirty")

    @property
    def best(self) -> float | None:
        return _ms(self.graph["best_step_time_us"])

    @property
    def single_device(self) -> float | None:
        return _ms(self.graph.get("single_device_step_time_us"))

    @property
    def start(self) -> float | None:
        return _ms(self.graph["start_step_time_us"])

    @property
    def ratio(self) -> float | None:
        """Best step time over the lower bound."""
        return None if self.best is None else self.best / _ms(self.graph["lower_bound_us"])

    def best_after(self, evaluations: int) -> float:
        """The best step time after this many evaluations, ms."""
        return _ms([best for count, best in self.graph["trace"] if count <= evaluations][-1])

    @functools.cached_property
    def episodes(self) -> list[dict[str, Any]]:
        """What a learning agent drew and learned, without evaluations of its likeliest placement. Episodes that were left
        out have their mean each."""
        episodes: list[dict[str, Any]] = []
        records = self.graph.get("episodes", [])
        for before, record in zip([{}, *records], records):
            if "left_out" in record:
                episodes += _left_out(before["evaluations"], record)
            if not record["argmax"]:
                episodes.append(record)
        return episodes

    def drawn(self, tenth: int) -> float | None:
        """Mean step time drawn in the first (0) to last (9 or -1) tenth of the training episodes, ms."""
        means = [episode["mean_step_time_us"] for episode in self.episodes if episode["mean_step_time_us"] is not None]
        tenth %= 10
        first = tenth * len(means) // 10
        part = means[first : max((tenth + 1) * len(means) // 10, first + 1)]
        return statistics.fmean(part) / 1000 if part else None

    @property
    def policy_seconds(self) -> float:
        return self.timing["policy_seconds"]

    @property
    def cpu_seconds(self) -> float:
        return self.timing["policy_seconds"] + self.timing["simulator_seconds"]


def _left_out(before: int, record: dict[str, Any]) -> list[dict[str, Any]]:
    """The episodes without a record between `before` evaluations and this record, each with their means."""
    means = {**dict.fromkeys(MEANS), **record["left_out"]}
    count = means.pop("episodes")
    distance = record["evaluations"] - before
    return [{**means, "evaluations": before + index * distance // (count + 1)} for index in range(1, count + 1)]


def _ms(micros: float | None) -> float | None:
    return None if micros is None else micros / 1000


class Trials(list):
    """Trials, in the order of their IDs."""

    def where(self, *conditions: str) -> Trials:
        """The trials that meet all conditions KEY=VALUE; of several for a key, one of them. Refuses to return none."""
        wanted: dict[str, set[str]] = {}
        for condition in conditions:
            key, _, value = condition.partition("=")
            wanted.setdefault(key, set()).add(value)
        found = Trials(trial for trial in self if all(trial.get(key) in values for key, values in wanted.items()))
        if not found:
            raise BadInput(f"no trial has {' and '.join(conditions)}")
        return found

    def by(self, *keys: str) -> dict[Any, Trials]:
        """The trials by the values of the keys: a tuple, or the value of a single key."""
        groups: dict[Any, Trials] = {}
        for trial in self:
            values = tuple(trial.get(key) for key in keys)
            groups.setdefault(values if len(keys) > 1 else values[0], Trials()).append(trial)
        return groups

    def values(self, what: Callable[[Trial], float | None] = lambda trial: trial.best) -> list[float]:
        """`what` of each trial that found something, in the order of seeds."""
        found = [what(trial) for trial in sorted(self, key=lambda trial: trial.seed)]
        return [value for value in found if value is not None]

    def mean(self, what: Callable[[Trial], float | None] = lambda trial: trial.best) -> float | None:
        """None if no trial has the value."""
        values = self.values(what)
        return statistics.fmean(values) if values else None


@dataclass(frozen=True)
class Cell:
    """A mean of a report's tables with its interval; step times in ms."""

    mean: float | None
    low: float | None
    high: float | None
    published: float | None


class Report:
    """The tables of `emplace report` on some trials of an archive."""

    def __init__(self, table: list[dict[str, str]]) -> None:
        self.rows = table
        self._cells = {(row["metric"], row["agent"], row["column"]): row for row in table}

    def cell(self, metric: str, agent: str, column: str) -> Cell:
        """`column`: the heading, such as `overall`. A cell without a mean if the agent has none there."""
        row = self._cells.get((metric, agent, column))
        if row is None:
            raise BadInput(f"the report has no cell {metric}, {agent}, {column}")
        part = 1000 if "step_time" in metric else 1

        def number(key: str, unit: float) -> float | None:
            return float(row[key]) / unit if row[key] else None

        return Cell(number("mean", part), number("low_95", part), number("high_95", part), number("published", 1))


class NamedTrials:
    """Finished trials of an experiment."""

    def __init__(self, name: str, trials: Iterable[Trial] = ()) -> None:
        self.name, self.trials = name, Trials(trials)

    def where(self, *conditions: str) -> Trials:
        return self.trials.where(*conditions)

    def expect_labels(self, labels: Iterable[str]) -> None:
        """Refuses agents that the page would leave out."""
        unknown = sorted({trial.label for trial in self.trials} - set(labels))
        if unknown:
            raise BadInput(f"{self.name}: its page has no place for {', '.join(unknown)} (labels of experiments/pages)")


def read_archive(path: Path) -> tuple[dict[str, Any], list[tuple[dict[str, Any], dict[str, Any]]], list[Trial]]:
    """What read_packed returns of NAME.trials.json.xz, and its trials, in the order of their IDs."""
    try:
        experiment, records = read_packed(path)
        found = [Trial(trial, timing, index) for trial, timing in records for index in range(len(trial["graphs"]))]
    except FAULTS as error:
        reason = f"{type(error).__name__}: {error}" if path.is_file() else "there is no such file"
        raise BadInput(f"{path}: is not an archive of runs ({reason})") from error
    if not found:
        raise BadInput(f"{path}: holds no trial (a file of tools/archive_runs is expected)")
    return experiment, records, found


def read_trials(path: Path) -> list[Trial]:
    """The trials of NAME.trials.json.xz, in the order of their IDs."""
    return read_archive(path)[2]


class Archive(NamedTrials):
    """Runs in experiments/results. Unpacked only for reports, into a folder that goes with the object."""

    def __init__(self, path: Path, program: str) -> None:
        self._experiment, self._records, trials = read_archive(path)
        super().__init__(path.name.removesuffix(SUFFIX), trials)
        self._program = program
        self._reports: dict[tuple[str, ...], Report] = {}

    @functools.cached_property
    def _scratch(self) -> tempfile.TemporaryDirectory[str]:
        scratch = tempfile.TemporaryDirectory(prefix="recompute.", dir=folder_in_memory())
        write_runs(Path(scratch.name, self.name), self._experiment, self._records)
        return scratch

    def report(self, *conditions: str) -> Report:
        """What `emplace report --where CONDITION ...` writes. Made once."""
        if conditions not in self._reports:
            stem = os.path.join(self._scratch.name, f"report{len(self._reports)}")
            command = [self._program, "report", os.path.join(self._scratch.name, self.name), "-o", stem + ".html"]
            for condition in conditions:
                command += ["--where", condition]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise BadInput(
                    f"{self.name}: emplace report: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}"
                )
            self._reports[conditions] = Report(_rows(stem + "_table.csv"))
        return self._reports[conditions]


def write_whole(path: Path, text: str) -> None:
    """The file has all of the text or is as it was."""
    part = path.with_name(path.name + ".part")
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def write_csv(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """The header is the first row. The file has all rows or is as it was."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_whole(path, text.getvalue())


def run_emplace(emplace: str, *arguments: str | Path, text: str = "") -> str:
    """What the program prints, with `text` as its standard input. Its last line on standard error is why it failed."""
    done = subprocess.run([emplace, *arguments], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BadInput((done.stderr.strip().splitlines() or [f"emplace {arguments[0]} failed"])[-1])
    return done.stdout


def program() -> str:
    """The emplace that the environment names, or the first that is built or installed."""
    chosen = os.environ.get("EMPLACE")
    builds = [str(ROOT / "build" / name) for name in ("dev/emplace", "release/emplace", "emplace")]
    choices = [chosen] if chosen else [*builds, shutil.which("emplace") or ""]
    for choice in choices:
        if os.access(choice, os.X_OK) and os.path.isfile(choice):
            return choice
    raise BadInput(f"{choices[0]}: is not a program (EMPLACE=PATH names emplace)")


def folder_in_memory() -> str | None:
    """None: TMPDIR names another, or there is no room. On a disk the removal of many small files can take longer than
    all else."""
    folder = "/dev/shm"
    if "TMPDIR" in os.environ:
        return None
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) and found.f_bavail * found.f_frsize > ROOM else None


def _rows(path: str) -> list[dict[str, str]]:
    if not os.path.exists(path):
        raise BadInput(f"emplace report wrote no {os.path.basename(path)}: EMPLACE names an old program")
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Source:
    """Where a page's description gets its archives from; each is read once."""

    def __init__(self, folder: Path, find_program: Callable[[], str]) -> None:
        self._folder, self._find_program = folder, find_program
        self._archives: dict[str, Archive] = {}

    @property
    def program(self) -> str:
        return self._find_program()

    def names(self) -> list[str]:
        """The names of all archives."""
        return sorted(path.name.removesuffix(SUFFIX) for path in self._folder.glob("*" + SUFFIX))

    def archive(self, name: str) -> Archive:
        if name not in self._archives:
            self._archives[name] = Archive(self._folder / (name + SUFFIX), self.program)
        return self._archives[name]

    def path(self, file: str) -> Path:
        """The path of a file beside the archives."""
        return self._folder / file

    def rows(self, file: str) -> list[dict[str, str]]:
        """The rows of a CSV file beside the archives, compressed if its name ends in .xz."""
        path = self.path(file)
        try:
            with (lzma.open if path.suffix == ".xz" else open)(path, "rt", newline="", encoding="utf-8") as lines:
                return list(csv.DictReader(lines))
        except (OSError, lzma.LZMAError) as error:
            raise BadInput(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error

    @staticmethod
    def reference_data(what: str) -> Path:
        """The folder of other projects' files."""
        folder = os.environ.get("EMPLACE_REFERENCE_DATA", "")
        if not folder:
            raise NoArchive(f"it needs {what}: EMPLACE_REFERENCE_DATA=FOLDER names others' files")
        if not os.path.isdir(folder):
            raise BadInput(f"EMPLACE_REFERENCE_DATA: {folder}: is not a folder")
        return Path(folder)
