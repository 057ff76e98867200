"""What is sent to either broker, and the ledger of what it acknowledged."""
import json, random, struct, threading, time, zlib

import harness, mq, records
from harness import expect

CODE_SEND, CODE_BATCH = 310, 320
COMPRESSED = 0x301 # sysFlag of a Java client: body is compressed, by zlib
ROOM = 8           # bytes that stay free behind every record of a segment

AUTO, MADE, ODD, EMPTY, LONG = "Auto", "Made", "Odd", "Empty", "L" * 127
RETRY_GROUP = "r" * 140
RETRY_V2 = "%RETRY%" + RETRY_GROUP # stored as a record of the second form, which 4.9.7 does not know
TAGS = ["TagA", "TagB", "Aa", "BB", "AaAa", "BBBB", "polygenelubricants", "\u00e4\u6807\U0001F600", ""]
SAME_KEY = "%032X" % 1 # many large messages have it, more than a query answers
# rooms to leave at the end of a segment: the least, sizes around those of a record's fixed part and of a block, large ones
ROOMS = [8, 9, 10, 11, 12, 16, 19, 20, 21, 23, 28, 48, 88, 90, 91, 92, 99, 100, 101, 255, 511, 512, 513, 4095, 4096, 4097, 8192, 65537]


class Ledger:
    """What was sent, and where what was acknowledged stands. May be used by several senders."""
    def __init__(self):
        self.mu, self.sent, self.acked, self.ids = threading.Lock(), set(), {}, {}

    def sending(self, bodies):
        with self.mu: self.sent.update(bodies)

    def took(self, topic, queue, number, bodies, ids):
        with self.mu:
            for i, body in enumerate(bodies):
                at = topic, queue, number + i
                expect(at not in self.acked, "number %d of %s/%d is given once" % (at[2], topic, queue))
                self.acked[at] = body
                if ids[i:]: self.ids[ids[i]] = at

    def last(self):
        """{(topic, queue): number of the last acknowledged message}"""
        last = {}
        for topic, queue, number in self.acked: last[topic, queue] = max(number, last.get((topic, queue), 0))
        return last


class Sender:
    """One connection, one send at a time."""
    def __init__(self, address, ledger, seed):
        self.c, self.ledger, self.rng, self.seed, self.n = mq.Conn(address, 30), ledger, random.Random(seed), seed, 0

    def close(self): self.c.close()

    def _send(self, code, topic, queue, body, properties, bodies, sys_flag=0, flag=0):
        ext = dict(a="interop", b=topic, c="TBW102", d=4, e=queue, f=sys_flag, g=int(time.time() * 1000), h=flag, i=properties, j=0, k=False,
                   m=code == CODE_BATCH)
        self.ledger.sending(bodies)
        h, _ = self.c.call(code, ext, body)
        expect(h["code"] == harness.SUCCESS, "a good send is answered 0", h)
        ext = h["extFields"]
        expect(int(ext["queueId"]) == queue, "a send goes to the queue it names", ext)
        self.ledger.took(topic, queue, int(ext["queueOffset"]), bodies, ext["msgId"].split(","))
        return int(ext["queueOffset"]), ext["msgId"].split(",")

    def one(self, topic, queue, body, properties=None, sys_flag=0, flag=0):
        """Returns number and position."""
        number, ids = self._send(CODE_SEND, topic, queue, body, mq.props(properties or {}), [body], sys_flag, flag)
        return number, int(ids[0][16:], 16)

    def batch(self, topic, queue, items):
        """items: (body, properties)."""
        body = b""
        for b, p in items:
            p = mq.props(p).encode()
            body += struct.pack(">iiiii", 22 + len(b) + len(p), 0, 0, 0, len(b)) + b + struct.pack(">h", len(p)) + p
        return self._send(CODE_BATCH, topic, queue, body, "", [b for b, _ in items])

    def body(self, size=None):
        """Not like any other."""
        self.n += 1
        head = b"%d-%d-" % (self.seed, self.n)
        if size is None: size = len(head) + self.rng.choice([0, 1, 10, 100, 100, 300, 1000, 3000])
        return head + self.rng.randbytes(max(0, size - len(head)))

    def properties(self):
        p = {}
        tag = self.rng.choice(TAGS)
        if tag: p["TAGS"] = tag
        if self.rng.random() < 0.6: p["KEYS"] = " ".join("k%d" % self.rng.randrange(500) for _ in range(self.rng.randint(1, 3)))
        if self.rng.random() < 0.5: p["UNIQ_KEY"] = "%032X" % self.rng.getrandbits(128)
        if self.rng.random() < 0.1: p["user"] = "\u00fc" * self.rng.randint(1, 60)
        if self.rng.random() < 0.01: p["long"] = "x" * self.rng.randint(1000, 20000)
        if self.rng.random() < 0.5: p["WAIT"] = "true"
        return p

    def any(self, queues):
        """A single message, sometimes compressed, or a batch."""
        topic, queue = self.rng.choice(queues)
        kind = self.rng.random()
        if kind < 0.06 and not topic.startswith("%"):
            self.batch(topic, queue, [(self.body(), self.properties()) for _ in range(self.rng.randint(2, 24))])
        elif kind < 0.12:
            self.one(topic, queue, zlib.compress(self.body() + b"z" * 5000), self.properties(), COMPRESSED)
        else:
            self.one(topic, queue, self.body(), self.properties(), flag=self.rng.choice([0, 0, 0, 7, -1]))


