#!/bin/bash
# Installs the Helix that the tests of other editors drive, and tmux, without touching a Helix of the system's.
#
# usage: scripts/editors/helix.sh [FOLDER]     (default: ~/.cache/composer-testbeds/helix)
#
# Gives FOLDER/hx: about 200 MB, less than a minute. Nothing is compiled. Returns at once when the folder already holds
# it and it runs. Needs Debian, and root once (patchelf, tmux).
set -euo pipefail
. "$(dirname "$0")/shared.sh"

SUITE=forky # the suite of Debian whose Helix is 25.07

folder=$(testbed helix "$@")
versions="25.07 of $SUITE"

runs() { "$folder/hx" --version 2>/dev/null | grep -q '^helix 25\.'; }

holds "$folder" "$versions" && runs && command -v tmux >/dev/null && exit 0
need patchelf tmux
mkdir -p "$folder"
rm -f "$folder/versions"
unpack "$SUITE" hx "$folder/root"
link "$folder/root" "$folder/root/usr/lib/hx/hx"
launcher "$folder/hx" "$folder/root/usr/lib/hx/hx" "HELIX_RUNTIME=$folder/root/usr/lib/hx/runtime"
runs || fail "Helix was installed in $folder but does not start"
echo "$versions" >"$folder/versions"
echo "Helix's test bed is in $folder."
