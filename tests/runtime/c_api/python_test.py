#!/usr/bin/python3
"""tools/packaging/python/infer_opt over libinfer.so: runs, futures, asyncio, many threads, errors, memory, with and without NumPy."""
import asyncio
import gc
import os
import subprocess
import sys
import threading
import unittest

SOURCE = os.environ["INFER_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "tools/packaging/python"))
import infer_opt  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None
DIGITS = os.path.join(SOURCE, "datasets/demo/digits.onnx")
WITHOUT_NUMPY = """
import array, sys
sys.modules["numpy"] = None
sys.path.insert(0, %r)
import infer_opt
session = infer_opt.Session(%r, threads=1)
image = memoryview(array.array("f", [0.5] * 1024)).cast("B").cast("f", [1, 1, 32, 32])
[scores] = session.run(image)
assert scores.shape == (1, 10) and scores.format == "f", (scores.shape, scores.format)
print(scores.tolist()[0][0])
"""


@unittest.skipIf(np is None, "NumPy is not installed")
class PythonModule(unittest.TestCase):
    def setUp(self):
        self.image = np.random.default_rng(1).random((1, 1, 32, 32), np.float32)
        self.session = infer_opt.Session(DIGITS, threads=1)
        self.want = self.session.run(self.image)[0]

    def test_model_says_what_it_takes(self):
        model = infer_opt.Model(DIGITS)
        [x], [y] = model.inputs, model.outputs
        self.assertEqual((x.dtype, x.shape[1:]), ("f32", [1, 32, 32]))
        self.assertIsInstance(x.shape[0], str)
        self.assertEqual(y.shape[1], 10)
        nodes = model.nodes
        self.assertLess(model.fuse().nodes, nodes)

    def test_bytes_fused_and_by_name(self):
        with open(DIGITS, "rb") as f:
            model = infer_opt.Model(f.read()).fuse()
        session = infer_opt.Session(model, device="reference")
        np.testing.assert_allclose(session.run({session.inputs[0].name: self.image})[0], self.want, atol=1e-4)

    def test_outputs_outlive_the_session(self):
        session = infer_opt.Session(DIGITS)
        out = session.run([self.image])[0]
        del session
        gc.collect()
        np.testing.assert_allclose(out, self.want, atol=1e-5)

    def test_futures_and_batches(self):
        with infer_opt.Session(DIGITS, threads=1, max_batch=8, max_delay=0.002) as session:
            futures = [session.submit(self.image) for _ in range(32)]
            for f in futures:
                np.testing.assert_allclose(f.result(30)[0], self.want, atol=1e-5)
        with self.assertRaises(infer_opt.Error):
            session.run(self.image)

    def test_asyncio(self):
        async def many():
            return await asyncio.gather(*(self.session.run_async(self.image) for _ in range(8)))

        for [out] in asyncio.run(many()):
            np.testing.assert_allclose(out, self.want, atol=1e-5)

    def test_threads(self):
        wrong = []

        def work():
            for _ in range(50):
                if not np.allclose(self.session.run(self.image)[0], self.want, atol=1e-5):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertFalse(wrong)

    def test_errors(self):
        for call, code in [(lambda: infer_opt.Model("/no/such.onnx"), "io"), (lambda: infer_opt.Model(b"x"), "invalid model"),
                           (lambda: infer_opt.Session(DIGITS, device="tpu"), "invalid argument"),
                           (lambda: self.session.run({"nope": self.image}), "invalid argument"),
                           (lambda: self.session.run(self.image.astype(np.float64)), "invalid argument"),
                           (lambda: self.session.submit(self.image, timeout=0).result(30), "cancelled")]:
            with self.assertRaises(infer_opt.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, code)

    def test_inputs_that_are_not_contiguous(self):
        wide = np.repeat(self.image, 2, axis=3)[..., ::2]
        np.testing.assert_allclose(self.session.run(wide)[0], self.want, atol=1e-5)

    def test_memory_stays_flat(self):
        def kilobytes():
            with open("/proc/self/statm") as f:
                return int(f.read().split()[1]) * 4

        for _ in range(300):
            self.session.run(self.image)
        before = kilobytes()
        for _ in range(3000):
            self.session.run(self.image)
        self.assertLess(kilobytes() - before, 4096)

    def test_without_numpy(self):
        program = WITHOUT_NUMPY % (os.path.join(SOURCE, "tools/packaging/python"), DIGITS)
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)


if __name__ == "__main__":
    unittest.main()
