"""H01: kill -9 under load, again and again on one store: what was acknowledged is there. Power cuts are in test/crash."""
import contextlib, random, re, time
import mq
from harness import *
from senders import Load

SENDERS = 8


def bounds(b):
    with contextlib.closing(b.connect()) as c: return [mq.max_offset(c, TOPIC, q) for q in range(QUEUES)]


def audit_new(b, ledger, since, seen):
    """Audit A of what has come since: the numbers since[q] and above. seen: all bodies of earlier rounds."""
    with contextlib.closing(b.connect()) as c:
        for q in range(QUEUES):
            found, last = pull_all(c, TOPIC, q, low=since[q]), {}
            for number, body in sorted(found.items()):
                expect(body in ledger.sent, "queue %d number %d holds what was sent, whole" % (q, number), body[:60])
                expect(body not in seen, "nothing is there twice", body[:60])
                seen.add(body)
                m = re.match(rb"(.*-s\d+)-(\d+)", body)
                if not m: continue # of an audit
                expect(last.get(m[1], -1) < int(m[2]), "each sender's order is kept", m[0], last.get(m[1]))
                last[m[1]] = int(m[2])
            for (t, queue, number), body in list(ledger.acked.items()):
                if queue == q and number >= since[q]:
                    expect(found.get(number) == body, "acknowledged message %r is at queue %d number %d" % (body[:40], q, number), found.get(number, b"nothing")[:40])
    sane(b)


def rounds(bench, count, full_every, **settings):
    rng = random.Random(1)
    b, ledger, seen = bench.broker(**settings), Ledger(), set()
    slowest = 0
    b.start()
    for n in range(count):
        since = bounds(b)
        load = Load(b, SENDERS, b"r%d" % n).into(ledger)
        time.sleep(rng.uniform(0.3, 1.8))
        b.kill()
        load.end()
        if n % 5 == 4: # and again while it starts
            b.launch()
            time.sleep(rng.uniform(0, 0.2))
            b.kill()
        b.start()
        slowest = max(slowest, b.took)
        expect(b.took < 10, "a start takes little time", b.took)
        audit_new(b, ledger, since, seen)
        if n % full_every == full_every - 1: audit(b, ledger)
    b.stop()
    acked = len(ledger.acked)
    expect(acked > 20 * count, "the senders were at work", acked)
    print("  %d rounds, %d acknowledged, slowest start %.2f s" % (count, acked, slowest))


for part in (1, 2):
    case("H01 sync %d" % part, "25 kills at random moments under 8 sync-flush senders on one store, every fifth again while starting: all acknowledged messages are there, once, in order")(
        lambda bench: rounds(bench, 25, 13, flushDiskType="SYNC_FLUSH"))

case("H01 async", "the same 10 times with asynchronous flush: a kill loses nothing that was acknowledged")(
    lambda bench: rounds(bench, 10, 10, flushDiskType="ASYNC_FLUSH"))

case("H01 mmap", "the same 10 times with appends into the mapping")(
    lambda bench: rounds(bench, 10, 10, flushDiskType="SYNC_FLUSH", ringmq__appendPath="mmap"))
