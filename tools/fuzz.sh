#!/usr/bin/env bash
# tools/fuzz.sh [TARGET...]: runs every libFuzzer target (src/<module>/**/x_fuzz.cpp) for FUZZ_SECONDS each, under ASan
# and UBSan, starting from the seeds in the tree. What it discovers goes to build/fuzz/corpus/, what breaks it to
# build/fuzz/crashes/: add such an input to fuzz_corpus/<subject>/ beside the code, so that it stays a test.
set -euo pipefail
cd "$(dirname "$0")/.."
sources=()
while read -r source; do
  target=$(basename "$source" .cpp)
  if [ $# = 0 ] || [[ " $* " == *" $target "* ]]; then sources+=("$source"); fi
done < <(git ls-files 'src/*_fuzz.cpp' 'apps/*_fuzz.cpp')
[ ${#sources[@]} -gt 0 ] || { echo "fuzz: no target is named $*"; exit 1; }
mapfile -t targets < <(basename -s .cpp "${sources[@]}")
tools/build.sh fuzz "${targets[@]}"

status=0
for source in "${sources[@]}"; do
  target=$(basename "$source" .cpp)
  seeds=$(dirname "$source")/fuzz_corpus/${target%_fuzz}
  found=build/fuzz/corpus/$target
  mkdir -p "$found" build/fuzz/crashes
  [ -d "$seeds" ] || seeds=
  echo "fuzz: $target for ${FUZZ_SECONDS:-60} s"
  if build/fuzz/bin/"$target" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/crashes/$target-" "$found" ${seeds:+"$seeds"} >"build/fuzz/$target.log" 2>&1; then
    grep -E 'stat::(number_of_executed_units|peak_rss_mb)' "build/fuzz/$target.log"
  else
    tail -60 "build/fuzz/$target.log"
    echo "fuzz: $target FAILED; the input lies in build/fuzz/crashes/, the log in build/fuzz/$target.log"
    status=1
  fi
done
if [ $status = 0 ]; then echo "fuzz: nothing found"; fi
exit $status
