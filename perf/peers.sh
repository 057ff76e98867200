#!/usr/bin/env bash
# peers.sh: ringmq and Apache RocketMQ side by side on this machine: the same client (test/tools/rmqload), the same sizes, the same
# durability, rounds interleaved. Appends the client's JSON lines to perf/results.jsonl. Takes about 3 minutes a round; needs Java and Maven.
#   ROUNDS (3)  DUR (10s)  WARM (5s)  MODES ("ASYNC_FLUSH SYNC_FLUSH")  PEER_VERSION (5.5.0)  DISK (a folder on the disk to measure)
set -u
cd "$(dirname "$0")/.."
: "${ROUNDS:=3}" "${DUR:=10s}" "${WARM:=5s}" "${MODES:=ASYNC_FLUSH SYNC_FLUSH}" "${PEER_VERSION:=5.5.0}"
server= pid= port=28911 ns=28876
dir=$(mktemp -d "${DISK:-${TMPDIR:-/tmp}}/ringmq-peers.XXXXXX")
stop() { # the broker may end after the script that started it
  [ -n "$server" ] && kill "$server" 2>/dev/null && wait "$server" 2>/dev/null
  for _ in $(seq 300); do { [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; } || (exec 3<>"/dev/tcp/127.0.0.1/$ns") 2>/dev/null || break; sleep 0.2; done
  server= pid=; rm -rf "$dir/store"
}
trap 'stop; rm -rf "$dir"' EXIT
(cd test/tools/rmqload && go build -o "$dir/rmqload" .) && go build -o "$dir/ringmq" ./cmd/ringmq || exit 1
commit=$(git rev-parse --short HEAD)
machine="$(nproc) CPU, $(awk '/MemTotal/{printf "%d GiB", $2/1048576}' /proc/meminfo), Linux $(uname -r | cut -d- -f1)"

start() { # start SYSTEM MODE
  rm -rf "$dir/store"; mkdir -p "$dir/store"
  if [ "$1" = ringmq ]; then
    "$dir/ringmq" server --set "storePathRootDir=$dir/store" --set "listenPort=$port" --set "ringmq.namesrvListenPort=$ns" \
      --set ringmq.httpAddress=off --set "flushDiskType=$2" --set diskSpaceWarningLevelRatio=99 >"$dir/log" 2>&1 &
    server=$! pid=$!
    for _ in $(seq 100); do grep -q 'boot success' "$dir/log" && return; sleep 0.1; done
  else
    HEAP=2g test/tools/apache.sh "$PEER_VERSION" "$dir/store" "$port" "$ns" "flushDiskType=$2" >"$dir/log" 2>&1 &
    server=$!
    for _ in $(seq 600); do grep -q ready "$dir/log" && { pid=$(cat "$dir/store/broker.pid"); return; }; sleep 0.2; done
  fi
  cat "$dir/log" >&2; return 1
}

load() { # load LABEL CONNECTIONS IN_FLIGHT
  "$dir/rmqload" -mode send -addr "127.0.0.1:$port" -topic bench -create -queues 8 -conns "$2" -inflight "$3" -size 1024 \
    -warm "$WARM" -dur "$DUR" -pid "$pid" -label "$1" 2>>"$dir/log"
}

for round in $(seq "$ROUNDS"); do
  for mode in $MODES; do
    for system in ringmq "apache-$PEER_VERSION"; do
      start "${system%%-*}" "$mode" || exit 1
      [ "$system" = ringmq ] || load warm 4 16 >/dev/null # let the compiler settle
      for cell in "1 1" "4 16" "16 64"; do
        line=$(load "$system $mode" $cell) || { cat "$dir/log" >&2; exit 1; }
        echo "$line"
        printf '{"commit":"%s","machine":"%s","run":"peers round %s","result":%s}\n' "$commit" "$machine" "$round" "$line" >>perf/results.jsonl
      done
      stop
    done
  done
done
