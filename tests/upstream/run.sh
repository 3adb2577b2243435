#!/usr/bin/env bash
# tests/upstream/run.sh [pytest arguments]: upstream's front ends against the built server, see test_upstream.py. Without a
# package index it says that it leaves them out and ends with 77, which ctest shows as skipped; likewise under ctest
# (ESPALIER_UNDER_CTEST) without ESPALIER_LONG_TESTS.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if [ -n "${ESPALIER_UNDER_CTEST:-}" ] && [ -z "${ESPALIER_LONG_TESTS:-}" ]; then
  echo "upstream's front ends are left out: make test-all (ESPALIER_LONG_TESTS=1) runs them"
  exit 77
fi
if ! "$here/venvs.sh"; then
  echo "upstream's front ends are left out: they could not be installed (no package index?)"
  exit 77
fi
export ESPALIER_BINARY=${ESPALIER_BINARY:-$root/build/release/bin/espalier}
export PYTHONPATH=${ESPALIER_PYTHON_PACKAGE:-$root/build/release/python}${PYTHONPATH:+:$PYTHONPATH}
export PYTHONDONTWRITEBYTECODE=1
cd "$here"
exec "${ESPALIER_PYTHON:-$root/build/venv/bin/python}" -m pytest -q -p no:cacheprovider "$@"
