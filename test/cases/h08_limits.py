"""H08: the disk is full, and other limits are reached: refused by name, nothing acknowledged is lost, and it goes on by itself."""
import contextlib, errno, os, resource, shutil, subprocess, threading, time
import mq
from harness import *
from senders import Load

DISK = 64 << 20
UNAVAILABLE = 14


class SmallDisk:
    """A tmpfs of its own with a foreign file on it. Needs root, or: unshare -rm test/cases/run.py H08."""
    def __init__(self, bench):
        self.path = os.path.join(bench.root, "disk")
        os.mkdir(self.path)
        self.foreign = os.path.join(self.path, "foreign")

    def __enter__(self):
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d" % DISK, "tmpfs", self.path], stderr=subprocess.DEVNULL).returncode == 0
        self.mounted = made
        return self if made else None

    def __exit__(self, *_):
        if self.mounted: subprocess.run(["umount", "-l", self.path])

    def used(self):
        s = os.statvfs(self.path)
        used = s.f_blocks - s.f_bfree
        return 100 * used / (used + s.f_bavail)

    def fill(self, percent):
        """Makes the foreign file larger until the disk is that full."""
        with open(self.foreign, "ab", buffering=0) as f:
            try:
                while self.used() < percent: f.write(bytes(64 << 10))
            except OSError as e:
                expect(e.errno == errno.ENOSPC, "the disk is full", e)

    def empty(self):
        with contextlib.suppress(FileNotFoundError): os.remove(self.foreign)


def small_disk(name, expected, appends=("pool", "mmap")):
    """A case on such a disk, in both ways to append."""
    def add(f):
        def run(bench, append):
            with SmallDisk(bench) as disk:
                if disk is None:
                    print("  (no mounts here, run it by unshare -rm: skipped)")
                    return
                try:
                    b = bench.broker(os.path.join(disk.path, "store"), diskSpaceWarningLevelRatio=90, ringmq__appendPath=append, maxHashSlotNum=5000, maxIndexNum=20000)
                    f(disk, b)
                finally:
                    for b in bench.brokers: b.kill()
        for append in appends:
            case("H08 %s, %s" % (name, append), expected)(lambda bench, append=append: run(bench, append))
        return f
    return add


def opens_again(b, ledger, disk, limit=15):
    """Within that many seconds sends are taken again."""
    disk.empty()
    end = time.monotonic() + limit
    with contextlib.closing(b.connect()) as c:
        while True:
            body = b"again %d" % time.time_ns()
            ledger.sent.add(body)
            h, _ = mq.send(c, TOPIC, 0, body)
            if h["code"] == SUCCESS:
                ledger.acked[TOPIC, 0, int(h["extFields"]["queueOffset"])] = body
                break
            expect(time.monotonic() < end, "sends are taken again %d s after there is room" % limit, h)
            time.sleep(0.2)
        while any(mq.max_offset(c, TOPIC, q) < ledger.max(TOPIC, q) for q in range(QUEUES)): # entries that found no room follow
            expect(time.monotonic() < end, "what was acknowledged can be pulled %d s after there is room" % limit)
            time.sleep(0.2)


@small_disk("levels", "a disk filled to 80, 86, 91, 97, 100 %: from 90 % on code 14 with path and percentage, pulls go on, sends open again by themselves, kills lose nothing")
def levels(disk, b):
    ledger = Ledger()
    b.start()
    with contextlib.closing(b.connect()) as c:
        for i in range(400): ledger.send(c, TOPIC, i % QUEUES, b"first %d" % i + bytes(2000))
        for percent in (80, 86, 91, 97, 100):
            disk.fill(percent)
            time.sleep(2.5) # it looks once a second
            for i in range(40):
                body = b"at %d: %d" % (percent, i)
                ledger.sent.add(body)
                h, _ = mq.send(c, TOPIC, i % QUEUES, body)
                if percent < 90:
                    expect(h["code"] == SUCCESS, "at %d %% a send is taken" % percent, h)
                    ledger.acked[TOPIC, i % QUEUES, int(h["extFields"]["queueOffset"])] = body
                else:
                    expect(h["code"] == UNAVAILABLE and disk.path in h["remark"] and "%" in h["remark"] and "diskSpaceWarningLevelRatio" in h["remark"],
                           "at %d %% a send is refused with path and percentage" % percent, h)
            found = pull_all(c, TOPIC, 1)
            expect(len(found) >= 100, "pulls go on", len(found))
            sane(b)
    opens_again(b, ledger, disk)
    audit(b, ledger)
    disk.fill(100)
    b.kill()
    disk.empty()
    b.start()
    audit(b, ledger)
    b.stop()


@small_disk("forcible", "above diskSpaceCleanForciblyRatio the oldest segments go, whatever their age, once the broker is a minute old: below it sends go on, what is left is served",
            appends=["pool"])
def forcible(disk, b):
    ledger = Ledger()
    b.settings["cleanResourceInterval"] = 1000
    b.start()
    with contextlib.closing(b.connect()) as c:
        for i in range(2000): ledger.send(c, TOPIC, i % QUEUES, b"first %d" % i + bytes(8000))
        disk.fill(88)
        end = time.monotonic() + 100
        while disk.used() > 85:
            expect(time.monotonic() < end, "the oldest segments go", disk.used(), b.log()[-800:])
            time.sleep(0.5)
        ledger.send(c, TOPIC, 0, b"goes on")
        low = {q: mq.min_offset(c, TOPIC, q) for q in range(QUEUES)}
        expect(all(0 < n < 500 for n in low.values()), "some messages have gone, not all", low)
    audit(b, ledger, low=low)
    b.kill().start()
    audit(b, ledger, low=low)
    b.stop()


