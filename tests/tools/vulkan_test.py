#!/usr/bin/python3
"""--device vulkan and `devices` as a user meets them: with the driver that the machine has, and without one."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import small_model
from tool_test_case import BIN, SOURCE, CliTestCase, MODEL, validate

sys.path.insert(0, str(pathlib.Path(SOURCE) / "tools/ci"))
import gpu_lanes  # noqa: E402

os.environ["INFER_VULKAN_CACHE"] = ""  # nothing in the user's folder
QUIET = {**os.environ, "LP_NUM_THREADS": "0"}  # dispatches of few numbers are not worth a driver's threads
NO_DRIVER = {**os.environ, "VK_DRIVER_FILES": "/none.json", "VK_ICD_FILENAMES": "/none.json"}


class Vulkan(CliTestCase):
    """What does not depend on the model runs one that has few pipelines to compile."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.SMALL = str(pathlib.Path(folder.name) / "small.onnx")
        pathlib.Path(cls.SMALL).write_bytes(small_model.small_model(side=32))

    def test_runs_on_shaders_wherever_a_device_is_named(self):
        kernels = [k["kernel"] for k in self.report(0, "infer-opt", "inspect", MODEL, "--kernels", "--device", "vulkan",
                                                    "--set", "batch=1")["kernels"]]
        self.assertTrue(any(k.startswith("vulkan:conv") for k in kernels), kernels)
        self.assertTrue(all(k.startswith("vulkan:") or k == "view" for k in kernels), kernels)
        for args in (["infer-opt", "run", MODEL], ["infer-opt", "compare", MODEL, MODEL],
                     ["infer-bench", "run", MODEL, "--warmup", "0", "--runs", "2"]):
            with self.subTest(args=args):
                self.expect(0, *args, "--set", "batch=1", "--device", "vulkan", env=QUIET)

    def test_int8_has_the_bits_of_the_cpu(self):
        demo, int8 = os.path.dirname(MODEL), str(self.dir / "int8.onnx")
        preprocess = "resize=32,interp=nearest,scale=1/255,layout=nchw"
        self.expect(0, "infer-opt", "quantize", MODEL, "-o", int8, "--calib", os.path.join(demo, "calib_images.npy"), "--preprocess",
                    preprocess, "--recipe", "fast", "--no-verify", "-q")
        kernels = [k["kernel"] for k in self.report(0, "infer-opt", "inspect", int8, "--kernels", "--device", "vulkan", "--set",
                                                    "batch=1")["kernels"]]
        self.assertTrue(all(k.startswith("vulkan:q") or k == "view" for k in kernels), kernels)
        results = []
        for device in ("cpu", "vulkan"):
            out = str(self.dir / device)
            self.expect(0, "infer-opt", "run", int8, "--set", "batch=1", "--seed", "3", "--device", device, "-o", out, env=QUIET)
            with open(os.path.join(out, "logits.npy"), "rb") as f:
                results.append(f.read())
        self.assertEqual(*results)

    def test_a_profile_has_the_clock_of_the_device(self):
        report = self.report(0, "infer-bench", "run", self.SMALL, "--set", "batch=1", "--device", "vulkan", "--warmup", "0", "--runs", "2",
                             "--cold", "0", "--layers", "--trace", str(self.dir / "trace.json"))["results"][0]
        self.assertGreater(report["profile"]["device_ms"], 0)
        for layer in report["layers"]:
            self.assertEqual(layer["device_ms"] > 0, layer["kernel"].startswith("vulkan:"), layer)
        with open(str(self.dir / "trace.json")) as f:
            events = json.load(f)["traceEvents"]
        self.assertIn("device", [e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"])
        self.assertTrue(any(e["ph"] == "X" and e["tid"] == 2 for e in events))

    def test_a_load_tells_how_busy_the_device_is(self):
        trace, many = str(self.dir / "lanes.json"), ["--set", "batch=1", "--warmup", "0", "--duration", "0.3", "--min-queries", "8"]
        lanes = ["--device", "vulkan", "--threads", "1", "--lanes", "2", "--concurrency", "4"]
        for pretend, queues in (("", ["compute"]), ("discrete", ["compute", "upload", "download"])):
            with self.subTest(pretend=pretend):
                report = str(self.dir / "load.json")
                out = self.expect(0, "infer-bench", "load", self.SMALL, *many, *lanes, "--utilization", "--trace", trace, "--json", report,
                                  env={**QUIET, "INFER_VULKAN_PRETEND": pretend}).stdout
                self.assertIn("device busy", out)
                with open(report) as f:
                    report = json.load(f)
                validate(report)
                use = report["device"]
                self.assertEqual([q["queue"] for q in use["queues"]], queues)
                self.assertEqual((use["lanes"], use["untimed"], use["dropped"]), (2, 0, 0))
                # Each query has each of its submissions once.
                for q in use["queues"]:
                    self.assertGreaterEqual(q["submissions"], report["result"]["answered"])
                    self.assertGreater(q["busy_ms"], 0)
                self.assertLessEqual(use["utilization"], 1)
                with open(trace) as f:
                    text = f.read()
                spans = [e for e in json.loads(text)["traceEvents"] if e["ph"] == "X"]
                self.assertEqual(len(spans), sum(q["submissions"] for q in use["queues"]))
                self.assertEqual({e["args"]["lane"] for e in spans}, {0, 1})
                transfers, both = gpu_lanes.overlapped(text)
                self.assertAlmostEqual(transfers, use["transfer_ms"], delta=1e-3 * use["window_ms"])
                self.assertAlmostEqual(both, use["overlapped_ms"], delta=1e-3 * use["window_ms"])
        for args in (lanes + ["--curve", "--utilization"], ["--device", "cpu", "--utilization"]):
            self.assertIn("--utilization", self.expect(2, "infer-bench", "load", self.SMALL, *many, *args, env=QUIET).stderr)

    def test_pipelines_are_kept_from_one_start_to_the_next(self):
        folder = str(self.dir / "kept")
        args = ["infer-bench", "run", self.SMALL, "--set", "batch=1", "--warmup", "0", "--runs", "2", "--cold", "2", "--json"]
        # The process that measures has written the file before its starts read it.
        for env, state in ((QUIET, "off"), ({**QUIET, "INFER_VULKAN_CACHE": folder}, "loaded")):
            report = str(self.dir / "report.json")
            self.expect(0, *args, report, "--device", "vulkan", env=env)
            with open(report) as f:
                pipelines = json.load(f)["results"][0]["cold"]["pipelines"]
            self.assertEqual(set(pipelines["cache"]), {state})  # slow machines make fewer starts
            self.assertGreater(pipelines["made"], 0)
            self.assertEqual(len(os.listdir(folder)) if os.path.exists(folder) else 0, state != "off")
        self.expect(0, *args, report, "--device", "cpu", env=QUIET)
        with open(report) as f:
            self.assertIsNone(json.load(f)["results"][0]["cold"]["pipelines"])

    def started(self, cache, out):
        """A process that runs the small model with the pipelines of `cache`, and writes its outputs to `out`."""
        return subprocess.Popen([str(BIN / "infer-opt"), "run", self.SMALL, "--set", "batch=1", "--device", "vulkan", "-q", "-o", str(out)],
                                env={**QUIET, "INFER_VULKAN_CACHE": str(cache)}, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def outputs(self, out):
        files = sorted(out.iterdir())
        self.assertTrue(files)
        return [f.read_bytes() for f in files]

    def ended(self, process):
        said = process.communicate(timeout=300)[1]
        self.assertEqual(process.returncode, 0, said)

    def test_two_processes_with_one_cache(self):
        cache, alone = self.dir / "cache", self.dir / "alone"
        self.ended(self.started("", alone))
        for start in ("empty", "filled"):
            outs = [self.dir / f"{start}{i}" for i in range(2)]
            for process in [self.started(cache, out) for out in outs]:
                self.ended(process)
            for out in outs:
                self.assertEqual(self.outputs(out), self.outputs(alone), start)
        self.assertEqual(self.cache_state(cache), "loaded")

    def cache_state(self, cache):
        report = str(self.dir / "report.json")
        self.expect(0, "infer-bench", "run", self.SMALL, "--set", "batch=1", "--warmup", "0", "--runs", "1", "--cold", "1", "--json", report,
                    "--device", "vulkan", env={**QUIET, "INFER_VULKAN_CACHE": str(cache)})
        with open(report) as f:
            return json.load(f)["results"][0]["cold"]["pipelines"]["cache"][0]

    def test_devices(self):
        report = self.report(0, "infer-opt", "devices")
        self.assertEqual(sum(d["default"] for d in report["vulkan"]), 1)
        for d in report["vulkan"]:
            self.expect(0 if not d["unfit"] else 4, "infer-opt", "run", self.SMALL, "--set", "batch=1", "--device", d["device"],
                        env=QUIET)
        shown = self.expect(0, "infer-opt", "devices", env={**QUIET, "INFER_VULKAN_DISABLE": "int8"}).stdout
        self.assertRegex(shown, r"int8 +switched off: .*CPU")

    def test_what_is_missing_is_named_in_one_line(self):
        for device, env, why in (("vulkan", NO_DRIVER, "no Vulkan driver"), ("vulkan:99", QUIET, "no Vulkan device 99")):
            said = self.expect(4, "infer-opt", "run", self.SMALL, "--set", "batch=1", "--device", device, env=env).stderr
            self.assertIn(why, said)
            self.assertEqual(len(said.strip().splitlines()), 1, said)
        self.assertIn("no Vulkan driver", self.expect(0, "infer-opt", "devices", env=NO_DRIVER).stdout)
        self.expect(0, "infer-opt", "ops", "Conv", env=NO_DRIVER)
        self.expect(0, "infer-opt", "run", self.SMALL, "--set", "batch=1", env=NO_DRIVER)

    def test_options_that_cannot_be(self):
        for device in ("vulkan:", "vulkan:x", "vulkan:-1", "vulkan0"):
            self.expect(2, "infer-opt", "run", self.SMALL, "--device", device)
        for name, value in (("INFER_VULKAN_DISABLE", "abacus"), ("INFER_VULKAN_ENABLE", "abacus"), ("INFER_VULKAN_MEMORY", "much"),
                            ("INFER_VULKAN_STAGE_ALL", "yes"), ("INFER_VULKAN_VALIDATE", "2"), ("INFER_VULKAN_BUFFER", "0"),
                            ("INFER_VULKAN_TRANSFER_BYTES", "0"), ("INFER_VULKAN_TRANSFER_QUEUES", "3")):
            said = self.expect(2, "infer-opt", "run", self.SMALL, "--device", "vulkan", env={**QUIET, name: value}).stderr
            self.assertIn(name, said)

    def test_no_memory(self):
        said = self.expect(71, "infer-opt", "run", self.SMALL, "--set", "batch=1", "--device", "vulkan",
                           env={**QUIET, "INFER_VULKAN_MEMORY": "1000"}).stderr
        self.assertIn("the limit is 1000", said)


if __name__ == "__main__":
    unittest.main()
