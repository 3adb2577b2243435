#!/usr/bin/env bash
# tests/server/run.sh [unittest arguments]: the end-to-end tests of the server, in a virtual environment with the pinned
# clients of tests/requirements.txt. Without a package index the tests that need a client say so and are left out.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=$root/build/venv
stamp=$venv/requirements.done
python=python3
if [ -f "$stamp" ] && cmp -s "$root/tests/requirements.txt" "$stamp"; then
  python=$venv/bin/python
elif mkdir -p "$root/build" && python3 -m venv "$venv" >/dev/null 2>&1 &&
     timeout 300 "$venv/bin/pip" install -q --disable-pip-version-check -r "$root/tests/requirements.txt"; then
  cp "$root/tests/requirements.txt" "$stamp"
  python=$venv/bin/python
else
  echo "end-to-end tests: the clients of tests/requirements.txt could not be installed; their tests are left out"
fi
cd "$here"
if [ $# = 0 ]; then set -- discover -s "$here" -p 'test_*.py'; fi
exec "$python" -m unittest "$@"
