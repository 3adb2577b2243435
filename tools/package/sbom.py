"""What is inside the packages: a CycloneDX list (JSON, checked against its schema), and the licence texts in one file.

Nothing is listed by hand but licence names: archives are read from the link command and looked up in dpkg's data base, headers in
the table below, crates in cargo's metadata, the page's libraries in its lock file.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.output.json import JsonV1Dot5
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# Packages of which only headers are compiled in; archives are found by themselves.
HEADERS = ["libboost1.81-dev", "nlohmann-json3-dev", "libfmt-dev", "libcli11-dev", "libxxhash-dev"]
TOOLCHAIN = ["libstdc++-12-dev"]  # -static-libstdc++
# SPDX's names of what the packages' copyright files say. A package that is not here stops the build: read its file.
LICENCES = {
    "libssl-dev": "Apache-2.0", "libsqlite3-dev": "blessing", "libyaml-cpp-dev": "MIT", "libedit-dev": "BSD-3-Clause", "libgif-dev": "MIT",
    "libjpeg62-turbo-dev": "IJG AND BSD-3-Clause AND Zlib", "libpng-dev": "libpng-2.0", "libwebp-dev": "BSD-3-Clause", "zlib1g-dev": "Zlib",
    "libbsd-dev": "BSD-3-Clause AND BSD-2-Clause AND ISC", "libmd-dev": "BSD-3-Clause AND BSD-2-Clause AND ISC", "libncurses-dev": "X11-distribute-modifications-variant",
    "libboost1.81-dev": "BSL-1.0", "nlohmann-json3-dev": "MIT", "libfmt-dev": "MIT", "libcli11-dev": "BSD-3-Clause", "libxxhash-dev": "BSD-2-Clause", "libhiredis-dev": "BSD-3-Clause",
    "libstdc++-12-dev": "GPL-3.0-or-later WITH GCC-exception-3.1",
}
NOT_IN_THE_PAGE = {"axe-core", "esbuild", "typescript"}  # they build and check it


def output(*words, cwd=None):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, cwd=cwd).stdout


def fail(sentence):
    sys.exit(f"package: {sentence}")


def linked_archives(tree):
    line = output("ninja", "-C", tree, "-t", "commands", "bin/espalier").splitlines()[-1]
    return sorted(set(re.findall(r"/usr/lib/\S+\.a", line)))


class Part:
    """A thing that is inside: name, version, SPDX licence, package URL, texts of licences."""

    def __init__(self, name, version, licence, url, *texts):
        self.name, self.version, self.licence, self.url, self.texts = name, version, licence, url, texts

    def component(self, licences):
        return Component(name=self.name, version=self.version, type=ComponentType.LIBRARY, purl=self.url, bom_ref=str(self.url),
                         licenses=[licences.make_from_string(self.licence)])


def debian_part(package):
    if package not in LICENCES:
        fail(f"{package} is linked and has no licence in tools/package/sbom.py: /usr/share/doc/{package}/copyright tells it")
    source, version = output("dpkg-query", "-W", "-f", "${source:Package}\t${source:Version}", package).split("\t")
    text = pathlib.Path("/usr/share/doc", package, "copyright")
    if not text.exists():
        fail(f"{text} is missing: reinstall {package}")
    url = PackageURL("deb", "debian", source, version, {"arch": "source"})
    return Part(source, version, LICENCES[package], url, text.read_text(errors="replace"))


def debian_parts(tree, libraries):
    archives = linked_archives(tree)
    # Two archives are copies of Debian's (cmake/portable/portable.cmake).
    machine = output("gcc", "-print-multiarch").strip()
    archives += [f"/usr/lib/{machine}/{one.name}" for one in sorted((libraries / "lib").glob("*.a")) if one.name != "libcurl.a"]
    packages = {output("dpkg", "-S", archive).split(":")[0] for archive in archives}
    return [debian_part(package) for package in sorted(packages | set(HEADERS) | set(TOOLCHAIN))]


def curl_part(libraries):
    name, version = (libraries / "lib/curl.version").read_text().split()
    text = libraries.parent / f"sources/curl-{version}/COPYING"
    return Part(name, version, "curl", PackageURL("deb", "debian", name, version, {"arch": "source"}), text.read_text())


def crate_parts():
    target = output("rustc", "-vV").split("host: ")[1].split()[0]
    told = json.loads(output("cargo", "metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", target,
                             "--manifest-path", SOURCE / "src/text/rust/Cargo.toml"))
    used = {node["id"] for node in told["resolve"]["nodes"]}
    for crate in sorted((one for one in told["packages"] if one["id"] in used and one["source"]), key=lambda one: one["name"]):
        folder = pathlib.Path(crate["manifest_path"]).parent
        texts = [file.read_text(errors="replace") for file in sorted(folder.glob("LICEN[SC]E*")) if file.is_file()]
        licence = re.sub(r"\s*/\s*", " OR ", crate["license"])
        yield Part(crate["name"], crate["version"], licence, PackageURL("cargo", None, crate["name"], crate["version"]), *texts)


def page_parts():
    packages = json.loads((SOURCE / "web/package-lock.json").read_text())["packages"]
    for path, entry in packages.items():
        name = path.removeprefix("node_modules/")
        if not path or entry.get("optional") or name in NOT_IN_THE_PAGE:
            continue
        space, _, plain = name.rpartition("/")
        yield Part(name, entry["version"], entry["license"], PackageURL("npm", space or None, plain, entry["version"]))


def module_parts():
    """Of the wheels alone."""
    pinned = dict(re.findall(r"^(nanobind)==(\S+)", (SOURCE / "tools/package/requirements.txt").read_text(), re.M))
    yield Part("nanobind", pinned["nanobind"], "BSD-3-Clause", PackageURL("pypi", None, "nanobind", pinned["nanobind"]))


def write_list(parts, version, to):
    licences = LicenseFactory()
    bom = Bom()
    bom.metadata.component = Component(name="espalier", version=version, type=ComponentType.APPLICATION, bom_ref="espalier",
                                       licenses=[licences.make_from_string("Apache-2.0")])
    components = [part.component(licences) for part in parts]
    for component in components:
        bom.components.add(component)
    bom.register_dependency(bom.metadata.component, components)
    text = JsonV1Dot5(bom).output_as_string(indent=2)
    wrong = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    if wrong is not None:
        fail(f"the list of parts is not what CycloneDX 1.5 asks for: {wrong}")
    (to / f"espalier-{version}.cdx.json").write_text(text + "\n")


def write_texts(parts, to):
    with open(to / "THIRD-PARTY.txt", "w") as file:
        file.write("What others wrote and is inside the packages of Espalier, with the licences.\n\n")
        for part in parts:
            file.write(f"{part.name} {part.version}: {part.licence}\n")
        told = set()
        for part in parts:
            for text in part.texts:
                if text not in told:
                    file.write(f"\n{'=' * 100}\n{part.name} {part.version}\n{'=' * 100}\n\n{text}\n")
                told.add(text)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("tree", "libraries", "to"):
        options.add_argument(f"--{name}", type=pathlib.Path, required=True)
    options.add_argument("--version", required=True)
    given = options.parse_args()
    parts = [*debian_parts(given.tree, given.libraries), curl_part(given.libraries), *crate_parts(), *page_parts(), *module_parts()]
    write_list(parts, given.version, given.to)
    write_texts(parts, given.to)
    print(f"package: {len(parts)} parts, {len({part.licence for part in parts})} licences")


main()
