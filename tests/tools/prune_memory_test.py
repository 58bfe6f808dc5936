#!/usr/bin/python3
"""What `infer-opt prune` holds of a layer that sums over many inputs: its second moments [depth, depth], few times.

Run by ctest with INFER_BIN and INFER_SOURCE."""
import array
import os
import random
import struct
import subprocess
import unittest

import onnx_wire as wire
from tool_test_case import BIN, ToolTestCase

DEPTH, INPUTS, OUTPUTS, SAMPLES = 3072, 16, 16, 96
MOMENTS_MB = DEPTH * DEPTH * 4 / 2 ** 20  # in f32


class PruneMemory(ToolTestCase):
    def setUp(self):
        super().setUp()
        numbers = random.Random(3)

        def floats(count):
            return struct.pack(f"<{count}f", *(numbers.gauss(0, 0.1) for _ in range(count)))

        self.model = self.dir / "wide.onnx"
        self.model.write_bytes(wire.model(
            [wire.node("Gemm", ["x", "w0", "b0"], ["h"]), wire.node("Relu", ["h"], ["r"]), wire.node("Gemm", ["r", "w1", "b1"], ["y"])],
            [wire.value_info("x", [1, INPUTS])], [wire.value_info("y", [1, OUTPUTS])],
            [wire.tensor("w0", [INPUTS, DEPTH], floats(INPUTS * DEPTH)), wire.tensor("b0", [DEPTH], floats(DEPTH)),
             wire.tensor("w1", [DEPTH, OUTPUTS], floats(DEPTH * OUTPUTS)), wire.tensor("b1", [OUTPUTS], floats(OUTPUTS))]))
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({SAMPLES}, {INPUTS}), }}".ljust(117) + "\n"
        rows = array.array("f", (numbers.gauss(0, 1) for _ in range(SAMPLES * INPUTS)))
        self.data = self.dir / "x.npy"
        self.data.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + rows.tobytes())

    def peak_mb(self, *args):
        """Of the resident set."""
        process = subprocess.Popen([str(BIN / "infer-opt"), "prune", str(self.model), "-o", str(self.dir / "p.onnx"), "--calib",
                                    str(self.data), "--no-verify", "--threads", "1", "--quiet", *map(str, args)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0, process.stderr.read())
        process.stderr.close()
        return used.ru_maxrss / 1024

    def test_copies_of_the_moments(self):
        """Times [depth, depth] in f32, beside a run that holds none. One more in f32 or f64 fails."""
        bare = self.peak_mb("--sparsity", "50%", "--method", "magnitude", "--allocation", "uniform", "--exclude", "y")
        for args, most in ((["--sparsity", "50%"], 7), (["--nm", "2:4"], 7), (["--low-rank", "--rank", "50%"], 4),
                           (["--structured", "--flops", "70%"], 6)):
            copies = (self.peak_mb(*args) - bare) / MOMENTS_MB
            print(f"{' '.join(args)}: {copies:.2f} times [{DEPTH}, {DEPTH}] in f32", flush=True)
            with self.subTest(args):
                self.assertLess(copies, most + 0.7)


if __name__ == "__main__":
    unittest.main()
