#!/usr/bin/python3
"""--compute bf16 of both tools: what computes in it, what is judged in f32, who refuses it.

Run by ctest with INFER_BIN (the folder of the binaries) and INFER_SOURCE (the repository)."""
import json
import unittest

from tool_test_case import DEMO, MODEL, PREPROCESS, CliTestCase, run, validate

BF16 = ["--compute", "bf16"]
DATA = ["--data", DEMO / "eval_images.npy", "--preprocess", PREPROCESS]


class Compute(CliTestCase):
    def test_every_product_says_in_what_it_computes(self):
        report = self.report(0, "infer-opt", "inspect", MODEL, "--set", "batch=1", "--kernels", *BF16)
        self.assertEqual(report["compute"], "bf16")
        products = [k for k in report["kernels"] if k["op"].startswith("Conv")]
        self.assertGreater(len([k for k in products if k["precision"].startswith("bf16")]), 10)
        for k in products:
            self.assertTrue(k["precision"].startswith("bf16") or
                            [r for r in k["refusals"] if r.startswith("bf16: ")], k)
        # What bf16 misses is no news where nobody asked for it.
        report = self.report(0, "infer-opt", "inspect", MODEL, "--set", "batch=1", "--kernels")
        self.assertFalse([k for k in report["kernels"] if "bf16" in str(k["refusals"]) + k["precision"]])

    def test_values_between_lie_in_bf16(self):
        fused = self.dir / "fused.onnx"
        self.expect(0, "infer-opt", "fuse", MODEL, "-o", fused, "--no-verify")
        plan = self.report(0, "infer-opt", "inspect", fused, "--set", "batch=1", "--plan", *BF16)["plan"]
        layouts = [o["layout"] for s in plan[0]["steps"] for o in s["results"]]
        steps = plan[0]["steps"]
        if any(s["precision"] == "bf16" for s in steps):  # else rounded without instructions for it
            self.assertGreater(len([text for text in layouts if text.startswith("bf16:")]), 5)

    def test_golden_is_f32(self):
        report = self.report(0, "infer-opt", "compare", MODEL, MODEL, *DATA, "--samples", "20", *BF16)
        self.assertEqual(report["compute"], "bf16")
        self.assertTrue(1e-5 < report["accuracy"]["outputs"][0]["max_error_ratio"] < 0.04)
        labels = ["--labels", DEMO / "eval_labels.csv", "--samples", "100"]
        f32 = self.report(0, "infer-opt", "eval", MODEL, *DATA, *labels)
        bf16 = self.report(0, "infer-opt", "eval", MODEL, *DATA, *labels, *BF16)
        self.assertEqual((f32["compute"], bf16["compute"]), ("f32", "bf16"))
        self.assertLessEqual(abs(f32["top1"] - bf16["top1"]), 0.01)

    def test_refusals(self):
        self.assertIn("bf16", self.expect(4, "infer-opt", "run", MODEL, "--device", "reference", *BF16).stderr)
        self.expect(2, "infer-opt", "run", MODEL, "--level", "0", *BF16)
        self.expect(2, "infer-opt", "run", MODEL, "--compute", "f8")
        self.assertIn("cpu does not compute in f16", self.expect(4, "infer-opt", "run", MODEL, "--compute", "f16").stderr)
        self.expect(2, "infer-opt", "compare", MODEL, MODEL, "--bisect", *BF16)
        self.expect(2, "infer-bench", "compare", MODEL, "--a", "compute=f8")

    def test_bench(self):
        report = self.report(0, "infer-bench", "run", MODEL, "--set", "batch=1", "--min-time", "0.02", "--cold", "1",
                             *BF16)
        self.assertEqual(report["settings"]["compute"], "bf16")
        # Too little is measured for a verdict: what each side ran in is all that is asked.
        done = run("infer-bench", "compare", MODEL, "--set", "batch=1", "--b", "compute=bf16", "--budget", "1",
                   "--fail-above", "1000%", "--json", "-")
        self.assertIn(done.returncode, (0, 6), done.stderr)
        report = json.loads(done.stdout)
        validate(report)
        self.assertEqual([s["compute"] for s in report["sides"]], ["f32", "bf16"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
