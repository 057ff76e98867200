"""H04: helper files are missing, empty, odd or in the way."""
import contextlib, os, shutil, struct
import mq, stores
from harness import *
from stores import *


def repaired(bench, state, change, *words, low=None):
    store, ledger, made = fresh(bench, state)
    change(store, ledger, made)
    b = opened(bench, store).start()
    for word in words:
        lines = b.lines(word)
        expect(1 <= len(lines) <= QUEUES + 1, "the log says %r in a line per repair" % word, len(lines), b.log()[:2000])
    expect(len(b.log().splitlines()) < 60, "the log is short", len(b.log().splitlines()))
    audit(b, ledger, low=low)
    b.kill().start()
    audit(b, ledger, low=low)
    b.stop()


def each(number, expected, *words, states=STATES):
    def add(change):
        for state in states:
            case("H04 %s %s" % (number, state), "%s; store %s" % (expected, STATES[state]))(
                lambda bench, state=state: repaired(bench, state, change, *(words if not callable(words) else words(state))))
        return change
    return add


@each("1", "last file of queue 2 deleted: it is built again")
def last_queue_file(store, *_): os.remove(queue_files(store, 2)[-1])


@each("2", "first file of queue 2 deleted: it is built again")
def first_queue_file(store, *_): os.remove(queue_files(store, 2)[0])


@each("2b", "middle file of queue 2 deleted: it is built again")
def middle_queue_file(store, *_): os.remove(queue_files(store, 2)[1])


@each("3", "folder consumequeue deleted: all is built again")
def no_queues(store, *_): shutil.rmtree(os.path.join(store, "consumequeue"))


@each("3b", "folder of one queue deleted: it is built again")
def no_queue(store, *_): shutil.rmtree(os.path.join(store, "consumequeue", TOPIC, "1"))


@each("4", "folder index deleted: starts")
def no_index(store, *_): shutil.rmtree(os.path.join(store, "index"), ignore_errors=True)


@each("5", "a trailing queue file of zeros: starts, nothing is lost")
def zero_queue_file(store, *_):
    last = int(os.path.basename(queue_files(store, 1)[-1]))
    with open(os.path.join(store, "consumequeue", TOPIC, "1", "%020d" % (last + QUEUE_FILE)), "wb") as f: f.write(bytes(QUEUE_FILE))


