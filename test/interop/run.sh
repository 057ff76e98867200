#!/usr/bin/env bash
# run.sh [name…]: builds ringmq and lets it and Apache RocketMQ 4.9.7 and 5.5.0 open each other's stores, and register at each other's name
# servers. Needs Java 17, Maven (once, for the jars), Python 3. RINGMQ names a binary instead of a build, JOBS (2) scenarios run at a time.
set -u
cd "$(dirname "$0")"
command -v java >/dev/null || { echo "run.sh: java is needed, version 17" >&2; exit 2; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/ringmq-interop.XXXXXX")
trap 'rm -rf "$dir"' EXIT
if [ -z "${RINGMQ:-}" ]; then
  RINGMQ=$dir/ringmq
  (cd ../.. && CGO_ENABLED=0 go build -trimpath -o "$RINGMQ" ./cmd/ringmq) || exit 1
fi
./interop.py --ringmq "$RINGMQ" --jobs "${JOBS:-2}" "$@"
