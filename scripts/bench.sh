#!/bin/sh
# Measures what ordering and reads cost and prints the figures with their spread, next to
# those of the naive baseline. Flags are those of the suite:
#
#   scripts/bench.sh -rows burst,fifty -runs 5
#   scripts/bench.sh -rows reads-limit,reads-memory
#   scripts/bench.sh -rows listeners,queued   (some minutes; with -short some seconds, and far fewer connections)
#   scripts/bench.sh -h
#
# It needs redis-server. The suite starts and ends everything else by itself.
set -eu

caller=$PWD
cd "$(dirname "$0")/.."
command -v redis-server >/dev/null 2>&1 || { echo "bench: redis-server is missing; make setup installs it" >&2; exit 1; }

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
trap 'exit 130' INT TERM
go build -trimpath -ldflags '-s -w' -o "$built/lockstep" ./cmd/lockstep
go build -trimpath -o "$built/suite" ./bench/suite
# What was just written is in memory in large pieces, which count as resident memory of whoever runs it. An installed program is read from the disk.
sync "$built/lockstep"
dd if="$built/lockstep" iflag=nocache count=0 2>/dev/null || true # where dd can

cd "$caller" # where paths on the command line start
"$built/suite" -lockstep "$built/lockstep" "$@"
