"""docs/results/post.md."""
from __future__ import annotations

import json
from statistics import fmean

from shared.archive import Cell, PairedTest, Report, Source, Trial, extremes, percent_faster
from shared.page import Value, markdown
from shared.table import bold_best, interval, number, p_value, run_figures

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
    "policy gradient": "policy gradient",
    "ppo only": "PPO only",
    "cross-entropy only": "cross-entropy only",
    "post": "Post",
    "random walk": "random walk",
    "annealing": "annealing",
}
OUT_OF_MEMORY = {("nmt2", "single device"), ("nmt4", "single device"), ("nmt8", "single device")}  # in the paper
DRAWN = ["resnet50.2", "inception.4", "nmt8"]
METHODS = ["post", "cross-entropy only", "ppo only", "policy gradient"]
SAMPLES = [12, 300, 600, 1200, 2376]


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("post")
    archive.expect_labels(AGENTS)
    report = archive.report()
    cells = {
        (row, agent): report.cell("step_time", agent, f"{graph}, {gpus} GPUs")
        for row, (_, graph, gpus) in ROWS.items()
        for agent in AGENTS
    }
    means = {key: cell.mean for key, cell in cells.items()}
    trials = {row: archive.where(*conditions(graph, gpus)) for row, (_, graph, gpus) in ROWS.items()}
    drawn = {
        (row, method, samples): fmean(drawn_at(trial, samples) for trial in of_row.where("agent.label=" + method))
        for row, of_row in trials.items()
        for method in METHODS
        for samples in SAMPLES
    }
    tests = {other: report.test("post", other) for other in ("ppo only", "policy gradient", "cross-entropy only")}

    figures: dict[str, Value] = {
        **run_figures(archive),
        "annealing.beaten": sum(means[row, "post"] < means[row, "annealing"] for row in ROWS),
        "drawn.ahead_300": sum(drawn[row, "post", 300] < drawn[row, "cross-entropy only", 300] for row in ROWS),
        "inception.gap": max(
            abs(change(cells, row, "single device") - change(cells, row, "single device", "published"))
            for row in ("inception.2", "inception.4", "inception.8")
        ),
        # 2,400 samples of 11 steps on 12 workers.
        "search.hours": 2400 * 11 / 12 * fmean(drawn["inception.4", "post", samples] for samples in SAMPLES) / 3.6e6,
    }
    for (row, agent), cell in cells.items():
        name = f"{row}.{agent.replace(' ', '_').replace('-', '_')}"
        if cell.mean is not None:
            figures[name] = cell.mean
            figures[name + ".hours"] = 40000 * cell.mean / 3.6e6
            for trial in trials[row].where("agent.label=" + agent):
                figures[f"{name}.seed{trial.seed}"] = trial.best
            figures[name + ".times"] = cell.mean / means[row, "post"]  # as slow as Post
            figures[name + ".change"] = change(cells, row, agent)  # of Post against the agent, %
            figures[name + ".less"] = -change(cells, row, agent)
            figures[name + ".more"] = change(cells, row, agent)
            figures[name + ".ahead"] = percent_faster(cell.mean, means[row, "post"])  # of Post
        if cell.published is not None and cells[row, "post"].published is not None:
            figures[name + ".published"] = cell.published
            figures[name + ".published_change"] = change(cells, row, agent, "published")
            figures[name + ".published_less"] = -change(cells, row, agent, "published")
            figures[name + ".published_times"] = cell.published / cells[row, "post"].published
            single = cells[row, "single device"].published
            if single:
                figures[name + ".published_single"] = cell.published / single
    for ending in (
        "change",
        "less",
        "times",
        "published_change",
        "published_less",
        "published_times",
        "published_single",
    ):
        for agent in ("policy_gradient", "metis", "ppo_only"):
            values = [value for name, value in figures.items() if name.endswith(f".{agent}.{ending}")]
            if values:
                figures[f"{agent}.{ending}.min"], figures[f"{agent}.{ending}.max"] = extremes(values)
    figures["inception.less.min"], figures["inception.less.max"] = extremes(
        figures[f"{row}.single_device.less"] for row in ROWS if row.startswith("inception")
    )
    figures["metis.times.min_other"] = min(
        value
        for name, value in figures.items()
        if name.endswith(".metis.times") and not name.startswith(("resnet101", "resnet200"))
    )
    figures["nmt8.expert.over_best"] = means["nmt8", "expert"] / min(
        means["nmt8", agent] for agent in AGENTS if means["nmt8", agent]
    )
    for agent in ("ppo_only", "policy_gradient"):
        figures[agent + ".rows"] = sum(figures[f"{row}.{agent}"] > figures[f"{row}.post"] for row in ROWS)
    figures.update({f"test.{other.replace(' ', '_').replace('-', '_')}.p": test.holm for other, test in tests.items()})
    figures["test.p_graphs"] = min(test.p_graphs_holm for test in tests.values())
    tables = {
        "main": main_table(cells),
        "means": mean_table(means, report),
        "drawn": drawn_table(drawn),
        "tests": markdown(
            [
                ["Post against", "points", "pairs", "p"],
                *(test_row(AGENTS[other], test) for other, test in tests.items()),
            ]
        ),
    }
    return figures, tables


