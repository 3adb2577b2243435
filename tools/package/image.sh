#!/usr/bin/env bash
# tools/package/image.sh: the Dockerfile judged by hadolint and carried out by buildah, with the tarball as the program and a
# clean root of Debian 12 as `debian:bookworm-slim`: no registry and no daemon are asked. Then a server in the image, as its own
# user, who may write to two folders. Needs root; what buildah keeps is removed again.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
say() { printf 'package: %s\n' "$*"; }
. tools/package/suite.sh
. tools/package/roots.sh
[ "$(id -u)" = 0 ] || { echo "package: the image is made as root: run 'sudo make package', or leave out the part image" >&2; exit 1; }
most=$((100 * 1000 * 1000))
store=$package_root/buildah
most_of_buildah=(buildah --storage-driver vfs --root "$store/root" --runroot "$store/run")
image=localhost/espalier:$version
made=
trap 'end' EXIT
end() {
  [ -z "$made" ] || { unmounted "$made"; "${most_of_buildah[@]}" umount --all >/dev/null 2>&1 || true; }
  rm -rf "$store" "$package_root/docker"
}

# The ignore rules of this Dockerfile leave what the build needs; a context of that alone keeps vfs small.
context() {
  local folder=$package_root/docker
  rm -rf "$folder"
  mkdir -p "$folder/build/package/dist"
  cp "$dist/espalier-$version-linux-$cpu.tar.gz" "$folder/build/package/dist/"
  cp deploy/docker/Dockerfile "$folder/"
  echo "$folder"
}

base_image() {
  local root container
  root=$(clean_root bookworm)
  container=$("${most_of_buildah[@]}" from scratch)
  "${most_of_buildah[@]}" add -q "$container" "$root" / >/dev/null
  "${most_of_buildah[@]}" commit -q "$container" localhost/debian:bookworm-slim >/dev/null
  "${most_of_buildah[@]}" rm "$container" >/dev/null
  rm -rf "$root"
}

served_as_its_user() {
  local port server
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  chroot --userspec=65532:65532 "$made" /usr/bin/espalier serve /model --port "$port" --cache-dir /var/cache/espalier \
    >"$package_root/image.log" 2>&1 &
  server=$!
  for ((i = 0; i < 200; ++i)); do
    if python3 tools/package/ask.py "$port" --ready 2>/dev/null; then break; fi
    sleep 0.1
  done
  say "image: $(python3 tools/package/ask.py "$port" || { cat "$package_root/image.log"; kill "$server"; exit 1; })"
  kill -TERM "$server"
  wait "$server"
}

"$package_root/venv/bin/hadolint" --ignore DL3008 deploy/docker/Dockerfile  # versions of packages are the distribution's
base_image
folder=$(context)
"${most_of_buildah[@]}" bud -q --isolation chroot --pull-never --build-arg PROGRAM=packed -t "$image" "$folder" >"$package_root/image-build.log" 2>&1 ||
  { tail -20 "$package_root/image-build.log" >&2; exit 1; }
container=$("${most_of_buildah[@]}" from --pull-never "$image")
made=$("${most_of_buildah[@]}" mount "$container")
size=$(du -sb "$made" | cut -f1)
say "image: $size bytes, user $("${most_of_buildah[@]}" inspect --format '{{.OCIv1.Config.User}}' "$container")"
[ "$size" -lt "$most" ] || { say "at most $most are wanted"; exit 1; }
mounted "$made" 2>/dev/null || { mkdir -p "$made/proc" "$made/dev"; mounted "$made"; }
cp -r tests/data/goldens/models/llama3-tied-gqa "$made/model"
served_as_its_user
say "image: 1 passed, 0 failed"
