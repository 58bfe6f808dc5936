#!/usr/bin/python3
"""infer-bench peers with engines that are none: what a worker may say or do wrong, and what a
verdict takes. Nothing is measured: the engines say which times they took.

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

from onnx_wire import model, node, value_info
from tool_test_case import BIN, SOURCE, ToolTestCase, run, validate

# Speaks the protocol by itself: deterministic times, y = max(x, 0).
SCRIPTED = """
import array, json, os, sys
ms, scale, failing = {ms}, {scale}, {failing!r}
for line in sys.stdin:
    request = json.loads(line)
    op = request["op"]
    reply = {{"ok": True}}
    if op == failing:
        {action}
    if op == "hello":
        reply.update(engine="scripted", versions={{"scripted": "1"}})
    elif op == "load":
        loaded = request
        reply.update(load_ms=1.5, first_ms=ms, timed="nothing", 
                     settings={{"cpus": sorted(os.sched_getaffinity(0)), "device": {device!r}}})
    elif op == "run":
        reply["ns"] = [int(ms * 1e6)] * request["count"]
    elif op == "outputs":
        x = loaded["inputs"][0]
        values = array.array("f", open(x["file"], "rb").read())
        path = os.path.join(request["folder"], "y")
        open(path, "wb").write(array.array("f", [scale * max(v, 0) for v in values]).tobytes())
        reply["outputs"] = [{{"name": "y", "dtype": "f32", "dims": x["dims"], "file": path}}]
    {after}
    print(json.dumps(reply), flush=True)
"""

# Uses the protocol file, as a real worker does.
SERVED = """
import array
from peers_protocol import Engine, read_bytes, serve

class Served(Engine):
    name = "served"

    def hello(self):
        {hello}
        return {{"served": "2"}}

    def load(self, request):
        print("libraries print where they like")
        {load}
        self.x = request["inputs"][0]
        return "max", {{"symbols": request["symbols"]}}

    def step(self):
        self.y = array.array("f", [max(v, 0) for v in array.array("f", read_bytes(self.x))])

    def outputs(self):
        return [("y", "f32", self.x["dims"], self.y.tobytes())]

