#!/usr/bin/python3
"""What newcomers stumble over: misspelt commands, options and files, help, small terminals, standard streams, photos,
files for older readers, gates that cannot decide.

Run by ctest with INFER_BIN (the folder of the binaries) and INFER_SOURCE (the repository)."""
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import unittest

import numpy as np

from onnx_wire import FLOAT, field, model, node, tensor, value_info
from tool_test_case import BIN, DEMO, MODEL, PREPROCESS, CliTestCase

DATA = ["--data", str(DEMO / "eval_images.npy"), "--preprocess", PREPROCESS]
LABELS = ["--labels", str(DEMO / "eval_labels.csv")]


def in_terminal(columns, *args):
    """What a command writes to a terminal of so many columns, and its exit code."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([str(BIN / args[0]), *map(str, args[1:])], stdout=slave, stderr=slave,
                               env={**os.environ, "TERM": "dumb"})
    os.close(slave)
    text = b""
    while True:
        try:
            part = os.read(master, 1 << 16)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        text += part
    os.close(master)
    return text.decode().replace("\r\n", "\n"), process.wait()


class Terminal(CliTestCase):
    def test_did_you_mean(self):
        for args, meant in [(["inspct"], "inspect"), (["quantise"], "quantize"), (["fuze", MODEL], "fuse"),
                            (["fuse", MODEL, "--ouput", "x"], "--output"),
                            (["inspect", MODEL, "--kernel"], "--kernels"),
                            (["inspect", MODEL, "--target=ort-1.2"], "ort-1.20"),
                            (["ops", "Cnov"], "Conv"), (["quantize", MODEL, "--mode", "weightonly"], "weight-only")]:
            with self.subTest(args=args):
                said = self.expect(2, "infer-opt", *args).stderr
                self.assertRegex(said, rf"did you mean .*{re.escape(meant)}")
                self.assertEqual(len(said.strip().splitlines()), 1, said)
        said = self.expect(2, "infer-bench", "zoo", "resnet5", "-o", self.dir / "x.onnx").stderr
        self.assertRegex(said, "did you mean resnet50")
        self.assertNotIn("did you mean", self.expect(2, "infer-opt", "frobnicate").stderr)

    def test_a_missing_file_names_its_neighbours(self):
        shutil.copy(MODEL, self.dir / "digits.onnx")
        said = self.expect(5, "infer-opt", "inspect", self.dir / "digit.onnx").stderr
        self.assertIn("did you mean digits.onnx?", said)

    def test_own_words(self):
        for args, words in [([], "a command is missing; there are: inspect"),
                            (["inspect"], r"MODEL is missing: infer-opt inspect MODEL \[OTHER\] \[options\]"),
                            (["fuse", MODEL, "-o"], "--output needs a value: --output FILE"),
                            (["inspect", MODEL, "--nothing"], r"there is no option --nothing \(infer-opt inspect --help"),
                            (["fuse", MODEL, "b.onnx"], "'b.onnx' is one argument too many"),
                            (["inspect", MODEL, "b.onnx"], "a second model needs --graph FILE"),
                            (["inspect", MODEL, "--device", "abacus"], "'abacus' is no device: cpu, reference, vulkan")]:
            with self.subTest(args=args):
                said = self.expect(2, "infer-opt", *args).stderr
                self.assertRegex(said, words)
                self.assertNotIn("Run with", said)

    def test_help(self):
        short = self.expect(0, "infer-opt", "quantize", "--help").stdout
        whole = self.expect(0, "infer-opt", "quantize", "--help-all").stdout
        self.assertEqual(self.expect(0, "infer-opt", "help", "quantize").stdout, short)
        self.assertEqual(self.expect(0, "infer-opt", "quantize", "-h").stdout, short)
        for text in [short, whole]:
            self.assertTrue(text.startswith("Usage: infer-opt quantize MODEL [options]\n"))
            for heading in ["Output", "Data", "Quantization", "Common"]:
                self.assertIn(f"\n{heading}:\n", text)
            self.assertRegex(text, r"\n  -o, --output FILE ")
            self.assertRegex(text, r"\n      --threads N ")
        self.assertIn("--rounding", whole)
        self.assertNotIn("--rounding", short)
        self.assertRegex(short, r"\n\d+ more options: infer-opt quantize --help-all\n")
        tool = self.expect(0, "infer-opt", "help").stdout
        self.assertEqual(self.expect(0, "infer-opt", "--help").stdout, tool)
        self.assertRegex(tool, r"\n  fuse +Simplify")
        self.assertEqual(self.expect(0, "infer-opt", "-V").stdout, self.expect(0, "infer-opt", "--version").stdout)

    def test_help_fits_the_terminal(self):
        for columns in [50, 72, 100]:
            text, code = in_terminal(columns, "infer-opt", "fuse", "--help")
            self.assertEqual(code, 0)
            options = text[:text.index("\nExamples:")]
            self.assertLessEqual(max(map(len, options.splitlines())), columns)

    def test_tables_fit_the_terminal(self):
        wide = self.expect(0, "infer-opt", "inspect", MODEL, "--set", "batch=1", "--kernels").stdout
        self.assertGreater(max(map(len, wide.splitlines())), 80)
        narrow, code = in_terminal(80, "infer-opt", "inspect", MODEL, "--set", "batch=1", "--kernels")
        self.assertEqual(code, 0)
        self.assertLessEqual(max(map(len, narrow.splitlines())), 80)
        self.assertEqual(len(narrow.splitlines()), len(wide.splitlines()))

    def test_columns(self):
        text = self.expect(0, "infer-opt", "inspect", MODEL, "--kernels", "--columns", "kernel,precision").stdout
        self.assertEqual(re.split(" {2,}", text.splitlines()[0].strip()), ["node", "kernel", "precision"])

    def test_verbose_tells_steps(self):
        said = self.expect(0, "infer-opt", "fuse", MODEL, "-o", self.dir / "f.onnx", "-v")
        for step in ["import", "fuse", "verify", "export"]:
            self.assertRegex(said.stderr, rf"\n? *\d+\.\d+ s  {step}\n")
        plain = self.expect(0, "infer-opt", "fuse", MODEL, "-o", self.dir / "f.onnx")
        self.assertNotRegex(plain.stderr, r"\d s  export")
        for done, shown in [(said, True), (plain, False)]:  # the spread of the divergence
            self.assertEqual("top-1 same" in done.stdout and "p99.9" in done.stdout, shown)

    def test_standard_streams(self):
        data = pathlib.Path(MODEL).read_bytes()
        done = subprocess.run([str(BIN / "infer-opt"), "fuse", "-", "-o", "-", "--no-verify"], input=data,
                              capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        again = subprocess.run([str(BIN / "infer-opt"), "inspect", "-", "--json", "-"], input=done.stdout,
                               capture_output=True, timeout=120)
        self.assertEqual(again.returncode, 0, again.stderr)
        report = json.loads(again.stdout)
        self.assertEqual(report["model"]["bytes"], len(done.stdout))
        self.assertNotIn("BatchNormalization", {o["op"] for o in report["operators"]})
        self.expect(2, "infer-opt", "fuse", MODEL, "-o", "-", "--json", "-")

    def test_no_empty_texts_of_the_host(self):
        host = self.report(0, "infer-opt", "ops", "Conv")["host"]
        self.assertEqual([k for k, v in host.items() if v == ""], [])


class Data(CliTestCase):
    def photos(self, channels):
        """Three of the demo's digits as image files of so many channels."""
        folder = self.dir / f"photos{channels}"
        folder.mkdir()
        for i, image in enumerate(np.load(DEMO / "eval_images.npy")[:3]):
            grey = image.reshape(image.shape[0], image.shape[1], -1)[:, :, :1].astype(np.uint8)
            pixels = np.repeat(grey, channels, axis=2)
            kind = b"P6" if channels == 3 else b"P5"
            (folder / f"{i}.ppm").write_bytes(kind + b"\n%d %d\n255\n" % image.shape[1::-1] + pixels.tobytes())
        return folder

    def test_run_on_photos(self):
        names = self.dir / "classes.txt"
        names.write_text("".join(f"digit {i}\n" for i in range(10)))
        labels = [line.split(",")[-1] for line in (DEMO / "eval_labels.csv").read_text().split() if line[-1].isdigit()]
        args = ["infer-opt", "run", MODEL, "-i", self.photos(3), "--classes", names, "--top", 2, "--preprocess", PREPROCESS]
        report = self.report(0, *args)
        self.assertEqual(len(report["photos"]), 3)
        right = 0
        for photo, label in zip(report["photos"], labels):
            best = photo["top"][0]
            self.assertEqual(len(best), 2)
            self.assertGreaterEqual(best[0]["probability"], best[1]["probability"])
            right += best[0]["name"] == f"digit {label}"
        self.assertGreaterEqual(right, 2)
        self.assertRegex(self.expect(0, *args).stdout, r"0\.ppm\n +\d+\.\d\d %  digit \d\n")
        names.write_text("one\ntwo\n")
        self.assertIn("2 names, but the output has 10 scores", self.expect(3, *args).stderr)

    def test_folders_of_images_have_the_channels_of_the_model(self):
        # Colour files for a model of one channel, grey ones for a model of three.
        for folder, channels in [(self.photos(3), 1), (self.photos(1), 3)]:
            net = self.dir / f"net{channels}.onnx"
            net.write_bytes(model([node("GlobalAveragePool", ["x"], ["y"])], [value_info("x", ("n", channels, 32, 32))],
                                  [value_info("y", ("n", channels, 1, 1))]))
            out = self.dir / f"out{channels}.onnx"
            self.expect(0, "infer-opt", "fuse", net, "-o", out, "--data", folder, "--preprocess", PREPROCESS)

    def test_a_data_set_as_input(self):
        self.expect(0, "infer-opt", "run", MODEL, "--set", "batch=1", "-o", self.dir / "o", "--format", "pb")
        folder = self.dir / "test_data_set_0"
        folder.mkdir()
        values = np.full((1, 1, 32, 32), 0.5, np.float32)
        (folder / "input_0.pb").write_bytes(tensor("image", values.shape, values.tobytes()))
        report = self.report(0, "infer-opt", "run", MODEL, "-i", folder)
        self.assertEqual(report["random_inputs"], [])

    def test_chance_is_told_with_its_cause(self):
        shifted = self.dir / "shifted.csv"
        lines = (DEMO / "eval_labels.csv").read_text().split()
        shifted.write_text("\n".join(line if not line[-1].isdigit() else str(int(line.split(",")[-1]) + 1)
                                     for line in lines if line[-1].isdigit()) + "\n")
        few = ["--samples", 100]
        # One label would be a class too many.
        args = ["infer-opt", "eval", MODEL, "--data", DEMO / "eval_images.npy", "--labels", shifted, *few]
        done = self.expect(3, *args, "--preprocess", PREPROCESS)
        self.assertIn("10 classes", done.stderr)
        wrapped = self.dir / "wrapped.csv"
        wrapped.write_text("\n".join(str((int(x) - 1) % 10 + 1 if int(x) < 10 else 1) for x in
                                     shifted.read_text().split()) + "\n")
        done = self.expect(0, *args[:-3], wrapped, *few, "--preprocess", PREPROCESS)
        self.assertIn("the labels count from 1", done.stderr)
        unscaled = self.expect(0, "infer-opt", "eval", MODEL, "--data", DEMO / "eval_images.npy", *LABELS, *few,
                               "--preprocess", PREPROCESS.replace("scale=1/255", "scale=-40"))
        self.assertIn("models mostly want pixels scaled", unscaled.stderr)
        fine = self.expect(0, "infer-opt", "eval", MODEL, *DATA, *LABELS, *few)
        self.assertNotIn("chance", fine.stderr)

    def test_one_array_for_several_inputs(self):
        path = self.dir / "two.onnx"
        path.write_bytes(model([node("Add", ["a", "b"], ["y"])], [value_info("a", [1, 4]), value_info("b", [1, 4])], [value_info("y", [1, 4])]))
        np.save(self.dir / "one.npy", np.zeros((3, 4), "f4"))
        said = self.expect(2, "infer-opt", "quantize", path, "-o", self.dir / "q.onnx", "--data", self.dir / "one.npy").stderr
        self.assertIn("the model has 2 inputs (a, b): write a .npz", said)

    def test_one_file_with_an_array_for_each_input(self):
        path = self.dir / "two.onnx"
        path.write_bytes(model([node("Sub", ["a", "b"], ["y"])], [value_info("a", [1, 2]), value_info("b", [1, 2])], [value_info("y", [1, 2])]))
        both, other = self.dir / "both.npz", self.dir / "other.npz"
        np.savez(both, b=np.array([[1, 2]], "f4"), a=np.array([[30, 50]], "f4"))
        np.savez(other, a=np.zeros((1, 2), "f4"), c=np.zeros((1, 2), "f4"))
        self.assertIn("{29, 48}", self.expect(0, "infer-opt", "run", path, "-i", both).stdout)
        self.expect(0, "infer-bench", "run", path, "-i", both, "--runs", 2, "--cold", 0)
        self.assertIn("array 'c' is no input; the inputs are: a, b", self.expect(3, "infer-opt", "run", path, "-i", other).stderr)
        said = self.expect(2, "infer-opt", "run", path, "-i", self.dir / "one.npy").stderr
        self.assertIn("write NAME=FILE, or give an .npz with an array of each input's name; the inputs are: a, b", said)

    def test_quantize_without_data_says_what_can_be_done(self):
        said = self.expect(2, "infer-opt", "quantize", MODEL, "-o", self.dir / "q.onnx").stderr
        self.assertRegex(said, r"with data: +infer-opt quantize \S+digits.onnx -o \S+q.onnx --data ")
        self.assertRegex(said, r"without data: +infer-opt quantize \S+digits.onnx -o \S+q.onnx --mode weight-only")


