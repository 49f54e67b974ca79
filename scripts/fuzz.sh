#!/bin/sh
# Runs every fuzz target of the module, one after the other, for the time given
# (default 10s each), and fails on the first that finds something.
#
#   scripts/fuzz.sh 1m
set -eu

time=${1:-10s}
cd "$(dirname "$0")/.."
targets=$(mktemp)
trap 'rm -f "$targets"' EXIT

# A target is a line "func FuzzName(" in a test file of the package.
grep -rl --include='*_test.go' --exclude-dir=node_modules '^func Fuzz' . | sort |
	while read -r file; do
		package=$(dirname "$file")
		sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" |
			while read -r target; do
				printf '%s %s\n' "$package" "$target"
			done
	done > "$targets"

while read -r package target; do
	echo "fuzz: $package $target for $time"
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" </dev/null
done < "$targets"
