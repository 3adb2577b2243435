#!/usr/bin/env bash
# tests/grammar/run.sh [unittest arguments]: `espalier grammar --stdio` as a program and against other implementations,
# in the virtual environment of tests/server/run.sh. Without jsonschema the comparison with it says so and is left out.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ $# = 0 ]; then set -- discover -s "$here" -p '*.py'; fi
export PYTHONPATH=$here${PYTHONPATH:+:$PYTHONPATH}
exec "$here/../server/run.sh" "$@"
