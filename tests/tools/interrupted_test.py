#!/usr/bin/python3
"""Writes that end early, by a full disk or a signal: the old file or the complete new one, never half
of one, and no temporary file unless nobody could remove it (SIGKILL).

Run by ctest with INFER_BIN (the folder of the binaries) and INFER_SOURCE (the repository)."""
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["INFER_BIN"])
MODEL = str(pathlib.Path(os.environ["INFER_SOURCE"]) / "datasets/demo/digits.onnx")
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]


class Interrupted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(folder.name)
        self.addCleanup(folder.cleanup)

    def temporary(self):
        return [f for f in os.listdir(self.dir) if ".tmp." in f]

    def start(self, tool, *args):
        return subprocess.Popen([str(BIN / tool), *map(str, args)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def end(self, process, n, may_die=False):
        """Sends signal `n`; the exit code."""
        process.send_signal(n)
        start = time.monotonic()
        said = process.communicate(timeout=60)
        codes = (0, 128 + n, *([-n] if may_die or n == signal.SIGKILL else []))
        self.assertIn(process.returncode, codes, said)
        return time.monotonic() - start

    def check_old_or_whole(self, out, n):
        if out.read_bytes() != b"old":
            done = subprocess.run([str(BIN / "infer-opt"), "inspect", str(out)], capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        if n != signal.SIGKILL:
            self.assertEqual(self.temporary(), [])

    def test_a_refused_write_keeps_the_old_file(self):
        out = self.dir / "out.onnx"
        out.write_bytes(b"old")
        done = subprocess.run([str(BIN / "infer-opt"), "fuse", MODEL, "-o", str(out)],
                              capture_output=True, preexec_fn=lambda: resource.setrlimit(
                                  resource.RLIMIT_FSIZE, (20_000, 20_000)))
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertEqual(out.read_bytes(), b"old")
        self.assertEqual(os.listdir(self.dir), ["out.onnx"])

    def test_signals_at_any_time(self):
        out = self.dir / "out.onnx"
        for n in SIGNALS:
            for delay in [0.05, 0.3, 0.6]:
                with self.subTest(signal=n, delay=delay):
                    out.write_bytes(b"old")
                    process = self.start("infer-opt", "fuse", MODEL, "-o", out, "--external-data")
                    time.sleep(delay)
                    # Early ones come before the handler stands.
                    self.assertLess(self.end(process, n, may_die=delay < 0.3), 15)
                    self.check_old_or_whole(out, n)

    def end_in_the_write(self, n, *args):
        """Signal `n` as soon as a temporary file of `args` stands."""
        for f in self.temporary():
            (self.dir / f).unlink()
        out = self.dir / "out.onnx"
        out.write_bytes(b"old")
        process = self.start(*args, "-o", out)
        while not self.temporary() and process.poll() is None:
            time.sleep(0.002)
        self.assertIsNone(process.poll(), "it ended before it wrote")
        self.end(process, n)
        self.check_old_or_whole(out, n)
        return process.returncode

    def test_signals_in_a_large_write(self):
        cut_short = 0
        for n in [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]:
            with self.subTest(signal=n):
                cut_short += self.end_in_the_write(n, "infer-bench", "zoo", "vgg16") != 0
        self.assertGreater(cut_short, 0)

    def test_signals_in_a_large_write_of_external_data(self):
        large = self.dir / "large.onnx"
        process = self.start("infer-bench", "zoo", "vgg16", "-o", large)
        process.communicate()
        self.assertEqual(process.returncode, 0)
        cut_short = 0
        for n in [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]:
            with self.subTest(signal=n):
                cut_short += self.end_in_the_write(
                    n, "infer-opt", "fuse", large, "--external-data", "--no-verify") != 0
                for f in self.dir.glob("out.onnx.*.data"):
                    f.unlink()
        self.assertGreater(cut_short, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=1)
