#!/usr/bin/env python3
"""run.py [--ringmq BINARY] [--limit SECONDS] [NAME...]: runs the fault cases, each on a broker and a store of its own.

NAME is the beginning of a case's name, as in H02 or "H04 13"; without one all run. One line per case, PASS or FAIL with what was
expected; the last line counts. Exits with 1 when a case fails."""
import argparse, importlib, os, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import harness


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--ringmq", default=os.environ.get("RINGMQ", harness.Broker.binary), help="the broker's binary")
    p.add_argument("--limit", type=int, default=240, help="seconds that one case may take")
    p.add_argument("--list", action="store_true", help="only print the cases")
    p.add_argument("names", nargs="*", help="beginnings of names; none: all")
    args = p.parse_args()
    harness.Broker.binary = os.path.abspath(args.ringmq)
    for file in sorted(os.listdir(HERE)):
        if file.startswith("h") and file[1:3].isdigit() and file.endswith(".py"):
            importlib.import_module(file[:-3])
    chosen = [c for c in harness.CASES if not args.names or any(c[0].upper().startswith(n.upper()) for n in args.names)]
    if args.list:
        for name, expected, _ in chosen: print("%s: %s" % (name, expected))
        return 0
    if not os.access(harness.Broker.binary, os.X_OK):
        print("no binary %s: run make build" % harness.Broker.binary)
        return 2
    failed = 0
    for name, expected, f in chosen:
        began = time.monotonic()
        wrong = harness.run(name, expected, f, args.limit)
        took = time.monotonic() - began
        if wrong is None:
            print("PASS %s (%.1f s): %s" % (name, took, expected), flush=True)
        else:
            failed += 1
            print("FAIL %s (%.1f s): expected: %s; %s" % (name, took, expected, wrong), flush=True)
    print("%d passed, %d failed" % (len(chosen) - failed, failed))
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
