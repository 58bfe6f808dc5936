#!/usr/bin/python3
"""Pages for people: pictures of models, sweeps, reports. The contents of the files, and, with Chromium and chromedriver installed,
what a browser shows at three widths in light and dark: nothing on the console, nothing wider than the window, every key at work.

Run by ctest with INFER_BIN and INFER_SOURCE; with --photograph DIR pictures of all pages are kept there."""
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

import browser
from onnx_wire import model, node, value_info
from report_test import without
from tool_test_case import DEMO, MODEL, PREPROCESS, run

WIDTHS = (1440, 768, 390)
PHOTOGRAPHS = None
in_browser = unittest.skipUnless(browser.INSTALLED, "Chromium or chromedriver is not installed: pages are not opened")


def block(name, source):
    """Nodes as exporters name them: two scopes, a sum around."""
    path = f"/net/{name}"
    return [node("Relu", [source], [f"{path}/a_out"], name=f"{path}/act/Relu"),
            node("Sigmoid", [f"{path}/a_out"], [f"{path}/b_out"], name=f"{path}/gate/Sigmoid"),
            node("Mul", [f"{path}/a_out", f"{path}/b_out"], [f"{path}/c_out"], name=f"{path}/gate/Mul"),
            node("Add", [f"{path}/c_out", source], [f"{path}/out"], name=f"{path}/Add")]


def deep(blocks, title_of_last="y"):
    nodes, source = [], "x"
    for i in range(blocks):
        nodes += block(f"block.{i}", source)
        source = f"/net/block.{i}/out"
    return model([*nodes, node("Neg", [source], [title_of_last], name="/net/Neg")], [value_info("x", [2, 8])], [value_info(title_of_last, [2, 8])])


# Two engines and a machine profile take minutes: reports of the forms that peers and predict write.
RATIO = {"median": 0.8, "ci95": [0.7, 0.95]}
PEERS = {"schema": "infer-bench/peers@1",
         "engines": [{"name": "infer", "status": "ok", "message": "", "versions": {"infer": "0.1.0"}},
                     {"name": "ort", "status": "ok", "message": "", "versions": {"onnxruntime": "1.30"}}],
         "results": [{"model": {"path": "/data/net.onnx"}, "threads": 1, "engines": [{"name": "infer"}, {"name": "ort"}],
                      "rounds": [{"start": 0, "median_ms": {"infer": 1.0 + k / 9, "ort": 1.2}, "quiet": k != 1} for k in range(4)],
                      "quiet_rounds": 3,
                      "comparisons": [{"peer": "ort", "outputs_agree": True, "ratio": RATIO, "verdict": "faster", "reason": "below 1"}]}],
         "geometric_means": [{"peer": "ort", "threads": 1, "models": ["net.onnx"], "ratio": RATIO, "verdict": "faster"}]}
