"""Tests of experiments/pages/shared/hardware.py: files of emplace validate."""
import gzip
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["EMPLACE_ROOT"], "experiments", "pages"))

from scratch_folder import ScratchFolderTest  # noqa: E402
from shared.archive import BadInput  # noqa: E402
from shared.hardware import read_validation  # noqa: E402


class ReadValidationTest(ScratchFolderTest):
    def write(self, content):
        (self.folder / "nmt.validation.json.gz").write_bytes(content)

    def refuses(self, reason):
        with self.assertRaisesRegex(BadInput, "nmt.validation.json.gz: is not an emplace.validation .*" + reason):
            read_validation(self.folder, "nmt")

    def test_a_file_is_read(self):
        record = {"schema": "emplace.validation", "cases": []}
        self.write(gzip.compress(json.dumps(record).encode()))
        self.assertEqual(read_validation(self.folder, "nmt"), record)

    def test_what_validate_did_not_write_is_refused(self):
        self.refuses("FileNotFoundError")
        self.write(b"no gzip")
        self.refuses("BadGzipFile")
        good = gzip.compress(json.dumps({"schema": "emplace.validation"}).encode())
        self.write(good[: len(good) // 2])
        self.refuses("EOFError")
        self.write(gzip.compress(b"[]"))
        self.refuses("TypeError")
        self.write(gzip.compress(b'{"schema": "emplace.result"}'))
        self.refuses("schema is emplace.result")


if __name__ == "__main__":
    unittest.main()
