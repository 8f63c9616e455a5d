"""docs/results/tuning.md: eight settings of each agent that learns, on three training graphs, in 64 groups and in more.
Of the planner and ColocRL ten settings with 1,000 updates. Of each method that Post is made of five settings."""
from __future__ import annotations

from statistics import fmean, geometric_mean

from parts.policy_ends import drawn_part, gradient_text, last_entropy
from shared.archive import Archive, Source, Trials, extremes
from shared.page import Value, markdown
from shared.table import DASH, bold_best, label_key, number, run_figures

FAMILIES = ["nmt", "cifar10", "ptb"]
WALK = "random walk"
# What the rule chose with 1,000 evaluations, and the paper's rate with its T and C.
CHOSEN = {"coloc_rl": "T 10, C 5, rate 0.0003", "hierarchical": "T 1, C 1, rate 0.001"}
PAPER = "T 10, C 5, rate 0.1"
# Post and the methods that it combines, each with its default setting.
METHODS = {"policy gradient": "rate 1", "PPO": "rate 1", "cross-entropy": "elite 0.1", "Post": "rate 1"}

# An agent's settings: each setting's ratios by family, and their mean.
Settings = dict[str, dict[str, list[float]]]


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive = source.archive("tuning")
    figures: dict[str, Value] = dict(run_figures(archive))
    settings = settings_of(archive)
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
    more_figures, more_tables = on_more_groups(source.archive("tuning_256"), settings)
    rate_figures, rate_table = with_more_updates(source.archive("hierarchical_rates"))
    method_figures, method_tables = of_methods(source.archive("post_rates"))
    figures |= more_figures | rate_figures | method_figures
    return figures, tables | more_tables | {"rates": rate_table} | method_tables


def settings_of(archive: Archive) -> Settings:
    found: Settings = {}
    for label in sorted({trial.label for trial in archive.trials}):
        agent, _, setting = label.partition(": ")
        ratios = of_families(archive.where("agent.label=" + label))
        found.setdefault(agent, {})[setting] = [*ratios, fmean(ratios)]
    return found


def on_more_groups(archive: Archive, few: Settings) -> tuple[dict[str, Value], dict[str, list[str]]]:
    """The settings of some agents on the graphs' natural groups. few: on 64 groups."""
    settings = settings_of(archive)
    walk = settings.pop(WALK)[""]
    figures: dict[str, Value] = dict(run_figures(archive, "more"))
    for family in FAMILIES:
        figures["more.groups." + family] = archive.where("graph.dataset=" + family)[0].graph["num_groups"]
    figures["more.seeds.apart"] = max(map(seeds_apart, archive.trials.by("agent.label", "graph.dataset").values()))
    tables = {}
    for agent, rows in settings.items():
        best, _ = best_and_paper(rows)
        before, _ = best_and_paper(few[{"simple planner": "hierarchical"}.get(agent, agent)])
        name = agent.replace(" ", "_")
        figures[f"more.{name}.best"] = rows[best][-1]
        figures[f"more.{name}.gain"] = 100 * (1 - rows[best][-1] / rows[before][-1])  # over the best of 64 groups, %
        figures[f"more.{name}.walk"] = 100 * (1 - rows[best][-1] / walk[-1])
        tables[f"{name}_256"] = setting_table(rows)
    tables["best_256"] = best_table(settings, walk)
    return figures, tables


def with_more_updates(archive: Archive) -> tuple[dict[str, Value], list[str]]:
    """1,000 updates of the planner and of ColocRL, a seed of each setting: what they find, and what they draw."""
    settings = settings_of(archive)
    walk = settings.pop(WALK)[""]
    figures: dict[str, Value] = dict(run_figures(archive, "rates"))
    table = [["agent", "setting", *FAMILIES, "mean", "drawn at first", "at last", "entropy", "gradient's norm"]]
    for agent, rows in settings.items():
        cells = setting_rows(rows)
        best, second = cells[0][0], cells[1][0]
        mean = rows[best][-1]
        name = f"rates.{agent}"
        figures[name + ".setting"] = best
        figures[name + ".gain"] = 100 * (1 - mean / rows[PAPER][-1])  # over the paper's, %
        figures[name + ".chosen"] = 100 * (1 - mean / rows[CHOSEN[agent]][-1])  # over the rule's choice, %
        figures[name + ".walk"] = 100 * (1 - mean / walk[-1])
        figures[name + ".second"] = 100 * (rows[second][-1] / mean - 1)  # how far the next is behind, %
        for place, row in enumerate(cells):
            trials = archive.where(f"agent.label={agent}: {row[0]}")
            first, last = (trials.mean(lambda trial, tenth=tenth: drawn_part(trial, tenth)) for tenth in (0, -1))
            key = f"{name}.{label_key(row[0])}"
            figures |= {key + ".first": first, key + ".last": last}
            entropy = trials.mean(last_entropy)
            ends = [number(first, 2), number(last, 2), number(entropy, 3), gradient_text(trials)]
            table.append([f"`{agent}`" if place == 0 else "", *row, *ends])
        for trial in archive.where(f"agent.label={agent}: {best}"):
            figures[f"{name}.{trial.get('graph.dataset')}.last"] = drawn_part(trial, -1)
    table.append(["`random_walk`", "", *(number(value, 3) for value in walk), DASH, DASH, DASH, DASH])
    return figures, markdown(table, left=2)


