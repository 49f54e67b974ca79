#!/bin/sh
# Checks lock/proof/lane.pml exhaustively with SPIN: each row is a set of faults, and every schedule of it is
# looked at. Then it breaks one rule at a time and demands that SPIN finds it: the proof can fail.
#
#   scripts/proof.sh [ROW…]      all rows, or those that are named
#
# It needs spin and a C compiler; a row takes 8 GB of memory at most (PROOF_MB).
set -eu

cd "$(dirname "$0")/.."
has() { command -v "$1" >/dev/null 2>&1; }
die() { printf 'proof: %s\n' "$*" >&2; exit 1; }

for tool in spin gcc; do
	has "$tool" && continue
	has apt-get && [ "$(id -u)" = 0 ] || die "$tool is missing. Install it with your distribution's package manager."
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends spin gcc libc6-dev >/dev/null || die "apt-get could not install $tool"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
wanted=" $* "

# row NAME WANT CLAIM FLAG… checks one row. WANT is holds or broken; CLAIM is a formula, or - for the assertions alone.
row() {
	name=$1 want=$2 claim=$3
	shift 3
	case $wanted in "  " | *" $name "*) ;; *) return 0 ;; esac
	dir=$work/$name
	mkdir "$dir"
	cp lock/proof/lane.pml "$dir"
	check="-DSAFETY -DNOCLAIM" run=""
	[ "$claim" = - ] || { check="" run="-a -f -N $claim"; }
	(
		cd "$dir"
		spin -a "$@" lane.pml >spin.log 2>&1 || { cat spin.log; exit 1; }
		# shellcheck disable=SC2086
		gcc -O2 -w $check -DCOLLAPSE -DVECTORSZ=2048 -DNFAIR=6 -DMEMLIM="${PROOF_MB:-8000}" -o pan pan.c
		# shellcheck disable=SC2086
		./pan -m500000 $run >out 2>&1 || true
	)
	states=$(awk '/states, stored/ {printf "%d", $1; exit}' "$dir/out")
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$dir/out")
	got=unfinished
	if [ "${errors:-}" = 0 ] && ! grep -q 'Search not completed' "$dir/out"; then got=holds; fi
	if [ "${errors:-0}" -gt 0 ]; then got=broken; fi
	printf '| %-16s | %-30s | %12s | %s |\n' "$name" "$*" "${states:-?}" "$got"
	[ "$got" = "$want" ] || { failed=1; printf 'proof: %s: wanted %s\n' "$name" "$want" >&2; tail -5 "$dir/out" >&2; }
	rm -rf "$dir"
}

echo '| Row | Bounds | States | Result |'
echo '|---|---|---|---|'
row calm holds - -DT=3
row leave holds - -DT=3 -DLEAVES=1
row loss holds - -DT=3 -DLOSSES=1
row expiry holds - -DT=2 -DEXPIRIES=1
row kill holds - -DT=3 -DKILLS=1
row stall holds - -DT=2 -DSTALLS=1
row outage holds - -DT=2 -DCUTS=1
row failover holds - -DT=2 -DFAILOVERS=2
row answered holds answered -DT=3
row answered-loss holds answered -DT=2 -DLOSSES=1
row answered-kill holds answered -DT=2 -DKILLS=1
row clean holds clean -DT=2
row clean-leave holds clean -DT=2 -DLEAVES=1
row no-heartbeat broken - -DT=2 -DSTALLS=1 -DM_HEARTBEAT
row no-owner-check broken - -DT=3 -DLOSSES=1 -DWHO=1 -DM_OWNER
row no-fence broken - -DT=2 -DCUTS=1 -DM_FENCE
row no-fence-check broken - -DT=2 -DCUTS=1 -DM_FENCE_ADOPT
row no-adoption broken - -DT=2 -DCUTS=1 -DM_ADOPT
exit $failed
