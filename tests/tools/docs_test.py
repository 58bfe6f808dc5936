#!/usr/bin/python3
"""The documents keep their word: commands in ```sh boxes run, links and anchors lead somewhere, options that are named exist.

Run by ctest with INFER_BIN (the folder of the binaries) and INFER_SOURCE (the repository)."""
import os
import re
import subprocess
import sys
import unittest

from tool_test_case import BIN, SOURCE, CliTestCase

PAGES = [p for p in [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", SOURCE / "datasets/README.md",
                     *sorted((SOURCE / "docs").rglob("*.md"))]]
# Of other programs, or of our scripts.
FOREIGN = {"--preset", "--build", "--install", "--prefix", "--test-dir", "--output-on-failure"}


def boxes(page):
    """The commands of the page's ```sh boxes."""
    return [line for box in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.M | re.S) for line in box.splitlines()
            if line.strip()]


def anchors(page):
    """As GitHub makes them of headings."""
    out = set()
    for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower().strip()
        out.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return out


class Docs(CliTestCase):
    def test_commands_run(self):
        ran = 0
        env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "OMP_WAIT_POLICY": "passive"}
        for page in PAGES:
            for command in boxes(page):
                with self.subTest(page=page.name, command=command):
                    here = command.replace("/tmp/", f"{self.dir}/")
                    done = subprocess.run(["bash", "-euo", "pipefail", "-c", here], cwd=SOURCE, env=env,
                                          capture_output=True, text=True, timeout=600)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    ran += 1
        self.assertGreater(ran, 8)

    def test_links_lead_somewhere(self):
        for page in PAGES:
            text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                if re.match(r"[a-z]+:", target):
                    continue
                with self.subTest(page=page.name, target=target):
                    path, _, anchor = target.partition("#")
                    there = (page.parent / path).resolve() if path else page
                    self.assertTrue(there.exists(), there)
                    if anchor and there.suffix == ".md":
                        self.assertIn(anchor, anchors(there))

    def test_options_exist(self):
        """`infer-opt CMD ... --option` and `infer-bench CMD ... --option` in the pages for newcomers."""
        known = {}
        for page in [SOURCE / "README.md", SOURCE / "docs/getting-started.md", SOURCE / "docs/cookbook.md"]:
            for tool, command, rest in re.findall(r"(infer-opt|infer-bench) ([a-z]+) ([^\n`|]*)", page.read_text()):
                if (tool, command) not in known:
                    shown = subprocess.run([str(BIN / tool), command, "--help-all"], capture_output=True, text=True)
                    if shown.returncode:
                        continue  # a sentence, not a command
                    known[tool, command] = set(re.findall(r"--[a-z][a-z0-9-]*", shown.stdout))
                for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", rest):
                    if option not in FOREIGN:
                        self.assertIn(option, known[tool, command], f"{page.name}: {tool} {command}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=2)
