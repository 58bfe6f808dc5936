#!/usr/bin/python3
"""Manual pages and completions: complete, without a complaint of the programs that read them, and driven in the shells themselves.

Shells and readers that are not here are named in print and left out. Run by ctest with INFER_BIN and INFER_SOURCE."""
import os
import re
import shutil
import subprocess
import sys
import unittest

from tool_test_case import BIN, DEMO, CliTestCase

TOOLS = ["infer-opt", "infer-bench"]

# What bash hands to a completion function, its words broken as bash breaks them.
DRIVE = r"""
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_infer_opt
printf '%s\n' "${COMPREPLY[@]}"
"""


def here(program):
    found = shutil.which(program)
    if not found:
        print(f"{program} is not here: not checked")
    return found


class Manual(CliTestCase):
    def commands(self, tool):
        shown = self.expect(0, tool, "--help").stdout
        return re.findall(r"^  ([a-z]+) ", shown[shown.index("Commands:"):shown.index("Options:")], re.M)

    def pages(self):
        for tool in TOOLS:
            self.expect(0, tool, "help", "--man", self.dir / "man", env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
        return {p.name[:-2]: p.read_text() for p in sorted((self.dir / "man").glob("*.1"))}

    def test_every_command_has_a_page_with_every_option(self):
        pages = self.pages()
        for tool in TOOLS:
            self.assertIn('"2023-11-14"', pages[tool])
            for command in self.commands(tool):
                page = pages[f"{tool}-{command}"].replace("\\-", "-").replace("\\fB", "").replace("\\fR", "")
                self.assertIn(f"{tool}-{command}(1)", pages[tool].replace("\\-", "-").replace("\\fB", "").replace("\\fR", ""))
                shown = self.expect(0, tool, command, "--help-all").stdout
                for option in re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", shown, re.M):
                    self.assertIn(option, page, f"{tool} {command}")
                for part in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"]:
                    self.assertIn(f".SH {part}\n", page)
        self.assertEqual(len(pages), sum(len(self.commands(tool)) + 1 for tool in TOOLS))

    def test_readers_do_not_complain(self):
        self.pages()
        pages = sorted((self.dir / "man").glob("*.1"))
        env = {**os.environ, "LC_ALL": "C.UTF-8", "MANROFFSEQ": "", "MANWIDTH": "80"}
        if here("man"):
            for page in pages:
                done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page], env=env, capture_output=True,
                                      text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), page.name)
        if here("mandoc"):
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *pages], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (0, ""))
        if here("lexgrog"):
            done = subprocess.run(["lexgrog", *pages], capture_output=True, text=True)
            self.assertEqual(done.stdout.count(" - "), len(pages), done.stdout)

    def test_pages_say_what_they_were_told(self):
        """A line that begins with a dot, backslashes and quotes of examples come out as they went in."""
        self.pages()
        if not here("man"):
            return
        env = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "200"}
        text = subprocess.run(["man", "-l", self.dir / "man/infer-opt-fuse.1"], env=env, capture_output=True, text=True).stdout
        self.assertIn("infer-opt fuse model.onnx -o fused.onnx --disable 'fuse-gelu*' --json fuse.json", text)
        self.assertIn("-o, --output FILE", text)

    def script(self, tool, shell):
        path = self.dir / f"{tool}.{shell}"
        path.write_text(self.expect(0, tool, "completion", shell).stdout)
        return path

    def bash(self, *words):
        done = subprocess.run(["bash", "-c", DRIVE, "drive", self.script("infer-opt", "bash"), "infer-opt", *words], cwd=DEMO,
                              capture_output=True, text=True)
        self.assertEqual(done.stderr, "", words)
        return done.stdout.split()

    def test_bash(self):
        self.assertEqual(self.bash("qu"), ["quantize"])
        self.assertEqual(set(self.commands("infer-opt")) - set(self.bash("")), set())
        self.assertEqual(self.bash("help", "fu"), ["fuse"])
        self.assertEqual(self.bash("completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(self.bash("fuse", "--rew"), ["--rewrites"])
        self.assertIn("--lenient", self.bash("fuse", "--le"))  # of --help-all alone
        self.assertEqual(self.bash("fuse", "m.onnx", "--rewrites", ""), ["none", "simplify", "fuse", "blocks"])
        self.assertEqual(self.bash("fuse", "--rewrites", "=", "s"), ["simplify"])
        self.assertEqual(self.bash("fuse", "--rewrites", "="), ["none", "simplify", "fuse", "blocks"])
        self.assertEqual(self.bash("fuse", "--rewrites=s"), ["--rewrites=simplify"])  # where "=" breaks no words
        self.assertEqual(self.bash("run", "--device", "r"), ["reference"])
        self.assertEqual(self.bash("fuse", "dig"), ["digits.onnx"])
        self.assertEqual(self.bash("run", "m.onnx", "--input", "image", "=", "dig"), ["digits.onnx"])
        self.assertEqual(self.bash("fuse", "--threads", ""), [])
        self.assertEqual(self.bash("fuse", "--output", "dig"), ["digits.onnx"])
        self.assertEqual(self.bash("rules", "t"), ["test"])
        self.assertEqual(self.bash("none-such", ""), [])
        (self.dir / "of images").mkdir()
        (self.dir / "other.txt").write_text("")
        self.assertEqual(self.bash("run", "--output-dir", f"{self.dir}/o"), f"{self.dir}/of images".split())

    def test_zsh(self):
        for tool in TOOLS:
            path = self.script(tool, "zsh")
            self.assertTrue(path.read_text().startswith(f"#compdef {tool}\n"))
            if here("zsh"):
                subprocess.run(["zsh", "-f", "-n", path], check=True)

    def test_fish(self):
        for tool in TOOLS:
            path = self.script(tool, "fish")
            if not here("fish"):
                continue
            subprocess.run(["fish", "--no-execute", path], check=True)
            if tool != "infer-opt":
                continue
            for line, wanted in [("qu", ["quantize"]), ("fuse --rew", ["--rewrites"]),
                                 ("fuse --rewrites ", ["blocks", "fuse", "none", "simplify"]), ("fuse dig", ["digits.onnx"]),
                                 ("help fu", ["fuse"]), ("completion z", ["zsh"])]:
                env = {**os.environ, "HOME": str(self.dir), "XDG_CONFIG_HOME": str(self.dir)}
                done = subprocess.run(["fish", "-N", "-c", f"source {path}; complete -C '{tool} {line}'"], cwd=DEMO, env=env,
                                      capture_output=True, text=True)
                self.assertEqual([x.split("\t")[0] for x in done.stdout.splitlines()], wanted, done.stderr)

    def test_usage(self):
        self.assertIn("did you mean fish?", self.expect(2, "infer-opt", "completion", "fisch").stderr)
        self.assertIn("a shell is missing", self.expect(2, "infer-bench", "completion").stderr)
        self.assertIn("Usage: infer-opt completion SHELL", self.expect(0, "infer-opt", "help", "completion").stdout)
        self.assertIn("Usage: infer-opt completion SHELL", self.expect(0, "infer-opt", "completion", "-h").stdout)
        self.expect(2, "infer-opt", "help", "--man")
        (self.dir / "file").write_text("")
        self.expect(5, "infer-opt", "help", "--man", self.dir / "file/man")

    def test_device_is_told(self):
        """It was missing in --help, and in the names that a misspelt option is compared with."""
        self.assertIn("--device", self.expect(0, "infer-opt", "run", "--help").stdout)
        self.assertIn("did you mean --device?", self.expect(2, "infer-opt", "run", "x", "--devise", "cpu").stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=2)
