# disks.sh: the part of run.sh, which reads it in, on disks of its own making.

# disks cuts the power of a disk with a volatile cache VCUTS times and has SLOW rounds each on a throttled disk and on one whose sync hangs. The cuts
# are done again in each of the other MODES, which leave more in the cache. Then, if there are MUTANTS, come two runs that have to fail on the disk
# with the volatile cache: a broker that does not fsync, and an ext4 that sends no flushes.
disks() {
  local mode
  [ $((VCUTS + SLOW)) -gt 0 ] || return 0
  (cd test/volatile && go build -o "$dir/volatile" .) || return 1
  on_disk "$dir/ringmq" -disk loop -cuts 0 -slow "$SLOW" || return 1
  on_disk "$dir/ringmq" -disk volatile -cuts "$VCUTS" -slow "$SLOW" || return 1
  for mode in $MODES; do
    on_disk "$dir/ringmq" -disk volatile -mode "$mode" -cuts "$VCUTS" || return 1
  done
  [ -n "$MUTANTS" ] && [ "$VCUTS" -gt 0 ] || return 0
  go build -tags "failpoints mutant_nofsync" -o "$dir/mutant" ./cmd/ringmq || return 1
  loses mutant_nofsync "$dir/mutant" -disk volatile && loses "no barriers" "$dir/ringmq" -disk nobarrier
}

on_disk() { # on_disk BINARY FLAG...
  local binary=$1; shift
  unmount; rm -rf "$dir/store"
  timeout --foreground 7200 "$dir/crash" -ringmq "$binary" -dir "$dir/store" -volatile "$dir/volatile" -seed "$SEED" -kills 0 -ioerrors 0 "$@"
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

ungroup() { # frees the disk and removes the groups of suites that were stopped; their brokers end when their writes have
  local group file device
  for group in /sys/fs/cgroup/ringmq-crash-* /sys/fs/cgroup/*/ringmq-crash-*; do
    [ -d "$group" ] || continue
    for _ in {1..20}; do # a process that still lives after two seconds is another suite's
      grep -qs '^State:.[^Z]' "/proc/${group##*-}/status" || break
      sleep 0.1
    done
    ! grep -qs '^State:.[^Z]' "/proc/${group##*-}/status" || continue
    for file in "$group"/blkio.throttle.write_{bps,iops}_device "$group/io.max"; do
      [ -f "$file" ] || continue
      for device in $(cut -d' ' -f1 "$file"); do
        case $file in *io.max) echo "$device wbps=max wiops=max" ;; *) echo "$device 0" ;; esac >"$file"
      done
    done
    for _ in {1..100}; do rmdir "$group" 2>/dev/null && break; sleep 0.1; done
  done
}