def conditions(graph: str, gpus: int) -> list[str]:
    model, settings = graph.split(" ", 1)
    return [
        "graph.model=" + model,
        f"gpus={gpus}",
        *(f"graph.set.{key}={value}" for key, value in json.loads(settings).items()),
    ]


def change(cells: dict[tuple[str, str], Cell], row: str, agent: str, which: str = "mean") -> float:
    """Of Post's step time against the agent's, in percent; negative: Post is faster."""
    return -percent_faster(getattr(cells[row, "post"], which), getattr(cells[row, agent], which))


def drawn_at(trial: Trial, samples: int) -> float:
    """Mean step time of the update that ends with so many samples, ms."""
    return next(e["mean_step_time_us"] for e in trial.episodes if e["evaluations"] == samples) / 1000


def main_table(cells: dict[tuple[str, str], Cell]) -> list[str]:
    table = [["network, GPUs", *AGENTS.values()]]
    for row, (title, _, _) in ROWS.items():
        texts = []
        for agent in AGENTS:
            cell = cells[row, agent]
            text = number(cell.mean) + (" " + interval(cell) if agent == "post" else "")
            published = "OOM" if (row, agent) in OUT_OF_MEMORY else cell.published and number(cell.published)
            texts.append(text + (f" ({published})" if published else ""))
        table.append([title, *bold_best(texts, [cells[row, agent].mean for agent in AGENTS])])
    return markdown(table)


def mean_table(means: dict[tuple[str, str], float | None], report: Report) -> list[str]:
    agents = ["annealing", "cross-entropy only", "post", "random walk", "ppo only", "expert", "policy gradient"]
    rows = [number(fmean(means[row, agent] for row in ROWS)) for agent in agents]
    networks = [number(report.cell("step_time", agent, "overall").mean) for agent in agents]
    return markdown(
        [
            ["mean of", *(AGENTS[agent] for agent in agents)],
            ["the 11 rows, ms", *rows],
            ["the eight networks, each over its numbers of GPUs, ms: as `emplace report` has it", *networks],
        ]
    )


def drawn_table(drawn: dict[tuple[str, str, int], float]) -> list[str]:
    table = [["network, GPUs", "method", *(f"{samples:,}" for samples in SAMPLES)]]
    for row in DRAWN:
        columns = []
        for samples in SAMPLES:
            values = [drawn[row, method, samples] for method in METHODS]
            texts = [number(value) for value in values]
            columns.append(texts if len(set(texts)) == 1 else bold_best(texts, values))
        for index, method in enumerate(METHODS):
            table.append([ROWS[row][0] if index == 0 else "", AGENTS[method], *(column[index] for column in columns)])
    return markdown(table, left=2)


def test_row(other: str, test: PairedTest) -> list[str]:
    ahead = f"{number(abs(test.difference), 1)} {interval(test if test.difference >= 0 else test.reverse(), 1)} "
    return [other, ahead + ("ahead" if test.difference >= 0 else "behind"), str(test.pairs), p_value(test.holm)]
