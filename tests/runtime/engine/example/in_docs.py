#!/usr/bin/python3
"""docs/engine.md shows the example as it is compiled."""
import pathlib
import sys

root = pathlib.Path(__file__).resolve().parents[4]
code = (pathlib.Path(__file__).parent / "example.cc").read_text()
shown = (root / "docs/engine.md").read_text()
if "```cpp\n" + code + "```\n" not in shown:
    sys.exit("docs/engine.md: its example is not tests/runtime/engine/example/example.cc")
