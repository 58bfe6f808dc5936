#!/usr/bin/python3
"""The tools as a user meets them: exit codes, streams, JSON reports against their schemas.

Run by ctest with INFER_BIN (the folder of the binaries) and INFER_SOURCE (the repository)."""
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time
import unittest

import numpy as np

import shards
import small_model
from onnx_wire import (FLOAT, FLOAT16, INT64, UINT8, field, graph, graph_attribute, int_attribute, ints_attribute, model, node,
                       tensor, value_info)
from tool_test_case import BIN, DEMO, MODEL, PREPROCESS, SOURCE, CliTestCase

EVAL = ["--data", str(DEMO / "eval_images.npy"), "--labels", str(DEMO / "eval_labels.csv"),
        "--preprocess", PREPROCESS, "--samples", "60"]


class Cli(CliTestCase):
    def small(self):
        """A model of a hundredth of the demo model's cost, for what does not hang on the numbers."""
        path = self.dir / "small.onnx"
        path.write_bytes(small_model.small_model(side=32))
        return path

    # Success and reports

    def test_version_and_help(self):
        for tool in ["infer-opt", "infer-bench"]:
            self.assertRegex(self.expect(0, tool, "--version").stdout, tool + r" \d+\.\d+\.\d+")
            self.assertIn("run", self.expect(0, tool, "--help").stdout)
        for command in ["inspect", "run", "fuse", "quantize", "prune", "compare", "eval", "ops",
                        "rules"]:
            self.assertIn("Examples:", self.expect(0, "infer-opt", command, "--help").stdout)

    def test_inspect(self):
        report = self.report(0, "infer-opt", "inspect", MODEL, "--set", "batch=1", "--kernels")
        self.assertGreater(report["cost"]["flops"], 1e8)
        self.assertEqual(len(report["model"]["sha256"]), 64)
        self.assertTrue(report["kernels"])
        # Nothing is quantized: what integer kernels miss is no news.
        self.assertFalse([r for k in report["kernels"] for r in k["refusals"] if "int8:" in r])

    def test_work_with_an_open_batch_is_counted_without_verifying(self):
        said = self.expect(0, "infer-opt", "fuse", DEMO / "digits.onnx", "-o", self.dir / "f.onnx", "--no-verify").stdout
        before, after = map(float, re.search(r"MFLOP ([\d.]+) -> ([\d.]+)", said).groups())
        self.assertGreater(before, 0)
        self.assertGreater(after, 0)

    def test_inspect_counts_bodies_and_only_what_is_known(self):
        weights = tensor("w", [64, 64], bytes(4 * 64 * 64))
        branch = lambda op, *inputs: graph([node(op, inputs, ["r"])], [], [value_info("r", ["b", 64])])
        choice = node("If", ["c"], ["y"], [graph_attribute("then_branch", branch("MatMul", "x", "w")),
                                           graph_attribute("else_branch", branch("Neg", "x"))])
        x = value_info("x", ["b", 64])
        path = self.dir / "if.onnx"
        path.write_bytes(model([choice], [value_info("c", [], 9), x],
                               [value_info("y", ["b", 64])], [weights]))
        report = self.report(0, "infer-opt", "inspect", path, "--kernels")
        self.assertEqual(report["cost"]["flops"], 2 * 64 * 64 + 64)
        self.assertEqual([k["cost"]["flops"] for k in report["kernels"]], [2 * 64 * 64 + 64])
        path = self.dir / "nonzero.onnx"
        path.write_bytes(model([node("NonZero", ["x"], ["i"]), node("Cast", ["i"], ["f"], [int_attribute("to", 1)]),
                                node("Transpose", ["f"], ["t"]), node("MatMul", ["t", "v"], ["y"])],
                               [x], [value_info("y", ["n", 64])], [tensor("v", [2, 64], bytes(4 * 2 * 64))]))
        costs = {k["op"]: k["cost"] for k in self.report(0, "infer-opt", "inspect", path, "--kernels")["kernels"]}
        self.assertEqual(costs, dict.fromkeys(costs))  # all of unknown extents

    def test_plan_with_open_extents(self):
        path = self.dir / "open.onnx"
        path.write_bytes(model([node("Conv", ["x", "w"], ["y"])], [value_info("x", ["b", 3, "h", "w"])],
                               [value_info("y", ["b", 8, "p", "q"])], [tensor("w", [8, 3, 3, 3], bytes(4 * 216))]))
        for more in ([], ["--kernels"]):
            report = self.report(0, "infer-opt", "inspect", path, "--plan", *more)
            self.assertEqual([p["name"] for p in report["plan"]], ["layouts", "launches", "memory"])
        self.assertIn("h = 224", self.expect(0, "infer-opt", "inspect", path, "--plan").stdout)
        unranked = [field(1, name) + field(2, field(1, field(1, FLOAT))) for name in "xy"]
        path.write_bytes(model([node("Neg", ["x"], ["y"])], unranked[:1], unranked[1:]))
        said = self.expect(0, "infer-opt", "inspect", path, "--plan")
        self.assertIn("--shape", said.stderr)
        self.assertEqual(len(self.report(0, "infer-opt", "inspect", path, "--plan")["plan"]), 1)

    def test_plan(self):
        args = ["infer-opt", "inspect", MODEL, "--set", "batch=1"]
        plan = self.report(0, *args, "--plan")["plan"]
        self.assertEqual([p["name"] for p in plan], ["layouts", "launches", "memory"])
        steps, launches, buffers = plan[0]["steps"], plan[1]["launches"], plan[2]["buffers"]
        self.assertTrue(all(0 <= launch["step"] < len(steps) for launch in launches))
        used = {b for launch in launches for b in launch["args"] if b >= 0}
        self.assertEqual(used, {b["buffer"] for b in buffers})
        arena = [b for b in buffers if b["kind"] == "arena"]
        for a in arena:  # nothing that is alive at the same time overlaps
            for b in arena:
                if a["buffer"] < b["buffer"] and a["first"] <= b["last"] and b["first"] <= a["last"]:
                    self.assertTrue(a["offset"] + a["bytes"] <= b["offset"] or
                                    b["offset"] + b["bytes"] <= a["offset"], (a, b))
        every = [p["name"] for p in self.report(0, *args, "--plan=all")["plan"]]
        self.assertEqual(every[-3:], ["layouts", "launches", "memory"])
        one = self.report(0, *args, "--plan=partition")["plan"]
        self.assertEqual(len(one[0]["steps"]), self.report(0, *args)["model"]["nodes"])
        self.assertIn("there are final, all, widen", self.expect(2, *args, "--plan=x").stderr)
        self.expect(4, *args, "--plan", "--device", "reference")

    def test_tune(self):
        cache = self.dir / "cache" / "tune.txt"
        args = ["infer-bench", "run", MODEL, "--set", "batch=1", "--max-time", "0.1", "--threads", 1,
                "--tune-cache", cache]
        self.expect(0, *args)
        self.assertFalse(cache.exists())
        self.expect(0, *args, "--tune")
        kept = cache.read_text()
        self.assertIn("\t", kept)
        cache.write_text(kept + "damaged\t1\n")
        memory = self.report(0, *args)["results"][0]["memory"]
        self.assertLessEqual(memory["resident_bytes"], memory["peak_resident_bytes"])

    def test_run(self):
        np.save(self.dir / "x.npy", np.zeros((2, 1, 32, 32), np.float32))
        report = self.report(0, "infer-opt", "run", MODEL, "--input", f"image={self.dir}/x.npy",
                             "-o", self.dir / "out")
        output = np.load(report["outputs"][0]["file"])
        self.assertEqual(output.shape, (2, 10))
        np.testing.assert_allclose(output[0], output[1], rtol=1e-4)

    def test_same_command_same_bytes(self):
        models = []
        for threads in [1, 2]:
            path = self.dir / f"{threads}.onnx"
            self.expect(0, "infer-opt", "fuse", MODEL, "-o", path, "--threads", threads)
            models.append(path.read_bytes())
        self.assertEqual(models[0], models[1])

    def test_fuse_compare_and_eval(self):
        fused = self.dir / "fused.onnx"
        report = self.report(0, "infer-opt", "fuse", MODEL, "-o", fused)
        self.assertTrue(report["passed"])
        self.assertNotIn("BatchNormalization", report["optimize"]["after"]["operators"])
        self.assertTrue(self.report(0, "infer-opt", "compare", MODEL, fused, *EVAL)["passed"])
        self.assertGreater(self.report(0, "infer-opt", "eval", fused, *EVAL)["top1"], 0.9)

    def test_random_indices_fit_for_every_sample(self):
        """A list of edges picks nodes, of which there are as many as the command chooses."""
        path, edges = self.dir / "edges.onnx", value_info("e", [2, "m"], INT64)
        for width in (3, 4, 5, 6, 7, 8):  # other numbers are drawn
            nodes, x = [node("Gather", ["x", "e"], ["a"]), node("Relu", ["a"], ["y"])], value_info("x", ["n", width])
            path.write_bytes(model(nodes, [x, edges], [value_info("y", [2, "m", width])]))
            self.assertTrue(self.report(0, "infer-opt", "fuse", path, "-o", self.dir / "f.onnx")["passed"])

    def test_eval_tells_drift(self):
        """The demo's calibration and evaluation images are of one kind; brighter ones are not. No labels are needed."""
        images = ["--preprocess", PREPROCESS, "--drift-from", DEMO / "calib_images.npy"]
        data = DEMO / "eval_images.npy"
        report = self.report(0, "infer-opt", "eval", MODEL, "--data", data, *images)
        self.assertEqual(report["drift"]["found"], [])
        self.assertGreater(report["drift"]["figures"], 10)
        self.assertNotIn("top1", report)
        bright = self.dir / "bright.npy"
        raw = data.read_bytes()
        begin = raw.index(b"\n") + 1  # behind the header
        bright.write_bytes(raw[:begin] + bytes(min(255, b * 3 // 2) for b in raw[begin:]))
        report = self.report(1, "infer-opt", "eval", MODEL, "--data", bright, *images)
        first = report["drift"]["found"][0]
        self.assertEqual((first["tensor"], first["first_channel"]), ("image", 0))
        self.assertLess(first["p"], 1e-20)
        self.assertEqual(report["verdict"], "failed")
        # The same from a file of the reference's figures, without the samples.
        usual = self.dir / "usual.json"
        self.expect(0, "infer-opt", "eval", MODEL, "--data", DEMO / "calib_images.npy", "--preprocess", PREPROCESS,
                    "--save-drift", usual)
        kept = ["--preprocess", PREPROCESS, "--drift-from", usual]
        again = self.report(1, "infer-opt", "eval", MODEL, "--data", bright, *kept)
        self.assertEqual(again["drift"], report["drift"])
        self.assertEqual(self.report(0, "infer-opt", "eval", MODEL, "--data", data, *kept)["drift"]["found"], [])
        text = usual.read_text()
        for bad, why in (("{}", "no drift reference"), (text[:-9], "usual.json"),
                         (text.replace('"image"', '"picture"'), "other inputs or outputs: picture"),
                         (text.replace('"groups":1,', '"groups":99999999999,'), "parts that no tensor has"),
                         (text.replace('"rows":[[', '"rows":[[null,', 1), "a figure that is no number")):
            usual.write_text(bad)
            done = self.expect(3, "infer-opt", "eval", MODEL, "--data", data, *kept)
            self.assertIn(why, done.stderr)
        self.expect(2, "infer-opt", "eval", MODEL, "--data", data, "--save-drift", self.dir / "usual.npy")
        few = ["infer-opt", "eval", MODEL, "--data", bright, "--samples", 20, *images]
        self.assertEqual(self.report(6, *few)["verdict"], "inconclusive")
        self.expect(0, *few, "--allow-inconclusive")

    def test_fuse_shows_what_it_would_do(self):
        """--analyze, --near-misses and --explain write nothing but the report."""
        def graph(constant):
            scalar = lambda name, v: tensor(name, [], struct.pack("<f", v))
            nodes = [node(*n) for n in [("Div", ["x", "r"], ["d"]), ("Erf", ["d"], ["e"]),
                                        ("Add", ["e", "o"], ["a"]), ("Mul", ["x", "a"], ["m"]),
                                        ("Mul", ["m", "h"], ["y"])]]
            return model(nodes, [value_info("x", [64, 256])], [value_info("y", [64, 256])],
                         [scalar("r", constant), scalar("o", 1), scalar("h", 0.5)])
        path = self.dir / "gelu.onnx"
        path.write_bytes(graph(2 ** 0.5))
        before = sorted(p.name for p in self.dir.iterdir())
        report = self.report(0, "infer-opt", "fuse", path, "--analyze", "--near-misses")
        self.assertEqual(report["near_misses"], [])
        gelu, = report["analysis"]["opportunities"]
        self.assertEqual((gelu["rule"], gelu["nodes_removed"], gelu["nodes_added"]),
                         ("fuse-gelu", 5, 1))
        # Five nodes read and write x's 65536 bytes; Mul(x, a) reads two of them.
        self.assertGreaterEqual(gelu["bytes_saved"], (11 - 2) * 65536)
        predicted = report["analysis"]["predicted_ms"]
        self.assertAlmostEqual(predicted["before"] - predicted["after"], gelu["ms_saved"], places=6)
        self.assertGreater(gelu["ms_saved"], 0)
        memory = [report["optimize"][k]["peak_activation_bytes"] for k in ("before", "after")]
        self.assertEqual(memory, [3 * 65536, 2 * 65536])
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), before)
        path.write_bytes(graph(1.3))
        report = self.report(0, "infer-opt", "fuse", path, "--analyze", "--near-misses=3",
                             "--explain", "fuse-gelu@y")
        miss, = report["near_misses"]
        self.assertEqual((miss["rule"], miss["at"], miss["matched"], miss["of"]),
                         ("fuse-gelu", "y", 5, 5))
        self.assertIn("'r' is not = 1.4142135, it is 1.3", miss["reason"])
        why = [m["reason"] for m in report["optimize"]["matches"] if m["outcome"] == "no match"]
        self.assertIn("matched 5 of 5 nodes (", why[0])
        self.expect(2, "infer-opt", "fuse", path, "--analyze", "--near-misses=none")

    def test_fuse_draws(self):
        """--graph: one page that loads nothing, with every node of both graphs, whatever their names."""
        nodes = [node("Sigmoid", ["x"], ["s"], name="</script><script>alert(1)"),
                 node("Mul", ["x", "s"], ["m"], name="mul"), node("Relu", ["m"], ["y"], name="<relu>")]
        path, page = self.dir / "m.onnx", self.dir / "page.html"
        path.write_bytes(model(nodes, [value_info("x", [2, 3])], [value_info("y", [2, 3])]))
        self.report(0, "infer-opt", "fuse", path, "--analyze", "--graph", page)
        text = page.read_text()
        self.assertEqual(text.count("</script>"), 2)
        data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
        kept, removed, added = 0, 2, 3
        operators = {n["o"].split("::")[-1]: n for n in data["nodes"] if n["k"] == 0}
        self.assertEqual({o: n.get("s", kept) for o, n in operators.items()},
                         {"Sigmoid": removed, "Mul": removed, "Silu": added, "Relu": kept})
        self.assertEqual([data["nodes"][i]["o"] for i in operators["Silu"]["x"]], ["Sigmoid", "Mul"])
        self.assertEqual(operators["Silu"]["f"], ["</script><script>alert(1)", "mul"])
        self.assertEqual(data["before"], "m.onnx")
        # What was replaced is folded beside what replaced it.
        group = data["groups"][operators["Mul"]["g"]]
        self.assertEqual((group["l"], group["p"]), ("Sigmoid, Mul", operators["Silu"]["g"]))
        self.expect(2, "infer-opt", "fuse", path, "--analyze", "--graph", path)
        for command in (["fuse", path, "--analyze"], ["inspect", path]):
            said = self.expect(2, "infer-opt", *command, "--graph", self.dir / "page.pdf").stderr
            self.assertIn("ends neither in .html (a page) nor in .svg", said)
        self.assertFalse((self.dir / "page.pdf").exists())
        image = self.dir / "page.svg"
        self.report(0, "infer-opt", "fuse", path, "--analyze", "--graph", image)
        self.assertIn("&lt;relu&gt;", image.read_text())
        # What --measure keeps depends on what it measures, so no more is said of it than that it stands in the page.
        self.report(0, "infer-opt", "fuse", path, "--analyze", "--measure", "--graph", page)
        data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.S)[1])
        self.assertGreater(sum(n.get("M", 0) for n in data["nodes"]), 0)

    def test_fuse_tells_what_it_does_not_fold(self):
        """Constants that the budget leaves to each run are one line; a larger budget folds them."""
        column = tensor("a", [200, 1], struct.pack("<200f", *range(200)))
        row = tensor("b", [1, 200], struct.pack("<200f", *range(200)))
        path = self.dir / "outer.onnx"
        path.write_bytes(model([node("Mul", ["a", "b"], ["c"]), node("Add", ["x", "c"], ["y"])],
                               [value_info("x", [200, 200])], [value_info("y", [200, 200])], [column, row]))
        told = self.expect(0, "infer-opt", "fuse", path, "-o", self.dir / "f.onnx").stdout
        self.assertIn("not folded  Mul -> 'c': the constants would grow by more than --fold-budget", told)
        told = self.expect(0, "infer-opt", "fuse", path, "-o", self.dir / "f.onnx", "--fold-budget", 200000).stdout
        self.assertNotIn("not folded", told)

    def test_fuse_bisects(self):
        args = ["infer-opt", "fuse", MODEL, "--bisect"]
        report = self.report(0, *args)
        self.assertIsNone(report["bisect"]["first_bad"])
        self.assertEqual(report["bisect"]["rewrites"], 18)
        self.assertEqual(self.report(0, *args, "--stop-after", 5)["bisect"]["rewrites"], 5)
        self.expect(2, *args, "--no-verify")
        # A rule that is wrong, among right ones; the check of each match alone would refuse it.
        nodes = [node("Identity", ["x"], ["a"]), node("Abs", ["a"], ["b"]),
                 node("Neg", ["b"], ["c"], name="wrong"), node("Identity", ["c"], ["d"]),
                 node("Relu", ["d"], ["e"]), node("Relu", ["e"], ["f"]), node("Exp", ["f"], ["y"])]
        path, rules = self.dir / "m.onnx", self.dir / "my.rules"
        path.write_bytes(model(nodes, [value_info("x", [9])], [value_info("y", [9])]))
        rules.write_text("""rule neg-is-abs "Neg(x) => Abs(x)" {
          match graph m(x) -> (y) { y = Neg(x) }
          replace graph r(x) -> (y) { y = Abs(x) } }""")
        args = ["infer-opt", "fuse", path, "--bisect", "--rules", rules]
        self.assertIsNone(self.report(0, *args)["bisect"]["first_bad"])
        bad = self.report(1, *args, "--no-match-check")["bisect"]["first_bad"]
        self.assertEqual((bad["rule"], bad["at"], bad["nodes"]), ("neg-is-abs", "c", ["wrong"]))
        self.assertLess(bad["error_before"], 1e-6)
        self.assertGreater(bad["error_after"], 0.1)

    def test_fuse_judges_codes(self):
        """Folding rounds otherwise, and a code beside a border moves: no failure, told by what explains it."""
        def write(path, off):
            rng = np.random.default_rng(3)
            def floats(name, dims, low, high):
                return tensor(name, dims, rng.uniform(low, high, dims).astype("<f4").tobytes())
            nodes = [node("Conv", ["x", "w"], ["c"]), node("BatchNormalization", ["c", "g", "b", "m", "v"], ["n"]),
                     node("QuantizeLinear", ["n", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])]
            constants = [floats("w", [32, 8, 1, 1], -1, 1), floats("g", [32], .5, 2), floats("b", [32], -1, 1),
                         floats("m", [32], -1, 1), floats("v", [32], .5, 2), tensor("s", [], struct.pack("<f", .07)),
                         tensor("z", [], b"\x80", UINT8)]
            if off:
                nodes[1:2] = [node("BatchNormalization", ["c", "g", "b", "m", "v"], ["k"]), node("Add", ["k", "o"], ["n"])]
                constants.append(tensor("o", [], struct.pack("<f", off)))
            path.write_bytes(model(nodes, [value_info("x", [1, 8, 128, 128])], [value_info("y", [1, 32, 128, 128])], constants))
        path, fused, wrong = (self.dir / name for name in ("m.onnx", "f.onnx", "w.onnx"))
        write(path, 0)
        report = self.report(0, "infer-opt", "fuse", path, "-o", fused)
        self.assertNotIn("BatchNormalization", report["optimize"]["after"]["operators"])
        self.assertGreater(report["accuracy"]["outputs"][0]["max_error_ratio"], 1e-3)  # a step of the quantizer
        codes = report["codes"]
        self.assertEqual((codes["values"], codes["codes"]), (1, 3 * 32 * 128 * 128))
        self.assertTrue(0 < codes["moved"] < 1e-4 * codes["codes"])
        self.assertLess(codes["shift"], 2e-6)
        self.assertEqual(codes["outputs"][0]["max_error_ratio"], 0)
        self.assertEqual([(g["name"], g["passed"]) for g in report["gates"]], [("max-error", True), ("codes", True)])
        self.assertTrue(self.report(0, "infer-opt", "compare", path, fused, "--level", 0)["passed"])
        # Numbers that are off by a tenth of a step: no rounding explains the codes that move.
        write(wrong, .007)
        report = self.report(1, "infer-opt", "compare", path, wrong, "--level", 0)
        self.assertEqual([(g["name"], g["passed"]) for g in report["gates"]], [("max-error", True), ("codes", False)])

    def test_fuse_measures(self):
        report = self.report(0, "infer-opt", "fuse", MODEL, "-o", self.dir / "f.onnx", "--measure",
                             "--threads", 1)
        for rule in report["measured_rules"]:
            low, high = rule["ratio"]["median_ci95"]
            self.assertTrue(low <= rule["ratio"]["median"] <= high)
            if not rule["kept"]:  # then it is not applied
                self.assertNotIn(rule["rule"], [r["rule"] for r in report["optimize"]["rules"]])
        latency = report["latency"]
        self.assertGreater(latency["before_ms"]["median"], 0)
        self.assertEqual(latency["ratio"]["runs"], latency["after_ms"]["runs"])
        self.assertGreater(latency["memory"]["after"]["weight_bytes"], 0)

    def test_quantize(self):
        report = self.report(
            0, "infer-opt", "quantize", MODEL, "-o", self.dir / "int8.onnx", "--calib",
            DEMO / "calib_images.npy", "--calib-samples", 40, "--eval", DEMO / "eval_images.npy",
            "--eval-labels", DEMO / "eval_labels.csv", "--eval-samples", 60, "--preprocess",
            PREPROCESS, "--max-drop", "5%")
        self.assertTrue(report["passed"])
        self.assertGreater(report["quantization"]["integer_layers"], 5)
        self.assertEqual(report["quantization"]["quantizable_layers"],
                         sum(layer["quantizable"] for layer in report["quantization"]["layers"]))
        self.assertLess(report["output"]["bytes"], 0.5 * os.path.getsize(MODEL))
        recipe = report["recipe"]
        self.assertTrue(recipe["weighed"])
        self.assertEqual("top-1 drop" if recipe["held_out_samples"] >= 50 else "SQNR",
                         recipe["basis"])
        # Whether INT8 pays here is up to the processor; without VNNI only the weights may be worth storing.
        chosen = next(c for c in recipe["candidates"] if c["chosen"])
        if chosen["int8_layers"]:
            self.assertLess(recipe["cost"]["us"], recipe["fused_fp32"]["us"])
        else:
            self.assertEqual(("weights", recipe["fused_fp32"]["us"]), (chosen["name"], recipe["cost"]["us"]))
        # Of the evaluation's samples, which chose nothing.
        self.assertEqual(min(o["sqnr_db"] for o in report["accuracy"]["outputs"]), recipe["unseen_sqnr_db"])
        self.assertTrue(recipe["is_held_out"])
        self.assertNotEqual(recipe["held_out_sqnr_db"], recipe["unseen_sqnr_db"])
        self.assertEqual("quantized", report["worth"]["recommended"])
        table = self.dir / "costs.json"
        table.write_text(json.dumps(recipe["cost_table"]))
        again = self.report(
            0, "infer-opt", "quantize", MODEL, "-o", self.dir / "again.onnx", "--calib",
            DEMO / "calib_images.npy", "--calib-samples", 40, "--preprocess", PREPROCESS,
            "--no-verify", "--cost-table", table)
        self.assertEqual((self.dir / "int8.onnx").read_bytes(),
                         (self.dir / "again.onnx").read_bytes())
        self.assertEqual(recipe["work_seconds"], again["recipe"]["work_seconds"])
        table.write_text(json.dumps({"schema": "infer-opt/cost-table@1", "prices": {}}))
        self.expect(3, "infer-opt", "quantize", MODEL, "-o", self.dir / "again.onnx", "--calib",
                    DEMO / "calib_images.npy", "--no-verify", "--cost-table", table)
        steps = recipe["steps"]
        self.assertEqual("calibrate", steps[0]["name"])
        self.assertTrue(all(s["sqnr_db_after"] > s["sqnr_db_before"]
                            for s in steps[1:] if s["kept"]))
        fast = self.dir / "fast.onnx"
        self.expect(0, "infer-opt", "quantize", MODEL, "-o", fast, "--calib", DEMO / "calib_images.npy", "--calib-samples", 40,
                    "--preprocess", PREPROCESS, "--recipe", "fast", "--no-verify")
        shown = self.expect(0, "infer-opt", "inspect", fast, "--set", "batch=1", "--kernels").stdout
        self.assertIn(" QDQ Conv", shown)
        self.assertNotIn("DequantizeLinear+", shown)

    def test_weights_for_onnxruntime_have_seven_bits(self):
        """Without VNNI its sums of uint8 by int8 saturate; of other readers and types they do not."""
        def written(*options, code=0):
            path = self.dir / "q.onnx"
            done = self.expect(code, "infer-opt", "quantize", self.small(), "-o", path, "--calib", DEMO / "calib_images.npy", "--calib-samples",
                               40, "--preprocess", PREPROCESS, "--recipe", "fast", "--no-verify", *options)
            return path.read_bytes() if code == 0 else b"", "saturate" in done.stderr
        ort = ["--target", "ort"]
        narrow, wide = written(*ort), written(*ort, "--full-range")
        self.assertEqual((narrow, False), (written(*ort, "--reduce-range"), narrow[1]))
        self.assertNotEqual(narrow[0], wide[0])
        self.assertTrue(wide[1])
        self.assertTrue(written()[1])
        self.assertFalse(written("--reduce-range")[1])
        s8 = [*ort, "--activations", "s8"]
        self.assertEqual(written(*s8), written(*s8, "--full-range"))
        written("--reduce-range", "--full-range", code=2)

    def test_dynamic_weights_for_onnxruntime_have_seven_bits(self):
        """Of matrix products, whose sums saturate there; its convolutions add exactly (judge.pair_sums), and stay in FP32."""
        def written(*options):
            path = self.dir / "q.onnx"
            report = self.report(0, "infer-opt", "quantize", self.small(), "-o", path, "--mode", "dynamic", "--opset", "max", "--no-verify",
                                 *options)
            convolutions = {l["precision"] for l in report["quantization"]["layers"] if l["op"] == "Conv"}
            self.assertEqual(convolutions, {"f32"} if "--target" in options and "on" not in options else {"int8"})
            return report["ort_saturates"], path.read_bytes()
        plain, narrow = written(), written("--target", "ort")
        self.assertEqual((plain[0], narrow[0]), (True, False))
        self.assertNotEqual(plain[1], narrow[1])
        wide = written("--target", "ort", "--full-range")
        self.assertTrue(wide[0])
        self.assertNotEqual(narrow[1], wide[1])
        whole = ["--target", "ort", "--dynamic-conv", "on"]
        self.assertNotEqual(written(*whole)[1], written(*whole, "--reduce-range")[1])  # convolutions, too
        self.assertFalse(written("--reduce-range")[0])
        self.expect(2, "infer-opt", "quantize", self.small(), "-o", self.dir / "q.onnx", "--mode", "dynamic", "--opset", "max",
                    "--reduce-range", "--full-range")
        done = self.expect(0, "infer-opt", "quantize", self.small(), "-o", self.dir / "q.onnx", "--mode", "fp16", "--reduce-range")
        self.assertIn("--reduce-range says nothing to --mode fp16", done.stderr)

    def test_time_of_dynamic_files(self):
        """What ONNX Runtime is slow at is left out for it, and said of files for nobody; with data the time here is measured."""
        def run(*options):
            return self.expect(0, "infer-opt", "quantize", self.small(), "-o", self.dir / "q.onnx", "--mode", "dynamic", "--opset", "max",
                               *options).stderr
        self.assertIn("--target ort (or --dynamic-conv off)", run("--no-verify"))
        self.assertIn("convolutions stay in FP32", run("--no-verify", "--target", "ort"))
        self.assertIn("not foretold", run("--no-verify", "--target", "ort"))
        self.assertNotIn("convolutions", run("--no-verify", "--dynamic-conv", "off"))
        self.assertNotIn("ONNX Runtime", run("--no-verify", "--target", "infer"))
        report = self.report(0, "infer-opt", "quantize", self.small(), "-o", self.dir / "q.onnx", "--mode", "dynamic", "--opset", "max",
                             "--eval", DEMO / "eval_images.npy", "--eval-samples", 40, "--preprocess", PREPROCESS)
        self.assertIn(report["worth"]["recommended"], ("quantized", "fused-fp32"))
        report = self.report(0, "infer-opt", "quantize", self.small(), "-o", self.dir / "q.onnx", "--mode", "dynamic", "--opset", "max",
                             "--target", "ort", "--eval", DEMO / "eval_images.npy", "--eval-samples", 40, "--preprocess", PREPROCESS)
        self.assertNotIn("worth", report)  # what is measured here says nothing of its time

    def test_time_in_onnxruntime(self):
        """A file for ONNX Runtime is weighed by a table of its kernels, unless another is given."""
        table, data = self.dir / "costs.json", ["--calib", DEMO / "calib_images.npy", "--calib-samples", 40,
                                                "--preprocess", PREPROCESS]
        quantize = ["infer-opt", "quantize", self.small(), "-o", self.dir / "q.onnx", *data]
        anyone = self.report(0, *quantize, "--no-verify")["recipe"]
        ours = anyone["cost_table"]
        self.assertEqual(("infer", 1), (ours["runtime"], ours["sure"]))
        # Of a file for nobody in particular both times are told.
        times = [anyone["cost"], anyone["fused_fp32"], *anyone["candidates"]]
        self.assertTrue(all(t["onnxruntime_us"] > 0 for t in times), times)
        here = self.report(0, *quantize, "--no-verify", "--target", "infer")["recipe"]
        self.assertIsNone(here["cost"]["onnxruntime_us"])
        report = self.report(0, *quantize, "--eval", DEMO / "eval_images.npy", "--eval-samples", 40, "--target", "ort")
        ort = report["recipe"]["cost_table"]
        self.assertEqual("onnxruntime", ort["runtime"])
        self.assertIn("ONNX Runtime", ort["name"])
        self.assertLessEqual(report["worth"]["told"], 1.02)
        self.assertFalse(report["worth"]["slower"])
        table.write_text(json.dumps(ours))
        given = self.report(0, *quantize, "--no-verify", "--target", "ort", "--cost-table", table)
        self.assertEqual(ours, given["recipe"]["cost_table"])
        # A table by which codes cost fifty times as much: `fast` takes them all the same, and says so.
        dear = {name: {unit: us * (50 if name.endswith("int8") or name.endswith("quantize") else 1) for unit, us in price.items()}
                for name, price in ort["prices"].items()}
        table.write_text(json.dumps({**ort, "prices": dear}))
        slow = self.dir / "slow.json"
        done = self.expect(0, *quantize, "--eval", DEMO / "eval_images.npy", "--eval-samples", 40, "--target", "ort",
                           "--cost-table", table, "--recipe", "fast", "--json", slow)
        worth = json.loads(slow.read_text())["worth"]
        self.assertGreater(worth["told"], 1.02)
        self.assertEqual([True, False, "fused-fp32"], [worth[k] for k in ["slower", "larger", "recommended"]])
        self.assertRegex(done.stderr, r"the result is slower than the fused FP32 model \([0-9.]+ of the time")
        self.assertIn(f"recommended is the fused FP32 file, infer-opt fuse {self.small()} -o FILE", done.stderr)
        del ort["prices"]["quantize"]
        table.write_text(json.dumps(ort))
        done = self.expect(3, *quantize, "--no-verify", "--cost-table", table)
        self.assertIn("family 'quantize'", done.stderr)

    def test_lost_in_onnxruntime(self):
        """Convolutions of two channels a group: fast in INT8 by the table given, slow in ONNX Runtime, which decides for a file for anyone."""
        path, table, out = self.dir / "groups.onnx", self.dir / "costs.json", self.dir / "int8.onnx"
        rng = np.random.default_rng(0)
        weights = [tensor(name, [32, 2, 3, 3], rng.normal(size=576).astype(np.float32).tobytes()) for name in "wv"]
        convolve = [int_attribute("group", 16), ints_attribute("pads", [1, 1, 1, 1])]
        path.write_bytes(model([node("Conv", ["x", "w"], ["c"], attributes=convolve), node("Relu", ["c"], ["r"]),
                                node("Conv", ["r", "v"], ["y"], attributes=convolve)],
                               [value_info("x", [1, 32, 16, 16])], [value_info("y", [1, 32, 16, 16])], weights))
        np.save(self.dir / "x.npy", rng.normal(size=(20, 32, 16, 16)).astype(np.float32))
        quantize = ["infer-opt", "quantize", path, "-o", out, "--calib", self.dir / "x.npy", "--no-verify"]
        costs = self.report(0, *quantize)["recipe"]["cost_table"]
        for family, price in costs["prices"].items():
            costs["prices"][family] = dict.fromkeys(price, 0.1 if "int8" in family or family == "quantize" else 1)
        table.write_text(json.dumps(costs))
        told = "of FP32's time in ONNX Runtime (here 0."
        report, told_of = self.dir / "report.json", [*quantize, "--cost-table", table, "--json", self.dir / "report.json"]
        self.assertIn(told, self.expect(0, *told_of).stderr)
        chosen = [c["name"] for c in json.loads(report.read_text())["recipe"]["candidates"] if c["chosen"]]
        self.assertEqual(["weights"], chosen)
        self.assertNotIn(told, self.expect(0, *told_of, "--target", "infer").stderr)

    def test_target(self):
        """What a target refuses is not written; what it reads at most is."""
        out = self.dir / "target.onnx"
        weights = ["quantize", MODEL, "-o", out, "--mode", "weight-only"]
        report = self.report(0, "infer-opt", *weights, "--target", "ort-1.20")
        self.assertTrue(report["target"]["fits"])
        self.assertEqual(report["target"]["findings"], [])  # convolutions whose weights are folded
        for target, severities in {"ort-1.24": {"slow"}, "ort": set()}.items():  # 1.30 makes MatMulNBits of 8 bits
            report = self.report(0, "infer-opt", *weights, "--bits", 8, "--format", "qdq", "--block", 0, "--target", target)
            self.assertEqual(severities, {f["severity"] for f in report["target"]["findings"]}, target)
        out.unlink()
        done = self.expect(4, "infer-opt", *weights, "--bits", 8, "--format", "nbits", "--target", "ort-1.20")
        self.assertIn("8-bit MatMulNBits exists since ort-1.22", done.stderr)
        self.assertFalse(out.exists())
        self.report(0, "infer-opt", *weights, "--bits", 8, "--target", "ort-1.22")
        self.assertTrue(self.report(0, "infer-opt", "inspect", out, "--target", "ort")
                        ["target"]["fits"])
        self.report(1, "infer-opt", "inspect", out, "--target", "ort-1.21")
        self.report(0, "infer-opt", "fuse", MODEL, "-o", out, "--target", "openvino")
        self.expect(2, "infer-opt", "inspect", MODEL, "--target", "ort-1.19")

    def test_ops_takes_several_names(self):
        report = self.report(0, "infer-opt", "ops", "Conv", "MatMul", "Conv")
        self.assertEqual(["Conv", "MatMul"], [o["name"] for o in report["operators"]])
        self.expect(2, "infer-opt", "ops", "Conv", "NoSuchOperator")

    def test_standard_files_that_others_refuse(self):
        """bf16 is standard ONNX, and ONNX Runtime has no convolution of it."""
        out = self.dir / "bf16.onnx"
        run = self.expect(0, "infer-opt", "quantize", MODEL, "-o", out, "--mode", "bf16", "--opset", "max")
        self.assertIn("ort-1.30 refuses it", run.stderr)
        run = self.expect(0, "infer-opt", "quantize", MODEL, "-o", out, "--mode", "fp16")
        self.assertNotIn("refuses", run.stderr)

    def test_mixed_that_quantizes_nothing_fails(self):
        out = self.dir / "nothing.onnx"
        run = self.expect(1, "infer-opt", "quantize", self.small(), "-o", out, "--mixed", "--min-sqnr",
                          150, "--budget", "3s", "--precisions", "int8", "--calib",
                          DEMO / "calib_images.npy", "--calib-samples", 12, "--eval",
                          DEMO / "eval_images.npy", "--eval-samples", 12, "--preprocess",
                          PREPROCESS, "--threads", 1)
        self.assertIn("no layer is quantized within the limits", run.stderr)
        self.assertFalse(out.exists())

    def test_bench(self):
        report = self.report(0, "infer-bench", "run", MODEL, "--set", "batch=1", "--min-runs", 3,
                             "--min-time", 0, "--threads", 1)
        result = report["results"][0]
        self.assertEqual(len(result["samples_ms"]), result["latency_ms"]["runs"])
        self.assertTrue(result["layers"])
        # The batch is open in the file: costs are of the extents that were run.
        self.assertGreater(sum(layer["cost"]["flops"] for layer in result["layers"]), 1e8)
        self.assertGreater(result["profile"]["roofline_percent"], 0)

    def test_profile(self):
        trace = self.dir / "trace.json"
        for tool, extra in (("infer-opt", []), ("infer-bench", ["--min-runs", 3, "--min-time", 0])):
            report = self.report(0, tool, "run", MODEL, "--set", "batch=1", "--threads", 1,
                                 "--layers", "--trace", trace, *extra)
            shown = report["results"][0] if tool == "infer-bench" else report
            self.assertLess(abs(shown["profile"]["unexplained"]), 0.5)
            events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
            self.assertGreaterEqual(len(events), len(shown["layers"]) // 2)
            trace.unlink()
        text = self.expect(0, "infer-opt", "run", MODEL, "--set", "batch=1", "--layers").stdout
        self.assertRegex(text, r"(?m)^roofline: [0-9.]+ % of peak")
        self.assertIn("x unprofiled", text)

    def threads_of(self, *command, codes=(0,), until=None):
        """The most threads that the command has at a time, and the processors that they may use; it exits with one of `codes`,
        or is interrupted once `until` takes the processors."""
        process = subprocess.Popen([str(BIN / command[0]), *map(str, command[1:])],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        most, masks = 0, set()
        while process.poll() is None:
            try:
                tasks = list(pathlib.Path(f"/proc/{process.pid}/task").iterdir())
                seen = [re.search(r"Cpus_allowed_list:\s*(\S+)", (t / "status").read_text())[1]
                        for t in tasks]
            except (OSError, TypeError):
                continue  # a thread has ended
            most = max(most, len(seen))
            masks.update(seen)
            if until and until(masks):
                process.send_signal(signal.SIGINT)
                process.wait(timeout=300)
                break
            time.sleep(0.001)
        self.assertIn(process.returncode, (*codes, 130) if until else codes, command)
        return most, masks

    def test_threads(self):
        # Beside them one thread waits for signals.
        one, two = (self.dir / name for name in ("one.onnx", "two.onnx"))
        batch = ["--set", "batch=4"]
        commands = {
            "run": ["infer-opt", "run", MODEL, *batch],
            "inspect": ["infer-opt", "inspect", MODEL, "--kernels", *batch],
            "fuse": ["infer-opt", "fuse", MODEL, "-o", one],
            "compare": ["infer-opt", "compare", MODEL, MODEL],
            "eval": ["infer-opt", "eval", MODEL, *EVAL],
            "quantize": ["infer-opt", "quantize", self.small(), "-o", two, "--calib",
                         DEMO / "calib_images.npy", "--calib-samples", 20, "--eval",
                         DEMO / "eval_images.npy", "--eval-labels", DEMO / "eval_labels.csv",
                         "--eval-samples", 20, "--max-drop", "50%", "--preprocess", PREPROCESS],
            "bench": ["infer-bench", "run", MODEL, "--min-time", 0, "--layers", *batch]}
        for name, command in commands.items():
            # INT8 of so small a model may be measured slower than FP32, which is a failure (1).
            codes = (0, 1) if name == "quantize" else (0,)
            for _ in range(100):  # a command may have ended before anybody looked
                most = self.threads_of(*command, "--threads", 1, codes=codes)[0]
                if most >= 2:
                    break
            self.assertEqual(most, 2, name)
        # A sanitizer may have a thread of its own.
        if not os.environ.get("INFER_SANITIZED"):
            self.assertLessEqual(self.threads_of(*commands["bench"], "--threads", 2)[0], 3)

    def test_pinning(self):
        command = ["infer-bench", "run", self.small(), "--set", "batch=16", "--threads"]
        pinned = lambda masks: sum(mask.isdigit() for mask in masks)
        # It runs until the processors have been seen, however late that is.
        for threads in range(1, 1 + min(2, len(os.sched_getaffinity(0)))):
            _, masks = self.threads_of(*command, threads, "--pin", "--min-time", 120, until=lambda m: pinned(m) >= threads)
            self.assertEqual(pinned(masks), threads, masks)
        _, unpinned = self.threads_of(*command, 1, "--min-time", 0.1)
        self.assertEqual(len(unpinned), 1, unpinned)
        self.expect(2, "infer-bench", "run", MODEL, "--pin", "--threads", 4096)

    def test_open_extents(self):
        # Reshape to [0, 8, -1]: a length of 1 or 4 does not do, so every command must look for one.
        path = self.dir / "open.onnx"
        path.write_bytes(model(
            [node("Reshape", ["x", "shape"], ["r"]), node("Add", ["r", "b"], ["s"]),
             node("Softmax", ["s"], ["y"])],
            [value_info("x", ["batch", "length"]), value_info("b", ["batch", 8, 1])],
            [value_info("y", ["batch", 8, "rest"])],
            [tensor("shape", [3], struct.pack("<3q", 0, 8, -1), INT64)]))
        fused = self.dir / "fused.onnx"
        found = {"batch": 1, "length": 16}
        self.assertEqual(self.report(0, "infer-opt", "run", path)["extents"], found)
        self.assertEqual(self.report(0, "infer-opt", "inspect", path)["extents"], found)
        bench = ["infer-bench", "run", path, "--min-runs", 3, "--min-time", 0]
        self.assertEqual(self.report(0, *bench)["results"][0]["extents"], found)
        for done in [self.report(0, "infer-opt", "fuse", path, "-o", fused),
                     self.report(0, "infer-opt", "compare", path, fused)]:
            self.assertEqual(done["extents"]["length"], 16)
        self.assertIn("with batch = 1, length = 16", self.expect(0, "infer-opt", "run", path).stderr)
        # What the user says comes first: options, and the extents of what is given.
        for tool in ["infer-opt", "infer-bench"]:
            done = self.report(0, tool, "run", path, "--set", "length=24", *bench[3:][:4 if tool ==
                               "infer-bench" else 0])
            result = done["results"][0] if tool == "infer-bench" else done
            self.assertEqual(result["extents"], {"batch": 1})
        np.save(self.dir / "b.npy", np.zeros((3, 8, 1), np.float32))
        done = self.report(0, "infer-opt", "run", path, "--input", f"b={self.dir}/b.npy")
        self.assertEqual(done["extents"], {"batch": 3, "length": 16})
        self.assertEqual(done["random_inputs"], ["x"])
        np.save(self.dir / "x.npy", np.zeros((2, 16), np.float32))
        done = self.expect(3, "infer-opt", "run", path, "--input", f"b={self.dir}/b.npy", "--input",
                           f"x={self.dir}/x.npy")
        self.assertIn("batch = 3, another input 2", done.stderr)
        # Nothing fits: 7 columns cannot be 8 rows.
        self.assertIn("--set", self.expect(2, "infer-opt", "run", path, "--set", "length=7").stderr)

    def test_shapes_that_are_checked_with_are_not_written(self):
        path, out = self.dir / "open.onnx", self.dir / "out.onnx"
        path.write_bytes(model(
            [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["y"])],
            [value_info("x", ["batch", "length", 4])], [value_info("y", ["batch", "length", 4])],
            [tensor("w", [4, 4], struct.pack("<16f", *range(16))),
             tensor("b", [4], struct.pack("<4f", *range(4)))]))

        def shape():
            return re.search(r"input +x: (\S+)", self.expect(0, "infer-opt", "inspect", out).stdout).group(1)

        np.save(self.dir / "x.npy", np.random.default_rng(0).normal(size=(8, 3, 4)).astype(np.float32))
        writers = [("fuse",), ("quantize", "--mode", "fp16"), ("quantize", "--recipe", "fast", "--data", self.dir / "x.npy")]
        for command, *args in writers:
            for chosen in [("--set", "length=3"), ("--set", "length=3", "--set", "batch=1"),
                           ("--shape", "x=1x3x4"), ()]:
                if not chosen and args:
                    continue
                done = self.report(0, "infer-opt", command, path, "-o", out, *args, *chosen)
                self.assertEqual(shape(), "f32[batch,length,4]", (command, chosen))
                if command == "fuse" and chosen[-1:] == ("length=3",):
                    self.assertEqual(done["extents"], {"batch": 2})
            self.report(0, "infer-opt", command, path, "-o", out, *args, "--set", "length=3", "--freeze")
            self.assertEqual(shape(), "f32[batch,3,4]")
        self.expect(2, "infer-opt", "fuse", path, "-o", out, "--set", "nothing=1")
        # A sweep measures with the shapes and writes none of them.
        done = self.report(0, "infer-opt", "sweep", path, "-o", self.dir / "sweep", "--only", "fp32,fp16",
                           "--set", "length=3")
        out = self.dir / "sweep/fp16.onnx"
        self.assertEqual(shape(), "f32[batch,length,4]")

    def test_set_is_written_by_no_other_command(self):
        """prune and the modes of quantize that test_shapes_that_are_checked_with_are_not_written leaves out."""
        path, out, numbers = self.dir / "open.onnx", self.dir / "out.onnx", np.random.default_rng(1)
        weights = [tensor(n, [64, 64], numbers.normal(size=(64, 64)).astype(np.float32).tobytes()) for n in ("w1", "w2")]
        path.write_bytes(model([node("MatMul", ["x", "w1"], ["m"]), node("Relu", ["m"], ["r"]), node("MatMul", ["r", "w2"], ["y"])],
                               [value_info("x", ["batch", "length", 64])], [value_info("y", ["batch", "length", 64])], weights))
        np.save(self.dir / "x.npy", numbers.normal(size=(8, 3, 64)).astype(np.float32))
        for writer in [("prune", "--sparsity", "50%", "--data", self.dir / "x.npy", "--no-verify"),
                       ("quantize", "--mode", "weight-only", "--bits", 8), ("quantize", "--mode", "dynamic")]:
            for chosen in [("--set", "length=3"), ("--set", "length=3", "--set", "batch=1")]:
                self.expect(0, "infer-opt", writer[0], path, "-o", out, *writer[1:], *chosen)
                for name in "xy":
                    self.assertRegex(self.expect(0, "infer-opt", "inspect", out).stdout, rf"put +{name}: f32\[batch,length,64\]")

    def test_ops(self):
        self.assertGreater(len(self.report(0, "infer-opt", "ops")["operators"]), 60)

    def test_rules(self):
        names = [r["rule"] for r in self.report(0, "infer-opt", "rules", "list")["rules"]]
        self.assertIn("fuse-gelu", names)
        shown = self.report(0, "infer-opt", "rules", "show", "fuse-g*")["rules"]
        self.assertTrue(all(r["fires"] and r["silent"] for r in shown))
        rules = self.dir / "my.rules"
        rules.write_text("""rule two-relus "Relu(Relu(x)) => Relu(x)" {
          match   graph m(x) -> (y) { a = Relu(x)  y = Relu(a) }
          replace graph r(x) -> (y) { y = Relu(x) }
        }""")
        report = self.report(0, "infer-opt", "rules", "test", rules, "--graphs", "50")
        self.assertEqual([r["passed"] for r in report["rules"]], [True])
        self.assertGreater(report["rules"][0]["fired"], 10)
        rules.write_text(rules.read_text().replace("y = Relu(x) }", "y = Abs(x) }"))
        report = self.report(1, "infer-opt", "rules", "test", rules)
        self.assertIn("deviates by", report["rules"][0]["reasons"][0])
        rules.write_text("rule r {\n  match graph m(x) -> (y) { y = Foo(x) }")
        self.assertIn("my.rules:2:33: no operator Foo",
                      self.expect(3, "infer-opt", "rules", "test", rules).stderr)
        self.expect(2, "infer-opt", "rules", "show", "no-such-rule")
        self.expect(2, "infer-opt", "rules", "destroy")
        # In fuse: applied, and proved like the others.
        relu = "match   graph m(x) -> (y) { y = Relu(x) }\n replace graph r(x) -> (y) { "
        rules.write_text("rule relu-as-max {\n" + relu + "z = const f32[] {0}  y = Max(x, z) }\n}\n"
                         "rule wrong {\n" + relu + "y = Abs(x) }\n}")
        for rule, key in [("relu-as-max", "applied"), ("wrong", "refused")]:
            report = self.report(0, "infer-opt", "fuse", MODEL, "--rules", rules, "--patterns", rule,
                                 "-o", self.dir / "fused.onnx")
            [done] = report["optimize"]["rules"]
            self.assertEqual(done["rule"], rule)
            self.assertGreater(done[key], 0)

    def test_config_file(self):
        (self.dir / "c.toml").write_text('set = ["batch=3"]\n')
        done = self.expect(0, "infer-opt", "inspect", MODEL, "--config", self.dir / "c.toml")
        self.assertIn("[3,1,32,32]", done.stdout)
        # The command line wins over a command's section, that over what is said for all.
        (self.dir / "c.toml").write_text('set = [  # a list\n  "batch=3",\n]\nquiet = true\n'
                                         '[inspect]\nset = "batch=4"\n[run]\nlevel = 0\n')
        done = self.expect(0, "infer-opt", "inspect", MODEL, "--config", self.dir / "c.toml")
        self.assertIn("[4,1,32,32]", done.stdout)
        done = self.expect(0, "infer-opt", "inspect", MODEL, "--set", "batch=5", "--config",
                           self.dir / "c.toml")
        self.assertIn("[5,1,32,32]", done.stdout)

    def test_gates_are_told_to_people(self):
        args = ["quantize", MODEL, "-o", self.dir / "q.onnx", "--recipe", "fast", "--data", DEMO / "eval_images.npy",
                "--labels", DEMO / "eval_labels.csv", "--preprocess", PREPROCESS, "--samples", 80,
                "--min-sqnr", 10, "--max-error", 0.9, "--min-agreement", "80%", "--max-drop", "10%"]
        said = self.expect(0, "infer-opt", *args).stdout
        gates = [line for line in said.splitlines() if line.startswith("pass")]
        self.assertEqual(len(gates), 4, said)
        self.assertRegex(said, r"pass  output '\w+': SQNR [\d.]+ dB, limit 10 dB \(95 % interval ")
        self.assertRegex(said, r"pass  top-1 drop -?[\d.]+ %, limit 10 % \(95 % interval ")
        self.assertNotIn("passed", said)
        self.assertNotRegex("\n".join(gates), r"\d{7}")  # no number with all its digits

    def quantized(self, *args):
        """The demo model as INT8, with what `args` say, gates or not."""
        path = self.dir / "q.onnx"
        self.expect(0, "infer-opt", "quantize", MODEL, "-o", path, "--calib",
                    DEMO / "calib_images.npy", "--calib-samples", 40, "--preprocess", PREPROCESS,
                    "--no-verify", "--recipe", "fast", *args)
        return path

    def test_compare_tells_layers_apart(self):
        report = self.report(0, "infer-opt", "compare", MODEL, self.quantized(), *EVAL, "--layers",
                             "--layer-samples", 3, "--min-sqnr", 20)
        self.assertGreater(len(report["isolated"]), 20)
        alone = [layer["output_sqnr_db"] for layer in report["isolated"]]
        self.assertEqual(alone, sorted(alone))
        # No layer alone does as much harm as all together.
        self.assertGreater(alone[0], report["accuracy"]["outputs"][0]["sqnr_db"])
        taps = report["accuracy"]["taps"]
        self.assertTrue(taps["same_bits"])
        self.assertGreater(taps["tapped"], 10)
        self.assertEqual(taps["tapped"], len(report["accuracy"]["layers"]))
        self.assertNotIn("guilty", report)
        rows = report["accuracy"]["outputs"][0]["rows"]
        self.assertLessEqual(rows["kl_quantiles"]["p50"], rows["kl_quantiles"]["p99"])

    def test_compare_keeps_golden_outputs(self):
        fused, cache = self.dir / "fused.onnx", self.dir / "cache"
        self.expect(0, "infer-opt", "fuse", MODEL, "-o", fused, "--no-verify")
        args = ["infer-opt", "compare", MODEL, fused, *EVAL, "--golden-cache", cache]
        first, again = self.report(0, *args), self.report(0, *args)
        self.assertEqual([first["golden_cache"][k] for k in ("hits", "misses")], [0, 60])
        self.assertEqual([again["golden_cache"][k] for k in ("hits", "misses")], [60, 0])
        self.assertEqual(first["accuracy"], again["accuracy"])
        kept = sorted(cache.glob("*/*.pb"))
        kept[0].write_bytes(b"damaged")
        kept[1].unlink()
        repaired = self.report(0, *args)
        self.assertEqual([repaired["golden_cache"][k] for k in ("hits", "misses")], [58, 2])
        self.assertEqual(first["accuracy"], repaired["accuracy"])
        # Of other weights nothing is taken.
        other = self.report(1, "infer-opt", "compare", self.quantized(), fused, *EVAL,
                            "--golden-cache", cache)
        self.assertEqual(other["golden_cache"]["hits"], 0)

    def test_bisect_cuts_out_what_breaks(self):
        bad, cut = self.quantized("--include", "op:Gemm", "--observer", "percentile:60"), self.dir / "cut"
        report = self.report(1, "infer-opt", "compare", MODEL, bad, *EVAL, "--min-sqnr", 30,
                             "--bisect", "--cut", cut)
        found = report["bisect"]
        self.assertTrue(found["breaks"] and found["minimal"])
        names = [layer["layer"] for layer in found["set"]]
        self.assertEqual(len(names), 1)
        self.assertEqual(names[0], report["guilty"][0]["layer"])
        self.assertEqual(names[0], found["first"]["layer"])
        small = self.report(1, "infer-opt", "compare", cut / "model.onnx", "--reference", cut,
                            "--min-sqnr", 30)
        self.assertLessEqual(small["candidate"]["nodes"], 8)
        self.report(0, "infer-opt", "compare", cut / "golden.onnx", "--reference", cut)
        # What keeps the gates is not blamed.
        fine = self.report(0, "infer-opt", "compare", MODEL, bad, *EVAL, "--min-sqnr", 1, "--bisect")
        self.assertFalse(fine["bisect"]["breaks"])

    def test_bisect_of_what_the_runtime_rewrites(self):
        """A chain of f16 stays in f32 at level 2: what overflows as written does not there. Two
        nodes differ from the graph, and only when they run together."""
        steps = [("Mul", 1.5), ("Mul", 60000), ("Mul", 1 / 4096), ("Add", 0.25), ("Mul", 0.5)]
        names = ["x", "v0", "v1", "v2", "v3", "y"]
        path, cut = self.dir / "chain.onnx", self.dir / "cut"
        path.write_bytes(model(
            [node(op, [names[i], f"w{i}"], [names[i + 1]]) for i, (op, _) in enumerate(steps)],
            [value_info("x", [4, 64], FLOAT16)], [value_info("y", [4, 64], FLOAT16)],
            [tensor(f"w{i}", [1], np.float16(w).tobytes(), FLOAT16)
             for i, (_, w) in enumerate(steps)]))
        report = self.report(1, "infer-opt", "compare", path, path, "--level", 2, "--bisect",
                             "--cut", cut)
        found = report["bisect"]
        self.assertFalse(found["breaks"])
        self.assertTrue(found["runtime"]["breaks"] and found["runtime"]["minimal"])
        self.assertEqual([n["layer"] for n in found["runtime"]["set"]], ["v1", "v2"])
        self.report(1, "infer-opt", "compare", cut / "model.onnx", "--reference", cut, "--level", 2)
        self.report(0, "infer-opt", "compare", cut / "model.onnx", "--reference", cut, "--level", 0)
        fine = self.report(0, "infer-opt", "compare", MODEL, MODEL, *EVAL, "--level", 1, "--bisect",
                           "--min-sqnr", 60)
        self.assertEqual(fine["bisect"]["runtime"], {"level": 1, "breaks": False})

    def test_batches_that_the_model_fixes(self):
        """A run takes as many samples as the batch has; those that fill none are left out."""
        four, x, labels = self.dir / "four.onnx", self.dir / "x.npy", self.dir / "labels.csv"
        four.write_bytes(model([node("MatMul", ["x", "w"], ["y"])], [value_info("x", [4, 8])], [value_info("y", [4, 8])],
                               [tensor("w", [8, 8], np.eye(8, dtype=np.float32).tobytes())]))
        np.save(x, np.eye(8, dtype=np.float32)[[0, 1, 2, 3, 4, 5, 6, 7, 0, 1]])
        labels.write_text("label\n" + "".join(f"{v}\n" for v in [0, 1, 2, 3, 4, 5, 6, 0, 0, 0]))
        self.assertEqual(self.report(0, "infer-opt", "eval", four, "--data", x, "--labels", labels)["top1"], 7 / 8)
        report = self.report(0, "infer-opt", "quantize", four, "-o", self.dir / "int8.onnx", "--data", x, "--calib-count", 4,
                             "--labels", labels, "--recipe", "none", "--keep-failed")
        self.assertEqual(report["data"]["calibration"], 4)
        for dims, code, said in (((3, 8), 2, "3 samples do not fill a batch of 4"), ((8, 9), 3, "wants f32[4,8]")):
            np.save(x, np.zeros(dims, dtype=np.float32))
            labels.write_text("label\n" + "0\n" * dims[0])
            self.assertIn(said, self.expect(code, "infer-opt", "eval", four, "--data", x, "--labels", labels).stderr)

    def test_every_gate_can_fail(self):
        good = self.quantized()
        gates = [(["--max-size", "0.4x"], 0), (["--max-size", "0.2x"], 1),
                 (["--max-size", "1MB"], 0), (["--max-size", "100kB"], 1),
                 (["--min-speedup", "0.01x"], 0), (["--min-speedup", "1000x"], 1),
                 (["--min-sqnr", "20"], 0), (["--min-sqnr", "90"], 1),
                 (["--min-agreement", "80%"], 0), (["--max-drop", "5%"], 0)]
        commands = [["compare", MODEL, good, *EVAL], ["eval", good, "--golden", MODEL, *EVAL]]
        sanitized = bool(os.environ.get("INFER_SANITIZED"))  # three seconds a command
        for turn, (gate, code) in enumerate(gates[2:4] if sanitized else gates):
            # The commands take turns: of each kind of gate one meets a figure that passes, the other one that fails.
            report = self.report(code, "infer-opt", *commands[turn % 2], *gate)
            self.assertEqual(report["passed"], code == 0, gate)
            self.assertEqual(report["gates"][0]["name"], gate[0].lstrip("-"))
            blamed = code == 1 and gate[0] == "--min-sqnr"
            self.assertEqual(len(report.get("guilty", [])), 3 if blamed else 0, gate)
        # 60 of 60 samples do not show 99.9 %: the interval begins at 94 %.
        args = ["compare", MODEL, good, *EVAL, "--min-agreement", "99.9%"]
        gate = self.report(6, "infer-opt", *args)["gates"][0]
        self.assertTrue(gate["inconclusive"])
        self.report(0, "infer-opt", *args, "--allow-inconclusive")
        if sanitized:  # the same code with other figures follows
            return
        bad = self.quantized("--observer", "percentile:60")
        for gate in [["--max-drop", "0.5%"], ["--min-agreement", "98%"]]:
            report = self.report(1, "infer-opt", "compare", MODEL, bad, *EVAL, *gate,
                                 "--allow-inconclusive")
            self.assertFalse(report["gates"][0]["inconclusive"])
            self.assertEqual(len(report["guilty"]), 3)
        out = self.dir / "gated.onnx"
        args = ["quantize", MODEL, "-o", out, "--recipe", "none", "--data", DEMO / "eval_images.npy", "--preprocess",
                PREPROCESS, "--samples", 40]
        self.report(1, "infer-opt", *args, "--max-size", "0.1x")
        self.report(1, "infer-opt", *args, "--min-speedup", "1000x")
        self.assertFalse(out.exists())
        self.assertEqual(len(self.report(1, "infer-opt", *args, "--min-sqnr", 90)["guilty"]), 3)
        self.report(0, "infer-opt", *args, "--max-size", "0.5x", "--min-speedup", "0.01x")
        self.assertTrue(out.exists())
        for wrong in [["--max-size", "25 potatoes"], ["--max-size", "0"], ["--min-speedup", "fast"]]:
            self.expect(2, "infer-opt", *args, *wrong)
        self.expect(2, "infer-opt", "eval", good, *EVAL, "--min-sqnr", "5")
        self.expect(2, "infer-opt", "eval", good, *EVAL, "--min-speedup", "5")
        self.expect(2, "infer-opt", "compare", MODEL, good, "--cut", self.dir / "c")

    def test_compare_against_an_engine_that_is_not_there(self):
        args = ["infer-opt", "compare", MODEL, "--against", "ort", "--runs", 1]
        self.expect(4, *args, "--python", self.dir / "no-python")
        fake = self.dir / "onnxruntime.py"
        fake.write_text("raise ImportError('not here')\n")
        done = self.expect(4, *args, "--python", sys.executable,
                           env={**os.environ, "PYTHONPATH": str(self.dir)})
        self.assertIn("ort is not installed: not here", done.stderr)
        self.expect(2, "infer-opt", "compare", MODEL, "--against", "abacus")
        self.expect(2, *args, "--reference", self.dir)

    def test_compare_says_that_random_numbers_differ(self):
        file = self.dir / "random.onnx"
        file.write_bytes(model([node("RandomUniformLike", ["x"], ["r"]), node("Add", ["x", "r"], ["y"])],
                               [value_info("x", (2,))], [value_info("y", (2,))]))
        stored = self.dir / "test_data_set_0"
        stored.mkdir()
        zeros = tensor("x", (2,), bytes(8))
        (stored / "input_0.pb").write_bytes(zeros)
        (stored / "output_0.pb").write_bytes(zeros)
        done = self.expect(1, "infer-opt", "compare", file, "--reference", self.dir)
        self.assertIn("draws random numbers (RandomUniformLike)", done.stderr)

    def test_draws_that_a_model_refuses_are_left_out(self):
        # Pairs of those that are not zero: an odd number of them is refused.
        file = self.dir / "pairs.onnx"
        file.write_bytes(model(
            [node("NonZero", ["x"], ["k"]), node("Reshape", ["k", "two"], ["y"])],
            [value_info("x", (9,), INT64)], [value_info("y", (2, "n"), INT64)],
            [tensor("two", (2,), struct.pack("<2q", 2, -1), INT64)]))
        for seed in range(4):
            done = self.expect(0, "infer-opt", "fuse", file, "-o", self.dir / "f.onnx", "--seed", seed)
            self.assertIn("checked on 3 random inputs", done.stderr)
        self.assertRegex(done.stderr, "of [0-9]+ draws 3 run; the model refuses the others: .*cannot reshape")

    def test_preprocess_keys_are_documented(self):
        # The parser's own list is what help and docs must hold.
        args = [a if a != PREPROCESS else "nonsense=1" for a in EVAL]
        said = self.expect(2, "infer-opt", "eval", MODEL, *args).stderr
        keys = re.search(r"the keys are (.*)", said).group(1).replace(" and ", ", ").split(", ")
        self.assertGreater(len(keys), 10)
        docs = (SOURCE / "docs/cli.md").read_text()
        for command in ["eval", "compare", "fuse", "quantize"]:
            text = self.expect(0, "infer-opt", command, "--help-all").stdout
            for key in keys:
                self.assertRegex(text, rf"\n  {key}\b")
                self.assertIn(f"`{key}`", docs)

    def test_levels(self):
        plain = self.report(0, "infer-opt", "fuse", MODEL, "-o", self.dir / "f.onnx", "--rewrites", "none")
        self.assertEqual(plain["optimize"]["rewrites"], 0)
        simple = self.report(0, "infer-opt", "fuse", MODEL, "-o", self.dir / "f.onnx", "--rewrites",
                             "simplify")
        listed = self.expect(0, "infer-opt", "fuse", "--list").stdout
        level = dict(line.split()[:2] for line in listed.splitlines()[1:])
        self.assertEqual(set(level.values()), {"simplify", "fuse", "blocks"})
        for rule in simple["optimize"]["rules"]:
            self.assertEqual(level[rule["rule"]], "simplify")
        same = self.report(0, "infer-opt", "fuse", MODEL, "-o", self.dir / "f.onnx", "--level", 1)
        self.assertEqual(same["optimize"]["rules"], simple["optimize"]["rules"])
        self.expect(2, "infer-opt", "fuse", MODEL, "-o", self.dir / "f.onnx", "--level", 4)

    def test_data_of_an_earlier_model_is_named(self):
        out = self.dir / "m.onnx"
        fuse = ["fuse", MODEL, "-o", out, "--external-data", "--no-verify"]
        self.assertNotIn("left", self.expect(0, "infer-opt", *fuse).stdout)
        old, = self.dir.glob("m.onnx.*.data")
        (self.dir / "m.onnx.notes.data").write_text("not ours")
        self.assertNotIn("left", self.expect(0, "infer-opt", *fuse).stdout)  # the same bytes
        said = self.expect(0, "infer-opt", *fuse, "--rewrites", "none").stdout
        self.assertEqual([t for t in said.splitlines() if t.startswith("left")],
                         [f"left {old}: data of an earlier {out}, which no longer reads it"])
        self.assertTrue(old.exists())  # a copy of the old model may read it
        self.expect(0, "infer-opt", "run", out, "--set", "batch=1")

    def test_outputs_get_files_of_their_own(self):
        path = self.dir / "names.onnx"
        names = ["a/b", "a_b", "A_B", "a_b-2", "x" * 300]
        path.write_bytes(model([node("Relu", ["x"], [n]) for n in names], [value_info("x", [2])],
                               [value_info(n, [2]) for n in names]))
        report = self.report(0, "infer-opt", "run", path, "-o", self.dir / "out")
        files = [o["file"] for o in report["outputs"]]
        self.assertEqual([pathlib.Path(f).name for f in files[:4]],
                         ["a_b.npy", "a_b-2.npy", "A_B-3.npy", "a_b-2-2.npy"])
        self.assertEqual(len({f.lower() for f in files}), len(names))
        for f in files:
            self.assertEqual(np.load(f).shape, (2,))
        self.assertIn(f"-> {self.dir}/out/a_b-2.npy",
                      self.expect(0, "infer-opt", "run", path, "-o", self.dir / "out").stdout)

    def test_what_is_no_tensor_is_not_written_and_says_so(self):
        path = self.dir / "seq.onnx"
        sequence = field(1, "s") + field(2, field(4, field(1, field(1, field(1, FLOAT)))))
        path.write_bytes(model([node("SequenceConstruct", ["x", "x"], ["s"])], [value_info("x", [2])],
                               [sequence]))
        done = self.expect(0, "infer-opt", "run", path, "-o", self.dir / "out")
        self.assertIn("s: a sequence of 2 values\n  f32[", done.stdout)
        self.assertIn("warning: output 's' is not written: it is a sequence of 2 values", done.stderr)

    def test_scores_by_class_are_shown(self):
        """The scores of classifiers from scikit-learn are a sequence of maps."""
        path = self.dir / "zip.onnx"
        zipped = node("ZipMap", ["x"], ["p"], [ints_attribute("classlabels_int64s", [4, 7])]) + field(7, "ai.onnx.ml")
        scores = field(1, "p") + field(2, field(4, field(1, field(5, field(1, 7) + field(2, field(1, field(1, FLOAT)))))))
        path.write_bytes(model([zipped], [value_info("x", [2, 2])], [scores]) + field(8, field(1, "ai.onnx.ml") + field(2, 1)))
        np.save(self.dir / "x.npy", np.array([[0.25, 0.75], [1, 0]], np.float32))
        report = self.dir / "run.json"
        done = self.expect(0, "infer-opt", "run", path, "-i", f"x={self.dir}/x.npy", "--json", report)
        self.assertIn("p: a sequence of 2 values\n  {4: 0.25, 7: 0.75}\n  {4: 1, 7: 0}\n", done.stdout)
        self.assertEqual(json.loads(report.read_text())["outputs"][0]["value"],
                         [{"4": 0.25, "7": 0.75}, {"4": 1, "7": 0}])

    def test_inspect_counts(self):
        # Every shape is set: nothing is unknown. NonZero's is, whatever is set.
        path = self.dir / "open.onnx"
        path.write_bytes(model([node("Relu", ["x"], ["y"])], [value_info("x", ["n", "m"])],
                               [value_info("y", ["n", "m"])]))
        for args in [(), ("--set", "n=2"), ("--set", "n=2", "--set", "m=3"), ("--shape", "x=2x3")]:
            self.assertEqual(self.report(0, "infer-opt", "inspect", path, *args)[
                "nodes_without_static_shape"], 0)
        path.write_bytes(model([node("NonZero", ["x"], ["i"]), node("Relu", ["x"], ["y"])],
                               [value_info("x", ["n"])],
                               [value_info("y", ["n"]), value_info("i", [1, "k"], INT64)]))
        for args in [(), ("--shape", "x=4")]:
            done = self.report(0, "infer-opt", "inspect", path, *args)
            self.assertEqual(done["nodes_without_static_shape"], 1)
            # --shape would not help, so it is not advised.
            self.assertIn("without 1 node whose shape follows from values that inference does not",
                          self.expect(0, "infer-opt", "inspect", path, *args).stdout)
        # A sequence has no shape that could be unknown.
        path.write_bytes(model([node("SequenceConstruct", ["x"], ["s"]), node("SequenceLength", ["s"], ["y"])],
                               [value_info("x", [2])], [value_info("y", [], INT64)]))
        self.assertEqual(self.report(0, "infer-opt", "inspect", path)["nodes_without_static_shape"], 0)

    def test_costs_of_kernels_are_of_the_extents_found(self):
        path = self.dir / "open.onnx"
        weights = tensor("w", [64, 32], bytes(64 * 32 * 4))
        path.write_bytes(model([node("MatMul", ["x", "w"], ["p"]), node("Relu", ["p"], ["y"])],
                               [value_info("x", ["batch", 64])], [value_info("y", ["batch", 32])], [weights]))
        for device in ["cpu", "reference"]:
            args = ["infer-opt", "inspect", path, "--kernels", "--device", device]
            for extents, batch in [([], 1), (["--set", "batch=8"], 8)]:
                kernels = self.report(0, *args, *extents)["kernels"]
                self.assertGreaterEqual(sum(k["cost"]["flops"] for k in kernels), batch * 64 * 32 * 2)
            self.assertIn("MFLOP and MB with batch = 1", self.expect(0, *args).stdout)
        # No extents fit: then nothing is said, instead of zeros.
        shape = tensor("s", [1], struct.pack("<q", 8633), dtype=INT64)  # 89 x 97
        path.write_bytes(model([node("Reshape", ["x", "s"], ["y"])], [value_info("x", ["a", "b"])],
                               [value_info("y", [8633])], [shape]))
        for kernel in self.report(0, "infer-opt", "inspect", path, "--kernels")["kernels"]:
            self.assertIsNone(kernel["cost"])

    def test_costs_that_fuse_tells_without_checking(self):
        """No extents are looked for then; the costs are those of one sample all the same."""
        path = self.dir / "open.onnx"
        path.write_bytes(model([node("MatMul", ["x", "w"], ["p"]), node("Relu", ["p"], ["y"])],
                               [value_info("x", ["batch", 1024])], [value_info("y", ["batch", 1024])],
                               [tensor("w", [1024, 1024], bytes(1024 * 1024 * 4))]))
        args = ["infer-opt", "fuse", path, "-o", self.dir / "fused.onnx", "--no-verify"]
        self.assertRegex(self.expect(0, *args).stdout, r"MFLOP 2\.10 -> 2\.10,")
        report = self.report(0, *args)["optimize"]
        for side in ["before", "after"]:
            self.assertGreaterEqual(report[side]["cost"]["flops"], 2 * 1024 * 1024)
            self.assertGreater(report[side]["cost"]["bytes_read"], 1024 * 1024 * 4)

    def test_lenient(self):
        path = self.dir / "misspelt.onnx"
        path.write_bytes(model([node("Softmax", ["x"], ["y"], [int_attribute("axsi", 1)])],
                               [value_info("x", [2, 3])], [value_info("y", [2, 3])]))
        self.assertIn("no attribute 'axsi'", self.expect(3, "infer-opt", "run", path).stderr)
        self.assertIn("has no attribute 'axsi'",
                      self.expect(0, "infer-opt", "run", path, "--lenient").stderr)
        fused = self.dir / "fused.onnx"
        self.expect(0, "infer-opt", "fuse", path, "-o", fused, "--lenient")
        self.expect(0, "infer-opt", "run", fused)
        report = self.report(0, "infer-bench", "run", path, "--lenient", "--runs", "2", "--cold", "1")
        self.assertTrue(report["results"])
        # Other opsets, which read the model, and shapes, which leave the attribute where it is.
        edited = self.dir / "edited.onnx"
        self.expect(3, "infer-opt", "edit", path, "-o", edited, "--opset", 18)
        self.assertIn("has no attribute 'axsi'",
                      self.expect(0, "infer-opt", "edit", path, "-o", edited, "--opset", 18, "--lenient").stderr)
        self.expect(0, "infer-opt", "run", edited)
        self.expect(0, "infer-opt", "edit", path, "-o", edited, "--rename", "y=z", "--lenient")
        self.assertIn("z", self.expect(0, "infer-opt", "run", edited, "--lenient").stdout)

    # Failures

    def test_larger_than_fp32(self):
        """Codes, scales and their nodes take more bytes than four weights: told whether or not anything is measured."""
        path, out = self.dir / "tiny.onnx", self.dir / "int8.onnx"
        path.write_bytes(model([node("MatMul", ["x", "w"], ["y"])], [value_info("x", ["n", 2])], [value_info("y", ["n", 2])],
                               [tensor("w", [2, 2], struct.pack("<4f", 1, 2, 3, 4))]))
        np.save(self.dir / "x.npy", np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32))
        quantize = ["infer-opt", "quantize", path, "-o", out, "--data", self.dir / "x.npy"]
        told = f"recommended is the fused FP32 file, infer-opt fuse {path} -o FILE"
        done = self.expect(1, *quantize)  # balanced: written only where it is worth having
        self.assertIn(told, done.stderr)
        self.assertFalse(out.exists())
        done = self.expect(0, *quantize, "--recipe", "fast", "--no-verify")
        self.assertIn("larger than the fused FP32 model", done.stderr)
        self.assertIn(told, done.stderr)
        self.assertGreater(os.path.getsize(out), os.path.getsize(path))
        self.assertIn(told, self.expect(0, "infer-opt", "quantize", path, "-o", out, "--mode", "dynamic").stderr)

    def test_gate_fails_with_1_and_writes_nothing(self):
        out = self.dir / "int8.onnx"
        report = self.report(
            1, "infer-opt", "quantize", MODEL, "-o", out, "--recipe", "none", "--data", DEMO / "eval_images.npy",
            "--labels", DEMO / "eval_labels.csv", "--preprocess", PREPROCESS, "--samples", 40,
            "--min-sqnr", 200)
        self.assertFalse(report["passed"])
        self.assertFalse(out.exists())

    def test_usage_is_2(self):
        for args in [[], ["nonsense"], ["run"], ["run", MODEL, "--device", "abacus"],
                     ["run", MODEL, "--set", "nothing=1"], ["run", MODEL, "--shape", "image=axb"],
                     ["run", MODEL, "--threads", "-1"], ["ops", "NoSuchOperator"],
                     ["fuse", MODEL], ["fuse", MODEL, "-o", "x.onnx", "--disable", "no-such-rule"],
                     ["quantize", MODEL, "-o", "x.onnx"], ["compare", MODEL]]:
            done = self.expect(2, "infer-opt", *args, cwd=self.dir)
            self.assertTrue(done.stderr, args)
            self.assertFalse((self.dir / "x.onnx").exists())

    def test_an_unknown_command_is_named(self):
        said = self.expect(2, "infer-opt", "frobnicate").stderr
        self.assertRegex(said, "no command 'frobnicate'; there are: inspect, .*quantize")

    def test_an_output_is_never_an_input(self):
        copy = self.dir / "m.onnx"
        copy.write_bytes(pathlib.Path(MODEL).read_bytes())
        os.link(copy, self.dir / "alias.onnx")
        for out in ["m.onnx", "alias.onnx"]:
            self.expect(2, "infer-opt", "fuse", copy, "-o", self.dir / out)
        self.assertEqual(copy.read_bytes(), pathlib.Path(MODEL).read_bytes())

    def test_bad_input_is_3(self):
        data = pathlib.Path(MODEL).read_bytes()
        for name, content in [("empty", b""), ("noise", bytes(range(256)) * 8),
                              ("truncated", data[: len(data) // 2])]:
            path = self.dir / f"{name}.onnx"
            path.write_bytes(content)
            done = self.expect(3, "infer-opt", "inspect", path)
            self.assertIn(name, done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    def test_missing_file_is_5(self):
        self.expect(5, "infer-opt", "inspect", self.dir / "none.onnx")
        self.expect(5, "infer-opt", "fuse", MODEL, "-o", self.dir / "no/such/folder/x.onnx")

    def test_full_disk_is_5(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "w") as full:
            done = subprocess.run([str(BIN / "infer-opt"), "ops"], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 5, done.stderr)
        with open("/dev/full", "w") as full:
            done = subprocess.run([str(BIN / "infer-opt"), "--help"], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 5, done.stderr)

    def test_interrupt_is_130_with_a_valid_report(self):
        self.interrupted("infer-bench", "run", MODEL, "--set", "batch=1", "--min-time", 60, after=2, within=50)

    def test_nothing_but_json_on_stdout(self):
        done = self.expect(0, "infer-opt", "ops", "Identity", "--json", "-")
        self.assertEqual(json.loads(done.stdout)["operators"][0]["name"], "Identity")
        self.assertIn("Identity", done.stderr)


if __name__ == "__main__":
    shards.main()
