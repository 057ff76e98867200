"""Brokers at the other side's name servers: a send and a pull through the route, by hand and by Apache's own client."""
import contextlib, json, os, re, subprocess, time

import brokers, checks, harness, load, mq, records
from brokers import Apache, Ringmq, RingmqNames
from checks import Abandoned
from harness import expect

TOPIC = "Routed"


def ask(names, code, ext=None):
    """An answer of a name server, whose JSON may have numbers as keys."""
    with contextlib.closing(mq.Conn(names, 10)) as c: h, body = c.call(code, ext)
    if h["code"] != harness.SUCCESS: return h, None
    return h, json.loads(re.sub(r"([{,])(\d+):", r'\1"\2":', body.decode()))


def route(names, topic=TOPIC):
    """{broker's name: (address of its master, its queues)}"""
    h, r = ask(names, 105, dict(topic=topic))
    if r is None:
        expect(h["code"] == 17, "a topic without a route is answered 17", h)
        return {}
    queues = {q["brokerName"]: q for q in r["queueDatas"]}
    return {b["brokerName"]: (b["brokerAddrs"]["0"], queues[b["brokerName"]]) for b in r["brokerDatas"]}


def through(names, broker_name, ledger, address):
    """A send to and a pull from each queue of the route."""
    found = route(names)
    expect(list(found) == [broker_name], "the topic's route names the broker", found)
    to, queues = found[broker_name]
    expect(to == address, "the route has the broker's address", to, address)
    expect((queues["writeQueueNums"], queues["readQueueNums"], queues["perm"]) == (3, 3, 6), "the route has the topic's queues", queues)
    h, clusters = ask(names, 106)
    expect(h["code"] == harness.SUCCESS and clusters["clusterAddrTable"] == {"DefaultCluster": [broker_name]}, "106 names the cluster", h, clusters)
    expect(clusters["brokerAddrTable"][broker_name]["brokerAddrs"] == {"0": address}, "106 names the broker's address", clusters)
    s = load.Sender(to, ledger, 1)
    with contextlib.closing(mq.Conn(to, 30)) as c:
        for queue in range(queues["writeQueueNums"]):
            body = s.body()
            number, _ = s.one(TOPIC, queue, body, {"TAGS": "TagA", "KEYS": "k"})
            checks.readable(c, ledger)
            got = checks.pull_queue(c, TOPIC, queue, number, number + 1)
            expect(got[0].body == body, "what was sent through the route is pulled", got[0].body)
    s.close()


def client(version, home, names, broker_name, address):
    """Apache's client sends through the route; the message is there. Its tool also prints the cluster."""
    lib = os.environ.get("APACHE_LIB") or os.path.join(os.environ.get("TMPDIR", "/tmp"), "apache-rocketmq-" + version)
    def tool(wanted, *words):
        """Runs a command of mqadmin. Its client gives up after a few seconds, so on a busy machine it may do so again."""
        for _ in range(3):
            p = subprocess.run(["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Duser.home=" + home, "-Drocketmq.client.logLevel=ERROR",
                                "-cp", os.path.join(lib, "jars", "*"), "org.apache.rocketmq.tools.command.MQAdminStartup", *words, "-n", names],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                               env=dict(os.environ, ROCKETMQ_HOME=home))
            if wanted in p.stdout: return
            said = [line for line in p.stdout.splitlines() if "Exception" in line or line.startswith(("Caused", "broker", "MessageQueue", "Consume"))]
        raise harness.Wrong("%s of the client has %r: it said %s" % (words[0], wanted, "; ".join(said)[:1500] or p.stdout[-1500:]))
    hello = "sent by the client of " + version
    tool("SEND_OK", "sendMessage", "-t", TOPIC, "-p", hello, "-b", broker_name, "-i", "1")
    with contextlib.closing(mq.Conn(address, 30)) as c:
        brokers.wait_until(lambda: mq.max_offset(c, TOPIC, 1) >= 2, "what the client sent may be pulled")
        got = checks.pull_queue(c, TOPIC, 1, 1, 2)
    expect(got[0].body == hello.encode(), "what the client sent is pulled", got[0].body)
    tool(hello, "consumeMessage", "-t", TOPIC, "-b", broker_name, "-i", "1", "-c", "9", "-s", "0")
    tool(address, "clusterList")


def registered(names, home, broker_name, broker, version, report, wait):
    """The checks of one broker at one name server."""
    ledger = load.Ledger()
    with report.check("a new topic is known there, a send and a pull go through the route", needed=True) as detail:
        began = time.monotonic()
        with contextlib.closing(mq.Conn(broker.address, 30)) as c:
            load.put_topics(c, {TOPIC: dict(readQueueNums=3, writeQueueNums=3, perm=6, order=False)})
        brokers.wait_until(lambda: broker_name in route(names), "the topic is registered", wait)
        detail.append("known after %.2f s" % (time.monotonic() - began))
        through(names, broker_name, ledger, broker.address)
    with report.check("Apache's client %s sends and pulls through it" % version):
        client(version, home, names, broker_name, broker.address)


def gone(names, report, stop):
    with report.check("a broker that stops is gone from there") as detail:
        stop()
        began = time.monotonic()
        brokers.wait_until(lambda: not route(names), "the route is gone", 10)
        detail.append("%.2f s after the stop" % (time.monotonic() - began))


def ringmq_at_apache(root, report, version, seed):
    names, b = Apache(version, os.path.join(root, "names"), broker=False, names=True), None
    try:
        with report.check("ringmq registers at Apache's name server", needed=True):
            names.start()
            os.makedirs(os.path.join(root, "store"))
            b = Ringmq(os.path.join(root, "store"), brokerName="ring", namesrvAddr=names.names_address)
            b.start()
            brokers.wait_until(lambda: "ring" in route(names.names_address, "ring"), "the broker is registered")
        registered(names.names_address, names.root, "ring", b, version, report, 10)
        with report.check("after a kill and a start it is known with all its topics") as detail:
            b.kill()
            b.start()
            brokers.wait_until(lambda: "ring" in route(names.names_address), "the topic is registered", 10)
            through(names.names_address, "ring", load.Ledger(), b.address)
            harness.sane(b)
        gone(names.names_address, report, b.stop)
    except Abandoned: pass
    finally:
        if b: b.kill()
        names.kill()


def apache_at_ringmq(root, report, version, seed):
    names, b = RingmqNames(), None
    try:
        with report.check("Apache's broker registers at `ringmq namesrv`", needed=True):
            names.start()
            b = Apache(version, root, namesrvAddr=names.address)
            b.start()
            brokers.wait_until(lambda: "broker-a" in route(names.address, "broker-a"), "the broker is registered")
        registered(names.address, b.root, "broker-a", b, version, report, 40)
        gone(names.address, report, b.stop)
        with report.check("`ringmq namesrv` stops"): names.stop()
    except Abandoned: pass
    finally:
        if b: b.kill()
        names.kill()
