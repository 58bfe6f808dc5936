#!/usr/bin/python3
"""infer-bench load and soak as a user meets them: loops, curve, scenarios, a process that stands still, Ctrl-C.

Run by ctest with INFER_BIN and INFER_SOURCE."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

import jsonschema

from tool_test_case import BIN, MODEL, SOURCE, BenchTestCase, run, validate

ONE = [MODEL, "--set", "batch=1", "--threads", 1, "--warmup", 0.05]


class BenchLoad(BenchTestCase):
    def test_closed_loop(self):
        report = self.report("load", *ONE, "--concurrency", 4, "--lanes", 2, "--duration", 0.5)
        r = report["result"]
        self.assertEqual((report["settings"]["arrivals"], report["target"]["lanes"]), ("closed", 2))
        self.assertEqual(r["issued"], r["answered"])
        self.assertEqual(r["queue"]["max"], 2)
        self.assertLessEqual(abs(r["latency_ms"]["mean"] - r["waiting_ms"]["mean"] - r["service_ms"]["mean"]), 1e-6)
        # Little's law: queries in flight = throughput x latency. Never more than four; fewer while other
        # processes keep the thread that submits from doing so (bench_load_test has the exact law in virtual time).
        in_flight = r["throughput_per_s"] * r["latency_ms"]["mean"] / 1e3
        self.assertLessEqual(in_flight, 4.2)
        self.assertGreater(in_flight, 1)
        self.assertEqual(len(r["samples"]["ms"]), r["latency_ms"]["count"])

    def test_open_loop(self):
        report = self.report("load", *ONE, "--rate", 200, "--duration", 1, "--arrivals", "uniform", "--seed", 4)
        r = report["result"]
        self.assertEqual(r["issued"], 200)
        self.assertEqual(r["unanswered"], 0)
        self.assertEqual([round(at / 5) for at in sorted(r["samples"]["at_ms"])], list(range(200)))
        self.assertGreaterEqual(r["latency_ms"]["min"], r["service_ms"]["min"] - 1e-6)
        table = self.bench("load", *ONE, "--rate", 200, "--duration", 0.3).stdout
        self.assertRegex(table, r"(?m)^waiting ")

    def test_a_process_that_stands_still_shows(self):
        """SIGSTOP for 1.5 s: what was due meanwhile waited for it, though nobody could hand it over."""
        path = self.dir / "stall.json"
        with subprocess.Popen([str(BIN / "infer-bench"), "load", *map(str, ONE), "--rate", "50", "--duration", "5", "--json",
                               str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(2)
            process.send_signal(signal.SIGSTOP)
            time.sleep(1.5)
            process.send_signal(signal.SIGCONT)
        self.assertEqual(process.returncode, 0)
        report = json.loads(path.read_text())
        validate(report)
        ms = sorted(report["result"]["samples"]["ms"])
        self.assertGreater(report["result"]["latency_ms"]["max"], 1300)
        self.assertGreater(ms[int(0.99 * len(ms))], 1000)  # 75 of 250 came meanwhile
        self.assertGreater(sum(x > 500 for x in ms), 30)

    def test_interrupt_leaves_a_valid_part(self):
        for args in (["--rate", 50, "--duration", 60], ["--concurrency", 2, "--duration", 60],
                     ["--curve", "--capacity-time", 0.2, "--duration", 1.2],
                     ["--scenario", "single-stream", "--duration", 60]):
            report, _ = self.interrupted("infer-bench", "load", *ONE, *args, after=3, within=50)
            part = report["curve"]["points"][0]["result"] if report["curve"] else report["result"]
            self.assertGreater(part["answered"], 0)
            if report["scenario"]:
                self.assertIn("interrupted", report["scenario"]["reasons"])

    def test_curve(self):
        report = self.report("load", *ONE, "--curve", "--duration", 0.3, "--capacity-time", 0.3)
        points = report["curve"]["points"]
        self.assertEqual(len(points), 11)
        capacity = report["capacity"]["queries_per_s"]
        self.assertAlmostEqual(points[4]["rate_per_s"], 0.5 * capacity, delta=1e-6 * capacity)
        self.assertFalse(points[0]["saturated"])
        self.assertNotIn("samples", points[0]["result"])

    def test_scenarios(self):
        short = ["--duration", 0.2]
        single = self.report("load", *ONE, "--scenario", "single-stream", *short)["scenario"]
        self.assertEqual(single["verdict"], "VALID")
        self.assertIn("min duration 0.2 s; the rules ask for 600 s", single["deviations"])
        few = self.report("load", *ONE, "--scenario", "multi-stream", *short, "--min-queries", 5, "--max-duration", 0.01,
                          code=1)["scenario"]
        self.assertEqual(few["verdict"], "INVALID")
        self.assertTrue(any("needs 662" in r for r in few["reasons"]), few)
        server = ["--scenario", "server", "--rate", 100, "--duration", 6]
        self.assertEqual(self.report("load", *ONE, *server, "--target-latency", 5000)["scenario"]["verdict"], "VALID")
        missed = self.report("load", *ONE, *server, "--target-latency", 0.001, code=1)["scenario"]
        self.assertGreater(missed["over_target"], 0)
        # A machine that others slowed while the capacity was measured is through sooner: too short then.
        done = run("infer-bench", "load", *ONE, "--scenario", "offline", "--duration", 0.3, "--samples-per-query", 50,
                   "--capacity-time", 0.3, "--json", "-")
        offline = json.loads(done.stdout)
        validate(offline)
        self.assertEqual(done.returncode, 0 if offline["result"]["latency_ms"]["max"] >= 300 else 1)
        self.assertEqual(offline["scenario"]["metric"], "samples per second")
        self.assertGreater(offline["scenario"]["value"], 0)
        self.assertEqual(offline["result"]["issued"], 1)
        # Queries of one run would tell how runs are handed over, not how fast they are.
        self.assertGreater(offline["capacity"]["samples_per_query"], 10)

    def test_soak(self):
        path = self.dir / "soak.json"
        # Whether three seconds drift is up to what else the machine does; the exit code must say the same.
        done = run("infer-bench", "soak", *ONE, "--duration", 3, "--window", 0.25, "--json", path)
        report = json.loads(path.read_text())
        validate(report)
        self.assertEqual(done.returncode, {"drifts": 1, "inconclusive": 6}.get(report["verdict"], 0))
        self.assertEqual(len(report["windows"]), 12)
        self.assertEqual(report["skipped_windows"], 1)
        self.assertLessEqual(sum(w["answered"] for w in report["windows"]), report["result"]["answered"])
        self.assertGreater(min(w["resident_bytes"] for w in report["windows"]), 1 << 20)
        # Three seconds say little about an hour; a limit beyond what they can bear is judged.
        self.assertIn(report["verdict"], done.stdout)
        wide = self.report("soak", *ONE, "--duration", 3, "--window", 0.25, "--max-latency-drift", "1e9",
                           "--max-memory-drift", 1e9)
        self.assertEqual(wide["verdict"], "steady")
        few = ["--duration", 0.3, "--window", 0.1]
        self.assertEqual(self.report("soak", *ONE, *few, code=6)["verdict"], "inconclusive")
        self.bench("soak", *ONE, *few, "--allow-inconclusive")
        self.bench("soak", *ONE, *few, "--strict", code=1)

    def test_soak_interrupted(self):
        report, _ = self.interrupted("infer-bench", "soak", *ONE, "--window", 0.1, after=3)
        self.assertGreater(len(report["windows"]), 5)

    def test_a_batch_of_nothing(self):
        for command in ("load", "soak"):
            done = self.expect(2, "infer-bench", command, MODEL, "--set", "batch=0", "--duration", 0.3, "--threads", 1)
            self.assertIn("no samples", done.stderr)

    def test_behind_the_engine(self):
        open_batch = [MODEL, "--threads", 1, "--warmup", 0.05, "--engine"]
        r = self.report("load", *open_batch, "--max-batch", 4, "--concurrency", 8, "--lanes", 1, "--duration", 0.5,
                        "--priorities", "1,2,1")
        engine = r["engine"]
        self.assertEqual(engine["ends"]["succeeded"], r["result"]["issued"])
        self.assertEqual(sum(b["rows"] * b["runs"] for b in engine["batch_rows"]), r["result"]["issued"])
        self.assertLess(engine["runs"], r["result"]["issued"])
        self.assertIsNone(engine["unbatchable"])
        self.assertEqual(engine["phases_ms"]["compute"]["count"], r["result"]["issued"])
        self.assertIsNone(self.report("load", *ONE, "--duration", 0.2)["engine"])
        plain = self.bench("load", *open_batch, "--duration", 0.2).stdout
        self.assertIn("its rules stack no more than one row", plain)
        fixed = self.bench("load", *ONE, "--engine", "--max-batch", 2, code=2)
        self.assertIn("may not share a run", fixed.stderr)
        self.assertIn("go with --engine", self.bench("load", *ONE, "--max-batch", 2, code=2).stderr)

    def test_recommendations(self):
        few = self.report("load", *ONE, "--engine", "--duration", 0.03)["engine"]
        self.assertEqual(few["recommendations"], [])
        self.assertIn("too few requests", few["no_recommendation"])
        waits = self.report("load", MODEL, "--threads", 1, "--warmup", 0.05, "--engine", "--lanes", 1, "--max-batch", 8,
                            "--batch-delay", 20, "--duration", 8)["engine"]
        found = [r for r in waits["recommendations"] if r["setting"] == "max_delay"]
        self.assertEqual([(r["from"], r["to"], r["try"]) for r in found], [("20 ms", "0 ms", "--batch-delay 0")])
        self.assertIsNone(waits["no_recommendation"])

    def test_rows_within_memory(self):
        served = [MODEL, "--threads", 1, "--warmup", 0.05, "--engine", "--lanes", 1, "--max-batch", 8, "--concurrency", 16,
                  "--duration", 0.5]
        ample = self.report("load", *served, "--model-memory", 100)["engine"]
        self.assertEqual(ample["memory_limit_bytes"], 100 * 2**20)
        self.assertEqual(ample["fired"]["memory"], 0)
        scarce = self.report("load", *served, "--model-memory", (ample["memory_bytes"] - 1) / 2**20)["engine"]
        self.assertLess(scarce["memory_bytes"], ample["memory_bytes"])
        self.assertLess(max(b["rows"] for b in scarce["batch_rows"]), 8)
        self.assertGreater(scarce["fired"]["memory"], 0)
        self.assertIsNone(self.report("load", *ONE, "--engine", "--duration", 0.1)["engine"]["memory_limit_bytes"])
        self.assertIn("bytes, and may have", self.bench("load", *served, "--model-memory", 1e-5, code=71).stderr)
        self.assertIn("goes with --engine", self.bench("load", *ONE, "--model-memory", 1, code=2).stderr)

    def test_planned_faults(self):
        served = [*ONE, "--engine", "--lanes", 1, "--fault", "run:fail:5%,bind:throw:0.05,run:delay:0.02:2ms"]
        for command, more in (("load", ["--duration", 0.5]), ("soak", ["--duration", 1, "--window", 0.1, "--allow-inconclusive",
                                                                        "--max-latency-drift", 1e9, "--max-memory-drift", 1e9])):
            r = self.report(command, *served, *more)
            engine = r["engine"]
            self.assertEqual(r["result"]["answered"], r["result"]["issued"])
            self.assertEqual([f["kind"] for f in engine["faults"]], ["fail", "throw", "delay"])
            self.assertEqual(engine["ends"]["failed"], sum(f["met"] for f in engine["faults"][:2]))
            self.assertGreater(engine["ends"]["failed"], 0)
            self.assertEqual(engine["ends"]["succeeded"] + engine["ends"]["failed"], r["result"]["issued"])
            self.assertEqual(engine["anomalies"], [])
        self.assertIsNone(self.report("soak", *ONE, "--duration", 0.3, "--window", 0.1, "--allow-inconclusive",
                                      "--max-latency-drift", 1e9, "--max-memory-drift", 1e9)["engine"])
        self.assertIn("the site is", self.bench("load", *ONE, "--engine", "--fault", "load:fail:1", code=2).stderr)
        self.assertIn("go with --engine", self.bench("load", *ONE, "--fault", "run:fail:1", code=2).stderr)

    def test_variants_behind_a_route(self):
        shutil.copy(MODEL, self.dir / "copy.onnx")
        two = [{"name": "stable"}, {"name": "copy", "path": "copy.onnx"}]
        served = [*ONE, "--engine", "--lanes", 1, "--concurrency", 4, "--duration", 0.4]

        def load(settings, variants, *args):
            policy = {**settings, "variants": variants}
            schema = json.loads((SOURCE / "docs/schemas/infer-bench-route.schema.json").read_text())
            jsonschema.validate(policy, schema)
            path = self.dir / "route.json"
            path.write_text(json.dumps(policy))
            r = self.report("load", *served, "--route", path, *args)
            route = r["engine"]["route"]
            self.assertEqual(route["mode"], settings["mode"])
            self.assertEqual(route["submitted"], r["result"]["issued"])
            return r, route, [v["sent"] for v in route["variants"]]

        weights = [{**two[0], "weight": 3}, {**two[1], "weight": 1}]
        r, route, sent = load({"mode": "split", "salt": "s", "experiment": {}}, weights, "--keys", 1000)
        self.assertEqual(sum(sent), r["result"]["issued"])
        self.assertEqual([v["share"] for v in route["variants"]], [0.75, 0.25])
        self.assertEqual(route["experiment"]["trials"][0]["count"], sent[0])
        r, route, sent = load({"mode": "shadow", "share": 1}, two)
        self.assertEqual(sent[0], r["result"]["issued"])
        self.assertEqual(sent[1] + route["shadow"]["dropped"], sent[0])
        self.assertEqual(route["shadow"]["worst_difference"], 0)
        r, route, sent = load({"mode": "cascade", "min_confidence": 1, "logits": True}, two)
        self.assertEqual(sent[1], route["variants"][0]["unsure"] + route["variants"][0]["unreadable"])
        accurate = [{**two[0], "accuracy": 0.9, "run_ms": 1}, {**two[1], "accuracy": 0.8}]
        r, route, sent = load({"mode": "slo"}, accurate, "--deadline", 60000)
        self.assertEqual(sent, [r["result"]["issued"], 0])
        for mode in ("canary", "affinity", "balance"):
            r, route, sent = load({"mode": mode}, two, "--keys", 100)
            self.assertEqual(sum(sent), r["result"]["issued"])

        path = self.dir / "route.toml"
        path.write_text("mode = 'balance'\nsalt = 's'\n[[variants]]\nname = 'a'\n[[variants]]\nname = 'b'\npath = 'copy.onnx'\n")
        self.assertIn("'salt' is no setting of mode balance", self.bench("load", *served, "--route", path, code=3).stderr)
        path.write_text("mode = 'balance'\n[[variants]]\nname = 'a'\npath = 'copy.onnx'\n[[variants]]\nname = 'b'\npath = 'c.onnx'\n")
        self.assertIn("is none of its variants", self.bench("load", *served, "--route", path, code=2).stderr)
        for args in (["--route", path], ["--deadline", 5]):
            self.assertIn("go with --engine", self.bench("load", *ONE, *args, code=2).stderr)
        self.assertIn("goes with --route", self.bench("load", *served, "--keys", 5, code=2).stderr)

    def test_models_beside_each_other(self):
        """Each query goes to one of them; what --set says is of the first alone, whose extents are fixed then."""
        copy = self.dir / "copy.onnx"
        shutil.copy(MODEL, copy)
        served = [MODEL, "--threads", 1, "--warmup", 0.05, "--engine", "--also", f"{copy},{copy}", "--set", "batch=1"]
        r = self.report("load", *served, "--shares", "2,1,1", "--concurrency", 16, "--max-batch", 4, "--duration", 0.3,
                        "--min-queries", 400)
        fixed, *others = models = r["engine"]["models"]
        self.assertEqual([m["path"] for m in models], [MODEL, str(copy), f"{copy} #2"])
        self.assertEqual([m["share"] for m in models], [0.5, 0.25, 0.25])
        self.assertEqual(sum(m["submitted"] for m in models), r["result"]["issued"])
        self.assertGreater(min(m["submitted"] for m in models), 0)
        self.assertEqual(fixed["runs"], fixed["submitted"])
        self.assertIsNotNone(fixed["unbatchable"])
        self.assertEqual([m["unbatchable"] for m in others], [None, None])
        self.assertEqual(self.report("load", *ONE, "--engine", "--duration", 0.03)["engine"]["models"], [])
        for args, why in ((["--shares", "1,1"], "3 shares"), (["--pad-to", 4], "--pad-to"), (["--utilization"], "no --also"),
                          (["--scenario", "single-stream"], "no --also")):
            self.assertIn(why, self.bench("load", *served, *args, code=2).stderr)
        self.assertIn("goes with --engine", self.bench("load", *ONE, "--also", copy, code=2).stderr)

    def test_instances_have_places(self):
        engine = ["--concurrency", 2, "--lanes", 2, "--duration", 0.1, "--engine"]
        self.assertEqual(self.report("load", *ONE, *engine)["engine"]["nodes"], [])
        for placement in ("nodes", "cores"):
            served = self.report("load", *ONE, *engine, "--placement", placement)["engine"]
            self.assertEqual(served["placement"], placement)
            self.assertEqual(len(served["nodes"]), 2)
        self.assertIn("goes with --engine", self.bench("load", *ONE, "--placement", "nodes", code=2).stderr)
        bound = self.bench("load", *ONE, *engine, "--placement", "nodes", code=2, env={**os.environ, "OMP_PROC_BIND": "true"})
        self.assertIn("unset it to place instances", bound.stderr)

    def test_what_the_engine_adds(self):
        r = self.report("engine", MODEL, "--threads", 1, "--pairs", 50, "--warmup-pairs", 5)
        self.assertEqual([r[k]["count"] for k in ("bare_ms", "engine_ms", "added_ms")], [50] * 3)
        self.assertEqual(r["target"]["batch_axis"], "batch")
        self.assertLessEqual(r["phases_ms"]["compute"]["min"], r["engine_ms"]["max"])

    def test_usage(self):
        for args, text in ((["--rate", 5, "--concurrency", 2], "open loop"), (["--scenario", "server"], "--target-latency"),
                           (["--curve", "--rate", 3], "no --rate"),
                           (["--scenario", "offline", "--rate", 3], "has no --rate"),
                           (["--lanes", 2, "--pin"], "--lanes 1")):
            self.assertIn(text, self.bench("load", *ONE, *args, code=2).stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=2)
