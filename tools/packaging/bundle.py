"""Programs and libraries of ELF with the shared libraries that they need beside them, under names of their own.

Each library is renamed after its bytes (libdnnl-1a2b3c4d.so.2), so that a process that has loaded another one of the same name, as a
module with its own oneDNN or OpenMP has, keeps both apart. They find each other by RUNPATH from $ORIGIN."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
from typing import Dict, NamedTuple, Tuple

# What every system with a new enough glibc has; PEP 600 leaves these out, too.
SYSTEM = re.compile(r"^(linux-vdso|ld-linux-.*|libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)\.so")
# Packages of headers that are compiled in.
HEADERS = ("libeigen3-dev", "nlohmann-json3-dev", "libcli11-dev")
DOCS, COMMON = pathlib.Path("/usr/share/doc"), pathlib.Path("/usr/share/common-licenses")


class Missing(Exception):
    """A tool, library or licence that is not here."""


class Bundle(NamedTuple):
    files: Dict[str, bytes]     # by path in the wheel, tarball, image
    licences: Dict[str, bytes]  # by path below a folder of licences
    packages: Dict[str, str]    # where libraries and headers come from -> their versions
    glibc: Tuple[int, int]      # the oldest that has what they call


def output_of(*command):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise Missing(f"{command[0]} is not installed") from None
    except subprocess.CalledProcessError as e:
        raise Missing(f"{' '.join(map(str, command))}: {e.stderr.strip()}") from None


def needed(path):
    """Names of libraries -> their paths, of all that a file needs, its libraries' libraries too."""
    found = {}
    for line in output_of("ldd", path).splitlines():
        name, _, target = line.strip().partition(" => ")
        if SYSTEM.match(os.path.basename(name.split()[0])):
            continue
        if not target.startswith("/"):
            raise Missing(f"{path} needs {line.strip()}")
        found[name] = target.split()[0]
    return found


def new_name(name, path):
    stem, _, rest = name.partition(".so")
    return f"{stem}-{hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:8]}.so{rest}"


def package_of(path):
    """The Debian package that a library comes from, also where / has links to /usr."""
    for spelled in (path, os.path.realpath(path), "/usr" + path, path.removeprefix("/usr")):
        ran = subprocess.run(["dpkg", "-S", spelled], capture_output=True, text=True)
        if ran.returncode == 0:
            return ran.stdout.split(":")[0]
    raise Missing(f"{path} comes from no Debian package, so that its licence is not known")


def version_of(package):
    return output_of("dpkg-query", "-W", "-f", "${Version}\\n", package).split()[0]


def licences_of(packages):
    """Their copyright files, and the texts of licences that these refer to."""
    texts = {}
    for package in sorted(packages):
        path = DOCS / package / "copyright"
        if not path.exists():
            raise Missing(f"{path}: the licence of {package} is not here")
        texts[f"{package}/copyright"] = path.read_bytes()
    named = {m.decode() for text in texts.values() for m in re.findall(rb"/usr/share/common-licenses/([\w.+-]*\w)", text)}
    for name in sorted(named):
        if (COMMON / name).exists():
            texts[f"common-licenses/{name}"] = (COMMON / name).read_bytes()
    return texts


def rename(path, names, soname, runpath):
    """One change per call: several in one mix up the strings of patchelf 0.14."""
    if soname:
        output_of("patchelf", "--set-soname", soname, path)
    wanted = [names.get(old, old) for old in needed_by(path)]
    for old in needed_by(path):
        if old in names:
            output_of("patchelf", "--replace-needed", old, names[old], path)
    output_of("patchelf", "--set-rpath", runpath, path)
    if needed_by(path) != wanted or output_of("patchelf", "--print-rpath", path).strip() != runpath:
        raise Missing(f"patchelf did not change {path} as it should")


def needed_by(path):
    return output_of("patchelf", "--print-needed", path).split()


def glibc_of(paths):
    """The newest that they call, or that distributions with their libstdc++ have: 3.4.30 is GCC 12's, of Ubuntu 22.04 and Debian 12."""
    versions = [(2, 17)]
    for path in paths:
        symbols = output_of("objdump", "-T", path)
        versions += [tuple(map(int, v)) for v in re.findall(r"\bGLIBC_(\d+)\.(\d+)", symbols)]
        versions += [(2, 35) for v in re.findall(r"\bGLIBCXX_3\.4\.(\d+)", symbols) if int(v) == 30]
        versions += [(2, 38) for v in re.findall(r"\bGLIBCXX_3\.4\.(\d+)", symbols) if int(v) > 30]
    return max(versions)


def made(targets, folder, work):
    """targets: path in what is made -> file. folder: there, for the libraries."""
    work, libraries = pathlib.Path(work), {}
    for path in targets.values():
        libraries.update(needed(path))
    names = {old: new_name(old, path) for old, path in libraries.items()}
    copies = {where: (path, None) for where, path in targets.items()}
    copies.update({f"{folder}/{names[old]}": (path, names[old]) for old, path in libraries.items()})
    for where, (path, soname) in copies.items():
        out = work / where
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, out)
        out.chmod(0o755)
        output_of("strip", "--strip-unneeded", out)
        relative = os.path.relpath(folder, os.path.dirname(where))
        rename(out, names, soname, "$ORIGIN" if relative == "." else f"$ORIGIN/{relative}")
    packages = {package_of(path) for path in libraries.values()} | set(HEADERS)
    return Bundle({where: (work / where).read_bytes() for where in copies}, licences_of(packages),
                  {package: version_of(package) for package in sorted(packages)}, glibc_of(work / w for w in copies))
