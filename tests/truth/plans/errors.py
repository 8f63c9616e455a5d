"""Tables of the errors of predicted step times."""
import math
import statistics

from report import percent, quantile, ratio, signed, spearman, table

WORST = 10  # rows of each table that are listed

ERROR_HEADER = ["rows", "mean", "median", "95th percentile", "largest", "measured/predicted", "Spearman"]


def error_cells(rows):
    """The cells below ERROR_HEADER."""
    sizes = [abs(row["error"]) for row in rows]
    order = spearman([row["predicted"] for row in rows], [row["measured"] for row in rows]) if len(rows) > 3 else None
    return [str(len(rows)), percent(statistics.mean(sizes)), percent(statistics.median(sizes)), percent(quantile(sizes, 0.95)),
            percent(max(sizes)), ratio(statistics.median(1 / (1 + row["error"]) for row in rows), 2), ratio(order)]


def slices(rows, fields):
    """A table of the errors by each value of the fields; a field is a name before the value, and a key or a function of rows."""
    lines = []
    for name, key in fields:
        values = [key(row) if callable(key) else row[key] for row in rows]
        for value in sorted(set(values)):
            chosen = [row for row, own in zip(rows, values) if own == value]
            lines.append([f"{name} {value}".strip(), *error_cells(chosen)])
    lines.append(["**all**", *error_cells(rows)])
    return table(["", *ERROR_HEADER], lines)


def worst(rows, reason_of):
    chosen = sorted((row for row in rows if "error" in row), key=lambda row: -abs(math.log1p(row["error"])))[:WORST]
    return table(["row", "measured", "predicted", "error", "cause"],
                 [[row["name"], f"{row['measured']:.3f} s", f"{row['predicted']:.3f} s", signed(row["error"]),
                   reason_of(row)] for row in chosen])


def mark_fitted_half(rows):
    """Marks the first row, the third, the fifth and so on as those that constants were fitted on."""
    for number, row in enumerate(rows, 1):
        row["fitted"] = number % 2 == 1


def mark_fitted_settings(rows):
    """The same for settings: rows that repeat one are in one half."""
    numbers = {}
    for row in rows:
        row["fitted"] = numbers.setdefault(row["setting"], len(numbers)) % 2 == 0


def halves(rows):
    return table(["", *ERROR_HEADER], [["fitted half", *error_cells([row for row in rows if row["fitted"]])],
                                       ["**held out**", *error_cells([row for row in rows if not row["fitted"]])]])
