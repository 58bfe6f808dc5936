#!/usr/bin/python3
"""Hostile models, data, folders and options: the documented exit code and one line, never a crash.

Run by ctest with INFER_BIN (the folder of the binaries) and INFER_SOURCE (the repository)."""
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest

import numpy as np

import shards
from onnx_wire import (FLOAT, INT64, field, graph, graph_attribute, int_attribute, ints_attribute,
                       model, node, tensor, value_info)

BIN = pathlib.Path(os.environ["INFER_BIN"])
DEMO = pathlib.Path(os.environ["INFER_SOURCE"]) / "datasets/demo"
MODEL = str(DEMO / "digits.onnx")
PREPROCESS = "resize=32,interp=nearest,scale=1/255,layout=nchw"
SANITIZED = os.environ.get("INFER_SANITIZED")
F32 = struct.Struct("<f").pack
X, Y = value_info("x"), value_info("y")
READERS = [("inspect",), ("run",), ("fuse", "-o", "out.onnx", "--no-verify"),
           ("compare", "--reference", DEMO), ("eval", "--data", DEMO / "eval_images.npy", "--labels",
                                             DEMO / "eval_labels.csv")]


def relu(x, y):
    return node("Relu", [x], [y])


def nested(depth):
    """An If in an If in an If ..."""
    inner = graph([node("Identity", ["x"], ["y"])], [], [Y])
    for _ in range(depth):
        branch = [graph_attribute(b, inner) for b in ("then_branch", "else_branch")][:1]
        inner = graph([node("If", ["c"], ["y"], branch + [graph_attribute(
            "else_branch", graph([node("Identity", ["x"], ["y"])], [], [Y]))])], [], [Y])
    return model([node("Identity", ["x"], ["y0"])], [X, value_info("c", [], 9)], [Y]) if depth == 0 \
        else field(1, 8) + field(7, inner + field(11, X) + field(11, value_info("c", [], 9))) \
        + field(8, field(1, "") + field(2, 13))


def weights(dims, raw, dtype=FLOAT):
    return model([node("Identity", ["w"], ["y"])], [], [Y], [tensor("w", dims, raw, dtype)])


def external(**entries):
    return model([node("Identity", ["w"], ["y"])], [], [Y], [tensor("w", [1], external=entries)])


HOSTILE = {
    "truncated": pathlib.Path(MODEL).read_bytes()[:5000],
    "cyclic": model([relu("b", "a"), relu("a", "b"), relu("b", "y")], [X], [Y]),
    "huge_dims": weights([1 << 40, 1 << 40], b"1234"),
    "path_traversal": external(location="../secret", length=4),
    "dangling_name": model([relu("nobody", "y")], [X], [Y]),
    "empty": b"",
    "absolute_path": external(location="/etc/passwd", length=4),
    "nested_traversal": external(location="a/../../secret", length=4),
    "huge_length": external(location="data", offset=0, length=1 << 62),
    "negative_offset": external(location="data", offset=-1, length=4),
    "negative_dims": weights([-1], b"1234"),
    "negative_input_dims": model([relu("x", "y")], [value_info("x", [2, -5])], [Y]),
    "negative_output_dims": model([relu("x", "y")], [X], [value_info("y", [-2])]),
    "dims_wrap_to_4_bytes": weights([(1 << 62) + 1, 4], b"1234" * 4),
    "dims_unlike_data": weights([3], b"1234"),
    "duplicate_value": model([relu("x", "y"), relu("x", "y")], [X], [Y]),
    "duplicate_initializer": model([relu("w", "y")], [], [Y], [tensor("w", [1], F32(1))] * 2),
    "output_from_nowhere": model([relu("x", "z")], [X], [Y]),
    "overflowing_input_dims": model([relu("x", "y")], [value_info("x", [1 << 40] * 3)], [Y]),
    "bad_axis": model([node("Softmax", ["x"], ["y"], [int_attribute("axis", 1 << 40)])], [X], [Y]),
    "nested_500": nested(500),
    "conv_strides": model([node("Conv", ["x", "w"], ["y"], [ints_attribute("strides", [0, 0])])],
                          [value_info("x", [1, 1, 4, 4])], [value_info("y", [1, 1, 4, 4])],
                          [tensor("w", [1, 1, 1, 1], F32(1))]),
    "conv_dilations": model(
        [node("Conv", ["x", "w"], ["y"], [ints_attribute("dilations", [1 << 62, 1 << 62])])],
        [value_info("x", [1, 1, 4, 4])], [value_info("y", [1, 1, 4, 4])],
        [tensor("w", [1, 1, 3, 3], F32(1) * 9)]),
    "conv_pads": model(
        [node("Conv", ["x", "w"], ["y"], [ints_attribute("pads", [1 << 62, 0, 1 << 62, 0])])],
        [value_info("x", [1, 1, 4, 4])], [value_info("y", [1, 1, 4, 4])],
        [tensor("w", [1, 1, 3, 3], F32(1) * 9)]),
    "pool_kernel": model(
        [node("MaxPool", ["x"], ["y"], [ints_attribute("kernel_shape", [-3, 1 << 40])])],
        [value_info("x", [1, 1, 4, 4])], [value_info("y", [1, 1, 4, 4])]),
}


