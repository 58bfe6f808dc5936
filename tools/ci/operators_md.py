#!/usr/bin/env python3
"""Writes docs/operators.md from the registry.

usage: operators_md.py INFER_OPT FILE [--check]

With --check nothing is written: exit 1 when FILE is not what the registry says.
"""
import json
import subprocess
import sys

HEAD = """# Operators

Made by `tools/ci/operators_md.py` from the registry (`infer-opt ops`); do not edit.

*Versions* are the schema versions that import accepts; older forms are lifted to the newest one.
*Types* are the element types of the operands that a type variable stands for.
*Fast on* names the devices that have a kernel of their own for the operator; whether it takes a node
depends on types and attributes (`infer-opt inspect --kernels` says). Without one it runs as the operators that it is made of, where it has such a form for the node, else on the reference kernel.
An operator marked † exists on import only: it becomes other operators.
"""


def table(ops):
    lines = ["| operator | versions | types | fast on | what it does |", "|---|---|---|---|---|"]
    for op in ops:
        types = "; ".join(f"{var}: {names}" for var, names in op["types"].items())
        mark = " †" if op["retired"] else ""
        doc = op["doc"].replace("|", "\\|")
        lines.append(f"| {op['name']}{mark} | {', '.join(map(str, op['versions']))} | {types} | {', '.join(op['fast'])} | {doc} |")
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__)
        return 2
    run = subprocess.run([sys.argv[1], "ops", "--json", "-"], capture_output=True, check=True)
    ops = json.loads(run.stdout)["operators"]
    text = HEAD
    for domain in sorted({op["domain"] for op in ops}):
        mine = sorted((o for o in ops if o["domain"] == domain), key=lambda o: o["name"])
        text += f"\n## {domain or 'ai.onnx'} ({len(mine)})\n\n{table(mine)}"
    if len(sys.argv) == 4:
        with open(sys.argv[2], encoding="utf-8") as f:
            if f.read() == text:
                return 0
        print(f"{sys.argv[2]} is out of date: run tools/ci/operators_md.py")
        return 1
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