def queues_of(version, java=False):
    """(topic, queue) to choose from: one queue gets many messages, so that it has several files."""
    queues = [(AUTO, q) for q in range(4)] + [(MADE, q) for q in range(8)] + [(ODD, q) for q in range(3)] + [(LONG, 0), (LONG, 1)]
    queues += [(AUTO, 1)] * 12
    if version >= "5": queues += [(RETRY_V2, 0)] * 2
    if java: queues += [("JavaMade", q) for q in range(5)] + [("JavaAuto", q) for q in range(4)]
    return queues


def in_parallel(address, ledger, queues, count, seed, senders=4):
    """count sends of any kind."""
    wrong = []
    def run(i):
        try:
            s = Sender(address, ledger, seed + i)
            for _ in range(count // senders): s.any(queues)
            s.close()
        except Exception as e: wrong.append(e)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(senders)]
    for t in threads: t.start()
    for t in threads: t.join()
    if wrong: raise wrong[0]


def fill_segments(address, ledger, rooms, seed, segment=harness.SEGMENT):
    """Ends a segment with each of the rooms. Nobody else may send meanwhile."""
    s = Sender(address, ledger, seed)
    fixed = {"TAGS": "TagA", "UNIQ_KEY": SAME_KEY} # properties of one length, whatever the broker adds
    def send(size): return s.one(MADE, 7, s.body(size), fixed)[1]
    def overhead():
        while True: # two records side by side in one segment tell what a record has besides its body
            a, b = send(100), send(100)
            if a // segment == b // segment: return b - a - 100, b + (b - a)
    besides, end = overhead()
    for room in rooms:
        while True:
            free = segment - end % segment
            need = free - room - besides
            if need < 30: # no record can leave that room: on to the next segment
                end = send(8000) + besides + 8000
            elif need <= 400000:
                expect(send(need) == end, "a record that leaves %d bytes goes to the end of the log" % room, end)
                break
            else:
                expect(send(250000) == end, "a record goes to the end of the log", end)
                end += 250000 + besides
        big = max(room, 150)
        end = send(big)
        expect(end % segment == 0, "a record that does not fit begins a segment", end, room)
        end += big + besides
    # a batch goes to the next segment as a whole
    size = (segment - end % segment) // 3
    s.batch(MADE, 7, [(s.body(size), fixed) for _ in range(3)])
    s.close()


