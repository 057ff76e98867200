#!/usr/bin/env bash
# bare.sh: the engine's sync flush (perf/put) and the least that can be done (perf/bare), in turns, at 1, 64 and 256 producers. Appends one
# line a run to perf/results.jsonl. ROUNDS (5)  DUR (3s)  DISK (a folder on the disk to measure)
set -u
cd "$(dirname "$0")/.."
: "${ROUNDS:=5}" "${DUR:=3s}"
dir=$(mktemp -d "${DISK:-${TMPDIR:-/tmp}}/ringmq-bare.XXXXXX")
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/bare" ./perf/bare && go build -o "$dir/put" ./perf/put || exit 1
commit=$(git rev-parse --short HEAD)
machine="$(nproc) CPU, $(awk '/MemTotal/{printf "%d GiB", $2/1048576}' /proc/meminfo), Linux $(uname -r | cut -d- -f1)"
for round in $(seq "$ROUNDS"); do
  for producers in 1 64 256; do
    for bench in bare put; do
      segments=(); [ "$bench" = bare ] && segments=(-segments 2)
      line=$("$dir/$bench" -producers "$producers" -dur "$DUR" -dir "$dir" "${segments[@]}") || exit 1
      echo "$line"
      printf '{"commit":"%s","machine":"%s","run":"bare round %s","result":%s}\n' "$commit" "$machine" "$round" "$line" >>perf/results.jsonl
    done
  done
done
