#!/usr/bin/python3
"""infer-bench llm as a user meets it: report, table, refusals.

Run by ctest with INFER_BIN and INFER_SOURCE."""
import sys
import unittest

from tool_test_case import MODEL, BenchTestCase


class Llm(BenchTestCase):
    command = ("llm",)

    def setUp(self):
        super().setUp()
        self.model = self.dir / "decoder.onnx"
        self.expect(0, "infer-bench", "zoo", "gpt2-small-kv-int4", "--past", 0, "--num-layers", 1, "-o", self.model)

    def test_report(self):
        r = self.report(self.model, "--prompt", 0, "--generate", "3,5", "--depth", "0,7", "--batch", 1, "--repetitions", 2,
                        "--threads", 1)
        self.assertEqual([(t["test"], t["depth"], t["tokens"]) for t in r["results"]],
                         [("generate", d, n) for d in (0, 7) for n in (3, 5)])
        for t in r["results"]:
            self.assertEqual(len(t["seconds"]), 2)
            self.assertLessEqual(t["tokens_per_s_least"], t["tokens_per_s"])
            self.assertLessEqual(t["tokens_per_s"], t["tokens_per_s_most"])
            # Keys and values of 12 heads of 64 elements.
            self.assertEqual(t["cache_bytes"], 2 * 12 * 64 * 4 * (t["depth"] + t["tokens"]))
        self.assertGreater(r["memory"]["weight_bytes"], 20e6)

    def test_without_options_the_caches_decide(self):
        short = self.dir / "short.onnx"
        self.expect(0, "infer-bench", "zoo", "gpt2-small-gqa-int4", "--past", 40, "--num-layers", 1, "-o", short)
        r = self.report(short, "--repetitions", 1, "--depth", "0,30")
        self.assertEqual([(t["test"], t["depth"], t["tokens"]) for t in r["results"]], [("generate", 0, 40), ("generate", 30, 10)])
        self.assertIn("the caches hold 40 tokens", self.bench(short, "--prompt", 0, "--generate", 41, code=2).stderr)

    def test_what_the_model_cannot_do_is_told(self):
        done = self.bench(self.model, "--prompt", 4, "--generate", 2, "--repetitions", 1)
        self.assertIn("left out, the model takes 1 token a run", done.stderr)
        self.assertIn("generate 2", done.stdout)
        self.assertIn("nothing that was asked for", self.bench(self.model, "--prompt", 4, "--generate", 0, code=2).stderr)
        self.assertIn("is none that decoders", self.bench(MODEL, code=4).stderr)
        for args, text in ((["--batch", 0], "no number from 1"), (["--prompt", 0, "--generate", 0], "neither"),
                           (["--generate", "x"], "'x' is no number")):
            self.assertIn(text, self.bench(self.model, *args, code=2).stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=2)
