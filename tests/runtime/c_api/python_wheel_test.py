#!/usr/bin/python3
"""The wheel: the same bytes twice, installed in a fresh venv, with all libraries but the system's and their licences inside."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE, BIN = os.environ["INFER_SOURCE"], os.environ["INFER_BIN"]
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wheels import SYSTEM, built, clean, installed  # noqa: E402

DIGITS = os.path.join(SOURCE, "datasets/demo/digits.onnx")
PROGRAM = """
import array, re, infer_opt
image = memoryview(array.array("f", [0.5] * 1024)).cast("B").cast("f", [1, 1, 32, 32])
model = infer_opt.Model(%r)
report = model.quantize([image] * 8, recipe="fast", threads=1, eval_fn=lambda s: len(s.run(image)), max_drop=0)
print("layers", report.integer_layers, report.golden_metric)
print("file", infer_opt.__file__)
print("runs", infer_opt.bench(model, threads=1, runs=5, warmup=1, cold=0).runs)
for path in sorted(set(re.findall(r"(/\\S+[.]so[.\\d]*\\S*)$", open("/proc/self/maps").read(), re.M))):
    print("map", path)
""" % DIGITS


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(work.cleanup)
        cls.folder, cls.wheel = work.name, built(work.name)
        cls.python = installed(cls.wheel, os.path.join(work.name, "venv"))

    def test_the_same_bytes_again(self):
        with tempfile.TemporaryDirectory() as again:
            with open(self.wheel, "rb") as a, open(built(again), "rb") as b:
                self.assertTrue(a.read() == b.read())

    def test_runs_in_a_fresh_venv(self):
        ran = subprocess.run([self.python, "-c", PROGRAM], env=clean(), cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        said = [line.split(" ", 1) for line in ran.stdout.splitlines()]
        facts = dict(said)
        self.assertRegex(facts["layers"], r"^[1-9]\d* 1\.0$")
        self.assertEqual(facts["runs"], "5")
        self.assertTrue(facts["file"].startswith(self.folder))
        ours = [p for name, p in said if name == "map" and p.startswith(self.folder)]
        for name in ("libinfer", "libdnnl-", "libprotobuf-", "libgomp-", "libonnx_proto-"):
            self.assertEqual(len([p for p in ours if os.path.basename(p).startswith(name)]), 1, name)
            self.assertFalse([p for k, p in said if k == "map" and p not in ours and os.path.basename(p).startswith(name)])

    def test_nothing_but_the_system_s_is_missing(self):
        site = os.path.dirname(os.path.dirname(subprocess.run(
            [self.python, "-c", "import infer_opt; print(infer_opt.__file__)"], env=clean(), check=True, capture_output=True,
            text=True).stdout.strip()))
        files = [os.path.join(site, "infer_opt", f) for f in ("libinfer.so.0", "bin/infer-bench")]
        files += [os.path.join(site, "infer_opt.libs", f) for f in os.listdir(os.path.join(site, "infer_opt.libs"))]
        self.assertGreater(len(files), 8)
        for path in files:
            for line in subprocess.run(["ldd", path], env=clean(), check=True, capture_output=True, text=True).stdout.splitlines():
                name = os.path.basename(line.split()[0])
                if not SYSTEM.match(name):
                    self.assertIn(f" => {site}/", line, path)

    def test_licences(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
            licensed = {n.split("/")[2] for n in names if re.search(r"dist-info/licenses/[^/]+/copyright$", n)}
            self.assertFalse([n for n in names if "/licenses/" in n and not wheel.read(n)])
            [metadata] = [wheel.read(n).decode() for n in names if n.endswith("/METADATA")]
        libraries = {n.split("/")[1].partition("-")[0] for n in names if n.startswith("infer_opt.libs/")}
        for library in libraries:
            word = {"libcrypto": "libssl", "libonnx_proto": "libonnx", "libOpenCL": "ocl-icd", "libz": "zlib"}.get(library, library)
            self.assertTrue([p for p in licensed if p.startswith(word)], library)
        self.assertIn("libeigen3-dev", licensed)
        self.assertIn("Name: infer-opt", metadata)
        self.assertRegex(os.path.basename(self.wheel), r"^infer_opt-[\d.]+-py3-none-manylinux_2_\d\d_\w+\.whl$")

    def test_other_arguments(self):
        builder = os.path.join(SOURCE, "tools/packaging/python/build_wheel.py")
        for arguments, text in [([], "usage:"), (["/no/lib.so", os.path.join(BIN, "infer-bench"), self.folder], "/no/lib.so")]:
            ran = subprocess.run([sys.executable, builder, *arguments], capture_output=True, text=True)
            self.assertEqual(ran.returncode, 1)
            self.assertIn(text, ran.stderr)
            self.assertNotIn("Traceback", ran.stderr)


if __name__ == "__main__":
    unittest.main()
