"""A store goes from ringmq to Apache's broker and back, in each way of stopping."""
import contextlib, json, os, re, shutil, struct, tempfile, threading, time

import brokers, checks, harness, load, mq, records
from brokers import Apache, Ringmq
from checks import Abandoned
from harness import expect

OFFSETS = {("G-one", load.AUTO): {0: 5, 1: 250, 2: 7, 3: 1}, ("G-two", load.MADE): {q: q + 1 for q in range(8)}}
JAVA_OFFSETS = {("G-java", load.AUTO): {0: 11, 1: 301, 2: 3, 3: 4}, ("G-two", load.MADE): {q: q + 2 for q in range(8)}}
KNOWN = [(load.EMPTY, 0), (load.EMPTY, 1), (load.ODD, 4), (load.AUTO, 3)] # queues of topics, maybe without a message
SMALL = dict(mappedFileSizeCommitLog=harness.SEGMENT, mappedFileSizeConsumeQueue=brokers.QUEUE_FILE, maxHashSlotNum=500, maxIndexNum=5000)
DEFAULT = dict(mappedFileSizeCommitLog=1 << 30, mappedFileSizeConsumeQueue=6000000)


class Stay:
    """A store on its way: its folder, what was sent to it, what stands in its log, and the settings that both sides must know."""
    def __init__(self, root, report, version, flush, seed, sizes=SMALL):
        self.root, self.store, self.report, self.version, self.flush, self.seed, self.sizes = root, os.path.join(root, "store"), report, version, flush, seed, sizes
        self.segment = sizes["mappedFileSizeCommitLog"]
        self.ledger, self.log, self.want, self.ends, self.running = load.Ledger(), None, {}, {}, None # ends: the next number of each queue
        self.topics, self.groups, self.offsets, self.java_was_here = dict(load.TOPIC_SETTINGS), dict(load.GROUPS), dict(OFFSETS), False
        os.makedirs(self.store, exist_ok=True)

    def queues(self): return load.queues_of(self.version, self.java_was_here)

    def next_seed(self):
        self.seed += 100
        return self.seed

    def ringmq(self, **settings): return Ringmq(self.store, flushDiskType=self.flush, **dict(self.sizes, **settings))
    def java(self, version, **settings): return Apache(version, self.root, flushDiskType=self.flush, **dict(self.sizes, **settings))

    def read(self, java_killed=False):
        """Takes the log from the files, checks it against the ledger and against what was there before."""
        before, self.log = self.log, records.read_log(self.store, self.segment)
        if java_killed: self.log = records.without_torn_end(self.log)
        if before:
            kept = [r for r in before.records if r.position >= self.log.first]
            expect(len(self.log.records) >= len(kept), "no record has gone", len(self.log.records), len(kept))
            for old, new in zip(kept, self.log.records):
                expect(old.raw == new.raw, "what stood in the log stands there still, at %d" % old.position)
        checks.holds(self.log, self.ledger)
        self.want = records.by_queue(self.log.records)
        self.ends.update({at: line[-1].number + 1 for at, line in self.want.items()})

    def described(self): return "%d messages, %.0f MiB" % (len(self.log.records), (self.log.end - self.log.first) / (1 << 20))

    def start(self, broker):
        self.running = broker
        broker.start()

    def end(self, how, acks=150):
        """Stops the running broker: cleanly, or by kill -9 while senders are busy."""
        b, self.running = self.running, None
        if how == "stop":
            b.stop()
            return
        storm = load.Storm(b.address, self.ledger, self.queues(), self.next_seed())
        try: storm.until(acks)
        finally:
            b.kill()
            storm.end()

    def abandon(self):
        if self.running: self.running.kill()


def offsets_known(c, wanted, older=None):
    """wanted, or in each queue what was there before, if a kill may have come before they were saved."""
    for (group, topic), offsets in wanted.items():
        got = load.committed(c, group, topic, offsets)
        before = {} if older is None else older.get((group, topic), dict.fromkeys(offsets, 0)) # a new group begins at 0
        wrong = {q: got.get(q) for q in offsets if got.get(q) not in (offsets[q], before.get(q, offsets[q]))}
        expect(not wrong, "the offsets of %s are known" % group, wrong, offsets, before)


