#!/usr/bin/env bash
# tools/package/strip.sh LINKED STRIPPED DEBUG-FOLDER: the program without its debug information, which goes, compressed, to
# DEBUG-FOLDER under the build id: where gdb looks (debug-file-directory), and addr2line and eu-addr2line with it.
set -euo pipefail
linked=$1 stripped=$2 debug=$3
id=$(readelf -n "$linked" | sed -n 's/.*Build ID: //p')
[ -n "$id" ] || { echo "package: $linked has no build id" >&2; exit 1; }
symbols=$debug/.build-id/${id:0:2}/${id:2}.debug
rm -rf "$debug"
mkdir -p "$(dirname "$symbols")" "$(dirname "$stripped")"
objcopy --only-keep-debug --compress-debug-sections=zlib "$linked" "$symbols"
ln -s ".build-id/${id:0:2}/${id:2}.debug" "$debug/espalier.debug"
objcopy --strip-all "--add-gnu-debuglink=$symbols" "$linked" "$stripped"
printf 'package: %s bytes linked, %s stripped, %s of debug information, build id %s\n' \
  "$(stat -c %s "$linked")" "$(stat -c %s "$stripped")" "$(stat -c %s "$symbols")" "$id"
