"""docs/results/post.md."""
from __future__ import annotations

import re
from collections.abc import Callable
from statistics import fmean

from shared.archive import Cell, Report, Source, Trial, Trials, extremes, percent_faster
from shared.claims import Claim, claim_figures, claim_table
from shared.chart import Axis, Line, Panel, Style, around, chart
from shared.page import Value, markdown
from shared.paper_table import PaperTable, Row
from shared.placements import Step, best_step, picture
from shared.table import bold_best, number, run_figures

ON_PICTURE = {"post": "Post", "expert": "expert"}
ROWS = {
    "rnnlm": Row("RNNLM, 2", 'rnnlm {"layers":4}', 2),
    "resnet50.2": Row("ResNet-50, 2", 'resnet {"layers":50}', 2),
    "resnet50.4": Row("ResNet-50, 4", 'resnet {"layers":50}', 4),
    "resnet101": Row("ResNet-101, 8", 'resnet {"layers":101}', 8),
    "resnet200": Row("ResNet-200, 2", 'resnet {"layers":200}', 2),
    "inception.2": Row("Inception-V3, 2", 'inception_v3 {"batch":32}', 2),
    "inception.4": Row("Inception-V3, 4", 'inception_v3 {"batch":32}', 4),
    "inception.8": Row("Inception-V3, 8", 'inception_v3 {"batch":32}', 8),
    "nmt2": Row("NMT, 2 layers, 2", 'nmt {"layers":2}', 2),
    "nmt4": Row("NMT, 4 layers, 4", 'nmt {"layers":4}', 4),
    "nmt8": Row("NMT, 8 layers, 8", 'nmt {"layers":8}', 8),
}
AGENTS = {
    "single device": "single GPU",
    "expert": "expert",
    "metis": "METIS",
    "policy gradient (RNN)": "RNN",
    "policy gradient (RNN), tuned": "RNN, best settings",
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
MAIN = [
    "single device",
    "expert",
    "metis",
    "policy gradient (RNN)",
    "policy gradient (RNN), tuned",
    "post",
    "random walk",
    "annealing",
]
PARTS = ["policy gradient", "ppo only", "cross-entropy only", "post"]  # each also tuned
ON_OPS = ["heft on ops", "multilevel search on ops"]
MISSING = {(row, "single device"): "OOM" for row in ("nmt2", "nmt4", "nmt8")}  # in the paper
SHOWN = ["resnet50.2", "inception.4", "nmt8"]
METHODS = [part + tuned for part in reversed(PARTS) for tuned in ("", ", tuned")]
SAMPLES = [12, 300, 600, 1200, 2376]
COLOURS = {"policy gradient": "#d55e00", "ppo only": "#0072b2", "cross-entropy only": "#555555", "post": "#009e73"}


def read(source: Source) -> PaperTable:
    return PaperTable("post", source.archive("post"), ROWS, list(AGENTS))


def claims(source: Source) -> list[Claim]:
    return claims_of(read(source))


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]], dict[str, str]]:
    table = read(source)
    archive = source.archive("post")
    cells, means, trials = table.cells, table.means(), table.trials
    ops = source.archive("post_ops")
    on_ops = {key: ops.where(*row.conditions()) for key, row in ROWS.items()}
    drawn = {
        (row, method, samples): fmean(drawn_at(trial, samples) for trial in of_row.where("agent.label=" + method))
        for row, of_row in trials.items()
        for method in METHODS
        for samples in SAMPLES
    }
    found = claims_of(table)
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
        "main": main_table(table, on_ops),
        "parts": parts_table(cells),
        "means": mean_table(means, trials, archive.report()),
        "drawn": drawn_table(drawn),
        "claims": claim_table(found),
    }
    steps = placements(source, trials)
    for row in ("nmt2", "inception.4"):
        figures[f"placement.{row}.most"] = steps[row, "post"].shares[0]
        figures[f"placement.{row}.least"] = steps[row, "post"].shares[-1]
    named = {f"{ON_PICTURE[agent]}: {ROWS[row].title} GPUs": step for (row, agent), step in steps.items()}
    pictures = {
        "post_drawn.svg": drawn_picture(trials),
        "post_placements.svg": picture("Which GPU runs which layer, and when", named, 2),
    }
    return figures, tables, pictures


