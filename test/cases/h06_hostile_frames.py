"""H06: hostile frames on the broker's and the name server's port, while honest clients go on undisturbed."""
import contextlib, json, os, random, socket, struct, threading, time
import mq
from harness import *

ROUNDS = 200
QUEUE = 0


def raw(header, body=b"", length=None, header_length=None, kind=0):
    """A frame of a header's bytes; lengths can be lies."""
    n = len(header) if header_length is None else header_length
    return struct.pack(">iI", 4 + len(header) + len(body) if length is None else length, kind << 24 | n) + header + body


def header(**changes):
    h = {"code": 10, "language": "JAVA", "version": 395, "opaque": 7, "flag": 0, "serializeTypeCurrentRPC": "JSON",
         "extFields": {k: str(v) for k, v in FIELDS.items()}}
    h.update(changes)
    return json.dumps(h).encode()


FIELDS = dict(producerGroup="hostile", topic="Hostile", defaultTopic="TBW102", defaultTopicQueueNums=4, queueId=0, sysFlag=0, bornTimestamp=1, flag=0,
              properties="", reconsumeTimes=0, unitMode="false", batch="false")


def fields(**changes):
    f = {k: v if isinstance(v, (list, dict, int, bool, type(None))) and k in changes else str(v) for k, v in {**FIELDS, **changes}.items() if v != "-"}
    return raw(header(extFields=f), b"hostile body")


def binary(remark_length=0, ext_length=0, tail=b""):
    return raw(struct.pack(">hbhiii", 10, 0, 395, 7, 0, remark_length) + (struct.pack(">i", ext_length) if remark_length == 0 else b"") + tail, b"x", kind=1)


