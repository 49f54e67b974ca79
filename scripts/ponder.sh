#!/bin/sh
# Has lockstep watch and ponder write the same events of the same anvil to PostgreSQL, each three times without trouble and three times killed in the middle.
# It installs ponder into the folder .ponder, which git ignores. What it needs besides is what scripts/setup.sh installs.
set -eu

cd "$(dirname "$0")/.."
mkdir -p .ponder
cp -R e2e/watchers/testdata/ponder/. .ponder/
cd .ponder
[ -f package.json ] || echo '{"private": true, "type": "module"}' >package.json
[ -d node_modules/ponder ] || npm install --no-audit --no-fund --loglevel=error --save-exact ponder@0.16.10 viem@2.54.6 hono@4 typescript@5
cd ..
LOCKSTEP_PONDER=$PWD/.ponder go test ./e2e/watchers -run XXX -bench BesidePonder -benchtime 1x -count "${1:-3}" -timeout 2h
