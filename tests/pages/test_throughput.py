"""experiments/pages/throughput.py and import.py."""
import os
import sys
import unittest
from importlib import import_module
from pathlib import Path

PAGES = Path(os.environ["EMPLACE_ROOT"]) / "experiments" / "pages"
sys.path.insert(0, str(PAGES))

from shared.archive import BadInput  # noqa: E402

THROUGHPUT, IMPORT = import_module("throughput"), import_module("import")


class Rows:
    """A source of CSV files, each a header and rows in one text."""

    def __init__(self, **files):
        self._files = files

    def rows(self, file):
        header, *rows = (line.split(",") for line in self._files[file.removesuffix(".csv")].split())
        return [dict(zip(header, row)) for row in rows]


HEADER = "graph,method,seed,evaluations,max_load_us,max_load_bound_us\n"


def cuts(text):
    return THROUGHPUT.read_cuts(Rows(throughput=HEADER + text))


class ThroughputTest(unittest.TestCase):
    def test_a_row_has_the_best_and_the_worst_seed(self):
        graphs = cuts(
            "LayerGraphs/a_b_training.json,expert,,,4000,1500 LayerGraphs/a_b_training.json,dp_contiguous,,,2500,1500\n"
            "LayerGraphs/a_b_training.json,pipedream,,,2600,1500\n"
            "LayerGraphs/a_b_training.json,multilevel_search,1,9,2100,1500\n"
            "LayerGraphs/a_b_training.json,multilevel_search,2,9,2000,1500"
        )
        row = THROUGHPUT.loads_table(graphs)[2]
        self.assertEqual(
            row,
            "| layers: a_b, training | 4.000 | 2.500 | 2.600 | **2.000 to 2.100** | 1.500 | 50.0 | 20.0 |",
        )

    def test_a_search_that_is_behind_is_not_bold(self):
        graphs = cuts(
            "OperatorGraphs/c_inference.json,dp_contiguous,,,1000,500 OperatorGraphs/c_inference.json,pipedream,,,1000,500\n"
            "OperatorGraphs/c_inference.json,multilevel_search,1,9,1100,500"
        )
        row = THROUGHPUT.loads_table(graphs)[2]
        self.assertEqual(row, "| operators: c, inference | – | 1.000 | 1.000 | 1.100 | 0.500 | – | −10.0 |")

    def all_graphs(self, search):
        """Rows of all graphs that the page names; `search`: the largest load of each seed."""
        text = ""
        for name in THROUGHPUT.THEIRS:
            text += f"{name},expert,,,40000,9000\n{name},dp_contiguous,,,20000,9000\n{name},pipedream,,,30000,9000\n"
            for seed, load in enumerate(search, 1):
                text += f"{name},multilevel_search,{seed},9,{load},9000\n"
        return text

    def test_figures_are_of_the_best_seed(self):
        text = self.all_graphs([16000, 20000])
        # On one graph no seed is below the contiguous split.
        text = text.replace(
            "bert_l-3_training.json,multilevel_search,1,9,16000", "bert_l-3_training.json,multilevel_search,1,9,20000"
        )
        figures, tables = THROUGHPUT.describe(Rows(throughput=HEADER + text))
        self.assertEqual((figures["graphs"], figures["contiguous.below"], figures["at_least_as_good"]), (10, 9, 10))
        self.assertAlmostEqual(figures["contiguous.most"], 20)
        self.assertAlmostEqual(figures["experts.least"], 50)
        self.assertAlmostEqual(figures["experts.most"], 60)
        self.assertEqual((figures["seeds"], figures["evaluations"], figures["gnmt.search"]), (2, 9, 16))
        # Among 17.790, 17.790, 17.778 and ours, 20, theirs is bold. Beside 41.746, 187.914 and 39.943, ours is.
        self.assertEqual(tables["theirs"][2], "| layers: bert24, inference | 17.790 | 17.790 | **17.778** | 20.000 |")
        self.assertEqual(tables["theirs"][3], "| layers: bert24, training | 41.746 | 187.914 | 39.943 | **20.000** |")

    def test_searches_of_different_length_are_refused(self):
        text = self.all_graphs([16000]).replace(
            "gnmt_inference.json,multilevel_search,1,9", "gnmt_inference.json,multilevel_search,1,8"
        )
        with self.assertRaisesRegex(BadInput, "seeds and evaluations of multilevel_search are not the same"):
            THROUGHPUT.describe(Rows(throughput=HEADER + text))

    def test_other_rows_are_refused(self):
        with self.assertRaisesRegex(BadInput, "throughput.csv: x: is not a row of tools/throughput_table"):
            cuts("x,expert,,,fast,1")


class ImportTest(unittest.TestCase):
    def test_files_that_are_read_are_counted(self):
        files = "file,format,ops,attributed_percent,seconds,mebibytes,refused\n"
        files += "a,kineto,3,99.5,0.10,15,\nb,onnx,4,100.0,1.30,20,\nc,,,,9.00,99,cut\n"
        large = "file,ops,seconds,gibibytes,graph_gigabytes,import_seconds,floor_seconds,ratio\n"
        large += "K,1473047,12.5,1.03,0.53,8.0,4.0,2.1\nL,25,0.01,0.01,0.00,,,\n"
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
        self.assertEqual(tables["floors"][2:], ["| K | 8.0 | 4.0 | 2.1 |"])

    def test_another_file_is_refused(self):
        with self.assertRaisesRegex(BadInput, "import.csv: is not of tools/import_table"):
            IMPORT.describe(Rows(**{"import": "file,format\na,kineto\n"}))


if __name__ == "__main__":
    unittest.main()
