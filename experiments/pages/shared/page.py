"""A results page: its generated tables and its marked figures.

A table stands between the lines `<!-- table: NAME -->` and `<!-- end table -->`. A figure is marked right behind the
number: `42.5<!--= NAME -->`. The digits that the page shows say how the computed value is rounded. A drawn picture is a
file that the page shows, such as `![a chart](figures/NAME.svg)`.
"""
from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shared.archive import BadInput

Table = list[list[str]]  # the first row is the header; each column but the first is aligned to the right
Value = float | str

WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
).split()
NUMBER = r"(?:< )?(?:(?<![\w.])[−+-])?\d+(?:,\d{3})*(?:\.\d+)?"
MARK = re.compile(r"<!--= *(?P<name>[^ ]+) *-->")
SHOWN = re.compile(rf"(?:{NUMBER}|\b(?:{'|'.join(WORDS)}))$", re.IGNORECASE)
TABLE = re.compile(r"<!-- table: (?P<name>\S+) -->$")
END = "<!-- end table -->"


@dataclass(frozen=True)
class Check:
    """What a page says and what the archive says, at one place of the page."""

    line: int
    figure: str
    page: str
    archive: str

    @property
    def agrees(self) -> bool:
        return self.page == self.archive


@dataclass
class Page:
    """The checks of a page, and its text with what was computed."""

    checks: list[Check] = field(default_factory=list)
    text: str = ""


def as_shown(value: Value, shown: str) -> str:
    """The value in the form of `shown`: with its decimals, commas, sign and bound, or as a word."""
    if isinstance(value, str):
        return value
    if shown.lower() in WORDS:
        word = WORDS[round(value)] if 0 <= round(value) < len(WORDS) else f"{value:.0f}"
        return word.capitalize() if shown[0].isupper() else word
    if shown.startswith("< "):
        bound = float(shown[2:].replace(",", ""))
        return shown if value < bound else f"{value:.2g}"
    decimals = len(shown.partition(".")[2])
    digits = f"{abs(value):{',' if ',' in shown or abs(value) >= 10000 else ''}.{decimals}f}"
    is_zero = not digits.strip("0.,")
    if value < 0 and not is_zero:
        return ("-" if shown.startswith("-") else "−") + digits
    return ("+" if shown.startswith("+") else "") + digits


def markdown(table: Table, left: int = 1, words: Collection[int] = ()) -> list[str]:
    """The lines of a table; the first `left` columns and those with the numbers `words` are aligned to the left."""
    align = ["---" if column < left or column in words else "---:" for column in range(len(table[0]))]
    return ["|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in [table[0], align, *table[1:]]]


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def check_page(path: str, text: str, figures: Mapping[str, Value], tables: Mapping[str, list[str]]) -> Page:
    """Compares the page with the computed figures and tables. Names that are not computed are refused."""
    page = Page()
    out: list[str] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        begun = TABLE.match(lines[at])
        if not begun:
            out.append(_check_line(path, at + 1, lines[at], figures, page.checks))
            at += 1
            continue
        name = begun["name"]
        if END not in lines[at:]:
            raise BadInput(f"{path}:{at + 1}: table {name} does not end (a line {END} is expected)")
        if name not in tables:
            raise BadInput(f"{path}:{at + 1}: table {name} is not computed (one of {', '.join(tables)})")
        end = lines.index(END, at)
        _check_table(name, at + 2, lines[at + 1 : end], tables[name], page.checks)
        out += [lines[at], *tables[name], END]
        at = end + 1
    page.text = "\n".join(out) + "\n"
    return page


def check_pictures(path: str, text: str, folder: Path, pictures: Mapping[str, str]) -> list[Check]:
    """Compares the files of the folder `figures` beside the page with what was drawn, by the SHA-256 of their bytes.
    A picture that the page does not show is refused."""
    checks = []
    for name, drawn in pictures.items():
        shown = [number for number, line in enumerate(text.splitlines(), 1) if f"](figures/{name})" in line]
        if not shown:
            raise BadInput(f"{path}: does not show the picture that is drawn for it (figures/{name} is expected)")
        file = folder / name
        kept = _digest(file.read_bytes()) if file.is_file() else "(nothing)"
        checks.append(Check(shown[0], f"figures/{name}", kept, _digest(drawn.encode())))
    return checks


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def _check_line(path: str, number: int, line: str, figures: Mapping[str, Value], checks: list[Check]) -> str:
    out, last = "", 0
    for mark in MARK.finditer(without_code(line)):
        name = mark["name"]
        before = line[last : mark.start()]
        if name not in figures:
            raise BadInput(f"{path}:{number}: figure {name} is not computed by experiments/pages")
        value = figures[name]
        if isinstance(value, str):
            shown = before[-len(value) :] if before.endswith(value) else before.split("|")[-1].split(" ")[-1]
        else:
            found = SHOWN.search(before)
            if not found:
                raise BadInput(f"{path}:{number}: no number before the mark of {name}")
            shown = found[0]
        computed = as_shown(value, shown)
        checks.append(Check(number, name, shown, computed))
        out += before[: len(before) - len(shown)] + computed + mark[0]
        last = mark.end()
    return out + line[last:]


def _check_table(name: str, first: int, shown: list[str], computed: list[str], checks: list[Check]) -> None:
    header = cells_of(computed[0])
    for row in range(max(len(shown), len(computed))):
        old = cells_of(shown[row]) if row < len(shown) else []
        new = cells_of(computed[row]) if row < len(computed) else []
        label = (new or old or [""])[0]
        for column in range(max(len(old), len(new))):
            heading = header[column] if column < len(header) else str(column)
            values = [cells[column] if column < len(cells) else "(nothing)" for cells in (old, new)]
            if row > 1 and column > 0 or values[0] != values[1]:
                checks.append(Check(first + row, f"{name}[{label}, {heading}]", *values))


def without_code(text: str) -> str:
    """The same length, without what is in backticks."""
    return re.sub(r"`[^`\n]*`", lambda code: "`" * len(code[0]), text)


def named_tables(text: str) -> list[str]:
    """The names of the generated tables."""
    return [found["name"] for line in text.splitlines() if (found := TABLE.match(line))]


def marked(text: str) -> list[str]:
    """The names of the marked figures, in the order of the page; not those in code."""
    return [mark["name"] for mark in MARK.finditer(without_code(text))]


def unmarked(text: str) -> list[tuple[int, str, str]]:
    """Numbers that are traced to nothing: line, number, the words around it. Leaves out code, links and comments."""
    found = []
    in_code = in_table = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        in_table = (in_table or bool(TABLE.match(line))) and line != END
        if in_code or in_table or line.startswith("#"):
            continue
        masked = without_code(line)
        for hidden in (r"(?:< )?[\w.,−+-]*<!--=[^>]*-->", r"<!--.*?-->", r"\]\([^)]*\)"):
            masked = re.sub(hidden, lambda part: "`" * len(part[0]), masked)
        for match in re.finditer(NUMBER, masked):
            if re.search(r"[A-Za-z_-]$", masked[: match.start()]):
                continue  # a part of a name
            words = re.sub(r"<!--.*?(-->|$)|^[^<]*-->", "", line[max(0, match.start() - 40) : match.end() + 40])
            found.append((number, match[0], words.strip()))
    return found
