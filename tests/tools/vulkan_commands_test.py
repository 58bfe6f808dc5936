#!/usr/bin/python3
"""Commands that take --device vulkan and more than run a model there: what each measures, predicts, places and writes of the device that was
named, and what it refuses to say of it."""
import json
import os
import pathlib
import re
import tempfile
import unittest

import small_model
from onnx_wire import model, node, value_info
from tool_test_case import DEMO, CliTestCase, validate

os.environ["INFER_VULKAN_CACHE"] = ""  # nothing in the user's folder
os.environ["LP_NUM_THREADS"] = "0"  # dispatches of few numbers are not worth a driver's threads
ONE = ["--set", "batch=1", "--device", "vulkan"]


class VulkanCommands(CliTestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.SMALL = str(pathlib.Path(folder.name) / "small.onnx")
        pathlib.Path(cls.SMALL).write_bytes(small_model.small_model(side=32))
        os.environ["INFER_BENCH_LOCK"] = str(pathlib.Path(folder.name) / "lock")

    def write(self, nodes, dims, out=None):
        path = str(self.dir / "model.onnx")
        pathlib.Path(path).write_bytes(model(nodes, [value_info("x", dims)], [value_info("y", out or dims)]))
        return path

    def test_nothing_is_predicted_of_a_device(self):
        for args in (["infer-bench", "predict", self.SMALL, "--machine", str(self.dir / "machine.json")],
                     ["infer-bench", "predict", self.SMALL, "--machine", str(self.dir / "machine.json"), "--measure"],
                     ["infer-opt", "fuse", self.SMALL, "--analyze"]):
            with self.subTest(args=args):
                said = self.expect(4, *args, *ONE).stderr
                self.assertEqual(len(said.strip().splitlines()), 1, said)
                self.assertRegex(said, "infer-bench run --device vulkan|--measure times on it")

    def test_fuse_measures_on_the_device(self):
        page = self.dir / "fused.html"
        for device in ("cpu", "vulkan"):
            report = self.report(0, "infer-opt", "fuse", self.SMALL, "-o", self.dir / "fused.onnx", "--measure", "--graph", page, "--set",
                                 "batch=1", "--device", device)
            self.assertEqual(report["device"], device)
            self.assertGreater(report["latency"]["before_ms"]["median"], 0)
            # The page has the kernels that were timed.
            self.assertEqual("vulkan:" in page.read_text(), device == "vulkan")

    def test_compare_and_peers_on_processors_of_their_own(self):
        """A driver's threads may be made for all processors, as Mesa's that writes its shader cache: no reason to measure nothing."""
        for threads in [n for n in (1, 2) if n <= len(os.sched_getaffinity(0))]:
            with self.subTest(threads=threads):
                limits = ["--warmup-time", "0.05", "--block-time", "0.01", "--threads", threads]
                report = self.report(0, "infer-bench", "compare", self.SMALL, *ONE, *limits, "--budget", "0.5", "--fail-above", "100000%", "--allow-inconclusive")
                self.assertEqual([(s["device"], s["threads"]) for s in report["sides"]], [("vulkan", threads)] * 2)
                self.assertTrue(all(isinstance(s["brought_back_threads"], list) for s in report["sides"]))
                report = self.report(0, "infer-bench", "peers", self.SMALL, "--engines", "infer", *ONE, *limits[2:], "--rounds", "3",
                                     "--starts", "2", "--max-other-load", "1000")
                engine, = report["results"][0]["engines"]
                self.assertEqual((engine["failure"], engine["settings"]["device"]), ("", "vulkan"))
                self.assertGreater(engine["latency_ms"]["median"], 0)

    def test_a_sweep_tells_where_it_measured(self):
        for device in ("cpu", "vulkan"):
            folder = self.dir / device
            done = self.expect(0, "infer-opt", "sweep", self.SMALL, "-o", folder, "--only", "int8-weights", "--set", "batch=1", "--device", device)
            report = json.loads((folder / "sweep.json").read_text())
            validate(report)
            self.assertEqual(report["device"], device)
            variants = json.loads((folder / "variants.json").read_text())
            for listed in (report["variants"], variants):
                self.assertEqual([(v["id"], v["device"]) for v in listed], [("fp32", device), ("int8-weights", device)])
            self.assertRegex(done.stdout, r"(?m)^variant +device ")
            self.assertRegex(done.stdout, rf"(?m)^fp32 +{device} ")

    def test_kernels_say_why_a_node_is_not_on_the_device(self):
        def kernels(path, *args):
            done = self.expect(0, "infer-opt", "inspect", path, "--kernels", "--device", "vulkan", "--json", self.dir / "i.json", *args)
            report = json.loads((self.dir / "i.json").read_text())
            validate(report)
            return done.stdout, report["device_share"], {k["op"]: k["refusals"] for k in report["kernels"]}

        large = self.write([node("MatMul", ["x", "x"], ["m"]), node("Cosh", ["m"], ["c"]), node("MatMul", ["c", "c"], ["y"])], [256, 256])
        said, share, why = kernels(large, "--level", "0")
        self.assertIn("vulkan: no shader", why["Cosh"])
        self.assertRegex(said, r"(?m)^2 of 3 nodes on vulkan, 4 values cross \(2 inputs and outputs, 2 between steps\), 1\.05 MB$")
        self.assertEqual(share, {"nodes": 3, "on_device": 2, "crossings": {"inputs_and_outputs": 2, "between_steps": 2},
                                 "crossing_bytes": 4 * 256 * 256 * 4, "without": [{"op": "Cosh", "nodes": 1}]})
        # Found extents where the model's are open, and the host's own program is no share of a device.
        said, share, _ = kernels(self.SMALL)
        self.assertRegex(said, r"(?m)^\d+ of \d+ nodes on vulkan, .* MB, with batch = 1$")
        self.assertEqual((share["on_device"], share["without"]), (share["nodes"], []))
        report = self.report(0, "infer-opt", "inspect", self.SMALL, "--kernels")
        self.assertIsNone(report["device_share"])
        alone = self.write([node("Cosh", ["x"], ["c"]), node("Relu", ["c"], ["r"]), node("Sinh", ["r"], ["y"])], [1, 8])
        _, _, why = kernels(alone, "--level", "0")
        self.assertRegex(why["Relu"][0], "^vulkan: placed on the CPU, ")
        shapes = self.write([node("Shape", ["x"], ["s"]), node("MatMul", ["x", "x"], ["m"]), node("Reshape", ["m", "s"], ["y"])], [256, 256])
        _, _, why = kernels(shapes)
        self.assertRegex(why["Shape"][0], "^vulkan: does not run, ")
        self.assertEqual(why["MatMul"], [])

    def test_quantize_judges_on_the_device(self):
        report = self.report(0, "infer-opt", "quantize", self.SMALL, "-o", self.dir / "int8.onnx", "--calib", DEMO / "calib_images.npy",
                             "--preprocess", "resize=32,interp=nearest,scale=1/255,layout=nchw", "--calib-samples", "8", "--recipe", "fast", "--eval", DEMO / "eval_images.npy",
                             "--device", "vulkan")
        self.assertTrue(report["passed"])
        self.assertGreater(report["quantization"]["integer_layers"], 0)
        # The prices of the recipe are of the CPU's kernels: on a device they decide nothing.
        self.assertFalse(report["recipe"]["weighed"])
        self.assertTrue(re.search("conv", json.dumps(report["quantization"]), re.I))


if __name__ == "__main__":
    unittest.main()
