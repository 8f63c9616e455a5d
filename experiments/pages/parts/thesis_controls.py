"""Tables of docs/results/thesis.md that answer why agents come in this order. Each has runs of its own, on 5 GPUs."""
from __future__ import annotations

from collections.abc import Sequence

from parts.policy_ends import likeliest_of, part_of_one
from parts.thesis_runs import EMBEDDINGS, FAMILIES, WALK, entropy, first_entropy, improvement
from shared.archive import Archive, BadInput, Trials
from shared.claims import SEEDS, Effect, change_figures, effect, effect_text, holm
from shared.page import Value, markdown
from shared.table import DASH, label_key, number, p_value, run_figures, signed

ABLE = ["nmt", "ptb"]  # families that can test the thesis's claims
FAST = "cifar10, fast links"
VARIANTS = {
    "published": "as published",
    "sign": "the code's sign alone",
    "feature": "the code's feature alone",
    "corrected": "corrected",
    "text": "embedding of the text",
    "its authors'": "embedding of its authors, on the text's",
    "3 hops, max": "3 hops, largest of the neighbours",
}
SAME = ["published", "sign", "feature", "corrected"]
VARIANTS_OF = {
    "placeto": SAME,
    "graphsage": [*SAME, "text", "3 hops, max"],
    "pgnn": [*SAME, "its authors'", "3 hops, max"],
}
LONG_WALK = "random walk, 300 passes"
LONG = ["corrected", "our settings"]
STARTS = {
    "untrained": "untrained",
    "untrained, near uniform": "untrained, near uniform",
    "corrected": "trained (corrected)",
}


class Controls:
    """An archive's trials by label and place: a family, or cifar10 with fast links. All cells are whole."""

    def __init__(self, archive: Archive, labels: Sequence[str], places: Sequence[str], expected: int) -> None:
        """`expected`: trials of a cell."""
        self.places = places
        self._cells: dict[tuple[str, str], Trials] = {(label, place): Trials() for label in labels for place in places}
        for trial in archive.trials:
            place = FAST if "fast-links" in trial.get("cluster.file") else trial.get("graph.dataset")
            if (trial.label, place) not in self._cells:
                raise BadInput(f"{archive.name}: its table has no place for {trial.label} on {place}")
            self._cells[trial.label, place].append(trial)
        for (label, place), trials in self._cells.items():
            if len(trials) != expected:
                raise BadInput(f"{archive.name}: {label}: {len(trials)} trials on {place}, {expected} are expected")

    def trials(self, label: str, places: Sequence[str]) -> Trials:
        return Trials(trial for place in places for trial in self._cells[label, place])

    def improvements(self, label: str) -> list[str]:
        """The mean improvement at each place, %."""
        return [number(self.trials(label, [place]).mean(improvement), 1) for place in self.places]

    def against(self, label: str, other: str, places: Sequence[str]) -> Effect:
        """On the step time; negative: `label` is faster."""
        return effect(self.trials(label, places), self.trials(other, places))


def shown(found: Effect, p: float | None = None) -> str:
    return effect_text(found, signed) + ("" if p is None else f", p {p_value(p)}")


def variants(archive: Archive) -> tuple[list[str], dict[str, Value]]:
    """Each embedding's variants: the code as published, one of its two slips alone, neither, and other embeddings."""
    labels = [WALK] + [f"{agent}, {ending}" for agent, endings in VARIANTS_OF.items() for ending in endings]
    controls = Controls(archive, labels, FAMILIES, 2 * SEEDS)
    heading = [*controls.places, "entropy at first, nmt", "against corrected, nmt and ptb, %"]
    table = [["agent", "variant", *heading]]
    figures: dict[str, Value] = dict(run_figures(archive, "variants"))
    for agent, name in EMBEDDINGS.items():
        corrected = f"{agent}, corrected"
        rows = [f"{agent}, {ending}" for ending in VARIANTS_OF[agent]]
        for label in rows:
            first = controls.trials(label, ["nmt"]).mean(first_entropy)
            found = controls.against(label, corrected, ABLE)
            figures |= change_figures(f"variants.{label_key(label)}", found)
            figures |= change_figures(f"variants.{label_key(label)}.walk", controls.against(label, WALK, ABLE))
            figures[f"variants.{label_key(label)}.entropy"] = first
            variant = VARIANTS[label.partition(", ")[2]]
            shown_change = "" if label == corrected else shown(found)
            cells = [*controls.improvements(label), number(first, 2), shown_change]
            table.append([name if label == rows[0] else "", variant, *cells])
    table.append([WALK, "", *controls.improvements(WALK), "1", ""])
    return markdown(table, left=2), figures


