#!/usr/bin/env bash
# tools/venv.sh: makes build/venv, the tests' virtual environment, with what tests/requirements.txt pins; changes nothing
# when it is there. Exit 1 without a package index: what needs it is then left out, and says so.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/venv
stamp=$venv/requirements.done
if [ -f "$stamp" ] && cmp -s tests/requirements.txt "$stamp"; then exit 0; fi
mkdir -p build
python3 -m venv "$venv" >/dev/null 2>&1 &&
  timeout 300 "$venv/bin/pip" install -q --disable-pip-version-check -r tests/requirements.txt &&
  cp tests/requirements.txt "$stamp"
