#!/usr/bin/python3
"""`infer-opt quantize --fine-tune-steps`: reports, zeros of a pruned model, forms of the file, kills and refusals.

Run by ctest with INFER_BIN (the folder of the binaries) and INFER_SOURCE (the repository)."""
import subprocess
import time
import unittest

import shards
import small_model
from tool_test_case import BIN, DEMO, MODEL, PREPROCESS, CliTestCase

FIT = ["--calib", DEMO / "calib_images.npy", "--preprocess", PREPROCESS, "--calib-samples", 60]
SMALL = ["--calib", DEMO / "calib_images.npy", "--preprocess", small_model.PREPROCESS, "--calib-samples", 60]
JUDGE = ["--eval", DEMO / "eval_images.npy", "--eval-labels", DEMO / "eval_labels.csv", "--eval-samples", 200]
TUNE = ["--fine-tune-steps", 40, "--fine-tune-batch", 8, "--fine-tune-copies", "none"]


class CliFineTuneCodes(CliTestCase):
    """What does not depend on the numbers runs on the small model."""

    def setUp(self):
        super().setUp()
        self.small = self.dir / "small.onnx"
        self.small.write_bytes(small_model.small_model())

    def quantize(self, code, *args, model=MODEL, out="q.onnx"):
        return self.report(code, "infer-opt", "quantize", model, "-o", self.dir / out, *args)

    def test_report(self):
        """The gates judge what was trained; scales and codes are other ones, and nothing else is."""
        plain = self.quantize(0, "--recipe", "none", "--per-tensor", *FIT, *JUDGE, out="plain.onnx")
        report = self.quantize(0, "--recipe", "none", "--per-tensor", *FIT, *JUDGE, *TUNE, "--max-drop", "5%")
        tuned = report["fine_tuning"]
        self.assertNotIn("fine_tuning", plain)
        self.assertEqual((tuned["steps"], len(tuned["points"])), (40, 11))
        self.assertGreater(tuned["best_step"], 0)
        self.assertLess(tuned["loss_after"], tuned["loss_before"])
        self.assertEqual(tuned["loss_before"], tuned["points"][0]["held_out_loss"])
        self.assertEqual(tuned["loss_after"], min(p["held_out_loss"] for p in tuned["points"]))
        self.assertTrue(0 < tuned["changed_codes"] < tuned["codes"])
        self.assertGreater(tuned["scales"], 0)
        self.assertTrue(report["passed"])
        # Samples that training holds out calibrate nothing.
        self.assertEqual(report["quantization"]["calibration_samples"], tuned["training_samples"])
        self.assertEqual(tuned["training_samples"] + tuned["held_out_samples"], 60)
        for form in ("inspect", "fuse"):
            self.expect(0, "infer-opt", form, self.dir / "q.onnx", *(["-o", self.dir / "f.onnx"] if form == "fuse" else []))
        ops = [self.report(0, "infer-opt", "inspect", self.dir / name)["operators"] for name in ("plain.onnx", "q.onnx")]
        self.assertEqual(*ops)
        # Equal constants stand in a file once, and scales that were trained are no more equal.
        self.assertLess(abs(report["output"]["bytes"] / plain["output"]["bytes"] - 1), 0.01)

    def test_forms(self):
        """Every form of the mode's file, and recipes."""
        for args in (["--recipe", "none", "--format", "qoperator"], ["--recipe", "none", "--weights", "u8"],
                     ["--recipe", "none", "--reduce-range"], ["--recipe", "none", "--activations", "s8"],
                     ["--recipe", "best", "--no-verify"], ["--no-verify"]):  # recipes fail where INT8 is measured slower
            with self.subTest(args):
                judge = [] if "--no-verify" in args else [*JUDGE, "--keep-failed"]
                report = self.quantize(0, *args, *SMALL, *judge, *TUNE, model=self.small)
                self.assertLessEqual(report["fine_tuning"]["loss_after"], report["fine_tuning"]["loss_before"])
                self.expect(0, "infer-opt", "run", self.dir / "q.onnx", "--set", "batch=1")

    def test_zeros_of_a_pruned_model_stay(self):
        """Pruned and quantized together."""
        pruned = self.dir / "pruned.onnx"
        self.expect(0, "infer-opt", "prune", self.small, "-o", pruned, "--sparsity", "60%", "--method", "magnitude",
                    "--allocation", "uniform", *SMALL, "--no-verify")
        zeros = self.report(0, "infer-opt", "inspect", pruned, "--sparsity")["sparsity"]["zeros"]
        report = self.quantize(0, "--recipe", "none", *SMALL, *TUNE, "--no-verify", model=pruned)
        self.assertGreater(report["fine_tuning"]["best_step"], 0)
        self.assertGreaterEqual(self.report(0, "infer-opt", "inspect", self.dir / "q.onnx", "--sparsity")["sparsity"]["zeros"],
                                zeros)

    def test_goes_on_after_a_kill(self):
        """SIGKILL in the middle, then the same command: the bytes of a run that nobody killed."""
        args = ["--recipe", "none", *SMALL, "--no-verify", "--fine-tune-steps", 600, "--fine-tune-batch", 8]
        point = self.dir / "point"
        whole, killed = self.dir / "whole.onnx", self.dir / "killed.onnx"
        self.expect(0, "infer-opt", "quantize", self.small, "-o", whole, *args)
        kept = ["--fine-tune-checkpoint", point, "--fine-tune-checkpoint-every", 0]
        process = subprocess.Popen([str(BIN / "infer-opt"), *map(str, ["quantize", self.small, "-o", killed, *args, *kept])],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not point.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        process.wait()
        self.assertTrue(point.exists())
        self.assertFalse(killed.exists())
        done = self.report(0, "infer-opt", "quantize", self.small, "-o", killed, *args, *kept)
        self.assertGreater(done["fine_tuning"]["resumed_from"], 0)
        self.assertEqual(killed.read_bytes(), whole.read_bytes())

    def test_same_bytes_for_any_threads(self):
        files = []
        for threads in (1, 2):
            self.quantize(0, "--recipe", "none", *SMALL, *TUNE[:-2], "--no-verify", "--threads", threads, model=self.small)
            files.append((self.dir / "q.onnx").read_bytes())
        self.assertEqual(files[0], files[1])

    def test_refusals(self):
        """One clear line, and nothing is written."""
        few = [*FIT[:-1], 8]
        for code, args, said in ((4, [*FIT, "--mode", "weight-only", *TUNE], "--mode weight-only has no fine-tuning"),
                                 (4, [*FIT, "--mode", "dynamic", *TUNE], "--mode dynamic has no fine-tuning"),
                                 (4, [*FIT, "--mixed", *TUNE], "--mode mixed has no fine-tuning"),
                                 (2, TUNE, "calibrates on data, which are missing"),
                                 (2, [*FIT, "--fine-tune-checkpoint", self.dir / "c"], "--fine-tune-steps N is missing"),
                                 (2, [*FIT, *TUNE, "--fine-tune-lr", 0], "above 0"),
                                 (2, [*few, "--recipe", "none", "--no-verify", *TUNE], "at least 16 calibration samples")):
            with self.subTest(args):
                done = self.expect(code, "infer-opt", "quantize", MODEL, "-o", self.dir / "q.onnx", *args)
                self.assertIn(said, done.stderr)
                self.assertFalse((self.dir / "q.onnx").exists())


if __name__ == "__main__":
    shards.main()
