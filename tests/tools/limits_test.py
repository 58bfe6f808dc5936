#!/usr/bin/python3
"""What a command may take of the machine and leave on it: time, memory, files that several write, names of any bytes.

Run by ctest with INFER_BIN (the folder of the binaries) and INFER_SOURCE (the repository)."""
import json
import os
import pathlib
import shutil
import subprocess
import time
import unittest

import small_model
from onnx_wire import INT64, graph, graph_attribute, model, node, tensor, value_info
from tool_test_case import BIN, DEMO, MODEL, PREPROCESS, CliTestCase, run

NUMBER = (1 << 63) - 1
X = value_info("x", [4096])


def endless(piles_up):
    """A Loop of 2^63 - 1 iterations, which stacks a result of each, or keeps nothing."""
    body = graph([node("Identity", ["c"], ["k"]), node("Identity", ["v"], ["w"]),
                  *([node("Tanh", ["v"], ["s"])] if piles_up else [])],
                 [value_info("i", [], INT64), value_info("c", [], 9), value_info("v", [4096])],
                 [value_info("k", [], 9), value_info("w", [4096]),
                  *([value_info("s", [4096])] if piles_up else [])])
    outputs = ["y", "z"] if piles_up else ["y"]
    return model([node("Loop", ["n", "", "x"], outputs, [graph_attribute("body", body)])], [X],
                 [value_info("y", [4096])] + ([value_info("z", ["N", 4096])] if piles_up else []),
                 [tensor("n", [], NUMBER.to_bytes(8, "little"), INT64)])


SANITIZED = os.environ.get("INFER_SANITIZED")