def placements(source: Source, trials: dict[str, Trials]) -> dict[tuple[str, str], Step]:
    """The best placements of Post and of experts on the networks of the paper's figure 3."""
    files = {"nmt2": "nmt_2", "inception.4": "inception_v3"}
    return {
        (row, agent): best_step(
            source, ROWS[row], "post-8k80", trials[row].where("agent.label=" + agent), f"{agent}_{file}"
        )
        for row, file in files.items()
        for agent in ON_PICTURE
    }


def claims_of(table: PaperTable) -> list[Claim]:
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
        rows = [key for key, row in ROWS.items() if row.graph.startswith(model)]
        if other + ", tuned" not in AGENTS:
            return table.claim(name, text, ("post", other), None, rows, value, tie)
        return table.claim(name, text, ("post", other + ", tuned"), ("post", other), rows, value, tie)

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


def plain(agent: str) -> str:
    return "_".join(re.findall("[a-z]+", agent))


def rates(drawn: dict[tuple[str, str, int], float]) -> dict[str, float]:
    """On how many rows Post's draws are faster than cross-entropy's, at each number of samples."""
    return {
        str(samples): sum(drawn[row, "post", samples] < drawn[row, "cross-entropy only", samples] for row in ROWS)
        for samples in SAMPLES
    }


def drawn_at(trial: Trial, samples: int) -> float:
    """Mean step time of the update that ends with this many samples, ms."""
    return next(e["mean_step_time_us"] for e in trial.episodes if e["evaluations"] == samples) / 1000


def main_table(runs: PaperTable, on_ops: dict[str, Trials]) -> list[str]:
    table = [["model, GPUs", *(AGENTS[agent] for agent in MAIN), "HEFT, ops", "search, ops", "lower bound"]]
    for row, of in ROWS.items():
        texts, values = [], []
        for agent in MAIN:
            texts.append(runs.text(row, agent, MISSING, spread=agent == "post"))
            values.append(runs.cells[row, agent].mean)
        for agent in ON_OPS:
            values.append(on_ops[row].where("agent.label=" + agent).mean())
            texts.append(number(values[-1]))
        bound = on_ops[row][0].graph["lower_bound_us"] / 1000
        table.append([of.title, *bold_best(texts, values), number(bound)])
    return markdown(table)


def parts_table(cells: dict[tuple[str, str], Cell]) -> list[str]:
    agents = [part + tuned for tuned in ("", ", tuned") for part in PARTS]
    table = [["model, GPUs", *(AGENTS[agent] for agent in agents)]]
    for row, of in ROWS.items():
        values = [cells[row, agent].mean for agent in agents]
        table.append([of.title, *bold_best([number(value) for value in values], values)])
    return markdown(table)


def mean_table(means: dict[tuple[str, str], float | None], trials: dict[str, Trials], report: Report) -> list[str]:
    """The agents that found a placement that fits in all rows with all seeds, the fastest first."""
    lacking = {trial.label for of_row in trials.values() for trial in of_row if trial.best is None}
    everywhere = [agent for agent in AGENTS if agent not in lacking and all(means[row, agent] for row in ROWS)]
    agents = sorted(everywhere, key=lambda agent: fmean(means[row, agent] for row in ROWS))
    table = [["agent", "mean of the 11 rows, ms", "of the eight models, each over its numbers of GPUs, ms"]]
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
        title, x = ROWS[row].title, Axis("samples", 0, 2400)
        panels.append(Panel(title, x, Axis("mean step time drawn, ms", *around(heights)), lines))
    return chart("Mean step time of what Post and its parts draw", panels, list(styles.values()), 3)


def drawn_table(drawn: dict[tuple[str, str, int], float]) -> list[str]:
    table = [["model, GPUs", "method", *(f"{samples:,}" for samples in SAMPLES)]]
    for row in SHOWN:
        columns = []
        for samples in SAMPLES:
            values = [drawn[row, method, samples] for method in METHODS]
            texts = [number(value) for value in values]
            columns.append(texts if len(set(texts)) == 1 else bold_best(texts, values))
        for index, method in enumerate(METHODS):
            table.append(
                [ROWS[row].title if index == 0 else "", AGENTS[method], *(column[index] for column in columns)]
            )
    return markdown(table, left=2)
