"""What every case needs: a broker as a child process, a ledger of what was sent, Audit A, and results that say what was expected."""
import contextlib, os, re, shutil, signal, socket, struct, subprocess, sys, tempfile, threading, time, urllib.request, zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import mq

SEGMENT = 1 << 20        # mappedFileSizeCommitLog of all cases
QUEUE_UNITS = 1000       # entries of a queue file
TOPIC, QUEUES = "T", 4
MAGIC_V2 = mq.MAGIC + 4 # the topic's length has two bytes
BORN_V6, STORED_V6 = 0x10, 0x20
SUCCESS, SYSTEM_ERROR, ILLEGAL, TOPIC_NOT_EXIST, PULL_NOT_FOUND, INVALID = 0, 1, 13, 17, 19, 29


class Wrong(AssertionError):
    """The broker did something else than the case expects."""


def expect(true, what, *got):
    if not true:
        raise Wrong(what + ("" if not got else ": got " + ", ".join(short(g) for g in got)))


def short(x, most=300):
    text = x if isinstance(x, str) else repr(x)
    return text if len(text) <= most else text[:most] + "... (%d letters)" % len(text)


# ---------- the broker

def free_ports():
    """A port whose neighbours -2 (fast port) and +1 (replication) are free as well, one for the name server, and one for metrics."""
    while True:
        with contextlib.ExitStack() as held:
            def bind(port):
                s = held.enter_context(socket.socket())
                s.bind(("127.0.0.1", port))
                return s.getsockname()[1]
            try:
                port = bind(0)
                if not 10000 < port < 32000: # above are the ports of outgoing connections
                    port = 12000 + (port * 7) % 20000
                    bind(port)
                bind(port - 2), bind(port + 1)
                return port, bind(port + 3), bind(port + 4)
            except OSError:
                continue


class Broker:
    """One process on a store. Settings are those of the broker file, dots as double underscores: ringmq__uring="off"."""
    binary = os.path.join(HERE, "..", "..", "bin", "ringmq")

    def __init__(self, store, wrap=(), **settings):
        self.store, self.wrap, self.process = store, list(wrap), None
        self.settings = dict(mappedFileSizeCommitLog=SEGMENT, mappedFileSizeConsumeQueue=QUEUE_UNITS * 20, flushDiskType="SYNC_FLUSH",
                             brokerName="cases", diskSpaceWarningLevelRatio=99, defaultTopicQueueNums=QUEUES)
        self.settings.update(settings)
        self.logs = []

    def launch(self):
        """Starts the process and does not wait."""
        self.port, self.names, self.http = free_ports()
        settings = dict(self.settings, storePathRootDir=self.store, listenPort=self.port, ringmq__namesrvListenPort=self.names,
                        ringmq__httpAddress="127.0.0.1:%d" % self.http)
        command = self.wrap + [self.binary, "server"]
        for name, value in settings.items():
            command += ["--set", "%s=%s" % (name.replace("__", "."), value)]
        self.logs.append(tempfile.NamedTemporaryFile(prefix="broker-", suffix=".log"))
        self.began = time.monotonic()
        self.process = subprocess.Popen(command, stdout=self.logs[-1], stderr=subprocess.STDOUT, start_new_session=True)
        return self

    def start(self, limit=60):
        self.launch()
        while time.monotonic() - self.began < limit:
            if "boot success. serializeType=JSON and name server" in self.log():
                self.took = time.monotonic() - self.began
                return self
            code = self.process.poll()
            if code is not None:
                self.process = None
                raise Wrong("the broker starts: exit code %d, it said: %s" % (code, self.log()[-1500:]))
            time.sleep(0.005)
        raise Wrong("the broker starts within %d s: it said: %s" % (limit, self.log()[-1500:]))

    def refuses(self, *words, limit=20):
        """Starts and expects that it ends with an error which has all the words."""
        self.launch()
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise Wrong("the start is refused")
        self.process = None
        expect(code != 0, "the exit code is not 0", code)
        for word in words:
            expect(word in self.log(), "the refusal names %r" % word, self.log()[-800:])

    def log(self, which=-1):
        with open(self.logs[which].name, errors="replace") as f:
            return f.read()

    def lines(self, *words):
        return [line for line in self.log().splitlines() if all(w in line for w in words)]

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None
        return self

    def stop(self, limit=30):
        self.process.terminate()
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise Wrong("the broker stops within %d s of SIGTERM" % limit)
        self.process = None
        expect(code == 0, "a stop ends with exit code 0", code, self.log()[-800:])
        return self

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def connect(self, timeout=20):
        c = mq.Conn("127.0.0.1:%d" % self.port, timeout)
        c.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return c

    # what it uses of the machine
    def pid(self): return self.process.pid
    def files(self): return len(os.listdir("/proc/%d/fd" % self.pid()))
    def cpu(self):
        with open("/proc/%d/stat" % self.pid()) as f: fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    def resident(self):
        with open("/proc/%d/status" % self.pid()) as f:
            m = re.search(r"RssAnon:\s+(\d+)", f.read())
        return int(m.group(1)) << 10
    def held(self):
        """Resident memory without what is garbage, or free and only not given back yet: what a leak would show in."""
        for _ in range(3): text = self.get("/debug/pprof/heap?debug=1&gc=1") # pooled objects live for two collections
        idle, released = (int(re.search("# %s = ([0-9]+)" % name, text).group(1)) for name in ("HeapIdle", "HeapReleased"))
        return self.resident() - (idle - released)
    def get(self, path):
        with urllib.request.urlopen("http://127.0.0.1:%d%s" % (self.http, path), timeout=10) as r: return r.read().decode()
    def metric(self, name):
        for line in self.get("/metrics").splitlines():
            if line.startswith(name + " "): return float(line.split()[1])
        raise Wrong("there is a metric %s" % name)
    def goroutines(self):
        return int(re.search(r"total (\d+)", self.get("/debug/pprof/goroutine?debug=1")).group(1))


