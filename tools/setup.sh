#!/usr/bin/env bash
# Installs what is missing on a Debian 12 machine, and only that; says what it does. Running it again changes nothing.
#
#   tools/setup.sh build     what `make build`, `make run` and `make test` need
#   tools/setup.sh lint      clang's formatter, linter, compiler and fuzzer
#   tools/setup.sh browser   the browser of the page's tests in `make test-all`, and node
#   tools/setup.sh package   clean roots and images of `make package`
#   tools/setup.sh neon      cross-compiler and emulator of `make test-neon`
#   tools/setup.sh mpi       headers of an MPI and its mpirun, for `make mpi`
#   tools/setup.sh cuda      what `make cuda` needs beside the compiler that it downloads
#
# Needs root or sudo only when a package is missing. Proxies, certificates, pip's and cargo's configuration are used as
# the machine has them; no index host stands here. ESPALIER_SKIP_SETUP=1 skips it all (everything is installed by hand).
set -euo pipefail
cd "$(dirname "$0")/.."

build_packages=(
  g++ cmake ninja-build ccache                                 # compiler and build
  libboost1.81-dev libssl-dev libcurl4-openssl-dev zlib1g-dev  # HTTP server, hashes and TLS, HTTP client, gzip
  nlohmann-json3-dev libfmt-dev libcli11-dev                   # JSON, text, command line
  libsqlite3-dev                                               # stored responses, files and batches: one file, crash-safe
  libxxhash-dev                                                # checksums of the prefix cache's files
  libzmq3-dev                                                  # cache events, for routers of fleets
  libhiredis-dev                                               # Redis's protocol, for prefixes that servers share: small, and in Debian
  redis-tools                                                  # tests of that, against the real thing: the server without its service
  libboost-context1.81-dev                                     # fibers: the emulated device's threads
  libyaml-cpp-dev                                              # configuration files
  libjpeg62-turbo-dev libpng-dev libwebp-dev libgif-dev        # pictures (giflib: maintained, and reads row by row within limits)
  libedit-dev                                                  # line editing in `espalier run`: as readline, without GPL
  libgtest-dev libgmock-dev                                    # tests
  python3 python3-pip python3-venv ca-certificates             # fetching the default model; end-to-end tests
  python3-dev                                                  # the Python package's module
)
lint_packages=(clang-19 libclang-rt-19-dev clang-format-19 clang-tidy-19)
browser_packages=(chromium)              # and nodejs, npm where there is no npm: they build the page again and check it
package_packages=(debootstrap dpkg-dev xz-utils buildah)  # what is linked statically comes with build_packages
cuda_packages=(g++ ninja-build ccache python3 python3-pip python3-venv ca-certificates)
mpi_packages=(g++ libopenmpi-dev openmpi-bin)  # OpenMPI: what Debian's mpirun and most clusters run
neon_packages=(g++-aarch64-linux-gnu libc6-dev-arm64-cross googletest)  # and qemu-user-static, unless qemu-user is here
rust_needed="1.85"                                  # Debian's plain `rustc` is 1.63; rustc-web and cargo-web are newer
rust_packages=(rustc-web cargo-web)
rust_manifest=src/text/rust/Cargo.toml

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# True when "cargo 1.96.0 (...)" as printed by `$1 --version` is at least $rust_needed.
recent_cargo() {
  local version
  version=$("$1" --version 2>/dev/null | awk '{print $2}') && [ -n "$version" ] || return 1
  [ "$(printf '%s\n%s\n' "$rust_needed" "$version" | sort -V | head -1)" = "$rust_needed" ]
}

# The cargo that CMake uses too: the first one on PATH when it is recent enough, else Debian's.
find_cargo() {
  local candidate
  for candidate in cargo /usr/bin/cargo; do
    if command -v "$candidate" >/dev/null && recent_cargo "$candidate"; then command -v "$candidate"; return; fi
  done
  return 1
}

# Prints those of the given packages that dpkg does not know as installed.
missing_of() {
  local installed package
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' || true)
  for package in "$@"; do
    grep -qxF -- "$package" <<<"$installed" || printf '%s\n' "$package"
  done
}

# Runs apt-get as root, with the variables that apt reads for proxies.
apt_get() {
  local as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive ${http_proxy:+"http_proxy=$http_proxy"} \
    ${https_proxy:+"https_proxy=$https_proxy"} ${no_proxy:+"no_proxy=$no_proxy"} \
    apt-get -q -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 "$@"
}

install_missing() {
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
    fail "this system has no apt. Install the counterparts of these Debian packages, then set ESPALIER_SKIP_SETUP=1: $*"
  local missing
  mapfile -t missing < <(missing_of "$@")
  if [ ${#missing[@]} = 0 ]; then say "Debian packages: nothing is missing"; return; fi
  local by_hand="apt-get install --no-install-recommends ${missing[*]}"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "packages are missing and there is neither root nor sudo. Run as root: $by_hand"
    { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; } ||
      fail "packages are missing and sudo was not allowed. Run as root: $by_hand"
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  apt_get update || fail "apt-get update failed (network, proxy or sources list?). When it works: $by_hand"
  apt_get install -y --no-install-recommends "${missing[@]}" || fail "apt-get could not install them. By hand: $by_hand"
  say "Debian packages: installed"
}

# The crates of the Rust library, into cargo's own cache: `cmake` and the build itself never open a connection.
fetch_crates() {
  [ -f "${rust_manifest%.toml}.lock" ] || return 0
  local cargo fetch
  cargo=$(find_cargo) || fail "no cargo >= $rust_needed found after the installation; Debian's is ${rust_packages[*]}"
  fetch=("$cargo" fetch --locked --manifest-path "$rust_manifest" --target "$(uname -m)-unknown-linux-gnu")
  if "${fetch[@]}" --offline >/dev/null 2>&1; then say "crates: nothing is missing"; return; fi
  say "fetching the crates of $rust_manifest"
  "${fetch[@]}" || fail "cargo could not fetch them (network or proxy?). By hand: ${fetch[*]}"
  say "crates: fetched"
}

main() {
  if [ "${ESPALIER_SKIP_SETUP:-0}" = 1 ]; then say "skipped (ESPALIER_SKIP_SETUP=1)"; return; fi
  case "${1:-build}" in
    build)
      find_cargo >/dev/null || build_packages+=("${rust_packages[@]}")
      install_missing "${build_packages[@]}"
      fetch_crates ;;
    lint) install_missing "${lint_packages[@]}" ;;
    browser)
      command -v npm >/dev/null || browser_packages+=(nodejs npm)
      install_missing "${browser_packages[@]}" ;;
    neon)
      command -v qemu-aarch64 >/dev/null || neon_packages+=(qemu-user-static)
      install_missing "${neon_packages[@]}" ;;
    package) install_missing "${package_packages[@]}" ;;
    cuda) install_missing "${cuda_packages[@]}" ;;
    mpi) [ -n "${MPICXX:-}" ] || install_missing "${mpi_packages[@]}" ;;
    *) fail "unknown part '$1': build, lint, browser, neon, package, mpi or cuda" ;;
  esac
}
main "$@"