def starts(archive: Archive) -> tuple[dict[str, list[str]], dict[str, Value]]:
    """Is the published order one of how undecided untrained policies are?"""
    labels = [WALK] + [f"{agent}, {ending}" for agent in EMBEDDINGS for ending in STARTS]
    controls = Controls(archive, labels, [FAST, *FAMILIES], 8)
    table = [["agent", "policy", *controls.places, "entropy at first, " + " / ".join(FAMILIES)]]
    figures: dict[str, Value] = dict(run_figures(archive, "starts"))
    for agent, name in EMBEDDINGS.items():
        for ending, policy in STARTS.items():
            label = f"{agent}, {ending}"
            entropies = [controls.trials(label, [family]).mean(first_entropy) for family in FAMILIES]
            texts = [number(entropy, 4 if entropy < 0.01 else 2) for entropy in entropies]
            row = [name if ending == "untrained" else "", policy]
            table.append([*row, *controls.improvements(label), " / ".join(texts)])
            figures |= {f"starts.{label_key(label)}.{family}.entropy": value for family, value in zip(FAMILIES, entropies)}
    table.append([WALK, "", *controls.improvements(WALK), "1"])
    return {"starts": markdown(table, left=2), "starts_tests": start_tests(controls, figures)}, figures


def start_tests(controls: Controls, figures: dict[str, Value]) -> list[str]:
    """Where spreading helps: on fast links, nmt and ptb."""
    places = [FAST, *ABLE]
    pairs = {
        "untrained, against the walk": ("untrained", WALK),
        "untrained and near uniform, against the walk": ("untrained, near uniform", WALK),
        "trained, against untrained": ("corrected", "untrained"),
    }
    found = {
        (title, agent): controls.against(f"{agent}, {one}", other if other == WALK else f"{agent}, {other}", places)
        for title, (one, other) in pairs.items()
        for agent in EMBEDDINGS
    }
    ps = dict(zip(found, holm([each.p for each in found.values()])))
    for (title, agent), each in found.items():
        figures |= change_figures(f"starts.{agent}.{label_key(title)}", each)
        figures["starts.graphs"] = each.graphs
    rows = [[title, *(shown(found[title, a], ps[title, a]) for a in EMBEDDINGS)] for title in pairs]
    return markdown([["step time, %", *EMBEDDINGS.values()], *rows])


def queueing(archive: Archive) -> tuple[list[str], dict[str, Value]]:
    """The table with emplace's own engine."""
    names = {f"{agent}, as published": f"{name}, as published" for agent, name in EMBEDDINGS.items()}
    names |= {WALK: WALK, "annealing": "annealing"}
    controls = Controls(archive, list(names), FAMILIES, 16)
    means = {label: [controls.trials(label, [place]).mean(improvement) for place in controls.places] for label in names}
    table = [["agent", *controls.places, "against the walk, nmt and ptb, %"]]
    figures: dict[str, Value] = dict(run_figures(archive, "queueing"))
    for label in sorted(names, key=lambda label: -sum(means[label])):
        found = controls.against(label, WALK, ABLE)
        figures |= change_figures(f"queueing.{label_key(label)}", found)
        table.append(
            [names[label], *(number(mean, 1) for mean in means[label]), DASH if label == WALK else shown(found)]
        )
    return markdown(table), figures


def longer(archive: Archive) -> tuple[list[str], dict[str, Value]]:
    """With 300 episodes. What the policy itself ends with is the likeliest placement's improvement."""
    places = ["nmt"]
    names = {f"{agent}, {ending}": f"{name}, {ending}" for agent, name in EMBEDDINGS.items() for ending in LONG}
    walks = {WALK: "random walk, 240 passes", LONG_WALK: LONG_WALK}
    names |= {**walks, "local search": "local search", "annealing": "annealing"}
    controls = Controls(archive, list(names), places, 16)
    means = {label: controls.trials(label, places).mean(improvement) for label in names}
    found = {
        label: controls.against(label, WALK if label.endswith("corrected") else LONG_WALK, places)
        for label in names
        if label not in walks
    }
    ps = dict(zip(found, holm([each.p for each in found.values()])))
    heading = ["against the walk with as many passes, %", "likeliest at the end", "entropy while training"]
    table = [["agent", *places, *heading]]
    figures: dict[str, Value] = dict(run_figures(archive, "long"))
    for label in sorted(names, key=lambda label: -means[label]):
        ends = [DASH, DASH]
        if label.partition(",")[0] in EMBEDDINGS:
            trials = controls.trials(label, places)
            likeliest = 100 * (1 - trials.mean(lambda trial: part_of_one(trial, likeliest_of(trial))))
            ends = [number(likeliest, 1), number(trials.mean(entropy), 2)]
        change = DASH
        if label in found:
            change = shown(found[label], ps[label])
            figures |= change_figures(f"long.{label_key(label)}", found[label])
            figures[f"long.{label_key(label)}.p"] = DASH if ps[label] is None else p_value(ps[label])
            figures[f"long.{label_key(label)}.faster"] = found[label].faster
            figures["long.graphs"] = found[label].graphs
        table.append([names[label], *controls.improvements(label), change, *ends])
    return markdown(table), figures
