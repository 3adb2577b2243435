#!/usr/bin/env bash
# tests/clients/run.sh [unittest arguments]: the clients that people have, evaluation harness and routers against the built
# server. Without a package index it says that it leaves them out and ends with 77, which ctest shows as skipped; likewise
# under ctest (ESPALIER_UNDER_CTEST) without ESPALIER_LONG_TESTS.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if [ -n "${ESPALIER_UNDER_CTEST:-}" ] && [ -z "${ESPALIER_LONG_TESTS:-}" ]; then
  echo "the clients are left out: make test-all (ESPALIER_LONG_TESTS=1) runs them"
  exit 77
fi
if ! "$here/venv.sh"; then
  echo "the clients are left out: they could not be installed (no package index?)"
  exit 77
fi
export ESPALIER_BINARY=${ESPALIER_BINARY:-$root/build/release/bin/espalier}
export PYTHONDONTWRITEBYTECODE=1
cd "$here"
if [ $# = 0 ]; then set -- discover -s "$here" -p 'test_*.py'; fi
exec "$root/build/clients-venv/bin/python" "$root/tests/bounded_unittest.py" "$@"
