#!/usr/bin/env bash
# tests/clients/venv.sh: makes build/clients-venv with what requirements.txt pins, and build/clients with what
# js/package-lock.json pins (where there is a Node.js); changes nothing where they are there. Exit 1 without the first (no
# package index); without the second it says so, and the tests of JavaScript's clients are left out.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
mkdir -p build

venv=build/clients-venv
stamp=$venv/requirements.done
if ! cmp -s "$here/requirements.txt" "$stamp" 2>/dev/null; then
  python3 -m venv "$venv"
  timeout 600 "$venv/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$stamp"
fi

stamp=build/clients/package.done
if cmp -s "$here/js/package-lock.json" "$stamp" 2>/dev/null; then exit 0; fi
if ! command -v npm >/dev/null; then
  echo "clients: there is no Node.js with npm here; the tests of JavaScript's clients are left out"
  exit 0
fi
mkdir -p build/clients
cp "$here"/js/package.json "$here"/js/package-lock.json build/clients/
if (cd build/clients && timeout 300 npm ci --silent --no-audit --no-fund --ignore-scripts); then
  cp "$here/js/package-lock.json" "$stamp"
else
  echo "clients: npm could not install (no package index?); the tests of JavaScript's clients are left out"
fi
