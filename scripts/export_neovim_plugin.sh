#!/bin/bash
# Copies the Neovim plugin's tree to a folder of its own, for managers and packages that take a whole folder.
#
# usage: scripts/export_neovim_plugin.sh DEST      (replaces what an earlier export left there)
set -euo pipefail

[ $# = 1 ] || { echo "usage: $0 DEST" >&2; exit 2; }
source=$(cd "$(dirname "$0")/../editor-clients/neovim" && pwd)
destination=$(realpath -m "$1")

if [ -e "$destination" ] && [ -n "$(ls -A "$destination")" ] && [ ! -e "$destination/lua/composer/init.lua" ]; then
  echo "export_neovim_plugin.sh: $destination holds something else; name a new folder" >&2
  exit 1
fi
rm -rf "$destination"
mkdir -p "$destination"
cp -R "$source/." "$destination"
cp "$source/../../LICENSE" "$destination/LICENSE"
rm -f "$destination/doc/tags"
# For `:help composer`; without nvim here, `:helptags ALL` does it later.
if command -v nvim >/dev/null; then
  nvim --clean --headless -c "helptags $destination/doc" -c qall </dev/null
fi
echo "The plugin is in $destination."
