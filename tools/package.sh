#!/usr/bin/env bash
# tools/package.sh [PART...]: what `make package` makes, under build/package; all parts in this order when none is named.
#
#   program   the portable program and the Python modules, stripped; what was stripped lies in a folder of its own
#   files     the tree that tarball and .deb hold: program, pages for man, completion, unit, licences
#   tarball   dist/espalier-VERSION-linux-CPU.tar.gz, and -debug.tar.xz: what addr2line needs
#   deb       dist/espalier_VERSION_ARCH.deb
#   wheel     dist/espalier-VERSION-cp311-abi3-manylinux_2_31_CPU.whl: CPython 3.11 and newer
#   chart     dist/espalier-VERSION-chart.tgz, judged by helm where there is one or Go can build it
#   sbom      dist/espalier-VERSION.cdx.json (CycloneDX), and THIRD-PARTY.txt
#   sums      dist/SHA256SUMS
#   image     the Dockerfile carried out by buildah with images made of Debian's packages; only a check, nothing is kept
#   smoke     all of it in clean roots of three distributions: installed, and a server that answers
#
# The version stands in CMakeLists.txt alone. docs/decisions/packages.md says why it is done so.
set -euo pipefail
cd "$(dirname "$0")/.."
export package_root=$PWD/build/package
export dist=$package_root/dist
export version machine cpu arch
version=$(sed -n 's/^project(espalier VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
machine=$(gcc -print-multiarch)
cpu=$(uname -m)
arch=$(dpkg --print-architecture)
export stage=$package_root/espalier-$version-linux-$cpu
tree=build/portable
venv=$package_root/venv
say() { printf 'package: %s\n' "$*"; }

# Python's tools: the compiler glue of the module, wheels, the list of what is inside.
python_tools() {
  cmp -s tools/package/requirements.txt "$venv/done" && return
  say "Python's tools for wheels and the list of parts"
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check -r tools/package/requirements.txt
  cp tools/package/requirements.txt "$venv/done"
}

# Objects that an earlier build left in ccache are taken wherever its tree lay.
program() {
  python_tools
  tools/package/libraries.sh
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1
  cmake --preset portable "-DPython_EXECUTABLE=$venv/bin/python" "-DESPALIER_STABLE_ABI_HEADERS=$package_root/libraries/python" \
    >"$package_root/configure.log" 2>&1 || { cat "$package_root/configure.log" >&2; exit 1; }
  cmake --build "$tree" --parallel "${JOBS:-2}" --target espalier espalier_python espalier_python_stub espalier_stable_abi
  tools/package/strip.sh "$tree/bin/espalier" "$package_root/program/espalier" "$package_root/debug"
  tools/package/glibc_needed.sh "$package_root/program/espalier" "$tree"/python/espalier/_espalier*.so "$tree"/python-stable-abi/_espalier*.so
}

# In the layout of a prefix. What completes and explains is printed by the program itself.
files() {
  local program=$package_root/program/espalier share=$stage/share
  rm -rf "$stage"
  install -Dm755 "$program" "$stage/bin/espalier"
  mkdir -p "$share/man/man1"
  "$program" man --output "$share/man/man1"
  gzip -9n "$share"/man/man1/*.1
  mkdir -p "$share"/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d,doc/espalier}
  "$program" completion bash >"$share/bash-completion/completions/espalier"
  "$program" completion zsh >"$share/zsh/site-functions/_espalier"
  "$program" completion fish >"$share/fish/vendor_completions.d/espalier.fish"
  install -Dm644 -t "$share/espalier/systemd" deploy/systemd/espalier.service deploy/systemd/espalier.socket
  install -Dm644 -t "$share/espalier" deploy/debian/espalier.yaml deploy/grafana/espalier.json deploy/prometheus/espalier.rules.yaml
  install -Dm644 -t "$share/doc/espalier" LICENSE CHANGELOG.md docs/operations.md docs/command-line.md
  [ -f "$dist/THIRD-PARTY.txt" ] || sbom
  install -Dm644 -t "$share/doc/espalier" "$dist/THIRD-PARTY.txt"
}

# tar --sort and --mtime: the same input gives the same bytes.
archive() {
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct 2>/dev/null || date +%s)" "$@"
}

tarball() {
  local name=espalier-$version-linux-$cpu
  archive -C "$package_root" -c "$name" | gzip -9n >"$dist/$name.tar.gz"
  archive -C "$package_root/debug" -c . | xz -6 -T2 >"$dist/$name-debug.tar.xz"
  local most=$((40 * 1024 * 1024)) size
  size=$(stat -c %s "$dist/$name.tar.gz")
  [ "$size" -lt "$most" ] || { say "$name.tar.gz has $size bytes, and at most $most are wanted"; exit 1; }
}

deb() { tools/package/deb.sh; }

wheel() {
  python_tools
  "$venv/bin/python" tools/package/wheel.py --tree "$tree" --program "$package_root/program/espalier" --to "$dist"
}

# A chart is a tar of its folder, as `helm package` makes it.
chart() {
  local made=$package_root/chart/espalier
  rm -rf "$package_root/chart" && mkdir -p "$package_root/chart"
  cp -r deploy/helm/espalier "$package_root/chart/"
  sed -i "s/^version: .*/version: $version/; s/^appVersion: .*/appVersion: \"$version\"/" "$made/Chart.yaml"
  archive -C "$package_root/chart" -c espalier | gzip -9n >"$dist/espalier-$version-chart.tgz"
  tools/package/chart.sh "$dist/espalier-$version-chart.tgz" "$package_root/program/espalier"
}

sbom() {
  python_tools
  "$venv/bin/python" tools/package/sbom.py --tree "$tree" --libraries "$package_root/libraries" --version "$version" --to "$dist"
}

sums() { (cd "$dist" && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS); }

image() { tools/package/image.sh; }
smoke() { tools/package/smoke.sh; }

mkdir -p "$dist"
parts=("$@")
if [ $# = 0 ]; then
  rm -rf "$dist" && mkdir -p "$dist"
  parts=(program sbom files tarball deb wheel chart sums smoke image)
fi
for part in "${parts[@]}"; do
  case $part in
    program | files | tarball | deb | wheel | chart | sbom | sums | image | smoke) say "$part"; "$part" ;;
    *) echo "package: unknown part '$part': program, files, tarball, deb, wheel, chart, sbom, sums, image or smoke" >&2; exit 2 ;;
  esac
done
say "in build/package/dist:"
ls -l --block-size=K "$dist" | awk 'NR > 1 {print "  " $5, $9}'
