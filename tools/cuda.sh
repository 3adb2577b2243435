#!/usr/bin/env bash
# tools/cuda.sh: what `make cuda` makes: build/cuda/libespalier_cuda.so, the device kernels for GPUs, and a copy beside the program.
#
#   ARCHS="80 90a"               for which GPUs (compute capabilities); each has its own code, there is none for others
#   ESPALIER_CUDA_TOOLKIT=DIR    the tree of tools/cuda/requirements.txt, unpacked; else build/cuda/toolkit, downloaded once
#
# Needs neither a GPU nor a driver. Only what changed is compiled again; ccache is used where it is there. What each kernel
# takes of registers and memory is told and checked (tools/cuda/resources.py): a kernel that spills is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
root=build/cuda
library=$root/libespalier_cuda.so
toolkit=${ESPALIER_CUDA_TOOLKIT:-$PWD/$root/toolkit}
read -ra archs <<<"${ARCHS:-80 89 90a 100a 120}"
mapfile -t sources < <(find src/kernels/cuda src/device/library -name '*.cu' | sort)
objects=("${sources[@]/#/$root/}")
objects=("${objects[@]/%/.o}")
say() { printf 'cuda: %s\n' "$*"; }
fail() { printf 'cuda: %s\n' "$*" >&2; exit 1; }

# From the package index that pip is configured for, into a tree of its own.
download() {
  [ -z "${ESPALIER_CUDA_TOOLKIT:-}" ] || return 0
  cmp -s tools/cuda/requirements.txt "$toolkit/done" && return
  say "downloading the compiler (some 110 MB, once) into $root/toolkit"
  rm -rf "$toolkit"
  python3 -m venv "$root/venv"
  "$root/venv/bin/pip" install -q --disable-pip-version-check --no-deps --no-compile --only-binary :all: \
    --target "$toolkit" -r tools/cuda/requirements.txt ||
    fail "pip could not install it (no package index, or no room?). ESPALIER_CUDA_TOOLKIT=DIR takes a tree that is there"
  cp tools/cuda/requirements.txt "$toolkit/done"
}

# build.ninja: one object a source, with code for every architecture; what ptxas says of it goes to a log beside it.
write_build() {
  local cuda=$toolkit/nvidia/cu13 codes=() i
  for i in "${archs[@]}"; do codes+=("-gencode=arch=compute_$i,code=sm_$i"); done
  cat <<END
builddir = $root
rule nvcc
  command = $(command -v ccache || true) $cuda/bin/nvcc -ccbin g++ -std=c++20 -O3 ${codes[*]} --expt-relaxed-constexpr -fmad=false $
    -ftz=false -prec-div=true -prec-sqrt=true -Xptxas -v -Xcompiler -fPIC,-fvisibility=hidden,-ffp-contract=off $
    -Isrc -Iinclude -isystem $toolkit/cutlass_library/source/include -MD -MF \$out.d -c \$in -o \$out >\$out.log 2>&1 $
    || { cat \$out.log >&2; exit 1; }; grep -A3 warning \$out.log || true
  depfile = \$out.d
  deps = gcc
  description = \$in
rule link
  command = g++ -shared -o \$out \$objects -L$cuda/lib -lcudart_static -lrt -lpthread -ldl -Wl,--exclude-libs,ALL $
    -Wl,--version-script=tools/cuda/exports.map -Wl,--no-undefined && strip --strip-unneeded \$out
  description = \$out
build $library: link ${objects[*]} | tools/cuda/exports.map
  objects = ${objects[*]}
END
  for i in "${!sources[@]}"; do printf 'build %s: nvcc %s\n' "${objects[i]}" "${sources[i]}"; done
}

check_exports() {
  local exported
  exported=$(nm --dynamic --defined-only "$library" | awk '{print $3}')
  [ "$exported" = espalier_device_table ] || fail "$library exports more than its table: ${exported//$'\n'/ }"
}

# Where device.h looks: beside the program, which has two names (tools/build.sh).
put_beside_program() {
  mkdir -p build/release/bin
  cp --remove-destination "$library" build/release/bin/  # a server may have the old one open
  ln -f build/release/bin/libespalier_cuda.so build/
}

mkdir -p "$root"
started=$SECONDS
download
[ -x "$toolkit/nvidia/cu13/bin/nvcc" ] || fail "there is no nvcc in $toolkit/nvidia/cu13/bin"
write_build >"$root/build.ninja"
say "compiling for ${archs[*]}, ${JOBS:-2} at a time"
ninja -f "$root/build.ninja" -j "${JOBS:-2}" "$library" || fail "it could not be built (see above)"
check_exports
python3 tools/cuda/resources.py --to "$root/kernels.txt" --may-spill tools/cuda/spills.txt "${objects[@]/%/.log}"
put_beside_program
say "$library: $(du -h --apparent-size "$library" | cut -f1), after $((SECONDS - started)) s; copies beside the program"
