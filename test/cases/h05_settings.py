"""H05: the settings files after a power cut, in every shape, with and without a good backup."""
import contextlib, json, os, re, shutil, subprocess, threading, time
import mq
from harness import *

FILES = ["topics.json", "consumerOffset.json", "subscriptionGroup.json", "delayOffset.json"]
CREATE_TOPIC, UPDATE_OFFSET, QUERY_OFFSET, GROUPS, TOPICS = 17, 15, 14, 201, 21
GROUP = "cases_group"


def good(bench):
    """A broker's store, stopped cleanly, with a topic of 6 queues, a group and offsets, each file with a backup."""
    b = bench.broker()
    ledger = Ledger()
    for _ in range(2): # the second life makes the backups
        b.start()
        with contextlib.closing(b.connect()) as c:
            create_topic(c, "Named", 6)
            create_topic(c, "Second%d" % time.time_ns(), 2)
            for i in range(40): ledger.send(c, TOPIC, i % QUEUES, b"m-%d-%d" % (i, time.time_ns()))
            for q in range(QUEUES):
                h, _ = mq.pull(c, TOPIC, q, 0, group=GROUP + str(time.time_ns()))
                commit(c, GROUP, q, 3 + len(b.logs))
        b.stop()
    folder = os.path.join(b.store, "config")
    with open(os.path.join(folder, "delayOffset.json"), "w") as f: f.write('{"offsetTable":{1:3,2:1}}')
    with open(os.path.join(folder, "delayOffset.json.bak"), "w") as f: f.write('{"offsetTable":{1:2,2:1}}')
    for name in FILES:
        expect(os.path.exists(os.path.join(folder, name + ".bak")), name + " has a backup", sorted(os.listdir(folder)))
    return b.store, ledger


def create_topic(c, name, queues):
    h, _ = c.call(CREATE_TOPIC, dict(topic=name, defaultTopic="TBW102", readQueueNums=queues, writeQueueNums=queues, perm=6, topicFilterType="SINGLE_TAG",
                                     topicSysFlag=0, order=False))
    expect(h["code"] == 0, "a topic is made", h)


def commit(c, group, queue, at, topic=TOPIC):
    return c.call(UPDATE_OFFSET, dict(consumerGroup=group, topic=topic, queueId=queue, commitOffset=at))[0]


def committed(c, group, queue, topic=TOPIC):
    h, _ = c.call(QUERY_OFFSET, dict(consumerGroup=group, topic=topic, queueId=queue, setZeroIfNotFound=False))
    return int(h["extFields"]["offset"]) if h["code"] == 0 else None


