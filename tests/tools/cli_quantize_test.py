#!/usr/bin/python3
"""What `infer-opt quantize` and `sweep` take longer for: weight-only, mixed and other types, searches that are killed.

Run by ctest with INFER_BIN (the folder of the binaries) and INFER_SOURCE (the repository)."""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import jsonschema

import onnx_wire as wire
import small_model
from tool_test_case import BIN, DEMO, MODEL, PREPROCESS, SOURCE, CliTestCase, validate


class CliQuantize(CliTestCase):
    """On the demo model where numbers are judged, else on one that costs a hundredth of it."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.SMALL = str(pathlib.Path(folder.name) / "small.onnx")
        pathlib.Path(cls.SMALL).write_bytes(small_model.small_model(side=32))
        cls.MIXED = ["quantize", cls.SMALL, *cls.MIXED_OPTIONS]
        cls.SWEEP = ["sweep", cls.SMALL, *cls.SWEEP_OPTIONS]

    def test_operators_of_layers_without_names(self):
        """A MatMul that became a Gemm is still a MatMul to who wrote the model, whether its nodes have names or not."""
        for named in (True, False):
            def layer(op, inputs, result, named=named):
                return wire.node(op, inputs, [result], name=result + "_node" if named else "")

            weights = wire.tensor("w", [32, 32], struct.pack("<1024f", *(0.01 * (i % 17 - 8) for i in range(1024))))
            path, out = self.dir / "products.onnx", self.dir / "out.onnx"
            path.write_bytes(wire.model(
                [layer("MatMul", ["x", "w"], "p"), layer("Add", ["p", "b"], "s"), layer("Relu", ["s"], "y")],
                [wire.value_info("x", ["batch", 32])], [wire.value_info("y", ["batch", 32])],
                [weights, wire.tensor("b", [32], struct.pack("<32f", *[0.5] * 32))]))
            for mode in ("dynamic", "weight-only"):
                with self.subTest(named=named, mode=mode):
                    form = ["infer-opt", "quantize", path, "-o", out, "--mode", mode]
                    self.expect(0, *form, "--include", "op:MatMul")
                    self.expect(4, *form, "--exclude", "op:MatMul")

    def test_a_preprocessing_that_fits_is_told(self):
        """Of images as they are stored the first message says what makes them fit, and it does."""
        data = ["--data", DEMO / "calib_images.npy", "--samples", 40]
        out = self.dir / "out.onnx"
        said = self.expect(3, "infer-opt", "quantize", MODEL, "-o", out, *data).stderr
        hint = re.search(r"--preprocess (\S+) fits", said)
        self.assertTrue(hint, said)
        self.assertEqual(hint[1], "resize=32x32,scale=1/255,layout=nchw")
        self.expect(0, "infer-opt", "quantize", MODEL, "-o", out, *data, "--preprocess", hint[1], "--recipe", "fast")

    def test_operators_that_a_mode_does_not_cover_are_one_line(self):
        """Nodes without weights have no row in the table of layers that stay in f32."""
        done = self.expect(0, "infer-opt", "quantize", MODEL, "-o", self.dir / "out.onnx", "--mode", "dynamic")
        told = [line for line in done.stdout.splitlines() if line.startswith("not covered by the mode, f32: ")]
        self.assertEqual(len(told), 1, done.stdout)
        self.assertRegex(told[0], r"\d+ Add")
        self.assertNotIn("does not cover", done.stdout)

    def test_quantize_weights_only(self):
        """Without data, which the command says; with --eval it is judged."""
        for form in (["--bits", 4, "--block", 32], ["--bits", 8, "--format", "qdq"],
                     ["--bits", 4, "--method", "hqq", "--asymmetric", "--accuracy-level", 4]):
            with self.subTest(form):
                out = self.dir / "weights.onnx"
                report = self.report(0, "infer-opt", "quantize", MODEL, "-o", out, "--mode",
                                     "weight-only", *form)
                self.assertEqual(report["weight_only"]["bits"], form[1])
                self.assertNotIn("accuracy", report)
                self.assertLess(report["output"]["bytes"], 0.35 * os.path.getsize(MODEL))
                self.expect(0, "infer-opt", "run", out, "--set", "batch=1")
        report = self.report(0, "infer-opt", "quantize", MODEL, "-o", out, "--mode", "weight-only",
                             "--eval", DEMO / "eval_images.npy", "--eval-labels",
                             DEMO / "eval_labels.csv", "--eval-samples", 60, "--preprocess",
                             PREPROCESS, "--max-drop", "5%")
        self.assertTrue(report["passed"])
        self.assertTrue(report["gates"])
        for method in ("gptq", "awq", "auto"):
            with self.subTest(method):
                report = self.report(0, "infer-opt", "quantize", self.SMALL, "-o", out, "--mode",
                                     "weight-only", "--block", 32, "--method", method, "--data",
                                     DEMO / "eval_images.npy", "--labels",
                                     DEMO / "eval_labels.csv", "--preprocess", PREPROCESS)
                self.assertGreater(report["data"]["calibration"], 0)
                measured = [layer for layer in report["quantization"]["layers"]
                            if "output_error" in layer]
                self.assertTrue(measured)
                for layer in measured:
                    self.assertLessEqual(layer["output_error"], layer["nearest_output_error"])
        said = self.expect(2, "infer-opt", "quantize", MODEL, "-o", out, "--mode", "weight-only",
                           "--method", "gptq").stderr
        self.assertIn("calibration data", said)
        for wrong in (["--format", "nbits"],
                      ["--mode", "weight-only", "--format", "qoperator"],
                      ["--mode", "weight-only", "--bits", 3],
                      ["--mode", "weight-only", "--max-drop", "1%"],
                      ["--mode", "weight-only", "--block", 0]):
            self.expect(2, "infer-opt", "quantize", MODEL, "-o", out, *wrong)

    def test_a_result_that_nobody_wants_is_warned_of(self):
        """Ranges that leave out most numbers: a file is written, and said to be far from the FP32 model."""
        ran = self.expect(0, "infer-opt", "quantize", self.SMALL, "-o", self.dir / "int8.onnx", "--recipe", "none", "--observer",
                          "percentile:70", "--calib", DEMO / "calib_images.npy", "--calib-samples", 24, "--eval",
                          DEMO / "eval_images.npy", "--eval-samples", 40, "--preprocess", PREPROCESS)
        self.assertRegex(ran.stderr, r"output logits is far from the FP32 model's \(SQNR -?[0-9.]+ dB\)")

    def test_static_keeps_an_older_opset(self):
        """Opsets 10 to 12 have one scale per tensor of weights that are computed with, and of biases; weights alone are stored
        behind Cast and Mul, with a scale per channel."""
        data = ["--calib", DEMO / "calib_images.npy", "--calib-samples", 24, "--eval", DEMO / "eval_images.npy", "--eval-labels",
                DEMO / "eval_labels.csv", "--eval-samples", 60, "--preprocess", PREPROCESS]
        for opset, recipe in ((10, "none"), (11, "fast"), (12, "balanced")):
            with self.subTest(opset=opset):
                older, out = self.dir / "older.onnx", self.dir / "int8.onnx"
                self.expect(0, "infer-opt", "fuse", self.SMALL, "-o", older, "--rewrites", "none", "--opset", opset)
                # What balanced finds slower than FP32 on this processor it would not write.
                judged = ["--no-verify"] if recipe == "balanced" else ["--allow-inconclusive"]
                report = self.report(0, "infer-opt", "quantize", older, "-o", out, "--recipe", recipe, "--opset", opset, *data,
                                     *judged)
                self.assertEqual(report["output"]["opset"], opset)
                self.assertGreater(sum(layer["precision"] in ("int8", "int8-weights")
                                       for layer in report["quantization"]["layers"]), 2)
                weights = report["quantization"]
                self.assertLess(weights["weight_bytes_after"], 0.4 * weights["weight_bytes_before"])
                kernels = self.expect(0, "infer-opt", "inspect", out, "--kernels", "--set", "batch=1").stdout
                self.assertNotIn("reference", kernels)

    # 4-bit weights need an opset that the model does not have.
    MIXED_OPTIONS = ["--mixed", "--opset", "max", "--threads", 1, "--calib", DEMO / "calib_images.npy",
             "--calib-samples", 24, "--eval", DEMO / "eval_images.npy", "--eval-labels",
             DEMO / "eval_labels.csv", "--eval-samples", 40, "--preprocess", PREPROCESS,
             "--layer-samples", 8, "--timing-ms", 4]

    def test_mixed(self):
        policy = self.dir / "policy.json"
        report = self.report(0, "infer-opt", *self.MIXED, "--goal", "size", "-o",
                             self.dir / "mixed.onnx", "--min-sqnr", 20, "--allow-inconclusive",
                             "--sensitivity", "--save-policy", policy)
        search = report["search"]
        self.assertTrue(search["chosen"]["within_limits"])
        self.assertTrue(search["values"])
        self.assertTrue(search["accumulated"])
        layers = {layer["layer"]: layer["options"] for layer in search["layers"]}
        for layer in report["policy"]["layers"]:
            self.assertIn(layer["precision"],
                          [option["precision"] for option in layers[layer["layer"]]])
            if layer["precision"] != "int8":
                self.assertTrue(layer["reason"], layer)
        int8 = next(p for p in search["uniform"] if p["name"] == "uniform int8")
        self.assertTrue(not int8["within_limits"] or search["chosen"]["bytes"] <= int8["bytes"])
        # A size that is asked for is kept.
        limit = int(0.25 * os.path.getsize(self.SMALL))
        self.report(0, "infer-opt", *self.MIXED, "-o", self.dir / "small.onnx", "--max-size",
                    limit, "--precisions", "int8,int8-weights,int4-weights")
        self.assertLessEqual(os.path.getsize(self.dir / "small.onnx"), limit)
        # The policy alone gives the same file.
        validate(json.loads(policy.read_text()))
        self.expect(0, "infer-opt", *self.MIXED, "--policy", policy, "-o", self.dir / "same.onnx")
        self.assertEqual((self.dir / "same.onnx").read_bytes(),
                         (self.dir / "mixed.onnx").read_bytes())
        policy.write_text(policy.read_text().replace('"layer": "', '"layer": "no-'))
        self.assertIn("no layer 'no-", self.expect(
            2, "infer-opt", *self.MIXED, "--policy", policy, "-o", self.dir / "x.onnx").stderr)
        policy.write_text("{")
        self.expect(3, "infer-opt", *self.MIXED, "--policy", policy, "-o", self.dir / "x.onnx")

    def check_sweep(self, folder, report):
        """What a sweep wrote, whether it came to its end or not."""
        variants = json.loads((folder / "variants.json").read_text())
        jsonschema.validate(variants, json.loads(
            (SOURCE / "docs/schemas/infer-opt-variants.schema.json").read_text()))
        validate(report)
        made = [v for v in report["variants"] if v["made"]]
        self.assertEqual([v["id"] for v in variants], [v["id"] for v in made])
        self.assertEqual(made[0]["id"], "fp32")
        for v in made:
            self.assertEqual(os.path.getsize(v["path"]), v["bytes"])
            # A process has its program, and this model, in memory.
            self.assertGreater(v["memory"]["resident_peak_bytes"], 5e6)
            allocated = v["memory"]["allocated_peak_bytes"]
            if allocated is not None:
                self.assertGreater(allocated, v["memory"]["weight_bytes"])
                self.assertGreater(v["memory"]["resident_peak_bytes"], 0.2 * allocated)
        page = (folder / "sweep.html").read_text()
        data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
        self.assertEqual(len(json.loads(data[1])["variants"]), len(report["variants"]))
        self.assertNotRegex(page, r"(src|href)=.?https?:")
        return made

    SWEEP_OPTIONS = ["--threads", 1, "--data", DEMO / "eval_images.npy", "--labels",
             DEMO / "eval_labels.csv", "--preprocess", PREPROCESS, "--samples", 60]

    def test_sweep(self):
        folder = self.dir / "variants"
        report = self.report(0, "infer-opt", *self.SWEEP, "-o", folder, "--only",
                             "int8,int4,mine,broken", "--budget", "20s", "--variant",
                             "mine=weight-only --bits 8 --block 32", "--variant",
                             "broken=weight-only --bits 3")
        made = self.check_sweep(folder, report)
        self.assertEqual([v["id"] for v in made], ["fp32", "int8", "int4", "mine"])
        self.assertEqual([v["id"] for v in report["variants"] if not v["made"]], ["broken"])
        self.assertEqual(sum(v["recommended"] for v in made), 1)
        best = next(v for v in made if v["recommended"])
        self.assertTrue(best["acceptable"])
        self.assertTrue(best["pareto"])
        self.assertEqual(made[0]["accuracy_delta"], 0)

    def test_sweep_for_a_target(self):
        """Variants for ONNX Runtime are what quantize --target ort writes; what a target refuses is no variant."""
        def swept(name, *options):
            folder = self.dir / name
            args = [*self.SWEEP, "-o", folder, "--only", "int8-dynamic", "--variant", "plain=static --recipe none", *options]
            done = self.expect(0, "infer-opt", *args)
            report = json.loads((folder / "sweep.json").read_text())
            self.check_sweep(folder, report)
            return {v["id"]: v for v in report["variants"]}, "saturate" in done.stderr, folder
        plain, told, _ = swept("plain")
        self.assertTrue(told)
        self.assertEqual([plain[i]["ort_saturates"] for i in ("int8-dynamic", "plain")], [True, True])
        ort, told, folder = swept("ort", "--target", "ort")
        self.assertFalse(told)
        self.assertEqual([ort[i]["ort_saturates"] for i in ("int8-dynamic", "plain")], [False, False])
        quantized = self.dir / "dynamic.onnx"
        self.expect(0, "infer-opt", "quantize", self.SMALL, "-o", quantized, "--mode", "dynamic", "--target", "ort", "--opset", "max",
                    "--no-verify")
        self.assertEqual(quantized.read_bytes(), (folder / "int8-dynamic.onnx").read_bytes())
        wide, told, _ = swept("wide", "--target", "ort", "--variant", "wide=static --recipe none --full-range")
        self.assertTrue(told)
        self.assertEqual([wide[i]["ort_saturates"] for i in ("plain", "wide")], [False, True])
        vino, _, _ = swept("vino", "--target", "openvino", "--variant", "codes=static --recipe none --format qoperator")
        self.assertIn("openvino refuses it", vino["codes"]["failure"])

    def test_sweep_without_data(self):
        folder = self.dir / "variants"
        report = self.report(0, "infer-opt", "sweep", self.SMALL, "--threads", 1, "-o", folder, "--only",
                             "int8,int4")
        self.check_sweep(folder, report)
        self.assertEqual(report["recommended"]["id"], "fp32")
        self.assertIn("data", next(v for v in report["variants"] if v["id"] == "int8")["failure"])
        for v in json.loads((folder / "variants.json").read_text()):
            self.assertEqual((v["accuracy_score"], v["accuracy_metric"]), (None, None))

    def test_sweep_with_data_of_each_role(self):
        report = self.report(0, "infer-opt", "sweep", MODEL, "--threads", 1, "-o", self.dir / "variants", "--only", "int8",
                             "--calib", DEMO / "calib_images.npy", "--calib-samples", 20, "--eval", DEMO / "eval_images.npy",
                             "--eval-labels", DEMO / "eval_labels.csv", "--eval-samples", 30, "--preprocess", PREPROCESS)
        self.assertEqual((report["data"]["calibration"], report["data"]["evaluation"]), (20, 30))
        self.assertEqual(report["data"]["evaluation_path"], str(DEMO / "eval_images.npy"))
        self.assertEqual([(v["id"], v["made"]) for v in report["variants"]], [("fp32", True), ("int8", True)])
        self.assertEqual([v["accuracy_metric"] for v in json.loads((self.dir / "variants" / "variants.json").read_text())],
                         ["top-1"] * 2)

    def test_sweep_to_a_folder_that_is_no_text(self):
        folder = os.fsencode(self.dir) + b"/v\xff"
        done = subprocess.run([str(BIN / "infer-opt"), "sweep", str(MODEL), "-o", folder], capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(b"no UTF-8", done.stderr)
        self.assertFalse(os.path.exists(folder))

    def test_sweep_with_a_fixed_extent(self):
        folder = self.dir / "variants"
        report = self.report(0, "infer-opt", "sweep", MODEL, "--set", "batch=1", "--threads", 1, "-o", folder,
                             "--only", "fp16", "--data", DEMO / "eval_images.npy", "--preprocess", PREPROCESS,
                             "--samples", 20, "--variant", "mine=weight-only --bits 8")
        self.assertEqual([(v["id"], v["made"]) for v in report["variants"]],
                         [("fp32", True), ("fp16", True), ("mine", True)])
        self.assertEqual([v["accuracy_metric"] for v in json.loads((folder / "variants.json").read_text())],
                         ["cosine"] * 3)

    def test_interrupted_sweep(self):
        folder = self.dir / "variants"
        args = [str(BIN / "infer-opt"), *map(str, self.SWEEP), "-o", str(folder), "--budget", "10s",
                "--only", "int8,mixed"]
        running = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        log = folder / "sweep.log"
        while running.poll() is None:
            # The page is written last; then the search of the mixed variant has a log of its own.
            page, search = folder / "sweep.html", folder / "mixed.search.log"
            if (page.exists() and '"id":"int8"' in page.read_text() and search.exists()
                    and search.read_bytes().count(b"\n") > 5):
                break
            time.sleep(0.005)
        running.kill()
        running.wait()
        before = self.check_sweep(folder, json.loads((folder / "sweep.json").read_text()))
        self.assertEqual([v["id"] for v in before], ["fp32", "int8"])
        self.assertEqual(log.read_bytes().count(b"\n"), 3)
        # Settings that measure something else are refused, and nothing is lost by that.
        refused = subprocess.run([*args, "--seed", "5"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("sweep.log", refused.stderr)
        # A file that is not the one that was measured is made again.
        (folder / "fp32.onnx").write_bytes((folder / "int8.onnx").read_bytes())
        done = subprocess.run(args, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("variant int8: measured before", done.stderr)
        self.assertNotIn("variant fp32: measured before", done.stderr)
        made = self.check_sweep(folder, json.loads((folder / "sweep.json").read_text()))
        self.assertEqual([v["id"] for v in made], ["fp32", "int8", "mixed"])
        self.assertEqual(made[1]["latency_ms"], before[1]["latency_ms"])
        self.assertEqual(made[0]["sha256"], before[0]["sha256"])
        # What has come to its end leaves no logs.
        self.assertEqual(sorted(f.name for f in folder.iterdir()),
                         ["fp32.onnx", "int8.onnx", "mixed.onnx", "sweep.html", "sweep.json",
                          "variants.json"])

    def test_sweep_usage(self):
        for more, said in ((["--variant", "x=nothing"], "no mode 'nothing'"),
                           (["--variant", "../x=static"], "ID=MODE"),
                           (["--only", "nobody"], "there is fp32"),
                           (["--budget", "0s", "--only", "int8"], "--budget 0s: write a time above 0"),
                           (["--budget", "-1"], "--budget -1: write a time above 0")):
            done = self.expect(2, "infer-opt", *self.SWEEP, "-o", self.dir / "v", *more)
            self.assertIn(said, done.stderr)

    def test_killed_search_goes_on(self):
        log = self.dir / "search.jsonl"
        args = [str(BIN / "infer-opt"), *map(str, self.MIXED), "-o", str(self.dir / "m.onnx"),
                "--search-log", str(log), "--json", str(self.dir / "r.json"), "--keep-failed"]

        def lines():
            return log.read_bytes().count(b"\n") if log.exists() else 0

        for at in (2, 9, 30):  # killed while it measures, each time a little later
            killed = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while lines() < at and killed.poll() is None:
                time.sleep(0.001)
            self.assertIsNone(killed.poll(), "it ended before it could be killed")
            killed.kill()
            killed.wait()
            before = lines()
            self.assertGreaterEqual(before, at)
        with open(log, "ab") as f:  # and a line that was cut off
            f.write(b'{"key": "layer int8 x", "numb')
        self.assertEqual(subprocess.run(args, capture_output=True, timeout=300).returncode, 0)
        search = json.loads((self.dir / "r.json").read_text())["search"]
        # The header is no measurement; nothing whose line was written is measured again.
        entries = [json.loads(line) for line in log.read_text().splitlines()[1:]]
        self.assertEqual(len(entries), len({e["key"] for e in entries}))
        self.assertEqual(search["measured"], len(entries) - (before - 1))
        self.assertGreaterEqual(search["reused"], before - 1)
        # Of another model, with other settings or labels, or broken inside: refused.
        labels = ["--calib-labels", str(DEMO / "calib_labels.csv")]
        for more, code in ((["--precisions", "int8"], 2), (labels, 2), ([], 3)):
            if code == 3:
                text = log.read_text().splitlines(keepends=True)
                at = next(i for i, line in enumerate(text) if '"noise":' in line)
                text[at] = text[at].replace('"noise":', '"noise":1')
                log.write_text("".join(text))
            done = subprocess.run(args + more, capture_output=True, timeout=300, text=True)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn("search.jsonl", done.stderr)

    def test_quantize_usage(self):
        eval_alone = ["--eval", DEMO / "eval_images.npy", "--preprocess", PREPROCESS]
        data = ["--data", DEMO / "calib_images.npy"]
        calib = ["--calib", DEMO / "calib_images.npy", "--no-verify", "--preprocess", PREPROCESS]
        for args in ([*data, *eval_alone], [*data, *calib], [*calib, "--max-drop", "1%"], [*calib, "--max-size", "1MB"],
                     [*calib, "--min-speedup", "1.2x"], [*calib, "--mixed", "--min-sqnr", 20],
                     [*calib, "--labels", DEMO / "calib_labels.csv"], [*calib, "--eval-labels", DEMO / "eval_labels.csv"],
                     [*calib, "--samples", 10], ["--mode", "fp16", "--calib-labels", DEMO / "calib_labels.csv"]):
            self.expect(2, "infer-opt", "quantize", MODEL, "-o", self.dir / "o.onnx", *args)
        self.assertFalse((self.dir / "o.onnx").exists())

    def test_options_of_another_mode_are_told(self):
        out = self.dir / "o.onnx"
        report = self.report(0, "infer-opt", "quantize", MODEL, "-o", out, "--mode", "bf16", "--opset", "max", "--bits", 4, "--asymmetric",
                             "--keep-io", "off", "--observer", "kl")
        told = [w.split()[0] for w in report["warnings"] if w.startswith("--")]
        self.assertEqual(told, ["--bits", "--asymmetric", "--observer"])
        report = self.report(0, "infer-opt", "quantize", MODEL, "-o", out, "--mode", "weight-only", "--bits", 4)
        self.assertEqual(report["warnings"], [])

    def test_quantize_a_model_of_halves(self):
        """Widened before every mode that rounds f32 weights; inputs and outputs stay of 16 bits."""
        half = self.dir / "half.onnx"
        self.expect(0, "infer-opt", "quantize", MODEL, "-o", half, "--mode", "fp16", "--keep-io", "off")
        data = ["--data", DEMO / "eval_images.npy", "--samples", 40, "--preprocess", PREPROCESS]
        for options in (["--mode", "weight-only"], ["--mode", "dynamic"], ["--recipe", "fast", *data]):
            with self.subTest(options=options):
                out = self.dir / "o.onnx"
                done = self.expect(0, "infer-opt", "quantize", half, "-o", out, *options)
                self.assertIn("the model is widened to f32", done.stdout + done.stderr)
                self.assertLess(os.path.getsize(out), 0.7 * os.path.getsize(half))
                ends = self.report(0, "infer-opt", "inspect", out)["model"]
                self.assertEqual({v["type"].split("[")[0] for v in ends["inputs"] + ends["outputs"]}, {"f16"})
                self.expect(0, "infer-opt", "compare", half, out, "--data", DEMO / "eval_images.npy",
                            "--samples", 20, "--preprocess", PREPROCESS, "--min-sqnr", 15)
        refused = self.expect(2, "infer-opt", "quantize", half, "-o", self.dir / "o.onnx", "--mode", "fp16")
        self.assertIn("the weights are f16 already", refused.stderr)

    def test_quantize_other_types(self):
        size = os.path.getsize(MODEL)
        data = ["--data", DEMO / "eval_images.npy", "--labels", DEMO / "eval_labels.csv",
                "--samples", 40, "--preprocess", PREPROCESS]
        rows = [("fp16", [], 0.55), ("bf16", ["--opset", "max"], 0.55), ("dynamic", [], 0.35),
                ("static", ["--format", "qoperator"], 0.35),
                ("static", ["--recipe", "fast", "--activations", "u16", "--opset", 21], 0.5),
                ("static", ["--recipe", "fast", "--weights", "u8"], 0.5),
                ("static", ["--recipe", "fast", "--symmetric-activations"], 0.5)]
        for mode, options, most in rows:
            with self.subTest(mode=mode, options=options):
                given = data if mode == "static" else []
                report = self.report(0, "infer-opt", "quantize", MODEL, "-o", self.dir / "o.onnx",
                                     "--mode", mode, *options, *given)
                self.assertGreater(report["quantization"]["integer_layers"], 5)
                self.assertLess(report["output"]["bytes"], most * size)
                self.expect(0, "infer-opt", "compare", MODEL, self.dir / "o.onnx",
                            "--data", DEMO / "eval_images.npy", "--samples", 20,
                            "--preprocess", PREPROCESS, "--min-sqnr", 15)
        for wrong in [["--activations", "s8", "--weights", "u8"],
                      ["--activations", "u16", "--format", "qoperator"],
                      ["--format", "nbits"]]:
            self.expect(2, "infer-opt", "quantize", MODEL, "-o", self.dir / "o.onnx", *wrong, *data)

    def test_calibration_cache(self):
        args = ["infer-opt", "quantize", self.SMALL, "-o", self.dir / "cached.onnx", "--calib",
                DEMO / "calib_images.npy", "--calib-samples", 20, "--preprocess", PREPROCESS,
                "--no-verify", "--recipe", "none", "--calib-cache", self.dir / "calibration"]
        first = self.report(0, *args)
        bytes_of = (self.dir / "cached.onnx").read_bytes()
        values = first["quantization"]["values"]
        self.assertTrue(all(v["observer"] in [c["observer"] for c in v["candidates"]]
                            for v in values if "observer" in v))
        self.assertTrue(any("observer" in v for v in values))
        (self.dir / "cached.onnx").unlink()
        self.assertIn("nothing is run again", self.expect(0, *args).stderr)
        self.assertEqual((self.dir / "cached.onnx").read_bytes(), bytes_of)
        file, = (self.dir / "calibration").iterdir()
        file.write_bytes(file.read_bytes()[:-3])
        self.assertIn("damaged", self.expect(2, *args).stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=2)