# ---------- the ledger and Audit A

class Ledger:
    """What was sent, and where what was acknowledged stands."""
    def __init__(self):
        self.sent, self.acked, self.extra, self.mu = set(), {}, 0, threading.Lock()

    def of(self, records):
        """records: (topic, queue, number, body) of a store made by hand."""
        for topic, queue, number, body in records:
            self.sent.add(body)
            self.acked[topic, queue, number] = body
        return self

    def send(self, c, topic, queue, body, properties=None):
        """Sends; it has to be taken. Returns its number."""
        self.sent.add(body)
        h, _ = mq.send(c, topic, queue, body, properties)
        expect(h["code"] == SUCCESS, "a good send is answered 0", h)
        number = int(h["extFields"]["queueOffset"])
        at = topic, queue, number
        with self.mu:
            expect(at not in self.acked, "number %d of queue %d is given once" % (number, queue))
            self.acked[at] = body
        return number

    def max(self, topic, queue):
        return max((n + 1 for t, q, n in self.acked if (t, q) == (topic, queue)), default=0)


def records_of(stored, checked=True):
    """Splits what a pull answers; yields (queue, number, place, topic, body). checked: the body has its checksum."""
    while stored:
        r = next(mq.walk(stored), None)
        expect(r is not None, "a pull answers whole records", stored[:40])
        body = r[8]
        crc = struct.unpack_from(">i", stored, 8)[0]
        expect(not checked or crc == (mq.crc(body) if body else 0), "a served body has its checksum", r[:7])
        yield r[3], r[4], r[5], r[7], body
        stored = stored[r[1]:]


def pull_all(c, topic, queue, low=None, high=None):
    """All bodies of a queue as {number: body}; numbers rise by one from min to max."""
    low = mq.min_offset(c, topic, queue) if low is None else low
    high = mq.max_offset(c, topic, queue) if high is None else high
    expect(low <= high, "min <= max in queue %d" % queue, low, high)
    found, at = {}, low
    while at < high:
        h, stored = mq.pull(c, topic, queue, at)
        expect(h["code"] == SUCCESS and stored, "a pull at %d of [%d, %d) of queue %d finds something" % (at, low, high, queue), h)
        for q, number, _, t, body in records_of(stored):
            expect((t, q, number) == (topic, queue, at), "queue numbers rise by exactly 1", (t, q, number), (topic, queue, at))
            found[at] = body
            at += 1
    return found


def check_record(r, at):
    """Says what is not whole in one record."""
    (magic,), (own,), (flags,) = (struct.unpack_from(f, r, place) for f, place in ((">i", 4), (">q", 28), (">i", 36)))
    body_at = 88 + (12 if flags & BORN_V6 else 0) + (12 if flags & STORED_V6 else 0)
    (body_len,) = struct.unpack_from(">i", r, body_at - 4)
    if own != at: return "says it is at %d" % own
    if not 0 <= body_len <= len(r) - body_at - 3: return "body of %d bytes" % body_len
    body = r[body_at:body_at + body_len]
    if (mq.crc(body) if body else 0) != struct.unpack_from(">i", r, 8)[0]: return "body checksum"
    topic_at = body_at + body_len
    topic_len = r[topic_at] if magic == mq.MAGIC else struct.unpack_from(">H", r, topic_at)[0]
    properties_at = topic_at + (1 if magic == mq.MAGIC else 2) + topic_len
    if not topic_len or properties_at + 2 > len(r): return "topic length %d" % topic_len
    if properties_at + 2 + struct.unpack_from(">H", r, properties_at)[0] != len(r): return "properties length"
    return None


