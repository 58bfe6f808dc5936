#!/usr/bin/python3
"""Four times the nodes must not take sixteen times the time: long chains through the commands.

Run by ctest with INFER_BIN (the folder of the binaries). What is compared is processor time of the
process, the best of some tries, and a ratio between that of linear (4) and of quadratic work (16): a
loaded machine only makes tries slower, while quadratic work is over the limit in every try."""
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

from onnx_wire import ints_attribute, model, node, tensor, value_info

BIN = pathlib.Path(os.environ["INFER_BIN"])
SMALL, LARGE = 20_000, 80_000
LIMIT = 8  # between 4 and 16
TRIES = 8


def links(n, op, attributes=()):
    """x -> op -> op -> ... -> y"""
    names = ["x"] + [f"v{i}" for i in range(n - 1)] + ["y"]
    return [node(op, [a], [b], attributes, name=op) for a, b in zip(names, names[1:])]


def relus(n):
    return model(links(n, "Relu"), [value_info("x", [2, 3])], [value_info("y", [2, 3])])


def transposes(n):
    """Nothing runs in place: every value is a buffer of its own."""
    return model(links(n, "Transpose", [ints_attribute("perm", [1, 0])]),
                 [value_info("x", [2, 3])], [value_info("y", [2, 3])])


def codes(n):
    """Codes could move behind every node."""
    names = ["d"] + [f"v{i}" for i in range(n - 3)] + ["y"]
    turns = [node("Transpose", [a], [b], [ints_attribute("perm", [1, 0])]) for a, b in zip(names, names[1:])]
    rounded = [node("QuantizeLinear", ["x", "s"], ["q"]), node("DequantizeLinear", ["q", "s"], ["d"])]
    return model(rounded + turns, [value_info("x", [2, 2])], [value_info("y", [2, 2])],
                 [tensor("s", [], struct.pack("<f", 0.1))])


def residuals(n):
    """x -> Sigmoid -> Add of the two -> ..., and x once more at the end."""
    nodes, last = [], "x"
    for i in range(n // 2):
        nodes += [node("Sigmoid", [last], [f"s{i}"]), node("Add", [last, f"s{i}"], [f"a{i}"])]
        last = f"a{i}"
    return model(nodes + [node("Add", [last, "x"], ["y"])], [value_info("x", [2, 3])],
                 [value_info("y", [2, 3])])


def constants(n):
    """Every node has a weight of its own, each of another value."""
    names = ["x"] + [f"v{i}" for i in range(n - 1)] + ["y"]
    return model([node("Add", [a, f"w{i}"], [b]) for i, (a, b) in enumerate(zip(names, names[1:]))],
                 [value_info("x", [3])], [value_info("y", [3])],
                 [tensor(f"w{i}", [1], (0x3f000000 + i).to_bytes(4, "little")) for i in range(n)])


class Scaling(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(folder.name)
        self.addCleanup(folder.cleanup)

    def seconds(self, tool, command, path, *args):
        """Processor seconds of one process."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([str(BIN / tool), command, str(path), *args, "-q"], text=True,
                              capture_output=True, cwd=self.dir, timeout=600)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return after.ru_utime - before.ru_utime

    def test_chains(self):
        commands = [("infer-opt", "run", "--threads", "1"),
                    ("infer-opt", "run", "--threads", "1", "--device", "reference"),
                    ("infer-opt", "fuse", "--no-verify", "-o", "out.onnx"),
                    ("infer-opt", "inspect"),
                    ("infer-opt", "inspect", "--target", "ort"),
                    ("infer-bench", "run", "--threads", "1", "--min-time", "0", "--min-runs", "1",
                     "--warmup", "0")]
        for make in (relus, transposes, codes, residuals, constants):
            for n in (SMALL, LARGE):
                (self.dir / f"{n}.onnx").write_bytes(make(n))
            for tool, command, *args in commands:
                with self.subTest(chain=make.__name__, command=f"{tool} {command}", args=args):
                    small = large = float("inf")
                    for _ in range(TRIES):
                        small = min(small, self.seconds(tool, command, self.dir / f"{SMALL}.onnx", *args))
                        large = min(large, self.seconds(tool, command, self.dir / f"{LARGE}.onnx", *args))
                        if large < LIMIT * small:
                            break
                    print(f"{make.__name__:10} {tool} {command:8} {' '.join(args):40} "
                          f"{small:.2f} s, {large:.2f} s: x{large / small:.1f}", flush=True)
                    self.assertLess(large, LIMIT * small)


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=1)
