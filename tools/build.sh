#!/usr/bin/env bash
# tools/build.sh PRESET [TARGET...]: configures a preset (once) and builds the targets (all of them when none is named).
# After `release espalier`, build/espalier is the program: a second name of the linked file, not a link into the tree.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift

# The Python package needs nanobind, which the tests' environment has (tools/venv.sh); one preset is enough for it.
options=()
if [ "$preset" = release ] && [ -x build/venv/bin/python ] && build/venv/bin/python -c 'import nanobind' 2>/dev/null; then
  options=(-DESPALIER_PYTHON=ON "-DPython_EXECUTABLE=$PWD/build/venv/bin/python")
fi

# CMake remembers a generator's and a compiler's path; a tree that was configured elsewhere (a copied checkout, another
# compiler) is configured anew instead of failing in the middle.
log=build/$preset-configure.log
mkdir -p build
cmake --preset "$preset" "${options[@]}" >"$log" 2>&1 ||
  cmake --fresh --preset "$preset" "${options[@]}" >"$log" 2>&1 ||
  { cat "$log" >&2; echo "build: cmake could not configure the preset '$preset' (see above)" >&2; exit 1; }

targets=()
[ $# = 0 ] || targets=(--target "$@")
cmake --build "build/$preset" --parallel "${JOBS:-2}" "${targets[@]}"

program=build/$preset/bin/espalier
if [ "$preset" = release ] && [ -f "$program" ]; then
  ln -f "$program" build/espalier
  emulated=build/$preset/bin/libespalier_emu.so  # the program looks for it beside itself
  [ ! -f "$emulated" ] || ln -f "$emulated" build/
fi
