"""H07: limits of bodies, properties, topics and batches; the least and the most fields; the stored bytes."""
import contextlib, socket, struct, time
import mq
from harness import *

MOST = 100000          # maxMessageSize of these cases
MAX_PROPERTIES = 32767
VIEW, UPDATE_OFFSET, QUERY_OFFSET = 33, 15, 14


def item(body, properties=b"", flag=0, size=None, property_length=None):
    n = 22 + len(body) + len(properties)
    length = len(properties) if property_length is None else property_length
    return struct.pack(">iiiii", n if size is None else size, 0, 0, flag, len(body)) + body + struct.pack(">H", length & 0xffff) + properties


def filling(n): return b"" if n == 0 else b"k\x01" + b"v" * (n - 3) + b"\x02" if n > 3 else b"k\x01v"[:n]


def plain(c, body=b"x", topic=TOPIC, queue=0, properties=b"", **changes):
    ext = dict(producerGroup="kit", topic=topic, defaultTopic="TBW102", defaultTopicQueueNums=QUEUES, queueId=queue, sysFlag=0,
               bornTimestamp=1700000000000, flag=0, properties=properties.decode(), reconsumeTimes=0, unitMode=False, batch=False)
    ext.update(changes)
    code = ext.pop("code", 10)
    return c.call(code, {k: v for k, v in ext.items() if v is not None}, body)[0]


class Numbers:
    """Sends that may be refused; what is taken gets the next number, with no hole."""
    def __init__(self, b):
        self.b, self.next, self.ledger = b, 0, Ledger()

    def good(self, c):
        body = b"good %d" % self.next
        self.took(plain(c, body), body, [0])

    def took(self, h, body, codes, count=1):
        expect(h["code"] in codes, "the answer is one of %s" % codes, h)
        if h["code"] == 0:
            expect(int(h["extFields"]["queueOffset"]) == self.next, "the next number, no hole", h, self.next)
            for i, text in enumerate([body] if count == 1 else body):
                self.ledger.of([(TOPIC, 0, self.next + i, text)])
            self.next += count
        else:
            expect(h.get("remark"), "a refusal says why", h)

    def audit(self):
        audit(self.b, self.ledger)
        self.b.kill().start()
        audit(self.b, self.ledger)
        self.b.stop()


@case("H07 1", "bodies of maxMessageSize -1, 0, +1 bytes, with properties and without: 0 or 13, and the next good one has the next number")
def bodies(bench):
    n = Numbers(bench.broker(maxMessageSize=MOST).start())
    with contextlib.closing(n.b.connect()) as c:
        for size, codes in ((1, [0]), (MOST - 1, [0]), (MOST, [0]), (MOST + 1, [ILLEGAL]), (2 * MOST, [ILLEGAL])):
            for properties in (b"", b"KEYS\x01k\x02", filling(5000), filling(32000)):
                body = (b"%d-%d-" % (size, len(properties))).ljust(size, b"x")[:size] if size > 1 else bytes([len(properties) % 251])
                n.took(plain(c, body, properties=properties), body, codes)
                n.good(c)
    n.audit()


@case("H07 1b", "messages larger than a segment are refused with 13, those that just fit are stored")
def larger_than_segment(bench):
    n = Numbers(bench.broker().start()) # the default limit of 4 MiB, segments of 1 MiB
    with contextlib.closing(n.b.connect()) as c:
        for size in (SEGMENT - 2000, SEGMENT - 500, SEGMENT - 300, *range(SEGMENT - 240, SEGMENT - 85), SEGMENT, SEGMENT + 1, 2 * SEGMENT, 4 << 20):
            body = (b"%d-" % size).ljust(size, b"y")
            n.took(plain(c, body, properties=b"UNIQ_KEY\x01u\x02"), body, [0] if size <= SEGMENT - 300 else [0, ILLEGAL] if size < SEGMENT else [ILLEGAL])
            if size % 16 == 0: n.good(c)
    n.audit()


