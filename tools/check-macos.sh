#!/usr/bin/env bash
# tools/check-macos.sh [CPU]: the sources cross-compiled and linked for macOS (aarch64, or x86_64) on a Linux machine, with
# zig's clang, linker, libc++ and headers of macOS (PyPI package ziglang, in build/venv-macos). Nothing is run. Exit 1 when a
# file does not compile or a name is missing.
#
# Of other people's libraries there are the headers that `make setup` installs and, for the linker, lists of names: those
# that this machine's copy exports, and for yaml-cpp, whose names depend on the C++ library, those that we ask for. Without
# a Rust standard library for macOS the tokenizer library is such a list too.
set -euo pipefail
cd "$(dirname "$0")/.."
cpu=${1:-aarch64}
tools=$PWD/build/venv-macos
zig_version=0.17.1
prefix=$tools/prefix
tree=build/$cpu-macos
say() { printf 'check-macos: %s\n' "$*"; }

install_zig() {
  [ "$(cat "$tools/zig.done" 2>/dev/null)" = "$zig_version" ] && return
  say "installing zig $zig_version from the Python package index (100 MB)"
  python3 -m venv "$tools"
  "$tools/bin/pip" install -q --disable-pip-version-check "ziglang==$zig_version"
  echo "$zig_version" >"$tools/zig.done"
}

# stub INSTALL_NAME: a library for Apple's linkers that has nothing but the names on stdin.
stub() {
  cat <<TBD
--- !tapi-tbd
tbd-version: 4
targets: [ arm64-macos, x86_64-macos ]
install-name: '$1'
exports:
  - targets: [ arm64-macos, x86_64-macos ]
    symbols: [ $(paste -sd,) ]
...
TBD
}

exported_by() {
  nm --dynamic --defined-only --format=just-symbols "$1" | sed 's/@.*//' | grep -E '^[A-Za-z]\w*$' | sed 's/^/_/' | sort -u
}

# header_package NAME TARGET VERSION MORE: what find_package(NAME) reads.
header_package() {
  local folder=$prefix/lib/cmake/$1
  mkdir -p "$folder"
  cat >"$folder/$1-config.cmake" <<CMAKE
add_library($2 INTERFACE IMPORTED)
target_include_directories($2 INTERFACE $prefix/include)
$4
CMAKE
  printf 'set(PACKAGE_VERSION %s)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n' "$3" >"$folder/$1-config-version.cmake"
}

# A folder as a package manager of macOS would fill it. Headers by name: what else lies in /usr/include is this system's.
make_prefix() {
  local machine=/usr/include/$(uname -m)-linux-gnu libraries=/usr/lib/$(uname -m)-linux-gnu name
  rm -rf "$prefix"
  mkdir -p "$prefix/include/openssl" "$prefix/lib"
  ln -s /usr/include/{boost,fmt,nlohmann,CLI,yaml-cpp,hiredis,xxhash.h,zlib.h,zconf.h,histedit.h,sqlite3.h} "$machine/curl" "$prefix/include"
  ln -s /usr/include/openssl/* "$machine"/openssl/* "$prefix/include/openssl"
  for name in curl.4 z.1 edit.3 sqlite3.0; do exported_by "$libraries/lib${name%.*}.so" | stub "/usr/lib/lib$name.dylib" >"$prefix/lib/lib${name%.*}.tbd"; done
  for name in hiredis.0.14 ssl.3 crypto.3; do exported_by "$libraries/lib${name%.*}.so" | stub "@rpath/lib$name.dylib" >"$prefix/lib/lib${name%.*}.tbd"; done
  header_package fmt fmt::fmt-header-only 9.1 'target_compile_definitions(fmt::fmt-header-only INTERFACE FMT_HEADER_ONLY=1)'
  header_package nlohmann_json nlohmann_json::nlohmann_json 3.11.2 ''
  header_package yaml-cpp yaml-cpp 0.7 "target_link_libraries(yaml-cpp INTERFACE $prefix/lib/libyaml-cpp.tbd)"
}

# Rust's standard library for the target, from rustup where the compiler comes from there.
has_rust_target() {
  local target=$cpu-apple-darwin
  command -v rustup >/dev/null && rustup target add "$target" >/dev/null 2>&1
  compgen -G "$(rustc --print target-libdir --target "$target" 2>/dev/null)/libstd-*" >/dev/null
}

# asked_for PATTERN TARGET: the names that match and that the objects of a target do not have themselves.
asked_for() {
  find "$tree" -path "*/$2.dir/*.o" -print0 | xargs -0 python3 tools/macho_names.py "$1"
}

build() { nice -n 15 cmake --build "$tree" --parallel "${JOBS:-2}" --target "$@" -- -k 0; }  # all that is wrong, not the first

install_zig
make_prefix
rust=()
if ! has_rust_target; then
  say "there is no Rust library for $cpu-apple-darwin: the tokenizer library is not built, and linked by its names only"
  rust=("-DESPALIER_RUST_LIBRARY=$prefix/lib/libespalier_text.tbd")
  cmake -E touch "$prefix/lib/libespalier_text.tbd"
fi
cmake --preset "$cpu-macos" -UESPALIER_RUST_LIBRARY "${rust[@]}" >"$tree.log" 2>&1 ||
  cmake --fresh --preset "$cpu-macos" "${rust[@]}" >"$tree.log" 2>&1 || { cat "$tree.log" >&2; exit 1; }
build espalier_flags espalier_bench espalier_grammar espalier_lang
asked_for '4YAML' espalier_flags | stub @rpath/libyaml-cpp.0.7.dylib >"$prefix/lib/libyaml-cpp.tbd"
if [ ${#rust[@]} != 0 ]; then asked_for '^_espalier_' espalier_text | stub libespalier_text >"$prefix/lib/libespalier_text.tbd"; fi
build espalier
say "$tree/bin/espalier: $(stat -c %s "$tree/bin/espalier") bytes, linked; not run"
