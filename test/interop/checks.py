"""Results as lines, and the comparisons that several scenarios make."""
import contextlib, threading, time, traceback

import brokers, harness, load, mq, records
from harness import expect, Wrong

_print = threading.Lock()
GROUP = "interop"
ENTRIES = brokers.QUEUE_FILE // 20
NOTHING_MATCHED = 20 # in this part of the queue


def say(*words):
    with _print: print(*words, flush=True)


class Abandoned(Exception):
    """A check failed that all later ones of the scenario need."""


class Report:
    """The checks of one scenario."""
    def __init__(self, name):
        self.name, self.passed, self.failed, self.notes, self.figures = name, 0, 0, {}, []

    def figure(self, what, value):
        self.figures.append((what, value))
        return "%s %.2f s" % (what, value)

    def note(self, who, line):
        self.notes[who, line] = self.notes.get((who, line), 0) + 1

    @contextlib.contextmanager
    def check(self, what, needed=False):
        """A check passes unless it raises. What the list it yields gets is told behind it."""
        detail, began = [], time.monotonic()
        try: yield detail
        except Exception as e:
            self.failed += 1
            where = "" if isinstance(e, Wrong) else " at " + "".join(traceback.format_tb(e.__traceback__)[-2:]).replace("\n", " ")
            say("FAIL %s: %s: %s%s%s" % (self.name, what, "" if isinstance(e, Wrong) else type(e).__name__ + " ", e, where))
            if needed: raise Abandoned()
        else:
            self.passed += 1
            say("PASS %s: %s (%s)" % (self.name, what, ", ".join([str(d) for d in detail] + ["%.1f s" % (time.monotonic() - began)])))


def limits(c, topic, queue): return mq.min_offset(c, topic, queue), mq.max_offset(c, topic, queue)


def pull_queue(c, topic, queue, low, high):
    """All records of [low, high), pulled by number."""
    found = []
    while low < high:
        h, body = mq.pull(c, topic, queue, low, group=GROUP)
        expect(h["code"] == harness.SUCCESS and body, "a pull at %d of %.20s/%d, below its max %d, finds something" % (low, topic, queue, high), h)
        for r in records.split(body):
            expect((r.topic, r.queue, r.number) == (topic, queue, low), "a pull answers one number after the other",
                   (r.topic[:20], r.queue, r.number), (topic[:20], queue, low))
            found.append(r)
            low += 1
    return found


def same_records(what, got, want):
    """Byte for byte."""
    for g, w in zip(got, want):
        expect(g.raw == w.raw, "%s: record %d of %.20s/%d is served as it was stored" % (what, w.number, w.topic, w.queue), g.raw[:120].hex(), w.raw[:120].hex())
    expect(len(got) == len(want), "%s: all records are there" % what, len(got), len(want))


def serves(address, what, want, known=(), emptied=()):
    """The broker serves exactly the queues `want`, as records.by_queue gives them; known: queues that are empty if they are not there;
    emptied: {queue: next number} of those whose messages have all been deleted, if they are not there. Returns the number of messages."""
    n = 0
    with contextlib.closing(mq.Conn(address, 30)) as c:
        for (topic, queue), line in want.items():
            low, high = limits(c, topic, queue)
            expect((low, high) == (line[0].number, line[-1].number + 1), "%s: min and max of %.20s/%d" % (what, topic, queue), (low, high),
                   (line[0].number, line[-1].number + 1))
            same_records(what, pull_queue(c, topic, queue, low, high), line)
            n += len(line)
        for topic, queue in known:
            if (topic, queue) not in want and (topic, queue) not in emptied:
                expect(limits(c, topic, queue) == (0, 0), "%s: %.20s/%d is empty" % (what, topic, queue), limits(c, topic, queue))
        for topic, queue in emptied:
            if (topic, queue) in want: continue
            low, high = limits(c, topic, queue)
            expect(0 <= low <= high == emptied[topic, queue], "%s: the max of %.20s/%d is what it was" % (what, topic, queue), low, high, emptied[topic, queue])
            h, _ = mq.pull(c, topic, queue, high, group=GROUP)
            expect(h["code"] == harness.PULL_NOT_FOUND, "%s: nothing is found at the max of %.20s/%d" % (what, topic, queue), h)
    return n


