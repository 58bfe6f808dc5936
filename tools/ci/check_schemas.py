#!/usr/bin/env python3
"""Compares our operators with the schemas of the onnx package, all versions of them.

usage: check_schemas.py INFER_OPT [DIFFERENCES]

Versions, attributes (kind, required, default), number and arity of operands, element types per
operand. Each difference must be named in DIFFERENCES (lines "glob | reason", by default
schema_differences.txt beside this file); a line there that matches nothing is an error too.
Exit 0, 1 with unnamed differences, 77 (ctest's skip) without an onnx package that
is new enough.
"""
import fnmatch
import json
import os
import subprocess
import sys

try:
    import onnx.defs
    from onnx import AttributeProto, helper
except ImportError:
    print("SKIPPED: no onnx package for this Python")
    sys.exit(77)

DTYPES = {
    "float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "string": "str",
    "bool": "bool", "complex64": "c64", "complex128": "c128", "float4e2m1": "f4e2m1",
    "float8e4m3fn": "f8e4m3fn", "float8e4m3fnuz": "f8e4m3fnuz", "float8e5m2": "f8e5m2",
    "float8e5m2fnuz": "f8e5m2fnuz", "float8e8m0": "f8e8m0",
    **{f"{u}int{n}": f"{'u' if u else 'i'}{n}" for u in ("", "u") for n in (2, 4, 8, 16, 32, 64)},
}
KINDS = {"type_proto": "type"}


def dtypes(strings):
    """Element types of the plain tensors among ONNX type strings."""
    return {DTYPES[s[7:-1]] for s in strings if s.startswith("tensor(") and s[7:-1] in DTYPES}


def schema_default(attr):
    if attr.default_value.type == AttributeProto.UNDEFINED:
        return None
    value = helper.get_attribute_value(attr.default_value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)):
        return [v.decode() if isinstance(v, bytes) else v for v in value]
    return value if isinstance(value, (int, float, str)) else None


def same(a, b):
    if isinstance(a, float) or isinstance(b, float):
        return a is not None and b is not None and abs(a - b) <= 1e-6 * max(abs(a), abs(b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


def compare_attributes(op, schemas, newest):
    ours = {a["name"]: a for a in op["attributes"]}
    ever = {name for s in schemas for name in s.attributes}
    for name in sorted(set(ours) - ever):
        yield f"attribute {name}: no version of the schema has it"
    if op["retired"]:
        return
    for name, attr in newest.attributes.items():
        kind = attr.type.name.lower()
        mine = ours.get(name)
        if kind == "graph" and not mine:
            continue
        if not mine:
            yield f"attribute {name}: missing"
            continue
        if mine["kind"] != KINDS.get(kind, kind):
            yield f"attribute {name}: is {mine['kind']}, wants {kind}"
        if mine["required"] != attr.required:
            yield f"attribute {name}: required is {mine['required']}, wants {attr.required}"
        default = schema_default(attr)
        if "default" in mine and not same(mine["default"], default):
            yield f"attribute {name}: default {mine['default']}, wants {default}"
        if "default" not in mine and default is not None:
            yield f"attribute {name}: no default, wants {default}"


def operand_since(schemas, what, i):
    """The version from which on all schemas have operand i."""
    since = 1
    for s in schemas:
        formal = s.inputs if what == "input" else s.outputs
        variadic = formal and formal[-1].option.name == "Variadic"
        if len(formal) <= i and not variadic and not s.deprecated:
            since = next((n.since_version for n in schemas if n.since_version > s.since_version), since)
    return since


def compare_operands(op, what, params, schemas):
    if op["retired"]:
        return
    formal = getattr(schemas[-1], what + "s")
    arity = {"Single": "one", "Optional": "optional", "Variadic": "variadic"}
    if len(params) != len(formal):
        yield f"{what}s: {len(params)}, wants {len(formal)}"
    for i, (mine, theirs) in enumerate(zip(params, formal)):
        if (since := operand_since(schemas, what, i)) != mine["since"]:
            yield f"{what} {i}: since {mine['since']}, wants {since}"
        if mine["arity"] != arity[theirs.option.name]:
            yield f"{what} {i}: {mine['arity']}, wants {arity[theirs.option.name]}"
        wanted = dtypes(theirs.types)
        if mine["type"] in op["types"]:
            known = set(op["types"][mine["type"]].split())
        else:
            known = {mine["type"]}
        if wanted and "(" not in mine["type"]:
            lacking = sorted(wanted - known)
            if lacking:
                yield f"{what} {i}: lacks {' '.join(lacking)}"


def differences(ours):
    history = {}
    for s in onnx.defs.get_all_schemas_with_history():
        history.setdefault((s.domain, s.name), []).append(s)
    for op in ours:
        if op["domain"] not in ("", "ai.onnx.ml"):
            continue
        schemas = sorted(history.get((op["domain"], op["name"]), []), key=lambda s: s.since_version)
        if not schemas:
            yield op["name"], "no such schema"
            continue
        versions = {s.since_version for s in schemas}
        # A version newer than the package cannot be judged.
        newest_known = onnx.defs.onnx_opset_version()
        for v in sorted(versions - set(op["versions"])):
            if not next(s for s in schemas if s.since_version == v).deprecated:
                yield op["name"], f"version {v}: missing"
        for v in sorted(set(op["versions"]) - versions):
            if v <= newest_known:
                yield op["name"], f"version {v}: not a version of the schema"
        newest = schemas[-1]
        for text in compare_attributes(op, schemas, newest):
            yield op["name"], text
        for what in ("input", "output"):
            for text in compare_operands(op, what, op[what + "s"], schemas):
                yield op["name"], text


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__)
        return 2
    listed = sys.argv[2] if len(sys.argv) == 3 else os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "schema_differences.txt")
    known = {}
    with open(listed, encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                glob, reason = (p.strip() for p in line.split("|", 1))
                known[glob] = reason
    run = subprocess.run([sys.argv[1], "ops", "--json", "-"], capture_output=True, check=True)
    ours = json.loads(run.stdout)["operators"]
    newest = max(v for op in ours if not op["domain"] for v in op["versions"])
    if onnx.defs.onnx_opset_version() < newest:
        print(f"SKIPPED: onnx {onnx.__version__} knows opsets up to "
              f"{onnx.defs.onnx_opset_version()}, we up to {newest}")
        return 77
    used, failures, count = set(), 0, 0
    for name, text in differences(ours):
        full = f"{name}: {text}"
        glob = next((g for g in known if fnmatch.fnmatchcase(full, g)), None)
        if glob is None:
            print(full)
            failures += 1
        else:
            used.add(glob)
            count += 1
    for glob in sorted(set(known) - used):
        print(f"schema_differences.txt: nothing differs like '{glob}' any more")
        failures += 1
    print(f"{len(ours)} operators, {count} listed differences, {failures} others")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
