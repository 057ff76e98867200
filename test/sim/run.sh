#!/usr/bin/env bash
# run.sh: runs SEEDS (600) simulated machines from seed FIRST (1) on, see internal/sim; then takes one safety after the other out by build
# tag (MUTANTS) and insists that the simulation fails. With a file system in memory (/dev/shm) it is several times faster.
set -u
cd "$(dirname "$0")/../.."
: "${SEEDS:=600}" "${FIRST:=1}" "${STEPS:=80}" "${GO:=go}"
MUTANTS=${MUTANTS-mutant_nofsync mutant_nodirsync mutant_noerase mutant_nolatch}
if [ -z "${TMPDIR:-}" ] && [ -d /dev/shm ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/ringmq-sim.XXXXXX")
trap 'rm -rf "$dir"' EXIT

$GO test -count=1 -timeout 60m ./internal/sim -run '^TestSim$' -v -seed "$FIRST" -seeds "$SEEDS" -steps "$STEPS" || exit 1

missed=0
for mutant in $MUTANTS; do
  $GO test -c -tags "$mutant" -o "$dir/$mutant" ./internal/sim || exit 1
  if timeout 600 "$dir/$mutant" -test.run '^TestSim$' -seed "$FIRST" -seeds 100 -steps "$STEPS" >"$dir/log" 2>&1; then
    echo "MISSED $mutant: the simulation passes without this safety"; missed=1
  else
    echo "found $mutant: $(grep -m1 '^ *sim_test.go.*seed ' "$dir/log" | sed 's/^ *//' | head -c 260)"
  fi
done
exit $missed
