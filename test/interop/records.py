"""Stored messages, read from the bytes of a log or of a pull's answer: an own reader, which shares no code with either broker."""
import collections, mmap, os, re, struct, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cases"))
import harness, mq
from harness import expect

Record = collections.namedtuple("Record", "raw topic queue number position flags stored body properties")
# number: of the entry in the queue; position: of the first byte in the log; stored: ms

Log = collections.namedtuple("Log", "records first end rooms")
# records: in the order of the log; first: position of its first byte; end: of the first free one; rooms: sizes of the end records


def parse(raw):
    """The record that raw is, as a whole."""
    magic, _, queue, _, number, position, flags = struct.unpack_from(">iiiiqqi", raw, 4)
    expect(magic in (mq.MAGIC, harness.MAGIC_V2), "a record has a magic number", hex(magic & 0xffffffff))
    born = 12 if flags & harness.BORN_V6 else 0
    (stored,) = struct.unpack_from(">q", raw, 56 + born)
    at = 84 + born + (12 if flags & harness.STORED_V6 else 0)
    (size,) = struct.unpack_from(">i", raw, at)
    body = raw[at + 4:at + 4 + size]
    at += 4 + size
    if magic == mq.MAGIC: topic_at, size = at + 1, raw[at]
    else: topic_at, size = at + 2, struct.unpack_from(">h", raw, at)[0]
    at = topic_at + size
    topic = raw[topic_at:at].decode()
    return Record(raw, topic, queue, number, position, flags, stored, body, raw[at + 2:])


def split(stored):
    """The records of a pull's answer, each whole."""
    at = 0
    while at < len(stored):
        (size,) = struct.unpack_from(">i", stored, at)
        expect(91 <= size <= len(stored) - at, "a pull answers whole records", size, len(stored) - at)
        r = parse(bytes(stored[at:at + size]))
        why = harness.check_record(r.raw, r.position)
        expect(why is None, "a served record is whole", why)
        yield r
        at += size


def property(r, name):
    """The text of a property, None without."""
    for item in r.properties.split(b"\x02"):
        key, _, value = item.partition(b"\x01")
        if key == name and value: return value.decode()
    return None


def tag_code(r):
    tags = property(r, b"TAGS")
    if not tags: return 0
    units = tags.encode("utf-16-be") # the hash of a Java string is over UTF-16 units
    h = 0
    for i in range(0, len(units), 2): h = (31 * h + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return h - (1 << 32) if h & 0x80000000 else h


def read_log(store, segment=harness.SEGMENT):
    """Walks the log up to the first place where no whole record stands."""
    folder, records, rooms, end = os.path.join(store, "commitlog"), [], [], None
    names = [n for n in sorted(os.listdir(folder)) if re.fullmatch(r"\d{20}", n)]
    expect(names, "the log has segments", os.listdir(folder))
    for name in names:
        base, at = int(name), 0
        expect(end in (None, base), "segments follow one another", end, base)
        with open(os.path.join(folder, name), "rb") as f: b = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        expect(len(b) == segment, "segment %s has %d bytes" % (name, segment), len(b))
        while at + 8 <= segment:
            size, magic = struct.unpack_from(">ii", b, at)
            if magic == mq.BLANK and size == segment - at:
                rooms.append(size)
                at = segment
            elif magic in (mq.MAGIC, harness.MAGIC_V2) and 91 <= size <= segment - at and harness.check_record(b[at:at + size], base + at) is None:
                records.append(parse(b[at:at + size]))
                at += size
            else: break
        end = base + at
        if at < segment: break
    return Log(records, int(names[0]), end, rooms)


def without_torn_end(log):
    """The log without a last record whose properties end with zeros: its writer was killed while it copied them. Only the body has a checksum."""
    while log.records and log.records[-1].properties[-1:] == b"\0":
        log = log._replace(records=log.records[:-1], end=log.records[-1].position)
    return log


def nothing_behind(store, log, segment=harness.SEGMENT):
    """Every byte behind the end of the log is zero."""
    folder = os.path.join(store, "commitlog")
    for name in sorted(os.listdir(folder)):
        if re.fullmatch(r"\d{20}", name) and int(name) + segment > log.end:
            with open(os.path.join(folder, name), "rb") as f:
                f.seek(max(0, log.end - int(name)))
                while part := f.read(1 << 20): expect(part.count(0) == len(part), "the bytes behind the end %d are zero, in %s" % (log.end, name))


def by_queue(records):
    """{(topic, queue): [record]}; in each queue the numbers rise by exactly one."""
    queues = {}
    for r in records:
        line = queues.setdefault((r.topic, r.queue), [])
        expect(not line or line[-1].number + 1 == r.number, "numbers of %s/%d rise by one in the log" % (r.topic, r.queue),
               line and line[-1].number, r.number)
        line.append(r)
    return queues
