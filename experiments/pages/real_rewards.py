"""docs/results/real_rewards.md."""
from __future__ import annotations

from collections.abc import Callable
from statistics import fmean, median

from shared.archive import BadInput, NamedTrials, Source, Trial, Trials, percent_faster, read_trials
from shared.chart import Axis, Line, Panel, Style, around, chart
from shared.claims import Claim, claim_figures, claim_table, effect
from shared.packed import SUFFIX
from shared.page import Value, markdown
from shared.table import number, run_figures, seconds

LEARNERS = ["RNN", "Placeto"]
AGENTS = [*LEARNERS, "random walk"]
LEARNED = 5  # %: by how much draws of the last fifth are faster than those of the first where a seed has learned
LONG = "RNN, 4,000 placements"
REWARDS = ["simulator", "mixed", "hardware"]
SEEDS = [1, 2, 3, 4, 5]
COUNTS = [1, 20, 100, 400, 1000, 4000]
CURVES = {"simulator": Style("simulated rewards", "#0072b2"), "hardware": Style("real rewards", "#d55e00")}


def claims(runs: NamedTrials, long: NamedTrials) -> list[Claim]:
    """Claims about the paper's placer, for as long as it needs to learn, and Placeto: simulated against real rewards.
    Curves are of simulated step times, so that the simulator's error does not count. The best placement is measured."""
    found = []
    for agent, ran in (("RNN", long), ("Placeto", runs)):
        sides = [of(ran, agent, reward) for reward in CURVES]
        name = agent.lower()
        published = agent == "RNN"
        found += [
            Claim(
                name + ".curve",
                f"{agent}: learning curves are nearly identical: their mean" + (" (figure 9)" if published else ""),
                "yes" if published else "",
                effect(*sides, learned),
                tie=True,
                settled="" if published else "open",  # Placeto learns nothing in 400 placements
            ),
            Claim(
                name + ".best",
                f"{agent}: the best placement, run again, is as fast",
                "",
                effect(*sides, again),
                tie=True,
            ),
        ]
    return found


def of(runs: NamedTrials, agent: str, reward: str) -> Trials:
    """One trial of each seed, in the order of seeds."""
    found = runs.where("agent.label=" + agent, "hardware.reward_source=" + reward)
    if sorted(trial.seed for trial in found) != SEEDS or not all("hardware" in trial.timing for trial in found):
        raise BadInput(f"{runs.name}: {agent}, {reward}: has not one trial with measured steps of each seed 1 to 5")
    return Trials(sorted(found, key=lambda trial: trial.seed))


def again(trial: Trial) -> float:
    """The best placement, run at the end, ms."""
    return trial.timing["hardware"]["best_step_time_us"] / 1000


def learned(trial: Trial) -> float:
    """Mean over the episodes of their simulated step times, ms."""
    return fmean(height for _, height in curve(trial))


