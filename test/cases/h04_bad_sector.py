"""H04: a sector under the log that the device cannot read. A btrfs on a loop device knows a checksum of each block: one that is changed behind its back is one."""
import contextlib, os, shutil, subprocess, time
import mq
from harness import *
from h04_helper_files import served_past

COUNT = 2400


class Checksummed:
    """A loop-mounted btrfs. Needs root and mkfs.btrfs."""
    def __init__(self, bench):
        self.image, self.path, self.mounted = os.path.join(bench.root, "disk.img"), os.path.join(bench.root, "m"), False

    def mount(self):
        if os.geteuid() != 0 or not shutil.which("mkfs.btrfs"): return False
        if not os.path.exists(self.image):
            os.mkdir(self.path)
            self.sh("truncate", "-s", "256m", self.image)
            self.sh("mkfs.btrfs", "-q", "-d", "single", "-m", "single", self.image)
        self.mounted = subprocess.run(["mount", "-o", "loop", self.image, self.path], stderr=subprocess.DEVNULL).returncode == 0
        return self.mounted

    def unmount(self):
        if self.mounted: self.sh("umount", self.path)
        self.mounted = False

    def sh(self, *command): subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def spoil(self, text):
        """Changes the block in which text begins."""
        with open(self.image, "r+b") as f:
            data = f.read()
            at = data.find(text)
            expect(at >= 0 and data.find(text, at + 1) < 0, "the text is on the disk once", at)
            f.seek(at // 4096 * 4096 + 4000)
            f.write(bytes(byte ^ 0xff for byte in data[at // 4096 * 4096 + 4000:at // 4096 * 4096 + 4010]))


def unreadable(bench, prepare, told):
    disk = Checksummed(bench)
    if not disk.mount():
        print("  (needs root, loop mounts and mkfs.btrfs: skipped)")
        return
    try:
        b, ledger = bench.broker(os.path.join(disk.path, "store"), flushDiskType="ASYNC_FLUSH"), Ledger()
        b.start()
        with contextlib.closing(b.connect()) as c:
            for i in range(COUNT): ledger.send(c, TOPIC, i % QUEUES, (b"m%05d-" % i).ljust(1700, b"%d" % (i % 10)))
        b.stop()
        victim, lost = b"m00300-", set()
        with open(os.path.join(b.store, "commitlog", "%020d" % 0), "rb") as f: log = f.read()
        page = log.index(victim) // 4096 * 4096
        for at, size, magic, *_, body in mq.walk(log):
            if magic == mq.MAGIC and at < page + 4096 and at + size > page: lost.add(body)
        expect(2 <= len(lost) <= 5, "a few messages have bytes in that page", len(lost))
        disk.unmount()
        disk.spoil(victim)
        disk.mount()
        try:
            with open(os.path.join(b.store, "commitlog", "%020d" % 0), "rb") as f: f.read()
            raise Wrong("the device cannot read the segment")
        except OSError: pass
        prepare(b.store)
        for how in ("kill", "stop"):
            b.start()
            served_past_page(b, ledger, lost)
            for words in told: expect(b.lines("level=ERROR", *words), "it is told aloud", b.log()[-2500:])
            b.kill() if how == "kill" else b.stop()
    finally:
        for b in bench.brokers: b.kill()
        disk.unmount()


def served_past_page(b, ledger, lost):
    served_past(b, ledger, lost)
    with contextlib.closing(b.connect()) as c:
        for q in range(QUEUES):
            for ms in (0, int(time.time() * 1000)):
                at = mq.by_time(c, TOPIC, q, ms)
                expect(0 <= at <= mq.max_offset(c, TOPIC, q), "a search by time is answered", at)


case("H04 19 bad sector", "a page of the log below the mark cannot be read (btrfs with a broken block): pulls pass over its messages and tell it, nothing else is lost, the process lives")(
    lambda bench: unreadable(bench, lambda store: None, [("passed over",)]))

case("H04 19 bad sector, no mark", "the same when recovery itself has to read it")(
    lambda bench: unreadable(bench, lambda store: os.remove(os.path.join(store, "ringmq", "mark")), [("the commit log is damaged",)]))