# name -> (bytes, what has to come): "end" the connection is closed, "answer" an error answer or a close, "any" nothing is expected
FRAMES = {
    "length 0": (struct.pack(">i", 0), "end"), "length 3": (struct.pack(">i", 3) + b"abc", "end"), "length -1": (struct.pack(">i", -1), "end"),
    "length 0x7fffffff": (struct.pack(">i", 0x7fffffff), "end"), "length 16777217": (struct.pack(">i", 16777217), "end"),
    "length 16777216": (struct.pack(">i", 16777216) + bytes(100), "any"),
    "header length 0xffffff": (raw(b"123456", header_length=0xffffff), "end"), "header beyond the frame": (raw(header(), header_length=5000), "end"),
    "serialization 7": (raw(header(), kind=7), "answer"), "one key of 1 MB": (raw(b'{"' + b"k" * (1 << 20) + b'":1}'), "answer"),
    "one value of 1 MB": (raw(header(remark="r" * (1 << 20), code=99999)), "answer"),
    "nested brackets": (raw(b"[" * 100000), "answer"), "nested braces": (raw(b'{"extFields":' * 20000), "answer"),
    "nested in ext": (raw(b'{"code":10,"opaque":7,"extFields":{"a":' + b"[" * 50000 + b"]" * 50000 + b"}}"), "answer"),
    "header null": (raw(b"null"), "answer"), "header []": (raw(b"[]"), "answer"), "header a string": (raw(b'"x"'), "answer"), "header empty": (raw(b""), "answer"),
    "header {}": (raw(b"{}"), "answer"), "not text": (raw(bytes(range(128, 256))), "answer"), "half a header": (raw(header()[:50]), "answer"),
    "opaque beyond 64 bits": (raw(header().replace(b'"opaque": 7', b'"opaque": 99999999999999999999999')), "answer"),
    "code beyond 64 bits": (raw(header().replace(b'"code": 10', b'"code": 99999999999999999999999')), "answer"),
    "opaque negative": (raw(header(opaque=-5, code=99999)), "answer"), "code -1": (raw(header(code=-1)), "answer"), "code 99999": (raw(header(code=99999)), "answer"),
    "ext a list": (raw(header(extFields=[1, 2])), "answer"), "ext a number": (raw(header(extFields=5)), "answer"),
    "ext values of other types": (fields(queueId=[1], sysFlag={"a": 1}), "answer"), "queueId missing": (fields(queueId="-"), "answer"),
    "queueId no number": (fields(queueId="abc"), "answer"), "queueId 1.5": (fields(queueId="1.5"), "answer"), "queueId 2^31-1": (fields(queueId=2**31 - 1), "answer"),
    "queueId 2^63": (fields(queueId=str(2**63)), "answer"), "queueId -2^31": (fields(queueId=-2**31), "any"), "topic missing": (fields(topic="-"), "answer"),
    "topic empty": (fields(topic=""), "answer"), "topic with slashes": (fields(topic="../../../etc/x"), "answer"), "topic dots": (fields(topic=".."), "answer"),
    "topic of odd letters": (fields(topic="a b\n$(id)"), "answer"), "topic of 2000 letters": (fields(topic="t" * 2000), "answer"),
    "flag no number": (fields(flag="x"), "answer"), "bornTimestamp no number": (fields(bornTimestamp=""), "answer"), "sysFlag beyond 32 bits": (fields(sysFlag=2**40), "answer"),
    "sysFlag -1": (fields(sysFlag=-1), "answer"), "properties without separators": (fields(properties="abc" * 1000), "any"),
    "properties of separators": (fields(properties="\x01\x02" * 1000), "any"), "body empty": (raw(header()), "any"),
    "pull beyond all": (mq.frame(11, dict(consumerGroup="h", topic="T", queueId=-7, queueOffset=2**62, maxMsgNums=2**31 - 1, sysFlag=6, commitOffset=2**62,
                                         suspendTimeoutMillis=2**62, subscription="*", subVersion=0)), "answer"),
    "pull of -1": (mq.frame(11, dict(consumerGroup="h", topic="T", queueId=0, queueOffset=-1, maxMsgNums=-1, sysFlag=4, commitOffset=-1,
                                    suspendTimeoutMillis=-1, subscription="*", subVersion=0)), "answer"),
    "pull, odd expression": (mq.frame(11, dict(consumerGroup="h", topic="T", queueId=0, queueOffset=0, maxMsgNums=1, sysFlag=4, commitOffset=0,
                                              suspendTimeoutMillis=0, subscription="||" * 10000 + "a", subVersion=0)), "any"),
    "batch of lies": (mq.frame(320, dict(FIELDS, batch="true"), struct.pack(">iiiii", 0x7fffffff, 0, 0, 0, 0x7fffffff)), "answer"),
    "binary, remark length 2^31-1": (binary(2**31 - 1), "answer"), "binary, ext length -1": (binary(0, -1), "answer"),
    "binary, ext length 2^31-1": (binary(0, 2**31 - 1), "answer"), "binary, pair lengths lie": (binary(0, 6, struct.pack(">hi", -1, 0)), "answer"),
    "binary, value length lies": (binary(0, 10, struct.pack(">h1si", 1, b"a", 2**31 - 1) + b"abc"), "answer"), "binary, short": (raw(b"\x00\x0a", kind=1), "answer"),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "end"), "TLS hello": (bytes.fromhex("16030100a5010000a10303") + bytes(154), "end"),
    "heartbeat of lies": (raw(header(code=34), b'{"clientID":' + b'[' * 5000), "answer"), "heartbeat null": (raw(header(code=34), b"null"), "answer"),
    "heartbeat of other types": (raw(header(code=34), b'{"clientID":5,"consumerDataSet":7,"producerDataSet":{"a":1}}'), "answer"),
    "registration of lies": (raw(header(code=103, extFields={"brokerName": "x", "brokerAddr": "y", "clusterName": "z", "brokerId": "-9", "compressed": "true"}), bytes(50)), "answer"),
    "lock of lies": (raw(header(code=41), b'{"mqSet":[{"queueId":"a"}]}'), "answer"), "an answer nobody asked for": (raw(header(flag=1)), "any"),
    "one-way": (raw(header(flag=2)), "any"),
}


