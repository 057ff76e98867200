"""Load for the cases that stop, kill or starve a broker under it."""
import contextlib, threading
import mq
from harness import *


class Load:
    """Senders that write down what is acknowledged before they send the next. refused: codes that they may be answered, beside 10."""
    def __init__(self, b, senders, name, refused=(10, 14)):
        self.b, self.name, self.ledger, self.quit, self.wrong, self.refused = b, name, None, threading.Event(), [], refused
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(senders)]

    def into(self, ledger):
        self.ledger = ledger
        for t in self.threads: t.start()
        return self

    def run(self, n):
        try:
            with contextlib.closing(self.b.connect(timeout=30)) as c:
                i = 0
                while not self.quit.is_set():
                    body = b"%s-s%d-%d" % (self.name, n, i)
                    body = body.ljust(len(body) + (n * 31 + i * 977) % 3000, b"x")
                    self.ledger.sent.add(body)
                    h, _ = mq.send(c, TOPIC, n % QUEUES, body)
                    if h["code"] in (0,):
                        with self.ledger.mu: self.ledger.acked[TOPIC, n % QUEUES, int(h["extFields"]["queueOffset"])] = body
                    elif h["code"] not in (10, *self.refused): # stored without promise
                        self.wrong.append(h)
                    i += 1
        except (EOFError, ConnectionError):
            pass # killed or stopped
        except Exception as e:
            self.wrong.append("%s %s" % (type(e).__name__, e))

    def end(self):
        self.quit.set()
        for t in self.threads: t.join(40)
        expect(not any(t.is_alive() for t in self.threads), "every sender gets an answer or the end of its connection")
        expect(not self.wrong, "no sender sees an error", self.wrong[:3])
