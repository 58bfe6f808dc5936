#!/usr/bin/python3
"""Files stay in the reader's world: opset, IR version, functions and formats of what fuse and quantize write.

Run by ctest with INFER_BIN (the folder of the binaries) and INFER_SOURCE (the repository)."""
import sys
import time
import unittest

import numpy as np

from onnx_wire import INT64, field, graph, int_attribute, ints_attribute, node, tensor, value_info
from tool_test_case import DEMO, MODEL, PREPROCESS, CliTestCase

DATA = ["--data", DEMO / "eval_images.npy", "--preprocess", PREPROCESS, "--samples", 40, "--no-verify"]


def model(nodes, inputs, outputs, initializers=(), opset=13, ir=8):
    return (field(1, ir) + field(7, graph(nodes, inputs, outputs, initializers))
            + field(8, field(1, "") + field(2, opset)))


def floats(name, values, dims=()):
    return tensor(name, dims, np.asarray(values, np.float32).tobytes())


class Readers(CliTestCase):
    def write(self, name, data):
        path = self.dir / name
        path.write_bytes(data)
        return path

    def fused(self, path, *args, code=0):
        return self.report(code, "infer-opt", "fuse", path, "-o", self.dir / "out.onnx", *args)

    def inspected(self, path=None):
        return self.report(0, "infer-opt", "inspect", path or self.dir / "out.onnx")

    def layer_norm(self, opset=13, ir=7):
        axes = ints_attribute("axes", [-1])  # an attribute until opset 18
        nodes = [node("ReduceMean", ["x"], ["m"], [axes]), node("Sub", ["x", "m"], ["d"]),
                 node("Pow", ["d", "two"], ["p"]), node("ReduceMean", ["p"], ["v"], [axes]),
                 node("Add", ["v", "eps"], ["e"]), node("Sqrt", ["e"], ["s"]), node("Div", ["d", "s"], ["n"]),
                 node("Mul", ["n", "w"], ["g"]), node("Add", ["g", "b"], ["y"])]
        constants = [floats("two", 2), floats("eps", 1e-5), floats("w", np.arange(1, 9), (8,)),
                     floats("b", np.arange(8), (8,))]
        return self.write("ln.onnx", model(nodes, [value_info("x", (2, 3, 8))], [value_info("y", (2, 3, 8))],
                                           constants, opset, ir))

    def test_fuse_raises_no_version(self):
        path = self.layer_norm()
        report = self.fused(path)
        self.assertEqual(report["optimize"]["rules"][0]["applied"], 1)
        there = self.inspected()
        self.assertEqual((there["model"]["opset"], there["ir_version"]), (13, 7))
        self.assertEqual(report["output"]["decomposed"], {"LayerNormalization": 1})
        self.assertEqual(report["output"]["whole_opset"], 17)
        self.assertEqual(report["output"]["nodes"], 9, "of the file: the operator's nodes")
        self.assertEqual(report["output"]["readers"], {"onnxruntime": "1.6", "by_versions": True, "openvino": "2024.6"})
        said = self.expect(0, "infer-opt", "fuse", path, "-o", self.dir / "out.onnx").stdout
        self.assertIn("opset 13 has no 1 LayerNormalization: written as the nodes that define them; --opset max (17)", said)
        self.assertIn("out.onnx: 9 nodes, ", said)
        self.assertIn("read by ONNX Runtime 1.6 (by opset and IR version) and newer, OpenVINO 2024.6 and newer", said)
        whole = self.fused(path, "--opset", "max")["output"]
        self.assertEqual((whole["opset"], whole["ir_version"], whole["decomposed"]), (17, 8, {}))
        self.assertEqual([o["op"] for o in self.inspected()["operators"]], ["LayerNormalization"])
        self.assertEqual(self.fused(path, "--opset", 15)["output"]["opset"], 15)
        self.expect(2, "infer-opt", "fuse", path, "-o", self.dir / "out.onnx", "--opset", "newest")

    def test_what_an_opset_cannot_say_is_refused_before_the_work(self):
        nodes = [node("Where", ["c", "x", "z"], ["y"])]
        path = self.write("where.onnx", model(nodes, [value_info("c", (2,), 9), value_info("x", (2,)), value_info("z", (2,))],
                                              [value_info("y", (2,))], opset=9))
        done = self.expect(4, "infer-opt", "fuse", path, "-o", self.dir / "out.onnx", "--opset", 7)
        self.assertRegex(done.stderr, "opset 7 cannot express 1 thing; opset 9 can:")
        self.assertIn("--opset max", done.stderr)
        self.assertNotIn("checked on", done.stderr)  # no run of the model before

    def test_the_oldest_ir_version_stays(self):
        """Initializers stand among the inputs up to IR version 3."""
        data = model([node("MatMul", ["x", "w"], ["y"])], [value_info("x", (1, 4)), value_info("w", (4, 2))],
                     [value_info("y", (1, 2))], [floats("w", np.ones(8), (4, 2))], opset=8, ir=3)
        path = self.write("old.onnx", data)
        self.assertEqual(self.fused(path)["output"]["ir_version"], 3)
        self.assertIn(field(11, value_info("w", (4, 2))), (self.dir / "out.onnx").read_bytes())
        self.assertEqual([i["name"] for i in self.inspected()["model"]["inputs"]], ["x"])

    def test_upsample_is_written_as_it_came(self):
        scales = floats("s", [1, 1, 2, 2], (4,))
        for opset, op in [(9, "Upsample"), (10, "Resize")]:
            path = self.write("up.onnx", model([node(op, ["x", "s"], ["y"])], [value_info("x", (1, 1, 2, 2))],
                                               [value_info("y", (1, 1, 4, 4))], [scales], opset))
            for args in [[], ["--opset", opset]]:
                self.assertEqual(self.fused(path, *args)["output"]["opset"], opset)
                self.assertIn(op.encode(), (self.dir / "out.onnx").read_bytes())
                self.report(0, "infer-opt", "compare", path, self.dir / "out.onnx")

    def test_rules_that_make_what_the_opset_lacks_are_left_out(self):
        rules = self.write("bits.rules", b"""rule negative-by-bits "-x => not x + 1" {
          match   graph m(x: i64) -> (y) { y = Neg(x) }
          replace graph r(x) -> (y) { n = BitwiseNot(x)  one = const i64[] {1}  y = Add(n, one) }
        }""")
        path = self.write("neg.onnx", model([node("Neg", ["x"], ["y"])], [value_info("x", (4,), INT64)],
                                            [value_info("y", (4,), INT64)]))
        done = self.expect(0, "infer-opt", "fuse", path, "-o", self.dir / "out.onnx", "--rules", rules)
        self.assertIn("rules left out, since the opset of the file cannot say what they make: negative-by-bits", done.stderr)
        self.assertEqual([o["op"] for o in self.inspected()["operators"]], ["Neg"])
        whole = self.fused(path, "--rules", rules, "--opset", "max")
        self.assertEqual(whole["output"]["opset"], 18)

    def test_depth_to_space_before_opset_11(self):
        shape, order = tensor("s", (6,), np.array([1, 1, 2, 2, 3, 3]).tobytes(), INT64), ints_attribute("perm", [0, 1, 4, 2, 5, 3])
        nodes = [node("Reshape", ["x", "s"], ["a"]), node("Transpose", ["a"], ["b"], [order]), node("Reshape", ["b", "t"], ["y"])]
        path = self.write("d2s.onnx", model(nodes, [value_info("x", (1, 4, 3, 3))], [value_info("y", (1, 1, 6, 6))],
                                            [shape, tensor("t", (4,), np.array([1, 1, 6, 6]).tobytes(), INT64)], opset=10, ir=5))
        report = self.fused(path)["output"]
        self.assertEqual((report["opset"], report["decomposed"]), (10, {"DepthToSpace": 1}))
        self.report(0, "infer-opt", "compare", path, self.dir / "out.onnx")

    def test_functions_only_where_asked_for(self):
        nodes = [node("Sigmoid", ["x"], ["s"]), node("Mul", ["x", "s"], ["y"])]
        path = self.write("silu.onnx", model(nodes, [value_info("x", (4,))], [value_info("y", (4,))], ir=6))
        plain = self.fused(path)["output"]
        self.assertEqual((plain["functions"], plain["ir_version"]), ([], 6))
        self.assertNotIn(b"infer", (self.dir / "out.onnx").read_bytes())
        asked = self.fused(path, "--functions")["output"]
        self.assertEqual((asked["functions"], asked["ir_version"]), (["infer::Silu"], 8))

    def test_opset_is_raised_where_scales_per_channel_pay(self):
        """A large weight in one channel spoils the scale of the others, where there is one per tensor."""
        rng = np.random.default_rng(0)
        x = rng.normal(size=(20, 3, 8, 8)).astype(np.float32)
        x[:, 2] = 0  # so that the large weight says nothing
        np.save(self.dir / "x.npy", x)
        alike = rng.uniform(-1, 1, size=(8, 3, 3, 3))
        apart = alike.copy()
        apart[0, 2, 0, 0] = 100

        def quantized(weights, *args):
            path = self.write("conv.onnx", model(
                [node("Conv", ["x", "w"], ["y"])], [value_info("x", (1, 3, 8, 8))], [value_info("y", (1, 8, 6, 6))],
                [floats("w", weights, (8, 3, 3, 3))], 11))
            return self.report(0, "infer-opt", "quantize", path, "-o", self.dir / "out.onnx", "--data", self.dir / "x.npy",
                               "--recipe", "fast", "--no-verify", *args)

        raised, kept, asked = quantized(apart), quantized(alike), quantized(apart, "--opset", 11)
        self.assertEqual([r["output"]["opset"] for r in (raised, kept, asked)], [13, 11, 11])
        self.assertTrue(raised["recipe"]["channel_scales"])
        self.assertEqual(raised["output"]["opset_reason"], "for scales per channel")
        self.assertGreater(raised["recipe"]["channel_scales_db"], 3)
        self.assertFalse(kept["recipe"]["channel_scales"])
        self.assertLess(kept["recipe"]["channel_scales_db"], 3)
        self.assertIsNone(asked["recipe"]["channel_scales_db"])
        self.assertEqual(quantized(apart, "--opset", "input")["output"]["opset"], 11)

    def test_int8_of_old_opsets(self):
        weights = floats("w", np.random.default_rng(0).normal(size=(8, 3, 3, 3)), (8, 3, 3, 3))
        np.save(self.dir / "x.npy", np.random.default_rng(1).normal(size=(20, 3, 8, 8)).astype(np.float32))

        def convolution(opset):
            return self.write(f"conv{opset}.onnx", model(
                [node("Conv", ["x", "w"], ["y"])], [value_info("x", (1, 3, 8, 8))], [value_info("y", (1, 8, 6, 6))],
                [weights], opset))

        args = ["-o", self.dir / "out.onnx", "--data", self.dir / "x.npy", "--no-verify"]
        done = self.expect(0, "infer-opt", "quantize", convolution(11), *args, "--opset", 11)
        self.assertRegex(done.stderr, "opset 11 has no scales per channel: one per weight tensor.*--opset 13")
        self.assertEqual(self.inspected()["model"]["opset"], 11)
        self.expect(0, "infer-opt", "quantize", convolution(11), *args, "--opset", 13)
        self.assertEqual(self.inspected()["model"]["opset"], 13)
        done = self.expect(4, "infer-opt", "quantize", convolution(13), *args, "--activations", "u16")
        self.assertIn("--activations u16 needs opset 21, the file has 13: --opset 21", done.stderr)
        start = time.monotonic()
        done = self.expect(4, "infer-opt", "quantize", convolution(9), *args, "--opset", "input")
        self.assertIn("opset 9 has no QuantizeLinear", done.stderr)
        self.assertIn("--opset 13", done.stderr)
        self.assertLess(time.monotonic() - start, 60)
        self.expect(4, "infer-opt", "quantize", convolution(9), *args, "--opset", 9)
        for mode, operator in [("static", "QuantizeLinear"), ("dynamic", "DynamicQuantizeLinear")]:
            with self.subTest(mode=mode):
                raised = self.report(0, "infer-opt", "quantize", convolution(9), *args, "--mode", mode)["output"]
                self.assertEqual((raised["opset"], raised["opset_reason"]), (13, "for INT8"))
                self.assertIn(operator, {o["op"] for o in self.inspected()["operators"]})
        self.report(0, "infer-opt", "quantize", convolution(9), *args, "--opset", "max")

    def weights(self, *args, code=0):
        return self.expect(code, "infer-opt", "quantize", MODEL, "-o", self.dir / "out.onnx", "--mode", *args)

    def test_the_target_chooses_the_format(self):
        operators = lambda: {o["op"] for o in self.inspected()["operators"]}
        self.weights("weight-only")
        self.assertIn("com.microsoft::MatMulNBits", operators())
        for target in ["onnx", "openvino", "ort-1.17", "ort-1.20", "ort-1.30"]:
            with self.subTest(target=target):
                self.weights("weight-only", "--bits", 8, "--target", target)
                there = self.inspected()
                self.assertEqual(there["model"]["opset"], 13)
                names = {o["op"] for o in there["operators"]}
                if target in ("onnx", "ort-1.17", "ort-1.20"):  # no 8-bit MatMulNBits there
                    self.assertNotIn("com.microsoft::MatMulNBits", names)
                    self.assertIn("DequantizeLinear", names)
                if target != "onnx":
                    self.report(0, "infer-opt", "inspect", self.dir / "out.onnx", "--target", target)

    def test_refused_before_the_work(self):
        for args, words in [(["weight-only", "--bits", 4, "--target", "onnx"], "opset 21 can"),
                            (["weight-only", "--bits", 2, "--target", "ort-1.20"], "try --bits 4"),
                            (["bf16", "--target", "ort-1.20"], "--mode fp16"),
                            (["weight-only", "--format", "nbits", "--bits", 8, "--target", "ort-1.20"], "--bits 4")]:
            with self.subTest(args=args):
                done = self.weights(*args, code=4)
                self.assertIn(words, done.stderr)
                self.assertIn("nothing was quantized", done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertFalse((self.dir / "out.onnx").exists())
        self.weights("weight-only", "--bits", 4, "--target", "onnx", "--opset", 21)

    def test_what_stayed_in_8_bits_is_told(self):
        self.assertRegex(self.weights("weight-only", "--bits", 4).stdout, r"\d+ convolutions .* in 8 bits")


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=2)