def drain(s, limit):
    """What comes until the peer closes, an answer is complete, or the time is over: ("end"|"answer"|"nothing", answer)."""
    s.settimeout(limit)
    got = b""
    try:
        while True:
            more = s.recv(65536)
            if not more: return "end", None
            got += more
            if len(got) >= 4 and len(got) >= 4 + struct.unpack(">i", got[:4])[0]: return "answer", got
    except socket.timeout:
        return "nothing", None
    except (ConnectionResetError, BrokenPipeError):
        return "end", None


def attack(port, name, frame, wanted, rounds):
    for n in range(rounds):
        with contextlib.closing(socket.create_connection(("127.0.0.1", port), 10)) as s:
            try:
                s.sendall(frame)
            except (ConnectionResetError, BrokenPipeError):
                pass
            if wanted == "any":
                if n == 0: drain(s, 0.05)
                continue
            what, answer = drain(s, 10)
            expect(what == "end" or what == "answer" and wanted == "answer", "%s: the connection ends or an error is answered" % name, what, answer and answer[:200])
            if what == "answer" and frame[4] == 0:
                h, _ = mq.unframe(answer[4:])
                expect(h["code"] != 0 and h.get("remark"), "%s: the error says what is wrong" % name, h)


class Honest:
    """Eight senders whose bodies repeat their own number, and one who pulls and compares."""
    def __init__(self, b):
        self.b, self.quit, self.wrong, self.threads, self.took, self.sent = b, threading.Event(), [], [], [], 0

    def __enter__(self):
        with contextlib.closing(self.b.connect()) as c:
            for q in range(QUEUES): mq.send(c, TOPIC, q, b"\x00" * 100)
        for n in range(8): self.threads.append(threading.Thread(target=self.guard, args=(self.send, n + 1)))
        self.threads.append(threading.Thread(target=self.guard, args=(self.pull, 0)))
        for t in self.threads: t.start()
        return self

    def __exit__(self, *_):
        self.quit.set()
        for t in self.threads: t.join()

    def guard(self, f, n):
        try:
            with contextlib.closing(self.b.connect()) as c:
                while not self.quit.is_set(): f(c, n)
        except Exception as e:
            self.wrong.append("honest connection %d: %s %s" % (n, type(e).__name__, e))

    def send(self, c, n):
        began = time.monotonic()
        h, _ = mq.send(c, TOPIC, n % QUEUES, bytes([n]) * random.randint(50, 3000))
        self.took.append(time.monotonic() - began)
        self.sent += 1
        expect(h["code"] == 0, "an honest send is taken", h)
        time.sleep(0.002)

    def pull(self, c, n):
        if not hasattr(self, "at"): self.at = [0] * QUEUES
        for q in range(QUEUES):
            h, stored = mq.pull(c, TOPIC, q, self.at[q])
            for _, number, _, _, text in records_of(stored if h["code"] == 0 else b""):
                expect(len(set(text)) <= 1, "a body has only bytes of its own connection", number, text[:50])
                expect(number == self.at[q], "numbers rise by one")
                self.at[q] += 1
        time.sleep(0.005)

    def check(self):
        expect(not self.wrong, "no honest connection sees an error", self.wrong[:3])


@case("H06 broker", "200 times each hostile frame at the broker: closed or answered with what is wrong; honest clients see nothing, memory stays")
def at_broker(bench): hostile(bench, lambda b: b.port)


@case("H06 name server", "200 times each hostile frame at the name server: closed or answered with what is wrong; honest clients see nothing, memory stays")
def at_names(bench): hostile(bench, lambda b: b.names)


