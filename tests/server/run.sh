#!/usr/bin/env bash
# tests/server/run.sh [unittest arguments]: the end-to-end tests of the server, in a virtual environment with the pinned
# clients of tests/requirements.txt. Without a package index the tests that need a client say so and are left out.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if "$root/tools/venv.sh"; then
  python=$root/build/venv/bin/python
else
  echo "end-to-end tests: the clients of tests/requirements.txt could not be installed; their tests are left out"
  python=python3
fi
cd "$here"
if [ $# = 0 ]; then set -- discover -s "$here" -p 'test_*.py'; fi
exec "$python" "$root/tests/bounded_unittest.py" "$@"
