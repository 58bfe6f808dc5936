#!/usr/bin/python3
"""infer-bench report and --html: a page for each kind of report, that loads nothing, holds its source and believes no name.
With Chromium installed the pages are opened, too.

Run by ctest with INFER_BIN and INFER_SOURCE."""
import copy
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from compare_test import SIDE
from onnx_wire import model, node, value_info
from tool_test_case import MODEL, run

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
HOSTILE = "</script><!--<img src=x onerror=alert(1)>\u2028'\"`${x}"
ONE = [MODEL, "--set", "batch=1", "--threads", "1"]
in_browser = unittest.skipUnless(CHROMIUM, "Chromium is not installed: pages are not opened")
VOID = {"wbr", "meta", "link", "br", "img", "input", "hr"}


class Outline(html.parser.HTMLParser):
    """Elements that are opened and closed in order, with their attributes and the text of each script."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.scripts = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> ends nothing"

    def handle_data(self, text):
        if self.open and self.open[-1] == "script":
            self.scripts.append(text)


def bench(*args, codes=(0,)):
    done = run("infer-bench", *args)
    assert done.returncode in codes, f"{args}\n{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def hostile(value):
    """The same report with every name, path and reason replaced."""
    if isinstance(value, dict):
        return {k: v if k in ("schema", "verdict", "outcome", "arrivals") else hostile(v) for k, v in value.items()}
    if isinstance(value, list):
        return [hostile(v) for v in value]
    return HOSTILE if isinstance(value, str) and value not in ("inf", "-inf", "nan") else value


def without(report, whole=()):
    """Reports that end earlier: each lacks one value, or has null or a text for a number there. `whole`: not looked into."""
    def walk(value, path):
        yield path
        if path and path[-1] in whole:
            return
        if isinstance(value, dict):
            for k, v in value.items():
                yield from walk(v, (*path, k))
        elif isinstance(value, list) and value:
            yield from walk(value[0], (*path, 0))
    for path in walk(report, ()):
        if not path or path == ("schema",):
            continue
        for change in ("drop", "null", "nan", "empty"):
            part = copy.deepcopy(report)
            at = part
            for k in path[:-1]:
                at = at[k]
            was = at[path[-1]]
            if change == "drop":
                del at[path[-1]]
            elif change == "null" and not (path[-1] == 0 and isinstance(was, (dict, str))):
                at[path[-1]] = None
            elif change == "nan" and isinstance(was, (int, float)):
                at[path[-1]] = "nan"
            elif change == "empty" and isinstance(was, (list, dict)):
                at[path[-1]] = type(was)()
            else:
                continue
            yield part


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = pathlib.Path(folder.name)
        cls.reports, cls.shortcuts = {}, {}
        cls.make("run", "run", *ONE, "--min-runs", 80, "--min-time", 0.05, "--cold", 1)
        cls.make("grid", "run", MODEL, "--threads", 1, "--batch", "1,2", "--min-runs", 5, "--min-time", 0, "--cold", 0)
        load = ["load", *ONE, "--warmup", 0.05]
        cls.make("load", *load, "--rate", 200, "--duration", 0.4)
        cls.make("curve", *load, "--curve", "--duration", 0.1, "--capacity-time", 0.2)
        cls.make("scenario", *load, "--scenario", "single-stream", "--duration", 0.1, codes=(0, 1))
        cls.make("soak", "soak", *ONE, "--warmup", 0.05, "--duration", 1.2, "--window", 0.1, codes=(0, 1, 6))
        cls.make_comparisons()

    @classmethod
    def make(cls, name, *args, codes=(0,)):
        source, page = cls.dir / f"{name}.json", cls.dir / f"{name}-shortcut.html"
        bench(*args, "--json", source, "--html", page, codes=codes)
        cls.reports[name], cls.shortcuts[name] = source, page

    @classmethod
    def make_comparisons(cls):
        relu, cls.history = cls.dir / "relu.onnx", cls.dir / "history.jsonl"
        relu.write_bytes(model([node("Relu", ["x"], ["y"])], [value_info("x", [4])], [value_info("y", [4])]))
        sides = []
        for name, ms in (("a", 1.0), ("b", 1.05)):
            side = cls.dir / f"side_{name}"
            side.write_text(SIDE.format(ms=ms, on_load="pass", pause=0))
            side.chmod(0o755)
            sides += [f"--{name}", f"binary={side}"]
        cls.make("compare", "compare", relu, *sides, "--lock", cls.dir / "lock", "--history", cls.history, "--series", "s", codes=(1,))
        entry = json.loads(cls.history.read_text())
        with cls.history.open("a") as f:
            f.write("half a li\n")
            for i in range(12):
                f.write(json.dumps({**entry, "effect": 0.01 if i % 2 else -0.01, "verdict": "same"}) + "\n")
        cls.make("files", "compare", cls.reports["run"], cls.reports["run"], codes=(6,))

    def page(self, *args):
        path = self.dir / "page.html"
        path.unlink(missing_ok=True)
        bench("report", *args, "-o", path)
        return path.read_text()

    def data(self, text):
        """What a page shows; its frame is judged on the way."""
        outline = Outline(text)
        embedded, script = outline.scripts
        for tag, attributes in outline.elements:
            self.assertTrue({"src", "srcset", "action", "data", "onload", "onerror"}.isdisjoint(attributes), tag)
            self.assertRegex(attributes.get("href", "#"), r"^(#|data:,$)")
        frame = text.replace(embedded, "")
        self.assertEqual(re.findall(r"https?://[^']*", frame), ["http://www.w3.org/2000/svg"])  # a name, not an address
        self.assertFalse(re.findall(r"@import|url\(|fetch\(|XMLHttpRequest|WebSocket|import\(|innerHTML|document\.write|eval\(", frame))
        self.assertIn("main();", script)
        return json.loads(embedded)

    def test_each_kind_holds_its_source_and_loads_nothing(self):
        for name, path in self.reports.items():
            source = json.loads(path.read_text())
            data = self.data(self.page(path))
            self.assertEqual(data["reports"], [{"path": str(path), "report": source}], name)
            self.assertEqual(data["histories"], [])
            shortcut = self.data(self.shortcuts[name].read_text())
            self.assertEqual(shortcut["reports"], [{"path": "", "report": source}], name)

    def test_several_reports_and_a_history(self):
        data = self.data(self.page(*self.reports.values(), "--history", self.history))
        self.assertEqual(len(data["reports"]), len(self.reports))
        history = data["histories"][0]["history"]
        self.assertEqual(history["damaged"], ["line 2: no JSON object"])
        entries = history["series"][0]["entries"]
        self.assertEqual(len(entries), 13)
        self.assertEqual([e["floor"] is None for e in entries], [True] * 8 + [False] * 5)
        self.assertAlmostEqual(entries[-1]["floor"], 0.045, delta=0.005)  # 3 x 1.4826 x 1 %
        added = self.data(self.shortcuts["compare"].read_text())["histories"][0]["history"]["series"][0]
        self.assertEqual([e["verdict"] for e in added["entries"]], ["slower"])

    def test_names_are_text(self):
        for name, path in self.reports.items():
            named = self.dir / f"hostile-{name}.json"
            named.write_text(json.dumps(hostile(json.loads(path.read_text()))))
            text = self.page(named)
            self.assertEqual((text.count("</script>"), text.count("<img")), (2, 0))
            self.assertEqual(self.data(text)["reports"][0]["report"], json.loads(named.read_text()))

    def test_what_is_no_report_is_refused(self):
        good = json.loads(self.reports["run"].read_text())
        path = self.dir / "broken.json"
        cell = good["results"][0]
        for text, said in (("", "no JSON"), ("[]", "no JSON object"), ("{}", "schema"), ("[" * 200000, "no JSON"),
                           ('{"a":' * 100000 + "1" + "}" * 100000, "deeper than"), ('{"schema": 3}', "schema"),
                           ('{"schema": "infer-bench/run@1"}', "run@1: the page shows"),
                           ('{"schema": "infer-bench/tune@1"}', "tune@1"), ('{"schema": "infer-bench/history@1"}', "--history"),
                           ('{"schema": "infer-bench/run@2", "results": NaN}', "no JSON"), ('{"a": "\udcff"}', "no JSON"),
                           (json.dumps({**good, "results": 7}), "/results: not an array of objects"),
                           (json.dumps({**good, "results": [7]}), "/results: not an array of objects"),
                           (json.dumps({**good, "warnings": [{}]}), "/warnings: not an array of texts"),
                           (json.dumps({**good, "results": [{**cell, "samples_ms": ["fast"]}]}), "/results/0/samples_ms: not an array of numbers"),
                           (json.dumps({**good, "results": [cell, {**cell, "latency_ms": []}]}), "/results/1/latency_ms: not an object")):
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
            done = bench("report", path, "-o", self.dir / "none.html", codes=(3,))
            self.assertIn(said, done.stderr, text[:60])
            self.assertFalse((self.dir / "none.html").exists())
        with path.open("w") as f:
            f.truncate(70 << 20)
        self.assertIn("too much for a page", bench("report", path, "-o", self.dir / "none.html", codes=(3,)).stderr)

    def test_usage(self):
        source, out = self.reports["run"], self.dir / "none.html"
        for args, said in (([source], "-o FILE is missing"), (["-o", out], "nothing to show"), ([self.history, "-o", out], "--history"),
                           ([source, "-o", source], "reads the same file"), ([source, "-o", "-"], "is a file's name here"),
                           ([source, "-o", out, "--json", "-"], "--json")):
            self.assertIn(said, bench("report", *args, codes=(2,)).stderr)
        bench("report", "--history", self.dir / "none.jsonl", "-o", out, codes=(5,))
        bench("report", self.dir / "none.json", "-o", out, codes=(5,))
        (self.dir / "damaged.jsonl").write_text("{}\n" + '{"series":' + "[" * 100000)
        self.assertIn("no line of it is a comparison", bench("report", "--history", self.dir / "damaged.jsonl", "-o", out, codes=(3,)).stderr)
        os.mkfifo(self.dir / "pipe")
        for path in (self.dir, self.dir / "pipe"):
            self.assertIn("regular file", bench("report", "--history", path, "-o", out, codes=(5,)).stderr)


    # The same pages in a browser.

    def opened(self, text):
        """The document as the script leaves it; nothing was said on the console."""
        dom, console = self.browse(text)
        self.assertEqual(console, [])
        self.assertNotIn("cannot be shown", dom[:dom.index('<script type="application/json"')])
        return dom

    def browse(self, text):
        page = self.dir / "opened.html"
        page.write_text(text)
        done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.dir / 'profile'}",
                               "--enable-logging=stderr", "--v=0", "--virtual-time-budget=20000", "--dump-dom", page.as_uri()],
                              capture_output=True, text=True, timeout=240)
        self.assertIn("</html>", done.stdout, done.stderr)
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    @in_browser
    def test_a_mistake_would_be_seen(self):
        _, console = self.browse("<!DOCTYPE html><title>t</title><script>nobody();</script>")
        self.assertEqual(len(console), 1)

    @in_browser
    def test_pages_are_drawn(self):
        drawn = {"run": ["Every run, in order", "Distribution", "Tail", "Roofline", "Time of each step"], "grid": ["Latency of each cell"],
                 "load": ["Latency over time", "Percentiles"], "curve": ["Latency against load", "Points of the curve"],
                 "scenario": ["single-stream", "Where this is not by the book"], "soak": ["Resident memory over time", "left out of the slope"],
                 "compare": ["Difference of each start", "Every look at the starts", "Effect of each comparison"], "files": ["Pairs"]}
        for name, captions in drawn.items():
            dom = self.opened(self.shortcuts[name].read_text())
            for caption in captions:
                self.assertIn(caption, dom, name)
            self.assertNotIn("NaN", re.sub(r"<script.*?</script>", "", dom, flags=re.S), name)
        dom = self.opened(self.shortcuts["run"].read_text())
        d = json.loads(self.reports["run"].read_text())["results"][0]["latency_ms"]
        self.assertIn("withheld", dom)
        self.assertEqual("outlier (" in dom, d["outliers"] > 0)

    @in_browser
    def test_hostile_names_stay_text(self):
        paths = []
        for name, path in self.reports.items():
            paths.append(self.dir / f"opened-{name}.json")
            paths[-1].write_text(json.dumps(hostile(json.loads(path.read_text()))))
        dom = self.opened(self.page(*paths))
        body = re.sub(r"<script.*?</script>", "", dom, flags=re.S)
        self.assertNotIn("<img", body)
        self.assertIn("&lt;img src=x", body)

    @in_browser
    def test_reports_that_end_early(self):
        """Each value missing, null, no number or empty once: every page of them is drawn."""
        for name, path in self.reports.items():
            if name == "grid":
                continue
            report = json.loads(path.read_text())
            for cell in report.get("results", []):
                cell["layers"] = cell.get("layers", [])[:3]
            for side in report.get("sides", []):
                side["starts"] = side["starts"][:2]
            seen = () if name == "run" else ("tool", "host", "environment", "settings", "watch", "target", "model")
            parts = list(without(report, seen))
            page = self.shortcuts[name].read_text()
            embedded = Outline(page).scripts[0]
            data = {"version": "0", "reports": [{"path": "", "report": p} for p in parts], "histories": []}
            self.assertGreater(len(parts), 40)
            self.opened(page.replace(embedded, json.dumps(data).replace("<", "\\u003c")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
