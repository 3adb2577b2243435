#!/usr/bin/env bash
# tools/test.sh PRESET...: builds each preset and runs its tests; ends with ctest's closing lines. Exit 1 when any failed.
# Tests run one after another: many use several threads, or measure, and the smallest machine has two cores.
set -euo pipefail
cd "$(dirname "$0")/.."

# A report that names the line, and a leak or a race that fails the test instead of only being printed.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1}
export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$PWD/tools/lsan.supp:print_suppressions=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-second_deadlock_stack=1:suppressions=$PWD/tools/tsan.supp}

tools/venv.sh || echo "test: no package index; tests that need clients, and those of the Python package, are left out"
status=0
for preset in "$@"; do
  tools/build.sh "$preset"
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error || status=1
done
exit $status
