#!/usr/bin/env bash
# tests/image/run.sh [unittest arguments]: pictures against Pillow, in the tests' virtual environment; without Pillow it
# says so and compares nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=$here/../../build/venv/bin/python
"$here/../../tools/venv.sh" || echo "pictures: there is no virtual environment for tests (no package index?)"
[ -x "$python" ] || python=python3
if [ $# = 0 ]; then set -- discover -s "$here" -p '*_test.py'; fi
exec "$python" "$here/../bounded_unittest.py" "$@"
