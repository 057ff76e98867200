#!/usr/bin/env bash
# scale.sh: 50,000 queues with 10 messages each in a running broker, every one pulled, also after a clean stop and after kill -9. Fails when a
# limit is passed. Appends one line to perf/results.jsonl. ARGS (more flags, as "-topics 100 -cold")  DISK (a folder on the disk to measure)
set -eu
cd "$(dirname "$0")/.."
dir=$(mktemp -d "${DISK:-${TMPDIR:-/tmp}}/ringmq-scale.XXXXXX")
trap 'rm -rf "$dir"' EXIT
CGO_ENABLED=0 go build -trimpath -o "$dir/ringmq" ./cmd/ringmq && go build -o "$dir/scale" ./perf/scale
failed=0
# shellcheck disable=SC2086
line=$("$dir/scale" -ringmq "$dir/ringmq" -dir "$dir" ${ARGS:-}) || failed=1
echo "$line"
machine="$(nproc) CPU, $(awk '/MemTotal/{printf "%d GiB", $2/1048576}' /proc/meminfo), Linux $(uname -r | cut -d- -f1)"
printf '{"commit":"%s","machine":"%s","run":"scale","result":%s}\n' "$(git rev-parse --short HEAD)" "$machine" "$line" >>perf/results.jsonl
exit $failed
