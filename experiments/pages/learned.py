"""docs/results/learned.md."""
from __future__ import annotations

from statistics import fmean, stdev

from shared.archive import Archive, PairedTest, Source, Trial, extremes, percent_faster
from shared.page import Value, markdown
from shared.table import bold, number, run_figures

NAMES = {
    "coloc_rl, rnn": "`coloc_rl`, `placer=encoder`",
    "coloc_rl, tuned": "`coloc_rl`, `learning_rate=0.0003`",
    "hierarchical, tuned": "`hierarchical`, `learning_rate=0.0003`",
    "sgdp, tuned": "`sgdp`, `learning_rate=0.0001 entropy=0.005`",
    "random": "random placements",
    "random walk": "random walk",
}
KEYS = {
    "coloc_rl, rnn": "rnn",
    "coloc_rl, tuned": "coloc_rl_tuned",
    "hierarchical, tuned": "hierarchical_tuned",
    "sgdp, tuned": "sgdp_tuned",
    "random walk": "walk",
}
BUDGETS = [1000, 2400, 4000]
LEFT_OUT = {("random", 2400), ("random", 4000)}  # of the table
LIMIT = 0.05 / 10  # of the smallest p of ten comparisons, by Holm
# Settings tried, and the labels of their trials for hierarchical, coloc_rl and sgdp; the values of several are listed.
RATES = [
    ("the paper's", ["hierarchical 0.1"], [], ["sgdp 0.001"]),
    ("learning rate 0.003", ["hierarchical 0.003"], [], []),
    ("0.001", ["hierarchical 0.001"], ["coloc_rl 0.001"], "(the paper's)"),
    ("0.0003", ["hierarchical 0.0003"], ["coloc_rl 0.0003"], ["sgdp 0.0003"]),
    ("0.003, 16 placements an update", ["hierarchical 0.003, 16 samples"], ["coloc_rl 0.003, 16 samples"], []),
    ("0.001, 16 placements an update", ["hierarchical 0.001, 16 samples"], ["coloc_rl 0.001, 16 samples"], []),
    (
        "0.0003, weight on entropy 0.01, 0.1",
        ["hierarchical 0.0003, entropy 0.01", "hierarchical 0.0003, entropy 0.1"],
        [],
        [],
    ),
    (
        "0.0003, logits of temperature 1, not bounded",
        ["hierarchical 0.0003, T = 1, no bound"],
        ["coloc_rl 0.0003, T = 1, no bound"],
        [],
    ),
    ("0.001, weight on entropy 0.05, 0.005", [], [], ["sgdp 0.001, entropy 0.05", "sgdp 0.001, entropy 0.005"]),
    ("0.0003, weight on entropy 0.005, 0.0005", [], [], ["sgdp 0.0003, entropy 0.005", "sgdp 0.0003, entropy 0.0005"]),
    ("0.0001, weight on entropy 0.005", [], [], ["sgdp 0.0001, entropy 0.005"]),
    (
        "the same, first weights of the last layer a tenth, a hundredth",
        [],
        [],
        ["sgdp 0.0001, entropy 0.005, output_scale 0.1", "sgdp 0.0001, entropy 0.005, output_scale 0.01"],
    ),
]


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    archive, rates = source.archive("learned_beat_random"), source.archive("learned_rates")
    runs = archive.trials.by("agent.label", "budget.evaluations")
    figures = run_figures(archive) | run_figures(rates, "rates")
    figures["single"] = archive.trials[0].single_device
    table = [
        [
            "agent",
            "evaluations",
            "best step time, ms (sd over seeds)",
            "faster than the walk, log %",
            "seeds",
            "p",
            "faster than random, log %",
            "p",
            "mean drawn in the first and the last tenth, ms",
        ]
    ]
    for budget in BUDGETS:
        report = archive.report(f"budget.evaluations={budget}")
        labels = sorted(
            (label for label, evaluations in runs if evaluations == str(budget)),
            key=lambda label: runs[label, str(budget)].mean(),
        )
        for label in labels:
            name = f"{KEYS.get(label, label)}.{budget}"
            trials = runs[label, str(budget)]
            tests = [
                report.test(label, other, "log_step_time") if label != other else None
                for other in ("random walk", "random")
            ]
            seeds = sum(ours < walk for ours, walk in zip(trials.values(), runs["random walk", str(budget)].values()))
            figures |= agent_figures(name, trials, tests, seeds)
            if (label, budget) not in LEFT_OUT:
                table.append(agent_row(label, budget, trials, tests, seeds))
    for name in ("hierarchical", "coloc_rl"):
        ends = [trial.drawn(-1) / trial.episodes[0]["mean_step_time_us"] * 1000 for trial in runs[name, "1000"]]
        figures[name + ".end.min"], figures[name + ".end.max"] = extremes(ends)
    figures["ends.min"] = min(figures["hierarchical.end.min"], figures["coloc_rl.end.min"])
    figures["ends.max"] = max(figures["hierarchical.end.max"], figures["coloc_rl.end.max"])
    by_label = rates.trials.by("agent.label")
    figures |= {
        "rates." + name.replace(" ", "_"): by_label[name].mean(lambda trial: trial.ratio)
        for name in ("random walk", "random", "annealing")
    }
    return figures, {"main": markdown(table), "rates": rate_table(rates)}


