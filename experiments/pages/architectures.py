"""docs/results/architectures.md, from what tools/torch_table wrote, experiments/results/architectures.csv.xz."""
from __future__ import annotations

import re
import statistics
from collections import Counter

from shared.archive import BadInput, Source
from shared.page import Value, markdown

COLUMNS = ["library", "name", "outcome", "ops", "parameters", "parameters_exact", "gflop", "gflop_torch",
           "flop_relation", "with_module_percent", "seconds", "reason", "versions"]
LIBRARIES = ["transformers", "torchvision", "timm", "torch_geometric"]
OUTCOMES = ["captured", "not captured", "no inputs", "not built", "not measured"]


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    rows = source.rows("architectures.csv.xz")
    if not rows or any(row.get(column) is None for row in rows for column in COLUMNS):
        raise BadInput(f"architectures.csv.xz: is not of tools/torch_table (columns {', '.join(COLUMNS)} are expected)")
    listed = rows
    rows = [row for row in listed if row["outcome"] != "not measured"]
    captured = [row for row in rows if row["outcome"] == "captured"]
    counted = [row for row in captured if row["flop_relation"] != "not counted"]
    three = [row for row in captured if row["library"] != "torch_geometric"]
    figures: dict[str, Value] = {
        "listed": len(listed),
        "all": len(rows),
        "captured": len(captured),
        "captured.three": len(three),
        "all.three": sum(row["library"] != "torch_geometric" for row in rows),
        "parameters.exact": sum(row["parameters_exact"] == "yes" for row in captured),
        "flop.equal": sum(row["flop_relation"].startswith("equal") for row in captured),
        "flop.differs": sum(row["flop_relation"] == "differs" for row in captured),
        "flop.not_counted": len(captured) - len(counted),
        "with_module.median": statistics.median(float(row["with_module_percent"]) for row in captured),
        "with_module.least": min(float(row["with_module_percent"]) for row in captured),
        "seconds.median": statistics.median(float(row["seconds"]) for row in captured),
        "versions": listed[0]["versions"],
    }
    return figures, {
        "libraries": by_library(listed),
        "flop": by_relation(captured),
        "reasons": by_reason(rows),
        "captured": all_captured(captured),
        "others": all_others(rows),
    }


def by_library(rows: list[dict[str, str]]) -> list[str]:
    table = [["package", "architectures", *OUTCOMES]]
    for library in LIBRARIES:
        of = [row for row in rows if row["library"] == library]
        table.append([library, str(len(of)), *(str(sum(row["outcome"] == outcome for row in of)) for outcome in OUTCOMES)])
    table.append(["all", *(str(sum(int(row[column]) for row in table[1:])) for column in range(1, len(table[0])))])
    return markdown(table)


def by_relation(captured: list[dict[str, str]]) -> list[str]:
    counts = Counter(row["flop_relation"] for row in captured)
    return markdown([["FLOP beside PyTorch's counter", "architectures"],
                     *([relation, str(count)] for relation, count in counts.most_common())])


def by_reason(rows: list[dict[str, str]]) -> list[str]:
    """Reasons without what differs between two networks: names in quotes, symbols and numbers."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["outcome"] != "captured":
            kinds.setdefault((row["outcome"], kind_of(row["reason"])), []).append(row["name"])
    table = [["outcome", "PyTorch's reason", "architectures", "such as"]]
    for (outcome, reason), names in sorted(kinds.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        table.append([outcome, reason, str(len(names)), ", ".join(names[:3])])
    return markdown(table, left=2, words=[3])


def kind_of(reason: str) -> str:
    text = re.sub(r"^(model|step|capture|the step does not run|not built|data): ", "", reason)
    text = re.sub(r"^PyTorch cannot \w+ it: ", "", text)
    text = re.sub(r"'[^']*'|\"[^\"]*\"|<[^>]*>", "..", text)
    text = re.sub(r"\bu\d+\b|\b\d+(\.\d+)?\b", "N", text)
    return text.replace("|", "\\|")[:90]


def all_captured(captured: list[dict[str, str]]) -> list[str]:
    table = [["package", "architecture", "ops", "parameters", "GFLOP", "PyTorch's", "relation", "with module, %", "s"]]
    for row in captured:
        table.append([row["library"], row["name"], row["ops"], f"{int(row['parameters']):,}", row["gflop"],
                      row["gflop_torch"], row["flop_relation"], f"{float(row['with_module_percent']):.1f}",
                      f"{float(row['seconds']):.1f}"])
    return markdown(table, left=2, words=[6])


def all_others(rows: list[dict[str, str]]) -> list[str]:
    return markdown([["package", "architecture", "outcome", "reason"],
                     *([row["library"], row["name"], row["outcome"], row["reason"].replace("|", "\\|")[:140]]
                       for row in rows if row["outcome"] != "captured")], left=3, words=[3])