@case("H07 2", "properties of 32766 to 65536 bytes, single and in a batch: above 32767 refused with 13, nothing half stored")
def properties(bench):
    n = Numbers(bench.broker().start())
    with contextlib.closing(n.b.connect()) as c:
        for size in (1, 2, 3, 32000, 32500, *range(32600, 32700, 7), 32766, 32767, 32768, 40000, 65535, 65536, 70000):
            body = b"single %d" % size
            n.took(plain(c, body, properties=filling(size)), body, [0] if size <= 32500 else [0, ILLEGAL] if size <= MAX_PROPERTIES else [ILLEGAL])
            n.good(c)
            body = b"batch %d" % size
            n.took(plain(c, item(body, filling(size)), code=320, batch=True), body, [0] if size <= MAX_PROPERTIES else [ILLEGAL])
            bodies = [body + b" %d" % i for i in range(3)]
            n.took(plain(c, b"".join(item(t, filling(size if i == 1 else 0)) for i, t in enumerate(bodies)), code=320, batch=True), bodies,
                   [0] if size <= MAX_PROPERTIES else [ILLEGAL], count=3)
            n.good(c)
    n.audit()


@case("H07 3", "topics of 1 to 256 bytes, of several bytes a letter, and %RETRY%: stored whole or refused, bytes count")
def topics(bench):
    b = bench.broker().start()
    ledger, made = Ledger(), []
    with contextlib.closing(b.connect()) as c:
        for name, codes in (("t", [0]), ("t" * 127, [0]), ("t" * 128, [ILLEGAL, INVALID]), ("t" * 255, [ILLEGAL, INVALID]), ("t" * 256, [ILLEGAL, INVALID]),
                            ("ü" * 60, [ILLEGAL, INVALID]), ("ü" * 64, [ILLEGAL, INVALID]), ("字" * 50, [ILLEGAL, INVALID]), ("%RETRY%" + "g" * 120, [0]),
                            ("%RETRY%" + "g" * 200, [0]), ("%RETRY%" + "g" * 248, [0]), ("%RETRY%" + "g" * 249, [ILLEGAL, INVALID]), ("", [ILLEGAL, INVALID]),
                            (".", [ILLEGAL, INVALID]), ("..", [ILLEGAL, INVALID]), ("a/b", [ILLEGAL, INVALID]), ("a b", [ILLEGAL, INVALID])):
            body = b"for %d %s" % (len(name), name.encode())
            h = plain(c, body, topic=name)
            expect(h["code"] in codes, "topic %r is answered with one of %s" % (name[:20], codes), h)
            if h["code"] == 0: made.append((name, body))
    for _ in range(2):
        with contextlib.closing(b.connect()) as c:
            for name, body in made:
                expect(mq.max_offset(c, name, 0) == 1, "topic %s has its message" % name)
                h, stored = mq.pull(c, name, 0, 0)
                expect(h["code"] == 0 and body in stored and name.encode() in stored, "it is served", h)
        walk_log(b.store)
        b.kill().start()
    audit(b, Ledger())


@case("H07 5", "batches: empty, of 1, of 1000, with one message too large or torn: all or nothing, no hole")
def batches(bench):
    n = Numbers(bench.broker(maxMessageSize=MOST).start())
    with contextlib.closing(n.b.connect()) as c:
        def batch(bodies, codes, raw=None):
            n.took(plain(c, b"".join(map(item, bodies)) if raw is None else raw, code=320, batch=True), bodies, codes, count=len(bodies))
            n.good(c)
        def one(body, codes, raw): n.took(plain(c, raw, code=320, batch=True), body, codes)
        one(b"", [ILLEGAL], b"")
        one(b"one", [0], item(b"one"))
        batch([b"m%d" % i for i in range(1000)], [0])
        batch([b"n%d" % i for i in range(1000)], [0])
        good = [b"part %d" % i for i in range(10)]
        whole = b"".join(map(item, good))
        batch(good, [ILLEGAL], raw=b"".join(map(item, good[:5])) + item(b"x" * (MOST + 1)) + b"".join(map(item, good[5:])))
        batch(good, [ILLEGAL], raw=b"".join(map(item, good[:5])) + item(b"x", size=1 << 30) + b"".join(map(item, good[5:])))
        batch(good, [ILLEGAL], raw=b"".join(map(item, good[:5])) + item(b"x", size=-1))
        batch(good, [ILLEGAL], raw=b"".join(map(item, good[:5])) + item(b"x", property_length=7))
        for cut in range(1, len(whole)):
            if cut % len(item(good[0])): one(None, [ILLEGAL], whole[:cut])
        n.good(c)
        for sized in (MOST - 22, MOST - 21): # the batch's body as a whole is at most maxMessageSize
            body = b"%d".ljust(sized, b"z")
            one(body, [0] if sized == MOST - 22 else [ILLEGAL], item(body))
        # a batch of 320 without its flag is one message, as in the original
        n.took(plain(c, item(b"plain"), code=320, batch=False), item(b"plain"), [0])
    n.audit()


