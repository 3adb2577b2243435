#!/usr/bin/env bash
# tools/lint.sh [--fix-format] [FILE...]: clang-format and clang-tidy over the project's tracked C++ files (or those
# named). --fix-format only rewrites the formatting. Warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."
fix=0
if [ "${1:-}" = --fix-format ]; then fix=1; shift; fi

if [ $# -gt 0 ]; then files=("$@"); else mapfile -t files < <(git ls-files '*.cpp' '*.h' '*.cu'); fi
if [ $fix = 1 ]; then exec clang-format-19 -i "${files[@]}"; fi
echo "lint: clang-format over ${#files[@]} files"
status=0
clang-format-19 --dry-run -Werror "${files[@]}" || status=1

# clang-tidy reads flags as clang knows them, so its own tree is configured with clang; only sources are generated in it.
# It spends nine tenths of its time in library headers: over the whole project it reads a dozen files at once.
if [ $# -gt 0 ]; then
  tree=build/lint/files unity=OFF checks=
else
  tree=build/lint/whole unity=ON checks=-bugprone-suspicious-include,-clang-diagnostic-shadow
fi
mkdir -p "$tree/once"
{ cmake --preset asan -B "$tree" -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 -DESPALIER_SANITIZE= \
    -DCMAKE_UNITY_BUILD=$unity && cmake --build "$tree" --target espalier_generated; } >"$tree.log" 2>&1 ||
  { cat "$tree.log" >&2; exit 1; }
# A file that several programs share (tests/replay_corpus.cpp) is read once, not once a program.
mapfile -t sources < <(python3 - "$tree" "$@" <<'EOF'
import json, os, sys
tree, named = sys.argv[1], {os.path.relpath(name) for name in sys.argv[2:]}
known = {os.path.relpath(e["file"]): e for e in json.load(open(f"{tree}/compile_commands.json"))}
json.dump(list(known.values()), open(f"{tree}/once/compile_commands.json", "w"))
print("\n".join(name for name in known if not named or name in named))
EOF
)
echo "lint: clang-tidy over ${#sources[@]} translation units"
printf '%s\0' "${sources[@]}" | xargs -0 -r -n 1 -P "${JOBS:-2}" clang-tidy-19 --quiet --checks="$checks" -p "$tree/once" \
  2> >(grep -vE '^[0-9]+ warnings? generated\.$' >&2) || status=1
if [ $status = 0 ]; then echo "lint: clean"; else echo "lint: FAILED (see above)"; fi
exit $status
