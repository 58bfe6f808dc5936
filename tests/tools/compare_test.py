#!/usr/bin/python3
"""infer-bench compare with sides that say which times they took: verdicts, exit codes, reports.

Run by ctest with INFER_BIN and INFER_SOURCE."""
import json
import os
import pathlib
import unittest

from onnx_wire import model, node, value_info
from tool_test_case import ToolTestCase, run, validate

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


class Compare(ToolTestCase):
    def setUp(self):
        super().setUp()
        self.model = self.dir / "relu.onnx"
        self.model.write_bytes(
            model([node("Relu", ["x"], ["y"])], [value_info("x", [4])], [value_info("y", [4])]))
        self.lock = ["--lock", str(self.dir / "lock")]

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
        self.assertEqual((done.returncode, report["verdict"]), (6, "inconclusive"), done.stderr)
        done, _ = self.compare(a, b, "--budget", "0.2", "--allow-inconclusive")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(any("relu.onnx: inconclusive: " in w for w in report["warnings"]), report["warnings"])
        self.assertIn("relu.onnx: inconclusive: ", done.stderr)
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

    def test_fewer_starts_than_can_confirm_are_refused(self):
        a, b = self.side("a", 1.0), self.side("b", 1.05)
        done, report = self.compare(a, b, "--max-starts", "5")
        self.assertEqual((done.returncode, report), (2, None), done.stderr)
        done, report = self.compare(a, b, "--max-starts", "6")
        self.assertEqual((done.returncode, report["verdict"]), (1, "slower"), done.stderr)

    def test_interrupted_leaves_a_report(self):
        a, b = self.side("a", 1.0, pause=0.05), self.side("b", 1.0, pause=0.05)
        report, _ = self.interrupted("infer-bench", "compare", self.model, "--a", a, "--b", b, "--budget", 600,
                                     "--min-effect", "0.0001%", *self.lock, after=4, within=60)
        self.assertEqual(report["verdict"], "inconclusive")

    def test_history_is_appended_to_and_learnt_from(self):
        history = self.dir / "history.jsonl"
        options = ["--history", str(history), "--series", "s"]
        a, b = self.side("a", 1.0), self.side("b", 1.03)
        done, report = self.compare(a, b, *options)
        self.assertEqual((done.returncode, report["verdict"]), (1, "slower"), done.stderr)
        self.assertIsNone(report["noise_floor"])
        entry = json.loads(history.read_text())
        self.assertEqual((entry["verdict"], entry["kind"]), ("slower", "live"))
        # A series that is known to differ by 2 % from one comparison to the next: 3 % say nothing.
        with history.open("a") as f:
            f.write("half a li\n")
            for i in range(9):
                f.write(json.dumps({**entry, "effect": 0.02 if i % 2 else -0.02}) + "\n")
        done, report = self.compare(a, b, *options)
        self.assertEqual((done.returncode, report["passed"]), (0, True), done.stderr)
        self.assertGreater(report["noise_floor"]["share"], 0.05)
        self.assertIn("history.jsonl, line 2: no JSON object", done.stderr)
        self.assertEqual(len(history.read_text().splitlines()), 12)
        # Another series knows nothing of this one.
        done, report = self.compare(a, b, "--history", str(history), "--series", "t")
        self.assertEqual((done.returncode, report["noise_floor"]), (1, None))

    def test_series_of_a_history_are_one_length_and_one_level(self):
        def write(name, lengths, **more):
            """A cell for each length, with its time."""
            path = self.dir / f"{name}.json"
            path.write_text(json.dumps({
                "schema": "infer-bench/run@2", "host": {"cpu": "x"}, "device": "cpu", **more,
                "results": [{"model": {"path": "m.onnx", "sha256": "0"}, "threads": 1, "extents": {}, "seq": seq,
                             "samples_ms": [ms]} for seq, ms in lengths]}))
            return [str(path)]
        history = self.dir / "h.jsonl"
        for i in range(9):
            ms = 1 + 0.002 * (i % 2)
            c = write("c", [({"length": 64}, ms), ({"length": 128}, 2 * ms)])
            self.compare_files(c, c, "--history", str(history))
        series = {json.dumps(json.loads(line)["series"]) for line in history.read_text().splitlines()}
        self.assertEqual(len(series), 2)
        a = write("a", [({"length": 64}, 1), ({"length": 128}, 2)])
        b = write("b", [({"length": 64}, 1.5), ({"length": 128}, 2)])
        done, report = self.compare_files(a, b, "--history", str(history))
        self.assertEqual([p["verdict"] for p in report["pairs"]], ["slower", "same"], done.stdout)
        # Another level has no history yet, and says so.
        b = write("b", [({"length": 64}, 1.5)], settings={"level": 1})
        _, report = self.compare_files(a, b, "--history", str(history))
        self.assertIsNone(report["pairs"][0]["noise_floor"])
        self.assertEqual(json.loads(history.read_text().splitlines()[-1])["series"]["level"], 1)

    def run_report(self, name, times, model="m.onnx"):
        """Of as many processes as there are times, each in a file of its own."""
        files = []
        for i, ms in enumerate(times):
            path = self.dir / f"{name}{i}.json"
            path.write_text(json.dumps({
                "schema": "infer-bench/run@1", "host": {"cpu": "x", "isa": "y", "logical_cpus": 2},
                "results": [{"model": {"path": model, "sha256": "0"}, "batch": 1, "samples_ms": [ms, ms * 1.01, ms * 0.99]}]}))
            files.append(str(path))
        return files

    def compare_files(self, a, b, *options):
        report = self.dir / "files.json"
        report.unlink(missing_ok=True)
        more = [x for side, files in (("--a", a), ("--b", b)) for f in files[1:] for x in (side, f"report={f}")]
        done = run("infer-bench", "compare", a[0], b[0], *more, "--json", str(report), *options)
        parsed = json.loads(report.read_text()) if report.exists() else None
        if parsed:
            validate(parsed)
        return done, parsed

    def test_reports_of_several_starts(self):
        a = self.run_report("a", [1.0, 1.01, 0.99, 1.005, 1.002, 0.998])
        b = self.run_report("b", [1.1, 1.11, 1.09, 1.105, 1.102, 1.098])
        done, report = self.compare_files(a, b)
        self.assertEqual((done.returncode, report["pairs"][0]["verdict"]), (1, "slower"), done.stderr)
        self.assertAlmostEqual(report["pairs"][0]["effect"]["value"], 0.1, delta=0.01)
        self.assertLess(report["pairs"][0]["mann_whitney_p"], 0.01)
        self.assertEqual(report["warnings"], [])
        done, report = self.compare_files(a, b, "--fail-above", "20%")
        self.assertEqual((done.returncode, report["passed"]), (0, True))

    def test_reports_of_one_process_say_nothing_without_a_history(self):
        a, b = self.run_report("a", [1.0]), self.run_report("b", [1.2])
        done, report = self.compare_files(a, b)
        self.assertEqual((done.returncode, report["pairs"][0]["verdict"]), (6, "inconclusive"))
        self.assertIn("not independent", done.stdout)
        self.assertIn("m.onnx batch=1: inconclusive: 1 start, ", report["warnings"][-1])
        self.assertEqual(self.compare_files(a, b, "--strict")[0].returncode, 1)
        history = ["--history", str(self.dir / "h.jsonl")]
        for i in range(9):
            c = self.run_report(f"c{i}", [1.0 + 0.002 * (i % 2)])
            self.assertIn(self.compare_files(a, c, *history)[0].returncode, (0, 6))
        done, report = self.compare_files(a, b, *history)
        self.assertEqual((done.returncode, report["pairs"][0]["verdict"]), (1, "slower"), done.stdout)

    def test_google_benchmark_and_broken_reports(self):
        for name, ns in (("a", 1000), ("b", 1100)):
            (self.dir / f"{name}.json").write_text(json.dumps({
                "context": {"num_cpus": 2}, "benchmarks": [
                    {"name": "BM_x", "run_name": "BM_x", "run_type": "iteration", "real_time": ns + i, "time_unit": "ns"} for i in range(5)]}))
        files = [[str(self.dir / "a.json")], [str(self.dir / "b.json")]]
        done, report = self.compare_files(*files)
        self.assertEqual((done.returncode, report["a"]["format"]), (6, "google-benchmark"), done.stderr)
        self.assertEqual(report["pairs"][0]["verdict"], "inconclusive")
        self.assertAlmostEqual(report["pairs"][0]["of_runs"]["value"], 0.1, delta=0.01)
        for text in ("", "[]", "{}", '{"schema": "infer-bench/run@1", "results": 7}', '{"benchmarks": [3]}',
                     '{"schema": "infer-bench/compare@1", "sides": [{}, {"starts": [1]}]}',
                     '{"schema": "infer-bench/run@9", "results": [{"samples_ms": [1]}]}', '{"a":' * 99 + "1" + "}" * 99):
            (self.dir / "b.json").write_text(text)
            done, report = self.compare_files(*files)
            self.assertEqual(done.returncode, 3, f"{text}: {done.stdout} {done.stderr}")
            self.assertIn("b.json: ", done.stderr)
            self.assertIsNone(report)
        os.mkfifo(self.dir / "pipe.json")
        (self.dir / "folder.json").mkdir()
        for name in ("folder", "pipe", "none"):
            path = self.dir / f"{name}.json"
            self.assertEqual(self.compare_files(files[0], [str(path)])[0].returncode, 5)

    def test_our_own_reports_are_read(self):
        runs = []
        for name in "ab":
            path = self.dir / f"{name}.json"
            done = run("infer-bench", "run", str(self.model), "--json", str(path))
            self.assertEqual(done.returncode, 0, done.stderr)
            runs.append([str(path)])
        done, report = self.compare_files(*runs)
        self.assertIn(done.returncode, (0, 1, 6), done.stderr)
        self.assertEqual(report["a"]["format"].split("@")[0], "infer-bench/run")
        _, live = self.compare(self.side("a", 1.0), self.side("b", 1.05))
        path = self.dir / "live.json"
        path.write_text(json.dumps(live))
        done, report = self.compare_files([str(path)], [str(path)], "--a", "side=a")
        self.assertEqual(report["pairs"][0]["a_starts_ms"], [s["fastest_ms"] for s in live["sides"][0]["starts"]])
        self.assertIn(done.returncode, (0, 1, 6), done.stderr)

    def test_github_annotations_and_the_workflow_that_prints_them(self):
        import shlex
        text = (pathlib.Path(os.environ["INFER_SOURCE"]) / "docs/ci/compare.yml").read_text()
        command = text[text.index("head/build/release/bin/infer-bench compare"):text.index(" | tee")]
        words = shlex.split(command.replace("\\\n", " "))
        summary = self.dir / "summary.md"
        binaries = {"a": self.side("a", 1.0), "b": self.side("b", 1.05)}
        words = [{"head/$MODEL": str(self.model), "$GITHUB_STEP_SUMMARY": str(summary),
                  "binary=base/build/release/bin/infer-bench": binaries["a"],
                  "binary=head/build/release/bin/infer-bench": binaries["b"],
                  "history.jsonl": str(self.dir / "history.jsonl"),
                  "verdict.json": str(self.dir / "verdict.json")}.get(w, w) for w in words]
        done = run("infer-bench", *words[1:], *self.lock)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"^::error title=infer-bench%3A [^\n]*relu.onnx::B is slower: it takes \+[0-9.]+ %25 [^\n]*\n$")
        self.assertIn("| **slower** |", summary.read_text())
        validate(json.loads((self.dir / "verdict.json").read_text()))
        self.assertEqual(len((self.dir / "history.jsonl").read_text().splitlines()), 1)
        done, _ = self.compare(binaries["a"], binaries["b"], "--fail-above", "10%", "--format", "markdown")
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout.startswith("| | verdict |"), done.stdout)

    def test_a_large_difference_is_found_by_five_starts(self):
        done, report = self.compare(self.side("a", 3.0), self.side("b", 1.0))
        self.assertEqual((done.returncode, report["verdict"], len(report["sides"][0]["starts"])), (0, "faster", 5))

    def test_a_suspicion_is_followed_up_beyond_the_budget(self):
        a, b = self.side("a", 3.0, pause=0.04), self.side("b", 1.0, pause=0.04)
        seconds = self.compare(a, b)[1]["seconds"]
        done, report = self.compare(a, b, "--budget", str(seconds * 0.85))
        self.assertEqual(report["verdict"], "faster", done.stdout)

    def test_our_own_engine_on_both_sides(self):
        done, report = self.compare("threads=1", "env:INFER_MAX_ISA=avx2", "--budget", "2")
        self.assertIn(done.returncode, (0, 1, 6), done.stderr)
        self.assertGreater(len(report["sides"][1]["starts"]), 0)
        self.assertEqual(report["sides"][1]["environment"], ["INFER_MAX_ISA=avx2"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
