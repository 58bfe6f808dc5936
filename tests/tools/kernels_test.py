#!/usr/bin/python3
"""infer-bench kernels as a user meets it: reports, formats, filter, list, examples, Ctrl-C.

Run by ctest with INFER_BIN and INFER_SOURCE."""
import fnmatch
import json
import sys
import unittest

from tool_test_case import MODEL, BenchTestCase, run, validate

QUICK = ["--threads", 1, "--min-time", 0.002, "--repetitions", 2]
DEMO = [MODEL, "--set", "batch=1", *QUICK]


class Kernels(BenchTestCase):
    command = ("kernels",)

    def test_every_step_is_checked_and_timed(self):
        report = self.report(*DEMO)
        plan = json.loads(run("infer-opt", "inspect", MODEL, "--set", "batch=1", "--kernels", "--json", "-").stdout)
        used = sum(c["used"] for c in report["cases"])
        self.assertEqual(used, report["models"][0]["with_kernel"])
        self.assertEqual({c["implementation"] for c in report["cases"]},
                         {s["kernel"] for s in plan["kernels"]} - {"reference"})
        for c in report["cases"]:
            self.assertIn(c["check"]["state"], ("right", "view"), c)
            if c["time"]:
                self.assertEqual(len(c["time"]["repetitions_us"]), 2)
                self.assertGreater(c["time"]["min_us"], 0)
        conv = next(c for c in report["cases"] if c["op"] == "Conv")
        self.assertGreater(conv["check"]["error"], 0)  # sums in f32 beside sums in double
        self.assertLess(conv["check"]["error"], conv["check"]["tolerance"])
        self.assertGreater(conv["time"]["gflop_per_s"], 0.01)
        coverage = report["coverage"]
        self.assertEqual(coverage["covered"], len({(c["op"], c["kernel"]) for c in report["cases"]}))
        self.assertEqual(coverage["kernels"], coverage["covered"] + len(coverage["not_covered"]))

    def test_formats(self):
        table = self.bench(*DEMO).stdout
        self.assertRegex(table, r"(?m)^ *us +spread +GFLOP/s")
        self.assertRegex(table, r"\d+ of \d+ kernels of the registry are covered, not:\n  ")
        validate(json.loads(self.bench(*DEMO, "--format", "json").stdout))
        gbench = json.loads(self.bench(*DEMO, "--format", "gbench").stdout)
        self.assertIn("num_cpus", gbench["context"])
        once = [b for b in gbench["benchmarks"] if b["run_type"] == "iteration"]
        self.assertEqual({b["repetition_index"] for b in once}, {0, 1})
        self.assertEqual({b["aggregate_name"] for b in gbench["benchmarks"] if b["run_type"] == "aggregate"},
                         {"mean", "median", "stddev", "cv"})
        for b in once:
            self.assertEqual((b["name"], b["time_unit"]), (b["run_name"], "us"))
            self.assertGreater(min(b["real_time"], b["cpu_time"], b["bytes_per_second"], b["uses"]), 0)
        # What the library counts is what the report says of the same case.
        conv = next(b for b in once if b["name"].startswith("Conv"))
        case = next(c for c in self.report(*DEMO)["cases"] if c["name"] == conv["name"])
        self.assertAlmostEqual(conv["FLOPS"] * conv["real_time"] / 1e6 / case["cost"]["flops"], 1, delta=1e-3)

    def test_filter_and_list(self):
        listed = self.report(*DEMO, "--list")["cases"]
        names = [c["name"] for c in listed]
        self.assertGreater(len(names), 3)
        self.assertEqual({c["check"]["state"] for c in listed}, {"listed"})
        some = self.report(*DEMO, "--filter", "Conv*")["cases"]
        self.assertEqual([c["name"] for c in some], [n for n in names if fnmatch.fnmatch(n, "Conv*")])
        none = self.report(*DEMO, "--filter", "none")
        self.assertEqual(none["cases"], [])
        self.assertTrue([w for w in none["warnings"] if "no case" in w])
        self.assertIn("--list", self.bench(*DEMO, "--list", "--format", "gbench", code=2).stderr)
        for absurd in (("--threads", 1000000000), ("--level", 9)):
            self.assertIn(absurd[0], self.bench(*DEMO, "--list", *absurd, code=2).stderr)

    def test_precisions_and_the_zoo(self):
        report = self.report("--zoo", "squeezenet1.1", *QUICK, "--precision", "as-is,int8-dynamic", "--list")
        self.assertEqual([m["name"] for m in report["models"]],
                         ["zoo squeezenet1.1", "zoo squeezenet1.1 (int8-dynamic)"])
        self.assertIn("ConvInteger", {c["op"] for c in report["cases"]})
        self.assertIn("there are", self.bench("--zoo", "nothing", code=2).stderr)

    def test_examples_are_all_right(self):
        """Every operator's example: a kernel that disagrees with the reference would exit with 1."""
        report = self.report("--examples", "--threads", 1, "--min-time", 1e-6, "--repetitions", 1)
        self.assertGreater(len(report["models"]), 150)
        self.assertGreater(report["coverage"]["covered"], 100)

    def test_interrupt(self):
        report, _ = self.interrupted("infer-bench", "kernels", "--examples", "--min-time", 0.05, after=2.5, within=30)
        self.assertGreater(len(report["cases"]), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=2)
