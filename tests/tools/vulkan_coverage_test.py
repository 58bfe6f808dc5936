#!/usr/bin/python3
"""The share of a few architectures that runs on shaders: no less than was reached, and no value comes and goes between their steps."""
import os
import sys
import unittest

from tool_test_case import CliTestCase

sys.path.insert(0, os.path.join(os.environ["INFER_SOURCE"], "tools", "ci"))
from vulkan_coverage import Coverage  # noqa: E402

os.environ["INFER_VULKAN_CACHE"] = ""  # nothing in the user's folder
SHARE, BETWEEN = 95, 2  # the aims (docs/measurements/vulkan.md)


class VulkanCoverage(CliTestCase):
    def covered(self, name, *options):
        path = str(self.dir / (name + ".onnx"))
        self.expect(0, "infer-bench", "zoo", name, "-o", path, "-q", *options)
        return Coverage(os.path.join(os.environ["INFER_BIN"], "infer-opt"), path, [])

    def test_small_architectures(self):
        for name, options in (("mobilenetv3-small", []), ("bert-base", ["--num-layers", "1"]), ("gpt2-small-gqa-int4", ["--num-layers", "1"])):
            with self.subTest(name=name):
                coverage = self.covered(name, *options)
                self.assertEqual(coverage.misses(SHARE, BETWEEN), "", coverage.row())

    def test_what_misses_an_aim_is_named(self):
        coverage = self.covered("squeezenet1.1")
        self.assertRegex(coverage.misses(101, BETWEEN), r"^100\.0 % of nodes on shaders$")
        self.assertEqual(coverage.misses(SHARE, -1), "0 values cross between steps")


if __name__ == "__main__":
    unittest.main()
