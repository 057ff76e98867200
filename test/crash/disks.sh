# disks.sh: the part of run.sh, which reads it in, on disks of its own making.

# disks cuts the power of a disk with a volatile cache VCUTS times and has SLOW rounds each on a throttled disk and on one whose sync hangs. Then, if
# there are MUTANTS, come two runs that have to fail on the disk with the volatile cache: a broker that does not fsync, and an ext4 that sends no flushes.
disks() {
  [ $((VCUTS + SLOW)) -gt 0 ] || return 0
  (cd test/volatile && go build -o "$dir/volatile" .) || return 1
  on_disk "$dir/ringmq" -disk loop -cuts 0 -slow "$SLOW" || return 1
  on_disk "$dir/ringmq" -disk volatile -cuts "$VCUTS" -slow "$SLOW" || return 1
  [ -n "$MUTANTS" ] && [ "$VCUTS" -gt 0 ] || return 0
  go build -tags "failpoints mutant_nofsync" -o "$dir/mutant" ./cmd/ringmq || return 1
  loses mutant_nofsync "$dir/mutant" -disk volatile && loses "no barriers" "$dir/ringmq" -disk nobarrier
}

on_disk() { # on_disk BINARY FLAG...
  local binary=$1; shift
  unmount; rm -rf "$dir/store"
  timeout 7200 "$dir/crash" -ringmq "$binary" -dir "$dir/store" -volatile "$dir/volatile" -seed "$SEED" -kills 0 -ioerrors 0 "$@"
}

loses() { # loses NAME BINARY FLAG...: insists that something acknowledged is lost
  local name=$1; shift
  if on_disk "$@" -cuts 10 >"$dir/log" 2>&1; then
    echo "MISSED $name: the suite passes without this safety"; return 1
  fi
  if ! grep -q '^FAULT.* is lost' "$dir/log"; then
    echo "MISSED $name: nothing acknowledged is lost, but: $(grep -m1 '^FAULT' "$dir/log" | head -c 300)"; return 1
  fi
  echo "found $name on a volatile disk: $(grep -m1 '^FAULT' "$dir/log" | head -c 200)"
}

ungroup() { # removes the groups of suites that were stopped
  local group
  for group in /sys/fs/cgroup/ringmq-crash-* /sys/fs/cgroup/*/ringmq-crash-*; do
    [ ! -d "$group" ] || [ -d "/proc/${group##*-}" ] || rmdir "$group"
  done
}
