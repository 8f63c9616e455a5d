"""A folder of a test's own, which goes with the test."""
import tempfile
import unittest
from pathlib import Path


class ScratchFolderTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
