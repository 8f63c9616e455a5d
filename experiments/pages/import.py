"""docs/results/import.md, from what tools/import_table wrote, experiments/results/import.csv, and from measurements of
large files, import_large.csv beside it."""
from __future__ import annotations

from shared.archive import BadInput, Source
from shared.page import Value, markdown

TITLES = ["file", "format", "ops", "attributed, %", "s", "MiB", "refused"]
COLUMNS = ["file", "format", "ops", "attributed_percent", "seconds", "mebibytes", "refused"]
LARGE = ["seconds", "gibibytes", "graph_gigabytes"]


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    rows = source.rows("import.csv")
    if not rows or any(row.get(column) is None for row in rows for column in COLUMNS):
        raise BadInput(f"import.csv: is not of tools/import_table (columns {', '.join(COLUMNS)} are expected)")
    read = [row for row in rows if not row["refused"]]
    gpu_traces = [row for row in read if row["format"] == "kineto"]
    models = [row for row in read if row["format"] == "onnx"]
    figures: dict[str, Value] = {
        "files": len(rows),
        "read": len(read),
        "refused": len(rows) - len(read),
        "seconds.most": max(float(row["seconds"]) for row in read),
        "mebibytes.most": max(float(row["mebibytes"]) for row in read),
        "gpu_traces.least": min(float(row["attributed_percent"]) for row in gpu_traces),
        "models.least": min(float(row["attributed_percent"]) for row in models),
    }
    table = [TITLES, *([row[column] for column in COLUMNS] for row in rows)]
    large, floors = large_tables(source)
    return figures, {
        "files": markdown(table, left=2, words=[TITLES.index("refused")]),
        "large": large,
        "floors": floors,
    }


def large_tables(source: Source) -> tuple[list[str], list[str]]:
    """What the command took, and the benchmark of the reader beside its floor."""
    large = [["1 GB of", "ops", "s", "GiB", "`graph.json`, GB"]]
    floors = [["generated, 1 GB", "s", "floor, s", "ratio"]]
    for row in source.rows("import_large.csv"):
        if row["ops"]:
            large.append([row["file"], f"{int(row['ops']):,}", *(row[column] for column in LARGE)])
        if row["floor_seconds"]:
            kind = row["file"].partition(", generated")[0]
            floors.append([kind, row["import_seconds"], row["floor_seconds"], row["ratio"]])
    return markdown(large), markdown(floors)
