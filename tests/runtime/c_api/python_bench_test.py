#!/usr/bin/python3
"""infer_opt.bench and compare_speed: the numbers of the program's report, its errors, what ends it. No time is judged."""
import os
import signal
import sys
import unittest
from unittest import mock

SOURCE, BIN = os.environ["INFER_SOURCE"], os.environ["INFER_BIN"]
sys.path.insert(0, os.path.join(SOURCE, "tools/packaging/python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import infer_opt  # noqa: E402
from demo_images import DIGITS, Demo  # noqa: E402

QUICK = {"threads": 1, "runs": 30, "warmup": 3, "cold": 0}


class Bench(Demo):
    def setUp(self):
        super().setUp()
        self.environment(INFER_BENCH=os.path.join(BIN, "infer-bench"))

    def environment(self, **values):
        patch = mock.patch.dict(os.environ, values)
        patch.start()
        self.addCleanup(patch.stop)

    def program(self, text):
        """In place of infer-bench."""
        path = self.path("program")
        with open(path, "w") as f:
            f.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
        self.environment(INFER_BENCH=path)

    def fails(self, code, text, call):
        with self.assertRaises(infer_opt.Error) as caught:
            call()
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertIn(text, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_numbers_are_the_report_s(self):
        b = infer_opt.bench(DIGITS, **QUICK)
        [cell] = b.report["results"]
        self.assertEqual(b.report["schema"], "infer-bench/run@2")
        self.assertEqual((b.runs, b.warmup_runs, b.threads), (30, 3, 1))
        self.assertEqual(b.median_ms, cell["latency_ms"]["median"])
        self.assertEqual(b.throughput_per_s, cell["throughput_per_s"])
        self.assertLessEqual(b.median_ci95_ms[0], b.median_ms)
        self.assertLessEqual(b.median_ms, b.median_ci95_ms[1])
        self.assertLessEqual(b.min_ms, b.median_ms)
        self.assertEqual(len(cell["samples_ms"]), 30)
        self.assertIsInstance(b.warmup_stable, bool)

    def test_models_of_every_kind(self):
        """A path, bytes, and a model that was rewritten."""
        with open(DIGITS, "rb") as f:
            data = f.read()
        small = infer_opt.Model(DIGITS)
        small.quantize(self.images[:20], recipe="fast")
        nodes = [infer_opt.bench(m, **QUICK).report["results"][0]["model"]["nodes"] for m in (DIGITS, data, small.fuse())]
        self.assertEqual(nodes[0], nodes[1])
        self.assertNotEqual(nodes[0], nodes[2])

    def test_options_of_the_command(self):
        b = infer_opt.bench(DIGITS, **QUICK, batch=3, options=["--seed", 7])
        self.assertEqual((b.report["results"][0]["batch"], b.report["results"][0]["seed"]), (3, 7))
        self.fails("invalid argument", "2 cells", lambda: infer_opt.bench(DIGITS, **QUICK, options=["--batch", "1,2"]))

    def test_compare_speed(self):
        small = infer_opt.Model(DIGITS)
        small.quantize(mode="dynamic")
        c = infer_opt.compare_speed(DIGITS, small, threads=1, budget=2, min_effect=0.1)
        self.assertIn(c.verdict, ("same", "faster", "slower", "inconclusive"))
        self.assertEqual(c.verdict, c.report["verdict"])
        self.assertLessEqual(c.change_ci95[0], c.change)
        self.assertLessEqual(c.change, c.change_ci95[1])
        self.assertGreaterEqual(c.starts, 1)
        self.assertEqual(c.report["settings"]["min_effect"], 0.1)
        self.assertTrue(all(m > 0 for m in c.medians_ms))

    def test_errors_of_the_program(self):
        for code, text, call in [("io", "/no/such.onnx", lambda: infer_opt.bench("/no/such.onnx")),
                                 ("invalid model", "protobuf", lambda: infer_opt.bench(b"x")),
                                 ("invalid argument", "tpu", lambda: infer_opt.bench(DIGITS, device="tpu")),
                                 ("invalid argument", "--nope", lambda: infer_opt.bench(DIGITS, options=["--nope"])),
                                 ("io", "/no/such.onnx", lambda: infer_opt.compare_speed(DIGITS, "/no/such.onnx"))]:
            self.fails(code, text, call)

    def test_programs_that_are_none(self):
        self.environment(INFER_BENCH="/no/infer-bench")
        self.fails("io", "/no/infer-bench: No such file", lambda: infer_opt.bench(DIGITS))
        self.environment(INFER_BENCH="", PATH="/no/folder")
        self.fails("io", "INFER_BENCH", lambda: infer_opt.bench(DIGITS))
        self.program("kill -9 $$")
        self.fails("internal", "code -9", lambda: infer_opt.bench(DIGITS))
        self.program('for last; do :; done; echo \'{"tool": {"version": "9.9"}}\' > "$last"')
        self.fails("unsupported", "version 9.9", lambda: infer_opt.bench(DIGITS))

    def test_control_c_ends_the_program(self):
        pid = self.path("pid")
        self.program(f"echo $$ > {pid}.part; mv {pid}.part {pid}; exec sleep 60")

        def interrupt(*_):
            if not os.path.exists(pid):
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                return
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with self.assertRaises(KeyboardInterrupt):
            infer_opt.bench(DIGITS)
        with open(pid) as f, self.assertRaises(ProcessLookupError):
            os.kill(int(f.read()), 0)


if __name__ == "__main__":
    unittest.main()
