#!/usr/bin/env python3
"""The shared libraries that a program needs, beside it: for the tarball, the OCI image and the wheel.

glibc and the C++ runtime stay the system's: GPU drivers bring their own needs of these, and each system with glibc 2.36 has a newer
C++ runtime than the programs ask for. Needs patchelf and strip; names and licences are dpkg's."""
import os
import pathlib
import re
import shutil
import subprocess

SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)|linux-vdso)\.so\..*")


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def needed(files):
    """By name as the linker knows it: the path of each library that the files need and the system does not have for sure."""
    found = {}
    for file in files:
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", file), re.M):
            if not SYSTEM.fullmatch(name):
                found[name] = pathlib.Path(path)
    return dict(sorted(found.items()))


def package_of(path):
    """(name, version) of Debian's package."""
    for p in (path, path.resolve()):
        for alias in (str(p), re.sub(r"^/usr/lib/", "/lib/", str(p)), re.sub(r"^/lib/", "/usr/lib/", str(p))):
            done = subprocess.run(["dpkg", "-S", alias], capture_output=True, text=True)
            if done.returncode == 0:
                name = done.stdout.split(":")[0]
                return name, run("dpkg-query", "-W", "-f", "${Version}", done.stdout.split(": ")[0]).strip()
    raise SystemExit(f"bundle: {path} is of no package: its licence is not known")


def bundle(files, own, libraries, licences):
    """Copies what `files` (in place: programs, libraries) need into `libraries`, sets their search paths, strips them, and puts
    copyright files into `licences`. `own`: names that are ours. Returns (file name, package, version) of each."""
    libraries.mkdir(parents=True, exist_ok=True)
    licences.mkdir(parents=True, exist_ok=True)
    made = []
    for name, path in needed(files).items():
        if name in own:
            continue
        package, version = package_of(path)
        shutil.copy(path.resolve(), libraries / name)
        os.chmod(libraries / name, 0o644)
        run("strip", "--strip-unneeded", libraries / name)
        run("patchelf", "--set-rpath", "$ORIGIN", libraries / name)
        shutil.copy(f"/usr/share/doc/{package}/copyright", licences / package)
        made.append((name, package, version))
    for file in files:
        run("strip", "--strip-unneeded", file)
        away = os.path.relpath(libraries, file.parent)
        run("patchelf", "--set-rpath", "$ORIGIN" if away == "." else f"$ORIGIN/{away}", file)
    return made


def licences_named(file):
    """Short names of the licences in a copyright file of Debian's machine-readable form; of another form: none."""
    names = set(re.findall(r"^License: *(\S[^\n]*)", file.read_text(errors="replace"), re.M))
    return sorted(n.strip() for n in names)


def bill_of_materials(name, version, made, licences, created):
    """SPDX 2.3 (spdx.github.io/spdx-spec/v2.3) of a package with bundled libraries."""
    def package(identifier, title, number, declared, comment=None):
        p = {"SPDXID": identifier, "name": title, "versionInfo": number, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
             "licenseConcluded": "NOASSERTION", "licenseDeclared": declared, "copyrightText": "NOASSERTION"}
        return {**p, "licenseComments": comment} if comment else p

    packages = [package("SPDXRef-main", name, version, "Apache-2.0")]
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-main"}]
    for file, title, number in made:
        identifier = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", file)
        named = ", ".join(licences_named(licences / title))
        packages.append({**package(identifier, title, number, "NOASSERTION", f"Debian's copyright file: {named}" if named else None),
                         "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                           "referenceLocator": f"pkg:deb/debian/{title}@{number}"}]})
        relations.append({"spdxElementId": "SPDXRef-main", "relationshipType": "CONTAINS", "relatedSpdxElement": identifier})
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{name}-{version}",
            "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{version}-{created}",
            "creationInfo": {"created": created, "creators": [f"Tool: {name}"]}, "packages": packages, "relationships": relations}