def walk_log(store, segment=SEGMENT):
    """Walks all segments: each record is whole and at its place, behind the end everything is zero. Returns the end."""
    folder, end, expected = os.path.join(store, "commitlog"), None, None
    for name in sorted(os.listdir(folder)):
        if not re.fullmatch(r"\d{20}", name): continue
        base = int(name)
        expect(expected in (None, base), "segments follow one another", expected, base)
        expected = base + segment
        with open(os.path.join(folder, name), "rb") as f: b = f.read()
        expect(len(b) == segment, "segment %s has %d bytes" % (name, segment), len(b))
        at = 0
        while at + 8 <= len(b):
            size, magic = struct.unpack_from(">ii", b, at)
            if magic == mq.BLANK and size == len(b) - at:
                at = len(b)
                break
            if size == 0 and magic == 0: break
            expect(end is None, "nothing stands behind the end of the log", end, base + at)
            expect(magic in (mq.MAGIC, MAGIC_V2) and 91 <= size <= len(b) - at, "a record stands at %d" % (base + at), size, hex(magic & 0xffffffff))
            why = check_record(b[at:at + size], base + at)
            expect(why is None, "the record at %d is whole" % (base + at), why)
            at += size
        if at < len(b):
            if end is None: end = base + at
            expect(b.count(0, at) == len(b) - at, "bytes behind the end %d of the log are zero" % end)
    return end


def audit(b, ledger, topic=TOPIC, queues=QUEUES, low=None):
    """Audit A on a running broker: see README.md."""
    walk_log(b.store)
    seen = {}
    with contextlib.closing(b.connect()) as c:
        for q in range(queues):
            found = pull_all(c, topic, q)
            for number, body in found.items():
                expect(body in ledger.sent, "queue %d number %d holds what was sent" % (q, number), body[:60])
                expect(body not in seen, "nothing is there twice", body[:60], seen.get(body), (q, number))
                seen[body] = q, number
            for (t, queue, number), body in ledger.acked.items():
                if (t, queue) == (topic, q) and (low is None or number >= low.get(q, 0)):
                    expect(found.get(number) == body, "acknowledged message %r is at queue %d number %d" % (body[:40], q, number), found.get(number, b"nothing")[:40])
        for q in range(queues):
            old = mq.max_offset(c, topic, q)
            ledger.extra += 1
            number = ledger.send(c, topic, q, b"audit-%d-%d-%d" % (q, ledger.extra, time.time_ns()))
            expect(number == old, "the next message of queue %d gets its old max" % q, number, old)
    sane(b)


def sane(b):
    """It is alive, and its log has no bug and no panic in it."""
    expect(b.alive(), "the broker is alive", b.log()[-1500:])
    for word in ("BUG", "panic", "fatal error", "DATA RACE", "order wrong"):
        expect(word not in b.log(), "the log has no %r" % word, b.lines(word)[:3])


# ---------- cases

CASES = []


def case(name, expected):
    """Registers a function that gets a Bench."""
    def add(f):
        CASES.append((name, expected, f))
        return f
    return add


class Bench:
    """A folder and the brokers of one case; all ends with it."""
    def __init__(self, root):
        self.root, self.brokers, self.n = root, [], 0

    def store(self):
        self.n += 1
        path = os.path.join(self.root, "store%d" % self.n)
        os.makedirs(path)
        return path

    def broker(self, store=None, **settings):
        b = Broker(store or self.store(), **settings)
        self.brokers.append(b)
        return b

    def end(self):
        for b in self.brokers:
            b.kill()
        shutil.rmtree(self.root, ignore_errors=True)


class OutOfTime(Exception):
    pass


def run(name, expected, f, limit):
    """Runs one case. Returns None, or what was wrong."""
    def out_of_time(*_): raise OutOfTime("not done after %d s" % limit)
    signal.signal(signal.SIGALRM, out_of_time)
    bench = Bench(tempfile.mkdtemp(prefix="ringmq-case-"))
    signal.alarm(limit)
    try:
        f(bench)
        return None
    except Wrong as e:
        return str(e)
    except Exception as e: # a broken connection is a fault of the broker, too
        import traceback
        where = traceback.extract_tb(e.__traceback__)
        mine = [t for t in where if t.filename.startswith(HERE)]
        dead = ["the broker ended: " + b.log()[-1500:] for b in bench.brokers if b.process and b.process.poll() is not None]
        return "%s: %s at %s %s" % (type(e).__name__, e, ", ".join("%s:%d" % (os.path.basename(t.filename), t.lineno) for t in mine), " ".join(dead))
    finally:
        signal.alarm(0)
        bench.end()
