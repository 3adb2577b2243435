"""The wheel out of a portable build: the package, its modules, and the program as the script `espalier`; nothing is compiled.

One wheel for every CPython from 3.11 on: a module for 3.11, which has that name and is looked for first, and one of the stable ABI
of 3.12. Its tag cp311-abi3 says to pip what it fits.

scikit-build-core writes the metadata (from pyproject.toml), `wheel` packs, and auditwheel looks at every program and module in it,
refuses what would not run on that glibc, and writes the platform's tag.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from scikit_build_core.build import prepare_metadata_for_build_wheel

SOURCE = pathlib.Path(__file__).resolve().parents[2]
GLIBC = "2_31"
CPU = os.uname().machine


def metadata(folder):
    """The folder NAME-VERSION.dist-info that pip reads, in `folder`."""
    before = os.getcwd()
    os.chdir(SOURCE)
    try:
        return pathlib.Path(folder) / prepare_metadata_for_build_wheel(str(folder))
    finally:
        os.chdir(before)


def fill(folder, modules, stub, program):
    shutil.copytree(SOURCE / "python/espalier", folder / "espalier", ignore=shutil.ignore_patterns("__pycache__"))
    for file in (*modules, stub):
        shutil.copy(file, folder / "espalier")
    info = metadata(folder)
    scripts = folder / info.name.replace(".dist-info", ".data") / "scripts"
    scripts.mkdir(parents=True)
    shutil.copy(program, scripts)
    shutil.copy(SOURCE / "LICENSE", info)
    return info


def write_wheel(folder, info, tag):
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: espalier tools/package/wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n")


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"package: {' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def make(tag, modules, stub, program, to):
    with tempfile.TemporaryDirectory() as temporary:
        folder, packed = pathlib.Path(temporary, "wheel"), pathlib.Path(temporary, "packed")
        folder.mkdir()
        packed.mkdir()
        info = fill(folder, modules, stub, program)
        write_wheel(folder, info, f"{tag}-linux_{CPU}")
        run(sys.executable, "-m", "wheel", "pack", folder, "--dest-dir", packed)
        made, = packed.glob("*.whl")
        run(sys.executable, "-m", "auditwheel", "repair", "--plat", f"manylinux_{GLIBC}_{CPU}", "--only-plat", "--wheel-dir", to, made)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tree", type=pathlib.Path, required=True, help="the build folder")
    options.add_argument("--program", type=pathlib.Path, required=True, help="the stripped program")
    options.add_argument("--to", type=pathlib.Path, required=True)
    given = options.parse_args()
    package = given.tree / "python/espalier"
    if sys.version_info >= (3, 12):  # the module here is that of the stable ABI already
        tag, modules = "cp312-abi3", [package / "_espalier.abi3.so"]
    else:
        own = package / ("_espalier" + sysconfig.get_config_var("EXT_SUFFIX"))
        tag, modules = "cp{}{}-abi3".format(*sys.version_info[:2]), [own, given.tree / "python-stable-abi/_espalier.abi3.so"]
    for old in given.to.glob("*.whl"):
        old.unlink()
    make(tag, modules, package / "_espalier.pyi", given.program, given.to)
    made, = given.to.glob("*.whl")
    print(f"package: {made.name}: {made.stat().st_size / 1e6:.1f} MB")


main()