def of_methods(archive: Archive) -> tuple[dict[str, Value], dict[str, list[str]]]:
    """Mean step times, ms, of five settings of each of Post's methods; those that the paper has are its defaults. The
    best has the smallest geometric mean over the families, whose steps take 0.6 to 5 s."""
    times = {
        label: [archive.where(f"agent.label={label}", f"graph.dataset={family}").mean() for family in FAMILIES]
        for label in sorted({trial.label for trial in archive.trials})
    }
    figures = dict(run_figures(archive, "methods"))
    figures["methods.seeds.apart"] = max(map(seeds_apart, archive.trials.by("agent.label", "graph.dataset").values()))
    table = [["method", "setting", *FAMILIES]]
    best = [["method", "best setting", *FAMILIES, "with the default: " + FAMILIES[0], *FAMILIES[1:]]]
    for method, default in METHODS.items():
        settings = {label.partition(", ")[2]: row for label, row in times.items() if label.startswith(method + ", ")}
        order = sorted(settings, key=lambda setting: geometric_mean(settings[setting]))
        for place, setting in enumerate(order):
            texts = map(number, settings[setting])
            name = setting + (" (default)" if setting == default else "")
            table.append(["" if place else method, name, *texts])
        best.append([method, order[0], *map(number, [*settings[order[0]], *settings[default]])])
    walk = ["random", "", *map(number, times["random"])]
    return figures, {
        "methods": markdown([*table, walk], left=2),
        "methods_best": markdown([*best, [*walk, "", "", ""]], left=2),
    }


def of_families(trials: Trials) -> list[float]:
    return [fmean(trials.where("graph.dataset=" + family).values(lambda trial: trial.ratio)) for family in FAMILIES]


def best_and_paper(rows: dict[str, list[float]]) -> tuple[str, str]:
    """An agent's setting with the smallest mean, and the paper's."""
    best = min(rows, key=lambda setting: (rows[setting][-1], setting))
    return best, next(setting for setting in rows if setting.startswith("paper"))


def seeds_apart(trials: Trials) -> float:
    low, high = extremes(trials.values())
    return 100 * (high / low - 1)


def setting_table(rows: dict[str, list[float]]) -> list[str]:
    return markdown([["setting", *FAMILIES, "mean"], *setting_rows(rows)])


def setting_rows(rows: dict[str, list[float]]) -> list[list[str]]:
    """Each setting with its ratios, the smallest mean first, the best of a column bold."""
    columns = [[row[column] for row in rows.values()] for column in range(len(FAMILIES) + 1)]
    texts = [bold_best([number(value, 3) for value in column], column) for column in columns]
    order = sorted(range(len(rows)), key=lambda index: columns[-1][index])
    return [[list(rows)[index], *(column[index] for column in texts)] for index in order]


def best_table(settings: dict[str, dict[str, list[float]]], walk: list[float]) -> list[str]:
    table = [["agent", "best setting", *FAMILIES, "mean", "the paper's", "the worst"]]
    for agent, rows in settings.items():
        best, paper = best_and_paper(rows)
        values = [*rows[best], rows[paper][-1], max(row[-1] for row in rows.values())]
        shown = {"RNN": "the RNN", "simple planner": "the simple planner"}.get(agent, f"`{agent}`")
        table.append([shown, best, *(number(value, 3) for value in values)])
    table.append(["`random_walk`", "", *(number(value, 3) for value in walk), "", ""])
    return markdown(table, left=2)
