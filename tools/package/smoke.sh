#!/usr/bin/env bash
# tools/package/smoke.sh: what `make package` made, in clean roots without compiler and without this tree: installs, tells its
# version, starts a server on a tiny model, asks for one chat answer, stops it. Needs root (chroot, debootstrap).
#
#   Debian 11, 12 and 13: tarball and .deb; 12 and 13 (Python 3.11 and 3.13): the wheel
#
# Ubuntu 24.04 stands for itself where the machine's mirrors have it; Debian 13's glibc is newer.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
say() { printf 'package: %s\n' "$*"; }
. tools/package/suite.sh
. tools/package/roots.sh
[ "$(id -u)" = 0 ] || { echo "package: clean roots need root (chroot): run 'sudo make package', or leave out the part smoke" >&2; exit 1; }
model=tests/data/goldens/models/llama3-tied-gqa
suites=(bullseye bookworm trixie)
name=espalier-$version-linux-$cpu
root=
trap '[ -z "$root" ] || unmounted "$root"' EXIT

inside() { chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }

# check PROGRAM (a path in the root): from its version to an answer.
check() {
  local program=$1 port told answer server i
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  told=$(inside "$program" --version)
  [ "$told" = "espalier $version" ] || { say "$program --version said '$told'"; return 1; }
  chroot "$root" /usr/bin/env -i HOME=/root "$program" serve /model --port "$port" >"$root/tmp/serve.log" 2>&1 &
  server=$!
  for ((i = 0; i < 200; ++i)); do
    if python3 tools/package/ask.py "$port" --ready 2>/dev/null; then break; fi
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  answer=$(python3 tools/package/ask.py "$port") || { cat "$root/tmp/serve.log"; kill "$server" 2>/dev/null || true; return 1; }
  kill -TERM "$server"
  wait "$server" || { say "the server ended with code $?"; cat "$root/tmp/serve.log"; return 1; }
  say "  $program: $told, $answer, stopped"
}

with_tarball() {
  tar -xzf "$dist/$name.tar.gz" -C "$root/opt"
  check "/opt/$name/bin/espalier"
}

with_deb() {
  cp "$dist/espalier_${version}_$arch.deb" "$root/tmp/"
  inside apt-get -qq install -y --no-install-recommends "/tmp/espalier_${version}_$arch.deb" >"$root/tmp/apt.log" 2>&1 || { cat "$root/tmp/apt.log"; return 1; }
  check /usr/bin/espalier
  inside test -f /lib/systemd/system/espalier.service -a -f /usr/share/man/man1/espalier-serve.1.gz
  inside getent passwd espalier >/dev/null
  inside apt-get -qq purge -y espalier >"$root/tmp/apt.log" 2>&1 || { cat "$root/tmp/apt.log"; return 1; }
  if inside test -e /usr/bin/espalier -o -e /etc/espalier; then say "purge left files"; return 1; fi
}

with_wheel() {
  cp "$dist"/*.whl "$root/tmp/"
  inside python3 -m venv /opt/venv
  inside sh -c '/opt/venv/bin/pip install -q --no-index /tmp/espalier-*.whl'
  check /opt/venv/bin/espalier
  cp tools/package/wheel_check.py "$root/tmp/"
  say "  $(inside /opt/venv/bin/python /tmp/wheel_check.py /model)"
}

for suite in "${suites[@]}"; do
  packages=()
  [ "$suite" = bullseye ] || packages=(python3 python3-venv)  # 11's Python is older than the oldest wheel
  root=$(clean_root "$suite" "${packages[@]}")
  mounted "$root"
  cp -r "$model" "$root/model"
  say "$(inside sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release), glibc $(inside ldd --version | sed -n '1s/.* //p')"
  with_tarball
  if [ "$suite" != bullseye ]; then with_wheel; fi
  with_deb
  unmounted "$root"
  rm -rf "$root"
done
root=
say "smoke: ${#suites[@]} passed, 0 failed"
