"""Networks of docs/results/sgdp.md, and its sections on one policy for all, on transfer and on ops."""
from __future__ import annotations

from statistics import fmean

from parts.policy_ends import drawn_change
from shared.archive import Archive, Source, Trial, Trials, extremes, geometric_mean
from shared.claims import SEEDS, Claim, effect, effect_text, log_change
from shared.page import Value, markdown
from shared.paper_table import PaperTable, Row
from shared.table import bold_best, label_key, number, run_figures, signed

ROWS = {
    "rnnlm2": Row("RNNLM, 2 layers, 2", 'rnnlm {"layers":2}', 2),
    "rnnlm4": Row("RNNLM, 4 layers, 4", 'rnnlm {"layers":4}', 4),
    "rnnlm8": Row("RNNLM, 8 layers, 8", 'rnnlm {"layers":8}', 8),
    "nmt2": Row("GNMT, 2 layers, 2", 'nmt {"layers":2}', 2),
    "nmt4": Row("GNMT, 4 layers, 4", 'nmt {"layers":4}', 4),
    "nmt8": Row("GNMT, 8 layers, 8", 'nmt {"layers":8}', 8),
    "transformer2": Row("Transformer-XL, 2 layers, 2", 'transformer_xl {"layers":2}', 2),
    "transformer4": Row("Transformer-XL, 4 layers, 4", 'transformer_xl {"layers":4}', 4),
    "transformer8": Row("Transformer-XL, 8 layers, 8", 'transformer_xl {"layers":8}', 8),
    "inception32": Row("Inception-V3, batch 32, 2", 'inception_v3 {"batch":32}', 2),
    "inception64": Row("Inception-V3, batch 64, 2", 'inception_v3 {"batch":64}', 2),
    "amoebanet": Row("AmoebaNet, 4", 'amoebanet {"batch":64,"filters":128,"image_size":224}', 4),
    "wavenet2": Row("WaveNet, 2 stacks, 2", 'wavenet {"stacks":2}', 2),
    "wavenet4": Row("WaveNet, 4 stacks, 4", 'wavenet {"stacks":4}', 4),
}
TABLE_2 = {  # what one policy for all gains, in the paper, %
    "rnnlm2": "0",
    "rnnlm4": "5 %",
    "nmt2": "0",
    "nmt4": "0",
    "transformer2": "7.6 %",
    "transformer4": "3 %",
    "transformer8": "1.5 %",
    "inception32": "0",
    "amoebanet": "−5 %",
    "wavenet2": "15 %",
    "wavenet4": "3.3 %",
}
TRANSFERRED = ["rnnlm4", "nmt4", "transformer4", "inception32", "amoebanet", "wavenet4"]
BEST = "sgdp, node ratio"  # by the rule of tuning on natural groups
OPS_AGENTS = ["expert", "search on ops", BEST]


def title(row: str) -> str:
    """The title of a row's network, without its GPUs."""
    return ROWS[row].title.rpartition(", ")[0]


def row_of(graph: dict) -> str:
    """The row of the network that a spec's graph is made from, whatever the GPUs."""
    settings = {name: str(value) for name, value in graph["set"].items()}
    return next(name for name, row in ROWS.items() if (row.model, row.settings) == (graph["model"], settings))


def network(trial: Trial) -> str:
    return row_of(trial.spec["graph"])


def by_network(trials: Trials) -> dict[tuple[str, str], Trials]:
    """By label and network."""
    found: dict[tuple[str, str], Trials] = {}
    for trial in trials:
        found.setdefault((trial.label, network(trial)), Trials()).append(trial)
    return found


def batches(source: Source) -> tuple[Trials, Trials]:
    """The trials in which one policy learns on all networks, and those in which it learns on one."""
    trials = source.archive("sgdp_batch").trials
    together, alone = (
        Trials(trial for trial in trials if ("together" in trial.spec) == joint) for joint in (True, False)
    )
    return together, alone