@case("H07 5b", "batches over the ends of segments stand whole in one of them, with no hole in the numbers")
def batches_roll(bench):
    n = Numbers(bench.broker(maxMessageSize=400000).start())
    with contextlib.closing(n.b.connect()) as c:
        for round in range(40):
            bodies = [(b"r%d-%d-" % (round, i)).ljust(1 + (round * 7919 + i * 104729) % 3000, b"b") + b"-%d-%d" % (round, i) for i in range(100)]
            n.took(plain(c, b"".join(map(item, bodies)), code=320, batch=True), bodies, [0], count=100)
            n.good(c)
    n.audit()


# ---------- forms

def binary_call(c, code, ext, body):
    c.n += 1
    pairs = b"".join(struct.pack(">h", len(k)) + k.encode() + struct.pack(">i", len(v)) + v.encode() for k, v in ((k, str(v)) for k, v in ext.items()))
    h = struct.pack(">hbhiiii", code, 0, 395, c.n, 0, 0, len(pairs)) + pairs
    c.s.sendall(struct.pack(">iI", 4 + len(h) + len(body), 1 << 24 | len(h)) + h + body)
    (length,) = struct.unpack(">i", c.exact(4))
    answer = c.exact(length)
    kind = struct.unpack(">I", answer[:4])[0]
    expect(kind >> 24 == 1, "the answer has the form of the request", answer[:60])
    got, _, _, opaque, flag, remark_length = struct.unpack_from(">hbhiii", answer, 4)
    expect((opaque, flag & 1) == (c.n, 1), "it is the answer", opaque, flag)
    at = 4 + 17 + remark_length
    remark, (left,), at = answer[21:at], struct.unpack_from(">i", answer, at), at + 4
    end, fields = at + left, {}
    while at < end:
        (k,) = struct.unpack_from(">h", answer, at)
        (v,) = struct.unpack_from(">i", answer, at + 2 + k)
        fields[answer[at + 2:at + 2 + k].decode()] = answer[at + 6 + k:at + 6 + k + v].decode()
        at += 6 + k + v
    return {"code": got, "remark": remark.decode(), "extFields": fields}


SHORT = dict(producerGroup="a", topic="b", defaultTopic="c", defaultTopicQueueNums="d", queueId="e", sysFlag="f", bornTimestamp="g", flag="h", properties="i",
             reconsumeTimes="j", unitMode="k", maxReconsumeTimes="l", batch="m")


@case("H07 6", "least fields, unknown fields, short names, JSON and binary headers: the same bytes are stored")
def forms(bench):
    b = bench.broker().start()
    least = dict(producerGroup="kit", topic=TOPIC, defaultTopic="TBW102", defaultTopicQueueNums=QUEUES, queueId=0, sysFlag=0, bornTimestamp=1700000000000, flag=77,
                 properties="KEYS\x01k\x02UNIQ_KEY\x01same\x02WAIT\x01true\x02")
    full = dict(least, reconsumeTimes=0, unitMode="false", batch="false", maxReconsumeTimes=16)
    odd = dict(full, someField="x", bname="cases", ns="", nsd="false", lo="", emptyField="")
    def short(ext): return {SHORT.get(k, k): v for k, v in ext.items()}
    stored = []
    with contextlib.closing(b.connect()) as c:
        for ext in (least, full, odd):
            for code, named in ((10, ext), (310, short(ext)), (10, dict(reversed(ext.items()))), (310, short(dict(reversed(ext.items()))))):
                for call in (c.call, lambda *a: (binary_call(c, *a), b"")):
                    h = call(code, named, b"the body")[0]
                    expect(h["code"] == 0, "it is taken", h, named)
                    stored.append(int(h["extFields"]["queueOffset"]))
        for missing in ("topic", "queueId", "sysFlag", "bornTimestamp", "flag", "defaultTopicQueueNums"):
            ext = {k: v for k, v in least.items() if k != missing}
            h = c.call(10, ext, b"x")[0]
            expect(h["code"] != 0 and missing in h.get("remark", ""), "the refusal names the missing field %s" % missing, h)
            h = c.call(310, short(ext), b"x")[0]
            expect(h["code"] != 0 and (missing in h.get("remark", "") or SHORT[missing] in h.get("remark", "")), "the refusal names the missing field %s" % missing, h)
        h, records = mq.pull(c, TOPIC, 0, 0, n=32)
        expect(stored == list(range(24)), "each has the next number", stored)
        kinds = set()
        for n in stored:
            (size,) = struct.unpack(">i", records[:4])
            r, records = bytearray(records[:size]), records[size:]
            for at, length in ((20, 8), (28, 8), (56, 8)): r[at:at + length] = bytes(length) # number, place, time of storing
            kinds.add(bytes(r))
        expect(len(kinds) == 1, "the stored bytes are the same", len(kinds), *[k[80:] for k in kinds])
    sane(b)


