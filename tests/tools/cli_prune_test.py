#!/usr/bin/python3
"""`infer-opt prune` and `inspect --sparsity`: exact counts in the file, goals, reports, gates and refusals.

Run by ctest with INFER_BIN (the folder of the binaries) and INFER_SOURCE (the repository)."""
import json
import subprocess
import time
import unittest

import shards
import small_model
from tool_test_case import BIN, DEMO, MODEL, PREPROCESS, CliTestCase

FEW = ["--calib", DEMO / "calib_images.npy", "--preprocess", PREPROCESS, "--calib-samples", 16]
FIT = [*FEW[:-1], 60]
JUDGE = ["--eval", DEMO / "eval_images.npy", "--eval-labels", DEMO / "eval_labels.csv", "--eval-samples", 200]
# For the small model, where the numbers do not matter.
SMALL = ["--calib", DEMO / "calib_images.npy", "--preprocess", small_model.PREPROCESS, "--calib-samples", 40]


class CliPrune(CliTestCase):
    def setUp(self):
        super().setUp()
        self.small = self.dir / "small.onnx"
        self.small.write_bytes(small_model.small_model())

    def zeros(self, path):
        """What `inspect --sparsity` finds in the file."""
        return self.report(0, "infer-opt", "inspect", path, "--sparsity")["sparsity"]

    def prune(self, code, *args, model=MODEL):
        return self.report(code, "infer-opt", "prune", model, "-o", self.dir / "p.onnx", *args)

    def test_unstructured(self):
        report = self.prune(0, "--sparsity", "50%", *FIT, *JUDGE, "--max-drop", "3%")
        pruning = report["pruning"]
        self.assertEqual(pruning["zeros"], round(pruning["weights"] / 2))
        self.assertEqual(pruning["zeros"], sum(layer["zeros"] for layer in pruning["layers"] if layer["pruned"]))
        self.assertEqual(pruning["allocation"], "measured")
        seen = self.zeros(self.dir / "p.onnx")
        self.assertEqual((seen["weights"], seen["zeros"]), (pruning["weights"], pruning["zeros"]))
        self.assertEqual(report["accuracy"]["task"]["samples"], 200)
        self.assertTrue(report["passed"])
        self.assertLess(report["size"].get("compressed_bytes", 0), 0.75 * report["size"]["bytes"])
        # Zeros stay through fusing, and through quantization with symmetric weights.
        fused, int8 = self.dir / "fused.onnx", self.dir / "int8.onnx"
        self.expect(0, "infer-opt", "fuse", self.dir / "p.onnx", "-o", fused)
        self.assertEqual(self.zeros(fused)["zeros"], seen["zeros"])
        self.expect(0, "infer-opt", "quantize", self.dir / "p.onnx", "-o", int8, "--recipe", "none", *FIT, "--no-verify",
                    "--keep-failed")
        quantized = self.zeros(int8)
        self.assertTrue(any(layer["quantized"] for layer in quantized["layers"]))
        self.assertGreaterEqual(quantized["zeros"], seen["zeros"])

    def quantize(self, code, *args):
        return self.report(code, "infer-opt", "quantize", self.small, "-o", self.dir / "q.onnx", *SMALL, "--no-verify", "--keep-failed",
                           *args)

    def test_quantized_together(self):
        """Zeros and codes in one sweep: as many zeros as were asked for, whatever the mode, and each in the file."""
        for args in (["--recipe", "none"], ["--recipe", "best", "--rounding", "all"], ["--mode", "dynamic"],
                     ["--mode", "weight-only", "--format", "qdq", "--block", 32, "--opset", 21],
                     ["--mode", "weight-only", "--format", "qdq", "--block", 32, "--opset", 21, "--asymmetric", "--bits", 8],
                     ["--mode", "weight-only", "--bits", 4, "--asymmetric"], ["--recipe", "none", "--format", "qoperator"]):
            with self.subTest(args):
                pruning = self.quantize(0, *args, "--sparsity", "60%")["pruning"]
                self.assertEqual(pruning["zero_units"], round(0.6 * pruning["weights"]))
                self.assertGreaterEqual(pruning["zeros"], pruning["zero_units"])
                self.assertTrue(any(layer.get("method", "").endswith(("+gptq", "joint")) for layer in pruning["layers"]))
                seen = self.zeros(self.dir / "q.onnx")
                self.assertEqual(seen["weights"], pruning["weights"])
                self.assertGreaterEqual(seen["zeros"], pruning["zeros"])
        pruning = self.quantize(0, "--recipe", "none", "--blocks", "16x4", "--sparsity", "60%")["pruning"]
        self.assertEqual((pruning["pattern"]["kind"], pruning["zero_units"]), ("blocks", round(0.6 * pruning["units"])))
        self.assertGreaterEqual(self.zeros(self.dir / "q.onnx")["zeros"], pruning["zeros"])
        for named in (False, True):  # which step runs a layer is told by its name, or by what reads its result
            self.small.write_bytes(small_model.small_model(named=named))
            self.quantize(0, "--recipe", "none", "--blocks", "16x4", "--sparsity", "75%")
            layers = [layer for layer in self.zeros(self.dir / "q.onnx")["layers"] if layer["zeros"] > 0]
            self.assertTrue(layers)
            self.assertTrue(all("kernel" in layer for layer in layers), layers)
        said = self.expect(0, "infer-opt", "quantize", self.small, "-o", self.dir / "q.onnx", *SMALL, "--no-verify", "--keep-failed",
                           "--recipe", "none", "--blocks", "16x4", "--sparsity", "75%").stdout
        self.assertRegex(said, r"\d+ of \d+ layers with zeros run on a kernel that skips them here")
        # A precision by layer over weights whose zeros stand.
        report = self.quantize(0, "--mixed", "--goal", "size", "--opset", "max", "--timing-ms", 5, "--sparsity", "60%")
        pruning = report["pruning"]
        self.assertEqual(pruning["zero_units"], round(0.6 * pruning["weights"]))
        self.assertGreaterEqual(self.zeros(self.dir / "q.onnx")["zeros"], pruning["zeros"])
        self.assertEqual(pruning["calibration_samples"], 30)  # the other 10 judged policies
        self.assertTrue(any(layer["precision"] != "f32" for layer in report["quantization"]["layers"]))
        pruning = self.quantize(0, "--recipe", "fast", "--sparsity", "2:4", "--fine-tune-steps", 5)["pruning"]
        found = {layer["name"]: layer for layer in self.zeros(self.dir / "q.onnx")["layers"]}
        touched = [layer for layer in pruning["layers"] if layer["pruned"] and layer["zero_units"] > 0]
        self.assertTrue(touched)
        for layer in touched:
            n, m = found[layer["name"]]["n_of_m"]
            self.assertLessEqual(2 * n, m)

    def test_quantized_together_refusals(self):
        for code, args, said in ((2, ["--sparsity", "0%"], "--sparsity"), (2, ["--sparsity", "100%"], "--sparsity"),
                                 (2, ["--sparsity", "half"], "write 50% or 2:4"), (2, ["--sparsity", "4:4"], "--sparsity"),
                                 (4, ["--sparsity", "8:256", "--include", "stem"], "nothing to prune with 8:256"),
                                 (4, ["--sparsity", "50%", "--mode", "fp16"], "--mode fp16 has no pruning"),
                                 (2, ["--blocks", "16by4"], "--blocks"), (2, ["--blocks", "16x4", "--sparsity", "2:4"], "leave --blocks out"),
                                 (2, ["--sparsity", "50%", "--mode", "weight-only", "--method", "gptq"], "--method gptq")):
            with self.subTest(args):
                done = self.expect(code, "infer-opt", "quantize", self.small, "-o", self.dir / "q.onnx", *SMALL, "--no-verify",
                                   "--keep-failed", *args)
                line = done.stderr.strip().splitlines()[-1]
                self.assertIn(said, line)
                self.assertFalse((self.dir / "q.onnx").exists())

    def test_zeros_of_a_pruned_model_survive_every_rounding(self):
        self.prune(0, "--sparsity", "60%", *SMALL, "--no-verify", model=self.small)
        zeros = self.zeros(self.dir / "p.onnx")["zeros"]
        for args in (["--recipe", "best", "--rounding", "all"], ["--mode", "weight-only", "--method", "gptq", "--format", "qdq", "--opset", 21]):
            with self.subTest(args):
                self.expect(0, "infer-opt", "quantize", self.dir / "p.onnx", "-o", self.dir / "q.onnx", *SMALL, "--no-verify",
                            "--keep-failed", *args)
                self.assertGreaterEqual(self.zeros(self.dir / "q.onnx")["zeros"], zeros)

    def test_sweep_of_pruned_variants(self):
        folder = self.dir / "variants"
        report = self.report(0, "infer-opt", "sweep", self.small, "--threads", 1, "-o", folder, "--only", "fp32", "--sparsity",
                             "50%,2:4", "--structured", "70%", "--variant", "w=weight-only --sparsity 30%", "--data",
                             DEMO / "eval_images.npy", "--labels", DEMO / "eval_labels.csv", "--preprocess",
                             small_model.PREPROCESS, "--samples", 60)
        variants = {v["id"]: v for v in json.loads((folder / "variants.json").read_text())}
        self.assertEqual([v["failure"] for v in report["variants"] if not v["made"]], [])
        self.assertEqual(list(variants), ["fp32", "sparse-50", "sparse-50-int8", "sparse-2of4", "sparse-2of4-int8", "narrow-70",
                                          "narrow-70-int8", "w"])
        self.assertEqual([v["pruning"] for v in variants.values()], ["none", "50%", "50%", "2:4", "2:4", "70% of the FLOPs",
                                                                     "70% of the FLOPs", "30%"])
        self.assertEqual(variants["fp32"]["sparsity"], 0)
        for name, least in (("sparse-50", 0.499), ("sparse-50-int8", 0.499), ("sparse-2of4", 0.4), ("sparse-2of4-int8", 0.4)):
            self.assertGreaterEqual(variants[name]["sparsity"], least)
        self.assertLess(variants["narrow-70-int8"]["size_mb"], variants["narrow-70"]["size_mb"])
        self.assertLess(variants["narrow-70"]["size_mb"], variants["fp32"]["size_mb"])
        self.assertEqual(sum(v.get("recommended", False) for v in report["variants"]), 1)
        self.engine_routes_to(folder)
        for wrong in (["--sparsity", "100%"], ["--sparsity", "50%,50%"], ["--structured", "0%"]):
            self.expect(2, "infer-opt", "sweep", self.small, "-o", self.dir / "v", *wrong)

    def engine_routes_to(self, folder):
        """Pruned and pruned INT8 variants of what a sweep wrote answer requests: by weights, and by their accuracy and time."""
        served = ["--set", "batch=1", "--threads", 1, "--warmup", 0.05, "--engine", "--lanes", 1, "--concurrency", 4, "--duration", 0.4]
        names = ["sparse-50", "sparse-50-int8", "narrow-70-int8"]
        split = "".join(f"[[variants]]\nname = '{name}'\nweight = 1\n" for name in names)
        for mode, args in ((f"mode = 'split'\nsalt = 's'\nvariants_json = 'variants.json'\n{split}", ["--keys", 100]),
                           ("mode = 'slo'\nvariants_json = 'variants.json'\n", ["--deadline", 60000])):
            path = folder / "route.toml"
            path.write_text(mode)
            model = folder / "sparse-50.onnx"
            route = self.report(0, "infer-bench", "load", model, *served, "--route", path, *args)["engine"]["route"]
            sent = {v["name"]: v["sent"] for v in route["variants"]}
            if "split" in mode:
                self.assertEqual(list(sent), names)
                self.assertTrue(all(sent.values()), sent)
            else:
                self.assertLessEqual({"fp32", "sparse-50", "sparse-50-int8", "narrow-70", "narrow-70-int8"}, set(sent))
                self.assertEqual(sum(sent.values()), route["submitted"])

    def test_same_command_same_bytes(self):
        files = []
        for threads in (1, 2):
            self.prune(0, "--nm", "2:4", *SMALL, "--no-verify", "--threads", threads, model=self.small)
            files.append((self.dir / "p.onnx").read_bytes())
        self.assertEqual(files[0], files[1])

    def test_patterns_are_found_again(self):
        for args, key, want in ((["--nm", "2:4", "--spare", 0], "n_of_m", [[1, 2], [2, 4]]),
                                (["--sparsity", "2:4", "--spare", 0], "n_of_m", [[1, 2], [2, 4]]),
                                (["--blocks", "1x4"], "blocks", [[1, 4]]),
                                (["--blocks", "16x1", "--sparsity", "30%"], "blocks", [[16, 1]])):
            with self.subTest(args):
                pruning = self.prune(0, *args, *SMALL, "--no-verify", model=self.small)["pruning"]
                found = {layer["weights"]: layer for layer in self.zeros(self.dir / "p.onnx")["layers"]}
                touched = [layer for layer in pruning["layers"] if layer["pruned"] and layer["zero_units"] > 0]
                self.assertTrue(touched)
                for layer in touched:
                    self.assertIn(found[layer["weights"]].get(key), want, layer)
                    # Which kernel runs it here.
                    seen = found[layer["weights"]]
                    self.assertEqual(seen["kernel"].startswith("own:sparse"), seen["skips_zeros"], seen)

    def test_without_data(self):
        done = self.expect(0, "infer-opt", "prune", MODEL, "-o", self.dir / "p.onnx", "--sparsity", "30%")
        self.assertIn("by magnitude alone", done.stderr)
        self.assertIn("accuracy: not known", done.stdout)
        self.assertEqual(self.prune(0, "--sparsity", "30%", "--allocation", "global")["pruning"]["allocation"], "global")

    def test_a_gate_that_fails_writes_nothing(self):
        report = self.prune(1, "--sparsity", "97%", "--method", "magnitude", "--allocation", "uniform", *SMALL, *JUDGE,
                            "--min-sqnr", 40, model=self.small)
        self.assertFalse(report["passed"])
        self.assertTrue(report["guilty"])
        self.assertFalse((self.dir / "p.onnx").exists())

    def test_structured(self):
        """A plain smaller model: the FLOPs of the file are those that were asked for; then INT8."""
        report = self.prune(0, "--structured", "--flops", "70%", *FIT, *JUDGE, "--max-drop", "10%")
        s = report["structured"]
        self.assertLessEqual(s["flops_after"], 0.7 * s["flops"])
        self.assertEqual(s["chosen_by"], "error")
        self.assertLess(s["parameters_after"], s["parameters"])
        self.assertLess(report["size"]["bytes"], report["size"]["bytes_before"])
        self.assertTrue(any(g["removed"] > 0 for g in s["groups"]))
        last = s["groups"][-1]
        self.assertEqual(last["units"], 0)
        self.assertIn("is an output of the graph", last["reason"])
        self.assertIn("speedup", report["latency"])
        small, int8 = self.dir / "p.onnx", self.dir / "int8.onnx"
        self.expect(0, "infer-opt", "quantize", small, "-o", int8, "--recipe", "none", *FIT, "--no-verify",
                    "--keep-failed")
        self.assertLess(int8.stat().st_size, small.stat().st_size)

    def test_structured_goals(self):
        report = self.prune(0, "--structured", "--max-size", "60%")
        self.assertLessEqual(report["size"]["bytes"], 0.6 * report["size"]["bytes_before"])
        self.assertEqual(report["structured"]["chosen_by"], "magnitude")
        report = self.prune(0, "--structured", "--max-drop", "10%", *SMALL[:-1], 24, *JUDGE, model=self.small)
        self.assertEqual(report["structured"]["goal"]["kind"], "drop")
        self.assertLessEqual(report["structured"]["expected_drop"], 0.1)
        self.assertLess(report["structured"]["flops_after"], report["structured"]["flops"])

    def test_structured_same_command_same_bytes(self):
        files = []
        for threads in (1, 2):
            self.prune(0, "--structured", "--flops", "60%", *SMALL, "--no-verify", "--threads", threads, model=self.small)
            files.append((self.dir / "p.onnx").read_bytes())
        self.assertEqual(files[0], files[1])

    def test_low_rank(self):
        """A plain smaller model whose split layers are two products, judged like the others; then INT8."""
        report = self.prune(0, "--low-rank", "--rank", "20%", *FIT, *JUDGE, "--max-drop", "40%")
        low = report["low_rank"]
        split = [layer for layer in low["layers"] if layer["split"]]
        self.assertTrue(split)
        for layer in split:
            self.assertLess(layer["parameters_after"], layer["parameters"])
            self.assertEqual(layer["parameters_after"], layer["rank"] * (layer["rows"] + layer["depth"]))
            self.assertLess(layer["us_after"], layer["us"])
            self.assertLess(layer["error"], 1.05 * layer["plain_error"])
        for layer in low["layers"]:
            self.assertEqual(layer["reason"] == "", layer["split"], layer)
        self.assertLess(low["parameters_after"], low["parameters"])
        self.assertLess(low["flops_after"], low["flops"])
        self.assertLess(report["size"]["bytes"], report["size"]["bytes_before"])
        self.assertEqual(report["accuracy"]["task"]["samples"], 200)
        self.assertIn("speedup", report["latency"])
        small, int8 = self.dir / "p.onnx", self.dir / "int8.onnx"
        nodes = self.report(0, "infer-opt", "inspect", small)
        self.assertTrue(nodes)
        self.expect(0, "infer-opt", "quantize", small, "-o", int8, "--recipe", "none", *FIT, "--no-verify",
                    "--keep-failed")
        self.assertLess(int8.stat().st_size, small.stat().st_size)

    def test_low_rank_goals(self):
        report = self.prune(0, "--low-rank", "--max-size", "85%", *SMALL, *JUDGE, model=self.small)
        self.assertLessEqual(report["size"]["bytes"], 0.85 * report["size"]["bytes_before"])
        self.assertEqual(report["low_rank"]["goal"]["kind"], "bytes")
        report = self.prune(0, "--low-rank", "--max-drop", "20%", *SMALL[:-1], 24, *JUDGE, model=self.small)
        self.assertEqual(report["low_rank"]["goal"]["kind"], "drop")
        self.assertLessEqual(report["low_rank"]["expected_drop"], 0.2)
        self.assertLess(report["low_rank"]["us_after"], report["low_rank"]["us"])

    def test_low_rank_same_command_same_bytes(self):
        files = []
        for threads in (1, 2):
            self.prune(0, "--low-rank", "--max-size", "85%", *SMALL, *JUDGE, "--threads", threads, model=self.small)
            files.append((self.dir / "p.onnx").read_bytes())
        self.assertEqual(files[0], files[1])

    def test_low_rank_goes_on_after_a_kill(self):
        """SIGKILL once the log has a measurement, then the same command: the bytes of a run that nobody killed."""
        args = ["--low-rank", "--max-size", "85%", *SMALL, *JUDGE, "--quiet"]
        log, whole, killed = self.dir / "log", self.dir / "whole.onnx", self.dir / "killed.onnx"
        done = self.report(0, "infer-opt", "prune", self.small, "-o", whole, *args)
        self.assertEqual(done["low_rank"]["reused"], 0)
        process = subprocess.Popen([str(BIN / "infer-opt"), *map(str, ["prune", self.small, "-o", killed, *args, "--search-log", log])],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if log.exists() and log.read_bytes().count(b"\n") > 1:
                break
            time.sleep(0.002)
        process.kill()
        process.wait()
        self.assertGreater(log.read_bytes().count(b"\n"), 1)
        again = self.report(0, "infer-opt", "prune", self.small, "-o", killed, *args, "--search-log", log)
        self.assertGreater(again["low_rank"]["reused"], 0)
        self.assertEqual(again["low_rank"]["reused"] + again["low_rank"]["measured"], done["low_rank"]["measured"])
        self.assertEqual(killed.read_bytes(), whole.read_bytes())
        # Other data: the log is of something else.
        said = self.expect(2, "infer-opt", "prune", self.small, "-o", killed, "--low-rank", "--max-size", "85%", *SMALL[:-1], 16, *JUDGE,
                           "--search-log", log).stderr
        self.assertIn("name another --search-log", said)

    def test_pruning_goes_on_after_a_kill(self):
        """A checkpoint that ends anywhere, as a kill leaves it: the bytes of a run that nobody killed. What it has is not done again."""
        for way in (["--sparsity", "50%"], ["--structured", "--flops", "70%"]):
            with self.subTest(way[0]):
                args = [*way, *SMALL, *JUDGE, "--quiet"]
                point, whole, killed = self.dir / f"p{way[0]}", self.dir / "whole.onnx", self.dir / "killed.onnx"
                self.expect(0, "infer-opt", "prune", self.small, "-o", whole, *args)
                first = self.report(0, "infer-opt", "prune", self.small, "-o", killed, *args, "--checkpoint", point)
                self.assertEqual(first["checkpoint"]["records_before"], 0)
                self.assertEqual(killed.read_bytes(), whole.read_bytes())
                full, records = point.read_bytes(), []
                for share in (0, 0.001, 0.3, 0.7, 1):
                    point.write_bytes(full[:int(len(full) * share)])
                    done = self.report(0, "infer-opt", "prune", self.small, "-o", killed, *args, "--checkpoint", point)
                    records.append(done["checkpoint"]["records_before"])
                    self.assertEqual(killed.read_bytes(), whole.read_bytes())
                    self.assertEqual(len(point.read_bytes()), len(full))
                self.assertEqual(records, sorted(records))
                self.assertEqual(records[0], 0)
                self.assertGreater(records[2], 0)
                # Damaged before its end (anywhere in the first record, its sizes too), of something else, no checkpoint at all.
                begin = full.index(b"\n", full.index(b"\n") + 1) + 1
                for at in (begin, begin + 15, begin + 23, begin + 30):
                    point.write_bytes(full[:at] + bytes([full[at] ^ 1]) + full[at + 1:])
                    said = self.expect(3, "infer-opt", "prune", self.small, "-o", killed, *args, "--checkpoint", point).stderr
                    self.assertIn(f"damaged at byte {begin}", said)
                point.write_bytes(full)
                said = self.expect(2, "infer-opt", "prune", self.small, "-o", killed, *way, *SMALL[:-1], 16, *JUDGE, "--checkpoint", point)
                self.assertIn("name another --checkpoint", said.stderr)
                point.write_bytes(b"something")
                self.expect(3, "infer-opt", "prune", self.small, "-o", killed, *args, "--checkpoint", point)
                self.assertEqual(point.read_bytes(), b"something")

    def test_fine_tuning(self):
        """A trained model is nearer to the dense one on held-out samples and keeps its zeros or shapes; the report tells of the training."""
        tune = ["--fine-tune-steps", 100, "--fine-tune-batch", 8, "--fine-tune-copies", "none"]
        for args in (["--sparsity", "90%", "--method", "magnitude", "--allocation", "uniform"],
                     ["--structured", "--flops", "30%"], ["--low-rank", "--rank", "12%"]):
            with self.subTest(args):
                report = self.prune(0, *args, *SMALL, "--no-verify", *tune, model=self.small)
                tuned = report["fine_tuning"]
                self.assertEqual((tuned["steps"], len(tuned["points"])), (100, 11))
                self.assertLess(tuned["loss_after"], tuned["loss_before"])
                self.assertEqual(tuned["stacked"], 8)
                if "pruning" in report:
                    self.assertEqual(self.zeros(self.dir / "p.onnx")["zeros"], report["pruning"]["zeros"])
                elif "low_rank" in report:
                    self.assertLess(report["low_rank"]["parameters_after"], report["low_rank"]["parameters"])
                else:
                    self.assertLessEqual(report["structured"]["flops_after"], 0.3 * report["structured"]["flops"])

    def test_fine_tuning_goes_on_after_a_kill(self):
        """SIGKILL in the middle, then the same command: the bytes of a run that nobody killed."""
        args = ["--sparsity", "70%", "--method", "magnitude", "--allocation", "uniform", *SMALL, "--no-verify",
                "--fine-tune-steps", 1500, "--fine-tune-batch", 8, "--quiet"]
        point = self.dir / "point"
        whole, killed = self.dir / "whole.onnx", self.dir / "killed.onnx"
        self.expect(0, "infer-opt", "prune", self.small, "-o", whole, *args)
        kept = ["--fine-tune-checkpoint", point, "--fine-tune-checkpoint-every", 0]
        process = subprocess.Popen([str(BIN / "infer-opt"), *map(str, ["prune", self.small, "-o", killed, *args, *kept])],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not point.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        process.wait()
        self.assertTrue(point.exists())
        self.assertFalse(killed.exists())
        done = self.report(0, "infer-opt", "prune", self.small, "-o", killed, *args, *kept)
        self.assertGreater(done["fine_tuning"]["resumed_from"], 0)
        self.assertEqual(killed.read_bytes(), whole.read_bytes())

    def test_refusals(self):
        """One clear line, and nothing is written."""
        for code, args, said in ((2, ["--sparsity", "100%"], "leaves no weight"),
                                 (2, ["--sparsity", "0%"], "prunes nothing"),
                                 (2, ["--nm", "0:4"], "leaves no weight"),
                                 (2, ["--nm", "4:4"], "prunes nothing"),
                                 (2, ["--nm", "2:4", "--sparsity", "50%"], "leave --sparsity out"),
                                 (2, ["--blocks", "1x1"], "leave the blocks out"),
                                 (2, [], "number of weights to set to zero is missing"),
                                 (2, ["--sparsity", "50%", "--method", "wanda"], "calibration data"),
                                 (2, ["--sparsity", "50%", "--allocation", "measured"], "calibration data"),
                                 (2, ["--sparsity", "50%", "--max-drop", "1%"], "a gate needs data"),
                                 (2, ["--sparsity", "50%", "--exclude", "nothing*"], "nothing*"),
                                 (2, ["--flops", "70%"], "--structured, which is missing"),
                                 (2, ["--speedup", "2"], "--structured or --low-rank, which is missing"),
                                 (2, ["--rank", "25%"], "--low-rank, which is missing"),
                                 (2, ["--sparsity", "50%", "--search-log", self.dir / "l"], "--low-rank, which is missing"),
                                 (2, ["--low-rank", "--max-size", "80%", "--search-seconds", 0], "--search-seconds is above 0"),
                                 (4, ["--low-rank", "--max-size", "80%", "--search-seconds", 1e-9, *FEW, *JUDGE], "layers were not measured"),
                                 (2, ["--low-rank", *FEW, "--no-verify"], "wants a goal"),
                                 (2, ["--low-rank", "--rank", "0%", *FEW, "--no-verify"], "above 0"),
                                 (2, ["--low-rank", "--rank", "100%", *FEW, "--no-verify"], "below 100 %"),
                                 (2, ["--low-rank", "--rank", "25%"], "calibration data"),
                                 (2, ["--low-rank", "--flops", "70%"], "--structured, which is missing"),
                                 (2, ["--low-rank", "--rank", "25%", "--speedup", "2", *FEW, "--no-verify"], "leave one of them out"),
                                 (2, ["--low-rank", "--structured", "--max-size", "60%"], "leave one of them out"),
                                 (2, ["--low-rank", "--rank", "25%", "--sparsity", "50%"], "leave one of them out"),
                                 (2, ["--low-rank", "--speedup", "0.5x", *FEW, "--no-verify"], "above 1"),
                                 (2, ["--low-rank", "--max-size", "100%", *FEW, *JUDGE], "already"),
                                 (4, ["--low-rank", "--rank", "99%", *FEW, "--no-verify"], "nothing to split"),
                                 (4, ["--low-rank", "--max-size", "30%", *FEW, *JUDGE], "out of reach"),
                                 (2, ["--structured"], "wants a goal"),
                                 (2, ["--structured", "--flops", "100%"], "below 100 %"),
                                 (2, ["--structured", "--flops", "0%"], "above 0"),
                                 (2, ["--structured", "--flops", "70%", "--speedup", "2"], "leave one of them out"),
                                 (2, ["--structured", "--speedup", "0.5x"], "above 1"),
                                 (2, ["--structured", "--speedup", "1.5x"], "runs the model on data"),
                                 (2, ["--structured", "--flops", "70%", "--sparsity", "50%"], "leave one of them out"),
                                 (2, ["--structured", "--max-size", "100%"], "already"),
                                 (2, ["--structured", "--max-size", "10"], "are no weights"),
                                 (2, ["--structured", "--max-drop", "1%"], "on calibration data"),
                                 (2, ["--structured", "--max-size", "60%", "--exclude", "nothing*"], "nothing*"),
                                 (2, ["--sparsity", "50%", "--fine-tune-steps", 5], "trains on calibration data"),
                                 (2, ["--sparsity", "50%", "--fine-tune-checkpoint", self.dir / "c"],
                                  "--fine-tune-steps N is missing"),
                                 (2, ["--sparsity", "50%", "--fine-tune-steps", 5, "--fine-tune-lr", 0], "above 0"),
                                 (2, ["--sparsity", "50%", "--method", "magnitude", "--allocation", "uniform", "--fine-tune-steps", 5,
                                      *FEW[:-1], 8, "--no-verify"], "at least 16 calibration samples"),
                                 (2, ["--structured", "--flops", "70%", "--set", "batch=1", "--fine-tune-steps", 5, *FEW[:-1], 8,
                                      "--no-verify"], "at least 16 calibration samples"),
                                 (2, ["--low-rank", "--max-size", "60%", "--checkpoint", self.dir / "c"], "--search-log"),
                                 (4, ["--structured", "--flops", "1%", "--set", "batch=1"], "out of reach"),
                                 (4, ["--blocks", "256x256"], "nothing to prune")):
            with self.subTest(args):
                done = self.expect(code, "infer-opt", "prune", MODEL, "-o", self.dir / "p.onnx", *args)
                lines = [line for line in done.stderr.splitlines() if "warning" not in line]
                self.assertEqual(len(lines), 1, done.stderr)
                self.assertIn(said, lines[0])
                if "16 calibration samples" in said:
                    self.assertNotIn("layer", done.stdout)  # nothing was pruned for it
                self.assertFalse((self.dir / "p.onnx").exists())


if __name__ == "__main__":
    shards.main()
