#!/usr/bin/python3
"""The hash of the sources that keys stored results: every kind of source file counts, and what is equal leaves the header alone.

Run by ctest with INFER_SOURCE (the repository) and CMAKE."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["INFER_SOURCE"])
SCRIPT = SOURCE / "tools/cmake/BuildSources.cmake"
FOLDERS = ["lib", "datasets", "passes", "runtime", "quant", "tools"]
# Data, documents, pages, packaging, and what only the readers of the library compile or link by.
NO_SOURCES = {"", ".clang-format", ".css", ".csv", ".hpp", ".html", ".js", ".map", ".md", ".npy", ".onnx", ".pyi", ".sh", ".txt",
              ".typed", ".yml"}


class BuildSources(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.tree = pathlib.Path(work.name) / "tree"
        self.out = pathlib.Path(work.name) / "sources.h"
        for name in ["lib/a.cc", "lib/a.h", "runtime/cpu/loops.inc", "runtime/vulkan/shaders/product.comp",
                     "runtime/vulkan/shaders/common.glsl", "runtime/CMakeLists.txt", "tools/cmake/Isa.cmake"]:
            path = self.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("1\n")

    def hashed(self, options="-O2"):
        subprocess.run([os.environ.get("CMAKE", "cmake"), f"-DSOURCE={self.tree}", f"-DOUT={self.out}", f"-DOPTIONS={options}",
                        "-P", str(SCRIPT)], check=True)
        return self.out.read_text()

    def test_each_kind_of_source_counts(self):
        first = self.hashed()
        self.assertRegex(first, r'kBuildSources\[\] = "[0-9a-f]{64}"')
        for path in sorted(p for p in self.tree.rglob("*") if p.is_file()):
            with self.subTest(path=path.name):
                path.write_text("2\n")
                self.assertNotEqual(self.hashed(), first)
                path.write_text("1\n")
                self.assertEqual(self.hashed(), first)

    def test_names_and_options_count(self):
        first = self.hashed()
        self.assertNotEqual(self.hashed("-O3"), first)
        (self.tree / "lib/a.cc").rename(self.tree / "lib/b.cc")
        self.assertNotEqual(self.hashed(), first)

    def test_equal_sources_leave_the_header(self):
        self.hashed()
        os.utime(self.out, (1, 1))
        self.hashed()
        self.assertEqual(self.out.stat().st_mtime, 1)

    def test_no_kind_of_this_repository_is_left_out(self):
        """Each kind of file below the folders is hashed, or is known to be no source."""
        text = SCRIPT.read_text()
        for folder in FOLDERS:
            for path in (SOURCE / folder).rglob("*"):
                if not path.is_file() or "__pycache__" in path.parts or path.suffix in NO_SOURCES:
                    continue
                self.assertIn(f"/*{path.suffix}", text, path)

    def test_what_is_stored_is_keyed_by_it(self):
        """Golden outputs, logs of sweeps and searches, calibrations, measured kernels, checkpoints."""
        for path in ["tools/common/golden_cache.cc", "tools/infer_opt/sweep.cc", "tools/infer_opt/quantize/mixed.cc",
                     "tools/infer_opt/prune/low_rank.cc", "quant/calibrate/calibrate.cc", "quant/train/fine_tune.cc",
                     "runtime/plan_ir/tuner.cc"]:
            self.assertIn("BuildIdentity()", (SOURCE / path).read_text(), path)


if __name__ == "__main__":
    unittest.main()
