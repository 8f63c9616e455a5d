"""A results page beside what its template gives: every figure, every cell of a table, every picture."""
from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from shared.archive import BadInput

Table = list[list[str]]  # the first row is the header; each column but the first is aligned to the right
Value = float | str


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


class Rendered:
    """The text that a template gives, in which each figure and each table still has its name: control characters stand
    before the name, before the text and behind it."""

    _MARK = re.compile("\x02([^\x03]*)\x03([^\x04]*)\x04")
    _TABLE = re.compile("\x02([^\x03]*)\x03([^\x04]*\n[^\x04]*)\x04$")
    _LINE_END = re.compile("\n(?![^\x02\x04]*\x04)")  # not those within a table

    def __init__(self, marked: str) -> None:
        self._marked = marked

    @staticmethod
    def mark(name: str, text: str) -> str:
        return f"\x02{name}\x03{text}\x04"

    @property
    def text(self) -> str:
        return self._MARK.sub(r"\2", self._marked)

    def compare(self, page: str) -> list[Check]:
        """The checks of a page. They end at a line whose words are not those of the template."""
        checks: list[Check] = []
        lines = page.splitlines()
        at = 0
        for expected in self._LINE_END.split(self._marked)[:-1]:
            table = self._TABLE.match(expected)
            if table:
                end = lines.index("", at) if "" in lines[at:] else len(lines)
                checks += _check_table(table[1], at + 1, lines[at:end], table[2].splitlines())
                at = end
            else:
                checks += self._check_line(at + 1, lines[at] if at < len(lines) else "", expected)
                at += 1
            if checks and checks[-1].figure == "words":
                return checks
        if page != self.text and all(check.agrees for check in checks):  # spaces in a table, or more lines
            both = zip_longest(page.split("\n"), self.text.split("\n"), fillvalue="(nothing)")
            number, (shown, expected) = next((at, pair) for at, pair in enumerate(both, 1) if pair[0] != pair[1])
            checks.append(Check(number, "words", *_around_difference(shown, expected)))
        return checks

    def _check_line(self, number: int, shown: str, expected: str) -> list[Check]:
        parts = self._MARK.split(expected)  # words, then a name, a text and words for each figure
        words, names, texts = parts[0::3], parts[1::3], parts[2::3]
        found = re.fullmatch("(.*?)".join(map(re.escape, words)), shown)
        if found:
            return [Check(number, *values) for values in zip(names, found.groups(), texts)]
        return [Check(number, "words", *_around_difference(shown, self._MARK.sub(r"\2", expected)))]


def _around_difference(one: str, other: str) -> tuple[str, str]:
    """The two lines from a few characters before where they begin to differ."""
    same = next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    begin = max(0, same - 20)
    return repr(one[begin : same + 20]), repr(other[begin : same + 20])


def markdown(table: Table, left: int = 1, words: Collection[int] = ()) -> list[str]:
    """The lines of a table; the first `left` columns and those with the numbers `words` are aligned to the left."""
    align = ["---" if column < left or column in words else "---:" for column in range(len(table[0]))]
    return ["|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in [table[0], align, *table[1:]]]


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


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


def _check_table(name: str, first: int, shown: list[str], computed: list[str]) -> list[Check]:
    checks = []
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
    return checks