class Limits(CliTestCase):
    def put(self, name, contents):
        path = self.dir / name
        path.write_bytes(contents)
        return path

    def test_timeout_is_124(self):
        path = self.put("endless.onnx", endless(False))
        for args in (["infer-opt", "run", path], ["infer-opt", "run", path, "--device", "reference"],
                     ["infer-opt", "run", path, "--device", "cpu", "--level", "0"],
                     ["infer-bench", "run", path], ["infer-bench", "run", path, "--cold", "1"]):
            with self.subTest(args=args[:2] + args[3:]):
                start = time.monotonic()
                done = self.expect(124, *args, "--timeout", "0.7")
                self.assertLess(time.monotonic() - start, 30)
                self.assertIn("timed out after 0.7 s (--timeout)", done.stderr)
        self.expect(0, "infer-opt", "run", MODEL, "--timeout", "300")
        self.expect(2, "infer-opt", "run", MODEL, "--timeout", "-1")
        # Engines that peers and compare start have one of their own.
        self.assertIn("silent", self.expect(0, "infer-bench", "peers", "--help").stdout)

    def test_a_timeout_leaves_the_old_output(self):
        path = self.put("endless.onnx", endless(False))
        out = self.put("out.onnx", b"old")
        self.expect(124, "infer-opt", "fuse", path, "-o", out, "--timeout", "1")
        self.assertEqual(out.read_bytes(), b"old")
        self.assertEqual([f for f in os.listdir(self.dir) if ".tmp." in f], [])

    @unittest.skipIf(SANITIZED, "a sanitizer takes more addresses than there are")
    def test_max_memory_is_71(self):
        path = self.put("piles.onnx", endless(True))
        for args in (["infer-opt", "run", path], ["infer-opt", "run", path, "--device", "reference"],
                     ["infer-bench", "run", path, "--cold", "0"], ["infer-bench", "run", path, "--cold", "1"]):
            with self.subTest(args=args[:2] + args[3:]):
                done = self.expect(71, *args, "--max-memory", "300M", "--timeout", "120")
                self.assertRegex(done.stderr, "over the memory limit of|out of memory")
        self.expect(0, "infer-opt", "run", MODEL, "--max-memory", "1GiB")
        for megabytes in range(6, 34, 4):  # some of them end where oneDNN maps memory for its code
            with self.subTest(megabytes=megabytes):
                done = run("infer-opt", "run", MODEL, "--threads", "1", "--max-memory", f"{megabytes}M")
                self.assertIn(done.returncode, (0, 71), done.stderr)
        for wrong in ("0", "-1", "1.5G", "x", "9999999999G", "G", ""):
            self.expect(2, "infer-opt", "run", MODEL, f"--max-memory={wrong}")

    def test_names_that_are_no_utf8(self):
        """In the request of a cold start, in search logs and policies."""
        raw = small_model.small_model(side=32)
        path = self.put("names.onnx", raw.replace(b"image", b"im\xffge").replace(b"stem", b"l\xff01").replace(b"wide", b"l\xfe01"))
        self.expect(0, "infer-opt", "inspect", path, "--json", self.dir / "inspect.json")
        self.expect(0, "infer-bench", "run", path, "--cold", 1, "--min-time", "0.01", "--max-warmup", "0.1", "--json",
                    self.dir / "run.json")
        log, policy = self.dir / "search.jsonl", self.dir / "policy.json"
        mixed = ["infer-opt", "quantize", path, "--mixed", "--threads", 1, "--goal", "size", "--calib",
                 DEMO / "calib_images.npy", "--calib-samples", 4, "--preprocess", PREPROCESS, "--layer-samples", 2,
                 "--precisions", "int8", "--eval", DEMO / "eval_images.npy", "--eval-samples", 4,
                 "--keep-failed", "--search-log", log]
        self.report(0, *mixed, "-o", self.dir / "a.onnx", "--save-policy", policy)
        searched = self.report(0, *mixed, "-o", self.dir / "b.onnx")["search"]
        self.assertEqual(searched["measured"], 0, "all of it stands in the log")
        self.assertGreater(searched["reused"], 0)
        self.expect(0, *mixed, "-o", self.dir / "c.onnx", "--policy", policy)
        self.assertEqual((self.dir / "a.onnx").read_bytes(), (self.dir / "c.onnx").read_bytes())

    def test_processes_that_write_one_output(self):
        out = self.dir / "out.onnx"
        args = [str(BIN / "infer-opt"), "fuse", MODEL, "-o", str(out), "--no-verify"]
        self.expect(0, "infer-opt", *args[1:])
        whole = {out.read_bytes()}
        out.unlink()
        plain = self.dir / "plain.onnx"
        self.expect(0, "infer-opt", "fuse", MODEL, "-o", plain, "--no-verify", "--rewrites", "none")
        whole.add(plain.read_bytes())
        for _ in range(3):
            writers = [subprocess.Popen(args + ["--rewrites", r], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE)
                       for r in ("none", "blocks", "none", "blocks")]
            for w in writers:
                said = w.communicate(timeout=120)[1]
                self.assertEqual(w.returncode, 0, said)
            self.assertIn(out.read_bytes(), whole)
        self.assertEqual([f for f in os.listdir(self.dir) if ".tmp." in f], [])

    def test_outputs_through_links(self):
        real = self.dir / "real"
        real.mkdir()
        link = self.dir / "link.onnx"
        link.symlink_to("real/m.onnx")  # which is not there yet
        for _ in range(2):
            self.expect(0, "infer-opt", "fuse", MODEL, "-o", link, "--no-verify", "--external-data")
            self.assertTrue(link.is_symlink())
            self.expect(0, "infer-opt", "inspect", real / "m.onnx")
        data = [f for f in os.listdir(real) if f.endswith(".data")]
        self.assertEqual(len(data), 1, "beside the file, not beside the link")
        self.assertEqual(sorted(os.listdir(self.dir)), ["link.onnx", "real"])
        # Two outputs that are one file behind a link.
        (self.dir / "same").symlink_to("absent.json")
        self.expect(2, "infer-opt", "fuse", MODEL, "-o", self.dir / "same", "--json",
                    self.dir / "absent.json")
        (self.dir / "lost").symlink_to("nowhere/m.onnx")
        self.expect(5, "infer-opt", "fuse", MODEL, "-o", self.dir / "lost")

    @unittest.skipIf(SANITIZED, "the leak sanitizer reads /proc")
    def test_cold_starts_without_proc(self):
        hide = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
        if not shutil.which("unshare") or subprocess.run([*hide, "true"], capture_output=True).returncode:
            self.skipTest("no mount namespaces here")
        done = subprocess.run([*hide, str(BIN / "infer-bench"), "run", MODEL, "--cold", "1", "--min-time", "0.01",
                               "--max-warmup", "0.1", "--json", str(self.dir / "r.json")],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads((self.dir / "r.json").read_text())
        self.assertEqual(report["results"][0]["cold"]["starts"], 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
