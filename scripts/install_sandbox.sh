#!/usr/bin/env bash
# Installs bubblewrap, which the agent's commands run in. Returns at once where it is there. Needs
# Debian or Ubuntu, and root.
set -euo pipefail
command -v bwrap >/dev/null && exit 0
for try in 1 2 3; do
  apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install bubblewrap && exit 0
  echo "could not install bubblewrap, try $try of 3" >&2
done
exit 1