PREDICT = {"schema": "infer-bench/predict@1", "machine": {"cpu": "a processor", "date": "2026-11-25"}, "threads": 1, "batch": 1, "precision": "f32",
           "results": [{"path": "net.onnx", "predicted_ms": 1.5 + k, "measured_ms": 1.4, "error": 0.07, "launches": 9, "general_share": 0.1,
                        "extrapolated_share": 0, "layers": [{"node": f"n{i}", "op": "Conv", "kernel": "own", "precision": "f32", "family": "conv", "ms": 0.5, "measured_ms": 0.4,
                                                             "extrapolated": i == 1} for i in range(3)]} for k in range(2)],
           "summary": {"models": 2, "median_error": 0.1, "p90_error": 0.2}}


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = pathlib.Path(folder.name)
        cls.pages = {}
        (cls.dir / "deep.onnx").write_bytes(deep(3))
        cls.make("model", "infer-opt", "inspect", MODEL, "--graph", "{}", "--measure", "--threads", 1)
        cls.make("scopes", "infer-opt", "inspect", cls.dir / "deep.onnx", "--graph", "{}")
        cls.make("fuse", "infer-opt", "fuse", MODEL, "-o", cls.dir / "fused.onnx", "--graph", "{}")
        cls.make("pair", "infer-opt", "inspect", MODEL, cls.dir / "fused.onnx", "--graph", "{}")
        data = ["--data", DEMO / "eval_images.npy", "--labels", DEMO / "eval_labels.csv", "--preprocess", PREPROCESS, "--samples", 60]
        variants = cls.dir / "variants"
        cls.tool("infer-opt", "sweep", MODEL, "-o", variants, "--threads", 1, "--only", "int8,int4,fp16", *data)
        cls.pages["sweep"] = variants / "sweep.html"
        cls.report("quantize", "infer-opt", "quantize", MODEL, "-o", cls.dir / "int8.onnx", *data, codes=(0, 6))
        cls.report("accuracy", "infer-opt", "compare", MODEL, cls.dir / "int8.onnx", "--layers", *data, codes=(0, 1))
        cls.report("run", "infer-bench", "run", MODEL, "--threads", 1, "--batch", "1,2", "--min-runs", 40, "--min-time", 0, "--cold", 1)
        cls.report("kernels", "infer-bench", "kernels", MODEL, "--set", "batch=1", "--threads", 1, "--min-time", 0.001, "--repetitions", 1)

        for name, report in (("peers", PEERS), ("predict", PREDICT)):
            source = cls.dir / f"{name}.json"
            source.write_text(json.dumps(report))
            cls.tool("infer-bench", "report", source, "-o", cls.dir / f"{name}.html")
            cls.pages[name] = cls.dir / f"{name}.html"

    @classmethod
    def tool(cls, tool, *args, codes=(0,)):
        done = run(tool, *args)
        assert done.returncode in codes, f"{tool} {args}\n{done.returncode}\n{done.stdout}\n{done.stderr}"

    @classmethod
    def make(cls, name, tool, *args):
        page = cls.dir / f"{name}.html"
        cls.tool(tool, *[page if a == "{}" else a for a in args])
        cls.pages[name] = page

    @classmethod
    def report(cls, name, *args, codes=(0,)):
        source, page = cls.dir / f"{name}.json", cls.dir / f"{name}.html"
        cls.tool(*args, "--json", source, codes=codes)
        cls.tool("infer-bench", "report", source, "-o", page)
        cls.pages[name] = page

    def test_pages_need_nothing_else(self):
        for name, path in self.pages.items():
            text = path.read_text()
            frame = re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.S)
            self.assertEqual(re.findall(r"https?://[^']*", frame), ["http://www.w3.org/2000/svg"], name)  # a name, not an address
            self.assertFalse(re.findall(r"@import|url\(|fetch\(|XMLHttpRequest|WebSocket|import\(|innerHTML|document\.write|eval\(", frame), name)
            self.assertLess(len(text), 5e6, name)

    def test_model_as_a_picture(self):
        data = data_of(self.pages["model"].read_text())
        self.assertEqual((data["title"], len([n for n in data["nodes"] if n["k"] == 0])), ("digits.onnx", 60))
        self.assertTrue(data["has_times"])
        self.assertEqual(data["extents"], {"batch": 1})
        convolutions = [n for n in data["nodes"] if n.get("o") == "Conv"]
        self.assertTrue(all(n["F"] > 0 and n["P"] > 0 and n["R"] for n in convolutions))
        self.assertGreater(sum(n.get("M", 0) for n in data["nodes"]), 0)
        scopes = data_of(self.pages["scopes"].read_text())
        labels = [g["l"] for g in scopes["groups"]]
        self.assertEqual([labels.count(x) for x in ("net", "block.1", "gate", "act")], [1, 1, 3, 0])  # no group for one node

    def test_differences(self):
        for name in ("fuse", "pair"):
            data = data_of(self.pages[name].read_text())
            fates = [n.get("s", 0) for n in data["nodes"] if n["k"] == 0]
            self.assertEqual((fates.count(2), fates.count(3)), (36, 18), name)  # Conv and BatchNormalization became Conv
            added = [n for n in data["nodes"] if n.get("s") == 3]
            self.assertTrue(all(data["nodes"][p]["s"] == 2 for n in added for p in n.get("x", [])), name)
        self.assertEqual(data["before"], "digits.onnx")

    def test_overlay_and_usage(self):
        page, steps = self.dir / "overlay.html", self.dir / "run.json"
        self.tool("infer-opt", "inspect", MODEL, "--graph", page, "--overlay", steps, "--overlay", self.dir / "accuracy.json")
        nodes = data_of(page.read_text())["nodes"]
        self.assertGreater(sum("M" in n for n in nodes), 5)
        self.assertGreater(sum("E" in n for n in nodes), 5)
        (self.dir / "other.json").write_text("{}")
        for code, args, said in ((2, ["--measure"], "needs --graph"), (2, [self.dir / "deep.onnx"], "needs --graph"),
                                 (2, ["--graph", MODEL], "same file"), (3, ["--graph", page, "--overlay", self.dir / "other.json"], "no report with layers"),
                                 (3, ["--graph", page, "--overlay", MODEL], "no JSON")):
            done = run("infer-opt", "inspect", MODEL, *args)
            self.assertEqual((done.returncode, said in done.stderr), (code, True), f"{args} {done.stderr}")

    def test_svg(self):
        image = self.dir / "deep.svg"
        self.tool("infer-opt", "inspect", self.dir / "deep.onnx", "--graph", image)
        text = image.read_text()
        self.assertTrue(text.startswith("<svg ") and text.endswith("</svg>\n"))
        self.assertEqual(len(re.findall(r">Sigmoid</text>", text)), 3)
        self.assertEqual(len(re.findall(r'class="type">f32\[2,8\]<', text)), 14)  # the type of each value once

    # The same pages in a browser.

    @in_browser
    def test_pages_are_shown(self):
        with browser.Browser(self.dir) as b:
            for name, path in self.pages.items():
                for width in WIDTHS:
                    for dark in (False, True):
                        with self.subTest(page=name, width=width, dark=dark):
                            b.open(path, width, 900, dark)
                            # Two frames: a canvas is painted in the first.
                            b.later("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done(0)));")
                            self.photograph(b, name, width, dark)
                            self.assertEqual(b.console(), [])
                            self.assertLessEqual(b.run("return document.documentElement.scrollWidth"), width)
                            self.assertNotIn("cannot be shown", b.run("return document.body.innerText"))
                            self.assertNotRegex(b.run("return document.title"), "/|undefined")
                            self.assert_readable(b)

    def photograph(self, b, name, width, dark):
        if PHOTOGRAPHS:
            b.photograph(PHOTOGRAPHS / f"{name}-{width}-{'dark' if dark else 'light'}.png", whole=name not in ("model", "scopes", "fuse", "pair"))

    def assert_readable(self, b):
        """Text stands out from the page: 4.5 to 1 and more (WCAG 2.2, 1.4.3)."""
        ratio = b.run("""
            const style = getComputedStyle(document.documentElement);
            const light = name => {
              const probe = document.createElement('i');
              probe.style.color = style.getPropertyValue(name);
              document.body.append(probe);
              const [r, g, b] = getComputedStyle(probe).color.match(/[0-9.]+/g).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
              probe.remove();
              return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            return ['--text', '--quiet', '--a', '--good', '--bad', '--warn'].map(name => {
              const [x, y] = [light(name), light('--page')];
              return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
            });""")
        self.assertGreaterEqual(min(ratio), 4.5, ratio)

    @in_browser
    def test_reports_that_end_early(self):
        """Each value missing, null, no number or empty once: every page of them is drawn."""
        with browser.Browser(self.dir) as b:
            for name in ("quantize", "accuracy", "kernels", "peers", "predict"):
                report = json.loads((self.dir / f"{name}.json").read_text())
                for parts in (report.get("quantization", {}), report.get("accuracy", {})):
                    parts["layers"] = parts.get("layers", [])[:3]
                    parts["values"] = []
                report["cases"] = report.get("cases", [])[:3]
                seen = ("tool", "host", "environment", "settings", "watch", "target", "model", "command", "data", "roofline", "coverage", "output", "search")
                page = self.pages[name].read_text()
                embedded = re.search(r'id="data">(.*?)</script>', page, re.S)[1]
                parts = [{"path": "", "report": p} for p in without(report, seen)]
                self.assertGreater(len(parts), 40, name)
                copy = self.dir / "early.html"
                copy.write_text(page.replace(embedded, json.dumps({"version": "0", "reports": parts, "histories": []}).replace("<", "\\u003c")))
                b.open(copy)
                self.assertEqual(b.console(), [], name)
                self.assertNotIn("cannot be shown", b.run("return document.body.innerText"), name)

    @in_browser
    def test_script_and_program_place_alike(self):
        """The page's script composes open groups as the SVG does."""
        self.tool("infer-opt", "inspect", self.dir / "deep.onnx", "--graph", self.dir / "same.svg")
        text = (self.dir / "same.svg").read_text()
        drawn = sorted((float(x), float(y), float(w)) for x, y, w in re.findall(r'<rect class="box" x="([^"]*)" y="([^"]*)" width="([^"]*)"', text))
        with browser.Browser(self.dir) as b:
            b.open(self.pages["scopes"])
            shown = b.run("return page.view.drawing.boxes.filter(b => b.kind === 0).map(b => [b.x, b.y, b.width])")
        self.assertEqual(len(drawn), len(shown))
        for a, c in zip(drawn, sorted(map(tuple, shown))):
            for u, v in zip(a, c):
                self.assertAlmostEqual(u, v, delta=2)  # the page's places are whole pixels

    @in_browser
    def test_keys_search_and_folding(self):
        with browser.Browser(self.dir) as b:
            b.open(self.pages["scopes"])
            b.keys("Sigmoid", "#search")
            self.assertIn("3 found", b.run("return document.getElementById('found').textContent"))
            b.keys("\ue007", "#search")
            self.assertIn("1 of 3", b.run("return document.getElementById('found').textContent"))
            self.assertIn("/net/block.0/gate/Sigmoid", b.run("return document.getElementById('side').innerText"))
            b.keys("\ue015", "#canvas")  # down, along the line
            self.assertIn("/net/block.0/gate/Mul", b.run("return document.getElementById('side').innerText"))
            count = "return page.view.drawing.boxes.length"
            all_open = b.run("document.getElementById('open').click(); " + count)
            closed = b.run("document.getElementById('close').click(); " + count)
            self.assertGreater(all_open, closed)
            self.assertEqual(closed, 3)  # x, net, y
            x, y = b.run("""const box = page.view.drawing.boxes.find(b => b.kind === 1), r = document.getElementById('canvas').getBoundingClientRect(), v = page.view;
                            return [r.left + v.x + (box.x + box.width - 12) * v.scale, r.top + v.y + (box.y + 12) * v.scale]""")
            b.click(x, y)
            self.assertGreater(b.run(count), closed)
            b.run("page.select({kind: 1, index: page.model.groups.find(g => g.label === 'net').index})")
            b.keys("\ue007", "#canvas")
            self.assertEqual(b.run(count), closed)
            theme = "return document.documentElement.dataset.theme || 'system'"
            seen = [b.run("document.querySelector('button.theme').click(); " + theme) for _ in range(3)]
            self.assertEqual(seen, ["light", "dark", "system"])
            self.assertEqual(b.console(), [])

    @in_browser
    def test_labels_of_a_sweep_do_not_hide_each_other(self):
        page = self.pages["sweep"].read_text()
        data = data_of(page)
        base = [v for v in data["variants"] if v["made"]]
        crowd = [{**base[i % len(base)], "id": f"variant-{i}", "recommended": i == 0} for i in range(24)]
        copy = self.dir / "crowd.html"
        embedded = re.search(r'id="data">(.*?)</script>', page, re.S)[1]
        copy.write_text(page.replace(embedded, json.dumps({**data, "variants": crowd}).replace("<", "\\u003c")))
        with browser.Browser(self.dir) as b:
            b.open(copy)
            met = b.run("""
                let met = 0, count = 0;
                for (const figure of document.querySelectorAll('figure')) {
                  const boxes = [...figure.querySelectorAll('text.halo')].map(t => t.getBoundingClientRect());
                  count += boxes.length;
                  boxes.forEach((a, i) => boxes.slice(i + 1).forEach(c => {
                    if (a.left < c.right - 1 && a.right > c.left + 1 && a.top < c.bottom - 2 && a.bottom > c.top + 2) met += 1;
                  }));
                }
                return [met, count];""")
            self.assertEqual(met, [0, 48])
            self.assertEqual(b.console(), [])


if __name__ == "__main__":
    if "--photograph" in sys.argv:
        at = sys.argv.index("--photograph")
        PHOTOGRAPHS = pathlib.Path(sys.argv[at + 1]).absolute()
        os.makedirs(PHOTOGRAPHS, exist_ok=True)
        del sys.argv[at:at + 2]
    unittest.main(argv=sys.argv, verbosity=2)
