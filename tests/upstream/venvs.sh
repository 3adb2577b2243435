#!/usr/bin/env bash
# tests/upstream/venvs.sh: makes build/upstream-venv/VERSION, a virtual environment for each upstream front end that the
# tests drive the server with (VERSIONS); changes nothing where they are there. Exit 1 without a package index.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
mapfile -t versions < "$here/VERSIONS"

make_venv() {
  local venv=build/upstream-venv/$1 stamp=build/upstream-venv/$1/requirements.done
  if [ -f "$stamp" ] && cmp -s "$here/requirements.txt" "$stamp"; then return; fi
  python3 -m venv --clear "$venv"
  local pip=("$venv/bin/pip" install -q --disable-pip-version-check --no-compile)
  timeout 300 "${pip[@]}" -r "$here/requirements.txt"
  timeout 300 "${pip[@]}" --no-deps "sglang==$1"  # the front end only
  cp "$here/requirements.txt" "$stamp"
}

mkdir -p build/upstream-venv
pids=()
for version in "${versions[@]}"; do
  make_venv "$version" &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=1; done
exit $status
