#!/usr/bin/env bash
# tools/package/libraries.sh: lays out build/package/libraries, what cmake/portable/portable.cmake links with: an older
# libc, a libcurl that needs nothing but OpenSSL and zlib, and two of Debian's libraries made fit for modules. Changes nothing
# when it is there. The headers of newer CPythons lie beside it (python.h's stable ABI, python/CMakeLists.txt).
set -euo pipefail
cd "$(dirname "$0")/../.."
package_root=$PWD/build/package
libraries=$package_root/libraries
oldest=bullseye       # glibc 2.31: Debian 11, Ubuntu 20.04, RHEL 9 and what came later
here=$(. /etc/os-release && echo "$VERSION_CODENAME")
newer_python=trixie   # its headers; the module asks for 3.12 and newer
say() { printf 'package: %s\n' "$*"; }
. tools/package/suite.sh

machine=$(gcc -print-multiarch)

older_libc() {
  [ -f "$libraries/sysroot/done" ] && return
  say "the C library of $oldest"
  rm -rf "$libraries/sysroot"
  unpacked_from "$oldest" "$libraries/sysroot" libc6 libc6-dev libgcc-s1
  ln -sfn "../../../lib/$machine/libgcc_s.so.1" "$libraries/sysroot/usr/lib/$machine/libgcc_s.so.1"
  touch "$libraries/sysroot/done"
}

# The source of Debian's own package, so with its patches. HTTP alone: redirects, proxies and certificates are what we use.
http_curl() {
  [ -f "$libraries/lib/libcurl.a" ] && return
  local source build=$package_root/curl
  source=$(source_of "$here" curl)
  say "libcurl $(basename "$source" | sed 's/^curl-//'), HTTP alone"
  rm -rf "$build" && mkdir -p "$build" "$libraries/lib"
  (cd "$build" && "$source/configure" -q --disable-shared --enable-static --with-openssl --with-zlib --enable-threaded-resolver \
    --with-ca-bundle=/etc/ssl/certs/ca-certificates.crt --with-ca-path=/etc/ssl/certs --disable-dependency-tracking \
    --without-{nghttp2,brotli,zstd,libidn2,libpsl,librtmp,libssh2,gssapi} \
    --disable-{ldap,ldaps,ftp,file,dict,gopher,imap,mqtt,pop3,rtsp,smb,smtp,telnet,tftp,manual,ntlm,alt-svc,docs} \
    CFLAGS="-O2 -fPIC -fvisibility=hidden -ffile-prefix-map=$source=curl" &&
    make -s -j"${JOBS:-2}" -C lib) >"$build.log" 2>&1 || { tail -20 "$build.log" >&2; exit 1; }
  cp "$build/lib/.libs/libcurl.a" "$libraries/lib/"
  basename "$source" | sed 's/^curl-/curl /' >"$libraries/lib/curl.version"
}

# Debian compiles them for programs (older_glibc.cpp says what that means in a module).
fit_for_modules() {
  local name
  for name in jpeg png; do
    objcopy --redefine-sym stderr=espalier_stderr "/usr/lib/$machine/lib$name.a" "$libraries/lib/lib$name.a"
  done
}

python_headers() {
  [ -d "$libraries/python" ] && return
  say "the headers of $newer_python's CPython"
  local version
  version=$(suite_apt "$newer_python" download --print-uris libpython3-dev | sed -n 's/.*libpython3-dev_\([0-9]*\.[0-9]*\).*/\1/p')
  unpacked_from "$newer_python" "$package_root/python-$newer_python" "libpython$version-dev"
  mkdir -p "$libraries/python"
  cp -r "$package_root/python-$newer_python/usr/include/python$version/." "$libraries/python/"
  cp "$package_root/python-$newer_python/usr/include/$machine/python$version/pyconfig.h" "$libraries/python/pyconfig.h"
}

older_libc
http_curl
fit_for_modules
python_headers
