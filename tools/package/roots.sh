# Sourced: clean roots of other distributions, made by debootstrap once and copied for each use. Needs root, suite.sh and
# `package_root`.

# clean_root SUITE PACKAGE...: a fresh copy of the root with these packages more; prints its folder.
clean_root() {
  local suite=$1 root=$package_root/roots/$1 base more
  shift
  more=$(IFS=,; echo "$*")
  base=$package_root/roots/base-$suite${more:+-with-$more}
  if [ ! -f "$base/.done" ]; then
    say "a clean root of $suite${more:+ with $*}" >&2
    rm -rf "$base"
    debootstrap --variant=minbase ${more:+--include="$more"} "$suite" "$base" "$(mirror_of "$suite")" >"$package_root/$suite.log" 2>&1 ||
      { tail -5 "$package_root/$suite.log" >&2; return 1; }
    touch "$base/.done"
  fi
  unmounted "$root"
  rm -rf "$root"
  cp -a --reflink=auto "$base" "$root"
  echo "$root"
}

mounted() { mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev"; }
unmounted() {
  local place
  for place in proc dev; do
    if mountpoint -q "$1/$place" 2>/dev/null; then umount "$1/$place"; fi
  done
}
