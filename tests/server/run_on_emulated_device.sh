#!/usr/bin/env bash
# tests/server/run_on_emulated_device.sh: tests of the server that compare its own answers, in overload, retraction, restarts and on
# every kind of model, with --device emu. They take minutes: only with ESPALIER_LONG_TESTS.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${ESPALIER_LONG_TESTS:-}" ]; then
  echo "the server on the emulated device: left out without ESPALIER_LONG_TESTS"
  exit 77
fi
export ESPALIER_DEVICE=emu ESPALIER_EMU_STRICT=1
exec "$here/run.sh" test_every_kind test_overload test_generate test_constraints test_drafts test_sessions test_programs test_life
