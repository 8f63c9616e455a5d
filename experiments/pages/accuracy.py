"""docs/results/accuracy.md, from what tools/accuracy measured: experiments/results/epyc-DAY."""
from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType
from typing import Any

from shared.archive import ROOT, Source, extremes
from shared.chart import Axis, Line, Panel, Point, Style, chart
from shared.hardware import read_validation
from shared.page import Value, markdown
from shared.table import number

DAY, DAY_BEFORE = "epyc-2026-11-26", "epyc-2026-11-25"
NETWORKS = {"rnnlm": "RNNLM", "nmt": "NMT", "resnet": "ResNet-50", "inception_v3": "Inception-V3"}
MODULES = {"encoder": "Transformer encoder", "mobilenet_v3_small": "MobileNetV3-Small"}
PROFILE = Style("from the profile", "#d55e00", hollow=True)
MOMENT = Style("with op times of the moment", "#0072b2")
EQUAL = Style("as simulated", "#999999", dashed=True)

_Run = dict[str, Any]


def accuracy_table() -> ModuleType:
    """tools/accuracy_table, whose goals the tables use."""
    loader = SourceFileLoader("accuracy_table", str(ROOT / "tools" / "accuracy_table"))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]], dict[str, str]]:
    day, day_before = source.path(DAY), source.path(DAY_BEFORE)
    runs = {name: read_validation(day, name) for name in (*NETWORKS, *MODULES)}
    before = {
        name: (read_validation(day_before, name), read_validation(day_before, name + ".rerun")) for name in NETWORKS
    }
    errors = accuracy_table().errors
    main = [["model", "predicted by", "median", "90th percentile", "Spearman"]]
    for name, title in NETWORKS.items():
        rerun = before[name][1]["summary"]["rerun"]
        main += error_rows(errors, f"{title}, {ops_of(name):,} ops", runs[name], rerun)
        main.append(["", "*the machine: a run of an hour or more later, the day before*", *errors(rerun, None, None)])
    modules = [["module", *main[0][1:]]]
    for name, title in MODULES.items():
        modules += error_rows(errors, title, runs[name], None)
    tables = {
        "main": markdown(main, left=2),
        "modules": markdown(modules, left=2),
        "speeds": speed_table({title: runs[name] for name, title in NETWORKS.items()}, "model"),
        "module_speeds": speed_table({title: runs[name] for name, title in MODULES.items()}, "module"),
        "before": before_table(before),
        "best": best_table(before),
    }
    picture = chart(
        "Measured against simulated speed",
        [panel(title, runs[name]) for name, title in NETWORKS.items()],
        [PROFILE, MOMENT, EQUAL],
        2,
    )
    return all_figures(runs, before), tables, {"accuracy.svg": picture}


def ops_of(name: str) -> int:
    """Ops of the networks that tools/accuracy makes: a validation does not have them."""
    return {"rnnlm": 1244, "nmt": 6189, "resnet": 1158, "inception_v3": 3019}[name]


def error_rows(errors: Any, title: str, run: _Run, rerun: dict[str, Any] | None) -> list[list[str]]:
    of = run["summary"]
    own = of["ceiling"]
    return [
        [title, "profile", *errors(of, own, rerun)],
        ["", "op times of the moment", *errors(of["interleaved"], own, rerun)],
        ["", "*the machine: odd rounds, of even ones*", *errors(own, None, None)],
    ]


def best_of(run: _Run) -> dict[str, Any]:
    """The placement that is best in the simulator."""
    return min((case for case in run["cases"] if "speed_up" in case), key=lambda case: case["simulated_us"])


def says(run: _Run) -> float:
    """How many times as fast as everything on one core the simulator says that it is."""
    found = [line.partition("the simulator says ")[2] for line in run["verdict"]]
    return float(next(text for text in found if text).split(")")[0])


def speed_table(runs: dict[str, _Run], what: str) -> list[str]:
    title = [what, "times as fast as everything on one core", "95 %", "the simulator says"]
    table = [[*title, "contention of the moment", "of the profile"]]
    for name, run in runs.items():
        best, contention = best_of(run), run["summary"]["contention"]
        low, high = best["speed_up_95"]
        measured = [number(contention[key], 2) for key in ("measured", "costs")]
        said = number(says(run), 2)
        table.append([name, number(best["speed_up"], 2), f"{number(low, 2)} to {number(high, 2)}", said, *measured])
    return markdown(table)


