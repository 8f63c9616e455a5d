"""docs/results/post.md."""
from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from statistics import fmean

from shared.archive import Archive, Cell, Report, Source, Trial, Trials, extremes, percent_faster
from shared.claims import Claim, Effect, claim_figures, claim_table, effect, published_effect
from shared.chart import Axis, Line, Panel, Style, around, chart
from shared.page import Value, markdown
from shared.published import read_published
from shared.table import bold_best, interval, number, run_figures

# By the page's name: the graph's group in a report, and the number of GPUs.
ROWS = {
    "rnnlm": ("RNNLM, 2", 'rnnlm {"layers":4}', 2),
    "resnet50.2": ("ResNet-50, 2", 'resnet {"layers":50}', 2),
    "resnet50.4": ("ResNet-50, 4", 'resnet {"layers":50}', 4),
    "resnet101": ("ResNet-101, 8", 'resnet {"layers":101}', 8),
    "resnet200": ("ResNet-200, 2", 'resnet {"layers":200}', 2),
    "inception.2": ("Inception-V3, 2", 'inception_v3 {"batch":32}', 2),
    "inception.4": ("Inception-V3, 4", 'inception_v3 {"batch":32}', 4),
    "inception.8": ("Inception-V3, 8", 'inception_v3 {"batch":32}', 8),
    "nmt2": ("NMT, 2 layers, 2", 'nmt {"layers":2}', 2),
    "nmt4": ("NMT, 4 layers, 4", 'nmt {"layers":4}', 4),
    "nmt8": ("NMT, 8 layers, 8", 'nmt {"layers":8}', 8),
}
AGENTS = {
    "single device": "single GPU",
    "expert": "expert",
    "metis": "METIS",
    "policy gradient (RNN)": "RNN",
    "policy gradient (RNN), tuned": "RNN, tuned",
    "policy gradient": "policy gradient",
    "policy gradient, tuned": "policy gradient, tuned",
    "ppo only": "PPO only",
    "ppo only, tuned": "PPO only, tuned",
    "cross-entropy only": "cross-entropy only",
    "cross-entropy only, tuned": "cross-entropy only, tuned",
    "post": "Post",
    "post, tuned": "Post, rate 0.3",
    "random walk": "random walk",
    "annealing": "annealing",
}
MAIN = ["single device", "expert", "metis", "policy gradient (RNN)", "post", "random walk", "annealing"]
PARTS = ["policy gradient", "ppo only", "cross-entropy only", "post"]  # each also tuned
ON_OPS = ["heft on ops", "multilevel search on ops"]
OUT_OF_MEMORY = {("nmt2", "single device"), ("nmt4", "single device"), ("nmt8", "single device")}  # in the paper
SHOWN = ["resnet50.2", "inception.4", "nmt8"]
METHODS = [part + tuned for part in reversed(PARTS) for tuned in ("", ", tuned")]
SAMPLES = [12, 300, 600, 1200, 2376]
COLOURS = {"policy gradient": "#d55e00", "ppo only": "#0072b2", "cross-entropy only": "#555555", "post": "#009e73"}


def read(source: Source) -> tuple[Archive, dict[tuple[str, str], Cell]]:
    """The runs, and the report's cells by row and agent; empty ones where an agent has not run."""
    archive = source.archive("post")
    archive.expect_labels(AGENTS)
    report = archive.report()
    ran = {
        (row, trial.label)
        for row, (_, graph, gpus) in ROWS.items()
        for trial in archive.where(*conditions(graph, gpus))
    }
    published = published_times()
    cells = {
        (row, agent): report.cell("step_time", agent, f"{graph}, {gpus} GPUs")
        if (row, agent) in ran
        else Cell(None, None, None, published.get((row, agent)))
        for row, (_, graph, gpus) in ROWS.items()
        for agent in AGENTS
    }
    return archive, cells


