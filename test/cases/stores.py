"""A store of five segments with 3,000 keyed messages, in four states, and what the cases do to it."""
import contextlib, functools, os, shutil, struct, tempfile, atexit
import mq
from harness import *

COUNT, UNITS, QUEUE_FILE = 3000, 250, 5000
BEGAN = 1700000000000
STATES = {"killed": "by another broker, abort file there", "clean": "by another broker, stopped cleanly",
          "own": "ours, stopped cleanly", "own-killed": "ours, killed"}


class Made:
    def __init__(self, root, store, ledger):
        self.root, self.ledger, self.pos, self.bytes = root, ledger, store.pos, store.buf
        self.queues = store.cq

    def copy(self, to):
        shutil.copytree(self.root, to, dirs_exist_ok=True)
        l = Ledger()
        l.sent, l.acked = set(self.ledger.sent), dict(self.ledger.acked)
        return l


def body(i, size=1600): return (b"m%04d-" % i).ljust(size, b"%d" % (i % 10))


def build(root, queue_of=lambda i: i % QUEUES, count=COUNT, abort=True):
    s, l = mq.Store(root, SEGMENT, UNITS), Ledger()
    for i in range(count):
        _, _, number = s.add(TOPIC, queue_of(i), body(i), BEGAN + 10 * i, {"KEYS": "k%d" % i, "TAGS": "t%d" % (i % 3)})
        l.of([(TOPIC, queue_of(i), number, body(i))])
    s.write(abort=abort)
    return Made(root, s, l)


@functools.cache
def base(state):
    root = tempfile.mkdtemp(prefix="ringmq-base-")
    atexit.register(shutil.rmtree, root, True)
    made = build(root, abort=state == "killed")
    if state.startswith("own"):
        b = broker_for(root).start()
        b.kill() if state == "own-killed" else b.stop()
    return made


def broker_for(store, **settings): return Broker(store, mappedFileSizeConsumeQueue=QUEUE_FILE, **settings)


def fresh(bench, state):
    """A copy of the base store in a state: its folder, its ledger, what it was made of."""
    made, store = base(state), bench.store()
    return store, made.copy(store), made


def opened(bench, store, **settings):
    b = bench.broker(store, mappedFileSizeConsumeQueue=QUEUE_FILE, **settings)
    return b


def queue_files(store, queue, topic=TOPIC):
    folder = os.path.join(store, "consumequeue", topic, str(queue))
    return [os.path.join(folder, f) for f in sorted(os.listdir(folder))]


def segment(store, n): return os.path.join(store, "commitlog", "%020d" % (n * SEGMENT))


def clear_entries(store, low, high=1 << 62):
    """Sets every queue entry to zero whose record is in [low, high)."""
    for q in range(QUEUES):
        for path in queue_files(store, q):
            with open(path, "rb") as f: b = bytearray(f.read())
            for at in range(0, len(b) - 19, 20):
                place, size = struct.unpack_from(">qi", b, at)
                if size > 0 and low <= place < high: b[at:at + 20] = bytes(20)
            with open(path, "wb") as f: f.write(b)
