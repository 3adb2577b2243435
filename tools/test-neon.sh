#!/usr/bin/env bash
# tools/test-neon.sh: the NEON kernels on a machine of another kind: base, tensor, kernels and model with their tests,
# cross-compiled (preset neon) and run under qemu's user emulation. Exit 1 when any test failed. Emulation shows results
# and illegal instructions; it shows neither speed nor the processor's weak memory order.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(uname -m)" = aarch64 ]; then echo "test-neon: this machine runs NEON itself, \`make test\` covers it"; exit 0; fi
tools/setup.sh neon
nice -n 15 tools/build.sh neon

# The kernels that the program finds runnable on a processor: a run that fell back to plain loops would prove nothing.
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64)
kernels_on() {
  QEMU_CPU=$1 "$emulator" -L /usr/aarch64-linux-gnu build/neon/bin/kernels_test --gtest_list_tests |
    grep -oE '/(i8mm|neon|scalar)' | sort -u | xargs
}
expect_kernels() {
  local found
  found=$(kernels_on "$1")
  [ "$found" = "$2" ] || { echo "test-neon: $1 should run the kernels '$2' but runs '$found'" >&2; exit 1; }
}

# test_on CPU KERNELS FILTER [CTEST OPTION...]
status=0
test_on() {
  local cpu=$1 kernels=$2 filter=$3
  shift 3
  expect_kernels "$cpu" "$kernels"
  echo "test-neon: on $cpu"
  QEMU_CPU=$cpu GTEST_FILTER=$filter nice -n 15 ctest --test-dir build/neon --output-on-failure --no-tests=error "$@" ||
    status=1
}

# Every extension that qemu knows, dot products and i8mm among them, so the products in pairs of rows (i8mm). Left out: plain loops, which the last run has, and
# tests that start themselves anew, which the system refuses without qemu.
test_on max '/i8mm /neon /scalar' '-*/scalar*:*DeathTest*'
# The first processors with dot products: anything newer in the kernels would be an illegal instruction.
test_on cortex-a76 '/neon /scalar' '*/neon*' -R '^kernels$'
# No dot product: the plain loops are chosen at start.
test_on cortex-a72 /scalar '*' -R '^kernels$'
exit $status
