"""H02: the last record is torn or stale, in every shape, with every state of its queue entry."""
import contextlib, os, shutil, struct
import mq
from harness import *

PROPERTIES = {"TAGS": "a", "KEYS": "key"}
COUNT, BODY = 100, 300
LAST = COUNT - 1
NEXT = COUNT // QUEUES - 1   # the number that the last record had in its queue


def made(store, abort):
    s = mq.Store(store, SEGMENT, QUEUE_UNITS)
    ledger = Ledger()
    for i in range(COUNT):
        body = (b"m%03d-" % i).ljust(BODY, b"x")
        _, _, number = s.add(TOPIC, i % QUEUES, body, 1700000000000 + i, PROPERTIES)
        if i < LAST: ledger.of([(TOPIC, i % QUEUES, number, body)])
    s.write(abort=abort)
    return s, ledger


def change(log, shape, at, size):
    """Applies one shape to the record at [at, at+size) of log."""
    body_end = at + 88 + BODY
    topic_end = body_end + 1 + len(TOPIC)
    def zero(a, b): log[a:b] = bytes(b - a)
    if shape == "a": zero(at + size - 1, at + size)
    if shape == "b": zero(at + size - 150, at + size)
    if shape == "c": zero(at + 4, at + size)
    if shape == "d": zero(at + 8, at + size)
    if shape == "e": zero(body_end, at + size)
    if shape == "f": zero(topic_end + 2, at + size)
    if shape == "g": log[at + 100] ^= 1
    if shape == "h": struct.pack_into(">i", log, at, len(log) - at + 1)
    if shape == "i": struct.pack_into(">q", log, at + 28, at + 300)


SHAPES = {"a": "last byte zero", "b": "last 150 bytes zero", "c": "only the size there", "d": "only size and magic there",
          "e": "body right, topic and properties zero", "f": "property bytes zero", "g": "one bit of the body changed",
          "h": "size beyond the file", "i": "own offset wrong by 300"}
ENTRIES = {1: "its entry there", 2: "its entry absent", 3: "its entry and one of no record"}


def torn(bench, shape, entry, abort):
    store = bench.store()
    s, ledger = made(store, abort)
    at, size = s.pos[LAST]
    path = os.path.join(store, "commitlog", "%020d" % 0)
    with open(path, "rb") as f: log = bytearray(f.read())
    before = bytes(log[:at])
    change(log, shape, at, size)
    with open(path, "wb") as f: f.write(log)
    queue = os.path.join(store, "consumequeue", TOPIC, str(LAST % QUEUES), "%020d" % 0)
    with open(queue, "r+b") as f:
        if entry == 2: f.seek(20 * NEXT), f.write(bytes(20))
        if entry == 3: f.seek(20 * (NEXT + 1)), f.write(struct.pack(">qiq", at + size, size, 0))
    b = bench.broker(store).start()
    with contextlib.closing(b.connect()) as c:
        got = sum(mq.max_offset(c, TOPIC, q) for q in range(QUEUES))
        expect(got == LAST, "the max offsets count 99 records", got)
        with open(path, "rb") as f: expect(f.read(at) == before, "records 1 to 99 are unchanged")
        kept = os.listdir(os.path.join(store, "ringmq", "cut"))
        expect(kept == ["%020d" % at], "what was cut is kept aside", kept)
        number = ledger.send(c, TOPIC, LAST % QUEUES, b"instead")
        expect(number == NEXT, "the next send gets the number of the torn record", number)
    audit(b, ledger)
    b.kill().start()
    audit(b, ledger)
    b.stop()


for shape in SHAPES:
    for entry in ENTRIES:
        for abort in (True, False):
            case("H02 %s%d%s" % (shape, entry, "" if abort else " clean"),
                 "%s, %s%s: 99 records, the torn one is cut, its number given again" % (SHAPES[shape], ENTRIES[entry], "" if abort else ", no abort file"))(
                lambda bench, shape=shape, entry=entry, abort=abort: torn(bench, shape, entry, abort))