@small_disk("sudden", "the disk gets full within moments under load, is emptied, gets full again, and the broker is killed: never an end by itself, nothing acknowledged is lost")
def sudden(disk, b):
    ledger = Ledger()
    b.start()
    for n in range(3):
        load = Load(b, 8, b"n%d" % n, refused=(UNAVAILABLE, 2)).into(ledger)
        time.sleep(0.7)
        disk.fill(100)
        time.sleep(2)
        expect(b.alive(), "a full disk does not end the broker", b.log()[-1500:])
        if n == 2: b.kill()
        load.end()
        if n == 2: break
        opens_again(b, ledger, disk)
        audit(b, ledger)
    disk.empty()
    b.start()
    audit(b, ledger)
    b.stop()


@small_disk("start", "a start on a full disk: it starts, or is refused with the path; with room it starts, and nothing is lost")
def start_full(disk, b):
    ledger = Ledger()
    b.start()
    with contextlib.closing(b.connect()) as c:
        for i in range(400): ledger.send(c, TOPIC, i % QUEUES, b"first %d" % i + bytes(3000))
    for end in ("stop", "kill"):
        b.stop() if end == "stop" else b.kill()
        disk.fill(100)
        try:
            b.start()
        except Wrong as e:
            expect("no space left" in str(e) and disk.path in str(e), "a refusal says why, with the path", str(e))
        else:
            b.kill()
        disk.empty()
        b.start()
        audit(b, ledger)
    b.stop()


def limited(bench, what, limit, expected, f):
    """A broker under a limit, then one without it on the same store."""
    b = bench.broker(wrap=["prlimit", "--%s=%s" % (what, limit)])
    ledger = Ledger()
    b.start()
    f(b, ledger)
    expect(b.alive(), expected, b.log()[-1500:])
    sane(b)
    b.kill()
    b.wrap = []
    b.start()
    audit(b, ledger)
    b.stop()


@case("H08 nofile", "ulimit -n 64: 200 topics with 800 queues, and more connections than there are descriptors: it goes on, and nothing is lost")
def few_descriptors(bench):
    def use(b, ledger):
        others, refused = Ledger(), 0
        with contextlib.closing(b.connect()) as c:
            for i in range(200):
                for q in range(QUEUES): others.send(c, "Topic%d" % i, q, b"t%d q%d" % (i, q))
            for i in range(200): ledger.send(c, TOPIC, i % QUEUES, b"m%d" % i)
            held = []
            for _ in range(100):
                try: held.append(mq.Conn("127.0.0.1:%d" % b.port, 2))
                except OSError: refused += 1
            for i in range(50): ledger.send(c, TOPIC, i % QUEUES, b"beside %d" % i)
            for h in held: h.close()
            for i in range(0, 200, 17):
                for q in range(QUEUES): expect(len(pull_all(c, "Topic%d" % i, q)) == 1, "each queue has its message")
        end = time.monotonic() + 20
        while True: # and when the connections have gone there is room for others
            try:
                with contextlib.closing(b.connect(timeout=2)) as c: mq.max_offset(c, TOPIC, 0)
                break
            except (OSError, EOFError):
                expect(time.monotonic() < end, "connections are taken again")
                time.sleep(0.2)
    limited(bench, "nofile", "64:64", "it goes on", use)


@case("H08 as", "ulimit -v: 3,000 queues are made in little address space; where segments find no more of it, sends are refused, not lost")
def little_address_space(bench):
    def use(b, ledger):
        others = Ledger()
        with contextlib.closing(b.connect()) as c:
            for i in range(750):
                for q in range(QUEUES): others.send(c, "Topic%d" % i, q, b"t%d q%d" % (i, q))
            for i in range(200): ledger.send(c, TOPIC, i % QUEUES, b"m%d" % i)
    limited(bench, "as", "%d" % (2 << 30), "it goes on", use)


@case("H08 as, segments", "ulimit -v reached by mapped segments: sends are refused by name, pulls go on, or the process ends; nothing acknowledged is lost, the next start is fine")
def no_address_space(bench):
    b, ledger = bench.broker(wrap=["prlimit", "--as=%d" % (1500 << 20)]), Ledger()
    b.start()
    refused = None
    try:
        with contextlib.closing(b.connect()) as c:
            for i in range(3000):
                body = b"m%d-" % i + bytes(900000)
                ledger.sent.add(body)
                h, _ = mq.send(c, TOPIC, i % QUEUES, body)
                if h["code"] != SUCCESS:
                    refused = h
                    break
                ledger.acked[TOPIC, i % QUEUES, int(h["extFields"]["queueOffset"])] = body
            expect(refused is not None, "address space ends", i)
            expect(refused["code"] in (UNAVAILABLE, 2) and ("memory" in refused["remark"] or "map" in refused["remark"]), "the refusal names the limit", refused)
            h, got = mq.pull(c, TOPIC, 0, 0, n=1)
            expect(h["code"] == SUCCESS, "pulls go on", h)
        sane(b)
    finally:
        b.kill()
    b.wrap = []
    b.start()
    with contextlib.closing(b.connect()) as c:
        for q in range(QUEUES):
            last = ledger.max(TOPIC, q)
            expect(mq.max_offset(c, TOPIC, q) >= last, "what was acknowledged is there", mq.max_offset(c, TOPIC, q), last)
            h, got = mq.pull(c, TOPIC, q, last - 1, n=1)
            expect(h["code"] == SUCCESS and ledger.acked[TOPIC, q, last - 1] in got, "and served", h)
        ledger.send(c, TOPIC, 0, b"afterwards")
    b.stop()
