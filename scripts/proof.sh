#!/bin/sh
# Checks lock/proof/sync.pml exhaustively with SPIN: each row is a set of faults, and every schedule of it is looked at. Then it breaks one rule at a time and demands that SPIN finds it: the proof can fail.
#
#   scripts/proof.sh [ROW…]      all rows, or those that are named; "quick" names those that take seconds
#
# Each row that ran is compared with its row in docs/internals/PROOF.md: bounds, states and result.
# It needs spin and a C compiler. The maximum of memory is 8 GB a row (PROOF_MB).
set -eu

cd "$(dirname "$0")/.."
has() { command -v "$1" >/dev/null 2>&1; }
die() { printf 'proof: %s\n' "$*" >&2; exit 1; }

for tool in spin gcc; do
	has "$tool" && continue
	has apt-get && [ "$(id -u)" = 0 ] || die "$tool is missing. Install it with your distribution's package manager."
	apt-get update -qq -o Acquire::Retries=5 || true # with the old lists it may work, too
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Acquire::Retries=5 -o DPkg::Lock::Timeout=600 spin gcc libc6-dev >/dev/null || die "apt-get could not install $tool"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0 rows=0
# What the compiler saves by -O0 is more than what a small search loses by it.
optimize=-O2
[ "$*" != quick ] || { optimize=-O0; set -- sync-calm sync-kill sync-answered sync-no-owner-check sync-no-end sync-no-lapse sync-youngest-first sync-no-reclaim sync-no-watch; }
wanted=" $* "

# assertion TEXT names the assertion of a model that SPIN prints as TEXT: one of those that a mutation must break.
assertion() {
	case $1 in
	*'k_<t'*) echo order ;;
	*'dead[(1-i)]'*) echo exclusion ;;
	*'sentFence'*) echo fence ;;
	*'claim[0]||claim[1]'*) echo adoption ;;
	*) echo 'another assertion' ;;
	esac
}

# verdict FILE CLAIM tells what SPIN's output in FILE says: holds, broken: the assertion or the claim that fails, or unfinished.
verdict() {
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$1")
	if grep -q '^pan:[0-9]*: assertion violated' "$1"; then
		printf 'broken: %s\n' "$(assertion "$(grep -m1 'assertion violated' "$1")")"
	elif grep -q '^pan:[0-9]*: acceptance cycle' "$1"; then
		echo "broken: $2"
	elif [ "${errors:-0}" -gt 0 ]; then
		echo 'broken: something else'
	elif [ -z "${errors:-}" ] || grep -q -e 'Search not completed' -e 'max search depth too small' "$1"; then
		echo unfinished
	else
		echo holds
	fi
}