serve(Served())
"""


class Peers(ToolTestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(self.folder.cleanup)
        self.dir = pathlib.Path(self.folder.name)
        self.model = self.relu("relu.onnx")
        os.environ["INFER_BENCH_LOCK"] = str(self.dir / "lock")
        os.environ["TMPDIR"] = str(self.dir)  # its own, so that what is left in it shows

    def relu(self, name):
        path = self.dir / name
        path.write_bytes(model([node("Relu", ["x"], ["y"])], [value_info("x", ["n", 8])],
                               [value_info("y", ["n", 8])]))
        return path

    def scripted(self, name, ms=1.0, scale=1.0, failing="", action="pass", after="pass", device="cpu"):
        path = self.dir / f"{name}.py"
        path.write_text(SCRIPTED.format(ms=ms, scale=scale, failing=failing, action=action,
                                        after=after, device=device))
        return f"{name}={path}"

    def served(self, name, hello="pass", load="pass"):
        path = self.dir / f"{name}.py"
        path.write_text(SERVED.format(hello=hello, load=load))
        return f"{name}={path}"

    def peers(self, code, engines, workers, *args, models=None, python="/usr/bin/python3",
              rounds=3, starts=2, other_load=1000):
        """Exit code as expected; the validated report and what people read."""
        path = self.dir / "report.json"
        path.unlink(missing_ok=True)
        done = run("infer-bench", "peers", *(models or [self.model]), "--engines", engines,
                   *[x for w in workers for x in ("--worker", w)], "--python", python, "--rounds", rounds, "--starts", starts,
                   "--max-other-load", other_load, "--block-time", "0.01", "--json", path, *args)
        self.assertEqual(done.returncode, code, f"{done.stdout}\n{done.stderr}")
        report = json.loads(path.read_text())
        validate(report)
        self.assertEqual(list(self.dir.glob("infer-peers-*")), [])
        return report, done.stdout + done.stderr

    def test_ratio_of_known_times(self):
        a, b = self.scripted("a", ms=1.0), self.scripted("b", ms=2.0)
        report, said = self.peers(0, "a,b", [a, b], "--shape", "x=4x8")
        result, = report["results"]
        comparison, = result["comparisons"]
        self.assertEqual(comparison["ratio"], {"median": 0.5, "ci95": [0.5, 0.5]})
        self.assertEqual(comparison["verdict"], "faster")
        self.assertTrue(comparison["outputs_agree"])
        self.assertEqual(result["quiet_rounds"], 3)
        self.assertEqual([e["latency_ms"]["median"] for e in result["engines"]], [1.0, 2.0])
        self.assertRegex(said, r"0\.500 +0\.500 to 0\.500 +faster")
        for r in result["rounds"]:
            self.assertEqual(sorted(r["order"]), ["a", "b"])
            self.assertEqual(r["median_ms"], {"a": 1.0, "b": 2.0})

    def test_starts_share_the_rounds(self):
        started = self.dir / "started"
        log = f"open({str(started)!r}, 'a').write('x')"
        a, b = self.scripted("a", failing="load", action=log), self.scripted("b", ms=2.0)
        report, _ = self.peers(0, "a,b", [a, b], rounds=8, starts=3)
        result, = report["results"]
        self.assertEqual([r["start"] for r in result["rounds"]], [0, 0, 1, 1, 1, 2, 2, 2])
        self.assertEqual(started.read_text(), "xxx")
        self.assertEqual(result["engines"][0]["load_ms"], [1.5] * 3)
        self.assertEqual(result["comparisons"][0]["ratio"]["median"], 0.5)
        # One that fails at a later start has no verdict.
        a = self.scripted("a", failing="load",
                          action=log + f"; len(open({str(started)!r}).read()) == 5 and os._exit(9)")
        report, said = self.peers(1, "a,b", [a, b], rounds=8, starts=3)
        self.assertIn("exit code 9", said)
        self.assertIsNone(report["results"][0]["comparisons"][0]["ratio"])

    def test_what_starts_differ_by_counts_however_often_they_ran(self):
        """Rounds that agree with each other, in starts that do not: inconclusive."""
        count = self.dir / "count"
        log = f"open({str(count)!r}, 'a').write('x'); ms = 1.02 + 0.02 * (len(open({str(count)!r}).read()) % 3)"
        a, b = self.scripted("a", failing="load", action=log), self.scripted("b")
        report, _ = self.peers(6, "a,b", [a, b], "--max-ratio", "1.01", rounds=21, starts=3)
        self.peers(0, "a,b", [a, b], "--max-ratio", "1.01", "--allow-inconclusive", rounds=6, starts=3)
        comparison, = report["results"][0]["comparisons"]
        self.assertEqual((comparison["verdict"], comparison["gate"]), ("inconclusive", "inconclusive"))
        self.assertAlmostEqual(comparison["ratio"]["median"], 1.04, delta=0.001)
        report, _ = self.peers(0, "a,b", [a, b], rounds=4, starts=0)  # of six no more than there are rounds
        self.assertEqual([r["start"] for r in report["results"][0]["rounds"]], [0, 1, 2, 3])

    def test_workers_are_pinned_alike(self):
        report, _ = self.peers(0, "a,b", [self.scripted("a"), self.scripted("b")], "--threads", "1")
        result, = report["results"]
        self.assertEqual(len(result["cpus"]), 1)
        for engine in result["engines"]:
            self.assertEqual(engine["settings"]["cpus"], result["cpus"])

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one processor")
    def test_a_worker_that_leaves_its_processors_gets_no_verdict(self):
        b = self.scripted("b", failing="load", action="os.sched_setaffinity(0, range(1024))")
        report, said = self.peers(1, "a,b", [self.scripted("a"), b])
        self.assertIn("left the processors", said)
        self.assertIsNone(report["results"][0]["comparisons"][0]["ratio"])

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one processor")
    def test_threads_of_a_devices_driver_are_set_back(self):
        """A driver may make threads for all processors: with a device they are set back, and the report names them."""
        action = """
        import threading
        go = threading.Event()
        threading.Thread(target=lambda: (os.sched_setaffinity(0, range(1024)), go.set(), threading.Event().wait()), daemon=True).start()
        go.wait()"""
        def beside(device):
            return self.scripted("b", failing="load", action=action.strip(), device=device)
        report, _ = self.peers(0, "a,b", [self.scripted("a"), beside("vulkan")])
        a, b = report["results"][0]["engines"]
        self.assertEqual((a["brought_back_threads"], len(b["brought_back_threads"])), ([], 1))
        self.assertEqual(report["results"][0]["comparisons"][0]["ratio"]["median"], 1)
        _, said = self.peers(1, "a,b", [self.scripted("a"), beside("cpu")])
        self.assertIn("left the processors", said)

    def test_order_is_random_but_seeded(self):
        workers = [self.scripted(n) for n in "abc"]
        def orders(seed):
            report, _ = self.peers(0, "a,b,c", workers, "--seed", seed, rounds=9)
            return [r["order"] for r in report["results"][0]["rounds"]]
        first = orders(1)
        self.assertEqual(first, orders(1))
        self.assertNotEqual(first, orders(2))
        self.assertGreater(len({tuple(o) for o in first}), 2)

    def test_our_engine_is_a_worker_too(self):
        report, _ = self.peers(0, "infer,served", [self.served("served")], "--shape", "x=2x8")
        result, = report["results"]
        ours, served = result["engines"]
        self.assertEqual(ours["settings"]["level"], 2)
        self.assertGreater(ours["latency_ms"]["median"], 0)
        self.assertEqual(served["settings"], {"symbols": {"n": 2}})
        self.assertEqual([e["versions"].get("served") for e in report["engines"]], [None, "2"])
        self.assertLess(result["comparisons"][0]["outputs"][0]["max_ratio"], 1e-6)

    def test_rewritten_by_us(self):
        self.peers(0, "infer,served", [self.served("served")], "--rewrites", "fuse")

    def test_outputs_that_disagree_are_1_without_verdict(self):
        workers = [self.scripted("a"), self.scripted("b", scale=1.01), self.scripted("c", ms=0.5)]
        report, said = self.peers(1, "a,b,c", workers)
        wrong, right = report["results"][0]["comparisons"]
        self.assertIs(wrong["outputs_agree"], False)
        self.assertIsNone(wrong["ratio"])
        self.assertAlmostEqual(wrong["outputs"][0]["max_ratio"], 0.01 / 1.01, places=5)
        self.assertIn("no verdict: outputs disagree: output 'y': max|d|", said)
        self.assertEqual(right["ratio"]["median"], 2)
        # A tolerance that holds them lets them pass.
        self.peers(0, "a,b,c", workers, "--tolerance", "0.02")

    def test_a_missing_engine_is_told_and_an_error(self):
        workers = [self.scripted("a"), self.served("gone", hello="import no_such_package_here")]
        report, said = self.peers(4, "a,gone", workers)
        self.assertEqual([e["status"] for e in report["engines"]], ["ok", "missing"])
        self.assertEqual(report["results"], [])
        self.assertIn("gone: missing: No module named 'no_such_package_here'", said)
        report, said = self.peers(0, "a,gone", workers, "--skip-missing")
        self.assertIn("gone: missing", said)
        self.assertIn("left out", said)
        self.assertEqual(report["engines"][1]["status"], "missing")
        self.assertEqual(len(report["results"][0]["engines"]), 1)

    def test_a_missing_python_is_a_missing_engine(self):
        report, said = self.peers(4, "infer,ort", [], python=str(self.dir / "no-python"))
        self.assertEqual(report["engines"][1]["status"], "missing")
        self.assertIn("No such file", said)

    def test_an_engine_that_cannot_say_hello_is_not_skipped(self):
        workers = [self.scripted("a"), self.served("b", hello="raise RuntimeError('broken')")]
        report, said = self.peers(4, "a,b", workers, "--skip-missing")
        self.assertEqual(report["engines"][1]["status"], "failed")
        self.assertIn("b: failed: broken", said)

    def test_what_a_worker_may_do_wrong(self):
        cases = {
            "print('last words', file=sys.stderr); os._exit(3)": "exit code 3: last words",
            "os.kill(os.getpid(), 9)": "ended by signal 9",
            "print('no json'); sys.stdout.flush()": "not of the protocol: no json",
            "print('{}'); sys.stdout.flush()": "not of the protocol",
            "reply = {'ok': False, 'error': 'cannot Relu'}; print(json.dumps(reply), flush=True)":
                "cannot Relu",
        }
        for failing in ["load", "run", "outputs"]:
            for action, text in cases.items():
                with self.subTest(op=failing, action=action):
                    b = self.scripted("b", failing=failing, action=action)
                    report, said = self.peers(1, "a,b", [self.scripted("a"), b])
                    comparison, = report["results"][0]["comparisons"]
                    self.assertIsNone(comparison["ratio"])
                    self.assertIn(text, comparison["reason"])
                    self.assertIn("no verdict: b: ", said)
                    # The other engine is measured all the same.
                    self.assertEqual(
                        report["results"][0]["engines"][0]["latency_ms"]["median"], 1)

    def test_too_few_times(self):
        b = self.scripted("b", after="reply['ns'] = reply.get('ns', [])[1:]")
        _, said = self.peers(1, "a,b", [self.scripted("a"), b])
        self.assertRegex(said, r"asked for \d+ times it gave \d+")

    def test_outputs_that_are_none(self):
        for after, text in [("reply['outputs'] = []", "0 outputs came, not 1"),
                            ("reply.get('outputs', [{}])[0]['dims'] = [3, 8]", "bytes for f32")]:
            b = self.scripted("b", after=after)
            _, said = self.peers(1, "a,b", [self.scripted("a"), b], "--shape", "x=1x8")
            self.assertIn(text, said)

    def test_a_silent_worker_is_ended(self):
        b = self.scripted("b", failing="run", action="import time; time.sleep(100)")
        start = time.monotonic()
        _, said = self.peers(1, "a,b", [self.scripted("a"), b], "--timeout", "10")
        self.assertLess(time.monotonic() - start, 60)
        self.assertIn("no answer within 10 s: killed", said)

    def test_our_failure_leaves_no_verdict(self):
        a = self.scripted("a", failing="load", action="os._exit(7)")
        report, said = self.peers(1, "a,b", [a, self.scripted("b")])
        self.assertEqual(report["results"][0]["comparisons"][0]["verdict"], "none")
        self.assertIn("no verdict: a: ended with exit code 7", said)

    def test_other_load_leaves_no_verdict(self):
        spin = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            workers = [self.scripted("a"), self.scripted("b", failing="run",
                                                         action="import time; time.sleep(0.3)")]
            spoilt = {"other_load": 0}
            report, said = self.peers(0, "a,b", workers, "--max-rounds", "4", **spoilt)
            result, = report["results"]
            self.assertEqual((len(result["rounds"]), result["quiet_rounds"]), (4, 0))
            self.assertGreater(result["other_load"], 0.05)
            self.assertRegex(said, r"no verdict: other load \d\.\d\d cores")
            self.assertIsNone(result["comparisons"][0]["ratio"])
            self.peers(1, "a,b", workers, "--max-rounds", "4", "--strict", **spoilt)
        finally:
            spin.kill()
            spin.wait()

    def test_the_gate(self):
        workers = [self.scripted("a", ms=1.0), self.scripted("b", ms=0.8)]
        report, said = self.peers(1, "a,b", workers, "--max-ratio", "1.2")
        self.assertEqual(report["results"][0]["comparisons"][0]["gate"], "failed")
        self.assertIn("the ratio 1.250 is more than 1.2", said)
        report, _ = self.peers(0, "a,b", workers, "--max-ratio", "1.25")
        self.assertEqual(report["results"][0]["comparisons"][0]["gate"], "passed")

    def test_several_models_and_threads(self):
        models = [self.model, self.relu("second.onnx")]
        threads = [n for n in (1, 2) if n <= len(os.sched_getaffinity(0))]
        report, said = self.peers(0, "a,b", [self.scripted("a"), self.scripted("b", ms=4.0)],
                                  "--threads", ",".join(map(str, threads)), models=models)
        self.assertEqual([r["threads"] for r in report["results"]], threads * 2)
        for mean, n in zip(report["geometric_means"], threads):
            self.assertEqual((mean["threads"], mean["models"]), (n, [str(m) for m in models]))
            self.assertAlmostEqual(mean["ratio"]["median"], 0.25)
        self.assertIn("geometric mean of 2", said)

    def test_tables_of_reports(self):
        models = [self.model, self.relu("second.onnx")]
        report, _ = self.peers(1, "a,b,c", [self.scripted("a"), self.scripted("b", ms=4.0),
                                            self.scripted("c", scale=2.0)], models=models)
        path = self.dir / "report.json"
        self.assertTrue(path.exists())
        tool = pathlib.Path(SOURCE) / "tools/infer_bench/peers/report.py"
        done = subprocess.run(["/usr/bin/python3", str(tool), str(path)], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in ["## 1 thread", "Geometric mean a / b over 2 of 2 models: 0.25"]:
            self.assertIn(line, done.stdout.splitlines())
        self.assertRegex(done.stdout, r"\| relu \| 1 \| 4 \| - \| 0\.25 \(0\.25 to 0\.25\) \| no verdict")
        done = subprocess.run(["/usr/bin/python3", str(tool), "--above", "3", str(path)],
                              capture_output=True, text=True, timeout=60)
        self.assertIn("Geometric mean a / b over 2 of 2 models for which b takes more than 3 ms: 0.25; "
                      "largest 0.25", done.stdout.splitlines())
        path.write_text('{"schema": "another@1"}')
        self.assertNotEqual(subprocess.run(["/usr/bin/python3", str(tool), str(path)],
                                           capture_output=True, timeout=60).returncode, 0)

    def test_usage_is_2(self):
        for args in [["--engines", "infer,nothing"], ["--engines", "infer,infer"],
                     ["--threads", "0"], ["--threads", "5000"], ["--worker", "x"],
                     ["--block-time", "0"],
                     ["--rounds", "9", "--max-rounds", "5"],
                     ["--rounds", "3", "--starts", "4"], ["--starts", "1"]]:
            done = run("infer-bench", "peers", self.model, *args)
            self.assertEqual(done.returncode, 2, f"{args}: {done.stderr}")
        self.assertIn("there are infer, ncnn-vulkan, openvino, ort",
                      run("infer-bench", "peers", self.model, "--engines", "x").stderr)

    def test_measurements_wait_for_each_other(self):
        import fcntl
        with open(self.dir / "lock", "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            process = subprocess.Popen(
                [str(BIN / "infer-bench"), "peers", str(self.model), "--engines", "infer"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            # Other warnings may come first: that this is a debug build.
            self.assertTrue(any("waiting for" in line for line in process.stderr))
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)
            self.assertEqual(process.returncode, 130)

    def test_interrupt_leaves_a_valid_report(self):
        b = self.scripted("b", failing="run", action="import time; time.sleep(100)")
        self.interrupted("infer-bench", "peers", self.model, "--engines", "b", "--worker", b, "--python", "/usr/bin/python3",
                         after=2)

    def test_help_says_what_there_is(self):
        text = run("infer-bench", "peers", "--help").stdout
        for word in ["--engines", "--skip-missing", "--max-ratio", "--lock", "openvino"]:
            self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=2)
