#!/bin/bash
# Installs the Helix that the tests of other editors drive, and tmux, without touching a Helix of the system's.
#
# usage: scripts/editors/helix.sh [FOLDER]     (default: ~/.cache/composer-testbeds/helix)
#
# Gives FOLDER/hx: about 200 MB, less than a minute. Nothing is compiled. Returns at once when the folder already holds
# it and it runs. Needs Debian, and root once (patchelf, tmux).
set -euo pipefail

SUITE=forky # the suite of Debian whose Helix is 25.07

folder=$(realpath -m "${1:-${COMPOSER_TESTBEDS:-$HOME/.cache/composer-testbeds}/helix}")
versions="25.07 of $SUITE"

fail() { echo "helix.sh: $*" >&2; exit 1; }

runs() { "$folder/hx" --version 2>/dev/null | grep -q '^helix 25\.'; }

installed() { [ "$(cat "$folder/versions" 2>/dev/null)" = "$versions" ] && runs && command -v tmux >/dev/null; }

install_tools() {
  command -v patchelf >/dev/null && command -v tmux >/dev/null && return
  [ "$(id -u)" = 0 ] || fail "patchelf or tmux is missing; install them as root: apt-get install patchelf tmux"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends patchelf tmux >/dev/null
}

# The mirror that apt already uses.
mirror() {
  { awk '/^URIs:/ {print $2; exit}' /etc/apt/sources.list.d/debian.sources 2>/dev/null
    sed -nE 's/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/p' /etc/apt/sources.list 2>/dev/null || true; } |
    awk 'NF {print; found = 1; exit} END {exit !found}' || fail "apt names no Debian mirror in its sources"
}

# Helix of a newer suite with every library that it needs, the C library too: unpacked beside the system.
install_helix() {
  local root=$folder/root apt=$folder/apt options
  rm -rf "$root" "$apt"
  mkdir -p "$root" "$apt"/{state/lists,cache/archives}/partial
  : >"$apt/status" # as if no package were installed, so that apt resolves all of them
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $SUITE main" >"$apt/sources.list"
  options=(-o "Dir::State=$apt/state" -o "Dir::Cache=$apt/cache" -o "Dir::State::status=$apt/status"
    -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Acquire::Languages=none -o Debug::NoLocking=1)
  [ "$(id -u)" = 0 ] && options+=(-o APT::Sandbox::User=root)
  apt-get "${options[@]}" -qq update
  apt-get "${options[@]}" -y -qq --no-install-recommends --download-only install hx >/dev/null
  for package in "$apt"/cache/archives/*.deb; do dpkg -x "$package" "$root"; done
  rm -rf "$apt"
  local libraries
  libraries=$root/usr/lib/$(uname -m)-linux-gnu
  patchelf --set-interpreter "$(find "$libraries" -maxdepth 1 -name 'ld-linux-*.so*' | head -1)" \
    --force-rpath --set-rpath "$libraries" "$root/usr/lib/hx/hx"
  printf '#!/bin/sh\nexport HELIX_RUNTIME="%s"\nexec "%s" "$@"\n' "$root/usr/lib/hx/runtime" "$root/usr/lib/hx/hx" \
    >"$folder/hx"
  chmod +x "$folder/hx"
}

installed && exit 0
install_tools
mkdir -p "$folder"
rm -f "$folder/versions"
install_helix
runs || fail "Helix was installed in $folder but does not start"
echo "$versions" >"$folder/versions"
echo "Helix's test bed is in $folder."