class Gates(CliTestCase):
    def test_inconclusive_has_an_exit_code_of_its_own(self):
        out = self.dir / "q.onnx"
        args = ["infer-opt", "quantize", MODEL, "-o", out, *DATA, "--samples", 80, "--recipe", "fast",
                "--min-agreement", "99.9%"]
        report = self.report(6, *args)
        self.assertEqual((report["verdict"], report["passed"]), ("inconclusive", False))
        gate = report["gates"][0]
        self.assertEqual(gate["samples"], 40)
        # With all rows equal the lower end of the interval is 0.025^(1/n).
        self.assertAlmostEqual(gate["samples_needed"], np.log(0.025) / np.log(0.999), delta=2)
        self.assertFalse(out.exists())
        said = self.expect(6, *args)
        self.assertIn("INCONCLUSIVE", said.stdout)
        self.assertIn(f"about {gate['samples_needed']} samples like these would decide it, here are 40", said.stdout)
        self.assertIn("--allow-inconclusive", said.stdout)
        self.assertEqual(self.report(0, *args, "--allow-inconclusive")["verdict"], "passed")
        self.assertTrue(out.exists())
        # What fails beyond doubt beside it fails.
        self.assertEqual(self.report(1, *args, "--max-size", "0.01x")["verdict"], "failed")

    def test_eval_command(self):
        out = self.dir / "q.onnx"
        judge = self.dir / "judge.sh"
        judge.write_text("#!/bin/sh\necho \"score: $(($(wc -c < \"$1\") / 1000))\"\n")
        args = ["infer-opt", "quantize", MODEL, "-o", out, "--mode", "weight-only", "--bits", 8,
                "--eval-command", f"sh {judge} {{model}}"]
        lower = self.report(0, *args, "--eval-better", "lower")  # a smaller file is better
        self.assertGreater(lower["eval_command"]["golden"], 2 * lower["eval_command"]["candidate"])
        self.assertEqual(lower["gates"][-1]["name"], "eval-command")
        out.unlink()
        self.report(1, *args, "--max-eval-loss", "10%")
        self.assertFalse(out.exists())
        self.report(0, *args, "--max-eval-loss", "1000")  # so much, in its own unit
        for command, words in [("echo nothing # {model}", "prints no number"), ("exit 3; {model}", "exit code 3"),
                               ("cat", r"\{model\} is missing")]:
            said = self.expect(2, *args[:-1], command).stderr
            self.assertRegex(said, words)
        report = self.report(0, "infer-opt", "prune", MODEL, "-o", out, "--sparsity", "10%", *args[-2:],
                             "--eval-better", "lower")
        self.assertEqual(report["verdict"], "passed")
        folder = self.dir / "sweep"
        report = self.report(0, "infer-opt", "sweep", MODEL, "-o", folder, "--only", "int8-weights", *args[-2:],
                             "--eval-better", "lower", "--set", "batch=1")
        scores = {v["id"]: v["eval_score"] for v in report["variants"]}
        self.assertGreater(scores["fp32"], scores["int8-weights"])
        self.assertTrue(all(v["acceptable"] for v in report["variants"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=2)
