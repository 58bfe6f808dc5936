#!/usr/bin/python3
"""Nodes of constants whose declared outputs are not those that they make: the model is wrong (3), not the program (70).

Run by ctest with INFER_BIN (the folder of the binaries) and INFER_SOURCE (the repository)."""
import struct
import unittest

from onnx_wire import INT64, STRING, UINT8, field, model, node, tensor, value_info
from tool_test_case import CliTestCase


def strings(name, *texts):
    return tensor(name, [len(texts)], dtype=STRING) + b"".join(field(6, t) for t in texts)


def floats(name, dims, *values):
    return tensor(name, dims, struct.pack(f"<{len(values)}f", *values))


BOXES = [0, 0, 1, 1, 0, 2, 1, 3, 0, 4, 1, 5]
DELIMITER = field(1, "delimiter") + field(4, ".") + field(20, 3)
# By operator: constants in the order of the operands, results, extents and type declared of the first, attributes.
MODELS = {
    "StringSplit": ([("x", strings("x", "abc.com", "def.net"))], ["y", "n"], [2, 3], STRING, [DELIMITER]),
    "NonMaxSuppression": ([("b", floats("b", [1, 3, 4], *BOXES)), ("s", floats("s", [1, 1, 3], .9, .8, .7)),
                           ("m", tensor("m", [1], struct.pack("<q", 3), INT64)), ("t", floats("t", [1], .5))],
                          ["y"], [1, 3], INT64, []),
    "ImageDecoder": ([("x", tensor("x", [4], b"\1\2\3\4", UINT8))], ["y"], [32, 32, 3], UINT8, []),
}


class LyingOutputs(CliTestCase):
    def test_every_command_ends_with_3(self):
        for op, (constants, results, dims, dtype, attributes) in MODELS.items():
            path, out = self.dir / (op + ".onnx"), self.dir / "out.onnx"
            path.write_bytes(model([node(op, [name for name, _ in constants], results, attributes)], [],
                                   [value_info("y", dims, dtype)], [t for _, t in constants], opset=20))
            for command, *rest in (["run", "--device", "cpu"], ["run", "--device", "reference"], ["fuse", "-o", out]):
                with self.subTest(op=op, command=command):
                    done = self.expect(3, "infer-opt", command, path, *rest)
                    self.assertIn("the model says", done.stderr)
                    self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
