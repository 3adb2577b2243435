#!/usr/bin/env bash
# tools/docs.sh: docs/, README.md and CONTRIBUTING.md -> build/site/index.html, which needs no network; its search needs a server.
# Dead links, dead anchors and pages without a place in the navigation are errors (mkdocs --strict, tests/links_test.py).
# mkdocs-material comes from the package index that pip is configured for, into build/docs-venv.
set -euo pipefail
cd "$(dirname "$0")/.."
python3 tests/links_test.py .
venv=build/docs-venv
if ! cmp -s tools/docs/requirements.txt "$venv/requirements.done"; then
  mkdir -p build
  { python3 -m venv "$venv" >/dev/null && timeout 300 "$venv/bin/pip" install -q --disable-pip-version-check -r tools/docs/requirements.txt; } ||
    { echo "docs: mkdocs-material could not be installed (no package index?); the links were checked, there is no site" >&2; exit 1; }
  cp tools/docs/requirements.txt "$venv/requirements.done"
fi
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" --quiet build --strict --clean --config-file tools/docs/mkdocs.yml
echo "docs: build/site/index.html (with search: python3 -m http.server -d build/site)"
