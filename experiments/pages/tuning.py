"""docs/results/tuning.md: eight settings of each agent that learns, on three training graphs."""
from __future__ import annotations

from statistics import fmean

from shared.archive import Source, Trials, extremes
from shared.page import Value, markdown
from shared.table import bold_best, number, run_figures

FAMILIES = ["nmt", "cifar10", "ptb"]
WALK = "random walk"


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("tuning")
    figures: dict[str, Value] = dict(run_figures(archive))
    labels = list(dict.fromkeys(trial.label for trial in sorted(archive.trials, key=lambda trial: trial.label)))
    settings: dict[str, dict[str, list[float]]] = {}  # of an agent: each setting's ratios by family, and their mean
    for label in labels:
        agent, _, setting = label.partition(": ")
        ratios = of_families(archive.where("agent.label=" + label))
        settings.setdefault(agent, {})[setting] = [*ratios, fmean(ratios)]
    walk = settings.pop(WALK)[""]
    for agent, rows in settings.items():
        best, paper = best_and_paper(rows)
        figures[agent + ".settings"] = len(rows)
        figures[agent + ".best"] = rows[best][-1]
        figures[agent + ".gain"] = 100 * (1 - rows[best][-1] / rows[paper][-1])  # of the best over the paper's, %
        figures[agent + ".walk"] = 100 * (1 - rows[best][-1] / walk[-1])  # over the random walk, %
        figures[agent + ".spread"] = 100 * (sorted(row[-1] for row in rows.values())[-2] / rows[best][-1] - 1)
    figures["seeds.apart"] = max(
        seeds_apart(trials) for trials in archive.trials.by("agent.label", "graph.dataset").values()
    )
    figures["gain.min"], figures["gain.max"] = extremes(figures[agent + ".gain"] for agent in settings)
    tables = {"best": best_table(settings, walk)}
    for agent, rows in settings.items():
        tables[agent] = setting_table(rows)
    return figures, tables


def of_families(trials: Trials) -> list[float]:
    return [fmean(trials.where("graph.dataset=" + family).values(lambda trial: trial.ratio)) for family in FAMILIES]


def best_and_paper(rows: dict[str, list[float]]) -> tuple[str, str]:
    """Of an agent: the setting with the smallest mean, and the paper's."""
    best = min(rows, key=lambda setting: (rows[setting][-1], setting))
    return best, next(setting for setting in rows if setting.startswith("paper"))


def seeds_apart(trials: Trials) -> float:
    low, high = extremes(trials.values())
    return 100 * (high / low - 1)


def setting_table(rows: dict[str, list[float]]) -> list[str]:
    table = [["setting", *FAMILIES, "mean"]]
    columns = [[row[column] for row in rows.values()] for column in range(len(FAMILIES) + 1)]
    texts = [bold_best([number(value, 3) for value in column], column) for column in columns]
    order = sorted(range(len(rows)), key=lambda index: columns[-1][index])
    table += [[list(rows)[index], *(column[index] for column in texts)] for index in order]
    return markdown(table)


def best_table(settings: dict[str, dict[str, list[float]]], walk: list[float]) -> list[str]:
    table = [["agent", "best setting", *FAMILIES, "mean", "the paper's", "the worst"]]
    for agent, rows in settings.items():
        best, paper = best_and_paper(rows)
        values = [*rows[best], rows[paper][-1], max(row[-1] for row in rows.values())]
        table.append([f"`{agent}`" if agent != "RNN" else "the RNN", best, *(number(value, 3) for value in values)])
    table.append(["`random_walk`", "", *(number(value, 3) for value in walk), "", ""])
    return markdown(table, left=2)