def before_table(before: dict[str, tuple[_Run, _Run]]) -> list[str]:
    table = [["model", "first run", "110 minutes later", "*the machine: the first run, of the second*"]]
    for name, title in NETWORKS.items():
        first, later = (run["summary"] for run in before[name])
        cells = [of_errors(found) for found in (first["interleaved"], later["interleaved"], later["rerun"])]
        table.append([title, *cells])
    return markdown(table)


def of_errors(found: dict[str, float]) -> str:
    median, p90 = (number(100 * found[key], 1) for key in ("median_step_error", "p90_step_error"))
    return f"{median} / {p90} / {number(found['spearman'], 3)}"


def best_table(before: dict[str, tuple[_Run, _Run]]) -> list[str]:
    table = [["model", "best placement, first run", "110 minutes later", "the simulator says"]]
    for name, title in NETWORKS.items():
        cells = []
        for run in before[name]:
            best = best_of(run)
            low, high = (number(value, 2) for value in best["speed_up_95"])
            cells.append(f"{number(best['speed_up'], 2)} ({low} to {high})")
        table.append([title, *cells, number(says(before[name][0]), 2)])
    return markdown(table)


def all_figures(runs: dict[str, _Run], before: dict[str, tuple[_Run, _Run]]) -> dict[str, Value]:
    figures: dict[str, Value] = {}
    summaries = {name: run["summary"] for name, run in runs.items()}
    networks = [summaries[name] for name in NETWORKS]
    for name, of in summaries.items():
        figures[name + ".profile.signed"] = 100 * of["mean_signed_step_error"]
        figures[name + ".moment.signed"] = 100 * of["interleaved"]["mean_signed_step_error"]
        figures[name + ".short"] = -figures[name + ".moment.signed"]
        figures[name + ".fast"] = -figures[name + ".profile.signed"]
        figures[name + ".profile"] = 100 * of["median_step_error"]
        figures[name + ".contention"] = 100 * (of["contention"]["measured"] - 1)
        figures[name + ".contention.profile"] = 100 * (of["contention"]["costs"] - 1)
        figures[name + ".speed"] = best_of(runs[name])["speed_up"]
    ranges = {
        "speed": [best_of(runs[name])["speed_up"] for name in NETWORKS],
        "moment": [100 * of["interleaved"]["median_step_error"] for of in networks],
        "moment.p90": [100 * of["interleaved"]["p90_step_error"] for of in networks],
        "profile": [100 * of["median_step_error"] for of in networks],
        "profile.signed": [100 * of["mean_signed_step_error"] for of in networks],
        "machine": [100 * later["summary"]["rerun"]["median_step_error"] for _, later in before.values()],
    }
    for name, values in ranges.items():
        figures[name + ".min"], figures[name + ".max"] = extremes(values)
    kept = sum(of["interleaved"]["spearman"] >= min(0.97, of["ceiling"]["spearman"] - 0.01) for of in networks)
    figures["order.kept"] = kept
    counted = sum(of["counted_steps"] for of in networks)
    figures["disturbed"] = 100 * sum(of["disturbed_steps"] for of in networks) / counted
    return figures


def panel(title: str, run: _Run) -> Panel:
    """Speeds over everything on one core."""
    reference = run["summary"]["reference_us"]
    points: list[Point | Line] = []
    ends = []
    for case in run["cases"]:
        if "speed_up" not in case:
            continue
        low, high = case["speed_up_95"]
        for key, style in (("simulated_us", PROFILE), ("interleaved_us", MOMENT)):
            simulated = reference / case[key]
            points.append(Point(simulated, case["speed_up"], style, low, high))
            ends += [simulated, low, high]
    least, most = min(ends) * 0.95, max(ends) * 1.05
    line = Line([(least, least), (most, most)], EQUAL)
    x, y = (Axis(f"{what}, times one core", least, most) for what in ("simulated", "measured"))
    return Panel(title, x, y, [line, *points])
