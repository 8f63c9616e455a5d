"""experiments/pages/throughput.py and import.py."""
import importlib.util
import os
import sys
import unittest
from pathlib import Path

PAGES = Path(os.environ["EMPLACE_ROOT"]) / "experiments" / "pages"
sys.path.insert(0, str(PAGES))

from shared.archive import BadInput  # noqa: E402


def page(name):
    spec = importlib.util.spec_from_file_location("page_" + name, PAGES / (name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


THROUGHPUT, IMPORT = page("throughput"), page("import")


class Rows:
    """A source of CSV files, each a header and rows in one text."""

    def __init__(self, **files):
        self._files = files

    def rows(self, file):
        header, *rows = (line.split(",") for line in self._files[file.removesuffix(".csv")].split())
        return [dict(zip(header, row)) for row in rows]


HEADER = "graph,method,seed,max_load_us,max_load_bound_us\n"


def cuts(text):
    return THROUGHPUT.read_cuts(Rows(throughput=HEADER + text))


class ThroughputTest(unittest.TestCase):
    def test_a_row_has_the_best_and_the_worst_seed(self):
        graphs = cuts(
            "LayerGraphs/a_b_training.json,expert,,4000,1500 LayerGraphs/a_b_training.json,dp_contiguous,,2500,1500\n"
            "LayerGraphs/a_b_training.json,pipedream,,2600,1500\n"
            "LayerGraphs/a_b_training.json,multilevel_search,1,2100,1500\n"
            "LayerGraphs/a_b_training.json,multilevel_search,2,2000,1500"
        )
        row = THROUGHPUT.loads_table(graphs)[2]
        self.assertEqual(
            row,
            "| layers: a_b, training | 4.000 | 2.500 | 2.600 | **2.000 to 2.100** | 1.500 | 50.0 | 20.0 |",
        )

    def test_a_search_that_is_behind_is_not_bold(self):
        graphs = cuts(
            "OperatorGraphs/c_inference.json,dp_contiguous,,1000,500 OperatorGraphs/c_inference.json,pipedream,,1000,500\n"
            "OperatorGraphs/c_inference.json,multilevel_search,1,1100,500"
        )
        row = THROUGHPUT.loads_table(graphs)[2]
        self.assertEqual(row, "| operators: c, inference | – | 1.000 | 1.000 | 1.100 | 0.500 | – | −10.0 |")

    def test_other_rows_are_refused(self):
        with self.assertRaisesRegex(BadInput, "throughput.csv: x: is no row of tools/throughput_table"):
            cuts("x,expert,,fast,1")


class ImportTest(unittest.TestCase):
    def test_files_that_are_read_are_counted(self):
        files = "file,format,ops,attributed_percent,seconds,mebibytes,refused\n"
        files += "a,kineto,3,99.5,0.10,15,\nb,onnx,4,100.0,1.30,20,\nc,,,,9.00,99,cut\n"
        large = "file,ops,seconds,gibibytes,graph_gigabytes,floor_seconds,import_seconds\n"
        large += "K,1473047,12.5,1.03,0.53,4.0,8.0\nL,25,0.01,0.01,0.00,,\n"
        figures, tables = IMPORT.describe(Rows(**{"import": files, "import_large": large}))
        self.assertEqual([figures[key] for key in ("files", "read", "refused")], [3, 2, 1])
        self.assertEqual(
            (figures["seconds.most"], figures["mebibytes.most"], figures["gpu_traces.least"]), (1.3, 20, 99.5)
        )
        self.assertEqual(tables["files"][1], "| --- | --- | ---: | ---: | ---: | ---: | --- |")
        self.assertEqual(tables["files"][4], "| c | | | | 9.00 | 99 | cut |")
        self.assertEqual(
            tables["large"][2:], ["| K | 1,473,047 | 12.5 | 1.03 | 0.53 |", "| L | 25 | 0.01 | 0.01 | 0.00 |"]
        )
        self.assertEqual(tables["floors"][2:], ["| K | 8.0 | 4.0 | 2.0 |"])

    def test_another_file_is_refused(self):
        with self.assertRaisesRegex(BadInput, "import.csv: is not of tools/import_table"):
            IMPORT.describe(Rows(**{"import": "file,format\na,kineto\n"}))


if __name__ == "__main__":
    unittest.main()