# documented NAME BOUNDS STATES RESULT says how docs/internals/PROOF.md differs from a run, or nothing.
documented() {
	number=$(printf '%s\n' "$3" | sed ':a; s/\([0-9]\)\([0-9]\{3\}\)\($\|,\)/\1,\2\3/; ta')
	line="| \`$1\` | \`$2\` | $number | $4 |"
	grep -qxF "$line" docs/internals/PROOF.md && return
	printf 'docs/internals/PROOF.md has another row than the run.\n  document: %s\n  run:      %s\n' "$(grep -m1 "^| \`$1\` | \`-D" docs/internals/PROOF.md || echo 'no such row')" "$line"
}

# judged WANT TEXT checks the judge itself: what it makes of SPIN's words.
judged() {
	printf '%s\n' "$2" >"$work/sample"
	got=$(verdict "$work/sample" answered)
	[ "$got" = "$1" ] || die "the judge says '$got' and not '$1' of: $2"
}
end='State-vector 364 byte, depth reached 757, errors:'
judged holds "$end 0"
judged unfinished "error: max search depth too small
$end 0"
judged unfinished "Warning: Search not completed
$end 0"
judged unfinished "gcc: no memory"
judged 'broken: fence' "pan:1: assertion violated ( !(byRedis[i])||(turnFence[i]>sentFence)) (at depth 5)
Warning: Search not completed
$end 1"
judged 'broken: answered' "pan:1: acceptance cycle (at depth 5)
$end 1"
judged 'broken: another assertion' "pan:1: assertion violated (qn<10) (at depth 5)
$end 1"
judged 'broken: something else' "pan:1: invalid end state (at depth 5)
$end 1"

# row NAME WANT CLAIM FLAG… checks one row. WANT is holds, or the assertion that fails; CLAIM is a formula, or - for
# the assertions alone.
row() {
	name=$1 want=$2 claim=$3
	shift 3
	case $wanted in "  " | *" $name "*) ;; *) return 0 ;; esac
	rows=$((rows + 1))
	[ "$want" = holds ] || want="broken: $want"
	dir=$work/$name
	mkdir "$dir"
	cp lock/proof/sync.pml "$dir"
	check="-DSAFETY -DNOCLAIM" run=""
	[ "$claim" = - ] || { check="" run="-a -f -N $claim"; }
	(
		cd "$dir"
		spin -a "$@" sync.pml >spin.log 2>&1 || { cat spin.log; exit 1; }
		# shellcheck disable=SC2086
		gcc $optimize -w $check -DCOLLAPSE -DVECTORSZ=2048 -DNFAIR=6 -DMEMLIM="${PROOF_MB:-8000}" -o pan pan.c
		# shellcheck disable=SC2086
		./pan "-m${PROOF_DEPTH:-2000000}" $run >out 2>&1 || true
	)
	states=$(awk '/states, stored/ {printf "%d", $1; exit}' "$dir/out")
	got=$(verdict "$dir/out" "$claim")
	printf '| %-17s | %-44s | %12s | %s |\n' "$name" "$*" "${states:-?}" "$got"
	[ "$got" = "$want" ] || { failed=1; printf 'proof: %s: wanted %s\n' "$name" "$want" >&2; tail -5 "$dir/out" >&2; }
	differs=$(documented "$name" "$*" "${states:-?}" "$got")
	[ -z "$differs" ] || { failed=1; printf 'proof: %s: %s\n' "$name" "$differs" >&2; }
	rm -rf "$dir"
}

echo '| Row | Bounds | States | Result |'
echo '|---|---|---|---|'
row sync-calm holds - -DT=3
row sync-leave holds - -DT=3 -DLEAVES=1
row sync-loss holds - -DT=3 -DLOSSES=1
row sync-expiry holds - -DT=2 -DEXPIRIES=1 -DKILLS=1
row sync-kill holds - -DT=3 -DKILLS=1
row sync-stall holds - -DT=3 -DSTALLS=1
row sync-message holds - -DT=3 -DSTALLS=1 -DWHO=1
row sync-stall-loss holds - -DT=2 -DSTALLS=1 -DLOSSES=1
row sync-outage holds - -DT=3 -DCUTS=1
row sync-failover holds - -DT=3 -DFAILOVERS=2
row sync-answered holds answered -DT=3
row sync-answered-loss holds answered -DT=2 -DLOSSES=1
row sync-answered-kill holds answered -DT=2 -DKILLS=1
row sync-answered-leave holds answered -DT=2 -DLEAVES=1
row sync-answered-expiry holds answered -DT=2 -DEXPIRIES=1
row sync-answered-stall holds answered -DT=2 -DSTALLS=1
row sync-answered-outage holds answered -DT=2 -DTOGETHER -DCUTS=1
row sync-answered-failover holds answered -DT=2 -DFAILOVERS=2
row sync-clean holds clean -DT=3
row sync-clean-kill holds clean -DT=2 -DKILLS=1
row sync-clean-leave holds clean -DT=2 -DLEAVES=1
row sync-no-heartbeat exclusion - -DT=2 -DSTALLS=1 -DM_HEARTBEAT
row sync-no-owner-check exclusion - -DT=2 -DSTALLS=1 -DM_OWNER
row sync-no-end adoption - -DT=2 -DLOSSES=1 -DM_ENDED
row sync-no-fence fence - -DT=2 -DCUTS=1 -DM_FENCE
row sync-no-fence-check fence - -DT=2 -DCUTS=1 -DM_FENCE_ADOPT
row sync-no-adoption adoption - -DT=2 -DCUTS=1 -DM_ADOPT
row sync-no-clock fence - -DT=2 -DFAILOVERS=2 -DM_CLOCK
row sync-no-lapse fence - -DT=2 -DSTALLS=1 -DM_LAPSE
row sync-no-renumber exclusion - -DT=2 -DCUTS=1 -DM_RENUMBER
row sync-late-drop fence - -DT=2 -DSTALLS=1 -DM_DROP
row sync-youngest-first order - -DT=3 -DM_YOUNGEST_FIRST
row sync-no-reclaim answered answered -DT=2 -DKILLS=1 -DM_RECLAIM
row sync-no-watch answered answered -DT=2 -DLOSSES=1 -DM_WATCH
row sync-no-nudge answered answered -DT=2 -DFAILOVERS=2 -DM_NUDGE
row sync-no-message-fence fence - -DT=3 -DSTALLS=1 -DWHO=1 -DM_MESSAGE
row sync-no-return clean clean -DT=2 -DLEAVES=1 -DM_RETURN
[ "$rows" -gt 0 ] || die "no row has the name $*"
exit $failed