def holds(log, ledger):
    """Every acknowledged message that is not deleted stands in the log, once, where the answer said."""
    found = {}
    for r in log.records:
        at = r.topic, r.queue, r.number
        expect(at not in found, "a number is there once", at)
        expect(r.body in ledger.sent, "record %r is what was sent" % (at,), r.body[:40])
        found[at] = r
    for key, at in ledger.ids.items():
        position = int(key[16:], 16)
        if position < log.first: continue
        expect(at in found, "acknowledged message %r is in the log" % (at,))
        expect(found[at].body == ledger.acked[at], "acknowledged message %r is what was sent" % (at,), found[at].body[:40], ledger.acked[at][:40])
        expect(found[at].position == position, "the id of %r names its position" % (at,), key, found[at].position)


def filters(address, what, want):
    """A pull with a tag finds the messages whose tag has the same hash, no others."""
    n = 0
    with contextlib.closing(mq.Conn(address, 30)) as c:
        for tag in ("TagA", "BB", load.TAGS[7]):
            code = next(records.tag_code(r) for line in want.values() for r in line if records.property(r, b"TAGS") == tag)
            for (topic, queue), line in want.items():
                if queue not in (1, 7): continue
                at, found = line[0].number, []
                while at <= line[-1].number:
                    h, body = c.call(11, dict(consumerGroup=GROUP, topic=topic, queueId=queue, queueOffset=at, maxMsgNums=32, sysFlag=4, commitOffset=0,
                                              suspendTimeoutMillis=0, subscription=tag, subVersion=int(time.time() * 1000), expressionType="TAG"))
                    expect(h["code"] in (harness.SUCCESS, NOTHING_MATCHED, harness.PULL_NOT_FOUND), "a pull with a tag is answered", h)
                    found += records.split(body)
                    expect(int(h["extFields"]["nextBeginOffset"]) > at, "a pull with a tag goes on", h)
                    at = int(h["extFields"]["nextBeginOffset"])
                same_records("%s, tag %s" % (what, tag), found, [r for r in line if records.tag_code(r) == code])
                n += len(found)
    return n


def finds_by_time(address, what, want, exact):
    """By a time that a record was stored at: the first such record. exact=False, as 4.9.7 has it also in stores of its own: any of those with
    the same time, or the first or last entry of another queue file, since it chooses the file by when that was last modified."""
    n = 0
    with contextlib.closing(mq.Conn(address, 30)) as c:
        for (topic, queue), line in want.items():
            for r in line[::max(1, len(line) // 4)]:
                got = mq.by_time(c, topic, queue, r.stored)
                allowed = [x.number for x in line if x.stored == r.stored]
                if exact: allowed = allowed[:1]
                expect(got in allowed or not exact and got % ENTRIES in (0, ENTRIES - 1), "%s: %.20s/%d at time %d" % (what, topic, queue, r.stored), got, allowed)
                n += 1
    return n


def found_by_key(address, all_records, every=211):
    """Looks for some records by their unique key and by the first of their keys. Returns the number of tries, and those that found nothing."""
    tries, missing = 0, []
    with contextlib.closing(mq.Conn(address, 30)) as c:
        for r in all_records[::every]:
            for name in (b"UNIQ_KEY", b"KEYS"):
                keys = records.property(r, name)
                if not keys or keys == load.SAME_KEY: continue
                h, body = mq.by_key(c, r.topic, keys.split(" ")[0], 0, r.stored + 1000, 200)
                tries += 1
                if h["code"] != harness.SUCCESS or r.raw not in body:
                    missing.append("%s of %.20s/%d %d at %d, code %d, %d bytes" % (keys, r.topic, r.queue, r.number, r.position, h["code"], len(body)))
    return tries, missing


def readable(c, ledger, limit=20):
    """Waits until everything acknowledged may be pulled: both brokers make the queues' entries behind the answer."""
    for at, number in ledger.last().items():
        brokers.wait_until(lambda: mq.max_offset(c, *at) > number, "what was acknowledged in %.20s/%d may be pulled" % at, limit)


def sends_go_on(address, ledger, queues, seed):
    """The next message of every queue gets the old max."""
    with contextlib.closing(mq.Conn(address, 30)) as c:
        s = load.Sender(address, ledger, seed)
        readable(c, ledger)
        for topic, queue in queues:
            old = mq.max_offset(c, topic, queue)
            number, _ = s.one(topic, queue, s.body(), {"TAGS": "TagA"})
            expect(number == old, "the next message of %.20s/%d gets its old max" % (topic, queue), number, old)
        s.close()
