"""docs/results/throughput.md, from what tools/throughput_table wrote: experiments/results/throughput.csv."""
from __future__ import annotations

from shared.archive import BadInput, Source
from shared.page import Value, markdown
from shared.table import DASH, bold, number

SEARCH = "multilevel_search"
KINDS = {"LayerGraphs": "layers", "OperatorGraphs": "operators"}
# Loads in ms of runs of the program of Tarnawski et al. 2020: the optimal contiguous split, their planner after
# PipeDream, and their local search of 10 starts.
THEIRS = {
    "LayerGraphs/bert24_inference.json": ("17.790", "17.790", "17.778"),
    "LayerGraphs/bert24_training.json": ("41.746", "187.914", "39.943"),
    "LayerGraphs/gnmt_inference.json": ("32.911", "33.031", "31.783"),
    "LayerGraphs/resnet50_inference.json": ("33.775", "39.398", "35.889"),
    "LayerGraphs/resnet50_training.json": ("78.632", "83.674", "81.605"),
    "OperatorGraphs/bert_l-3_inference.json": ("27.919", "37.456", "27.574"),
    "OperatorGraphs/bert_l-3_training.json": ("65.303", "122.987", "68.063"),
    "OperatorGraphs/bert_l-12_inference.json": ("147.478", "642.78", None),
    "OperatorGraphs/resnet50_inference.json": ("124.349", "129.155", None),
    "OperatorGraphs/resnet50_training.json": ("255.194", "684.891", None),
}


class Cuts:
    """Largest loads of a graph, ms."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.loads: dict[str, list[float]] = {}  # by method; of a search those of its seeds
        self.bound = 0.0
        self.evaluations: set[int] = set()  # of the searches

    def add(self, row: dict[str, str]) -> None:
        try:
            self.loads.setdefault(row["method"], []).append(float(row["max_load_us"]) / 1000)
            self.bound = float(row["max_load_bound_us"]) / 1000
            if row["method"] == SEARCH:
                self.evaluations.add(int(row["evaluations"]))
        except (KeyError, TypeError, ValueError) as error:
            raise BadInput(f"throughput.csv: {self.name}: is not a row of tools/throughput_table ({error})") from error

    def of(self, method: str) -> float | None:
        """The load of a method; of a search that of its best seed. None: there is none."""
        return min(self.loads[method]) if method in self.loads else None

    @property
    def worst(self) -> float:
        """The worst load among the seeds of the search."""
        return max(self.loads[SEARCH])

    def below(self, method: str) -> float | None:
        """By how many per cent the search is below another method."""
        other = self.of(method)
        return None if other is None else 100 * (1 - self.of(SEARCH) / other)

    @property
    def title(self) -> str:
        folder, _, file = self.name.partition("/")
        network, _, pass_ = file.removesuffix(".json").rpartition("_")
        return f"{KINDS[folder]}: {network}, {pass_}"


def read_cuts(source: Source) -> dict[str, Cuts]:
    graphs: dict[str, Cuts] = {}
    for row in source.rows("throughput.csv"):
        graphs.setdefault(row["graph"], Cuts(row["graph"])).add(row)
    return graphs


def loads_table(graphs: dict[str, Cuts]) -> list[str]:
    title = ["graph", "human expert", "`dp_contiguous`", "`pipedream`", f"`{SEARCH}`", "lower bound"]
    table = [[*title, "below the expert, %", "below `dp_contiguous`, %"]]
    for cuts in graphs.values():
        least, most = number(cuts.of(SEARCH), 3), number(cuts.worst, 3)
        seeds = least if least == most else f"{least} to {most}"
        others = [cuts.of(method) for method in ("expert", "dp_contiguous", "pipedream")]
        is_best = all(load is None or cuts.of(SEARCH) <= load for load in others)
        table.append(
            [
                cuts.title,
                *(number(load, 3) for load in others),
                bold(seeds) if is_best else seeds,
                number(cuts.bound, 3),
                *(number(cuts.below(method), 1) for method in ("expert", "dp_contiguous")),
            ]
        )
    return markdown(table)


def theirs_table(graphs: dict[str, Cuts]) -> list[str]:
    table = [["graph", "optimum", "their PipeDream", "their local search", f"`{SEARCH}`, worst of 3 seeds"]]
    for name, published in THEIRS.items():
        worst = graphs[name].worst
        texts = [*(text or DASH for text in published), number(worst, 3)]
        values = [*(None if text is None else float(text) for text in published), round(worst, 3)]
        best = min(value for value in values if value is not None)
        # Where another has as small a load, the search is marked.
        marked = len(values) - 1 if values[-1] == best else values.index(best)
        texts[marked] = bold(texts[marked])
        table.append([graphs[name].title, *texts])
    return markdown(table)


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    graphs = read_cuts(source)
    contiguous = [cuts.below("dp_contiguous") for cuts in graphs.values()]
    experts = [below for cuts in graphs.values() if (below := cuts.below("expert")) is not None]
    searches = {(len(cuts.loads[SEARCH]), *cuts.evaluations) for cuts in graphs.values()}
    if len(searches) != 1 or any(len(search) != 2 for search in searches):
        raise BadInput(f"throughput.csv: seeds and evaluations of {SEARCH} are not the same for all graphs")
    seeds, evaluations = searches.pop()
    figures: dict[str, Value] = {
        "graphs": len(graphs),
        "seeds": seeds,
        "evaluations": evaluations,
        "contiguous.most": max(contiguous),
        "contiguous.below": sum(below > 0.0005 for below in contiguous),
        "at_least_as_good": sum(
            cuts.worst <= min(cuts.of("dp_contiguous"), cuts.of("pipedream")) for cuts in graphs.values()
        ),
        "experts.least": min(experts),
        "experts.most": max(experts),
    }
    bert24 = graphs["LayerGraphs/bert24_training.json"]
    figures["bert24.contiguous"], figures["bert24.expert"] = bert24.of("dp_contiguous"), bert24.of("expert")
    figures["resnet50.contiguous"] = graphs["LayerGraphs/resnet50_training.json"].of("dp_contiguous")
    figures["gnmt.search"] = graphs["LayerGraphs/gnmt_inference.json"].of(SEARCH)
    return figures, {"loads": loads_table(graphs), "theirs": theirs_table(graphs)}
