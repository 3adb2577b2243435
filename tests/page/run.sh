#!/usr/bin/env bash
# tests/page/run.sh [unittest arguments]: the page in a real browser without a window, against the built server. Screenshots
# go to build/page. Where there is no Chromium or no package index it says what it leaves out and why. Without npm the checks
# of accessibility and of the bundle are left out; they say so.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export ESPALIER_SOURCE_DIR=${ESPALIER_SOURCE_DIR:-$root}
export ESPALIER_BINARY=${ESPALIER_BINARY:-$root/build/release/bin/espalier}
export PYTHONPATH=$root/tests/server${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
python=python3
if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then
  venv=$root/build/page-venv
  if cmp -s "$here/requirements.txt" "$venv/requirements.done" || {
    python3 -m venv "$venv" >/dev/null 2>&1 &&
      timeout 300 "$venv/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt" &&
      cp "$here/requirements.txt" "$venv/requirements.done"
  }; then
    python=$venv/bin/python
  else
    echo "page: Playwright could not be installed (no package index?); only the bundle is looked at"
  fi
  if [ -n "${ESPALIER_LONG_TESTS:-}" ]; then "$root/tools/page.sh" --install || true; fi
else
  echo "page: there is no Chromium here (tools/setup.sh browser); only the bundle is looked at"
fi
cd "$here"
if [ $# = 0 ]; then set -- discover -s "$here" -p 'test_*.py'; fi
exec "$python" "$root/tests/bounded_unittest.py" "$@"
