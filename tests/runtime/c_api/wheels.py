"""The wheel of this build, and venvs that it is installed in."""
import os
import re
import subprocess
import sys

SYSTEM = re.compile(r"^(linux-vdso|ld-linux|libc\.|libm\.|libdl\.|librt\.|libpthread\.|libstdc\+\+|libgcc_s)")


def built(folder):
    builder = os.path.join(os.environ["INFER_SOURCE"], "tools/packaging/python/build_wheel.py")
    bench = os.path.join(os.environ["INFER_BIN"], "infer-bench")
    return subprocess.run([sys.executable, builder, os.environ["INFER_LIBRARY"], bench, folder], check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip()


def clean():
    """The environment without what names the build's files."""
    return {k: v for k, v in os.environ.items() if k not in ("INFER_LIBRARY", "INFER_BENCH", "PYTHONPATH", "LD_LIBRARY_PATH")}


def installed(wheel, folder, *options):
    """The Python of a new venv that has the wheel."""
    subprocess.run([sys.executable, "-m", "venv", *options, folder], check=True)
    python = os.path.join(folder, "bin", "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", wheel], check=True, env=clean())
    return python
