"""H03: queues have lost entries, and the checkpoint, the abort file or our own mark says something else."""
import contextlib, hashlib, os, random, struct, time
import mq, stores
from harness import *
from stores import *

LAST_MS = BEGAN + 10 * (COUNT - 1)
YEAR_MS = 365 * 24 * 3600 * 1000


def times(*t): return struct.pack(">qqq", *t) + bytes(4096 - 24)


CHECKPOINTS = {
    "zero": times(0, 0, 0), "absent": None, "empty": b"", "10 bytes": bytes(range(10)),
    "random": random.Random(3).randbytes(4096), "last record": times(LAST_MS, LAST_MS, LAST_MS),
    "queues too far": times(BEGAN + 10 * 1200, LAST_MS, 0), "future": times(*[LAST_MS + YEAR_MS * 3] * 3),
    "negative": times(-1, -2, -(1 << 63)), "older than the log": times(BEGAN - YEAR_MS, BEGAN - YEAR_MS, 0),
}


def put(path, content):
    if content is None:
        with contextlib.suppress(FileNotFoundError): os.remove(path)
        return
    with open(path, "wb") as f: f.write(content)


def lost_entries(bench, state, name, content):
    store, ledger, _ = fresh(bench, state)
    clear_entries(store, 2 * SEGMENT)
    put(os.path.join(store, *name), content)
    b = opened(bench, store).start()
    audit(b, ledger)
    b.kill().start()
    audit(b, ledger)


for state in STATES:
    for name, content in CHECKPOINTS.items():
        case("H03 checkpoint %s, %s" % (name, state), "every record is in its queue after the start; store %s" % STATES[state])(
            lambda bench, state=state, content=content: lost_entries(bench, state, ("checkpoint",), content))

for name, content in {"absent": None, "empty": b"", "half": "half", "random": random.Random(4).randbytes(300), "of another store": "other"}.items():
    @case("H03 mark " + name, "every record is in its queue after the start: a wrong mark of ours costs time only")
    def mark(bench, content=content):
        if content == "half":
            with open(os.path.join(base("own").root, "ringmq", "mark"), "rb") as f: content = f.read()
            content = content[:len(content) // 2]
        if content == "other":
            b = bench.broker().start()
            with contextlib.closing(b.connect()) as c:
                for i in range(50): mq.send(c, TOPIC, i % QUEUES, b"other %d" % i)
            b.stop()
            with open(os.path.join(b.store, "ringmq", "mark"), "rb") as f: content = f.read()
        lost_entries(bench, "own", ("ringmq", "mark"), content)


@case("H03 x", "entries of only the last 20 records of segment 4 are lost, segment 5 has one record: all are there again")
def few(bench):
    for state in STATES:
        made, store = base(state), bench.store()
        ledger = made.copy(store)
        fifth = next(i for i, (at, _) in enumerate(made.pos) if at >= 4 * SEGMENT)
        end = sum(made.pos[fifth])
        with open(segment(store, 4), "r+b") as f: # one record stays
            f.seek(end - 4 * SEGMENT)
            f.write(bytes(5 * SEGMENT - end))
        clear_entries(store, end)
        clear_entries(store, made.pos[fifth - 20][0], made.pos[fifth][0])
        kept = {body(i) for i in range(fifth + 1)}
        ledger.acked = {at: text for at, text in ledger.acked.items() if text in kept}
        b = opened(bench, store).start()
        audit(b, ledger)
        b.stop()


def fingerprint(store):
    """Everything of a store that a broker may not change before the abort file is there."""
    h = hashlib.sha256()
    for folder, names, files in sorted(os.walk(store)):
        names.sort()
        if os.path.basename(folder) == "ringmq": continue
        for f in sorted(files):
            if f in ("lock", "abort", "abort.tmp"): continue # the last one becomes the abort file
            h.update(f.encode())
            with open(os.path.join(folder, f), "rb") as fd: h.update(fd.read())
    return h.hexdigest()


@case("H03 y", "killed while starting, again and again: the abort file is there before anything is changed, and stays until a clean stop")
def killed_starting(bench):
    for state in STATES:
        store, ledger, _ = fresh(bench, state)
        clear_entries(store, 2 * SEGMENT)
        before, abort = fingerprint(store), os.path.join(store, "abort")
        for ms in [5, 10, 15, 20, 25, 30, 40, 50, 100, 200]:
            had = os.path.exists(abort)
            b = opened(bench, store).launch()
            time.sleep(ms / 1000)
            b.kill()
            expect(os.path.exists(abort) or not had, "the abort file stays")
            expect(os.path.exists(abort) or fingerprint(store) == before, "nothing is changed without an abort file", ms)
        b = opened(bench, store).start()
        expect(b.lines("the last stop was not clean"), "this start is an abnormal one")
        audit(b, ledger)
        b.stop()
        expect(not os.path.exists(abort), "a clean stop takes the abort file away")


@case("H03 z", "a clean stop and start: the log says clean, and nothing but the end is read")
def clean(bench):
    for state in STATES:
        store, ledger, made = fresh(bench, state)
        opened(bench, store).start().stop()
        b = opened(bench, store).start()
        said = b.lines("the last stop was clean")
        expect(said, "the log says that the last stop was clean", b.log()[:600])
        where = int(said[0].rsplit('"walk from"=', 1)[1].split()[0])
        expect(where >= made.pos[-1][0], "the walk begins at the end", where, made.pos[-1])
        audit(b, ledger)
        b.stop()


@case("H03 key", "a clean stop, then a file of the queues changed under it: the loss is found although the mark says complete")
def mark_too_far(bench):
    store, ledger, _ = fresh(bench, "own")
    for q in range(QUEUES):
        os.remove(queue_files(store, q)[-1])
    b = opened(bench, store).start()
    audit(b, ledger)


@case("H03 again", "five kills under load on the same store, entries lost each time: all acknowledged messages are there")
def again(bench):
    store, ledger, _ = fresh(bench, "own-killed")
    b = opened(bench, store)
    for n in range(5):
        b.start()
        audit(b, ledger)
        with contextlib.closing(b.connect()) as c:
            for i in range(100): ledger.send(c, TOPIC, i % QUEUES, b"more-%d-%d" % (n, i))
        b.kill()
        clear_entries(store, (n + 1) * SEGMENT)