def properties_of(raw): return dict(p.split(b"\x01", 1) for p in raw.split(b"\x02") if p)


@case("H07 7", "a stored record has the layout byte by byte, with IPv4 and IPv6 hosts; its offset id finds it by request 33")
def bytes_stored(bench):
    for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
        b = bench.broker(brokerIP1=host, bindAddress=host)
        try:
            b.start()
        except Wrong:
            if family == socket.AF_INET: raise
            print("  (no IPv6 here: skipped)")
            continue
        with contextlib.closing(mq.Conn("%s:%d" % (host, b.port))) as c:
            mine = c.s.getsockname()
            sent = b"A\x01b\x02UNIQ_KEY\x01unique\x02"
            body = bytes(range(256)) * 3
            before = int(time.time() * 1000)
            h = plain(c, body, queue=2, properties=sent, flag=-5, sysFlag=1, reconsumeTimes=3, bornTimestamp=1234567890123)
            expect(h["code"] == 0, "it is taken", h)
            h2, r = mq.pull(c, TOPIC, 2, 0)
            expect(h2["code"] == 0, "it is served", h2)
            wide = 12 if family == socket.AF_INET6 else 0
            flags = 1 | (BORN_V6 | STORED_V6 if wide else 0)
            packed = socket.inet_pton(family, host)
            head = struct.pack(">iiiiiqqiq", len(r), mq.MAGIC, mq.crc(body), 2, -5, 0, 0, flags, 1234567890123)
            expect(r[:len(head)] == head, "the head is as it is to be", r[:len(head)], head)
            at = len(head)
            expect(r[at:at + 8 + wide] == packed + struct.pack(">i", mine[1]), "the host it was born on", r[at:at + 8 + wide])
            at += 8 + wide
            (when,) = struct.unpack_from(">q", r, at)
            expect(before - 1000 <= when <= time.time() * 1000 + 1000, "the time of storing", when)
            at += 8
            expect(r[at:at + 8 + wide] == packed + struct.pack(">i", b.port), "the host it is stored on", r[at:at + 8 + wide])
            at += 8 + wide
            tail = struct.pack(">iq", 3, 0) + struct.pack(">i", len(body)) + body + bytes([len(TOPIC)]) + TOPIC.encode()
            expect(r[at:at + len(tail)] == tail, "reconsume times, body and topic", r[at:at + 20])
            at += len(tail)
            (n,) = struct.unpack_from(">h", r, at)
            expect(at + 2 + n == len(r), "the properties end the record", at, n, len(r))
            got = properties_of(r[at + 2:])
            expect(got.pop(b"A") == b"b" and got.pop(b"UNIQ_KEY") == b"unique", "what was sent", got)
            expect(set(got) == {b"CLUSTER", b"MSG_REGION", b"TRACE_ON"}, "what the broker adds", got)
            wanted = (packed + struct.pack(">iq", b.port, 0)).hex().upper()
            expect(h["extFields"]["msgId"] == wanted, "the offset id is address, port and place", h, wanted)
            with open("%s/commitlog/%020d" % (b.store, 0), "rb") as f: expect(f.read(len(r)) == r, "the log has the same bytes")
            h = c.call(VIEW, dict(offset=0))
            expect(h[0]["code"] == 0 and h[1] == r, "request 33 finds it", h[0])
            for odd in (1, len(r) - 1, len(r), 1 << 40, -1, "x"):
                h = c.call(VIEW, dict(offset=odd))[0]
                expect(h["code"] != 0 and h.get("remark"), "no message is found at %s" % odd, h)
        sane(b)
        b.stop()


