"""The first table of docs/results/vtrain.md, from vTrain's table in EMPLACE_REFERENCE_DATA. Takes three minutes."""
from __future__ import annotations

import re
import subprocess

from shared.archive import ROOT, BadInput, Source
from shared.page import Value, cells_of, markdown

NOT_SHOWN = ("layers ", "micro-batches ")  # slices that the page leaves out


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    file = source.reference_data("the table of VIA-Research/vTrain") / "VIA-Research+vTrain" / "ground_truth_single.csv"
    done = subprocess.run(
        [ROOT / "tools/vtrain_table", "--emplace", source.program, file], capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    if done.returncode != 0 or len(lines) < 3:
        raise BadInput(f"tools/vtrain_table: {(done.stderr.strip().splitlines() or ['no table'])[-1]}")
    rows = [cells_of(line) for line in lines if line.startswith("| ")]
    table = [row for row in rows if not row[0].startswith(NOT_SHOWN)]
    by_name = {row[0].strip("*"): row for row in rows}
    held_out, eight, everything = by_name["held out"], by_name["tensor 8"], by_name["all"]
    lines_found = re.search(r"Of (\d+) rows.*?, (\d+) lie", done.stdout)
    return {
        "held_out.rows": int(held_out[1]),
        "held_out.error": float(held_out[2]),
        "held_out.rank": float(held_out[7]),
        "tensor8.error": float(eight[2]),
        "tensor8.signed": -float(eight[6]),
        "rows": int(everything[1]),
        "on_lines.of": int(lines_found[1]),
        "on_lines": int(lines_found[2]),
    }, {"slices": markdown(table)}