def claims(source: Source) -> list[Claim]:
    archive, cells = read(source)
    return claims_of(archive.trials, cells)


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]], dict[str, str]]:
    archive, cells = read(source)
    report = archive.report()
    means = {key: cell.mean for key, cell in cells.items()}
    trials = {row: archive.where(*conditions(graph, gpus)) for row, (_, graph, gpus) in ROWS.items()}
    ops = source.archive("post_ops")
    on_ops = {row: ops.where(*conditions(graph, gpus)) for row, (_, graph, gpus) in ROWS.items()}
    drawn = {
        (row, method, samples): fmean(drawn_at(trial, samples) for trial in of_row.where("agent.label=" + method))
        for row, of_row in trials.items()
        for method in METHODS
        for samples in SAMPLES
    }
    found = claims_of(archive.trials, cells)
    figures: dict[str, Value] = {
        **run_figures(archive),
        **run_figures(ops, "ops"),
        **claim_figures(found),
        "search.hours": 2400 * 11 / 12 * fmean(drawn["inception.4", "post", samples] for samples in SAMPLES) / 3.6e6,
        "annealing.ahead": sum(means[row, "annealing"] < means[row, "post"] for row in ROWS),
        **{f"rate.{tail}": value for tail, value in rates(drawn).items()},
    }
    for (row, agent), cell in cells.items():
        name = f"{row}.{plain(agent)}"
        if cell.mean is not None:
            figures[name] = cell.mean
            figures[name + ".hours"] = 40000 * cell.mean / 3.6e6
            figures[name + ".less"] = percent_faster(means[row, "post"], cell.mean)  # of Post, %
    bests = {row: on_ops[row].where("agent.label=multilevel search on ops")[0] for row in ROWS}
    figures["post.behind.min"], figures["post.behind.max"] = extremes(
        percent_faster(bests[row].best, means[row, "post"]) for row in ROWS
    )
    tables = {
        "main": main_table(cells, trials, on_ops),
        "parts": parts_table(cells),
        "means": mean_table(means, trials, report),
        "drawn": drawn_table(drawn),
        "claims": claim_table(found),
    }
    return figures, tables, {"post_drawn.svg": drawn_picture(trials)}


def claims_of(trials: Trials, cells: dict[tuple[str, str], Cell]) -> list[Claim]:
    ran = {trial.label for trial in trials}

    def claim(
        name: str,
        text: str,
        other: str,
        model: str = "",
        value: Callable[[Trial], float | None] = lambda trial: trial.best,
        tie: bool = False,
    ) -> Claim:
        """That Post is faster than the other; with best settings if the other has any of its own. Post's own best are its
        defaults (docs/results/tuning.md)."""
        where = ["graph.model=" + model] if model else []
        graphs: dict[str, list[tuple[float | None, float | None]]] = {}
        for row, (_, graph, _) in ROWS.items():
            if graph.startswith(model):
                graphs.setdefault(graph, []).append((cells[row, "post"].published, cells[row, other].published))
        expected, published = None, "equal" if tie else "yes"
        if not tie and any(a and b for rows in graphs.values() for a, b in rows):
            expected, published = published_effect(graphs.values())

        def of(one: str, two: str) -> Effect | None:
            if not {one, two} <= ran:
                return None
            return effect(trials.where("agent.label=" + one, *where), trials.where("agent.label=" + two, *where), value)

        if other + ", tuned" not in AGENTS:
            return Claim(name, text, published, of("post", other), None, expected, tie)
        return Claim(name, text, published, of("post", other + ", tuned"), of("post", other), expected, tie)

    def drawn(trial: Trial) -> float:
        return fmean(episode["mean_step_time_us"] for episode in trial.episodes)

    learned = "learns faster than {} alone: the mean of what is drawn over the run (figure 2)"
    return [
        claim("single_device", "faster than a single GPU on Inception-V3", "single device", "inception_v3"),
        claim("expert", "faster than experts on NMT", "expert", "nmt"),
        claim("rnn", "faster than a policy gradient, Google's RNN", "policy gradient (RNN)"),
        claim("ppo", learned.format("PPO"), "ppo only", value=drawn),
        claim("entropy", learned.format("cross-entropy"), "cross-entropy only", value=drawn),
        claim("resnet", "ties with a single GPU on ResNets", "single device", "resnet", tie=True),
        claim("metis", "faster than METIS", "metis"),
    ]


def published_times() -> dict[tuple[str, str], float]:
    """By row and agent, ms, whatever has run."""
    times = [figure for figure in read_published("post") if figure.metric == "step_time" and figure.value is not None]
    return {(row_of(figure.match), figure.match["agent.label"]): figure.value for figure in times}


def row_of(match: Mapping[str, str]) -> str:
    settings = {key.removeprefix("graph.set."): int(text) for key, text in match.items() if ".set." in key}
    graph = f'{match["graph.model"]} {json.dumps(settings, separators=(",", ":"))}'
    gpus = int(match["num_devices"]) - 1  # the CPU is a device too
    return next(row for row, (_, of, count) in ROWS.items() if (of, count) == (graph, gpus))


def plain(agent: str) -> str:
    return "_".join(re.findall("[a-z]+", agent))


def rates(drawn: dict[tuple[str, str, int], float]) -> dict[str, float]:
    """On how many rows Post's draws are faster than cross-entropy's, at each number of samples."""
    return {
        str(samples): sum(drawn[row, "post", samples] < drawn[row, "cross-entropy only", samples] for row in ROWS)
        for samples in SAMPLES
    }