SHAPES = {
    "zeros": lambda t: bytes(len(t)), "empty": lambda t: b"", "first half": lambda t: t[:len(t) // 2], "another encoding": lambda t: t.decode().encode("utf-16"),
    "tail of an older text": lambda t: t + t[len(t) // 2:] + b"\n}", "not text": lambda t: b"\xff\xfe\x00" * 50, "nested": lambda t: b"[" * 100000,
    "wrong types": lambda t: b'{"dataVersion":[],"topicConfigTable":7,"offsetTable":"x","subscriptionGroupTable":[1]}', "null": lambda t: b"null", "missing": None, "a folder": "folder",
}


def spoil(path, shape):
    make = SHAPES[shape]
    with open(path, "rb") as f: text = f.read()
    os.remove(path)
    if make == "folder":
        os.mkdir(path)
    elif make:
        with open(path, "wb") as f: f.write(make(text))


def damaged(bench, name, shape, backup):
    """backup: "good", "none" or "bad"."""
    store, ledger = good(bench)
    path = os.path.join(store, "config", name)
    spoil(path, shape)
    if backup == "none": os.remove(path + ".bak")
    if backup == "bad": spoil(path + ".bak", shape)
    b = bench.broker(store).start()
    if name != "delayOffset.json": # that file is left alone: delays are not built
        told = b.lines(path)
        if not (shape == "missing" and backup != "good"):
            expect(len(told) == 1, "one line names the file", told, b.log()[:1500])
            expect(("backup" in told[0] and "WARN" in told[0]) if backup == "good" else "level=ERROR" in told[0], "it says what is used", told)
        if shape != "missing":
            kept = [f for f in os.listdir(os.path.dirname(path)) if f.startswith(name + ".bad-")]
            expect(kept, "the bad file is kept aside", os.listdir(os.path.dirname(path)))
    with contextlib.closing(b.connect()) as c:
        if backup == "good" and name == "topics.json":
            h, text = c.call(TOPICS)
            expect(b'"Named"' in text, "topics of the backup are known")
        if backup == "good" and name == "consumerOffset.json":
            for q in range(QUEUES): expect(committed(c, GROUP, q) is not None, "offsets of the backup are known")
        if backup != "good" and name == "consumerOffset.json":
            for q in range(QUEUES): expect(committed(c, GROUP, q) in (None, 0), "no offset is made up", committed(c, GROUP, q))
        if backup == "good" and name == "subscriptionGroup.json":
            expect(GROUP.encode() in c.call(GROUPS)[1], "groups of the backup are known")
    audit(b, ledger)
    with contextlib.closing(b.connect()) as c: create_topic(c, "Later", 3)
    b.kill().start()
    with contextlib.closing(b.connect()) as c: expect(b'"Later"' in c.call(TOPICS)[1], "it is saved again, and read")
    audit(b, ledger)
    b.stop()


for name in FILES:
    for shape in SHAPES:
        for backup in ("good", "none", "bad"):
            case("H05 %s %s, backup %s" % (name, shape, backup), "starts; one loud line; what is good is used, what is bad kept aside; no message is lost")(
                lambda bench, name=name, shape=shape, backup=backup: damaged(bench, name, shape, backup))


@case("H05 no folder", "the config folder is missing while log and queues are full: every queue can be pulled by topic name and number")
def no_folder(bench):
    for also_killed in (False, True):
        store, ledger = good(bench)
        if also_killed: bench.broker(store).start().kill()
        shutil.rmtree(os.path.join(store, "config"))
        b = bench.broker(store).start()
        audit(b, ledger)
        b.kill().start()
        audit(b, ledger)
        b.stop()


@case("H05 new topic", "killed right after the first message of a new topic: the topic has all its queues after the start")
def new_topic(bench):
    b = bench.broker()
    for n in range(5):
        b.start()
        topics = ["New%d-%d" % (n, i) for i in range(10)]
        with contextlib.closing(b.connect()) as c:
            for t in topics:
                h, _ = mq.send(c, t, 0, b"first")
                expect(h["code"] == 0, "the first send makes the topic", h)
            b.kill()
        b.start()
        with contextlib.closing(b.connect()) as c:
            for t in topics:
                h, _ = mq.send(c, t, QUEUES - 1, b"second")
                expect(h["code"] == 0, "queue %d of topic %s is still there" % (QUEUES - 1, t), h)
        b.kill()


@case("H05 files that are not writable", "a settings file that cannot be read stops the start with its name: it is not taken as empty")
def unreadable(bench):
    store, _ = good(bench)
    path = os.path.join(store, "config", "topics.json")
    os.remove(path)
    os.symlink(path, path) # reading it fails, whoever asks
    b = bench.broker(store)
    b.refuses(path)
    os.remove(path)
    b.start()


@case("H05 fsync", "a save writes a temporary file, syncs it, renames it, and syncs the folder")
def fsyncs(bench):
    if not shutil.which("strace"):
        print("  (no strace: skipped)")
        return
    b = bench.broker().start()
    trace = os.path.join(bench.root, "trace")
    s = subprocess.Popen(["strace", "-f", "-y", "-p", str(b.pid()), "-o", trace, "-e", "trace=fsync,fdatasync,rename,renameat,renameat2,openat,write"],
                         stderr=subprocess.DEVNULL)
    time.sleep(1)
    with contextlib.closing(b.connect()) as c: create_topic(c, "Traced", 4)
    s.terminate()
    s.wait()
    with open(trace) as f: lines = f.read().splitlines()
    def at(pattern, after=0):
        for i, line in enumerate(lines[after:], after):
            if re.search(pattern, line): return i
        raise Wrong("the trace shows %s: %s" % (pattern, lines[-30:]))
    synced = at(r"f(data)?sync\(\d+<[^>]*config/topics\.json\.[^>]*>")
    renamed = at(r'rename.*config/topics\.json\.\S+".*config/topics\.json"', synced)
    at(r"fsync\(\d+<[^>]*/config>", renamed)
    b.stop()


@case("H05 offsets under kills", "a thousand offset updates with a kill each hundred: there is always one readable version, and no offset is made up")
def offsets(bench):
    b = bench.broker(flushConsumerOffsetInterval=100)
    store = b.store
    b.start()
    with contextlib.closing(b.connect()) as c:
        for i in range(1100): expect(mq.send(c, TOPIC, 0, b"m%d" % i)[0]["code"] == 0, "a send is taken")
    last = 0
    for n in range(10):
        with contextlib.closing(b.connect()) as c:
            for i in range(100):
                at = n * 100 + i + 1
                expect(commit(c, GROUP, 0, at)["code"] == 0, "an offset is taken")
                if i % 10 == 0: time.sleep(0.03)
        b.kill()
        b.start()
        with contextlib.closing(b.connect()) as c:
            found = committed(c, GROUP, 0)
            expect(found is not None and last <= found <= at, "the offset is one that was committed, and never goes back", last, found, at)
            expect(found > last, "it was saved within the round", last, found)
            last = found
        expect(not b.lines("configfile", "level=ERROR"), "no file was lost", b.log()[:800])
    b.stop()


@case("H05 power cuts", "saves with power cuts (loop-mounted ext4, needs root): always one readable version")
def power_cuts(bench):
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        print("  (needs root and mkfs.ext4: skipped)")
        return
    image, mount = os.path.join(bench.root, "disk.img"), os.path.join(bench.root, "m")
    os.mkdir(mount)
    def sh(*command): subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    sh("truncate", "-s", "256m", image)
    sh("mkfs.ext4", "-q", image)
    try:
        sh("mount", "-o", "loop", image, mount)
    except subprocess.CalledProcessError:
        print("  (no loop mounts here: skipped)")
        return
    try:
        b = bench.broker(os.path.join(mount, "store"), flushConsumerOffsetInterval=100)
        os.mkdir(b.store)
        ledger, topics = Ledger(), []
        for n in range(8):
            b.start()
            with contextlib.closing(b.connect()) as c:
                known = c.call(TOPICS)[1]
                for t in topics: expect(b'"%s"' % t.encode() in known, "topic %s was acknowledged and is there" % t)
                if n:
                    expect(committed(c, GROUP, 0) is not None, "there is an offset")
                    expect(not b.lines("configfile", "level=ERROR"), "no file was lost", b.log()[:800])
                for i in range(20): ledger.send(c, TOPIC, i % QUEUES, b"m-%d-%d" % (n, i))
                for i in range(100):
                    commit(c, GROUP, 0, min(i, 5 * (n + 1)))
                    if i % 20 == 19:
                        t = "Cut%d-%d" % (n, i)
                        create_topic(c, t, 2)
                        topics.append(t)
            audit(b, ledger)
            time.sleep(0.5) # offsets are saved by the clock
            sh(sys.executable, os.path.join(HERE, "powercut.py"), mount)
            b.kill()
            sh("umount", mount)
            sh("mount", "-o", "loop", image, mount)
        b.start()
        audit(b, ledger)
        b.stop()
    finally:
        for b in bench.brokers: b.kill()
        subprocess.run(["umount", mount])
