#!/usr/bin/env bash
# run.sh: builds the broker with failpoints and lets ./test/crash kill it KILLS (50) times, cut its power CUTS (10) times and let its
# flushes fail IOERRORS (3) times under SYNC_FLUSH; then a fifth of the kills and half of the cuts in each of the other MODES (async pool); then
# builds each of MUTANTS (a safety taken out by build tag) and insists that the suite finds it. LONGEST (3s) bounds the load before a kill.
# disks.sh has VCUTS (10) power cuts of a disk with a volatile cache and SLOW (2) rounds each on two slow ones.
# SOAK (0) is the length of a mixed load that ends with a look at what has grown.
# All but the kills need root.
set -u
cd "$(dirname "$0")/../.."
. test/crash/disks.sh
unmount() { # what a run left mounted when it was stopped
  local m
  for m in $(awk -v d="$dir/" 'index($2, d) == 1 {print $2}' /proc/mounts | sort -r); do umount "$m" || { sleep 1; umount -l "$m"; }; done
}
: "${KILLS:=50}" "${CUTS:=10}" "${IOERRORS:=3}" "${SEED:=$(date +%s)}" "${LONGEST:=3s}" "${SOAK:=0}" "${VCUTS:=10}" "${SLOW:=2}"
MODES=${MODES-async pool}
MUTANTS=${MUTANTS-mutant_nofsync mutant_nodirsync mutant_noerase mutant_nolatch}
dir=$(mktemp -d "${TMPDIR:-/tmp}/ringmq-crash.XXXXXX")
trap 'ungroup; unmount; rm -rf "$dir"' EXIT
go build -o "$dir/crash" ./test/crash && go build -tags failpoints -o "$dir/ringmq" ./cmd/ringmq || exit 1

"$dir/crash" -ringmq "$dir/ringmq" -dir "$dir/store" -failpoints -longest "$LONGEST" -seed "$SEED" \
  -kills "$KILLS" -cuts "$CUTS" -ioerrors "$IOERRORS" -soak "$SOAK" || exit 1
for mode in $MODES; do
  rm -rf "$dir/store"
  "$dir/crash" -ringmq "$dir/ringmq" -dir "$dir/store" -failpoints -longest "$LONGEST" -seed "$SEED" \
    -mode "$mode" -kills $((KILLS / 5)) -cuts $((CUTS / 2)) -ioerrors 0 || exit 1
done
disks || exit 1

missed=0
for mutant in $MUTANTS; do
  rm -rf "$dir/store"
  go build -tags "failpoints $mutant" -o "$dir/mutant" ./cmd/ringmq || exit 1
  if timeout --foreground 600 "$dir/crash" -ringmq "$dir/mutant" -dir "$dir/store" -failpoints -kills 10 -cuts 10 -seed "$SEED" >"$dir/log" 2>&1; then
    echo "MISSED $mutant: the suite passes without this safety"; missed=1
  else
    echo "found $mutant: $(grep -m1 '^FAULT' "$dir/log" | head -c 200)"
  fi
  unmount
done
exit $missed