def curve(trial: Trial) -> list[tuple[int, float]]:
    """For each episode its last evaluation and simulated step time, ms: the mean of what is drawn, or the end if an
    episode changes one placement. Simulated times are known for placements that ran, too."""
    simulated = {check["evaluation"]: check["simulated_us"] for check in trial.timing["hardware"]["checks"]}
    points, first = [], 0
    for episode in trial.episodes:
        last, mean = episode["evaluations"], episode["mean_step_time_us"]
        if trial.get("hardware.reward_source") != "hardware":
            time = episode["step_time_us"] if mean is None else mean
        else:
            drawn = [last] if mean is None else range(first + 1, last + 1)
            if missing := [index for index in drawn if index not in simulated]:
                raise BadInput(
                    f"real_rewards: {trial.label}, seed {trial.seed}: evaluation {missing[0]} was not measured"
                )
            time = fmean(simulated[index] for index in drawn)
        points.append((last, time / 1000))
        first = last
    return points


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]], dict[str, str]]:
    folder = source.path("real_rewards")
    runs, long = (
        NamedTrials(name, read_trials(folder / (name + SUFFIX))) for name in ("real_rewards", "real_rewards_long")
    )
    runs.expect_labels(AGENTS)
    long.expect_labels(["RNN"])
    found = claims(runs, long)
    figures: dict[str, Value] = {**run_figures(runs), **run_figures(long, "long"), **claim_figures(found)}
    figures |= {**errors(runs, "runs"), **errors(long, "long")}
    main = [["agent", "rewards", "as the search saw it, mean", "run again, five seeds", "median", "seconds"]]
    curves = [["agent", "rewards", *(f"{count:,}" for count in COUNTS), "better than the first, %"]]
    cells = [(long, LONG, "RNN", list(CURVES))] + [(runs, agent, agent, REWARDS) for agent in AGENTS]
    for ran, shown, agent, rewards in cells:
        for reward in rewards:
            trials = of(ran, agent, reward)
            times = trials.values(again)
            first = shown if reward == rewards[0] else ""
            wall = trials.mean(lambda trial: trial.timing["wall_seconds"])
            seeds = ", ".join(number(time, 1) for time in times)
            main.append([first, reward, number(trials.mean(), 1), seeds, number(median(times), 1), seconds(wall)])
            budget = int(trials[0].get("budget.evaluations"))
            means = [trials.mean(best_after(count)) if count <= budget else None for count in COUNTS]
            gain = trials.mean(lambda trial: percent_faster(trial.best, trial.start))
            curves.append([first, reward, *(number(mean, 1) for mean in means), number(gain, 1)])
            key = f"{'long' if ran is long else agent.replace(' ', '_').lower()}.{reward}"
            figures[key], figures[key + ".seconds"] = median(times), wall
            figures[key + ".evaluations"] = trials[0].graph["evaluations"]
            longer = [100 * (time / trial.best - 1) for time, trial in zip(times, trials)]
            figures[key + ".longer"], figures[key + ".longest"] = median(longer), max(longer)
            if agent in LEARNERS and reward in CURVES:
                of_seeds = [fifths(trial) for trial in trials]
                first_fifth, last_fifth = map(fmean, zip(*of_seeds))
                figures[key + ".first"], figures[key + ".last"] = first_fifth, last_fifth
                figures[key + ".gain"] = percent_faster(last_fifth, first_fifth)
                figures[key + ".learn"] = sum(percent_faster(end, start) > LEARNED for start, end in of_seeds)
    measured = map(fmean, zip(*map(measured_fifths, of(long, "RNN", "hardware"))))
    figures["long.measured.first"], figures["long.measured.last"] = measured
    tables = {"main": markdown(main, left=2), "curves": markdown(curves, left=2), "claims": claim_table(found)}
    return figures, tables, {"real_rewards.svg": learning_picture(runs, long)}


def fifths(trial: Trial) -> tuple[float, float]:
    """Mean of the curve's first and last fifth, % of everything on one core as it is simulated."""
    return ends([100 * height / trial.single_device for _, height in curve(trial)])


def measured_fifths(trial: Trial) -> tuple[float, float]:
    """Mean of the first and of the last fifth of the measured step times, ms."""
    return ends([check["measured_us"] / 1000 for check in trial.timing["hardware"]["checks"]])


def ends(values: list[float]) -> tuple[float, float]:
    """Mean of the first and of the last fifth."""
    part = len(values) // 5
    return fmean(values[:part]), fmean(values[-part:])


def best_after(count: int) -> Callable[[Trial], float]:
    return lambda trial: trial.best_after(count)


def errors(runs: NamedTrials, prefix: str) -> dict[str, Value]:
    """How far the simulated rewards are from the measured ones, over all rewards that were measured."""
    checks = [check for trial in runs.trials for check in trial.timing["hardware"]["checks"]]
    ratios = [check["simulated_us"] / check["measured_us"] for check in checks]
    absolute = sorted(100 * abs(ratio - 1) for ratio in ratios)
    return {
        prefix + ".measured": len(checks),
        prefix + ".error": median(absolute),
        prefix + ".error.p90": absolute[int(0.9 * len(absolute))],
        prefix + ".signed": 100 * (fmean(ratios) - 1),
    }


def learning_picture(runs: NamedTrials, long: NamedTrials) -> str:
    """The paper's figure 9: a line for each seed."""
    panels = []
    for shown, agent, ran, placements in ((LONG, "RNN", long, 4000), ("Placeto", "Placeto", runs, 400)):
        lines = [
            Line([(x, 100 * y / trial.single_device) for x, y in smooth(curve(trial))], CURVES[reward])
            for reward in CURVES
            for trial in of(ran, agent, reward)
        ]
        heights = [height for line in lines for _, height in line.points]
        x = Axis("placements", 0, placements)
        panels.append(Panel(shown, x, Axis("simulated step time drawn, % of one core", *around(heights)), lines))
    return chart("Step times of what is drawn, with simulated and with real rewards", panels, list(CURVES.values()), 2)


def smooth(points: list[tuple[int, float]], parts: int = 20) -> list[tuple[float, float]]:
    """Means of `parts` runs of neighbours, or the points themselves if there are no more."""
    if len(points) <= parts:
        return [(float(x), y) for x, y in points]
    bounds = [len(points) * part // parts for part in range(parts + 1)]
    groups = [points[first:last] for first, last in zip(bounds, bounds[1:])]
    return [(fmean(x for x, _ in group), fmean(y for _, y in group)) for group in groups]
