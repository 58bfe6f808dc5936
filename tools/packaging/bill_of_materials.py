"""SPDX 2.3 (spdx.github.io/spdx-spec/v2.3) of a package with bundled libraries."""
import hashlib
import json
import re


def licences_named(text):
    """Short names of the licences in a copyright file of Debian's machine-readable form; of another form: none."""
    return sorted({n.strip() for n in re.findall(r"^License: *(\S[^\n]*)", text, re.M)})


def package(identifier, name, version, declared):
    return {"SPDXID": identifier, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": declared, "copyrightText": "NOASSERTION"}


def bill_of_materials(name, version, bundled, created):
    """`bundled`: bundle.Bundle; `created`: as 2026-01-31T12:00:00Z."""
    packages = [package("SPDXRef-main", name, version, "Apache-2.0")]
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-main"}]
    for other, number in bundled.packages.items():
        identifier = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", other)
        entry = {**package(identifier, other, number, "NOASSERTION"),
                 "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                   "referenceLocator": f"pkg:deb/debian/{other}@{number}"}]}
        named = licences_named(bundled.licences[f"{other}/copyright"].decode(errors="replace"))
        if named:
            entry["licenseComments"] = "Debian's copyright file: " + ", ".join(named)
        packages.append(entry)
        relations.append({"spdxElementId": "SPDXRef-main", "relationshipType": "CONTAINS", "relatedSpdxElement": identifier})
    unique = hashlib.sha256(json.dumps(packages).encode() + b"".join(bundled.files.values())).hexdigest()[:16]
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{name}-{version}",
            "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{version}-{unique}",
            "creationInfo": {"created": created, "creators": [f"Tool: {name}"]}, "packages": packages, "relationships": relations}
