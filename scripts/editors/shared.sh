# What the scripts of this folder share; each sources it. `$0` names the script in messages.

fail() { echo "$(basename "$0"): $*" >&2; exit 1; }

# testbed EDITOR [FOLDER]: the folder that is installed to, absolute.
testbed() { realpath -m "${2:-${COMPOSER_TESTBEDS:-$HOME/.cache/composer-testbeds}/$1}"; }

# holds FOLDER VERSIONS: whether these versions were the last to be installed there, to the end.
holds() { [ "$(cat "$1/versions" 2>/dev/null)" = "$2" ]; }

# The mirror that apt already uses.
mirror() {
  { awk '/^URIs:/ {print $2; exit}' /etc/apt/sources.list.d/debian.sources 2>/dev/null
    sed -nE 's/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/p' /etc/apt/sources.list 2>/dev/null || true; } |
    awk 'NF {print; found = 1; exit} END {exit !found}' || fail "apt names no Debian mirror in its sources"
}

# need PROGRAM...: Debian's packages of these names, as root, unless all of the programs are there.
need() {
  command -v "$@" 2>/dev/null | wc -l | grep -qx "$#" && return
  [ "$(id -u)" = 0 ] || fail "one of these is missing; install them as root: apt-get install $*"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# unpack SUITE PACKAGE FOLDER: a package of another suite with every library that it needs, the C library too, unpacked
# to FOLDER beside the system, not installed.
unpack() {
  local suite=$1 package=$2 root=$3 apt=$3.apt options
  rm -rf "$root" "$apt"
  mkdir -p "$root" "$apt"/{state/lists,cache/archives}/partial
  : >"$apt/status" # as if no package were installed, so that apt resolves all of them
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $suite main" >"$apt/sources.list"
  options=(-o "Dir::State=$apt/state" -o "Dir::Cache=$apt/cache" -o "Dir::State::status=$apt/status"
    -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Acquire::Languages=none -o Debug::NoLocking=1)
  [ "$(id -u)" = 0 ] && options+=(-o APT::Sandbox::User=root)
  apt-get "${options[@]}" -qq update
  apt-get "${options[@]}" -y -qq --no-install-recommends --download-only install "$package" >/dev/null
  for package in "$apt"/cache/archives/*.deb; do dpkg -x "$package" "$root"; done
  rm -rf "$apt"
}

# link ROOT PROGRAM: lets a program of ROOT find the libraries that were unpacked with it.
link() {
  local libraries=$1/usr/lib/$(uname -m)-linux-gnu
  patchelf --set-interpreter "$(find "$libraries" -maxdepth 1 -name 'ld-linux-*.so*' | head -1)" \
    --force-rpath --set-rpath "$libraries" "$2"
}

# launcher FILE PROGRAM NAME=VALUE: a script that runs the program with the variable set.
launcher() {
  printf '#!/bin/sh\nexport %s="%s"\nexec "%s" "$@"\n' "${3%%=*}" "${3#*=}" "$2" >"$1"
  chmod +x "$1"
}
