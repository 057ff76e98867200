"""The two sides as processes: ringmq, and Apache RocketMQ by test/tools/apache.sh. All ports are above 21000 and below those of
outgoing connections."""
import contextlib, os, re, signal, socket, subprocess, tempfile, threading, time

import harness
from harness import expect, Wrong

HERE = os.path.dirname(os.path.abspath(__file__))
QUEUE_FILE = 6000 # bytes: 300 entries

_taken, _lock = set(), threading.Lock()


def free_port():
    """A port that no one listens on, nor on those that go with it: -2 (fast port), +1 (replication). Given once in a run."""
    with _lock:
        for port in range(21010, 32000, 10):
            if port in _taken: continue
            _taken.add(port)
            with contextlib.ExitStack() as held:
                try:
                    for p in (port - 2, port, port + 1, port + 3):
                        held.enter_context(socket.socket()).bind(("127.0.0.1", p))
                    return port
                except OSError: continue
    raise Wrong("there is a free port between 21000 and 32000")


def wait_until(true, what, limit=30):
    end = time.monotonic() + limit
    while not true():
        if time.monotonic() > end: raise Wrong("%s within %d s" % (what, limit))
        time.sleep(0.02)


class Ringmq(harness.Broker):
    """A ringmq broker. Its name server is embedded unless namesrvAddr names another."""
    what = "ringmq"

    def __init__(self, store, **settings):
        super().__init__(store, **dict(dict(brokerName="broker-a", mappedFileSizeConsumeQueue=QUEUE_FILE, flushConsumerOffsetInterval=1000,
                                            syncFlushTimeout=30000), **settings))
        self.port, self.names = free_port(), free_port()

    @property
    def address(self): return "127.0.0.1:%d" % self.port

    def launch(self):
        settings = dict(self.settings, storePathRootDir=self.store, listenPort=self.port, ringmq__namesrvListenPort=self.names,
                        ringmq__httpAddress="off")
        command = [self.binary, "server"]
        for name, value in settings.items(): command += ["--set", "%s=%s" % (name.replace("__", "."), value)]
        self.logs.append(tempfile.NamedTemporaryFile(prefix="ringmq-", suffix=".log"))
        self.began = time.monotonic()
        self.process = subprocess.Popen(command, stdout=self.logs[-1], stderr=subprocess.STDOUT, start_new_session=True)
        return self


class RingmqNames:
    """`ringmq namesrv`, alone."""
    def __init__(self):
        self.port, self.log = free_port(), tempfile.NamedTemporaryFile(prefix="ringmq-namesrv-", suffix=".log")
        self.address = "127.0.0.1:%d" % self.port

    def start(self):
        self.process = subprocess.Popen([harness.Broker.binary, "namesrv", "--set", "listenPort=%d" % self.port], stdout=self.log,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        wait_until(lambda: b"boot success" in open(self.log.name, "rb").read(), "ringmq namesrv starts")
        return self

    def stop(self):
        self.process.terminate()
        expect(self.process.wait(30) == 0, "ringmq namesrv ends with exit code 0", open(self.log.name).read()[-800:])

    def kill(self):
        if self.process.poll() is None: self.process.kill()
        self.process.wait()


class Apache:
    """Apache RocketMQ: a broker on the folder `store` below root, a name server, or both."""
    script = os.path.join(HERE, "..", "tools", "apache.sh")

    def __init__(self, version, root, broker=True, names=False, **settings):
        self.version, self.root, self.process = version, root, None
        self.what = "Apache " + version
        self.store = os.path.join(root, "store")
        self.port = free_port() if broker else 0
        self.names = free_port() if names else 0
        self.settings = dict(mappedFileSizeCommitLog=harness.SEGMENT, mappedFileSizeConsumeQueue=QUEUE_FILE, diskMaxUsedSpaceRatio=95,
                             flushConsumerOffsetInterval=1000)
        # a busy machine is no reason to refuse
        self.settings.update(waitTimeMillsInSendQueue=30000, osPageCacheBusyTimeOutMills=30000, syncFlushTimeout=30000)
        self.settings.update(settings)

    @property
    def address(self): return "127.0.0.1:%d" % self.port
    @property
    def names_address(self): return "127.0.0.1:%d" % self.names

    def start(self, limit=120):
        os.makedirs(self.root, exist_ok=True)
        self.marks = {path: os.path.getsize(path) for path in self._log_files()} # what earlier starts wrote
        self.out = open(os.path.join(self.root, "apache.out"), "w+")
        env = dict(os.environ, HEAP="512m")
        # the second spares the making of a certificate, seconds of a core
        env["JAVA_OPTS"] = "-XX:TieredStopAtLevel=1 -Dtls.server.mode=disabled " + os.environ.get("JAVA_OPTS", "")
        self.began = time.monotonic()
        self.process = subprocess.Popen([self.script, self.version, self.root, str(self.port), str(self.names)] +
                                        ["%s=%s" % i for i in self.settings.items()],
                                        stdout=self.out, stderr=subprocess.STDOUT, env=env, start_new_session=True)
        try:
            wait_until(lambda: "ready" in self._said() or self.process.poll() is not None, "%s starts" % self.what, limit)
            expect(self.process.poll() is None, "%s starts" % self.what, self._said()[-2000:], self.complaints()[-10:])
        except Wrong:
            self.kill()
            raise
        self.took = time.monotonic() - self.began
        return self

    def _said(self):
        with open(self.out.name) as f: return f.read()

    def _broker(self):
        with open(os.path.join(self.root, "broker.pid")) as f: return int(f.read())

    def stop(self, limit=90):
        """A clean stop of all."""
        began = time.monotonic()
        self.process.terminate()
        try: self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Wrong("%s stops within %d s" % (self.what, limit))
        finally: self.process = None
        if self.port: expect(not os.path.exists(os.path.join(self.store, "abort")), "%s stopped cleanly" % self.what, self.complaints()[-5:])
        self.stop_took = time.monotonic() - began

    def kill(self):
        """kill -9 of the broker; a name server of its own ends with it."""
        if self.process is None: return
        if self.process.poll() is None and self.port:
            with contextlib.suppress(OSError, ValueError): os.kill(self._broker(), signal.SIGKILL)
        elif self.process.poll() is None: self.process.terminate()
        try: self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL) # a session of its own: the script, the broker, the name server
            self.process.wait()
        self.process = None

    def _log_files(self):
        for folder in ("logs", os.path.join("home", "logs", "rocketmqlogs")):
            for at, _, names in os.walk(os.path.join(self.root, folder)):
                for name in names:
                    if name.endswith(".log") and "namesrv" not in name: yield os.path.join(at, name)

    def complaints(self):
        """Warnings and errors in the logs since this start, each with its log; without date, thread, and the lines of exceptions."""
        found = []
        for path in self._log_files():
            with open(path, errors="replace") as f:
                f.seek(self.marks.get(path, 0))
                for line in f:
                    m = re.match(r"\S+ \S+ (WARN|ERROR) (.*?) - (.*)", line)
                    if m: found.append("%s %s: %s" % (m[1], m[2] if m[2].startswith("Rocketmq") else os.path.basename(path), m[3]))
        return found
