#!/usr/bin/python3
"""infer-bench run as a user meets it: formats, grid, cold starts, inputs, Ctrl-C.

Run by ctest with INFER_BIN and INFER_SOURCE."""
import csv
import io
import json
import os
import subprocess
import sys
import time
import unittest

import numpy as np

from onnx_wire import model, node, value_info
from tool_test_case import BIN, MODEL, BenchTestCase, validate

QUICK = ["--min-runs", 5, "--min-time", 0.02, "--threads", 1, "--cold", 0]


class BenchRun(BenchTestCase):
    command = ("run",)

    def test_grid_cells_are_told_apart(self):
        report = self.report(MODEL, *QUICK, "--batch", "1,2", "--precision", "as-is,fp16,int8-weights")
        self.assertEqual([r["name"] for r in report["results"]],
                         [f"digits.onnx/{p}batch:{b}/threads:1" for p in ("", "precision:fp16/", "precision:int8-weights/")
                          for b in (1, 2)])
        for r in report["results"]:
            self.assertEqual(r["model"]["inputs"][0]["type"], f"f32[{r['batch']},1,32,32]")
            self.assertEqual(len(r["samples_ms"]), r["latency_ms"]["runs"])
            self.assertEqual(len(r["samples_at_ms"]), len(r["samples_cpu_ms"]))
        convert_ms = {r["precision"]: r["convert_ms"] for r in report["results"]}
        self.assertEqual(convert_ms["as-is"], 0)
        self.assertGreater(convert_ms["fp16"], 0)
        self.assertIn("fixed batch", self.bench(self.fixed(), *QUICK, "--batch", 2, code=2).stderr)
        self.assertIn("no input has", self.bench(MODEL, *QUICK, "--seq", "length=3", code=2).stderr)
        self.assertEqual(self.report(MODEL, *QUICK, "--seq", "batch=3")["results"][0]["extents"], {})

    def fixed(self):
        path = self.dir / "relu.onnx"
        path.write_bytes(model([node("Relu", ["x"], ["y"])], [value_info("x", [4, 2])], [value_info("y", [4, 2])]))
        return path

    def test_what_the_count_cannot_bear_is_null(self):
        ms = self.report(MODEL, *QUICK[2:], "--runs", 70, "--warmup", 3, "--set", "batch=1")["results"][0]["latency_ms"]
        self.assertEqual(ms["runs"], 70)
        self.assertIsNotNone(ms["p90"])
        self.assertIsNone(ms["p99"])
        self.assertEqual(ms["withheld"]["p99"], "needs 662 samples, there are 70")

    def test_cold_starts(self):
        report = self.report(MODEL, *QUICK[:-2], "--cold", 2, "--set", "batch=1")
        cold = report["results"][0]["cold"]
        self.assertEqual(cold["starts"], 2)
        stages = cold["stages_ms"]
        self.assertGreater(min(stages["process"], stages["load"], stages["compile"], stages["first"]), 0)
        self.assertAlmostEqual(sum(stages.values()) / cold["median"], 1, delta=0.5)  # of medians
        self.assertGreater(cold["peak_resident_bytes"], 1 << 20)
        if cold["allocated_peak_bytes"] is not None:  # not under sanitizers
            self.assertGreater(cold["allocated_peak_bytes"],
                               report["results"][0]["memory"]["weight_bytes"] / 2)
            self.assertLess(cold["allocated_peak_bytes"], 1 << 30)

    def test_peaks_are_of_the_process_alone(self):
        """Those of getrusage are also of the process that starts it, where that one is larger."""
        ballast = b"x" * (512 << 20)
        memory = self.report(MODEL, *QUICK[:-2], "--cold", 1, "--set", "batch=1")["results"][0]["memory"]
        for kind in ("peak_resident_bytes", "cold_peak_resident_bytes"):
            self.assertGreater(memory[kind], 1 << 20, kind)
            self.assertLess(memory[kind], len(ballast), kind)

    def test_formats(self):
        args = [MODEL, *QUICK, "--batch", "1,2"]
        report = json.loads(self.bench(*args, "--format", "json").stdout)
        validate(report)
        self.assertIsNone(report["error"])
        rows = list(csv.DictReader(io.StringIO(self.bench(*args, "--format", "csv").stdout)))
        self.assertEqual([r["batch"] for r in rows], ["1", "2"])
        self.assertGreater(float(rows[0]["median_ms"]), 0)
        markdown = self.bench(*args, "--format", "markdown").stdout.splitlines()
        self.assertRegex(markdown[1], r"^\|( -+:? \|)+$")
        self.assertEqual({line.count("|") for line in markdown[:4]}, {markdown[0].count("|")})
        gbench = json.loads(self.bench(*args, "--format", "gbench").stdout)
        self.assertEqual({b["run_name"] for b in gbench["benchmarks"]},
                         {"digits.onnx/batch:1/threads:1", "digits.onnx/batch:2/threads:1"})
        self.assertIn("want standard output", self.bench(*args, "--format", "csv", "--json", "-", code=2).stderr)
        table = self.bench(*args, env=dict(os.environ, TERM="xterm")).stdout
        self.assertNotIn("\x1b", table)  # no terminal
        self.assertRegex(table, r"[▁▂▃▄▅▆▇█]")

    def test_lines_come_as_results_do(self):
        came = []
        with subprocess.Popen([str(BIN / "infer-bench"), "run", MODEL, "--batch", "1,2", "--threads", "1", "--cold", "0",
                               "--min-time", "0.7", "--format", "jsonl"], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as process:
            for line in process.stdout:
                came.append((time.monotonic(), json.loads(line)))
        self.assertEqual(process.returncode, 0)
        self.assertEqual([record["type"] for _, record in came], ["begin", "result", "result", "end"])
        self.assertGreater(came[2][0] - came[1][0], 0.5)

    def test_denormals_are_counted(self):
        done = self.bench(MODEL, *QUICK, "--set", "batch=1", "--fill", "image=uniform:1e-40:2e-40", "--json",
                          self.dir / "r.json")
        numbers = json.loads((self.dir / "r.json").read_text())["results"][0]["numbers"]
        self.assertEqual(numbers["inputs"]["denormals"], 1024)
        self.assertIn("denormal", done.stderr)
        self.assertIn("there are normal", self.bench(MODEL, *QUICK, "--fill", "gauss", code=2).stderr)

    def test_own_values_give_the_extents(self):
        np.save(self.dir / "x.npy", np.ones((3, 1, 32, 32), np.float32))
        r = self.report(MODEL, *QUICK, "--input", self.dir / "x.npy")["results"][0]
        self.assertEqual((r["batch"], r["random_inputs"]), (3, []))

    def test_a_cell_that_fails_leaves_those_before_it(self):
        broken, path, page = self.dir / "broken.onnx", self.dir / "r.json", self.dir / "r.html"
        broken.write_bytes(b"nonsense")
        args = [MODEL, broken, *QUICK, "--set", "batch=1"]
        done = self.bench(*args, "--format", "jsonl", "--json", path, "--html", page, code=3)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["type"] for line in lines], ["begin", "result", "end"])
        report = json.loads(path.read_text())
        validate(report)
        self.assertEqual((len(report["results"]), report["interrupted"]), (1, False))
        for told in (report["error"], lines[-1]["error"], page.read_text(), done.stderr):
            self.assertIn("broken.onnx: ", told)
        self.assertIn("digits.onnx", self.bench(*args, code=3).stdout)
        self.assertIn("\nNot complete: ", self.bench(*args, "--format", "markdown", code=3).stdout)
        gbench = json.loads(self.bench(*args, "--format", "gbench", code=3).stdout)
        self.assertIn("broken.onnx: ", gbench["context"]["error"])
        # Where nothing was measured nothing is told but the failure, and that the lines have ended.
        path.unlink()
        self.assertEqual(self.bench(broken, *QUICK, "--json", path, code=3).stdout, "")
        self.assertFalse(path.exists())
        lines = self.bench(broken, *QUICK, "--format", "jsonl", code=3).stdout.splitlines()
        self.assertEqual([json.loads(line)["type"] for line in lines], ["begin", "end"])

    def test_memory_that_runs_out_is_a_cell_that_fails(self):
        report = self.report(MODEL, *QUICK, "--batch", "1,9999999999", code=71)
        self.assertEqual([r["batch"] for r in report["results"]], [1])
        self.assertIn("digits.onnx: ", report["error"])

    def test_interrupt_keeps_what_there_is(self):
        report, out = self.interrupted("infer-bench", "run", MODEL, "--batch", "1,2", "--threads", 1, "--cold", 0,
                                       "--min-runs", 1, "--min-time", 60, "--format", "jsonl", after=1.5)
        self.assertEqual(len(report["results"]), 1)
        self.assertTrue(report["results"][0]["interrupted"])
        self.assertEqual(report["results"][0]["ended"], "stopped")
        self.assertGreater(report["results"][0]["latency_ms"]["runs"], 5)
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([line["type"] for line in lines], ["begin", "result", "end"])
        self.assertTrue(lines[-1]["interrupted"])

    def test_interrupt_where_nobody_looks_up(self):
        """A step that takes seconds: the report has the cells before it, and the exit does not wait."""
        report, _ = self.interrupted("infer-bench", "run", MODEL, "--device", "reference", "--batch", "1,8192", "--threads", 1,
                                     "--cold", 0, "--min-runs", 1, "--min-time", 0, "--warmup", 0, after=4, within=6)
        self.assertGreaterEqual(len(report["results"]), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=2)
