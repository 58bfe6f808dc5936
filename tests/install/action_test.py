#!/usr/bin/python3
"""The steps of tools/packaging/action, as a runner of GitHub would run them, on the demo model.

usage: action_test.py BUILD SOURCE"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def steps(text):
    """The scripts below `run: |`, in order."""
    found = []
    for match in re.finditer(r"^( +)run: \|\n((?:\1  .*\n|\n)+)", text, re.M):
        indent = len(match[1]) + 2
        found.append("".join(line[indent:] or "\n" for line in match[2].splitlines(keepends=True)))
    return found


def main():
    build, source = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
    if not shutil.which("patchelf"):
        print("skipped: the tarball needs patchelf")
        return 77
    install, work_step = steps((source / "tools/packaging/action/action.yml").read_text())
    with tempfile.TemporaryDirectory() as work:
        made = subprocess.run([sys.executable, source / "tools/packaging/tarball.py", build, work], check=True, capture_output=True, text=True)
        tarball = made.stdout.split()[0]
        demo = source / "datasets/demo"
        env = {"PATH": "/usr/bin:/bin", "HOME": work, "RUNNER_TEMP": work + "/temp", "GITHUB_PATH": work + "/path",
               "GITHUB_STEP_SUMMARY": work + "/summary.md", "TARBALL": tarball,
               "SHA256": hashlib.sha256(pathlib.Path(tarball).read_bytes()).hexdigest(), "MODEL": str(demo / "digits.onnx"),
               "DATA": str(demo / "eval_images.npy"), "OUT": work + "/out", "BUDGET": "5", "OMP_WAIT_POLICY": "passive",
               "OPTIONS": f"--labels {demo}/eval_labels.csv --preprocess resize=32,interp=nearest,scale=1/255,layout=nchw --max-drop 2%"}
        os.mkdir(env["RUNNER_TEMP"])
        wrong = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", install], env={**env, "SHA256": "0" * 64}, capture_output=True)
        assert wrong.returncode != 0 and not os.path.exists(env["GITHUB_PATH"])
        subprocess.run(["bash", "-e", "-o", "pipefail", "-c", install], env=env, check=True)
        env["PATH"] = pathlib.Path(env["GITHUB_PATH"]).read_text().strip() + ":" + env["PATH"]
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", work_step], env=env, capture_output=True, text=True, cwd=work)
        summary = pathlib.Path(env["GITHUB_STEP_SUMMARY"]).read_text()
        print(done.returncode, summary)
        # Whether INT8 is faster is the machine's; the gate on accuracy is not.
        assert "Accuracy: the gate passes." in summary, done.stderr
        assert os.path.exists(env["OUT"] + "/int8.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
