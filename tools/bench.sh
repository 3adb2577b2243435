#!/usr/bin/env bash
# tools/bench.sh [TARGET...]: builds and runs the micro-benchmarks that lie beside the code (x_bench.cpp), each of which
# prints a physical unit against the limit it measured on the spot.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# = 0 ]; then
  mapfile -t targets < <(git ls-files 'src/*_bench.cpp' 'apps/*_bench.cpp' | xargs -r -n 1 basename | sed 's/\.cpp$//')
else
  targets=("$@")
fi
[ ${#targets[@]} -gt 0 ] || { echo "bench: there are no benchmarks yet"; exit 0; }
tools/build.sh release "${targets[@]}"
for target in "${targets[@]}"; do
  echo "== $target"
  build/release/bin/"$target"
done
