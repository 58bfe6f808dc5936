#!/usr/bin/python3
"""infer-opt check: one model for each rule, what is told of it, and exit codes."""
import struct
import sys
import unittest

from onnx_wire import field, model, node, tensor, tensor_attribute, value_info
from tool_test_case import MODEL, CliTestCase

DOUBLE = 11


def floats(name, values):
    return tensor(name, [len(values)], struct.pack(f"<{len(values)}f", *values))


def plain(nodes, initializers=(), inputs=("x",), outputs=("y",), **more):
    return model(nodes, [value_info(v, [2]) for v in inputs], [value_info(v, [2]) for v in outputs], initializers, **more)


class Check(CliTestCase):
    def findings(self, data, *args, code=0):
        path = self.dir / "m.onnx"
        path.write_bytes(data)
        entry, = self.report(code, "infer-opt", "check", path, *args)["models"]
        self.assertEqual(entry["errors"] + entry["warnings"] + entry["notes"], len(entry["findings"]))
        for f in entry["findings"]:
            self.assertTrue(f["what"] and f["remedy"], f)
        return {f["rule"]: f for f in entry["findings"] if f["rule"] != "reader"}

    def test_a_clean_model(self):
        found = self.findings(plain([node("Relu", ["x"], ["y"], name="n")]))
        self.assertEqual(found, {})
        done = self.expect(0, "infer-opt", "check", self.dir / "m.onnx")
        self.assertIn("m.onnx: nothing found", done.stdout)

    def test_demo_model(self):
        entry, = self.report(0, "infer-opt", "check", MODEL)["models"]
        self.assertTrue(entry["passed"])
        self.assertIn("fusable", {f["rule"] for f in entry["findings"]})

    def test_file(self):
        nodes = [node("Relu", ["x"], ["r"], name="n"), node("Add", ["r", "a"], ["y"], name="n"), node("Neg", ["y"], ["z"])]
        inputs = [value_info(v, [2]) for v in ("x", "u", "a")]
        data = model(nodes, inputs, [value_info("y", [2]), value_info("z", [2])], [floats("a", [1, 2]), floats("b", [3, 4])])
        data += field(25, field(1, "F") + field(4, "v") + field(5, "u") + field(7, node("Neg", ["v"], ["u"]))
                      + field(9, field(1, "") + field(2, 13)) + field(10, "mine"))
        found = self.findings(data)
        for rule, value in [("unread-initializer", "b"), ("unread-input", "u"), ("input-initializer", "a")]:
            self.assertEqual(found[rule]["value"], value)
        self.assertIn("8 B", found["unread-initializer"]["what"])
        self.assertEqual(found["repeated-node-name"]["node"], "n")
        self.assertEqual(found["uncalled-function"]["node"], "mine::F")
        self.assertIn("1 node has no name", found["unnamed-node"]["what"])
        self.assertEqual(self.findings(data, "--disable", "un*,rep*,input-*,reader"), {})

    def test_order_of_nodes(self):
        nodes = [node("Neg", ["r"], ["y"], name="b"), node("Relu", ["x"], ["r"], name="a")]
        found = self.findings(plain(nodes), code=1)
        self.assertEqual((found["unsorted-nodes"]["severity"], found["unsorted-nodes"]["node"]), ("error", "Neg 'b'"))
        self.findings(plain(nodes), "--fail-on", "never")

    def test_weights(self):
        nodes = [node("Add", ["x", w], [y], name=y) for w, y in [("nan", "y"), ("inf", "z"), ("tiny", "t")]]
        values = [floats("nan", [1, float("nan")]), floats("inf", [1, float("inf")]), floats("tiny", [1, 1e-40])]
        data = plain(nodes, values, outputs=("y", "z", "t"))
        path = self.dir / "m.onnx"
        path.write_bytes(data)
        entry, = self.report(0, "infer-opt", "check", path)["models"]
        told = [(f["rule"], f["severity"], f["value"]) for f in entry["findings"] if f["value"]]
        self.assertEqual(told, [("not-finite", "warning", "nan"), ("not-finite", "note", "inf"), ("denormal", "note", "tiny")])
        self.report(1, "infer-opt", "check", path, "--fail-on", "warning")
        double = model([node("Neg", ["x"], ["y"], name="n")], [value_info("x", [2], DOUBLE)], [value_info("y", [2], DOUBLE)])
        self.assertEqual(self.findings(double)["double-precision"]["value"], "x")

    def test_import(self):
        found = self.findings(plain([node("Strange", ["x"], ["r"], name="n"), node("Odd", ["r"], ["y"], name="o")]), code=1)
        self.assertEqual(found["unsupported"]["severity"], "error")
        path = self.dir / "m.onnx"
        entry, = self.report(1, "infer-opt", "check", path)["models"]
        self.assertEqual([f["node"] for f in entry["findings"] if f["rule"] == "unsupported"], ["Odd 'o'", "Strange 'n'"])
        found = self.findings(plain([node("Neg", ["nothing"], ["y"], name="n")]), code=1)
        self.assertIn("'nothing'", found["invalid"]["what"])
        found = self.findings(b"no model at all", code=1)
        self.assertIn("invalid", found)
        found = self.findings(plain([node("Neg", ["x"], ["y"], name="n"), node("Neg", ["x"], ["dead"], name="d")]))
        self.assertIn("no output needs", found["import"]["what"])
        # The same warning of several names is one line, with how many there are.
        nodes = [node("Neg", ["x"], ["y"], name="n")] + [node("Constant", [], [c], [tensor_attribute("value", floats("", [v, v]))],
                                                              name=f"{c}{v}") for c in "ab" for v in (1, 2)]
        path.write_bytes(plain(nodes + [node("Add", ["a", "b"], ["z"], name="m")], outputs=("y", "z")))
        twice = [line for line in self.expect(0, "infer-opt", "check", path).stdout.splitlines() if "is defined twice" in line]
        self.assertEqual(len(twice), 1, twice)
        self.assertIn("constant 'a' is defined twice; the last definition counts (2 places)", twice[0])

    def test_inference(self):
        nodes = [node("Reshape", ["x", "s"], ["y"], name="r")]
        data = model(nodes, [value_info("x", [4]), value_info("s", ["K"], 7)], [field(1, "y")])
        self.assertEqual(self.findings(data)["unknown-rank"]["value"], "y")

    def test_readers(self):
        """A reader that is asked refuses with an error, one that is not with a warning."""
        path = self.dir / "m.onnx"
        path.write_bytes(plain([node("Relu", ["x"], ["y"], name="n")], opset=27))
        def readers(code, *args):
            entry, = self.report(code, "infer-opt", "check", path, *args)["models"]
            return {(f["reader"], f["severity"]) for f in entry["findings"] if f["rule"] == "reader"}
        self.assertIn(("ort-1.17", "error"), readers(1, "--target", "ort-1.17"))
        self.assertFalse([r for r in readers(0) if r[1] == "error"])
        self.assertIn("no such reader", self.expect(2, "infer-opt", "check", path, "--target", "nobody").stderr)

    def test_several_models_and_streams(self):
        bad = self.dir / "bad.onnx"
        bad.write_bytes(b"?")
        report = self.report(1, "infer-opt", "check", MODEL, bad)
        self.assertEqual([m["passed"] for m in report["models"]], [True, False])
        self.expect(5, "infer-opt", "check", self.dir / "missing.onnx")
        self.expect(2, "infer-opt", "check")
        listed = self.expect(0, "infer-opt", "check", "--list").stdout
        for rule in ["invalid", "unread-initializer", "near-miss", "reader"]:
            self.assertIn(rule, listed)


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=2)
