#!/usr/bin/env bash
# run.sh [java-5.5.0 java-4.9.7 go node admin-5.5.0 admin-4.9.7]: real clients, and mqadmin of both versions, against a ringmq of its own on
# free ports of loopback. Default: all but node. Runs the checks of what is built; CHECKS=all runs every check, those of parts that are not built fail then.
# Last line: 'N passed, N failed'.
set -u
cd "$(dirname "$0")"
here=$PWD root=$(cd ../.. && pwd)
[ $# -gt 0 ] || set -- java-5.5.0 java-4.9.7 go admin-5.5.0 admin-4.9.7
built="send-receive two-consumers tags order offset-restart lite-pull broadcast batch large-3mb oversize unknown-topic auto-create"
go_built="send-receive tags order offset-restart batch large-3mb compressed oversize unknown-topic auto-create"
[ "${CHECKS:-}" = all ] && built="" go_built=""

free_port() { python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])'; }
dir=$(mktemp -d) port=$(free_port) ns=$(free_port)
"$root/bin/ringmq" server -c "$here/reference-broker.conf" --set "storePathRootDir=$dir/store" --set brokerName=broker-a \
  --set "listenPort=$port" --set "ringmq.namesrvListenPort=$ns" --set ringmq.httpAddress=off --set mappedFileSizeCommitLog=67108864 \
  >"$dir/broker.log" 2>&1 &
broker=$!
trap 'kill "$broker" 2>/dev/null; wait "$broker" 2>/dev/null; rm -rf "$dir"' EXIT
for _ in $(seq 100); do grep -q 'boot success' "$dir/broker.log" && break; kill -0 "$broker" || { cat "$dir/broker.log"; exit 1; }; sleep 0.1; done

export NAMESRV=127.0.0.1:$ns BROKER=127.0.0.1:$port BROKERNAME=broker-a
passed=0 failed=0
for client in "$@"; do
  case $client in
  java-*) out=$(clients/java/run.sh "${client#java-}" $built) ;;
  go) out=$(cd clients/go && go build -o "$dir/goclient" . && timeout 600 "$dir/goclient" $go_built 2>&1) ;;
  admin-*) out=$(RMQ_VERSION=${client#admin-} COMMANDS=commands-config.txt admin/run-admin.sh) ;;
  *) out=$(clients/run-clients.sh "$client") ;;
  esac
  printf '%s\n' "$out" | grep -E '^(PASS|FAIL)'
  passed=$((passed + $(printf '%s\n' "$out" | grep -c '^PASS'))) failed=$((failed + $(printf '%s\n' "$out" | grep -c '^FAIL')))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
