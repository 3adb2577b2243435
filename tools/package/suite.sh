# Sourced: packages and sources of other Debian suites than this machine's, from the mirrors that its apt is configured
# with. Nothing of this machine's apt changes. Shell functions; they need `package_root` (build/package) and `say`.

# mirror_of SUITE: where this machine gets Debian from; for SUITE-security where it gets that archive from. Prints nothing
# when its sources name none.
mirror_of() {
  local here
  here=$(. /etc/os-release && echo "$VERSION_CODENAME")
  case $1 in *-security) here=$here-security ;; esac
  apt-get indextargets --format '$(SITE) $(CODENAME)' | awk -v code="$here" '$2 == code && !found {found = 1; print $1}'
}

# suite_apt SUITE [apt-get's arguments...]: with that suite's lists alone (fetched once), and the machine's keys.
suite_apt() {
  local suite=$1 folder=$package_root/apt/$1 one site
  shift
  if [ ! -f "$folder/done" ]; then
    mkdir -p "$folder/lists/partial" "$folder/archives/partial"
    [ -n "$(mirror_of "$suite")" ] || { echo "package: apt's sources name no mirror of this machine's Debian" >&2; return 1; }
    for one in "$suite" "$suite-security"; do
      site=$(mirror_of "$one")
      [ -z "$site" ] || printf '%s %s %s main\n' deb "$site" "$one" deb-src "$site" "$one"
    done >"$folder/sources.list"
    say "lists of Debian $suite"
    run_suite_apt "$folder" -qq update && touch "$folder/done" || return 1
  fi
  run_suite_apt "$folder" -qq "$@"
}

run_suite_apt() {
  local folder=$1
  shift
  apt-get -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$folder/lists" \
    -o Dir::State::status=/dev/null -o Dir::Cache::archives="$folder/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root \
    -o Acquire::Retries=3 "$@"
}

# unpacked_from SUITE FOLDER PACKAGE...: the files of these packages, with links that stay in FOLDER.
unpacked_from() {
  local suite=$1 into=$2 package link target
  shift 2
  mkdir -p "$into" "$package_root/debs/$suite"
  for package in "$@"; do
    compgen -G "$package_root/debs/$suite/${package}_*.deb" >/dev/null ||
      (cd "$package_root/debs/$suite" && suite_apt "$suite" download "$package") || return 1
    dpkg-deb -x "$package_root/debs/$suite/${package}"_*.deb "$into" || return 1
  done
  find "$into" -type l -lname '/*' -printf '%p\t%l\n' | while IFS=$'\t' read -r link target; do
    ln -sfnr "$into$target" "$link"
  done
}

# source_of SUITE PACKAGE: fetches and unpacks a source package below build/package/sources, with Debian's patches, the
# newest version that the mirror really has; prints its folder.
source_of() {
  local suite=$1 package=$2 version folder
  mkdir -p "$package_root/sources"
  cd "$package_root/sources"
  suite_apt "$suite" check >&2  # so that its lists are there
  for version in $(versions_of "$suite" "$package"); do
    folder=$package_root/sources/$package-$version
    if [ ! -f "$folder/.unpacked" ]; then
      rm -rf "$folder" && suite_apt "$suite" source --download-only "$package=$version" >&2 || continue
      dpkg-source -q --no-check --extract "${package}_${version#*:}.dsc" "$folder" >&2 && touch "$folder/.unpacked" || return 1
    fi
    echo "$folder"
    return
  done
  echo "package: the mirrors have no source of $package" >&2
  return 1
}

versions_of() {
  local folder=$package_root/apt/$1
  apt-cache -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$folder/lists" \
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= showsrc --only-source "$2" | sed -n 's/^Version: //p' | sort -Vru
}
