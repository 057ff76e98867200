"""H12: long polling and wake-ups."""
import contextlib, random, socket, struct, threading, time
import mq
from harness import *

GROUP = "waits"


def ask(queue, at, hold_ms, tags="*", opaque=1, topic=TOPIC):
    return mq.frame(11, dict(consumerGroup=GROUP, topic=topic, queueId=queue, queueOffset=at, maxMsgNums=32, sysFlag=6, commitOffset=0,
                             suspendTimeoutMillis=hold_ms, subscription=tags, subVersion=0), opaque=opaque)


def answer(c):
    (n,) = struct.unpack(">i", c.exact(4))
    return mq.unframe(c.exact(n))


def slowest(took, all_below, p99_below):
    took = sorted(took)
    p99 = took[len(took) * 99 // 100]
    expect(took[-1] < all_below, "none takes %.0f ms" % (all_below * 1e3), ["%.1f ms" % (t * 1e3) for t in took[-5:]])
    expect(p99 < p99_below, "p99 is below %.0f ms" % (p99_below * 1e3), "%.1f ms" % (p99 * 1e3))


class Stalls:
    """How long this machine keeps a thread that sleeps for a millisecond waiting: no broker can be quicker."""
    def __enter__(self):
        self.longest, self.quit = 0, threading.Event()
        def watch():
            while not self.quit.is_set():
                began = time.monotonic()
                time.sleep(0.001)
                self.longest = max(self.longest, time.monotonic() - began - 0.001)
        self.thread = threading.Thread(target=watch)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.quit.set()
        self.thread.join()


@case("H12 1", "10,000 times park a pull and send after 0 to 3 ms: each is answered within 100 ms of the send's own answer, p99 of the whole within 20 ms")
def park_then_send(bench): parked_rounds(bench, 10000, "ASYNC_FLUSH")


@case("H12 1 sync", "the same 2,000 times with synchronous flush, where the send's own answer waits for the disk")
def park_then_send_sync(bench): parked_rounds(bench, 2000, "SYNC_FLUSH")


def parked_rounds(bench, rounds, flush):
    b = bench.broker(flushDiskType=flush).start()
    rng, took, after = random.Random(1), [], []
    with Stalls() as machine, contextlib.closing(b.connect()) as parked, contextlib.closing(b.connect()) as sender:
        mq.send(sender, TOPIC, 0, b"first")
        for n in range(1, rounds + 1):
            parked.s.sendall(ask(0, n, 20000, opaque=n))
            time.sleep(rng.uniform(0, 0.003))
            began = time.monotonic()
            h, _ = mq.send(sender, TOPIC, 0, b"m%d" % n)
            expect(h["code"] == 0, "the send is taken", h)
            acked = time.monotonic()
            h, stored = answer(parked)
            took.append(time.monotonic() - began)
            after.append(time.monotonic() - acked)
            expect(h["code"] == 0 and h["opaque"] == n and next(records_of(stored))[4] == b"m%d" % n, "the pull gets the message", h)
    slowest(after, 0.1 + 2 * machine.longest, 0.02)
    if flush == "ASYNC_FLUSH": slowest(took, 0.9, 0.02)
    sane(b)


@case("H12 2", "5,000 times park and send at the same time from two threads: none waits")
def at_once(bench):
    b = bench.broker(flushDiskType="ASYNC_FLUSH").start()
    rounds, took = 5000, []
    gate = threading.Barrier(2, timeout=60)
    def sends():
        with contextlib.closing(b.connect()) as c:
            for n in range(1, rounds + 1):
                gate.wait()
                mq.send(c, TOPIC, 0, b"m%d" % n)
                gate.wait()
    with contextlib.closing(b.connect()) as c:
        mq.send(c, TOPIC, 0, b"first")
        t = threading.Thread(target=sends, daemon=True)
        t.start()
        for n in range(1, rounds + 1):
            gate.wait()
            began = time.monotonic()
            c.s.sendall(ask(0, n, 20000, opaque=n))
            h, stored = answer(c)
            took.append(time.monotonic() - began)
            expect(h["code"] == 0 and next(records_of(stored))[4] == b"m%d" % n, "the pull gets the message", h)
            gate.wait()
        t.join(60)
    slowest(took, 0.5, 0.1)
    sane(b)


@case("H12 3", "2,000 pulls parked on 2,000 queues, one message to each: each is answered")
def many(bench):
    b = bench.broker().start()
    queues = 2000
    with contextlib.closing(b.connect()) as parked, contextlib.closing(b.connect()) as sender:
        h, _ = sender.call(17, dict(topic="Wide", readQueueNums=queues, writeQueueNums=queues, perm=6, topicFilterType="SINGLE_TAG", topicSysFlag=0, order=False))
        expect(h["code"] == 0, "the topic is made", h)
        for q in range(queues): parked.s.sendall(ask(q, 0, 30000, opaque=q + 1, topic="Wide"))
        time.sleep(1)
        began = time.monotonic()
        for q in range(queues): # all at once, answers afterwards
            sender.s.sendall(mq.frame(10, dict(producerGroup="kit", topic="Wide", defaultTopic="TBW102", defaultTopicQueueNums=4, queueId=q, sysFlag=0, bornTimestamp=1,
                                               flag=0, properties=""), b"to %d" % q, opaque=q + 1))
        for q in range(queues): expect(answer(sender)[0]["code"] == 0, "each send is taken")
        got = {}
        for _ in range(queues):
            h, stored = answer(parked)
            expect(h["code"] == 0, "each pull finds its message", h)
            got[h["opaque"] - 1] = next(records_of(stored))[4]
        took = time.monotonic() - began
        expect(got == {q: b"to %d" % q for q in range(queues)}, "each gets its own")
        expect(took < 15, "it does not take long", took)
    sane(b)


@case("H12 4", "park, close the connection, send: nothing is lost, the next pull gets it")
def closed(bench):
    b = bench.broker().start()
    with contextlib.closing(b.connect()) as sender:
        mq.send(sender, TOPIC, 0, b"first")
        for n in range(1, 301):
            c = b.connect()
            c.s.sendall(ask(0, n, 20000))
            if n % 2: time.sleep(0.002)
            if n % 3 == 0: c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            c.close()
            mq.send(sender, TOPIC, 0, b"m%d" % n)
            with contextlib.closing(b.connect()) as next_one:
                began = time.monotonic()
                next_one.s.sendall(ask(0, n, 20000))
                h, stored = answer(next_one)
                expect(h["code"] == 0 and next(records_of(stored))[4] == b"m%d" % n, "the next pull gets it", h)
                expect(time.monotonic() - began < 0.5, "and at once")
    sane(b)


@case("H12 5", "a parked pull of a tag that does not match, 1,000 other messages: answered at its limit with the offset moved forward")
def other_tags(bench):
    b = bench.broker().start()
    with contextlib.closing(b.connect()) as parked, contextlib.closing(b.connect()) as sender:
        mq.send(sender, TOPIC, 0, b"first", {"TAGS": "other"})
        used, began = b.cpu(), time.monotonic()
        parked.s.sendall(ask(0, 1, 4000, tags="mine"))
        for i in range(1000): mq.send(sender, TOPIC, 0, b"other %d" % i, {"TAGS": "other"})
        h, stored = answer(parked)
        took = time.monotonic() - began
        at = int(h["extFields"]["nextBeginOffset"])
        expect(h["code"] in (19, 20) and not stored, "nothing is found", h)
        expect(3 < took < 6 or h["code"] == 20, "it is answered at its limit", took, h)
        expect(at > 1, "the offset has moved forward", h)
        while at < 1001: # a client goes on from there
            began = time.monotonic()
            parked.s.sendall(ask(0, at, 2000, tags="mine"))
            h, stored = answer(parked)
            expect(not stored and int(h["extFields"]["nextBeginOffset"]) > at, "it moves on", h)
            at = int(h["extFields"]["nextBeginOffset"])
        parked.s.sendall(ask(0, at, 20000, tags="mine"))
        time.sleep(0.05)
        began = time.monotonic()
        for i in range(100): mq.send(sender, TOPIC, 0, b"again %d" % i, {"TAGS": "other"})
        mq.send(sender, TOPIC, 0, b"mine", {"TAGS": "mine"})
        h, stored = answer(parked)
        expect(h["code"] == 0 and [r[4] for r in records_of(stored)] == [b"mine"], "its own comes at last", h)
        expect(time.monotonic() - began < 2, "soon", time.monotonic() - began)
    sane(b)


@case("H12 hold", "a pull with nothing to come is answered at its hold time; one that may not wait at once; one beyond the end at once")
def hold_time(bench):
    b = bench.broker().start()
    with contextlib.closing(b.connect()) as c:
        mq.send(c, TOPIC, 0, b"first")
        for hold, at, low, high in ((1000, 1, 0.9, 2), (3000, 1, 2.9, 4.5), (0, 1, 0, 0.5), (10000, 99, 0, 0.5), (2000, 0, 0, 0.5)):
            began = time.monotonic()
            h, _ = mq.pull(c, TOPIC, 0, at, hold_ms=hold)
            took = time.monotonic() - began
            expect(low <= took <= high, "a pull at %d held for %d ms takes that long" % (at, hold), took, h)
    sane(b)


@case("H12 6", "sync flush, one sender, 10,000 messages: no steps at 10, 500 or 1,000 ms")
def latency(bench):
    b = bench.broker().start()
    took = []
    with contextlib.closing(b.connect()) as c:
        for n in range(10000):
            began = time.monotonic()
            expect(mq.send(c, TOPIC, n % QUEUES, b"m%d" % n)[0]["code"] == 0, "it is taken")
            took.append(time.monotonic() - began)
    for step in (0.010, 0.5, 1.0):
        near = [t for t in took if step * 0.98 < t < step * 1.08]
        below = [t for t in took if step * 0.85 < t <= step * 0.95]
        expect(len(near) < 50 + 5 * len(below), "no step at %d ms" % (step * 1e3), len(near), len(below))
    expect(sorted(took)[5000] < 0.05, "half are quick", sorted(took)[5000])
    sane(b)


@case("H12 stop", "a stop while 500 pulls are parked: it is quick, each pull is answered or its connection ends")
def stop(bench):
    b = bench.broker().start()
    with contextlib.closing(b.connect()) as c: mq.send(c, TOPIC, 0, b"first")
    many = [b.connect() for _ in range(500)]
    for n, c in enumerate(many): c.s.sendall(ask(n % QUEUES, 1 if n % QUEUES == 0 else 0, 60000, opaque=n))
    time.sleep(1)
    began = time.monotonic()
    b.stop(limit=10)
    expect(time.monotonic() - began < 5, "the stop is quick", time.monotonic() - began)
    for c in many:
        try:
            h, stored = answer(c)
            expect(h["code"] != 0 and not stored, "an answer says what is", h)
        except (EOFError, ConnectionError):
            pass
        c.close()
