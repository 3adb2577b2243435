#!/usr/bin/env bash
# tests/python/run.sh [pytest arguments]: the tests of the Python package, against the module that the build made.
# (CMake adds them where build/venv has nanobind and pytest: tools/venv.sh.)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
package=${ESPALIER_PYTHON_PACKAGE:-$root/build/release/python}
python=${ESPALIER_PYTHON:-$root/build/venv/bin/python}
export ESPALIER_BINARY=${ESPALIER_BINARY:-$root/build/release/bin/espalier}
export PYTHONPATH=$package${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
cd "$here"
exec "$python" -m pytest -q -p no:cacheprovider "$@"