class Hostile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(folder.name)
        self.addCleanup(folder.cleanup)

    def write(self, name, data):
        path = self.dir / name
        path.write_bytes(data)
        return path

    def expect(self, code, tool, *args, lines=1, **kwargs):
        """The exit code is `code`; a failure says so in `lines` lines at most."""
        done = subprocess.run([str(BIN / tool), *map(str, args)], capture_output=True, text=True,
                              timeout=240, cwd=self.dir, **kwargs)
        said = f"{args}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        self.assertEqual(done.returncode, code, said)
        if done.returncode != 0 and lines:
            text = [t for t in done.stderr.strip().splitlines() if "warning:" not in t]
            self.assertGreaterEqual(len(text), 1, said)
            self.assertLessEqual(len(text), lines, said)
            self.assertLess(len(done.stderr), 2000, said)
        return done

    # Models

    def test_hostile_models_are_3(self):
        self.write("secret", b"1234")
        folder = self.dir / "m"
        folder.mkdir()
        (folder / "data").write_bytes(b"1234")
        for number, (name, data) in enumerate(HOSTILE.items()):
            (folder / f"{name}.onnx").write_bytes(data)
            # All read a model by the same code; a process takes a tenth of a second under sanitizers: there two of five, in turn.
            readers = [READERS[(number + k) % len(READERS)] for k in range(2 if SANITIZED else len(READERS))]
            for command, *rest in readers:
                with self.subTest(model=name, command=command):
                    done = self.expect(3, "infer-opt", command, folder / f"{name}.onnx", *rest)
                    self.assertIn(name, done.stderr)
                    self.assertFalse((self.dir / "out.onnx").exists())
            if SANITIZED and number % 3:
                continue
            with self.subTest(model=name, command="bench"):
                self.expect(3, "infer-bench", "run", folder / f"{name}.onnx")

    def test_what_is_no_file_is_5(self):
        os.mkfifo(self.dir / "pipe")
        (self.dir / "loop").symlink_to("loop")
        for path in [self.dir, self.dir / "pipe", "/dev/null", "/dev/zero", self.dir / "loop",
                     "x" * 300, self.dir / "none"]:
            with self.subTest(path=path):
                self.expect(5, "infer-opt", "inspect", path)
        self.expect(2, "infer-opt", "inspect", "", lines=2)  # an unset variable of a script

    def test_large_graphs_do_not_recurse(self):
        # A stack of 8 MiB would not hold one frame per node; sanitizers make frames larger.
        n = 20_000 if SANITIZED else 50_000
        names = ["x"] + [f"v{i}" for i in range(n - 1)] + ["y"]
        chain = self.write("chain.onnx", model([relu(a, b) for a, b in zip(names, names[1:])], [X], [Y]))
        self.expect(0, "infer-opt", "inspect", chain)
        self.expect(0, "infer-opt", "fuse", chain, "-o", "c.onnx", "--no-verify")
        # Listed from the end: sorting must not recurse either.
        back = self.write("back.onnx",
                          model([relu(a, b) for a, b in zip(names, names[1:])][::-1], [X], [Y]))
        self.expect(0, "infer-opt", "inspect", back)

    def test_ten_thousand_inputs(self):
        ins = [value_info(f"i{k}") for k in range(10_000)]
        path = self.write("wide.onnx", model([node("Sum", [f"i{k}" for k in range(10_000)], ["y"])],
                                             ins, [Y]))
        for command in ["inspect", "run"]:
            self.expect(0, "infer-opt", command, path)

    def test_empty_tensors_run(self):
        path = self.write("zero.onnx", model([relu("x", "y")], [value_info("x", [0, 3])],
                                             [value_info("y", [0, 3])]))
        for device in ["cpu", "reference"]:
            self.expect(0, "infer-opt", "run", path, "--device", device)
            self.expect(0, "infer-opt", "run", MODEL, "--set", "batch=0", "--device", device)
        done = self.expect(0, "infer-bench", "run", MODEL, "--set", "batch=0", "--min-time", 0,
                           "--json", "-")
        result = json.loads(done.stdout)["results"][0]
        self.assertEqual((result["batch"], result["throughput_per_s"]), (0, 0))
        # pooling and products over nothing
        product = model([node("MatMul", ["x", "z"], ["y"])],
                        [value_info("x", [2, 0]), value_info("z", [0, 2])], [value_info("y", [2, 2])])
        for device in ["cpu", "reference"]:
            self.expect(0, "infer-opt", "run", self.write("p.onnx", product), "--device", device)

    def test_nan_weights(self):
        nan = model([node("MatMul", ["x", "w"], ["y"])], [value_info("x", [2, 2])],
                    [value_info("y", [2, 2])], [tensor("w", [2, 2], F32(float("nan")) * 4)])
        path = self.write("nan.onnx", nan)
        np.save(self.dir / "x.npy", np.ones((4, 2, 2), np.float32))
        for args in [("run",), ("fuse", "-o", "f.onnx"), ("inspect",)]:
            self.expect(0, "infer-opt", args[0], path, *args[1:])
        # No integer stands for them: refused before calibration, by name.
        done = self.expect(3, "infer-opt", "quantize", path, "-o", "q.onnx", "--calib", "x.npy",
                           "--no-verify")
        self.assertIn("weights 'w' of MatMul -> 'y': 4 of 4 elements are NaN or infinite", done.stderr)
        self.assertFalse((self.dir / "q.onnx").exists())

    def test_minus_one_is_an_open_extent(self):
        # Many exporters write it so; the extent is then found like any other.
        path = self.write("open.onnx", model([relu("x", "y")], [value_info("x", [-1, 3])],
                                             [value_info("y", [-1, 3])]))
        done = self.expect(0, "infer-opt", "run", path, "--json", "-")
        report = json.loads(done.stdout)
        self.assertEqual(report["model"]["inputs"][0]["type"], "f32[?,3]")
        self.assertEqual(report["extents"], {"x[0]": 1})

    def test_stale_declared_extents_are_warned_of(self):
        path = self.write("stale.onnx", model([relu("x", "y")], [value_info("x", [3])],
                                              [value_info("y", [7])]))
        for device in ["cpu", "reference"]:
            done = self.expect(0, "infer-opt", "run", path, "--device", device)
            self.assertIn("y: f32[3]", done.stdout)
            self.assertIn("warning: " + str(path) + ": value 'y' is declared f32[7], but is f32[3]",
                          done.stderr)

    def test_an_opset_that_nobody_knows_is_4(self):
        path = self.write("new.onnx", model([relu("x", "y")], [X], [Y], opset=999))
        for command in ["inspect", "run"]:
            done = self.expect(4, "infer-opt", command, path, lines=4)
            self.assertIn("export the model for opset 27 or lower", done.stderr)

    # Inputs of a run

    def test_wrong_inputs(self):
        f32 = np.zeros((1, 1, 32, 32), np.float32)
        np.save(self.dir / "ok.npy", f32)
        np.save(self.dir / "f64.npy", f32.astype(np.float64))
        np.save(self.dir / "rank.npy", f32[0])
        np.save(self.dir / "shape.npy", f32[..., :7])
        np.save(self.dir / "object.npy", np.array([{}], object))
        np.savez(self.dir / "two.npz", a=f32, b=f32)
        self.write("empty.npy", b"")
        ok = (self.dir / "ok.npy").read_bytes()
        self.write("short.npy", ok[:-5])
        self.write("text.png", b"this is text\n" * 40)
        self.write("text.jpg", b"this is text\n" * 40)
        self.write("noise.npy", os.urandom(3000))
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }"
        for name, shape in [("huge", b"1," * 3 + b"%d," % (1 << 62)), ("negative", b"-1,"),
                            ("wrap", b"%d,4," % ((1 << 62) + 1)), ("deep", b"1," * 5000)]:
            text = header % shape
            self.write(f"{name}.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + b"0" * 4096)
        self.write("length.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 100)
        for name in ["f64.npy", "rank.npy", "shape.npy", "object.npy", "empty.npy", "short.npy",
                     "text.png", "text.jpg", "noise.npy", "huge.npy", "negative.npy", "wrap.npy",
                     "deep.npy", "length.npy", "two.npz"]:
            for device in ["cpu", "reference"]:
                with self.subTest(name=name, device=device):
                    done = self.expect(3, "infer-opt", "run", MODEL, "-i", name, "--device", device)
                    self.assertIn(name, done.stderr)
        self.expect(5, "infer-opt", "run", MODEL, "-i", "none.npy")
        self.expect(2, "infer-opt", "run", MODEL, "-i", "nobody=ok.npy")

    def test_wrong_data_and_labels(self):
        np.save(self.dir / "ten.npy", np.zeros((10, 32, 32, 1), np.uint8))
        np.save(self.dir / "none.npy", np.zeros((0, 32, 32, 1), np.uint8))
        labels = {"short.csv": "1\n" * 9, "long.csv": "1\n" * 11, "empty.csv": "",
                  "words.csv": "cat\n" * 10, "large.csv": "10\n" * 10, "negative.csv": "-1\n" * 10,
                  "overflow.csv": "99999999999999999999\n" * 10}
        for name, text in labels.items():
            (self.dir / name).write_text(text)
            with self.subTest(labels=name):
                done = self.expect(3, "infer-opt", "eval", MODEL, "--data", "ten.npy", "--labels",
                                   name, "--preprocess", "layout=nchw")
                self.assertIn(name, done.stderr)
        # Before the work: nothing is calibrated for labels of another task.
        for command, *more in [("quantize",), ("prune", "--sparsity", "50%")]:
            done = self.expect(3, "infer-opt", command, MODEL, *more, "-o", "x.onnx", "--data", "ten.npy", "--labels", "large.csv",
                               "--preprocess", "layout=nchw")
            self.assertIn("large.csv: label 10 is outside the 10 classes", done.stderr)
            self.assertNotIn("recipe", done.stderr)
        (self.dir / "one.csv").write_text("1\n")
        for data in ["none.npy", "shape.npy"]:
            np.save(self.dir / "shape.npy", np.zeros((1, 7, 7, 1), np.uint8))
            with self.subTest(data=data):
                done = self.expect(3, "infer-opt", "eval", MODEL, "--data", data, "--labels",
                                   "one.csv", "--preprocess", "layout=nchw")
                self.assertIn(data, done.stderr)

    # Outputs

    def test_places_that_cannot_be_written(self):
        copy = shutil.copy(MODEL, self.dir / "in.onnx")
        for code, out in [(5, self.dir), (5, "/dev/full"), (5, "/proc/x.onnx"), (5, "no/such/x.onnx"),
                          (5, "x" * 300), (2, "in.onnx"), (2, "./in.onnx")]:
            with self.subTest(out=out):
                self.expect(code, "infer-opt", "fuse", copy, "-o", out, "--no-verify")
                self.expect(code, "infer-opt", "inspect", copy, "--json", out)
                # Before the work: nothing is measured, calibrated or run for a report that is lost.
                for tool, command, *rest in [
                        ("infer-bench", "run", copy, "--json", out),
                        ("infer-opt", "quantize", copy, "--data", "none.npy", "-o", out),
                        ("infer-opt", "run", copy, "--json", out)]:
                    done = self.expect(code, tool, command, *rest)
                    self.assertEqual(done.stdout, "")
                    self.assertNotIn("none.npy", done.stderr)
        self.assertEqual(pathlib.Path(copy).read_bytes(), pathlib.Path(MODEL).read_bytes())

    def test_outputs_that_meet_are_2(self):
        shutil.copy(MODEL, self.dir / "in.onnx")
        np.save(self.dir / "logits.npy", np.zeros((1, 1, 32, 32), np.float32))
        (self.dir / "sub").mkdir()
        data = ["--data", DEMO / "eval_images.npy", "--labels", DEMO / "eval_labels.csv",
                "--preprocess", PREPROCESS, "--samples", 4]
        before = sorted(os.listdir(self.dir))
        for args in [
                ("fuse", "in.onnx", "-o", "f.onnx", "--json", "f.onnx"),
                ("fuse", "in.onnx", "-of.onnx", "--json", "sub/../f.onnx"),
                ("quantize", "in.onnx", "-o", "f.onnx", "--json", "./f.onnx", *data),
                ("run", "in.onnx", "-i", "logits.npy", "--json", "logits.npy"),
                ("run", "in.onnx", "-i", "image=logits.npy", "-o", "."),
                ("run", "in.onnx", "--set", "batch=1", "-o", "sub", "--json", "sub/logits.npy"),
                ("run", "in.onnx", "--set", "batch=1", "-o", "new", "--json", "new"),
                ("fuse", "in.onnx", "-o", "logits.npy", "--data", "logits.npy")]:
            with self.subTest(args=args):
                done = self.expect(2, "infer-opt", *args)
                self.assertRegex(done.stderr, "the same file")
                self.assertEqual(sorted(os.listdir(self.dir)), before)
        # Files that the command line does not name: the data of a model.
        self.expect(0, "infer-opt", "fuse", "in.onnx", "-o", "e.onnx", "--external-data", "--no-verify")
        weights, = self.dir.glob("e.onnx.*.data")
        self.expect(2, "infer-opt", "inspect", "e.onnx", "--json", weights)
        self.expect(0, "infer-opt", "inspect", "e.onnx", "--json", "e.json")
        # A name that is also a word of the command line is no clash.
        self.expect(0, "infer-bench", "zoo", "resnet18", "-o", "resnet18", "--resolution", 32)

    def test_names_are_printed_without_control_characters(self):
        bad = "a\x1b[31m\nerror: \tb"
        path = self.write("names.onnx", model([node("Relu", [bad], ["y"])], [value_info(bad, [2])],
                                              [value_info("y", [2])]))
        broken = self.write("broken.onnx", model([relu(bad, "y")], [X], [Y]))
        for code, args in [(0, ("inspect", path)), (0, ("run", path)), (0, ("inspect", path, "--kernels")),
                           (0, ("inspect", path, "--text")), (0, ("fuse", path, "-o", "f.onnx")),
                           (3, ("inspect", broken)), (2, ("run", path, "-i", "z=x.npy"))]:
            with self.subTest(args=args):
                done = self.expect(code, "infer-opt", *args)
                for text in [done.stdout, done.stderr]:
                    self.assertNotRegex(text, r"[\x00-\x09\x0b-\x1f\x7f]")
                    self.assertNotRegex(text, r"(?m)^error:")
        done = self.expect(0, "infer-opt", "inspect", path, "--json", "-")
        self.assertEqual(json.loads(done.stdout)["model"]["inputs"][0]["name"], bad)

    # Options

    def test_weird_options(self):
        bench = ["infer-bench", "run", MODEL, "--set", "batch=1"]
        for code, args in [
                (2, ["infer-opt", "run", MODEL, "--threads", "1000000"]),
                (2, ["infer-opt", "run", MODEL, "--threads", "-1"]),
                (2, ["infer-opt", "run", MODEL, "--threads", ""]),
                (2, ["infer-opt", "run", MODEL, "--threads", "99999999999999999999"]),
                (71, ["infer-opt", "run", MODEL, "--set", "batch=9999999999"]),
                (71, ["infer-bench", "run", MODEL, "--set", "batch=9999999999"]),
                (2, ["infer-opt", "run", MODEL, "--set", "batch=9223372036854775807"]),
                (2, ["infer-opt", "inspect", MODEL, "--set", "batch=9223372036854775807"]),
                (2, ["infer-opt", "run", MODEL, "--set", "batch=-1"]),
                (2, ["infer-opt", "run", MODEL, "--set", "batch"]),
                (2, ["infer-opt", "run", MODEL, "--set", "batch=1", "--set", "batch=2"]),
                (0, ["infer-opt", "run", MODEL, "--set", "batch=1", "--set", "batch=1"]),
                (2, ["infer-opt", "run", MODEL, "--shape", "image=1x1x32x32", "--shape",
                     "image=2x1x32x32"]),
                (2, ["infer-opt", "run", MODEL, "--set", "=1"]),
                (2, ["infer-opt", "run", MODEL, "--set", "batch=1e3"]),
                (2, ["infer-opt", "run", MODEL, "--shape", "image=1x1x9999999999x9999999999"]),
                (2, ["infer-opt", "run", MODEL, "--shape", "image=1x"]),
                (2, ["infer-opt", "run", MODEL, "--shape", "nobody=1"]),
                (2, ["infer-opt", "run", MODEL, "--shape", "image="]),
                (2, ["infer-opt", "run", MODEL, "--shape", "image=scalar"]),
                *[(2, ["infer-opt", "run", MODEL, "--seed", n])
                  for n in ("-1", "18446744073709551616", "0x10", "1.5", "1e3", "x")],
                *[(2, ["infer-opt", "quantize", MODEL, "-o", "x.onnx", "--data",
                       DEMO / "eval_images.npy", option, "-1"])
                  for option in ("--keep-first", "--keep-last", "--calib-count", "--samples", "--seed",
                                 "--max-drop", "--min-sqnr", "--max-error", "--min-agreement",
                                 "--opset", "--threads")],
                (2, ["infer-opt", "fuse", MODEL, "-o", "x.onnx", "--stop-after", "-2"]),
                (2, ["infer-opt", "fuse", MODEL, "-o", "x.onnx", "--runs", "0"]),
                (2, ["infer-opt", "compare", MODEL, MODEL, "--runs", "-3"]),
                (2, [*bench, "--seed", "-1"]),
                (2, ["infer-opt", "run", MODEL, "--device", ""]),
                (2, ["infer-opt", "run", MODEL, "--level", "99"]),
                (2, ["infer-opt", "run", MODEL, "--input", ""]),
                (5, ["infer-opt", "run", MODEL, "--config", "/dev/null/x"]),
                (2, ["infer-opt", "ops", ""]),
                (2, [*bench, "--min-runs", "-5"]),
                (2, [*bench, "--min-time", "nan"]),
                (2, [*bench, "--min-time", "-1"]),
                (2, [*bench, "--max-time", "nan"]),
                (2, [*bench, "--warmup", "-7"]),
                (2, [*bench, "--max-time", "0"]),
                (2, [*bench, "--min-runs", "0"]),
                (2, ["infer-opt", "quantize", MODEL, "-o", "x.onnx", "--data",
                     DEMO / "eval_images.npy", "--labels", DEMO / "eval_labels.csv",
                     "--preprocess", PREPROCESS, "--max-drop", "nan", "--samples", "10"]),
                (2, ["infer-opt", "quantize", MODEL, "-o", "x.onnx", "--data",
                     DEMO / "eval_images.npy", "--preprocess", "resize=nan", "--samples", "10"]),
                (2, ["infer-opt", "eval", MODEL, "--data", DEMO / "eval_images.npy", "--labels",
                     DEMO / "eval_labels.csv", "--preprocess", "resize=1000000000", "--samples", "1"]),
                (2, ["infer-opt", "eval", MODEL, "--data", DEMO / "eval_images.npy", "--labels",
                     DEMO / "eval_labels.csv", "--preprocess", PREPROCESS, "--samples", "-3"]),
                *[(2, ["infer-opt", "fuse", MODEL, "-o", "x.onnx", "--opset", n, "--no-verify"])
                  for n in ("-1", "28", "999", "")],
                *[(2, ["infer-opt", "quantize", MODEL, "-o", "x.onnx", "--opset", n, "--data",
                       DEMO / "eval_images.npy"]) for n in ("-1", "999")],
                *[(2, ["infer-opt", *args, option, ""])
                  for args, option in [(("inspect", MODEL), "--json"), (("inspect", MODEL), "--set"),
                                       (("inspect", MODEL), "--config"),
                                       (("inspect", MODEL), "--external-root"),
                                       (("run", MODEL), "--output-dir"), (("run", MODEL), "--input"),
                                       (("fuse", MODEL), "-o"), (("fuse", MODEL, "-o", "x.onnx"), "--data"),
                                       (("compare", MODEL), "--reference"),
                                       (("eval", MODEL, "--data", DEMO / "eval_images.npy"), "--labels")]],
                (2, ["infer-bench", "run", MODEL, "--json", ""]),
                (2, ["infer-bench", "run", ""]),
                (2, ["infer-bench", "zoo", "resnet18", "-o", "x.onnx", "--resolution", "-4"]),
                (2, ["infer-bench", "zoo", "resnet18", "-o", "x.onnx", "--resolution", "1000000000"]),
                (2, ["infer-bench", "zoo", "bert-base", "-o", "x.onnx", "--sequence", "-1"]),
                (2, ["infer-bench", "zoo", "bert-base", "-o", "x.onnx", "--num-layers", "1000000000"]),
        ]:
            with self.subTest(args=args):
                self.expect(code, *args, lines=2)  # CLI11 adds where to find help
                self.assertFalse((self.dir / "x.onnx").exists())

    def test_an_opset_too_old_for_the_nodes_is_4(self):
        done = self.expect(4, "infer-opt", "fuse", MODEL, "-o", "x.onnx", "--opset", "3",
                           "--no-verify", lines=60)
        self.assertRegex(done.stderr, r"opset 3 cannot express \d+ things; opset \d+ can:")
        self.assertFalse((self.dir / "x.onnx").exists())

    def test_config_files(self):
        for name, text, said in [
                ("unknown", "nonsense = 3\n", "unknown.toml:1: 'inspect' has no option --nonsense"),
                ("open", 'set = ["batch=1"\n[[[', "line 2"),
                ("endless", 'set = ["batch=1",\n', "line 1: Error while parsing array: encountered end-of-file"),
                ("text", 'threads = 1\nset = "batch=1\n', "line 2: Error while parsing string"),
                ("bare", "device = cpu\n", "could not determine value type (TOML: option = value, texts in quotes)"),
                ("word", "just words\n", "expected '=', saw 'w'"),
                ("twice", "threads = 1\nthreads = 2\n", "line 2: Error while parsing key-value pair: cannot redefine existing integer 'threads'"),
                ("section", "[nobody]\n", "section 'nobody' is none of: inspect, "),
                ("behind", "threads = 1 2\n", "expected a comment or whitespace, saw '2'"),
                ("range", "\n# no device\ndevice = 'abacus'\n", "range.toml:3: "),
                ("number", "threads = 'many'\n", "number.toml:1: "),
                ("flag", "text = 3\n", "flag.toml:1: --text is true or false"),
                ("date", "seed = 1979-05-27\n", "line 1: 'seed' takes texts, numbers, true, false"),
                ("nested", "[inspect.deeper]\nthreads = 1\n", "line 1: 'deeper' takes texts"),
                ("deep", "set = " + "[" * 100000, "maximum nested value depth"),
                ("noise", "\0\1\2", "line 1: Error while parsing root table")]:
            with self.subTest(name=name):
                self.write(f"{name}.toml", text.encode())
                done = self.expect(3, "infer-opt", "inspect", MODEL, "--config", f"{name}.toml")
                self.assertIn(f"{name}.toml", done.stderr)
                self.assertIn(said, done.stderr)
        for name in ["none.toml", "."]:
            with self.subTest(name=name):
                self.expect(5, "infer-opt", "inspect", MODEL, "--config", name)

    def test_a_closed_pipe(self):
        for args, stream in [(["ops"], "stdout"), (["ops", "--json", "-"], "stdout"),
                             (["--help"], "stdout"), (["nonsense"], "stderr")]:
            with self.subTest(args=args):
                reader, writer = os.pipe()
                os.close(reader)  # before anything is written: no race
                pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writer}
                process = subprocess.Popen([str(BIN / "infer-opt"), *args], **pipes)
                os.close(writer)
                said = process.communicate(timeout=60)
                # As other filters: ended by the signal, without a word.
                self.assertEqual(process.returncode, 128 + signal.SIGPIPE if stream == "stdout" else 2)
                self.assertNotIn(b"cannot write", said[1] or b"")


if __name__ == "__main__":
    shards.main()