def agent_figures(name: str, trials: list[Trial], tests: list[PairedTest | None], seeds: int) -> dict[str, Value]:
    figures: dict[str, Value] = {name + ".seeds": seeds, name + ".mean": fmean(trials.values())}
    for other, test in zip(("walk", "random"), tests):
        if test:
            figures[f"{name}.{other}"], figures[f"{name}.{other}.p"] = test.difference, test.p
    if trials[0].drawn(0):
        first, last = (fmean(trial.drawn(tenth) for trial in trials) for tenth in (0, -1))
        entropies = [trial.episodes[-1]["entropy"] for trial in trials]
        figures[name + ".falls"] = percent_faster(last, first)
        figures[name + ".entropy"] = fmean(fmean(e["entropy"] for e in trial.episodes) for trial in trials)
        figures[name + ".tied"] = sum(entropy > 0.1 for entropy in entropies)
        # Seeds whose last tenth is, within 1 %, everything on one device.
        figures[name + ".on_one"] = sum(abs(trial.drawn(-1) / trial.single_device - 1) < 0.01 for trial in trials)
    return figures


def agent_row(label: str, budget: int, trials: list[Trial], tests: list[PairedTest | None], seeds: int) -> list[str]:
    walk, random = tests
    wins = walk is not None and walk.difference > 0 and walk.p < LIMIT
    mean = number(fmean(trials.values()), 1)
    row = [
        NAMES.get(label, f"`{label}`"),
        f"{budget:,}",
        f"{bold(mean) if wins else mean} ({number(stdev(trials.values()), 1)})",
    ]
    row += [*compared(walk)[:1], str(seeds) if walk else "", *compared(walk)[1:], *compared(random)]
    if not trials[0].drawn(0):
        return [*row, ""]
    first, last = (number(fmean(trial.drawn(tenth) for trial in trials)) for tenth in (0, -1))
    return [*row, f"{first}, {bold(last) if wins else last}"]


def compared(test: PairedTest | None) -> list[str]:
    """The difference and its p, not corrected; in bold what is significant by Holm over ten comparisons."""
    if test is None:
        return ["", ""]
    p = f"{test.p:.{3 if test.p < 0.1 else 2}f}"
    difference = number(test.difference, 1)
    sure = test.p < LIMIT
    return [bold(difference) if sure and test.difference > 0 else difference, bold(p) if sure else p]


def rate_table(rates: Archive) -> list[str]:
    by_label = rates.trials.by("agent.label")

    def text(label: str) -> str:
        return number(by_label[label].mean(lambda trial: trial.ratio), 2)

    best = [
        min(text(label) for _, *columns in RATES for label in columns[c] if isinstance(columns[c], list))
        for c in range(3)
    ]
    table = [["setting", "`hierarchical`", "`coloc_rl`", "`sgdp`"]]
    for setting, *columns in RATES:
        cells = [
            labels
            if isinstance(labels, str)
            else ", ".join(bold(text(label)) if text(label) == best[c] else text(label) for label in labels)
            for c, labels in enumerate(columns)
        ]
        table.append([setting, *cells])
    return markdown(table)
