"""docs/results/runs.md: every archive with its configurations, revisions and cost."""
from __future__ import annotations

from collections import Counter

from shared.archive import Source, Trial
from shared.page import Value, markdown
from shared.table import number

CONFIGURATIONS = {  # of archives whose name is not that of their one configuration
    "hierarchical": ["hierarchical", "hierarchical_long", "hierarchical_published"],
    "placeto_transfer": ["placeto_transfer", "placeto_transfer_alone"],
    "post": ["post", "post_rnn"],
    "sgdp_transfer": [
        f"sgdp_transfer_{name}" for name in "amoebanet inception_v3 nmt rnnlm transformer_xl wavenet".split()
    ],
    "shootout_library": ["shootout_ops", "shootout_groups", "shootout_learned"],
    "thesis_full": ["thesis_cifar10", "thesis_nmt", "thesis_ptb", "thesis_tuned"],
}
PAGES = {  # of archives whose page is not the first word of their name
    "shootout_library": "library_shootout",
    "shootout_minute": "library_shootout",
    "hierarchical_rates": "tuning",
    "post_rates": "tuning",
}

FURTHER = ("thesis_entropy", "thesis_fifo", "thesis_long")  # archives for further questions about the thesis


def revision_of(trial: Trial) -> str:
    """Shortened; with a star if there were changes that were not committed."""
    return trial.record["revision"][:7] + ("*" if trial.uncommitted else "")


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    table = [["archive", "page", "configurations", "trials", "seeds", "revisions, with their trials", "CPU minutes"]]
    minutes: dict[str, float] = {}
    trials = uncommitted = 0
    for name in source.names():
        runs = [trial for trial in source.archive(name).trials if trial.index == 0]
        revisions = Counter(revision_of(trial) for trial in runs)
        minutes[name] = sum(trial.cpu_seconds for trial in runs) / 60
        trials += len(runs)
        uncommitted += sum(trial.uncommitted for trial in runs)
        page = PAGES.get(name, name.partition("_")[0])
        table.append(
            [
                f"`{name}`",
                f"[{page}]({page}.md)",
                ", ".join(f"`{each}`" for each in CONFIGURATIONS.get(name, [name])),
                f"{len(runs):,}",
                number(len({trial.seed for trial in runs})),
                ", ".join(f"{revision} ({count:,})" for revision, count in sorted(revisions.items())),
                number(minutes[name]),
            ]
        )
    figures = {"archives": len(minutes), "trials": trials, "uncommitted": uncommitted}
    figures |= {"hours": sum(minutes.values()) / 60, "most": max(minutes.values())}
    again, more_figures = run_again(source, minutes)
    return {**figures, **more_figures}, {"runs": markdown(table, left=3), "again": again}


def run_again(source: Source, minutes: dict[str, float]) -> tuple[list[str], dict[str, Value]]:
    """What tools/rerun wrote. An archive's CPU minutes are scaled by those of its drawn trials."""
    drawn: dict[str, list[dict[str, str]]] = {}
    for row in source.rows("rerun.csv"):
        drawn.setdefault(row["archive"], []).append(row)
    table = [["archive", "run again", "agree", "CPU s, archived", "CPU s, now", "CPU minutes of all, estimated"]]
    figures: dict[str, Value] = {"again.archived": 0.0, "again.hours": 0.0, "again.trials": 0, "again.agree": 0}
    figures["again.hours.without_further"] = 0.0
    for name, rows in sorted(drawn.items()):
        ran = [row for row in rows if row["seconds_now"]]  # the others failed
        before, now = (sum(float(row[key]) for row in ran) for key in ("seconds_archived", "seconds_now"))
        agree = sum(not row["difference"] for row in rows)
        estimated = minutes[name] * (now / before if before else 1)
        table.append([f"`{name}`", *map(number, (len(rows), agree, before, now, estimated))])
        for key, value in (
            ("archived", minutes[name] / 60),
            ("hours", estimated / 60),
            ("trials", len(rows)),
            ("agree", agree),
        ):
            figures[f"again.{key}"] += value
        if name not in FURTHER:
            figures["again.hours.without_further"] += estimated / 60
    figures["again.archives"] = len(drawn)
    for name in ("again.hours", "again.hours.without_further"):
        figures[name + ".two_cores"] = figures[name] / 2
    figures["again.part"] = figures["again.hours"] / figures["again.archived"]
    return markdown(table), figures
