#!/usr/bin/python3
"""infer-bench tune as a user meets it: the choice, what cannot be met, precisions, an open loop, Ctrl-C.

Run by ctest with INFER_BIN and INFER_SOURCE."""
import json
import unittest

from tool_test_case import DEMO, MODEL, PREPROCESS, BenchTestCase, run, validate


class Tune(BenchTestCase):
    command = ("tune", MODEL, "--threads", 1)

    def tune(self, *args, code=0):
        path = self.dir / "tuned.json"
        done = self.bench(*args, "--json", path, code=code)
        report = json.loads(path.read_text())
        validate(report)
        return report, done

    def test_the_fastest_that_meets_it_is_chosen(self):
        report, done = self.tune("--slo", "p90=10s", "--batch", "1,8", "--budget", 20, "--precision", "as-is")
        self.assertEqual(report["verdict"], "met")
        by_name = {c["name"]: c for c in report["candidates"]}
        chosen = by_name[report["chosen"]["name"]]
        self.assertEqual(chosen["fate"], "chosen")
        met = [c for c in report["candidates"] if c["fate"] in ("chosen", "meets")]
        self.assertEqual(len(met), 2)
        self.assertEqual(max(met, key=lambda c: c["confirmed"]["samples_per_s"])["name"], chosen["name"])
        p90 = chosen["confirmed"]["limits"][0]
        self.assertGreaterEqual(chosen["confirmed"]["queries"], 64)
        self.assertLessEqual(p90["upper_99_ms"], p90["limit_ms"])
        self.assertGreaterEqual(p90["upper_99_ms"], chosen["confirmed"]["p50_ms"])
        self.assertLess(report["seconds"], 25)
        # What it prints measures the setting again.
        load = report["chosen"]["load"]
        self.assertIn(" ".join(load[3:]), done.stdout)
        again = run(*load, "--duration", 0.3, "--warmup", 0.1, "--json", "-")
        self.assertEqual(again.returncode, 0, again.stderr)
        target = json.loads(again.stdout)["target"]
        self.assertEqual({k: target[k] for k in ("threads", "batch", "lanes", "precision")},
                         {k: chosen[k] for k in ("threads", "batch", "lanes", "precision")})
        self.assertEqual(run(*report["chosen"]["run"], "--runs", 2, "--cold", 0).returncode, 0)

    def test_what_cannot_be_met(self):
        report, done = self.tune("--slo", "p99=1us", "--batch", "1,4", "--budget", 20, code=1)
        self.assertEqual((report["verdict"], report["chosen"]), ("not met", None))
        reasons = [c["reason"] for c in report["candidates"]]
        self.assertTrue(any("took more than 0.001 ms" in r for r in reasons), reasons)
        self.assertTrue(any("batch 1 misses already" in r for r in reasons), reasons)
        self.assertIn("not met", done.stdout)
        self.assertLess(report["seconds"], 15)

    def test_a_limit_between_batches(self):
        """A quarter of the time of batch 16 lets batch 1 pass, but not that one. Other load may leave too few
        queries to say that it misses (the unit tests have a clock of their own for that)."""
        slow = run("infer-bench", "load", MODEL, "--threads", 1, "--batch", 16, "--duration", 1, "--min-queries", 20,
                   "--json", "-")
        p50 = json.loads(slow.stdout)["result"]["latency_ms"]["p50"]
        report, _ = self.tune("--slo", f"p50={p50 / 4}ms", "--batch", "1,16", "--precision", "as-is", "--budget", 20)
        fates = {c["batch"]: c["fate"] for c in report["candidates"]}
        self.assertEqual(fates[1], "chosen")
        self.assertIn(fates[16], ("misses", "open"))

    def test_precisions(self):
        report, _ = self.tune("--slo", "p99=10s", "--batch", 1, "--precision", "as-is,int4-weights,int8-dynamic",
                              "--min-sqnr", 200, "--budget", 15)
        fates = {c["precision"]: c["fate"] for c in report["candidates"]}
        self.assertEqual(fates, {"as-is": "chosen", "int4-weights": "inaccurate", "int8-dynamic": "inaccurate"})
        for c in report["candidates"][1:]:
            self.assertGreater(c["sqnr_db"], 5)
            self.assertIn("is below 200 dB", c["reason"])

    def test_variants(self):
        """Files of the same model stand beside it; one whose outputs are too far off is no choice."""
        near, far = self.dir / "near.onnx", self.dir / "far.onnx"
        for mode, path in (["fp16"], near), (["weight-only", "--bits", 4], far):
            done = run("infer-opt", "quantize", MODEL, "--mode", *mode, "-o", path)
            self.assertTrue(path.exists(), done.stderr)
        report, _ = self.tune("--slo", "p99=10s", "--batch", 1, "--precision", "as-is", "--variant", f"{near},{far}",
                              "--min-sqnr", 45, "--budget", 15)
        by_variant = {c["variant"]: c for c in report["candidates"]}
        self.assertEqual(list(by_variant), [None, str(near), str(far)])
        self.assertIn(by_variant[str(near)]["fate"], ("chosen", "meets", "slower", "open"))
        self.assertGreater(by_variant[str(near)]["sqnr_db"], 45)
        self.assertEqual(by_variant[str(far)]["fate"], "inaccurate")
        self.assertIn(report["chosen"]["path"], (str(MODEL), str(near)))
        self.assertEqual(report["chosen"]["load"][2], report["chosen"]["path"])

    def test_variants_of_a_sweep(self):
        """Their accuracy stands in variants.json and decides instead of an SQNR on random inputs."""
        folder = self.dir / "sweep"
        done = run("infer-opt", "sweep", MODEL, "--threads", 1, "-o", folder, "--only", "int8,fp16", "--samples", 60,
                   "--data", DEMO / "eval_images.npy", "--labels", DEMO / "eval_labels.csv", "--preprocess", PREPROCESS)
        self.assertEqual(done.returncode, 0, done.stderr)
        path = folder / "variants.json"
        listed = {v["id"]: v for v in json.loads(path.read_text())}
        # What 30 of 60 images say is set to values that decide. The files lie where the list lies, wherever that is.
        listed["fp32"]["accuracy_score"], listed["int8"]["accuracy_score"], listed["fp16"]["accuracy_score"] = 0.9, 0.897, 0.88
        moved = self.dir / "moved"
        folder.rename(moved)
        path = moved / "variants.json"
        path.write_text(json.dumps(list(listed.values())))
        tune = ("--slo", "p99=10s", "--batch", 1, "--precision", "as-is", "--min-sqnr", 300, "--budget", 15, "--variants", path)
        report, _ = self.tune(*tune)
        by_variant = {c["variant"]: c for c in report["candidates"]}
        int8, fp16 = str(moved / "int8.onnx"), str(moved / "fp16.onnx")
        self.assertEqual(list(by_variant), [None, fp16, int8])
        self.assertAlmostEqual(by_variant[int8]["accuracy_loss"], 0.003)
        self.assertIn(by_variant[int8]["fate"], ("chosen", "meets", "slower", "open"))
        self.assertLess(by_variant[int8]["sqnr_db"], 300)
        self.assertEqual((by_variant[fp16]["fate"], by_variant[fp16]["sqnr_db"]), ("inaccurate", None))
        self.assertIn("loses 2 points", by_variant[fp16]["reason"])
        report, _ = self.tune(*tune, "--max-drop", "0.1%")
        self.assertEqual([c["fate"] for c in report["candidates"]], ["chosen", "inaccurate", "inaccurate"])
        # What was measured is of these files and of this model alone.
        kept = (moved / "int8.onnx").read_bytes()
        (moved / "int8.onnx").write_bytes((moved / "fp16.onnx").read_bytes())
        done = self.bench(*tune, code=3)
        self.assertIn("not the file that was measured", done.stderr)
        (moved / "int8.onnx").write_bytes(kept)
        done = self.expect(3, "infer-bench", "tune", moved / "fp16.onnx", *tune)
        self.assertIn("not the model whose variants are listed", done.stderr)
        listed["fp32"]["accuracy_score"] = 7
        path.write_text(json.dumps(list(listed.values())))
        self.bench(*tune, code=3)
        listed["fp32"]["accuracy_score"] = 0.9
        # Without a measured accuracy the outputs decide.
        for key, value in ("accuracy_metric", "cosine"), ("accuracy_score", None):
            listed["int8"][key] = value
            path.write_text(json.dumps(list(listed.values())))
            report, _ = self.tune(*tune)
            self.assertIn("is below 300 dB", report["candidates"][2]["reason"])

    def test_lists_that_are_none(self):
        for text in ("", "{}", "[1]", '[{"id": "fp32"}]', '[{"path": "a.onnx", "quantization": 1}]', "[" * 100,
                     '[{"path": "a.onnx", "quantization": "static"}]', "[]"):
            path = self.dir / "variants.json"
            path.write_text(text)
            self.bench("--slo", "p99=1s", "--variants", path, code=3)
        self.bench("--slo", "p99=1s", "--variants", self.dir / "none.json", code=5)
        self.bench("--slo", "p99=1s", "--max-drop", "1%", code=2)

    def test_open_loop(self):
        report, _ = self.tune("--slo", "p90=5s", "--batch", "1,2", "--rate", 40, "--precision", "as-is", "--budget", 20)
        self.assertEqual(report["verdict"], "met")
        two = next(c for c in report["candidates"] if c["batch"] == 2)
        self.assertAlmostEqual(two["gather_ms"], 1e3 * 2.302585 / 40, places=2)  # an exponential's p90
        self.assertIn("--rate", report["chosen"]["load"])
        flooded, _ = self.tune("--slo", "p90=5s", "--batch", 1, "--rate", 1e6, "--precision", "as-is", "--budget", 10, code=1)
        self.assertIn("1e+06 come", flooded["candidates"][0]["reason"])

    def test_behind_the_engine(self):
        """Requests of one sample share runs of up to --batch rows; where they may not, one row is what there is."""
        tune = ("--slo", "p90=10s", "--batch", "1,8", "--engine", "--lanes", 1, "--precision", "as-is", "--budget", 20)
        report, done = self.tune(*tune)
        self.assertEqual([c["max_batch"] for c in report["candidates"]], [1, 8])
        self.assertEqual([c["batch"] for c in report["candidates"]], [1, 1])
        self.assertEqual(report["verdict"], "met")
        self.assertTrue(report["settings"]["engine"])
        chosen, load = report["chosen"], report["chosen"]["load"]
        self.assertEqual(load[load.index("--concurrency") + 1], str(chosen["max_batch"]))
        self.assertIn(" ".join(load[3:]), done.stdout)
        again = run(*load, "--duration", 0.3, "--warmup", 0.1, "--json", "-")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(json.loads(again.stdout)["engine"]["max_batch"], chosen["max_batch"])
        fixed, _ = self.tune(*tune, "--set", "batch=1")
        self.assertEqual([c["fate"] for c in fixed["candidates"]], ["chosen", "unavailable"])
        self.assertIn("may not share a run", fixed["candidates"][1]["reason"])

    def test_too_little_time(self):
        report, done = self.tune("--slo", "p99.9=10s", "--batch", 8, "--precision", "as-is", "--budget", 0.5, code=6)
        self.assertEqual(report["verdict"], "inconclusive")
        self.assertIn("most promising", done.stdout)
        self.assertIn(report["reason"], report["warnings"])
        self.tune("--slo", "p99.9=10s", "--batch", 8, "--precision", "as-is", "--budget", 0.5, "--strict", code=1)

    def test_usage(self):
        for args in ([], ["--slo", "p99"], ["--slo", "p99=80"], ["--slo", "p99=1ms,p99=2ms"],
                     ["--slo", "p99=1s", "--budget", 0], ["--slo", "p99=1s", "--lanes", "x"],
                     ["--slo", "p99=1s", "--batch", 0], ["--slo", "p99=1s", "--precision", "int3"],
                     ["--slo", "p99=1s", "--set", "batch=3", "--batch", 2]):
            self.bench(*args, code=2)

    def test_interrupt_leaves_a_valid_part(self):
        report, _ = self.interrupted("infer-bench", *self.command, "--slo", "p99.9=10s", "--budget", 100, after=4)
        self.assertIsNone(report["chosen"])
        self.assertTrue(any(c["closed_loop"] for c in report["candidates"]))


if __name__ == "__main__":
    unittest.main()
