"""H11: io_uring is refused, or memory cannot be locked: the broker goes on with plain calls and keeps its promises."""
import contextlib, os, resource, sys, time
import mq
from harness import *
from senders import Load

NO_URING = [sys.executable, os.path.join(HERE, "no_uring.py")]
WAYS = {
    "as it is": ([], {}, None), "EPERM": (NO_URING, {}, 0), "ENOSYS": (NO_URING + ["38"], {}, 0), "no locked memory": (["prlimit", "--memlock=0:0"], {}, None),
    "no locked memory, EPERM": (["prlimit", "--memlock=0:0"] + NO_URING, {}, 0), "switched off": ([], {"ringmq__uring": "off"}, 0), "mmap": ([], {"ringmq__appendPath": "mmap"}, None),
    "mmap, EPERM": (NO_URING, {"ringmq__appendPath": "mmap"}, 0),
}


def one_way(bench, wrap, settings, metric):
    b = bench.broker(wrap=wrap, **settings)
    ledger = Ledger()
    for n in range(3):
        b.start()
        said = [l for l in b.log().splitlines() if "flush" in l and ("ring" in l or "plain" in l)]
        expect(said, "a line says which way is used", b.log()[:1500])
        value = b.metric("ringmq_uring")
        expect(metric is None or value == metric, "the metric shows it", value)
        if n == 0:
            used = b.cpu()
            time.sleep(3)
            expect(b.cpu() - used < 0.15, "an idle broker is idle", b.cpu() - used)
        load = Load(b, 64, b"n%d" % n).into(ledger)
        time.sleep(1.5)
        if n < 2:
            b.kill()
            load.end()
        else:
            b.stop()
            load.end()
        b.start()
        audit(b, ledger)
        b.kill() if n < 2 else b.stop()


for name, (wrap, settings, metric) in WAYS.items():
    case("H11 " + name, "starts, says and shows which way it flushes, is idle when idle, and 64 sync-flush senders lose nothing over kills and a stop under load")(
        lambda bench, wrap=wrap, settings=settings, metric=metric: one_way(bench, wrap, settings, metric))


@case("H11 kills", "H01 in short: 10 kills at random moments under load on one store, every third again while starting")
def kills(bench):
    import random
    rng = random.Random(11)
    b, ledger = bench.broker(), Ledger()
    for n in range(10):
        b.start()
        expect(b.took < 5, "a start takes little time", b.took)
        if n: audit(b, ledger)
        load = Load(b, 8, b"k%d" % n).into(ledger)
        time.sleep(rng.uniform(0.3, 2))
        b.kill()
        load.end()
        if n % 3 == 2:
            b.launch()
            time.sleep(rng.uniform(0, 0.2))
            b.kill()
    b.start()
    audit(b, ledger)


@case("H11 async", "asynchronous flush: a kill loses nothing that was acknowledged")
def async_flush(bench):
    for path in ("pool", "mmap"):
        b, ledger = bench.broker(flushDiskType="ASYNC_FLUSH", ringmq__appendPath=path), Ledger()
        for n in range(4):
            b.start()
            if n: audit(b, ledger)
            load = Load(b, 16, b"%s%d" % (path.encode(), n)).into(ledger)
            time.sleep(1)
            b.kill()
            load.end()
        b.start()
        audit(b, ledger)
        b.stop()