def hostile(bench, port_of):
    b = bench.broker().start()
    port = port_of(b)
    with Honest(b) as honest:
        for name, (frame, wanted) in FRAMES.items(): attack(port, name, frame, wanted, 2) # what is made once is there
        before = b.resident()
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)] # one byte a second
        ticks = 0
        for name, (frame, wanted) in FRAMES.items():
            attack(port, name, frame, wanted, ROUNDS // 10 if len(frame) > 50000 else ROUNDS)
            for s in slow:
                with contextlib.suppress(OSError): s.send(b"\x00\x00\x10\x00\x00\x00\x00\x50{"[ticks % 9:ticks % 9 + 1])
            ticks += 1
            honest.check()
        whole = raw(header(code=99999))
        for at in range(len(whole)): # cut everywhere, half a frame and then closed
            with contextlib.closing(socket.create_connection(("127.0.0.1", port))) as s: s.sendall(whole[:at])
        for at in range(1, len(whole), 3): # cut everywhere into two packets, and two frames in one packet
            with contextlib.closing(socket.create_connection(("127.0.0.1", port))) as s:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                s.sendall(whole[:at])
                time.sleep(0.001)
                s.sendall(whole[at:] + whole)
                s.settimeout(10)
                got = b""
                while got.count(b'"opaque":7') < 2:
                    more = s.recv(65536)
                    expect(more, "both frames are answered", at, got)
                    got += more
        for s in slow: s.close()
        biggest = raw(header(code=99999), bytes(16777216 - 4 - len(header(code=99999))))
        attack(port, "a frame of exactly 16777216", biggest, "answer", 5)
        honest.check()
    honest.check()
    expect(honest.sent > 200, "honest clients went on", honest.sent)
    for _ in range(50):
        grown = b.resident() - before
        if grown < 20 << 20: break
        time.sleep(0.2)
    expect(grown < 20 << 20, "memory grew by less than 20 MB", grown >> 20)
    with contextlib.closing(b.connect()) as c:
        for q in range(QUEUES):
            for number, text in pull_all(c, TOPIC, q).items(): expect(len(set(text)) <= 1, "every body is of one connection", q, number, text[:60])
    walk_log(b.store)
    sane(b)
    expect(len(b.log().splitlines()) < 2000, "the log is no flood", len(b.log().splitlines()))
    b.stop()


@case("H06 admin", "odd keys and values in admin requests are refused or harmless: no other file, no shell")
def admin(bench):
    b = bench.broker().start()
    before = {os.path.join(d, f) for d, _, files in os.walk(b.store) for f in files}
    odd = ["$(id)", "a\nb", "../../x", "/etc/passwd", "`id`", "a;b", "", "\x00", "é" * 50, "x" * 5000, "..", "."]
    with contextlib.closing(b.connect()) as c:
        for o in odd:
            for code, ext, body in ((17, dict(topic=o, readQueueNums=4, writeQueueNums=4, perm=6, topicFilterType="SINGLE_TAG", topicSysFlag=0, order=False), b""),
                                    (215, dict(topic=o), b""), (25, {}, ("%s=%s\n" % (o, o)).encode()), (25, {}, b"rocketmqHome=/tmp\nstorePathRootDir=/tmp"),
                                    (200, {}, json.dumps(dict(groupName=o)).encode()), (207, dict(groupName=o), b""),
                                    (15, dict(consumerGroup=o, topic=o, queueId=0, commitOffset=1), b"")):
                h, _ = c.call(code, ext, body)
                expect(h["code"] != 0 and h.get("remark"), "request %d with %r is refused with a reason" % (code, o), h)
        for field, value in (("readQueueNums", "-1"), ("readQueueNums", "99999999"), ("writeQueueNums", "x"), ("perm", "99"), ("topicFilterType", "ODD")):
            ext = dict(topic="Fine", readQueueNums=4, writeQueueNums=4, perm=6, topicFilterType="SINGLE_TAG", topicSysFlag=0, order=False)
            ext[field] = value
            h, _ = c.call(17, ext)
            expect(h["code"] != 0 and field in h.get("remark", ""), "the error names %s" % field, h)
    b.stop()
    grown = {os.path.join(d, f) for d, _, files in os.walk(b.store) for f in files} - before
    expect(all(os.path.dirname(f).endswith(("config", "ringmq")) for f in grown), "no other file is made", grown)


@case("H06 window", "a client that asks for 200 MB and does not read: others keep their pace, memory stays, stopping works")
def window(bench):
    b = bench.broker(mappedFileSizeCommitLog=SEGMENT).start()
    with contextlib.closing(b.connect()) as c:
        for i in range(400): expect(mq.send(c, "Big", 0, bytes([i % 251]) * 100000)[0]["code"] == 0, "a send is taken")
    def p99(honest):
        took = sorted(honest.took)
        honest.took.clear()
        return took[len(took) * 99 // 100]
    with Honest(b) as honest:
        time.sleep(3)
        calm, before = p99(honest), b.resident()
        mute = []
        for n in range(3):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", b.port))
            mute.append(s)
        s.setblocking(False)
        for i in range(2000): # 200 MB
            ask = mq.frame(11, dict(consumerGroup="mute", topic="Big", queueId=0, queueOffset=i % 398, maxMsgNums=32, sysFlag=4, commitOffset=0,
                                    suspendTimeoutMillis=0, subscription="*", subVersion=0), opaque=i)
            for s in mute:
                with contextlib.suppress(BlockingIOError, ConnectionError): s.send(ask)
        time.sleep(5)
        busy = p99(honest)
        honest.check()
        expect(busy < max(0.05, 4 * calm), "p99 of others stays below 50 ms", "%.1f ms before, %.1f ms with it" % (calm * 1e3, busy * 1e3))
        expect(b.resident() - before < 100 << 20, "memory is bounded by the outbound limits", (b.resident() - before) >> 20)
    honest.check()
    sane(b)
    b.stop(limit=15)
    for s in mute: s.close()


@case("H06 memory", "clients that fill the memory for unfinished frames and wait: they are closed, honest clients with large bodies see nothing")
def memory(bench):
    limit = 64 << 20
    b = bench.broker(ringmq__memoryLimit=limit, maxMessageSize=600000).start()
    # Frames of all sizes, the last part missing: together they fill the memory to the brim.
    sizes = [8 << 20] * 20 + [1 << 20] * 60 + [300 << 10] * 60 + [100 << 10] * 60 + [30 << 10] * 100
    frames = {n: raw(header(code=99999), bytes(n))[:-(n // 8)] for n in set(sizes)}
    wrong, quit, sent = [], threading.Event(), [0]
    def honest(n):
        try:
            with contextlib.closing(b.connect()) as c:
                while not quit.is_set():
                    h, _ = mq.send(c, TOPIC, n % QUEUES, bytes([n]) * 500000)
                    expect(h["code"] == 0, "an honest send is taken", h)
                    sent[0] += 1
                    time.sleep(0.01)
        except Exception as e:
            wrong.append("%s %s" % (type(e).__name__, e))
    threads = [threading.Thread(target=honest, args=(n,)) for n in range(4)]
    for t in threads: t.start()
    time.sleep(1)
    before = b.resident()
    greedy, most = [], 0
    for size in sizes:
        s = socket.create_connection(("127.0.0.1", b.port), 10)
        s.settimeout(2)
        with contextlib.suppress(OSError): s.sendall(frames[size])
        greedy.append(s)
        most = max(most, b.resident() - before)
    time.sleep(1)
    quit.set()
    for t in threads: t.join()
    for s in greedy: s.close()
    expect(not wrong, "no honest connection sees an error", wrong[:2], [l[:300] for l in b.lines("connection closed")[:2]])
    expect(sent[0] > 50, "honest clients went on", sent[0])
    expect(most < 2 * limit, "memory is bounded", most >> 20)
    sane(b)
    b.stop()
