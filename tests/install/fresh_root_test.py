#!/usr/bin/python3
"""What is released, in roots that have nothing of it: the packages in Debian 12, the tarball, the wheel and the image elsewhere.

usage: fresh_root_test.py deb|portable|image BUILD SOURCE

deb: `apt install ./infer-opt*.deb` in Debian 12, the README's three commands, the programs of docs/library.md in C and C++ against the
-dev package. portable: the tarball and the wheel (in a virtual environment) in Debian 13, whose libraries have other versions.
image: the OCI image's only layer. Each is built twice with the same bytes. 77, with the reason in print, where no root can be made."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from roots import fresh_root, inside, missing

LIMIT = 60_000_000  # bytes of the image


def run(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, **more).stdout


def built(command, work, pattern):
    """Files that the command writes into an empty folder, the same twice."""
    folders = [pathlib.Path(work, f"built{k}") for k in (1, 2)]
    for folder in folders:
        folder.mkdir()
        command(folder)
    files = [sorted(p for p in f.glob(pattern) if p.is_file()) for f in folders]
    assert files[0] and len(files[0]) == len(files[1]), pattern
    for a, b in zip(*files):
        assert a.read_bytes() == b.read_bytes(), f"{a.name}: two builds differ"
        print(a.name, a.stat().st_size, "bytes, twice the same")
    return files[0]


def readme_commands(root, source, prefix=""):
    """On the demo model, whose pictures are .npy files, with the gate on."""
    demo = pathlib.Path(source, "datasets/demo")
    shutil.copytree(demo, os.path.join(root, "demo"))
    prepared = ["--preprocess", "resize=32,interp=nearest,scale=1/255,layout=nchw"]
    print(inside(root, prefix + "infer-opt", "fuse", "/demo/digits.onnx", "-o", "fused.onnx").splitlines()[-1])
    print(inside(root, prefix + "infer-opt", "quantize", "/demo/digits.onnx", "-o", "int8.onnx", "--calib", "/demo/calib_images.npy", "--eval",
                 "/demo/eval_images.npy", "--eval-labels", "/demo/eval_labels.csv", *prepared, "--max-drop", "1%").splitlines()[-1])
    compared = inside(root, prefix + "infer-bench", "compare", "fused.onnx", "int8.onnx", "--set", "batch=1", "--threads", "1", "--budget", "5",
                      "--allow-inconclusive")
    print(compared.splitlines()[-1])


def deb(build, source, work):
    def packages(folder):
        env = dict(os.environ, SOURCE_DATE_EPOCH="1700000000")
        run("cpack", "-G", "DEB", "-B", folder, cwd=build, env=env)
    made = built(packages, work, "*.deb")
    if not shutil.which("lintian"):
        print("lintian is not here: the packages are not linted")
    for linted in made if shutil.which("lintian") else ():
        # The maintainer is who builds (INFER_MAINTAINER); nobody's address stands in the sources.
        done = subprocess.run(["lintian", "--fail-on", "error", "--suppress-tags", "bogus-mail-host,bogus-mail-host-in-debian-changelog",
                               str(linted)], capture_output=True, text=True)
        print(done.stdout.strip() or "lintian: clean")
        assert done.returncode == 0, linted
    with fresh_root("bookworm", work + "/root") as root:
        for path in made:
            shutil.copy(path, root + "/" + path.name)
        inside(root, "apt-get", "update", "-qq")
        inside(root, "apt-get", "install", "-y", "-qq", *("/" + p.name for p in made if "-dev" not in p.name))
        readme_commands(root, source)
        assert "infer-opt-fuse" in inside(root, "sh", "-c", "ls /usr/share/man/man1 /usr/share/bash-completion/completions")
        inside(root, "apt-get", "install", "-y", "-qq", "gcc", "g++", "pkg-config", *("/" + p.name for p in made if "-dev" in p.name))
        text = pathlib.Path(source, "docs/library.md").read_text()
        for language, suffix, compiler in (("c", "c", "gcc -std=c11"), ("cpp", "cc", "g++ -std=c++20")):
            program = re.search(rf"```{language}\n(.*?)```", text, re.S)[1]
            pathlib.Path(root, "tmp/example." + suffix).write_text(program)
            inside(root, "sh", "-c", f"{compiler} example.{suffix} -o example $(pkg-config --cflags --libs infer) -lm")
            print(language, inside(root, "./example", "/demo/digits.onnx").splitlines()[-1])


def portable(build, source, work):
    packaging = os.path.join(source, "tools/packaging")
    [tarball] = built(lambda out: run(sys.executable, packaging + "/tarball.py", build, out), work, "*.tar.gz")
    parts = [os.path.join(build, part) for part in ("lib/libinfer.so", "bin/infer-bench")]
    wheel = pathlib.Path(run(sys.executable, packaging + "/python/build_wheel.py", *parts, work).strip())
    with fresh_root("trixie", work + "/root", ["python3-venv"]) as root:
        run("tar", "xzf", tarball, "-C", root + "/opt")
        [folder] = pathlib.Path(root, "opt").iterdir()
        readme_commands(root, source, f"/opt/{folder.name}/bin/")
        bill = json.loads((folder / "share/doc/infer-opt/bill-of-materials.spdx.json").read_text())
        libraries = [p.name for p in (folder / "lib").iterdir()]
        assert len(bill["packages"]) > len(libraries) > 5, (libraries, bill)
        shutil.copy(wheel, root + "/" + wheel.name)
        inside(root, "python3", "-m", "venv", "/venv")
        inside(root, "/venv/bin/pip", "install", "-q", "--no-index", "/" + wheel.name)
        program = ("import array, infer_opt; m = infer_opt.Model('/demo/digits.onnx').fuse(); s = infer_opt.Session(m); "
                   "x = memoryview(array.array('f', [0] * 1024)).cast('B').cast('f', [1, 1, 32, 32]); "
                   "print(s.run(x)[0].shape, infer_opt.bench('/demo/digits.onnx', batch=1, max_time=1).runs > 0, [l.split()[-1] for l in open('/proc/self/maps') if 'libdnnl' in l][0])")
        said = inside(root, "/venv/bin/python", "-c", program)
        print(said.strip())
        assert said.startswith("(1, 10) True") and "/venv/" in said


def image(build, source, work):
    tool = os.path.join(source, "tools/packaging/oci/image.py")
    files = built(lambda out: run(sys.executable, tool, build, out / "oci"), work, "oci/**/*")
    layout = pathlib.Path(work, "built1/oci")
    size = sum(p.stat().st_size for p in files)
    assert size <= LIMIT, size
    if shutil.which("skopeo"):
        assert json.loads(run("skopeo", "inspect", f"oci:{layout}:latest"))["Os"] == "linux"
    manifest = json.loads((layout / "blobs/sha256" / json.loads((layout / "index.json").read_text())["manifests"][0]["digest"][7:]).read_text())
    root = pathlib.Path(work, "root")
    root.mkdir()
    run("tar", "xzf", layout / "blobs/sha256" / manifest["layers"][0]["digest"][7:], "-C", root)
    (root / "dev").mkdir()  # as every container has it
    run("mknod", root / "dev/null", "c", "1", "3")
    shutil.copytree(os.path.join(source, "datasets/demo"), root / "demo")
    for arguments in (["infer-opt", "fuse", "/demo/digits.onnx", "-o", "/tmp/fused.onnx"],
                      ["infer-opt", "quantize", "/demo/digits.onnx", "-o", "/tmp/int8.onnx", "--data", "/demo/eval_images.npy", "--labels",
                       "/demo/eval_labels.csv", "--preprocess", "resize=32,interp=nearest,scale=1/255,layout=nchw", "--max-drop", "2%"],
                      ["infer-bench", "run", "/tmp/fused.onnx", "--set", "batch=1"]):
        print(run("chroot", root, "/usr/bin/" + arguments[0], *arguments[1:]).splitlines()[-1])


def main():
    why = missing()
    if why:
        print("skipped: " + why)
        return 77
    with tempfile.TemporaryDirectory() as work:
        {"deb": deb, "portable": portable, "image": image}[sys.argv[1]](*(os.path.abspath(a) for a in sys.argv[2:4]), work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
