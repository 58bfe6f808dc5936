"""What the tests of the tools as processes share: how a tool is run, judged and interrupted.

Takes INFER_BIN (the folder of the binaries) and INFER_SOURCE (the repository) from the environment, as ctest sets them."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

import jsonschema

BIN = pathlib.Path(os.environ["INFER_BIN"])
SOURCE = pathlib.Path(os.environ["INFER_SOURCE"])
DEMO = SOURCE / "datasets/demo"
MODEL = str(DEMO / "digits.onnx")
PREPROCESS = "resize=32,interp=nearest,scale=1/255,layout=nchw"


def run(tool, *args, **kwargs):
    return subprocess.run([str(BIN / tool), *map(str, args)], capture_output=True, text=True, timeout=300, **kwargs)


def validate(report):
    name = report["schema"].split("@")[0].replace("/", "-")
    schema = json.loads((SOURCE / f"docs/schemas/{name}.schema.json").read_text())
    jsonschema.validate(report, schema)


def waited_s(pid):
    """Seconds that a thread of the process was kept from a processor, of all threads the most."""
    waits = [0]
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # it has ended
            waits.append(int(task.read_text().split()[1]))
    return max(waits) / 1e9


class ToolTestCase(unittest.TestCase):
    """A folder of its own for each test, and runs whose exit codes are judged."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(folder.name)
        self.addCleanup(folder.cleanup)

    def expect(self, code, tool, *args, **kwargs):
        done = run(tool, *args, **kwargs)
        self.assertEqual(done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}")
        return done

    def interrupted(self, tool, *args, after, within=60):
        """The report and stdout of a tool that got SIGINT: it ends with 130 in `within` seconds, and the report is valid.
        The signal comes after `after` seconds, without those in which other load kept the tool from a processor."""
        path = self.dir / "partial.json"
        process = subprocess.Popen([str(BIN / tool), *map(str, args), "--json", str(path)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        start = time.monotonic()
        while process.poll() is None and time.monotonic() - start - waited_s(process.pid) < after:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=within)
        self.assertEqual(process.returncode, 130, f"{args}\n{said}")
        report = json.loads(path.read_text())
        validate(report)
        self.assertTrue(report["interrupted"])
        return report, out


class CliTestCase(ToolTestCase):
    """Any command of either tool."""

    def report(self, code, tool, *args):
        """Runs with --json -, validates what stands on stdout, and returns it."""
        report = json.loads(self.expect(code, tool, *args, "--json", "-").stdout)
        validate(report)
        return report


class BenchTestCase(ToolTestCase):
    """infer-bench, most often one of its commands."""

    command = ()  # what every run begins with

    def bench(self, *args, code=0, **kwargs):
        return self.expect(code, "infer-bench", *self.command, *args, **kwargs)

    def report(self, *args, code=0):
        """The report on stdout, validated."""
        report = json.loads(self.bench(*args, "--json", "-", code=code).stdout)
        validate(report)
        return report
