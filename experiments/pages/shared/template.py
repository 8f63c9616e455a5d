"""A results page as a Jinja2 template: {{ gain.max | number(1) }} is a figure, {{ tables.main }} on a line of its own a
table, and {{ pages.post.claim.ppo.less | number }} a figure of another page."""
from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from jinja2 import Environment, StrictUndefined, TemplateSyntaxError, UndefinedError, meta, nodes

from shared import table
from shared.archive import BadInput
from shared.page import Rendered, Value

WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
).split()


class Figure:
    """The value of a name. It has no public members, since every attribute continues the name: `again.hours` has a
    value, and so does `again.hours.two_cores`. A part that is not an identifier is an item: `runs["3db9656"]`."""

    __slots__ = ("_name", "_values")

    def __init__(self, name: str, values: Mapping[str, Value | list[str]]) -> None:
        self._name = name
        self._values = values

    def __getattr__(self, part: str) -> Figure:
        if part.startswith("__"):
            raise AttributeError(part)
        return self[part]

    def __getitem__(self, part: str | int) -> Figure:
        return Figure(f"{self._name}.{part}", self._values)


class _Shown(str):
    """The text of a figure, with the figure's name."""

    name: str

    @staticmethod
    def of(figure: Figure, text: str) -> _Shown:
        shown = _Shown(text)
        shown.name = figure._name
        return shown


def _value(figure: Figure) -> Value | list[str]:
    if figure._name not in figure._values:
        raise BadInput(f"figure {figure._name} is not computed by experiments/pages")
    return figure._values[figure._name]


def _finalize(shown: object) -> object:
    """What an expression writes into the page: a name, and the text that it stands for."""
    if isinstance(shown, Figure):
        value = _value(shown)
        if isinstance(value, list):
            value = "\n".join(value)
        if not isinstance(value, str):
            raise BadInput(f"figure {shown._name} is a number without a format (such as {shown._name} | number)")
        shown = _Shown.of(shown, value)
    return Rendered.mark(shown.name, shown) if isinstance(shown, _Shown) else shown


def _filter(text_of: Callable[..., str]) -> Callable[..., _Shown]:
    """A filter of Jinja2 from a function that formats a number."""

    def shown(figure: Figure, *arguments: int) -> _Shown:
        value = _value(figure)
        if isinstance(value, (str, list)):
            raise BadInput(f"figure {figure._name} is not a number")
        return _Shown.of(figure, text_of(value, *arguments))

    return shown


def number(value: float, decimals: int = 0) -> str:
    """The typographic minus sign, and commas between thousands."""
    text = f"{abs(value):,.{decimals}f}"
    return "−" + text if value < 0 and text.strip("0.,") else text


def signed(value: float, decimals: int = 0) -> str:
    text = number(value, decimals)
    return text if value < 0 else "+" + text


def words(value: float) -> str:
    """A count up to twenty as a word."""
    count = round(value)
    return WORDS[count] if 0 <= count < len(WORDS) else number(count)


def _capitalize(shown: _Shown) -> _Shown:
    capital = _Shown(shown.capitalize())
    capital.name = shown.name
    return capital


ENVIRONMENT = Environment(undefined=StrictUndefined, finalize=_finalize, keep_trailing_newline=True)
ENVIRONMENT.filters["capitalize"] = _capitalize
ENVIRONMENT.filters |= {
    text_of.__name__: _filter(text_of) for text_of in (number, signed, words, table.p_value, table.seconds)
}


class Template:
    def __init__(self, name: str, text: str) -> None:
        """`name` is what errors say."""
        self.name = name
        self.text = text
        try:
            self._tree = ENVIRONMENT.parse(text)
            self._template = ENVIRONMENT.from_string(text)
        except TemplateSyntaxError as error:
            raise BadInput(f"{name}:{error.lineno}: {error.message}") from error

    @staticmethod
    def read(path: Path, name: str) -> Template:
        try:
            return Template(name, path.read_text(encoding="utf-8"))
        except (OSError, UnicodeError) as error:
            raise BadInput(f"{name}: cannot be read ({getattr(error, 'strerror', None) or 'not UTF-8'})") from error

    def quoted_pages(self) -> list[str]:
        attributes = self._tree.find_all(nodes.Getattr)
        return sorted(
            {each.attr for each in attributes if isinstance(each.node, nodes.Name) and each.node.name == "pages"}
        )

    def render(self, values: Mapping[str, Value | list[str]]) -> Rendered:
        roots = {root: Figure(root, values) for root in meta.find_undeclared_variables(self._tree)}
        try:
            text = self._template.render(roots)
        except (BadInput, UndefinedError, TypeError) as error:
            frames = traceback.extract_tb(error.__traceback__)
            line = next(frame.lineno for frame in frames if frame.filename == "<template>")
            raise BadInput(f"{self.name}:{line}: {error}") from error
        return Rendered(f"<!-- Generated by tools/recompute from {self.name}: do not edit. -->\n{text}")

    def literals(self) -> list[tuple[int, str, str]]:
        """Numbers that the template states itself: line, number, the words around it. Leaves out code, links and
        comments."""
        found = []
        in_code = False
        for at, line in enumerate(self.text.splitlines(), 1):
            if line.lstrip().startswith("```"):
                in_code = not in_code
            if in_code or line.startswith("#"):
                continue
            masked = line
            for hidden in (r"`[^`]*`", r"\{\{.*?\}\}", r"<!--.*?-->", r"\]\([^)]*\)"):
                masked = re.sub(hidden, lambda part: "`" * len(part[0]), masked)
            for match in re.finditer(r"(?:< )?(?:(?<![\w.])[−+-])?\d+(?:,\d{3})*(?:\.\d+)?", masked):
                if not re.search(r"[A-Za-z_-]$", masked[: match.start()]):  # no part of a name
                    found.append((at, match[0], line[max(0, match.start() - 40) : match.end() + 40].strip()))
        return found
