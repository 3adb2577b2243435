#!/usr/bin/env bash
# tools/package/glibc_needed.sh FILE...: fails unless each asks for glibc 2.31 at most, and for no library but glibc's own
# and libgcc_s, which is on every system that has a C++ program.
set -euo pipefail
most=2.31
for file in "$@"; do
  needed=$(objdump -T "$file" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -1 | sed 's/GLIBC_//')
  if [ "$(printf '%s\n%s\n' "$needed" "$most" | sort -V | tail -1)" != "$most" ]; then
    echo "package: $file asks for glibc $needed; $most is the newest that may be" >&2
    objdump -T "$file" | grep -F "GLIBC_$needed" >&2
    exit 1
  fi
  others=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vxE 'lib(c|m|dl|pthread|rt|gcc_s)\.so\.[0-9]|ld-linux.*' || true)
  [ -z "$others" ] || { echo "package: $file asks for $others; portable builds have them inside" >&2; exit 1; }
  echo "package: $(basename "$file") asks for glibc $needed"
done
