#!/usr/bin/env bash
# tools/package/deb.sh: the staged tree as a Debian package, for every Debian and Ubuntu whose glibc is new enough.
# tools/package.sh sets stage, package_root, dist, version, arch.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$package_root/deb
rm -rf "$root"
mkdir -p "$root/usr" "$root/DEBIAN" "$root/etc/espalier"
cp -r "$stage/bin" "$stage/share" "$root/usr/"
mkdir -p "$root/usr/share/zsh/vendor-completions"
mv "$root/usr/share/zsh/site-functions/_espalier" "$root/usr/share/zsh/vendor-completions/"
rmdir "$root/usr/share/zsh/site-functions"
mv "$root/usr/share/espalier/espalier.yaml" "$root/etc/espalier/"
rm -r "$root/usr/share/espalier/systemd"

# /usr/lib has units on systems with and without a merged /usr (a link there); the comment about a hand-made user goes.
mkdir -p "$root/lib/systemd/system"
for unit in espalier.service espalier.socket; do
  sed -e 's#/usr/local/bin/#/usr/bin/#' -e '/^#   /d' "deploy/systemd/$unit" >"$root/lib/systemd/system/$unit"
  chmod 644 "$root/lib/systemd/system/$unit"
done

doc=$root/usr/share/doc/espalier
rm "$doc/LICENSE"
{
  printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: espalier\n\n'
  printf 'Files: *\nCopyright: the authors of Espalier\nLicense: Apache-2.0\n On Debian systems: /usr/share/common-licenses/Apache-2.0\n'
  printf 'Comment: the licences of the libraries inside are in THIRD-PARTY.txt.\n'
} >"$doc/copyright"
mv "$doc/CHANGELOG.md" "$doc/changelog"
gzip -9n "$doc/changelog" "$doc/THIRD-PARTY.txt"
chmod -R u=rwX,go=rX "$root"

needed=$(objdump -T "$root/usr/bin/espalier" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -1 | sed 's/GLIBC_//')
cat >"$root/DEBIAN/control" <<CONTROL
Package: espalier
Version: $version
Architecture: $arch
Maintainer: Espalier <espalier@localhost>
Section: net
Priority: optional
Installed-Size: $(du -sk --apparent-size "$root" | cut -f1)
Depends: adduser, libc6 (>= $needed), libgcc-s1
Recommends: ca-certificates
Suggests: libzmq5, python3-pip
Description: server for language models
 One program that serves language models and models that read pictures, over the
 HTTP APIs of OpenAI, Anthropic, Ollama, llama.cpp and SGLang, and runs programs
 that call them. It needs neither Python nor a GPU.
 .
 libzmq5 is for routers that listen to its prefix cache, python3-pip fetches
 the default model.
CONTROL
echo /etc/espalier/espalier.yaml >"$root/DEBIAN/conffiles"
install -m755 deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm "$root/DEBIAN/"
(cd "$root" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s) \
  dpkg-deb --root-owner-group -Zxz --build "$root" "$dist/espalier_${version}_$arch.deb" >/dev/null
