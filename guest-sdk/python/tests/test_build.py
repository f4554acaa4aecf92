"""What a build tells: what modules print while they are loaded, and where they fail."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from leasehold import handler
from leasehold._build import listen

BUILD = Path(__file__).parents[1] / "build.py"


class Listening(unittest.TestCase):
    def test_what_is_printed_is_kept_and_the_streams_stay_as_they_were(self) -> None:
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
            with listen(Path(folder)):
                print("grüße")
                sys.stderr.write("")
            print("later")
            self.assertEqual((Path(folder) / "said.txt").read_text("utf-8"), "grüße\n")
            self.assertFalse((Path(folder) / "failed.txt").exists())
        self.assertEqual(out.buffer.getvalue().decode().splitlines(), ["grüße", "later"])

    def test_a_failure_is_told_without_the_frames_of_this_package(self) -> None:
        async def later(ctx: object, given: object) -> None: ...

        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(TypeError), listen(Path(folder)):
                handler(later)
            failed = (Path(folder) / "failed.txt").read_text("utf-8")
        self.assertIn("test_build.py", failed)
        self.assertIn("TypeError: later is async", failed)
        self.assertNotIn("_handler.py", failed)


@unittest.skipUnless("LEASEHOLD_PYTHON" in os.environ, "LEASEHOLD_PYTHON is not set: there is no componentize-py")
class Building(unittest.TestCase):
    def test_a_plugin_that_cannot_be_loaded_is_told_by_its_author_s_own_traceback(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "src").mkdir()
            (Path(folder) / "src" / "mine.py").write_text('print("loaded")\nPORT = int("x")\n')
            command = [os.environ["LEASEHOLD_PYTHON"], str(BUILD), "src", "mine", "-o", "mine.wasm"]
            built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        lines = built.stderr.splitlines()
        self.assertEqual((built.returncode, lines[0], lines[1]), (1, "loaded", "Traceback (most recent call last):"))
        self.assertEqual(lines[2], '  File "src/mine.py", line 2, in <module>')
        self.assertIn("ValueError: invalid literal", lines[-2])
        self.assertEqual(lines[-1], "build.py: mine cannot be loaded (above: why)")


if __name__ == "__main__":
    unittest.main()
