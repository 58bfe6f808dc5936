"""Perplexity of a language model, as users meet it: eval, compare, quantize and its gate."""
import json
import math
import unittest

import numpy as np

from onnx_wire import INT64, FLOAT, model, node, tensor, value_info
from tool_test_case import ToolTestCase, validate

TOKENS, WIDTH = 40, 32
SEQUENCES, LENGTH = 24, 17


class Perplexity(ToolTestCase):
    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(3)
        self.table = draw.standard_normal((TOKENS, WIDTH)).astype(np.float32)
        self.head = (draw.standard_normal((WIDTH, TOKENS)) / 3).astype(np.float32)
        # Text of the model's own: of any other a worse model may foretell more.
        odds = np.exp(self.table.astype(float) @ self.head.astype(float))
        odds /= odds.sum(-1, keepdims=True)
        self.tokens = np.zeros((SEQUENCES, LENGTH), np.int64)
        self.tokens[:, 0] = draw.integers(0, TOKENS, SEQUENCES)
        for row in self.tokens:
            for t in range(1, LENGTH):
                row[t] = draw.choice(TOKENS, p=odds[row[t - 1]])
        self.model, self.data = self.dir / "bigram.onnx", self.dir / "tokens.npy"
        self.write(self.model, mixed=False)
        np.save(self.data, self.tokens)

    def write(self, path, mixed):
        """Scores by the token itself; `mixed`: by the mean over all tokens as well."""
        dims = [1, "length"]
        nodes = [node("Gather", ["table", "ids"], ["row"])]
        if mixed:
            nodes += [node("ReduceMean", ["row"], ["all"]), node("Add", ["row", "all"], ["seen"])]
        nodes += [node("MatMul", ["seen" if mixed else "row", "head"], ["logits"])]
        path.write_bytes(model(nodes, [value_info("ids", dims, INT64)], [value_info("logits", [*dims, TOKENS])],
                               [tensor("table", self.table.shape, self.table.tobytes(), FLOAT),
                                tensor("head", self.head.shape, self.head.tobytes(), FLOAT)]))

    def by_hand(self):
        scores = self.table.astype(float)[self.tokens] @ self.head.astype(float)
        logs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
        return math.exp(-np.mean(np.take_along_axis(logs[:, :-1], self.tokens[:, 1:, None], 2)))

    def report(self, code, *args):
        path = self.dir / "report.json"
        done = self.expect(code, "infer-opt", *args, "--json", path)
        report = json.loads(path.read_text())
        validate(report)
        return report, done

    def test_eval_without_labels(self):
        report, done = self.report(0, "eval", self.model, "--data", self.data)
        self.assertAlmostEqual(report["perplexity"] / self.by_hand(), 1, 5)
        self.assertEqual(report["tokens"], SEQUENCES * (LENGTH - 1))
        low, high = report["perplexity_ci95"]
        self.assertTrue(low < report["perplexity"] < high)
        self.assertIn("perplexity", done.stdout)

    def test_not_where_later_tokens_are_seen(self):
        self.write(self.model, mixed=True)
        done = self.expect(2, "infer-opt", "eval", self.model, "--data", self.data)
        self.assertIn("later tokens", done.stderr)
        report, _ = self.report(0, "compare", self.model, self.model, "--data", self.data)
        self.assertNotIn("perplexity", report["accuracy"])
        done = self.expect(1, "infer-opt", "compare", self.model, self.model, "--data", self.data,
                           "--max-perplexity-rise", "1%")
        self.assertIn("needs a causal language model", done.stdout)

    def test_gate_of_quantize(self):
        out = self.dir / "int2.onnx"
        args = ["quantize", self.model, "-o", out, "--mode", "weight-only", "--bits", 2, "--block", 16,
                "--eval", self.data]
        report, done = self.report(1, *args, "--max-perplexity-rise", "0.01%")
        self.assertFalse(out.exists())
        gate = report["gates"][0]
        self.assertEqual((gate["name"], gate["passed"], gate["samples"]), ("max-perplexity-rise", False, SEQUENCES))
        self.assertIn("rise of perplexity", done.stdout)
        report, _ = self.report(0, *args, "--max-perplexity-rise", "1000%")
        rise = report["accuracy"]["perplexity"]
        self.assertAlmostEqual(rise["golden"] / self.by_hand(), 1, 5)
        self.assertAlmostEqual(rise["candidate"] / rise["golden"] - 1, rise["rise"], 6)
        again, _ = self.report(0, "eval", out, "--data", self.data, "--golden", self.model)
        self.assertAlmostEqual(again["perplexity"] / rise["candidate"], 1, 5)
        self.assertAlmostEqual(again["accuracy"]["perplexity"]["rise"], rise["rise"], 5)

    def test_random_inputs_are_no_text(self):
        report, _ = self.report(0, "fuse", self.model, "-o", self.dir / "fused.onnx")
        self.assertNotIn("perplexity", report["accuracy"])

    def test_bisect_by_it(self):
        out = self.dir / "int2.onnx"
        self.expect(0, "infer-opt", "quantize", self.model, "-o", out, "--mode", "weight-only", "--bits", 2,
                    "--block", 16, "--eval", self.data)
        report, _ = self.report(1, "compare", self.model, out, "--data", self.data, "--max-perplexity-rise",
                                "0.01%", "--bisect")
        self.assertEqual(len(report["bisect"]["set"]), 1)


if __name__ == "__main__":
    unittest.main()
