"""What the comparisons with measurements share: statistics, tables of Markdown, and the command line."""
import argparse
import csv
import re
import statistics
import sys
import textwrap
from pathlib import Path

csv.field_size_limit(1 << 30)
GIB = 1 << 30
WIDTH = 130  # of a page's lines


def read_csv(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


# --- statistics --------------------------------------------------------------------------------------------------------


def quantile(values, part):
    """The quantile, interpolated linearly between neighbours."""
    values = sorted(values)
    place = part * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def ranks(values):
    """The ranks of the values, from 1 on; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    result = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for i in order[start:end]:
            result[i] = (start + end + 1) / 2
        start = end
    return result


def spearman(left, right):
    left, right = ranks(left), ranks(right)
    if len(set(left)) < 2 or len(set(right)) < 2:
        return None
    return statistics.correlation(left, right)


def area_under_curve(scores_of_true, scores_of_false):
    """The probability that a true one has a smaller score than a false one."""
    if not scores_of_true or not scores_of_false:
        return None
    order = ranks(scores_of_true + scores_of_false)
    larger = sum(order[:len(scores_of_true)]) - len(scores_of_true) * (len(scores_of_true) + 1) / 2
    return 1 - larger / (len(scores_of_true) * len(scores_of_false))


# --- text --------------------------------------------------------------------------------------------------------------


def percent(value, digits=1):
    return f"{100 * value:.{digits}f} %"


def signed(value):
    return f"{100 * value:+.1f} %"


def ratio(value, digits=3):
    return "-" if value is None else f"{value:.{digits}f}"


def count_of(number, what):
    return f"{number} {what}" + ("" if number == 1 else "s")


def row_text(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def table(header, rows):
    """A table of Markdown, in which columns of numbers are aligned to the right."""
    def is_number(i):
        return all(re.fullmatch(r"[+-]?[0-9][0-9.,]*( %| s)?|-", row[i]) for row in rows)
    kinds = ["---:" if is_number(i) else "---" for i in range(len(header))]
    return "".join(row_text(cells) for cells in (header, kinds, *rows)).rstrip("\n")


def wrapped(page):
    """The page with the lines of its paragraphs filled."""
    parts = page.split("\n\n")
    is_text = re.compile(r"[^|#`<]|`[^`]")
    return "\n\n".join(textwrap.fill(" ".join(part.split()), WIDTH, break_long_words=False, break_on_hyphens=False)
                       if is_text.match(part) else part for part in parts).rstrip() + "\n"


# --- the command line --------------------------------------------------------------------------------------------------


def parser_of(doc):
    """The options that a comparison has which writes or checks a page."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emplace", required=True)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--check", type=Path)
    return parser


def has_data(folder, table_of_data):
    """Whether the reference data is there; prints what is absent."""
    if (folder / table_of_data).exists():
        return True
    print(f"{folder}: has no {table_of_data}", file=sys.stderr)
    return False


def write_or_check(page, options):
    """Writes the page, compares it with the file of --check, or prints it; returns the exit status."""
    if options.page:
        options.page.write_text(page, encoding="utf-8")
    elif options.check:
        if options.check.read_text(encoding="utf-8") != page:
            print(page)
            print(f"{options.check} is not what comes out: look whether errors grew, then run {sys.argv[0]} --page",
                  file=sys.stderr)
            return 1
    else:
        print(page)
    return 0
