#!/usr/bin/env python3
"""interop.py [--ringmq BINARY] [--jobs N] [NAME...]: ringmq and Apache RocketMQ open each other's stores, and register at each other's name servers.

NAME is a part of a scenario's name; without one all run. One line per check, PASS or FAIL; the last line counts."""
import argparse, concurrent.futures, os, shutil, statistics, sys, tempfile, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cases"))
import harness
import names, scenarios
from checks import Report, say

VERSIONS = ["5.5.0", "4.9.7"]


def all_scenarios():
    """(name, function, arguments)"""
    found, seed = [], 0
    def add(name, f, **arguments):
        nonlocal seed
        seed += 100000
        found.append((name, f, dict(arguments, seed=seed)))
    for version in VERSIONS: # the longest first
        add("%s retention by Apache" % version, scenarios.retention, version=version, by="java", how="kill")
        add("%s retention by ringmq" % version, scenarios.retention, version=version, by="ringmq", how="kill" if version == "5.5.0" else "stop")
    for version in VERSIONS:
        add("%s name server, ringmq's broker" % version, names.ringmq_at_apache, version=version)
        add("%s broker, ringmq's name server" % version, names.apache_at_ringmq, version=version)
    for version in VERSIONS:
        for flush in ("SYNC_FLUSH", "ASYNC_FLUSH"):
            for ringmq_end in ("stop", "kill"):
                for java_end in ("stop", "kill"):
                    add("%s %s ringmq-%s java-%s" % (version, flush.split("_")[0].lower(), ringmq_end, java_end), scenarios.there_and_back,
                        version=version, flush=flush, ringmq_end=ringmq_end, java_end=java_end)
        add("%s mapped append, no ring, both killed" % version, scenarios.there_and_back, version=version, flush="ASYNC_FLUSH", ringmq_end="kill",
            java_end="kill", ringmq__appendPath="mmap", ringmq__uring="off")
        add("%s default sizes, both killed" % version, scenarios.there_and_back, version=version, flush="ASYNC_FLUSH", ringmq_end="kill", java_end="kill",
            sizes=scenarios.DEFAULT)
        for how in ("stop", "kill"):
            add("%s goes on behind a torn record, %s" % (version, how), scenarios.behind_a_torn_record, version=version, how=how)
        for flush, how in (("SYNC_FLUSH", "stop"), ("ASYNC_FLUSH", "kill")):
            add("%s after a crash, %s" % (version, how), scenarios.after_a_crash, version=version, flush=flush, how=how)
    add("back and forth 4.9.7 5.5.0", scenarios.back_and_forth, versions=["4.9.7", "5.5.0", "4.9.7", "5.5.0"])
    return found


def run(name, f, arguments, keep):
    report, root, began = Report(name), tempfile.mkdtemp(prefix="ringmq-interop-"), time.monotonic()
    try: f(root, report, **arguments)
    except Exception as e:
        import traceback
        report.failed += 1
        say("FAIL %s: the scenario ends: %s" % (name, "".join(traceback.format_exception(e)).replace("\n", " | ")))
    finally:
        if keep: say("     %s: kept in %s" % (name, root))
        else: shutil.rmtree(root, ignore_errors=True)
    say("     %s: %d checks in %.0f s" % (name, report.passed + report.failed, time.monotonic() - began))
    return report


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--ringmq", default=os.environ.get("RINGMQ", harness.Broker.binary), help="the binary")
    p.add_argument("--jobs", type=int, default=2, help="scenarios at a time")
    p.add_argument("--keep", action="store_true", help="leave the stores there")
    p.add_argument("--list", action="store_true", help="only print the scenarios")
    p.add_argument("names", nargs="*", help="parts of names; none: all")
    args = p.parse_args()
    harness.Broker.binary = os.path.abspath(args.ringmq)
    chosen = [s for s in all_scenarios() if not args.names or any(n in s[0] for n in args.names)]
    if args.list:
        for name, _, _ in chosen: print(name)
        return 0
    waiting = [s for s in chosen if s[1] is scenarios.retention] # beside the others
    with concurrent.futures.ThreadPoolExecutor(len(waiting) + args.jobs) as pool, concurrent.futures.ThreadPoolExecutor(args.jobs) as busy:
        runs = [(pool if s in waiting else busy).submit(run, *s, args.keep) for s in chosen]
        reports = [r.result() for r in runs]
    figures, notes = {}, {}
    for r in reports:
        for what, value in r.figures: figures.setdefault(what, []).append(value)
        for key, n in r.notes.items(): notes[key] = notes.get(key, 0) + n
    if figures: say("Process to service, and stops: least, median, most of how many")
    for what, v in sorted(figures.items()): say("     %s: %.2f, %.2f, %.2f s of %d" % (what, min(v), statistics.median(v), max(v), len(v)))
    if notes: say("What the brokers warned of (numbers as N, how often in all):")
    for (who, line), n in sorted(notes.items()): say("     %4d %s: %s" % (n, who, line))
    failed = sum(r.failed for r in reports)
    print("%d passed, %d failed" % (sum(r.passed for r in reports), failed))
    return 1 if failed or not reports else 0


if __name__ == "__main__":
    sys.exit(main())