@case("H07 8", "an offset of -1 is refused, one far beyond the end is corrected; neither is stored as it is")
def offsets(bench):
    b = bench.broker().start()
    ledger = Ledger()
    with contextlib.closing(b.connect()) as c:
        for i in range(40): ledger.send(c, TOPIC, i % QUEUES, b"m%d" % i)
        def update(at, queue=0, topic=TOPIC, group="g8"): return c.call(UPDATE_OFFSET, dict(consumerGroup=group, topic=topic, queueId=queue, commitOffset=at))[0]
        def query(queue=0, topic=TOPIC):
            h = c.call(QUERY_OFFSET, dict(consumerGroup="g8", topic=topic, queueId=queue, setZeroIfNotFound=False))[0]
            return int(h["extFields"]["offset"]) if h["code"] == 0 else None
        expect(update(5)["code"] == 0 and query() == 5, "a good one is stored", query())
        for at in (-1, -2**63, 2**63 - 1, 11, 10**12, "x", "", 2**64):
            h = update(at)
            expect(query() == 5 and h["code"] != 0 or query() == 10 and h["code"] == 0, "offset %s is refused or corrected" % at, h, query())
            update(5)
        h = update(3, queue=99)
        expect(h["code"] != 0 and "queueId" in h["remark"], "a queue that is none is refused", h)
        h = update(3, topic="Nowhere")
        expect(h["code"] != 0, "a topic that is none is refused", h)
        update(7)
    b.stop().start()
    with contextlib.closing(b.connect()) as c:
        h = c.call(QUERY_OFFSET, dict(consumerGroup="g8", topic=TOPIC, queueId=0))[0]
        expect(h["code"] == 0 and int(h["extFields"]["offset"]) == 7, "it is there after a start", h)
    audit(b, ledger)


@case("H07 unbuilt", "what is not built is refused with a text that names it, and nothing of it is stored")
def unbuilt(bench):
    n = Numbers(bench.broker().start())
    with contextlib.closing(n.b.connect()) as c:
        n.good(c)
        for what, changes in (("DELAY", dict(properties=b"DELAY\x011\x02")), ("DELAY", dict(properties=b"DELAY\x0119\x02")), ("DELAY", dict(properties=b"A\x01b\x02DELAY\x01100")),
                              ("TIMER", dict(properties=b"TIMER_DELAY_SEC\x015\x02")), ("TIMER", dict(properties=b"TIMER_DELIVER_MS\x011\x02")),
                              ("ransaction", dict(sysFlag=4)), ("ransaction", dict(sysFlag=8)), ("ransaction", dict(sysFlag=12)), ("TRAN_MSG", dict(properties=b"TRAN_MSG\x01true\x02")),
                              ("inner batch", dict(sysFlag=0x80))):
            h = plain(c, b"not built", **changes)
            expect(h["code"] != 0 and what in h.get("remark", ""), "the refusal of %s names %s" % (changes, what), h)
            if "properties" in changes:
                h = plain(c, item(b"fine") + item(b"not built", changes["properties"]), code=320, batch=True)
                expect(h["code"] != 0 and what in h.get("remark", ""), "the refusal of a batch with %s names %s" % (changes, what), h)
            n.good(c)
        h = c.call(37, dict(producerGroup="g", tranStateTableOffset=0, commitLogOffset=0, commitOrRollback=8, fromTransactionCheck=False, msgId="x", transactionId="x"))[0]
        expect(h["code"] != 0 and h.get("remark"), "END_TRANSACTION is refused", h)
        h, _ = c.call(11, dict(consumerGroup="kit", topic=TOPIC, queueId=0, queueOffset=0, maxMsgNums=32, sysFlag=4, commitOffset=0, suspendTimeoutMillis=0,
                               subscription="a > 1", subVersion=0, expressionType="SQL92"))
        expect(h["code"] != 0 and "SQL92" in h["remark"], "SQL92 is refused by name", h)
        for code in (200050, 200051, 370, 99999, 12):
            h = c.call(code, {})[0]
            expect(h["code"] != 0 and h.get("remark"), "request %d is refused" % code, h)
    n.audit()
