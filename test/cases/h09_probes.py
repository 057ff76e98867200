"""H09: probes, short and silent connections, and clients that leave while answers are queued to them."""
import contextlib, re, socket, struct, threading, time
import mq
from harness import *

ROUNDS = 5000


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def connect_and_close(s): s.close()


def time_text(s):
    s.sendall(b"2026-01-02 03:04:05")
    s.close()


def half_header(s):
    s.sendall(b"\x00\x00\x01")
    s.close()


PROBES = {"close": connect_and_close, "text": time_text, "reset": reset, "half": half_header}


def settle(b, files, goroutines, memory, limit=60):
    """Waits until files, goroutines and memory are back; says what is not."""
    end = time.monotonic() + limit
    while True:
        now = b.files(), b.goroutines(), b.held()
        if abs(now[0] - files) <= 5 and abs(now[1] - goroutines) <= 5 and now[2] - memory < 10 << 20: return
        if time.monotonic() > end:
            raise Wrong("files, goroutines and memory are back within a minute: %s, were %s" % (now, (files, goroutines, memory)))
        time.sleep(0.5)


def honest(b, quit, wrong):
    """A client that nothing disturbs."""
    try:
        with contextlib.closing(b.connect()) as c:
            n = 0
            while not quit.is_set():
                h, _ = mq.send(c, TOPIC, n % QUEUES, b"honest %d" % n)
                expect(h["code"] == 0, "an honest send is taken", h)
                n += 1
                time.sleep(0.01)
    except Exception as e:
        wrong.append("%s %s" % (type(e).__name__, e))


@contextlib.contextmanager
def with_honest(b):
    quit, wrong = threading.Event(), []
    t = threading.Thread(target=honest, args=(b, quit, wrong))
    t.start()
    try:
        yield
    finally:
        quit.set()
        t.join()
    expect(not wrong, "an honest client is not disturbed", wrong)


def measured(b):
    with contextlib.closing(b.connect()) as c: mq.send(c, TOPIC, 0, b"warm")
    b.goroutines() # the metrics' own connection
    time.sleep(0.5)
    return b.files(), b.goroutines(), b.held()


for where in ("port", "names", "fast port"):
    for name, probe in PROBES.items():
        @case("H09 %s %s" % (where, name), "%d times connect and %s at the %s: files, goroutines and memory are back, an honest client sees nothing" % (
            ROUNDS, name, {"port": "broker", "names": "name server", "fast port": "fast port"}[where]))
        def probed(bench, where=where, probe=probe):
            b = bench.broker().start()
            port = {"port": b.port, "names": b.names, "fast port": b.port - 2}[where]
            was = measured(b)
            with with_honest(b):
                for _ in range(ROUNDS):
                    s = socket.create_connection(("127.0.0.1", port), 10)
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError): probe(s)
            settle(b, *was)
            expect(len(b.log().splitlines()) < 1000, "the log is no flood", len(b.log().splitlines()))
            sane(b)
            b.stop()


@case("H09 silent", "200 silent connections in parallel end after the idle time, a talking one stays")
def silent(bench):
    b = bench.broker(serverChannelMaxIdleTimeSeconds=3).start()
    was = measured(b)
    for port in (b.port, b.port - 2):
        mute = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        for s in mute[:50]: s.sendall(b"\x00\x00\x01") # and some in the middle of a frame
        began = time.monotonic()
        with with_honest(b):
            for s in mute:
                s.settimeout(max(0.1, 10 - (time.monotonic() - began)))
                try:
                    expect(s.recv(10) == b"", "a silent connection ends")
                except ConnectionResetError:
                    pass
            took = time.monotonic() - began
        expect(2 < took < 9, "it ends after the idle time of 3 s", took)
        for s in mute: s.close()
    settle(b, *was)
    sane(b)


@case("H09 row", "10,000 connections in a row, then 1,000 at once: all are served, all is given back")
def in_a_row(bench):
    b = bench.broker().start()
    was = measured(b)
    with with_honest(b):
        for n in range(10000):
            with contextlib.closing(b.connect()) as c:
                if n % 10 == 0: expect(c.call(30, dict(topic=TOPIC, queueId=0))[0]["code"] == 0, "it is served")
        many = [b.connect() for _ in range(1000)]
        for c in many: expect(c.call(30, dict(topic=TOPIC, queueId=0))[0]["code"] == 0, "each of 1,000 is served")
        for c in many: c.close()
    settle(b, *was)
    sane(b)


@case("H09 queued", "a client closes while 500 answers are queued to it, 300 times: all is given back, an honest client sees nothing")
def queued(bench):
    b = bench.broker(mappedFileSizeCommitLog=64 * SEGMENT, mappedFileSizeConsumeQueue=6000000).start() # no file is made meanwhile
    with contextlib.closing(b.connect()) as c:
        for i in range(64): mq.send(c, "Big", 0, b"%d" % i * 5000)
    was = measured(b)
    asks = b"".join(mq.frame(11, dict(consumerGroup="leaves", topic="Big", queueId=0, queueOffset=i % 32, maxMsgNums=32, sysFlag=4, commitOffset=0,
                                      suspendTimeoutMillis=0, subscription="*", subVersion=0), opaque=i) for i in range(500))
    sends = b"".join(mq.frame(10, dict(producerGroup="leaves", topic="Small", defaultTopic="TBW102", defaultTopicQueueNums=4, queueId=0, sysFlag=0, bornTimestamp=1, flag=0,
                                       properties=""), b"x" * 100, opaque=i) for i in range(500))
    with with_honest(b):
        for n in range(300):
            s = socket.create_connection(("127.0.0.1", b.port))
            with contextlib.suppress(BlockingIOError, ConnectionError):
                s.setblocking(False)
                s.sendall(asks if n % 2 else sends)
            reset(s) if n % 3 else s.close()
    settle(b, *was)
    walk_log(b.store, 64 * SEGMENT)
    sane(b)
    b.stop()


@case("H09 parked", "2,000 clients close while their pull is parked: all is given back")
def parked(bench):
    b = bench.broker().start()
    was = measured(b)
    with with_honest(b):
        for _ in range(10):
            many = [b.connect() for _ in range(200)]
            for n, c in enumerate(many):
                at = 10**9 if n % 2 else 0
                c.s.sendall(mq.frame(11, dict(consumerGroup="parks", topic=TOPIC, queueId=n % QUEUES, queueOffset=mq_end(b, n % QUEUES), maxMsgNums=32, sysFlag=6, commitOffset=0,
                                              suspendTimeoutMillis=30000, subscription="nothing", subVersion=0), opaque=n))
            for n, c in enumerate(many): reset(c.s) if n % 2 else c.close()
    settle(b, *was)
    sane(b)
    b.stop()


def mq_end(b, queue):
    with contextlib.closing(b.connect()) as c: return mq.max_offset(c, TOPIC, queue)