def batch(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    together, alone = batches(source)
    runs, joint = by_network(alone), by_network(together)
    others = ["expert", "random walk", "annealing"]
    table = [["model", "one policy each", "one for all, %", "published gain", *others]]
    figures = run_figures(source.archive("sgdp_batch"), "batch")
    ahead = behind = 0
    for row, published in TABLE_2.items():
        found = effect(joint[BEST, row], runs[BEST, row], graph=network, row=network)
        pairs = list(zip(joint[BEST, row].values(), runs[BEST, row].values()))
        ahead, behind = ahead + all(one < each for one, each in pairs), behind + all(one > each for one, each in pairs)
        values = [runs[BEST, row].mean(), joint[BEST, row].mean(), *(runs[label, row].mean() for label in others)]
        texts = bold_best([number(value) for value in values], values)
        shown = f"{texts[1]}, {effect_text(found)}"
        table.append([title(row), texts[0], shown, published, *texts[2:]])
    figures["batch.ahead"], figures["batch.behind"] = ahead, behind
    for label in others:
        ratios = [joint[BEST, row].mean() / runs[label, row].mean() for row in TABLE_2]
        figures[f"batch.{label_key(label)}"] = 100 * (1 - geometric_mean(ratios))
        figures[f"batch.{label_key(label)}.slower"] = -figures[f"batch.{label_key(label)}"]
    return figures, {"batch": markdown(table)}


def several_claims(source: Source) -> list[Claim]:
    """The claims about one policy for several networks, and about one for networks that it has not seen."""
    moved = transferred(source)
    together, alone = batches(source)

    def of(label: str) -> Trials:
        return Trials(trial for trial in alone if trial.label == label)

    def claim(
        name: str, text: str, published: str, one: str, other: str, expected: float | None = None, tie: bool = False
    ) -> Claim:
        if len({trial.seed for trial in moved[one]}) < SEEDS:
            return Claim(name, text, published, expected=expected, tie=tie, settled="open")
        found = effect(moved[one], of(other), time_of, graph=network_of, row=network_of)
        return Claim(name, text, published, found, expected=expected, tie=tie)

    gains = [float(text.replace("−", "-").removesuffix("%")) for text in TABLE_2.values()]
    return [
        Claim(
            "batch",
            "one policy for eleven models is better than eleven policies",
            "−15 to 5 %",
            effect(together, of(BEST), graph=network, row=network),
            expected=fmean(log_change(-gain) for gain in gains),
        ),
        claim("zero", "zero-shot: faster than experts", "over 10 %", "zero-shot", "expert", expected=log_change(-10)),
        claim(
            "zero_alone",
            "zero-shot: as fast as a policy of the model alone",
            "3.7 % slower",
            "zero-shot",
            BEST,
            tie=True,
        ),
        claim("tuned", "fine-tuned: faster than experts", "yes", "fine-tuned", "expert"),
        claim(
            "tuned_alone",
            "fine-tuned: as fast as a policy of the model alone",
            "1.2 % slower",
            "fine-tuned",
            BEST,
            tie=True,
        ),
    ]


def transferred(source: Source) -> dict[str, Trials]:
    """By label, one of each trial that learned on several networks."""
    trials = [trial for trial in source.archive("sgdp_transfer").trials if trial.index == 0]
    return {label: Trials(t for t in trials if t.label == label) for label in ("zero-shot", "fine-tuned")}


def network_of(trial: Trial) -> str:
    """The network on which a policy is tried."""
    return row_of(trial.spec["transfer"][0]) if trial.transfers else network(trial)


def time_of(trial: Trial) -> float | None:
    """On that network, ms: of the likeliest placement if zero-shot, else of the best one."""
    if not trial.transfers:
        return trial.best
    return zero_shot(trial) if trial.label == "zero-shot" else best_there(trial)


def transfer(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    moved = transferred(source)
    alone = by_network(batches(source)[1])
    table = [["model", "zero-shot", "and ten samples", "fine-tuned", "alone", "expert", "one GPU"]]
    figures = run_figures(source.archive("sgdp_transfer"), "transfer")
    on_one = fitting = 0
    for row in TRANSFERRED:
        of = {label: Trials(t for t in trials if network_of(t) == row) for label, trials in moved.items()}
        zero = of["zero-shot"].values(zero_shot)
        first = alone[BEST, row][0]  # a single GPU is its incumbent, where it fits
        single = first.single_device if first.start == first.single_device else None
        on_one += sum(single is not None and abs(time / single - 1) < 0.001 for time in zero)
        fitting += len(zero)
        whole = len(zero) == len(of["zero-shot"])
        values = [
            fmean(zero) if whole else None,
            of["zero-shot"].mean(best_there),
            of["fine-tuned"].mean(best_there),
            alone[BEST, row].mean(),
            alone["expert", row].mean(),
            single,
        ]
        texts = [number(value) if value is not None else "does not fit" for value in values]
        if zero and not whole:
            texts[0] = f"{number(fmean(zero))}, {len(zero)} of {len(of['zero-shot'])} seeds"
        table.append([title(row), *bold_best(texts, values)])
    figures["transfer.on_one"], figures["transfer.fitting"] = on_one, fitting
    return figures, {"transfer": markdown(table)}


def zero_shot(trial: Trial) -> float | None:
    """Step time of the likeliest placement, ms; None if it does not fit."""
    return ms(trial.transfers[0]["step_time_us"])


def best_there(trial: Trial) -> float | None:
    """Step time of the best placement of the network that the policy had not seen, ms."""
    return ms(trial.transfers[0]["best_step_time_us"])


def ms(micros: float | None) -> float | None:
    return None if micros is None else micros / 1000


def ops_trials(source: Source) -> dict[str, Trials]:
    """The trials of each row that place single ops."""
    archive = source.archive("sgdp_ops")
    archive.expect_labels(OPS_AGENTS)
    return {name: archive.where(*row.conditions()) for name, row in ROWS.items()}


def ops_table(on_ops: dict[str, Trials], groups: PaperTable) -> list[str]:
    """Table 1 on ops, beside SGDP on groups."""
    table = [["model, GPUs", "ops", "SGDP, ops", "CPU s", "SGDP, groups", "expert, ops", "search, ops"]]
    for row, trials in on_ops.items():
        of = {agent: Trials(trial for trial in trials if trial.label == agent) for agent in OPS_AGENTS}
        means = {agent: of[agent].mean() for agent in OPS_AGENTS}
        values = [means[BEST], groups.cells[row, BEST].mean, *(means[agent] for agent in OPS_AGENTS[:-1])]
        texts = [number(value) for value in values]
        seconds = number(of[BEST].mean(lambda trial: trial.cpu_seconds))
        if not of[BEST]:
            texts[0] = seconds = ""
        texts = bold_best(texts, values)
        table.append([ROWS[row].title, f"{trials[0].graph['num_ops']:,}", texts[0], seconds, *texts[1:]])
    return markdown(table)


def ops_figures(archive: Archive, on_ops: dict[str, Trials], groups: PaperTable) -> dict[str, Value]:
    figures = run_figures(archive, "ops")
    learned = [trial for trials in on_ops.values() for trial in trials if trial.label == BEST]
    ahead = {"groups": 0, **dict.fromkeys(OPS_AGENTS[:-1], 0)}  # networks on which each is faster than SGDP on ops
    for row, trials in on_ops.items():
        of = {agent: Trials(trial for trial in trials if trial.label == agent).mean() for agent in OPS_AGENTS}
        others = {"groups": groups.cells[row, BEST].mean, **{agent: of[agent] for agent in OPS_AGENTS[:-1]}}
        for name, mean in others.items():
            ahead[name] += None not in (mean, of[BEST]) and mean < of[BEST]
    figures |= {f"ops.{label_key(name)}.ahead": count for name, count in ahead.items()}
    figures["ops.learned"] = len(learned)
    figures["ops.ms.min"], figures["ops.ms.max"] = extremes(
        1000 * trial.cpu_seconds / trial.graph["evaluations"] for trial in learned
    )
    least, figures["ops.slower"] = extremes(map(drawn_change, learned))
    figures["ops.drawn.max"] = -least
    return figures


def large(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    """A graph of over 50,000 ops."""
    archive = source.archive("sgdp_large")
    archive.expect_labels(OPS_AGENTS)
    learned = archive.where("agent.label=" + BEST)[0]
    figures = run_figures(archive, "large") | {
        "large.ops": f"{learned.graph['num_ops']:,}",
        "large.s": learned.cpu_seconds / learned.graph["evaluations"],
        "large.minutes": learned.cpu_seconds / 60,
        "large.slower": drawn_change(learned),
        "large.times": learned.best / archive.where("agent.label=expert")[0].best,
    }
    table = [["agent", "best step time, ms", "over the lower bound, %", "CPU seconds"]]
    for agent, shown in {**dict(zip(OPS_AGENTS, OPS_AGENTS)), BEST: "SGDP"}.items():
        trial = archive.where("agent.label=" + agent)[0]
        over = signed(100 * (trial.ratio - 1), 0)
        table.append([shown, number(trial.best), over, number(trial.cpu_seconds, 1)])
    return figures, {"large": markdown(table)}
