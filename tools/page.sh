#!/usr/bin/env bash
# tools/page.sh [--install|--check]: the page's sources (web/) -> web/built/page.html, which is committed, so that building
# the program needs no node. --install: only fetch what package-lock.json pins; --check: say when the committed page is
# another than the sources give. npm's own configuration says which registry is asked; none stands here.
set -euo pipefail
cd "$(dirname "$0")/../web"
command -v npm >/dev/null || { echo "page: npm is missing (Debian: apt-get install nodejs npm); the committed page stays as it is" >&2; exit 1; }
if ! cmp -s package-lock.json node_modules/.installed 2>/dev/null; then
  timeout 300 npm ci --silent --no-audit --no-fund --ignore-scripts ||
    { echo "page: npm could not install what package-lock.json pins (no registry?)" >&2; exit 1; }
  cp package-lock.json node_modules/.installed
fi
case "${1:-}" in
  --install) ;;
  --check) npx tsc --noEmit && node build.mjs --check ;;
  "") npx tsc --noEmit && node build.mjs ;;
  *) echo "page: unknown option '$1': --install, --check or nothing" >&2; exit 2 ;;
esac
