#!/usr/bin/python3
"""infer_opt's quantize, prune and compare, beside the commands; arrays through buffers and DLPack. Needs no NumPy, and uses one that is
there unless INFER_WITHOUT_NUMPY is set; then the commands are left out."""
import array
import ast
import ctypes
import gc
import inspect
import os
import subprocess
import sys
import unittest

SOURCE, BIN = os.environ["INFER_SOURCE"], os.environ["INFER_BIN"]
if os.environ.get("INFER_WITHOUT_NUMPY"):
    sys.modules["numpy"] = None
sys.path.insert(0, os.path.join(SOURCE, "tools/packaging/python"))
sys.path.insert(0, os.path.join(SOURCE, "tests/tools"))
import infer_opt  # noqa: E402
import onnx_wire as wire  # noqa: E402
import small_model  # noqa: E402
from demo_images import DIGITS, DIMS, Demo  # noqa: E402
from infer_opt import _arrays  # noqa: E402


def write_npy(path, images):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(images)}, 1, 32, 32), }}".ljust(117) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        for image in images:
            f.write(image.tobytes())


class Capsuled:
    """An array that has nothing but DLPack."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack__(self, **more):
        return self._tensor.__dlpack__(**more)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


@unittest.skipIf(os.environ.get("INFER_WITHOUT_NUMPY"), "the entry with NumPy compares")
class BesideTheCommands(Demo):
    """The same options give the same bytes, of a model that costs a hundredth of the demo model."""

    def setUp(self):
        super().setUp()
        self.small = self.path("small.onnx")
        with open(self.small, "wb") as f:
            f.write(small_model.small_model(side=32))

    def command(self, *arguments):
        out = self.path("command.onnx")
        ran = subprocess.run([os.path.join(BIN, "infer-opt"), *arguments, "-o", out, "--opset", "max", "--functions", "--no-verify",
                              "--keep-failed", "--threads", "1"], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        with open(out, "rb") as f:
            return f.read()

    def calib(self, count):
        write_npy(self.path("calib.npy"), self.numbers[:count])
        return ["--calib", self.path("calib.npy")]

    def test_quantize(self):
        for options, given in [({"recipe": "none"}, ["--recipe", "none"]),
                               ({"recipe": "fast", "per_tensor": True, "observer": "mse", "keep_first": 1, "exclude": ["op:MatMul"]},
                                ["--recipe", "fast", "--per-tensor", "--observer", "mse", "--keep-first", "1", "--exclude", "op:MatMul"]),
                               ({"recipe": "none", "activations": "s8", "format": "qoperator"},
                                ["--recipe", "none", "--activations", "s8", "--format", "qoperator"])]:
            with self.subTest(options):
                model = infer_opt.Model(self.small)
                report = model.quantize(self.images[:40], threads=1, **options)
                self.assertGreater(report.integer_layers, 0)
                self.assertEqual(report.calibration_samples, 40)
                self.assertEqual(self.bytes_of(model), self.command("quantize", self.small, *self.calib(40), *given))

    def test_balanced_recipe(self):
        """Without options, and with labels for enough rows that they count."""
        model = infer_opt.Model(self.small)
        model.quantize(self.images[:40], threads=1)
        self.assertEqual(self.bytes_of(model), self.command("quantize", self.small, *self.calib(40)))
        model, some = infer_opt.Model(self.small), 110
        model.quantize(self.images[:some], labels=self.labels[:some], threads=1)
        with open(self.path("labels.csv"), "w") as f:
            f.write("label\n" + "".join(f"{n}\n" for n in self.labels[:some]))
        given = [*self.calib(some), "--calib-labels", self.path("labels.csv")]
        self.assertEqual(self.bytes_of(model), self.command("quantize", self.small, *given))

    def test_quantize_without_data(self):
        for options, given in [({"mode": "dynamic"}, ["--mode", "dynamic"]), ({"mode": "fp16"}, ["--mode", "fp16"]),
                               ({"mode": "weight-only"}, ["--mode", "weight-only"]),
                               ({"mode": "weight-only", "bits": 8, "block": 0, "format": "qdq", "asymmetric": True, "method": "hqq"},
                                ["--mode", "weight-only", "--bits", "8", "--block", "0", "--format", "qdq", "--asymmetric", "--method",
                                 "hqq"])]:
            with self.subTest(options):
                model = infer_opt.Model(self.small)
                self.assertGreater(model.quantize(threads=1, **options).integer_layers, 0)
                self.assertEqual(self.bytes_of(model), self.command("quantize", self.small, *given))

    def test_zeros_and_codes_together(self):
        for options, given in [({"recipe": "fast", "sparsity": 0.5}, ["--recipe", "fast", "--sparsity", "50%"]),
                               ({"mode": "dynamic", "nm": "2:4"}, ["--mode", "dynamic", "--sparsity", "2:4"]),
                               ({"mode": "dynamic", "blocks": "16x4", "sparsity": 0.6}, ["--mode", "dynamic", "--blocks", "16x4",
                                                                                         "--sparsity", "60%"]),
                               ({"mode": "weight-only", "block": 32, "sparsity": 0.6}, ["--mode", "weight-only", "--block", "32",
                                                                                        "--sparsity", "60%"])]:
            with self.subTest(options):
                model = infer_opt.Model(self.small)
                model.quantize(self.images[:40], threads=1, **options)
                self.assertEqual(self.bytes_of(model), self.command("quantize", self.small, *self.calib(40), *given))
        for wrong, said in (({"sparsity": 1.0}, "sparsity"), ({"nm": "4:4"}, "4:4"), ({"nm": "2:4", "sparsity": 0.5}, "no sparsity"), ({"blocks": "1x1"}, "1x1")):
            with self.subTest(wrong), self.assertRaisesRegex(infer_opt.Error, said):
                infer_opt.Model(self.small).quantize(self.images[:40], threads=1, **wrong)

    def test_weights_by_data(self):
        model = infer_opt.Model(self.small)
        model.quantize(self.images[:40], mode="weight-only", method="gptq", block=32, threads=1)
        self.assertEqual(self.bytes_of(model), self.command("quantize", self.small, *self.calib(40), "--mode", "weight-only", "--method",
                                                            "gptq", "--block", "32"))

    def test_prune(self):
        for options, given in [({"sparsity": 0.5}, ["--sparsity", "50%"]), ({"nm": "2:4"}, ["--nm", "2:4"]),
                               ({"blocks": "1x4", "sparsity": 0.6}, ["--blocks", "1x4", "--sparsity", "60%"]),
                               ({"flops": 0.7}, ["--structured", "--flops", "70%"]),
                               ({"rank": 0.25}, ["--low-rank", "--rank", "25%"])]:
            with self.subTest(options):
                model = infer_opt.Model(self.small)
                report = model.prune(self.images[:40], threads=1, **options)
                self.assertEqual(report.products_split > 0, "rank" in options)
                self.assertEqual(self.bytes_of(model), self.command("prune", self.small, *self.calib(40), *given))


class Rewriting(Demo):
    def test_samples_of_every_kind(self):
        """By index, by iteration, by name, in tuples, as capsules: the same model."""
        small = small_model.small_model(side=32)
        [name] = [v.name for v in infer_opt.Model(small).inputs]

        class ByIndex:
            read = 0

            def __len__(s):
                return 20

            def __getitem__(s, i):
                s.read += 1
                return self.images[i]

        by_index, made = ByIndex(), set()
        for samples in [self.images[:20], by_index, (i for i in self.images[:20]), [{name: i} for i in self.images[:20]],
                        [(i,) for i in self.images[:20]], tuple(self.numbers_as_tensors(20))]:
            model = infer_opt.Model(small)
            model.quantize(samples, recipe="fast", threads=1)
            made.add(self.bytes_of(model))
        self.assertEqual(len(made), 1)
        self.assertGreater(by_index.read, 20)

    def numbers_as_tensors(self, count):
        """Images as outputs of a model that returns its input."""
        graph = wire.model([wire.node("Identity", ["x"], ["y"])], [wire.value_info("x", DIMS)], [wire.value_info("y", DIMS)])
        session = infer_opt.Session(graph, threads=1)
        with_numpy, _arrays.numpy = _arrays.numpy, None
        try:
            return [Capsuled(session.run(i)[0]) for i in self.images[:count]]
        finally:
            _arrays.numpy = with_numpy

    def test_compare(self):
        model = infer_opt.Model(DIGITS)
        model.quantize(self.images[:60], recipe="fast")
        [a] = infer_opt.compare(model, DIGITS, self.images[60:], labels=self.labels[60:])
        self.assertEqual((a.samples, a.rows, a.elements), (140, 140, 1400))
        self.assertGreater(a.sqnr_db, 15)
        self.assertGreater(a.top1_agreement, 0.95)
        self.assertGreater(a.golden_top1, 0.9)
        self.assertLess(abs(a.golden_top1 - a.candidate_top1), 0.05)
        [same] = infer_opt.compare(DIGITS, DIGITS, self.images[:5])
        self.assertEqual(same.top1_agreement, 1)
        self.assertNotEqual(same.golden_top1, same.golden_top1)

    def test_compare_agrees_with_the_runtime(self):
        """Error and agreement, computed again from the outputs of two sessions."""
        model = infer_opt.Model(DIGITS)
        model.quantize(mode="weight-only", bits=2, block=64)
        some = self.images[:20]
        [a] = infer_opt.compare(model, DIGITS, some)
        sessions = [infer_opt.Session(DIGITS, device="reference"), infer_opt.Session(model)]
        rows = [[memoryview(s.run(i)[0]).tolist()[0] if _arrays.numpy else s.run(i)[0].tolist()[0] for s in sessions] for i in some]
        worst = max(abs(x - y) for golden, candidate in rows for x, y in zip(golden, candidate))
        same = sum(golden.index(max(golden)) == candidate.index(max(candidate)) for golden, candidate in rows)
        self.assertAlmostEqual(a.max_abs_error, worst, delta=1e-3 * max(worst, 1))
        self.assertAlmostEqual(a.top1_agreement, same / len(some))

    def test_what_callers_raise_comes_out(self):
        model = infer_opt.Model(DIGITS)
        nodes = model.nodes

        def broken():
            yield self.images[0]
            raise LookupError("no more images")

        class Late(list):
            def __getitem__(self, i):
                if i == 7:
                    raise KeyboardInterrupt
                return list.__getitem__(self, i)

        def stop(step, done, total):
            raise StopIteration(step)

        with self.assertRaises(LookupError):
            model.quantize(broken())
        with self.assertRaises(KeyboardInterrupt):
            model.quantize(Late(self.images[:20]))
        with self.assertRaises(StopIteration):
            model.quantize(self.images[:20], progress=stop)
        with self.assertRaises(infer_opt.Error) as caught:
            model.quantize(self.images[:20], progress=lambda *_: False)
        self.assertEqual(caught.exception.code, "cancelled")
        steps = []
        model.quantize(self.images[:20], recipe="fast", progress=lambda *step: steps.append(step))
        self.assertIn(("calibrate", 14, 14), steps)  # the others are held out
        self.assertGreater(model.nodes, nodes)

    def test_errors(self):
        model = infer_opt.Model(DIGITS)
        before = self.bytes_of(model)
        two = wire.model([wire.node("Add", ["a", "b"], ["y"])], [wire.value_info("a", [2]), wire.value_info("b", [2])],
                         [wire.value_info("y", [2])])
        for call, code in [(lambda: model.quantize(), "invalid argument"), (lambda: model.quantize([]), "invalid argument"),
                           (lambda: model.quantize(self.images, mode="int8"), "invalid argument"),
                           (lambda: model.quantize({"x": self.images[0]}), "invalid argument"),
                           (lambda: model.quantize([{"nope": self.images[0]}]), "invalid argument"),
                           (lambda: model.quantize([object()]), "invalid argument"),
                           (lambda: model.quantize([self.numbers[0]] * 4), "invalid argument"),
                           (lambda: model.quantize([(self.images[0], self.images[0])]), "invalid argument"),
                           (lambda: model.quantize(self.images, labels=[1, 2]), "invalid argument"),
                           (lambda: model.quantize(self.images[:2], labels=[[1, 2], [3]]), "invalid argument"),
                           (lambda: model.quantize(labels=[1]), "invalid argument"),
                           (lambda: model.quantize(self.images[:9], exclude=["nobody*"]), "invalid argument"),
                           (lambda: model.prune(), "invalid argument"), (lambda: model.prune(sparsity=2), "invalid argument"),
                           (lambda: infer_opt.compare(model, DIGITS, []), "invalid argument"),
                           (lambda: infer_opt.compare(model, two, [(array.array("f", [1, 2]),) * 2]), "invalid argument"),
                           (lambda: infer_opt.compare(model, "/no/such.onnx", self.images), "io")]:
            with self.assertRaises(infer_opt.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, code, caught.exception)
            self.assertTrue(str(caught.exception))
        self.assertEqual(self.bytes_of(model), before)


class Arrays(Demo):
    def setUp(self):
        super().setUp()
        self.session = infer_opt.Session(DIGITS, threads=1)
        self.numpy, _arrays.numpy = _arrays.numpy, None
        self.addCleanup(setattr, _arrays, "numpy", self.numpy)

    def test_output_is_a_tensor(self):
        [t] = self.session.run(self.images[0])
        self.assertIsInstance(t, infer_opt.Tensor)
        self.assertEqual((t.shape, t.dtype, t.format, t.nbytes, len(t)), ((1, 10), "f32", "f", 40, 1))
        self.assertEqual(t.memoryview().tolist(), t.tolist())
        self.assertEqual(t.__dlpack_device__(), (1, 0))
        if sys.version_info >= (3, 12):
            self.assertEqual(memoryview(t).tolist(), t.tolist())

    def test_outputs_are_inputs_again(self):
        graph = wire.model([wire.node("Neg", ["x"], ["y"])], [wire.value_info("x", ["n", "m"])], [wire.value_info("y", ["n", "m"])])
        neg = infer_opt.Session(graph, threads=1)
        [t] = self.session.run(self.images[0])
        want = [[-x for x in t.tolist()[0]]]
        self.assertEqual(neg.run(t)[0].tolist(), want)
        self.assertEqual(neg.run(Capsuled(t))[0].tolist(), want)

    def test_lifetimes(self):
        """A capsule keeps the numbers when result and session have gone; one that nobody takes frees them."""
        [t] = self.session.run(self.images[0])
        want, capsule = t.tolist(), t.__dlpack__()
        t.__dlpack__()  # taken by nobody
        del t
        self.session.close()
        gc.collect()

        class Kept:
            def __dlpack__(self, **_):
                return capsule

            def __dlpack_device__(self):
                return (1, 0)

        graph = wire.model([wire.node("Identity", ["x"], ["y"])], [wire.value_info("x", [1, 10])], [wire.value_info("y", [1, 10])])
        self.assertEqual(infer_opt.Session(graph).run(Kept())[0].tolist(), want)

    def test_memory_stays_flat(self):
        def kilobytes():
            with open("/proc/self/statm") as f:
                return int(f.read().split()[1]) * 4

        graph = wire.model([wire.node("Neg", ["x"], ["y"])], [wire.value_info("x", ["n"])], [wire.value_info("y", ["n"])])
        neg = infer_opt.Session(graph, threads=1)
        large = array.array("f", bytes(4 << 20))

        def around(times):
            for _ in range(times):
                neg.run(Capsuled(neg.run(large)[0]))[0].__dlpack__()

        around(5)
        before = kilobytes()
        around(40)  # 320 MB, if anything were kept
        self.assertLess(kilobytes() - before, 40 << 10)

    def test_refused(self):
        [t] = self.session.run(self.images[0])
        with self.assertRaises(BufferError):
            t.__dlpack__(dl_device=(2, 0))
        with self.assertRaises(BufferError):
            t.__dlpack__(copy=True)

        class OnDevice(Capsuled):
            def __dlpack_device__(self):
                return (2, 0)

        with self.assertRaises(infer_opt.Error):
            self.session.run(OnDevice(t))

    def test_strided_and_read_only(self):
        """Buffers that are not in order are copied in order."""
        graph = wire.model([wire.node("Neg", ["x"], ["y"])], [wire.value_info("x", ["n"])], [wire.value_info("y", ["n"])])
        neg = infer_opt.Session(graph, threads=1)
        numbers = array.array("f", range(10))
        self.assertEqual(neg.run(memoryview(numbers)[::2])[0].tolist(), [-0.0, -2, -4, -6, -8])
        self.assertEqual(neg.run(memoryview(numbers).toreadonly())[0].tolist()[9], -9)

    def test_bf16(self):
        graph = wire.model([wire.node("Cast", ["x"], ["y"], [wire.int_attribute("to", 16)])], [wire.value_info("x", [2])],
                           [wire.value_info("y", [2], 16)])
        back = wire.model([wire.node("Cast", ["x"], ["y"], [wire.int_attribute("to", 1)])], [wire.value_info("x", [2], 16)],
                          [wire.value_info("y", [2])])
        _arrays.numpy = self.numpy  # which has no such type
        [half] = infer_opt.Session(graph).run(array.array("f", [1.5, -2]))
        self.assertIsInstance(half, infer_opt.Tensor)
        self.assertEqual((half.dtype, half.shape, half.nbytes), ("bf16", (2,), 4))
        for given in (half, Capsuled(half)):
            [out] = infer_opt.Session(back).run(given)
            self.assertEqual(out.tolist(), [1.5, -2])

    def test_numpy_reads_without_a_copy(self):
        if self.numpy is None:
            self.skipTest("NumPy is not here")
        numpy = self.numpy
        [t] = self.session.run(self.images[0])
        address = ctypes.addressof(t._memory)
        for taken in (numpy.asarray(t), numpy.from_dlpack(t)):
            self.assertEqual(taken.ctypes.data, address)
            self.assertEqual((taken.shape, taken.dtype), ((1, 10), numpy.float32))
        want, kept = t.tolist(), [numpy.asarray(t), numpy.from_dlpack(t)]
        del t, taken
        self.session.close()
        gc.collect()
        for k in kept:
            self.assertEqual(k.tolist(), want)
        _arrays.numpy = numpy
        [out] = infer_opt.Session(DIGITS).run(self.images[0])
        self.assertIsInstance(out, numpy.ndarray)
        self.assertFalse(out.flags.owndata)
        self.assertEqual(numpy.from_dlpack(out).ctypes.data, out.ctypes.data)


class Stubs(unittest.TestCase):
    def test_they_say_what_the_module_has(self):
        with open(os.path.join(os.path.dirname(infer_opt.__file__), "__init__.pyi")) as f:
            tree = ast.parse(f.read())
        defined = {n.name: n for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
        defined.update({n.target.id: n for n in tree.body if isinstance(n, ast.AnnAssign)})
        self.assertEqual(sorted(n for n in defined if not n.startswith("_")), sorted(infer_opt.__all__))
        for name, n in defined.items():
            there = getattr(infer_opt, name, None)
            if isinstance(n, ast.FunctionDef):
                self.same_parameters(n, there, name)
            if not isinstance(n, ast.ClassDef):
                continue
            public = {m for m in vars(there) if not m.startswith("_") and callable(getattr(there, m))}
            methods = {m.name: m for m in n.body if isinstance(m, (ast.FunctionDef, ast.AsyncFunctionDef))}
            if not issubclass(there, (tuple, BaseException)):
                self.assertLessEqual(public, set(methods), name)
            if issubclass(there, tuple):
                self.assertEqual([m.target.id for m in n.body if isinstance(m, ast.AnnAssign)], list(there._fields))
            for m, method in methods.items():
                found = inspect.getattr_static(there, m)
                if not isinstance(found, property):
                    self.same_parameters(method, found, f"{name}.{m}")

    def same_parameters(self, stub, function, name):
        declared = stub.args
        said = [x.arg for x in declared.args] + [x.arg for x in declared.kwonlyargs]
        found = inspect.signature(function).parameters.values()
        self.assertEqual(said, [p.name for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)], name)
        optional = len(declared.defaults) + sum(d is not None for d in declared.kw_defaults)
        self.assertEqual(optional, sum(p.default is not p.empty for p in found), name)
        self.assertTrue(inspect.getdoc(function) or name.split(".")[-1].startswith("__"), f"{name} has no docstring")


if __name__ == "__main__":
    unittest.main()
