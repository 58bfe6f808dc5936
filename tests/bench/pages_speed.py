#!/usr/bin/python3
"""How fast the picture of a model is: laid out and written, first painted, moved, zoomed, folded, searched, in headless Chromium.

    tests/bench/pages_speed.py build/release/bin [--nodes 5000] [--runs 5]

Makes two models of so many nodes (scopes as exporters name them; without any names) and prints a table. Needs Debian's chromium and
chromium-driver. Judges nothing: times hang on the machine."""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tools"))
import browser  # noqa: E402
from onnx_wire import model, node, value_info  # noqa: E402

SCRIPT = """
const done = arguments[0], frame = () => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)));
const took = async action => { const from = performance.now(); action(); page.view.paint(); await frame(); return performance.now() - from; };
(async () => {
  const paint = performance.getEntriesByName('first-contentful-paint')[0], out = {};
  out['first paint'] = paint ? paint.startTime : NaN;
  out['script at work until'] = performance.timing.loadEventEnd - performance.timing.navigationStart;
  const key = k => document.getElementById('canvas').dispatchEvent(new KeyboardEvent('keydown', {key: k}));
  out['open all'] = await took(() => document.getElementById('open').click());
  out['show all'] = await took(() => page.view.fit(true));
  out['move, all in sight'] = await took(() => page.view.move(3, 3));
  out['zoom in'] = await took(() => page.view.zoom(30));
  out['move'] = await took(() => page.view.move(7, 9));
  out['key down'] = await took(() => key('ArrowDown'));
  out['select'] = await took(() => page.go({kind: 0, index: page.model.operators[2500 % page.model.operators.length].index}));
  out['search'] = await took(() => page.search('relu'));
  out['fold a group'] = await took(() => page.toggle(page.model.groups.length - 1));
  out['colour by bytes'] = await took(() => { const h = document.getElementById('heat'); h.value = 'bytes'; h.dispatchEvent(new Event('change')); });
  done(out);
})();
"""


def net(nodes, named):
    """Blocks of six nodes with a skip and a value that all blocks read."""
    out, source = [node("Sigmoid", ["x"], ["mask"], name="/mask/Sigmoid" if named else "")], "x"
    for i in range(nodes // 6):
        scope = f"/encoder/layer.{i // 4}/block.{i % 4}"

        def add(op, inputs, result, part):
            value = f"{scope}/{part}/{result}" if named else f"v{i}{result}"
            out.append(node(op, inputs, [value], name=f"{scope}/{part}/{op}" if named else ""))
            return value
        a = add("Relu", [source], "a", "act")
        b = add("Sigmoid", [a], "b", "gate")
        c = add("Mul", [a, b], "c", "gate")
        d = add("Mul", [c, "mask"], "d", "mask")
        e = add("Tanh", [d], "e", "act")
        source = add("Add", [e, source], "f", "sum")
    out.append(node("Neg", [source], ["y"], name="/head/Neg" if named else ""))
    return model(out, [value_info("x", [4, 8])], [value_info("y", [4, 8])])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    if not browser.INSTALLED:
        raise SystemExit("chromium and chromium-driver are not installed")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for kind in ("scopes", "no names"):
            path, page = folder / "m.onnx", folder / "m.html"
            path.write_bytes(net(args.nodes, kind == "scopes"))
            took = []
            for _ in range(args.runs):
                start = time.monotonic()
                subprocess.run([args.bin / "infer-opt", "inspect", path, "--graph", page], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                took.append(time.monotonic() - start)
            print(f"{kind}: {args.nodes} nodes, inspect --graph {statistics.median(took):.2f} s, page {page.stat().st_size / 1e6:.2f} MB")
            with browser.Browser(folder) as b:
                rows = []
                for _ in range(args.runs):
                    b.open(page)
                    rows.append(b.later(SCRIPT))
            for what in rows[0]:
                all_ms = [r[what] for r in rows if r[what] is not None]
                if all_ms:
                    print(f"  {what:24} {statistics.median(all_ms):8.1f} ms  ({min(all_ms):.1f} to {max(all_ms):.1f})")


if __name__ == "__main__":
    main()
