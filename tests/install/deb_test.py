#!/usr/bin/python3
"""The Debian packages, twice from one build with the same bytes; unpacked, they run. fresh_root_test.py installs them.

usage: deb_test.py BUILD MODEL"""
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile


def run(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, **more).stdout


def packages(build, folder):
    env = dict(os.environ, SOURCE_DATE_EPOCH="1700000000")
    run("cpack", "-G", "DEB", "-B", folder, cwd=build, env=env)
    return {p.name: p for p in sorted(pathlib.Path(folder).glob("*.deb"))}


def main():
    build, model = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as work:
        first, second = packages(build, work + "/1"), packages(build, work + "/2")
        assert len(first) == 3, list(first)
        for name, path in first.items():
            same = path.read_bytes() == second[name].read_bytes()
            print(name, path.stat().st_size, "bytes", hashlib.sha256(path.read_bytes()).hexdigest()[:16],
                  run("dpkg-deb", "-f", path, "Depends").strip())
            assert same, f"{name}: two builds differ"
            run("dpkg-deb", "-x", path, work + "/unpacked")
        library = next(pathlib.Path(work, "unpacked/usr/lib").rglob("libinfer.so.0"))
        env = dict(os.environ, LD_LIBRARY_PATH=str(library.parent))
        print(run(work + "/unpacked/usr/bin/infer-opt", "inspect", model, env=env).splitlines()[0])
        share = pathlib.Path(work, "unpacked/usr/share")
        for path in ["man/man1/infer-opt-fuse.1.gz", "man/man1/infer-bench.1.gz", "bash-completion/completions/infer-opt",
                     "zsh/vendor-completions/_infer-bench", "fish/vendor_completions.d/infer-opt.fish"]:
            assert (share / path).is_file(), path
        assert run("nm", "-D", "--defined-only", library).count(" infer_") >= 20
    return 0


if __name__ == "__main__":
    sys.exit(main())