def behind(store, n=1):
    """The name of a segment behind the last one."""
    last = max(int(f) for f in os.listdir(os.path.join(store, "commitlog")))
    return segment(store, last // SEGMENT + n)


def trim(store):
    """Takes segments made ahead away."""
    for n in range(5, 9):
        with contextlib.suppress(FileNotFoundError): os.remove(segment(store, n))


@each("6", "two trailing segments of length 0: starts")
def two_empty_segments(store, *_):
    trim(store)
    for n in (1, 1): open(behind(store), "wb").close()


@each("7", "a trailing segment of length 0: starts")
def empty_segment(store, *_):
    trim(store)
    open(behind(store), "wb").close()


@each("8", "a trailing segment of half the size, zeros: starts")
def half_segment(store, *_):
    trim(store)
    with open(behind(store), "wb") as f: f.write(bytes(SEGMENT // 2))


@each("8b", "a trailing queue file of half the size, zeros: starts")
def half_queue_file(store, *_):
    last = int(os.path.basename(queue_files(store, 1)[-1]))
    with open(os.path.join(store, "consumequeue", TOPIC, "1", "%020d" % (last + QUEUE_FILE)), "wb") as f: f.write(bytes(QUEUE_FILE // 2))


@each("8c", "the last queue file cut in the middle of an entry: its entries are built again")
def cut_queue_file(store, *_):
    with open(queue_files(store, 3)[-1], "r+b") as f: f.truncate(1010)


def write_entries(store, queue, entries):
    """Puts entries behind the last one of a queue."""
    count = COUNT // QUEUES
    for i, (at, size) in enumerate(entries):
        number = count + i
        name = os.path.join(store, "consumequeue", TOPIC, str(queue), "%020d" % (number // UNITS * QUEUE_FILE))
        if not os.path.exists(name):
            with open(name, "wb") as f: f.write(bytes(QUEUE_FILE))
        with open(name, "r+b") as f:
            f.seek(number % UNITS * 20)
            f.write(struct.pack(">qiq", at, size, 0))


@each("9", "20 queue entries beyond the end of the log: dropped")
def beyond(store, _, made):
    end = sum(made.pos[-1])
    write_entries(store, 0, [(end + i * 1700, 1700) for i in range(20)])


@each("9b", "a queue entry far beyond the log, and one of a negative place: dropped")
def far_beyond(store, _, made):
    write_entries(store, 0, [(1 << 60, 1700)])
    write_entries(store, 1, [(-5, 1700)])


@each("10", "the last record cut in half under its entry: cut, the entry dropped", states=["killed", "clean"])
def half_record(store, ledger, made):
    at, size = made.pos[-1]
    with open(segment(store, at // SEGMENT), "r+b") as f:
        f.seek(at % SEGMENT + size // 2)
        f.write(bytes(size))
    ledger.acked.pop((TOPIC, (COUNT - 1) % QUEUES, (COUNT - 1) // QUEUES))


@each("10b", "one entry has half the size of its record: mended", states=["killed", "clean"])
def half_entry(store, _, made):
    with open(queue_files(store, 1)[1], "r+b") as f:
        f.seek(20 * 7 + 8)
        f.write(struct.pack(">i", made.pos[0][1] // 2))


@each("11", "stray files in each folder: left alone")
def stray(store, *_):
    folders = ["", "commitlog", "config", "consumequeue", "consumequeue/T", "consumequeue/T/0", "ringmq", "index"]
    for folder in folders:
        path = os.path.join(store, folder)
        os.makedirs(path, exist_ok=True)
        for name in (".DS_Store", "x.tmp", "00000000000000000abc"):
            with open(os.path.join(path, name), "w") as f: f.write("stray")
    os.makedirs(os.path.join(store, "consumequeue", "T", "notanumber"), exist_ok=True)
    os.makedirs(os.path.join(store, "commitlog", "lost+found"), exist_ok=True)


@case("H04 11b", "stray files in each folder: they are all there afterwards")
def stray_stay(bench):
    store, ledger, made = fresh(bench, "killed")
    stray(store)
    def all_stray(): return sorted(os.path.join(d, f) for d, _, files in os.walk(store) for f in files if f in (".DS_Store", "x.tmp", "00000000000000000abc"))
    before = all_stray()
    b = opened(bench, store).start()
    audit(b, ledger)
    b.stop()
    expect(all_stray() == before, "stray files stay", set(before) - set(all_stray()))


@each("12", "a lock file left over: starts")
def lock_left(store, *_):
    with open(os.path.join(store, "lock"), "w") as f: f.write("lock")


@case("H04 13", "a second broker on the same folder is refused with the folder named; the first goes on")
def second(bench):
    store, ledger, _ = fresh(bench, "own")
    b = opened(bench, store).start()
    for _ in range(3):
        opened(bench, store).refuses(store)
    audit(b, ledger)
    b.stop()
    b.start()
    audit(b, ledger)


@case("H04 14", "mappedFileSizeConsumeQueue=1003 is rounded with a clear text")
def odd_queue_size(bench):
    b = bench.broker(mappedFileSizeConsumeQueue=1003).start()
    expect(b.lines("mappedFileSizeConsumeQueue", "1003"), "the log names key and value", b.log())
    ledger = Ledger()
    with contextlib.closing(b.connect()) as c:
        for i in range(600): ledger.send(c, TOPIC, i % QUEUES, b"m%d" % i)
    audit(b, ledger)
    b.kill().start()
    audit(b, ledger)


@case("H04 14b", "a store opened with another file size is refused, or right; never harmed")
def other_sizes(bench):
    for wrong in ({"mappedFileSizeCommitLog": 2 * SEGMENT}, {"mappedFileSizeCommitLog": SEGMENT // 2}, {"mappedFileSizeConsumeQueue": 2 * QUEUE_FILE},
                  {"mappedFileSizeConsumeQueue": 2000}):
        for state in STATES:
            store, ledger, _ = fresh(bench, state)
            (key, value), = wrong.items()
            if key == "mappedFileSizeCommitLog":
                bench.broker(store, **dict(mappedFileSizeConsumeQueue=QUEUE_FILE, **wrong)).refuses(key)
            else:
                b = bench.broker(store, **wrong)
                try:
                    b.start()
                except Wrong as e:
                    expect(key in str(e), "the refusal names " + key, str(e))
                else:
                    audit(b, ledger)
                    b.stop()
            b = opened(bench, store).start()
            audit(b, ledger)
            b.stop()


@case("H04 15", "the log's end with all messages of a queue is gone: min <= max there, and it is usable")
def end_gone(bench):
    for abort in (True, False):
        store = bench.store()
        made = build(store, lambda i: 3 if i >= 2000 else i % 3, abort=abort)
        first = made.pos[2000][0]
        cut = first // SEGMENT
        for n in range(cut + 1, 5): os.remove(segment(store, n))
        with open(segment(store, cut), "r+b") as f:
            f.seek(first % SEGMENT)
            f.write(bytes(SEGMENT - first % SEGMENT))
        for at in [at for at in made.ledger.acked if at[1] == 3]: del made.ledger.acked[at]
        b = opened(bench, store).start()
        audit(b, made.ledger)
        b.kill().start()
        audit(b, made.ledger)


@case("H04 15b", "the log's beginning with all messages of a queue is gone: min <= max there, and it is usable")
def beginning_gone(bench):
    for state in ("killed", "clean", "own"):
        store = bench.store()
        made = build(store, lambda i: 3 if i < 500 else i % 3, abort=state == "killed")
        if state == "own": opened(bench, store).start().stop()
        os.remove(segment(store, 0))
        gone = {body(i) for i, (at, _) in enumerate(made.pos) if at < SEGMENT}
        made.ledger.acked = {at: text for at, text in made.ledger.acked.items() if text not in gone}
        b = opened(bench, store).start()
        audit(b, made.ledger)
        with contextlib.closing(b.connect()) as c:
            number = mq.max_offset(c, TOPIC, 3)
            expect(number >= 500, "numbers of the queue are not given a second time", number)
        b.kill().start()
        audit(b, made.ledger)


@case("H04 16", "the commit log is missing while queues are full: starts empty, numbers are told, nothing is served twice")
def log_gone(bench):
    for state in STATES:
        store, ledger, _ = fresh(bench, state)
        shutil.rmtree(os.path.join(store, "commitlog"))
        b = opened(bench, store).start()
        with contextlib.closing(b.connect()) as c:
            ledger.acked.clear()
            for q in range(QUEUES):
                expect(mq.min_offset(c, TOPIC, q) <= mq.max_offset(c, TOPIC, q), "min <= max")
            mine = Ledger()
            for i in range(40): mine.send(c, TOPIC, i % QUEUES, b"new %d" % i)
        audit(b, mine)
        b.kill().start()
        audit(b, mine)


def pull_past(c, queue, most=4000):
    """Pulls a queue with damage in it as a consumer does, from min to max: bodies that came, and how many pulls it took."""
    at, high, found, pulls = mq.min_offset(c, TOPIC, queue), mq.max_offset(c, TOPIC, queue), {}, 0
    while at < high:
        pulls += 1
        expect(pulls < most, "a consumer gets past the damage", at, high)
        h, stored = mq.pull(c, TOPIC, queue, at)
        expect(h["code"] in (0, 19, 20, 21), "a pull is answered", h)
        for q, number, _, t, text in records_of(stored if h["code"] == 0 else b"", checked=False):
            expect(q == queue and number >= at, "it serves what was asked for", t, q, number)
            found[number] = text
        then = int(h["extFields"]["nextBeginOffset"])
        expect(then > at, "the next offset moves forward", h, at)
        at = then
    return found, pulls


def served_past(b, ledger, lost):
    """Every acknowledged message that is not lost is served."""
    with contextlib.closing(b.connect()) as c:
        for q in range(QUEUES):
            found, pulls = pull_past(c, q)
            for (t, queue, number), text in ledger.acked.items():
                if queue == q and text not in lost:
                    expect(found.get(number) == text, "what is whole is served", q, number, text[:8])
            for number, text in found.items():
                was = ledger.acked.get((TOPIC, q, number))
                # A pull looks at size, magic and place of a record; the checksum of the body is for the client to see.
                expect(text in ledger.sent or was in lost and len(text) == len(was), "nothing else is served", number, text[:20])
            old = mq.max_offset(c, TOPIC, q)
            expect(ledger.send(c, TOPIC, q, b"after %d %d" % (q, old)) == old, "the next message gets the old max")
    sane(b)


def in_segment(made, n): return {body(i) for i, (at, _) in enumerate(made.pos) if n * SEGMENT <= at < (n + 1) * SEGMENT}


for state in STATES:
    @case("H04 17 " + state, "a segment in the middle is missing: said aloud, what stands behind it is served, a consumer gets past the hole; store " + STATES[state])
    def middle_missing(bench, state=state):
        store, ledger, made = fresh(bench, state)
        os.remove(segment(store, 2))
        b = opened(bench, store).start()
        expect(b.lines("level=ERROR", str(2 * SEGMENT)), "the hole is told", b.log()[:1500])
        served_past(b, ledger, in_segment(made, 2))
        b.kill().start()
        served_past(b, ledger, in_segment(made, 2))
        b.stop()

    @case("H04 17b " + state, "a segment in the middle is short: refused with its name, or said aloud; what is whole is kept; store " + STATES[state])
    def middle_short(bench, state=state):
        store, ledger, made = fresh(bench, state)
        path = segment(store, 2)
        os.truncate(path, SEGMENT // 2)
        later = [open(segment(store, n), "rb").read(600000) for n in (3, 4)]
        b = opened(bench, store)
        b.refuses(os.path.basename(path))
        for n, was in zip((3, 4), later):
            with open(segment(store, n), "rb") as f: expect(f.read(600000) == was, "segment %d is unchanged" % n)

    @case("H04 18 " + state, "a page of zeros and a flipped length in the middle of the log: what is whole is served, a consumer gets past; store " + STATES[state])
    def middle_damaged(bench, state=state):
        store, ledger, made = fresh(bench, state)
        lost = set()
        def over(low, high): lost.update(body(i) for i, (at, size) in enumerate(made.pos) if at < high and at + size > low)
        with open(segment(store, 2), "r+b") as f:
            f.seek(40960), f.write(bytes(4096))
            over(2 * SEGMENT + 40960, 2 * SEGMENT + 45056)
            at, size = next(p for p in made.pos if p[0] > 2 * SEGMENT + 300000)
            f.seek(at % SEGMENT), f.write(struct.pack(">i", 0x7fffffff))
            over(at, at + size)
        b = opened(bench, store).start()
        served_past(b, ledger, lost)
        b.kill().start()
        served_past(b, ledger, lost)
        b.stop()