def commit_all(c, stay, offsets, wait):
    """Commits, and with wait until the file has it."""
    for (group, topic), o in offsets.items(): load.commit(c, group, topic, o)
    if not wait: return
    def saved():
        with contextlib.suppress(OSError, ValueError):
            with open(os.path.join(stay.store, "config", "consumerOffset.json")) as f:
                table = json.loads(re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', f.read()))["offsetTable"]
            return all(table.get("%s@%s" % (topic, group), {}).get(str(q)) == n for (group, topic), o in offsets.items() for q, n in o.items())
    brokers.wait_until(saved, "offsets are saved")


def fill_ringmq(stay, how, **settings):
    """Everything that ringmq takes before the other broker comes."""
    with stay.report.check("ringmq takes singles, batches, topics, groups and offsets", needed=True) as detail:
        b = stay.ringmq(**settings)
        stay.start(b)
        with contextlib.closing(b.connect()) as c:
            load.put_topics(c, load.TOPIC_SETTINGS)
            load.put_groups(c, load.GROUPS)
            if stay.version >= "5":
                load.put_groups(c, {load.RETRY_GROUP: {}})
                load.put_topics(c, {load.RETRY_V2: dict(readQueueNums=1, writeQueueNums=1, perm=6, order=False)})
            load.in_parallel(b.address, stay.ledger, stay.queues(), 2000, stay.next_seed())
            if stay.sizes == SMALL: load.fill_segments(b.address, stay.ledger, load.ROOMS, stay.next_seed())
            load.in_parallel(b.address, stay.ledger, stay.queues(), 600, stay.next_seed())
            commit_all(c, stay, OFFSETS, wait=how == "kill")
            checks.readable(c, stay.ledger)
            served = {at: checks.pull_queue(c, *at, *checks.limits(c, *at)) for at in sorted(set(stay.queues()))}
        stay.end(how)
        stay.read()
        for at, line in served.items(): checks.same_records("ringmq", line, stay.want.get(at, [])[:len(line)])
        detail += [stay.described(), "%d queues" % len(stay.want)]
        if stay.sizes == SMALL:
            missing = set(load.ROOMS) - set(stay.log.rooms)
            expect(not missing, "segments end with every room", missing)
            detail.append("%d segment ends with %d to %d bytes of room" % (len(stay.log.rooms), min(stay.log.rooms), max(stay.log.rooms)))


# ---------- Apache's broker on the store

def java_reads(stay, java, ended):
    """Opens the store with Apache's broker and compares all of it."""
    report = stay.report
    usual = warnings_of_its_own(java.version, report)
    with report.check("%s opens the store" % java.what, needed=True) as detail:
        stay.start(java)
        detail.append(report.figure("%s opens a %s store" % (java.what, "stopped" if ended == "stop" else "killed"), java.took))
    with report.check("%s serves every message byte for byte, min and max are the same" % java.what) as detail:
        n = checks.serves(java.address, java.what, stay.want, KNOWN)
        expect(n == len(stay.log.records), "all messages", n, len(stay.log.records))
        detail.append("%d messages of %d queues" % (n, len(stay.want)))
    with report.check("%s finds by tag, time, position and key" % java.what) as detail:
        detail.append("%d by tag" % checks.filters(java.address, java.what, stay.want))
        detail.append("%d by time" % checks.finds_by_time(java.address, java.what, stay.want, exact=java.version >= "5"))
        with contextlib.closing(mq.Conn(java.address, 30)) as c:
            some = stay.log.records[::97]
            for r in some:
                h, body = c.call(33, dict(offset=r.position))
                expect(h["code"] == 0 and body == r.raw, "the record at %d is found by its position" % r.position, h)
        tries, missing = checks.found_by_key(java.address, stay.log.records)
        detail += ["%d by position" % len(some), "%d of %d by key" % (tries - len(missing), tries)]
        if ended == "stop": expect(not missing, "by key all are found", missing) # after a kill it forgets those before the segment it begins with
    with report.check("%s knows topics, groups and offsets" % java.what):
        with contextlib.closing(mq.Conn(java.address, 30)) as c:
            load.has_settings(load.topics_of(c), stay.topics, "topic")
            load.has_settings(load.groups_of(c), stay.groups, "group")
            offsets_known(c, stay.offsets)
    with report.check("%s warns of nothing that it does not warn of in a store of its own" % java.what) as detail:
        kinds = {}
        for line in java.complaints():
            if not UNRELATED.search(line): kinds.setdefault(plain(line), []).append(line)
        for kind, lines in kinds.items():
            detail.append("%d x %s" % (len(lines), kind))
            if kind in usual: report.note(java.what + ", as in a store of its own", kind)
        new = [lines[0] for kind, lines in kinds.items() if kind not in usual]
        expect(not new, "no other warning", new)


def java_sends(stay, java, how, wait=False):
    with stay.report.check("%s takes singles, batches, topics, groups and offsets" % java.what, needed=True) as detail:
        n, before = len(stay.log.records), dict(stay.offsets)
        with contextlib.closing(mq.Conn(java.address, 30)) as c:
            load.put_topics(c, load.JAVA_TOPIC_SETTINGS)
            load.put_groups(c, load.JAVA_GROUPS)
            stay.java_was_here = True
            load.in_parallel(java.address, stay.ledger, stay.queues(), 600, stay.next_seed())
            if stay.sizes == SMALL: load.fill_segments(java.address, stay.ledger, [8, 9, 23, 100, 4097], stay.next_seed())
            load.in_parallel(java.address, stay.ledger, stay.queues(), 200, stay.next_seed())
            checks.sends_go_on(java.address, stay.ledger, sorted(set(stay.queues())), stay.next_seed())
            commit_all(c, stay, JAVA_OFFSETS, wait)
            known = load.topics_of(c)
            for name, s in load.JAVA_TOPIC_SETTINGS.items():
                s = dict(s, order=known[name]["order"]) # 4.9.7 passes over the order of a request
                load.has_settings(known, {name: s}, "topic")
                stay.topics[name] = s
        stay.groups.update(load.JAVA_GROUPS)
        stay.offsets.update(JAVA_OFFSETS)
        stay.end(how)
        stay.older = before if how == "kill" and not wait else None
        stay.read(java_killed=how == "kill")
        detail.append("%d messages" % (len(stay.log.records) - n))
        if how == "stop": detail.append(stay.report.figure("%s stops" % java.what, java.stop_took))


# What an Apache broker without a name server says in any case, what is of the moment, and full key files.
UNRELATED = re.compile(r"hook service|No resource file|SO_KEEPALIVE|refresh metadata|auto-read|HA Service|registerBroker|Channel\[|page cache busy|"
                       r"putMessage not in lock|slow|cost|time\(ms\)|NOTIFYME|disk space|transaction|remoting|index file", re.I)


def plain(line): return re.sub(r"\d+", "N", line)[:300]


_usual = {} # {version: (lock, [what was found])}
_usual_mu = threading.Lock()


def warnings_of_its_own(version, report):
    """What the broker warns of when it opens and serves stores of its own, stopped and killed. Found once for all scenarios."""
    with _usual_mu: lock, found = _usual.setdefault(version, (threading.Lock(), []))
    with lock:
        if found: return found[0]
        found.append(_warnings_of_its_own(version, report))
        return found[0]


def _warnings_of_its_own(version, report):
    root, found, ended = tempfile.mkdtemp(prefix="ringmq-interop-"), set(), None
    stay = Stay(root, None, version, "ASYNC_FLUSH", 77)
    queues = [(topic, q) for topic, q in load.queues_of("4") if topic not in (load.LONG, load.MADE)] + [(load.MADE, q) for q in (6, 7)]
    stay.queues = lambda: queues
    try:
        for how in ("stop", "kill", "kill"):
            java = stay.java(version)
            stay.start(java)
            if stay.log:
                report.figure("%s opens a %s store of its own" % (java.what, "stopped" if ended == "stop" else "killed"), java.took)
                checks.serves(java.address, java.what, stay.want)
                checks.filters(java.address, java.what, stay.want)
                checks.finds_by_time(java.address, java.what, stay.want, exact=version >= "5")
            found |= {plain(line) for line in java.complaints()}
            with contextlib.closing(mq.Conn(java.address, 30)) as c: load.put_topics(c, {t: load.TOPIC_SETTINGS[t] for t in (load.MADE, load.ODD)})
            s = load.Sender(java.address, stay.ledger, stay.next_seed())
            for _ in range(checks.ENTRIES // 100): s.batch(load.MADE, 1, [(s.body(40), {}) for _ in range(100)]) # queue files that are just full
            s.close()
            load.in_parallel(java.address, stay.ledger, queues, 300, stay.next_seed())
            load.fill_segments(java.address, stay.ledger, [8, 9, 23, 100, 4097], stay.next_seed())
            ended = how
            stay.end(how)
            stay.read(java_killed=how == "kill")
    finally:
        stay.abandon()
        shutil.rmtree(root, ignore_errors=True)
    return found


# ---------- ringmq on the store

def ringmq_reads(stay, ended, **settings):
    """Opens the store with ringmq and compares all of it; Audit A, a last message to every queue, a clean stop."""
    report = stay.report
    with report.check("ringmq opens the store that was %s" % ("stopped" if ended == "stop" else "killed"), needed=True) as detail:
        b = stay.ringmq(**settings)
        stay.start(b)
        detail.append(report.figure("ringmq opens a %s store of Apache's" % ("stopped" if ended == "stop" else "killed"), b.took))
    with report.check("ringmq serves every message of both byte for byte, min and max are the same") as detail:
        n = checks.serves(b.address, "ringmq", stay.want, KNOWN)
        expect(n == len(stay.log.records), "all messages", n, len(stay.log.records))
        detail.append("%d messages of %d queues" % (n, len(stay.want)))
    with report.check("ringmq finds by tag, time and key") as detail:
        detail.append("%d by tag" % checks.filters(b.address, "ringmq", stay.want))
        detail.append("%d by time" % checks.finds_by_time(b.address, "ringmq", stay.want, exact=True))
        tries, missing = checks.found_by_key(b.address, stay.log.records)
        detail.append("%d by key" % tries)
        expect(not missing, "by key all are found", missing)
    with report.check("ringmq knows topics, groups and offsets of both"):
        with contextlib.closing(b.connect()) as c:
            load.has_settings(load.topics_of(c), stay.topics, "topic")
            load.has_settings(load.groups_of(c), stay.groups, "group")
            offsets_known(c, stay.offsets, stay.older)
            commit_all(c, stay, stay.offsets, wait=False)
    with report.check("the log is whole, the next message of every queue gets the old max, the stop is clean", needed=True) as detail:
        expect(records.read_log(stay.store, stay.segment).end == stay.log.end, "opening leaves the end of the log where it was")
        records.nothing_behind(stay.store, stay.log, stay.segment)
        checks.sends_go_on(b.address, stay.ledger, sorted(set(stay.queues())), stay.next_seed())
        load.in_parallel(b.address, stay.ledger, stay.queues(), 100, stay.next_seed())
        harness.sane(b)
        for line in b.lines("level=WARN") + b.lines("level=ERROR"): report.note("ringmq", plain(re.sub(r"^time=\S+ ", "", line)))
        stay.end("stop")
        stay.read()
        records.nothing_behind(stay.store, stay.log, stay.segment)
        expect(not os.path.exists(os.path.join(stay.store, "abort")), "no abort file is left")
        detail.append(stay.described())


# ---------- scenarios

def there_and_back(root, report, version, flush, ringmq_end, java_end, seed, sizes=SMALL, **settings):
    """ringmq, Apache's broker, ringmq."""
    stay = Stay(root, report, version, flush, seed, sizes)
    try:
        fill_ringmq(stay, ringmq_end, **settings)
        java = stay.java(version)
        java_reads(stay, java, ringmq_end)
        java_sends(stay, java, java_end)
        ringmq_reads(stay, java_end, **settings)
    except Abandoned: pass
    finally: stay.abandon()


def tear(stay):
    """What a power cut may leave of a store: a torn record and stray bytes behind the end of the log, queues that have lost their last entries, one with
    entries of records that never were."""
    segment = os.path.join(stay.store, "commitlog", "%020d" % (stay.log.end - stay.log.end % stay.segment))
    last = stay.log.records[-1].raw
    torn = bytearray(last[:len(last) // 2]) + bytes(len(last) - len(last) // 2) + b"stray" * 100
    struct.pack_into(">q", torn, 28, stay.log.end)
    with open(segment, "r+b") as f:
        f.seek(stay.log.end % stay.segment)
        f.write(torn[:stay.segment - stay.log.end % stay.segment])
    for n, (topic, queue) in enumerate(sorted(stay.want)[:6]):
        count = stay.want[topic, queue][-1].number + 1
        for number in range(max(0, count - 5), count) if n else (count, count + 1):
            path = os.path.join(stay.store, "consumequeue", topic, str(queue), "%020d" % (number // checks.ENTRIES * brokers.QUEUE_FILE))
            with contextlib.suppress(FileNotFoundError), open(path, "r+b") as f:
                f.seek(number % checks.ENTRIES * 20)
                f.write(bytes(20) if n else struct.pack(">qiq", stay.log.end, len(last), 0))


def after_a_crash(root, report, version, flush, how, seed):
    """ringmq is killed, its store torn; it recovers and goes on, and is stopped or killed; then Apache's broker opens what it has written."""
    stay = Stay(root, report, version, flush, seed)
    try:
        fill_ringmq(stay, "kill")
        with report.check("ringmq recovers the torn store and goes on", needed=True) as detail:
            before = stay.log
            tear(stay)
            b = stay.ringmq()
            stay.start(b)
            expect(b.lines("torn end of the commit log was cut"), "the torn end is told", b.log()[-2000:])
            kept = os.listdir(os.path.join(stay.store, "ringmq", "cut"))
            expect("%020d" % before.end in kept, "what was cut is kept aside", kept, before.end)
            checks.serves(b.address, "ringmq", stay.want, KNOWN)
            load.in_parallel(b.address, stay.ledger, stay.queues(), 400, stay.next_seed())
            load.fill_segments(b.address, stay.ledger, [8, 9, 23, 100, 4097], stay.next_seed())
            checks.sends_go_on(b.address, stay.ledger, sorted(set(stay.queues())), stay.next_seed())
            harness.sane(b)
            stay.end(how)
            stay.read()
            detail.append("%d messages before, %d behind the cut" % (len(before.records), len(stay.log.records) - len(before.records)))
        java = stay.java(version)
        java_reads(stay, java, how)
        java_sends(stay, java, how)
        ringmq_reads(stay, how)
    except Abandoned: pass
    finally: stay.abandon()


def back_and_forth(root, report, versions, seed):
    """One store through all versions and ringmq, again and again, stopped and killed in turn."""
    stay = Stay(root, report, min(versions), "ASYNC_FLUSH", seed)
    try:
        fill_ringmq(stay, "stop")
        ended = "stop"
        for i, version in enumerate(versions):
            how = ("kill", "stop")[i % 2]
            java = stay.java(version)
            java_reads(stay, java, ended)
            java_sends(stay, java, how)
            ringmq_reads(stay, how)
            ended = "stop"
    except Abandoned: pass
    finally: stay.abandon()


def behind_a_torn_record(root, report, version, how, seed):
    """Apache's broker is killed while it copies a record, takes it for whole since its body is, and goes on behind it. None of that is to be lost."""
    stay = Stay(root, report, version, "ASYNC_FLUSH", seed)
    queues = [(load.MADE, q) for q in range(8)]
    stay.queues = lambda: queues
    java = stay.java(version)
    try:
        with report.check("%s takes messages, a record is torn in its properties" % java.what, needed=True) as detail:
            stay.start(java)
            with contextlib.closing(mq.Conn(java.address, 30)) as c: load.put_topics(c, {load.MADE: load.TOPIC_SETTINGS[load.MADE]})
            load.in_parallel(java.address, stay.ledger, queues, 300, stay.next_seed())
            stay.end("kill")
            stay.read(java_killed=True)
            torn = next(r for r in reversed(stay.log.records) if len(r.properties) > 80 and not r.flags)
            number = stay.want[torn.topic, torn.queue][-1].number + 1
            raw = bytearray(torn.raw[:-60] + bytes(60))
            struct.pack_into(">qq", raw, 20, number, stay.log.end)
            expect(stay.log.end % stay.segment + len(raw) < stay.segment - 200000, "there is room in the segment", stay.log.end)
            with open(os.path.join(stay.store, "commitlog", "%020d" % (stay.log.end - stay.log.end % stay.segment)), "r+b") as f:
                f.seek(stay.log.end % stay.segment)
                f.write(raw)
            detail.append("at %d" % stay.log.end)
        with report.check("%s goes on behind it" % java.what, needed=True) as detail:
            n = len(stay.log.records)
            stay.start(java)
            checks.sends_go_on(java.address, stay.ledger, queues, stay.next_seed())
            load.in_parallel(java.address, stay.ledger, queues, 40, stay.next_seed())
            stay.end(how, acks=40)
            stay.read(java_killed=how == "kill")
            expect(any(r.raw == raw for r in stay.log.records), "the torn record stands in the log")
            detail.append("%d messages" % (len(stay.log.records) - n - 1))
        with report.check("ringmq serves all of them") as detail:
            b = stay.ringmq()
            stay.start(b)
            detail.append("%d messages" % checks.serves(b.address, "ringmq", stay.want))
            checks.sends_go_on(b.address, stay.ledger, queues, stay.next_seed())
            harness.sane(b)
            stay.end("stop")
            stay.read()
    except Abandoned: pass
    finally: stay.abandon()


HOURS = ";".join("%02d" % h for h in range(24))
LOOKS = 66 # seconds: both brokers look for old segments for the first time a minute after their start
NOTHING = dict(deleteWhen=HOURS, fileReservedTime=72, cleanResourceInterval=1000)
ALL = dict(deleteWhen=HOURS, fileReservedTime=0, cleanResourceInterval=1000, deleteCommitLogFilesInterval=10)


def retention(root, report, version, by, how, seed):
    """Apache's broker, or ringmq, looks for segments to delete: first it finds none, then all but the last."""
    stay = Stay(root, report, version, "ASYNC_FLUSH", seed)
    try:
        fill_ringmq(stay, how)
        if by == "java":
            java = stay.java(version, **NOTHING)
            java_reads(stay, java, how)
            finds_nothing_to_delete(stay, java)
            java_sends(stay, java, how, wait=True)
            ringmq_reads(stay, how)
        else:
            b = stay.ringmq(**NOTHING)
            stay.start(b)
            finds_nothing_to_delete(stay, b)
            stay.end(how)
            stay.read()
        deletes_all_but_the_last(stay, stay.java(version, **ALL) if by == "java" else stay.ringmq(**ALL), how)
        for b in (stay.ringmq(), stay.java(version), stay.ringmq()): serves_what_is_left(stay, b)
    except Abandoned: pass
    finally: stay.abandon()


def segments(stay): return sorted(n for n in os.listdir(os.path.join(stay.store, "commitlog")) if n.isdigit())


def finds_nothing_to_delete(stay, b):
    with stay.report.check("%s finds nothing to delete" % b.what, needed=True) as detail:
        names = segments(stay)
        time.sleep(LOOKS)
        expect(segments(stay)[:len(names)] == names, "all segments are there")
        n = checks.serves(b.address, b.what, stay.want, KNOWN)
        expect(n == len(stay.log.records), "all messages are served", n, len(stay.log.records))
        detail.append("%d segments" % len(names))


def deletes_all_but_the_last(stay, b, how):
    with stay.report.check("%s deletes all segments but the last" % b.what, needed=True) as detail:
        last, n = stay.log.end - stay.log.end % stay.segment, len(stay.log.records)
        stay.start(b)
        brokers.wait_until(lambda: int(segments(stay)[0]) == last, "the segments are deleted", 100)
        stay.end(how)
        stay.read(java_killed=how == "kill" and b.what != "ringmq")
        detail.append("%d messages before, %d of %d queues now" % (n, len(stay.log.records), len(stay.want)))


def serves_what_is_left(stay, b):
    with stay.report.check("%s serves what is left, and queues go on where they were" % b.what, needed=True) as detail:
        stay.start(b)
        n = checks.serves(b.address, b.what, stay.want, emptied=stay.ends)
        expect(n == len(stay.log.records), "all messages are served", n, len(stay.log.records))
        detail.append("%d messages" % n)
        checks.sends_go_on(b.address, stay.ledger, [at for at in sorted(stay.ends) if at[0] in (load.MADE, load.ODD)], stay.next_seed())
        stay.end("stop")
        stay.read()