class Storm:
    """Senders that go on until the connection breaks: for a kill under load."""
    def __init__(self, address, ledger, queues, seed, senders=4):
        self.acks, self.wrong, self.over = 0, [], False
        self.threads = [threading.Thread(target=self._run, args=(address, ledger, queues, seed + i), daemon=True) for i in range(senders)]
        for t in self.threads: t.start()

    def _run(self, address, ledger, queues, seed):
        s = None
        try:
            s = Sender(address, ledger, seed)
            while not self.over:
                s.any(queues)
                self.acks += 1
        except (OSError, EOFError): pass # the broker is gone
        except Exception as e:
            if not self.over: self.wrong.append(e)
        finally:
            if s: s.close()

    def until(self, acks, limit=60):
        end = time.monotonic() + limit
        while self.acks < acks and not self.wrong and time.monotonic() < end: time.sleep(0.001)
        if self.wrong: raise self.wrong[0]
        expect(self.acks >= acks, "%d sends are acknowledged within %d s" % (acks, limit), self.acks)

    def end(self):
        """After the kill."""
        self.over = True
        for t in self.threads: t.join(40)
        if self.wrong: raise self.wrong[0]


# ---------- topics, groups, offsets

TOPIC_SETTINGS = {MADE: dict(readQueueNums=8, writeQueueNums=8, perm=6, order=True), ODD: dict(readQueueNums=6, writeQueueNums=3, perm=6, order=False),
                  EMPTY: dict(readQueueNums=2, writeQueueNums=2, perm=4, order=False), LONG: dict(readQueueNums=2, writeQueueNums=2, perm=6, order=False)}
JAVA_TOPIC_SETTINGS = {"JavaMade": dict(readQueueNums=5, writeQueueNums=5, perm=6, order=True), ODD: dict(readQueueNums=7, writeQueueNums=4, perm=6, order=False)}
GROUPS = {"G-one": dict(retryMaxTimes=5, consumeBroadcastEnable=False), "G-two": dict(retryQueueNums=3, consumeFromMinEnable=False)}
JAVA_GROUPS = {"G-java": dict(retryMaxTimes=9, brokerId=2), "G-two": dict(retryMaxTimes=4, retryQueueNums=2)}


def put_topics(c, settings):
    for name, s in settings.items():
        h, _ = c.call(17, dict(s, topic=name, defaultTopic="TBW102", topicFilterType="SINGLE_TAG", topicSysFlag=0))
        expect(h["code"] == harness.SUCCESS, "topic %.20s is taken" % name, h)


def put_groups(c, settings):
    for name, s in settings.items():
        h, _ = c.call(200, None, json.dumps(dict(dict(groupName=name, consumeEnable=True, consumeFromMinEnable=True, consumeBroadcastEnable=True, retryQueueNums=1,
                                                      retryMaxTimes=16, brokerId=0, whichBrokerWhenConsumeSlowly=1, notifyConsumerIdsChangedEnable=True), **s)).encode())
        expect(h["code"] == harness.SUCCESS, "group %s is taken" % name, h)


def topics_of(c):
    h, body = c.call(21)
    expect(h["code"] == harness.SUCCESS, "the topics are answered", h)
    return json.loads(body)["topicConfigTable"]


def groups_of(c):
    h, body = c.call(201)
    expect(h["code"] == harness.SUCCESS, "the groups are answered", h)
    return json.loads(body)["subscriptionGroupTable"]


def has_settings(got, wanted, what):
    for name, s in wanted.items():
        expect(name in got, "%s %.20s is known" % (what, name), sorted(got)[:30])
        for key, value in s.items():
            expect(got[name].get(key) == value, "%s %.20s has %s=%s" % (what, name, key, value), got[name])


def commit(c, group, topic, offsets):
    for queue, offset in offsets.items():
        h, _ = c.call(15, dict(consumerGroup=group, topic=topic, queueId=queue, commitOffset=offset))
        expect(h["code"] == harness.SUCCESS, "offset %d of %s is committed" % (offset, group), h)


def committed(c, group, topic, queues):
    found = {}
    for q in queues:
        h, _ = c.call(14, dict(consumerGroup=group, topic=topic, queueId=q))
        if h["code"] == harness.SUCCESS: found[q] = int(h["extFields"]["offset"])
    return found
