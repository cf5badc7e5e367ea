#!/bin/bash
# Installs what the Emacs tests drive: Debian's emacs-nox, from backports where the release's own is older than 30, and
# rass with a second language server for it. Emacs is the system's: an older one is replaced.
#
# usage: scripts/editors/emacs.sh [FOLDER]     (default: ~/.cache/composer-testbeds/emacs)
#
# Gives `emacs` on the PATH, and FOLDER/bin/rass and FOLDER/bin/pylsp: about 200 MB, less than a minute. Nothing is
# compiled, and apt's sources stay as they are. Returns at once when all of it is there. Needs Debian 12 or newer, root
# once, and python3 with venv.
set -euo pipefail
. "$(dirname "$0")/shared.sh"

LEAST=30 # the oldest Emacs that is tested
RASS=0.3.5
PYLSP=1.15.0

folder=$(testbed emacs "$@")
versions="rass $RASS, pylsp $PYLSP"

major() { emacs --version 2>/dev/null | sed -nE '1s/^GNU Emacs ([0-9]+).*/\1/p' || true; }

has_emacs() { [ "$(major)" != "" ] && [ "$(major)" -ge "$LEAST" ]; }

has_servers() { holds "$folder" "$versions" && "$folder/bin/rass" --version >/dev/null 2>&1; }

install_from_backports() {
  local release apt options suite
  release=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME") || fail "this system is not Debian"
  apt=$(mktemp -d)
  trap 'rm -rf "$apt"' RETURN
  mkdir -p "$apt/lists/partial"
  for suite in "$release" "$release-updates" "$release-backports"; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $suite main"
  done >"$apt/sources.list"
  options=(-qq -o "Dir::State::lists=$apt/lists" -o "Dir::Etc::sourcelist=$apt/sources.list"
    -o Dir::Etc::sourceparts=/dev/null -o Acquire::Languages=none -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update
  DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" -y --no-install-recommends -t "$release-backports" \
    install emacs-nox >/dev/null
}

install_servers() {
  rm -rf "$folder"
  python3 -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
    "rassumfrassum==$RASS" "python-lsp-server==$PYLSP"
  echo "$versions" >"$folder/versions"
}

has_emacs && has_servers && exit 0
if ! has_emacs; then
  [ "$(id -u)" = 0 ] || fail "Emacs $LEAST is missing; run this as root"
  install_from_backports
  has_emacs || fail "emacs-nox was installed, but 'emacs' on the PATH is not Emacs $LEAST or newer"
fi
has_servers || install_servers
has_servers || fail "rass was installed in $folder but does not start"
echo "Emacs $(major) is installed, and its test bed is in $folder."
