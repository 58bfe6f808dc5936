#!/usr/bin/env python3
"""usage: report.py [--above MS] PEERS.json... > docs/performance.md

The tables of one or more reports of `infer-bench peers --json`: per number of threads one row for
each model, and the geometric means; with --above one more over the models for which the peer takes
so long. Numbers come from the reports alone; what has no verdict says why."""

import json
import math
import os
import sys

SCHEMA = "infer-bench/peers@1"


def read(path):
    with open(path, encoding="utf-8") as f:
        report = json.load(f)
    if report.get("schema") != SCHEMA:
        sys.exit("%s: not a report of %s" % (path, SCHEMA))
    return report


def model_name(path):
    """model.onnx is named by its folder."""
    folder, file = os.path.split(path)
    stem = os.path.splitext(file)[0]
    return os.path.basename(folder) if stem == "model" and folder else stem


def cell(comparison):
    ratio = comparison["ratio"]
    if ratio is None:
        reason = " ".join(comparison["reason"].split()).replace("|", "\\|")
        return "no verdict: " + (reason if len(reason) <= 120 else reason[:120] + " ...")
    return "%.2f (%.2f to %.2f)" % (ratio["median"], *ratio["ci95"])


def milliseconds(engine):
    latency = engine.get("latency_ms")
    if not latency:
        return "-"
    return "%.3g / %.3g" % (latency["median"], latency["p90"]) if "p90" in latency else (
        "%.3g" % latency["median"])


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def host_lines(report):
    host, settings = report["host"], report["settings"]
    versions = ["%s %s" % (e["name"], e["versions"].get(key, "")) for e in report["engines"]
                for key in [{"ort": "onnxruntime"}.get(e["name"], e["name"])] if e["status"] == "ok"]
    return ("%s, %d usable cores, %s, %s. Engines: %s. %d rounds of blocks of %g s, OMP_WAIT_POLICY %s.\n"
            % (host["cpu"], host["usable_cores"], host["os"], host["compiler"],
               ", ".join(versions), settings["rounds"], settings["block_seconds"],
               settings["omp_wait_policy"] or "not set"))


def results_table(results, base, peers):
    header = ["model"] + ["%s ms (median / p90)" % e for e in [base] + peers]
    header += ["%s / %s" % (base, p) for p in peers]
    rows = []
    for result in results:
        engines = {e["name"]: e for e in result["engines"]}
        comparisons = {c["peer"]: c for c in result["comparisons"]}
        rows.append([model_name(result["model"]["path"])]
                    + [milliseconds(engines.get(e, {})) for e in [base] + peers]
                    + [cell(comparisons[p]) if p in comparisons else "-" for p in peers])
    return table(header, rows)


def ratios_of(results, peer, above):
    ratios = []
    for result in results:
        latency = {e["name"]: e.get("latency_ms") for e in result["engines"]}.get(peer)
        ratios += [c["ratio"]["median"] for c in result["comparisons"]
                   if c["peer"] == peer and c["ratio"] and latency["median"] > above]
    return ratios


def means(results, base, peers, above):
    lines = []
    for peer in peers:
        for least in sorted({0, above}):
            ratios = ratios_of(results, peer, least)
            if len(ratios) < 2:
                continue
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            which = " for which %s takes more than %g ms" % (peer, least) if least else ""
            largest = "; largest %.2f" % max(ratios) if least else ""
            lines.append("Geometric mean %s / %s over %d of %d models%s: %.2f%s\n"
                         % (base, peer, len(ratios), len(results), which, mean, largest))
    return "\n".join(lines)


def main():
    paths, above = sys.argv[1:], 0.0
    if len(paths) > 1 and paths[0] == "--above":
        above, paths = float(paths[1]), paths[2:]
    if not paths:
        sys.exit(__doc__)
    reports = [read(path) for path in paths]
    print("# Performance\n\nWritten by `tools/infer_bench/peers/report.py`; how it is measured: "
          "[measuring.md](measuring.md). A ratio below 1 means that the first engine is faster; in "
          "parentheses its 95 % interval.\n")
    for text in sorted({host_lines(r) for r in reports}):
        print(text)
    groups = {}
    for report in reports:
        ready = [e["name"] for e in report["engines"] if e["status"] == "ok"]
        for result in report["results"]:
            groups.setdefault((result["threads"], tuple(ready)), []).append(result)
    for (threads, (base, *peers)), results in sorted(groups.items()):
        print("## %d thread%s\n" % (threads, "" if threads == 1 else "s"))
        print(results_table(results, base, peers))
        if lines := means(results, base, peers, above):
            print(lines)


if __name__ == "__main__":
    main()
