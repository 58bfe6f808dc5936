#!/usr/bin/python3
"""infer-bench compare with sides that say which times they took: verdicts, exit codes, reports.

Run by ctest with INFER_BIN and INFER_SOURCE."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from cli_test import BIN, run, validate
from onnx_wire import model, node, value_info

# An infer-bench of its own: the worker's protocol, one run in {ms} ms and a little by process.
SIDE = """#!/usr/bin/python3
import json, os, sys, time
for line in sys.stdin:
    op = json.loads(line)["op"]
    reply = {{"ok": True}}
    if op == "load":
        {on_load}
        reply.update(load_ms=1.0, first_ms={ms}, settings={{}})
    elif op == "run":
        count = json.loads(line)["count"]
        time.sleep({pause})
        jitter = 1 + 0.002 * ((os.getpid() * 2654435761 % 1000) / 1000 - 0.5)
        reply["ns"] = [int({ms} * 1e6 * jitter) + i % 3 for i in range(count)]
    print(json.dumps(reply), flush=True)
"""


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(self.folder.name)
        self.model = self.dir / "relu.onnx"
        self.model.write_bytes(
            model([node("Relu", ["x"], ["y"])], [value_info("x", [4])], [value_info("y", [4])]))
        self.lock = ["--lock", str(self.dir / "lock")]

    def tearDown(self):
        self.folder.cleanup()

    def side(self, name, ms, on_load="pass", pause=0):
        path = self.dir / name
        path.write_text(SIDE.format(ms=ms, on_load=on_load, pause=pause))
        path.chmod(0o755)
        return f"binary={path}"

    def compare(self, a, b, *options):
        report = self.dir / "report.json"
        report.unlink(missing_ok=True)
        done = run("infer-bench", "compare", str(self.model), "--a", a, "--b", b, "--json", str(report), *self.lock, *options)
        parsed = json.loads(report.read_text()) if report.exists() else None
        if parsed:
            validate(parsed)
        return done, parsed

    def test_slower_fails(self):
        done, report = self.compare(self.side("a", 1.0), self.side("b", 1.05))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(report["verdict"], "slower")
        self.assertFalse(report["passed"])
        self.assertAlmostEqual(report["effect"]["value"], 0.05, delta=0.003)
        outcomes = [a["outcome"] for a in report["attempts"]]
        self.assertEqual(outcomes, ["suspected", "confirmed"])
        self.assertIn("B is slower", done.stdout)

    def test_faster_passes(self):
        done, report = self.compare(self.side("a", 1.0), self.side("b", 0.9))
        self.assertEqual((done.returncode, report["verdict"]), (0, "faster"), done.stderr)

    def test_same_passes(self):
        done, report = self.compare(self.side("a", 1.0), self.side("b", 1.001))
        self.assertEqual((done.returncode, report["verdict"]), (0, "same"), done.stderr)
        self.assertLessEqual(len(report["sides"][0]["starts"]), 4)

    def test_fail_above_allows_less(self):
        a, b = self.side("a", 1.0), self.side("b", 1.05)
        done, report = self.compare(a, b, "--fail-above", "10%")
        self.assertEqual((done.returncode, report["verdict"]), (0, "slower"), done.stderr)
        done, report = self.compare(a, b, "--fail-above", "4%")
        self.assertEqual((done.returncode, report["passed"]), (1, False), done.stderr)

    def test_no_time_is_inconclusive(self):
        a, b = self.side("a", 1.0, pause=0.02), self.side("b", 1.05, pause=0.02)
        done, report = self.compare(a, b, "--budget", "0.2")
        self.assertEqual((done.returncode, report["verdict"]), (0, "inconclusive"), done.stderr)
        done, report = self.compare(a, b, "--budget", "0.2", "--strict")
        self.assertEqual((done.returncode, report["passed"]), (1, False), done.stderr)

    def test_a_side_that_fails_is_named(self):
        done, report = self.compare(self.side("a", 1.0), self.side("b", 1.0, on_load="sys.exit(9)"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("side B: ended with exit code 9", done.stderr)
        self.assertIsNone(report)
        done, _ = self.compare("threads=1", f"binary={self.dir / 'none'}")
        self.assertIn("side B", done.stderr)
        self.assertEqual(done.returncode, 2)

    def test_settings_are_checked(self):
        for text in ("threads", "threads=0", "level=3", "device=abacus", "rewrites=much", "colour=red"):
            done, _ = self.compare(text, "level=2")
            self.assertEqual(done.returncode, 2, text)
            self.assertIn(text, done.stderr)

    def test_interrupted_leaves_a_report(self):
        report = self.dir / "partial.json"
        a, b = self.side("a", 1.0, pause=0.05), self.side("b", 1.0, pause=0.05)
        process = subprocess.Popen(
            [BIN / "infer-bench", "compare", str(self.model), "--a", a, "--b", b, "--budget", "600", "--min-effect", "0.0001%",
             "--json", str(report), *self.lock], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        parsed = json.loads(report.read_text())
        validate(parsed)
        self.assertTrue(parsed["interrupted"])
        self.assertEqual(parsed["verdict"], "inconclusive")

    def test_our_own_engine_on_both_sides(self):
        done, report = self.compare("threads=1", "env:INFER_MAX_ISA=avx2", "--budget", "2")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertGreater(len(report["sides"][1]["starts"]), 0)
        self.assertEqual(report["sides"][1]["environment"], ["INFER_MAX_ISA=avx2"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
