"""A paper's table with a row for each network and number of GPUs, beside our runs of it."""
from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from shared.archive import Archive, BadInput, Cell, Trial, Trials
from shared.claims import Claim, Effect, effect_if_any, published_effect
from shared.published import read_published
from shared.table import interval, number


@dataclass(frozen=True)
class Row:
    """graph: its group in a report, such as `nmt {"layers":2}`."""

    title: str
    graph: str
    gpus: int

    @property
    def column(self) -> str:
        """Its heading in a report."""
        return f"{self.graph}, {self.gpus} GPUs"

    @property
    def model(self) -> str:
        return self.graph.split(" ", 1)[0]

    @property
    def settings(self) -> dict[str, str]:
        return {key: str(value) for key, value in json.loads(self.graph.split(" ", 1)[1]).items()}

    def conditions(self) -> list[str]:
        settings = [f"graph.set.{key}={value}" for key, value in self.settings.items()]
        return ["graph.model=" + self.model, f"gpus={self.gpus}", *settings]

    def matches(self, match: Mapping[str, str]) -> bool:
        """Whether a published figure is of this row. The paper's networks may have fewer settings than ours."""
        settings = {key.removeprefix("graph.set."): text for key, text in match.items() if ".set." in key}
        gpus = int(match["num_devices"]) - 1  # the CPU is a device too
        return (match["graph.model"], gpus) == (self.model, self.gpus) and settings.items() <= self.settings.items()


class PaperTable:
    """The cells of a table by row and agent: mean step times of our runs, ms, and what the paper has."""

    def __init__(self, name: str, archive: Archive, rows: Mapping[str, Row], agents: Sequence[str]) -> None:
        """name: of the file in experiments/published. Refuses an archive with two trials of the same seed in a cell."""
        archive.expect_labels(agents)
        self.rows = rows
        self.trials: dict[str, Trials] = {key: archive.where(*row.conditions()) for key, row in rows.items()}
        self.published = published_figures(name, rows, "step_time")
        for key, trials in self.trials.items():
            for (agent, seed), same in trials.by("agent.label", "seed").items():
                if len(same) > 1:
                    raise BadInput(
                        f"{archive.name}: has {len(same)} trials of {agent} on {rows[key].title}, seed {seed}"
                    )
        report = archive.report()
        ran = {(key, trial.label) for key, trials in self.trials.items() for trial in trials}
        empty = Cell(None, None, None, None)
        self.cells: dict[tuple[str, str], Cell] = {
            (key, agent): replace(
                report.cell("step_time", agent, row.column) if (key, agent) in ran else empty,
                published=self.published.get((key, agent)),
            )
            for key, row in rows.items()
            for agent in agents
        }

    def means(self) -> dict[tuple[str, str], float | None]:
        return {key: cell.mean for key, cell in self.cells.items()}

    def of(self, agent: str, rows: Sequence[str]) -> Trials:
        """The agent's trials in some rows; none if it has not run there."""
        return Trials(trial for row in rows for trial in self.trials[row] if trial.label == agent)

    def text(self, row: str, agent: str, missing: Mapping[tuple[str, str], str], spread: bool) -> str:
        """The text of a cell: our mean, with its interval if `spread`, how many seeds found something if not all did,
        and what is published. missing: what the paper says in place of a value. Without runs of the agent, no mean."""
        cell, runs = self.cells[row, agent], self.of(agent, [row])
        text = number(cell.mean) if runs else ""
        if spread and cell.mean is not None:
            text += " " + interval(cell)
        fitting = sum(trial.best is not None for trial in runs)
        if 0 < fitting < len(runs):
            text += f", {fitting} of {len(runs)} seeds"
        published = missing.get((row, agent), cell.published and number(cell.published))
        return text + (f" ({published})" if published else "")

    def effect(
        self,
        one: str,
        other: str,
        rows: Sequence[str],
        value: Callable[[Trial], float | None] = lambda trial: trial.best,
    ) -> Effect | None:
        """None if one of the two has not run, or if there is no row in which both found something."""
        return effect_if_any(self.of(one, rows), self.of(other, rows), value)

    def claim(
        self,
        name: str,
        text: str,
        best: tuple[str, str],
        as_published: tuple[str, str] | None,
        rows: Sequence[str],
        value: Callable[[Trial], float | None] = lambda trial: trial.best,
        tie: bool = False,
    ) -> Claim:
        """That the first of two agents is faster than the second, or as fast. best, as_published: the labels of the two
        with their best settings and with the paper's, None if these are the same. What is published has the labels of
        the latter, or else of the former, up to a comma, as have figures in experiments/published."""
        one, other = (label.partition(", ")[0] for label in as_published or best)
        reported = {(row, label.partition(", ")[0]): value for (row, label), value in self.published.items()}
        expected, published = None, "equal" if tie else "yes"
        graphs: dict[str, list[tuple[float | None, float | None]]] = {}
        for row in rows:
            pair = reported.get((row, one)), reported.get((row, other))
            graphs.setdefault(self.rows[row].graph, []).append(pair)
        if not tie and any(a and b for pairs in graphs.values() for a, b in pairs):
            expected, published = published_effect(graphs.values())
        found = self.effect(*best, rows, value)
        other_settings = self.effect(*as_published, rows, value) if as_published else None
        settled = ""
        if found is None and all(self.of(agent, rows) for agent in best):
            fits = any(value(trial) is not None for trial in self.of(best[1], rows))
            settled = "does not come out" if fits else "cannot be tested here"
        return Claim(name, text, published, found, other_settings, expected, tie, settled)


def published_figures(name: str, rows: Mapping[str, Row], metric: str) -> dict[tuple[str, str], float]:
    """By row and agent, whatever has run; step times in ms. Of rows that are not asked for none."""
    return {
        (key, figure.match["agent.label"]): figure.value
        for figure in read_published(name)
        if figure.metric == metric and figure.value is not None
        for key, row in rows.items()
        if row.matches(figure.match)
    }
