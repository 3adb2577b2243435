#!/usr/bin/env bash
# tools/lint.sh [--fix-format] [FILE...]: clang-format and clang-tidy over the project's tracked C++ files (or those
# named). --fix-format only rewrites the formatting. Warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."
fix=0
if [ "${1:-}" = --fix-format ]; then fix=1; shift; fi

if [ $# -gt 0 ]; then files=("$@"); else mapfile -t files < <(git ls-files '*.cpp' '*.h'); fi
if [ $fix = 1 ]; then exec clang-format-19 -i "${files[@]}"; fi
echo "lint: clang-format over ${#files[@]} files"
status=0
clang-format-19 --dry-run -Werror "${files[@]}" || status=1

mkdir -p build/lint/once
# clang-tidy reads flags as clang knows them, so its own tree is configured with clang; only sources are generated in it.
{ cmake --preset release -B build/lint -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 &&
  cmake --build build/lint --target espalier_generated; } >build/lint.log 2>&1 ||
  { cat build/lint.log >&2; exit 1; }
# A file that several programs share (tests/replay_corpus.cpp) is read once, not once a program.
mapfile -t sources < <(printf '%s\n' "${files[@]}" | grep '\.cpp$' |
  python3 -c 'import json, os, sys
known = {os.path.relpath(e["file"]): e for e in json.load(open("build/lint/compile_commands.json"))}
json.dump(list(known.values()), open("build/lint/once/compile_commands.json", "w"))
print("\n".join(line for line in sys.stdin.read().split() if line in known))')
echo "lint: clang-tidy over ${#sources[@]} files"
printf '%s\0' "${sources[@]}" | xargs -0 -r -n 1 -P "${JOBS:-2}" clang-tidy-19 --quiet -p build/lint/once \
  2> >(grep -vE '^[0-9]+ warnings? generated\.$' >&2) || status=1
if [ $status = 0 ]; then echo "lint: clean"; else echo "lint: FAILED (see above)"; fi
exit $status
