package api

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/broker/stats"
	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

func adminRoutes() map[int32]route {
	return map[int32]route{
		remoting.GetBrokerRuntimeInfo:   {handle: (*API).runtimeInfo, slow: true},
		remoting.DeleteExpiredCommitLog: {handle: (*API).deleteExpired},
		remoting.ViewMessageByID:        {handle: (*API).viewMessage, slow: true},
	}
}

// deleteExpired handles 329: expired segments of the log are removed now, whatever the hour. As in the original the answer does not wait for it.
func (a *API) deleteExpired(_ *remoting.Command, r server.Reply) {
	a.opts.Store.DeleteExpired()
	var answer remoting.Command
	answer.Reset()
	r.Write(&answer)
}

// viewMessage handles 33: the record at an offset, which stands in a message id.
func (a *API) viewMessage(c *remoting.Command, r server.Reply) {
	at, err := c.Int("offset")
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	view, ok := a.opts.Store.Record(message.Offset(at))
	if !ok {
		refuse(r, remoting.SystemError, "no message stands at offset %d", at)
		return
	}
	var answer remoting.Command
	answer.Reset()
	r.WriteBody(&answer, [][]byte{view.Bytes}, &heldView{view})
}

// heldView gives a view back when its bytes are sent.
type heldView struct{ view segment.View }

func (h *heldView) Release() { h.view.Release() }

// protocolVersion is the name of remoting.Version.
const protocolVersion = "V5_5_0"

// Runtime is what GET_BROKER_RUNTIME_INFO tells beyond the tables. Only the broker that runs has one.
type Runtime struct {
	Sampler *stats.Sampler
	Started time.Time
	LogDir  string // storePathCommitLog
	Version string // for people
	Number  int32  // for programs: the ordinal that frames announce
}

// runtimeInfo handles 28. The keys are those that the tools take apart; they fail when one is missing.
func (a *API) runtimeInfo(_ *remoting.Command, r server.Reply) {
	table := make(map[string]string)
	if a.opts.Runtime != nil {
		a.describeRuntime(table, a.opts.Runtime)
	}
	a.describeStore(table)
	for _, name := range []string{"send", "pull", "ack", "query"} { // there are no such pools here; what is not there is empty
		table[name+"ThreadPoolQueueSize"] = "0"
		table[name+"ThreadPoolQueueCapacity"] = "0"
		table[name+"ThreadPoolQueueHeadWaitTimeMills"] = "0"
	}
	for _, key := range []string{"timerReadBehind", "timerOffsetBehind", "timerCongestNum", "timerEnqueueTps", "timerDequeueTps"} {
		table[key] = "0"
	}
	producers, consumers := a.opts.Clients.Count()
	table["producerGroups"] = strconv.Itoa(producers)
	table["consumerGroups"] = strconv.Itoa(consumers)
	table["parkedPulls"] = strconv.Itoa(a.opts.Parked.Count())
	var answer remoting.Command
	answer.Reset()
	answerJSON(r, &answer, struct {
		Table map[string]string `json:"table"`
	}{table})
}

func (a *API) describeRuntime(table map[string]string, rt *Runtime) {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	table["brokerActive"] = "true"
	table["brokerVersionDesc"] = protocolVersion // what the tools expect there
	table["ringmqVersion"] = rt.Version
	table["brokerVersion"] = number(int64(rt.Number))
	table["bootTimestamp"] = number(rt.Started.UnixMilli())
	table["startAcceptSendRequestTimeStamp"] = "0"
	table["runtime"] = time.Since(rt.Started).Round(time.Second).String()

	yesterday, today, now := rt.Sampler.Totals()
	table["msgPutTotalYesterdayMorning"], table["msgGetTotalYesterdayMorning"] = number(yesterday.Puts), number(yesterday.Records)
	table["msgPutTotalTodayMorning"], table["msgGetTotalTodayMorning"] = number(today.Puts), number(today.Records)
	table["msgPutTotalTodayNow"], table["msgGetTotalTodayNow"] = number(now.Puts), number(now.Records)
	table["putMessageTimesTotal"] = number(now.Puts)
	table["putMessageSizeTotal"] = number(now.PutBytes)
	table["putMessageAverageSize"] = number(now.PutBytes / max(now.Puts, 1))

	table["putTps"] = rt.Sampler.Rates(func(c *stats.Counts) int64 { return c.Puts })
	transferred := rt.Sampler.Rates(func(c *stats.Counts) int64 { return c.Records })
	table["getTransferedTps"], table["getTransferredTps"] = transferred, transferred // 4.x and 5.x spell it differently
	table["getTotalTps"] = rt.Sampler.Rates(func(c *stats.Counts) int64 { return c.Gets })
	table["getFoundTps"] = transferred

	ratio, capacity := diskUse(rt.LogDir)
	table["commitLogDiskRatio"] = strconv.FormatFloat(ratio, 'f', 4, 64)
	table["consumeQueueDiskRatio"] = table["commitLogDiskRatio"]
	table["commitLogDirCapacity"] = capacity
}

func (a *API) describeStore(table map[string]string) {
	at := a.opts.Store.Positions()
	number := func(n message.Offset) string { return strconv.FormatInt(int64(n), 10) }
	table["commitLogMinOffset"] = number(at.Min)
	table["commitLogMaxOffset"] = number(at.End)
	table["dispatchBehindBytes"] = number(at.Readable - at.Dispatched)
	table["remainHowManyDataToFlush"] = number(at.End-at.Flushed) + " B"
	table["remainHowManyDataToCommit"] = number(at.End-at.Committed) + " B"
	if room, size := a.opts.Store.PoolRoom(); size > 0 {
		table["poolRoomBytes"], table["poolBytes"] = strconv.FormatInt(room, 10), strconv.FormatInt(size, 10)
	}
	table["pageCacheLockTimeMills"] = "0"
	table["earliestMessageTimeStamp"] = strconv.FormatInt(a.earliestMessage(at.Min), 10)
}

// earliestMessage is when the log's first record was stored, -1 if there is none.
func (a *API) earliestMessage(at message.Offset) int64 {
	view, ok := a.opts.Store.Record(at)
	if !ok {
		return -1
	}
	defer view.Release()
	timeMS, ok := message.StoreTime(view.Bytes)
	if !ok {
		return -1
	}
	return timeMS
}

// diskUse is how full the file system of dir is, as df counts, and both numbers for people.
func diskUse(dir string) (ratio float64, text string) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return -1, err.Error()
	}
	block := uint64(fs.Bsize)
	used, free := (fs.Blocks-fs.Bfree)*block, fs.Bavail*block
	if used+free == 0 {
		return 0, "0 B"
	}
	return float64(used) / float64(used+free), "Total : " + gib(used+free) + ", Free : " + gib(free) + "."
}

func gib(bytes uint64) string {
	return strconv.FormatFloat(float64(bytes)/(1<<30), 'f', 1, 64) + " GiB"
}

// physicalMemory is the machine's, in bytes.
func physicalMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0 // then no queue counts as young, and new groups start as the consumer says
	}
	return int64(info.Totalram) * int64(info.Unit)
}