def conditions(graph: str, gpus: int) -> list[str]:
    model, settings = graph.split(" ", 1)
    return [
        "graph.model=" + model,
        f"gpus={gpus}",
        *(f"graph.set.{key}={value}" for key, value in json.loads(settings).items()),
    ]


def drawn_at(trial: Trial, samples: int) -> float:
    """Mean step time of the update that ends with so many samples, ms."""
    return next(e["mean_step_time_us"] for e in trial.episodes if e["evaluations"] == samples) / 1000


def main_table(cells: dict[tuple[str, str], Cell], trials: dict[str, Trials], on_ops: dict[str, Trials]) -> list[str]:
    table = [["network, GPUs", *(AGENTS[agent] for agent in MAIN), "HEFT, ops", "search, ops", "lower bound"]]
    for row, (title, _, _) in ROWS.items():
        texts, values = [], []
        for agent in MAIN:
            cell = cells[row, agent]
            text = number(cell.mean) + (" " + interval(cell) if agent.startswith("post") else "")
            runs = trials[row].by("agent.label").get(agent, [])
            fitting = sum(trial.best is not None for trial in runs)
            if 0 < fitting < len(runs):
                text += f", {fitting} of {len(runs)} seeds"
            published = "OOM" if (row, agent) in OUT_OF_MEMORY else cell.published and number(cell.published)
            texts.append(text + (f" ({published})" if published else ""))
            values.append(cell.mean)
        for agent in ON_OPS:
            values.append(on_ops[row].where("agent.label=" + agent).mean())
            texts.append(number(values[-1]))
        bound = on_ops[row][0].graph["lower_bound_us"] / 1000
        table.append([title, *bold_best(texts, values), number(bound)])
    return markdown(table)


def parts_table(cells: dict[tuple[str, str], Cell]) -> list[str]:
    agents = [part + tuned for tuned in ("", ", tuned") for part in PARTS]
    table = [["network, GPUs", *(AGENTS[agent] for agent in agents)]]
    for row, (title, _, _) in ROWS.items():
        values = [cells[row, agent].mean for agent in agents]
        table.append([title, *bold_best([number(value) for value in values], values)])
    return markdown(table)


def mean_table(means: dict[tuple[str, str], float | None], trials: dict[str, Trials], report: Report) -> list[str]:
    """Of agents that found a placement that fits in all rows with all seeds, the fastest first."""
    lacking = {trial.label for of_row in trials.values() for trial in of_row if trial.best is None}
    everywhere = [agent for agent in AGENTS if agent not in lacking and all(means[row, agent] for row in ROWS)]
    agents = sorted(everywhere, key=lambda agent: fmean(means[row, agent] for row in ROWS))
    table = [["agent", "mean of the 11 rows, ms", "of the eight networks, each over its numbers of GPUs, ms"]]
    for agent in agents:
        rows = fmean(means[row, agent] for row in ROWS)
        table.append([AGENTS[agent], number(rows), number(report.cell("step_time", agent, "overall").mean)])
    return markdown(table)


def drawn_picture(trials: dict[str, Trials]) -> str:
    """The paper's figure 2: what the policy draws, mean over seeds."""
    styles = {
        part + tuned: Style(AGENTS[part + tuned], colour, dashed=bool(tuned))
        for part, colour in COLOURS.items()
        for tuned in ("", ", tuned")
    }
    panels = []
    for row in SHOWN:
        lines = []
        for method, style in styles.items():
            runs = trials[row].where("agent.label=" + method)
            at = [episode["evaluations"] for episode in runs[0].episodes][::5]
            lines.append(Line([(samples, fmean(drawn_at(trial, samples) for trial in runs)) for samples in at], style))
        heights = [height for line in lines for _, height in line.points]
        title, x = ROWS[row][0], Axis("samples", 0, 2400)
        panels.append(Panel(title, x, Axis("mean step time drawn, ms", *around(heights)), lines))
    return chart("Mean step time of what Post and its parts draw", panels, list(styles.values()), 3)


def drawn_table(drawn: dict[tuple[str, str, int], float]) -> list[str]:
    table = [["network, GPUs", "method", *(f"{samples:,}" for samples in SAMPLES)]]
    for row in SHOWN:
        columns = []
        for samples in SAMPLES:
            values = [drawn[row, method, samples] for method in METHODS]
            texts = [number(value) for value in values]
            columns.append(texts if len(set(texts)) == 1 else bold_best(texts, values))
        for index, method in enumerate(METHODS):
            table.append([ROWS[row][0] if index == 0 else "", AGENTS[method], *(column[index] for column in columns)])
    return markdown(table, left=2)
