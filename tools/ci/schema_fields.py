#!/usr/bin/env python3
"""Every field of docs/schemas has a description, and docs/json-fields.md lists them.

usage: schema_fields.py [--write]

--write makes docs/json-fields.md anew. Exits 1 where a description is missing or the page is old."""
import json
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "json-fields.md"
HEAD = """# Fields of the JSON reports

Written by `tools/ci/schema_fields.py --write` from the [schemas](schemas). `a.b` is field b of a; `[]` an entry of a list. What several
reports share stands once, at the end.
"""


def kind_of(field, shared):
    if "$ref" in field:
        name = field["$ref"].split("/")[-1]
        part = shared.get(name, {})
        return f"[{name}](#{name})" if list(fields(part, shared)) or list(inside(part, "", shared)) else kind_of(part, shared)
    options = field.get("anyOf", field.get("oneOf"))
    if options:
        return " or ".join(kind_of(o, shared) for o in options)
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join("null" if x is None else f"`{x}`" if x != "" else '`""`' for x in field["enum"])
    kind = field.get("type", "any")
    kind = " or ".join(kind) if isinstance(kind, list) else kind
    item = field.get("items")
    return f"list of {kind_of(item, shared)}" if kind == "array" and item and ("$ref" in item or "properties" not in item) else kind


def fields(schema, shared, path=""):
    """(path, kind, description) of every field, in order; those of definitions not."""
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, kind_of(field, shared), field.get("description", "")
        yield from inside(field, here, shared)
    if path == "" and schema.get("type") == "array":
        yield from inside(schema, "", shared)


def inside(field, path, shared):
    if "properties" in field:
        yield from fields(field, shared, path)
    for part in field.get("anyOf", []) + field.get("oneOf", []):
        yield from inside(part, path, shared)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(field.get(key), dict):
            yield from inside(field[key], path + mark, shared)


def table(rows):
    out = "| field | type | |\n|---|---|---|\n"
    for path, kind, text in rows:
        out += f"| `{path}` | {kind} | {text.replace('|', chr(92) + '|')} |\n"
    return out


def main():
    page, shared, missing = HEAD, {}, []
    for path in sorted((DOCS / "schemas").glob("*.json")):
        schema = json.loads(path.read_text())
        defs = schema.get("$defs", {})
        rows = list(fields(schema, defs))
        page += f"\n## {schema.get('title', path.stem)}\n\n{table(rows)}"
        for name, part in defs.items():
            mine = list(fields(part, defs)) or list(inside(part, "", defs))
            rows += [(f"{name}.{p}", k, t) for p, k, t in mine]
            if mine:
                shared.setdefault(name, {}).setdefault(table(mine), []).append(schema.get("title", path.stem))
        missing += [f"{path.name}: {p}" for p, _, text in rows if not text]
    page += "\n## Shared\n"
    for name, forms in sorted(shared.items()):
        for text, users in forms.items():
            of = "" if len(forms) == 1 else f"In {', '.join(users)}:\n\n"
            page += f"\n### {name}\n\n{of}{text}"
    for line in missing:
        print(f"no description: {line}")
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        print("docs/json-fields.md is old: tools/ci/schema_fields.py --write")
        return 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
