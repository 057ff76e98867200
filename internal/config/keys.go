package config

// serverKeys are the settings of `ringmq server`. Defaults are those of RocketMQ 5.5 unless the meaning says otherwise.
var serverKeys = []Key{
	// Who the broker is.
	{Name: "brokerClusterName", Default: "DefaultCluster", Meaning: "cluster that the broker registers in"},
	{Name: "brokerName", Meaning: "name of the broker; default: the host name"},
	{Name: "brokerId", Kind: Int, Default: "0", Max: 1 << 31, Meaning: "0 is the master"},
	{Name: "brokerRole", Kind: Choice, Default: "ASYNC_MASTER", Allowed: []string{"ASYNC_MASTER"}, Meaning: "SYNC_MASTER and SLAVE are not built yet"},
	{Name: "brokerPermission", Kind: Int, Default: "6", Max: 7, Meaning: "what the whole broker allows: 4 read + 2 write"},
	{Name: "regionId", Default: "DefaultRegion", Meaning: "MSG_REGION of stored messages"},

	// Where it listens and whom it tells.
	{Name: "listenPort", Kind: Int, Default: "10911", Min: 1, Max: 65535, Meaning: "client port; listenPort-2 is the fast port"},
	{Name: "haListenPort", Kind: Int, Min: 1, Max: 65535, Meaning: "replication port, announced to name servers; default: listenPort+1"},
	{Name: "bindAddress", Meaning: "address to listen on; default: loopback, or 0.0.0.0 when the file names another host"},
	{Name: "brokerIP1", Meaning: "address registered for clients"},
	{Name: "brokerIP2", Meaning: "address registered for slaves; default: brokerIP1"},
	{Name: "namesrvAddr", Meaning: "name servers, host:port separated by ';'; none: an embedded one is started"},
	{Name: "registerNameServerPeriod", Kind: Int, Default: "30000", Min: 10000, Max: 60000, Meaning: "ms between registrations"},
	{Name: "registerBrokerTimeoutMills", Kind: Int, Default: "24000", Min: 100, Max: 600000, Meaning: "ms a name server may take to answer"},
	{Name: "serverChannelMaxIdleTimeSeconds", Kind: Int, Default: "120", Min: 1, Max: 86400, Meaning: "s after which a silent connection is closed"},
	{Name: "channelExpiredTimeout", Kind: Int, Default: "120000", Min: 1000, Max: 86400000, Meaning: "ms without heartbeat after which a client is forgotten"},

	// Where the store is and how it is cut.
	{Name: "storePathRootDir", Default: "${user.home}/store", Meaning: "folder of the store"},
	{Name: "storePathCommitLog", Meaning: "folder of the commit log; default: storePathRootDir/commitlog"},
	{Name: "mappedFileSizeCommitLog", Aliases: []string{"mapedFileSizeCommitLog"}, Kind: Int, Default: "1073741824", Min: 4096, Max: 1 << 30, Meaning: "bytes of a commit-log segment"},
	{Name: "mappedFileSizeConsumeQueue", Aliases: []string{"mapedFileSizeConsumeQueue"}, Kind: Int, Default: "6000000", Min: 20, Max: 1<<30 - 4, Meaning: "bytes of a queue file, rounded up to a multiple of 20"},
	{Name: "messageIndexEnable", Kind: Bool, Default: "true", Meaning: "messages are found by key: QUERY_MESSAGE"},
	{Name: "maxHashSlotNum", Kind: Int, Default: "5000000", Min: 1, Max: 400000000, Meaning: "slots of a key file; other files are built anew"},
	{Name: "maxIndexNum", Kind: Int, Default: "20000000", Min: 2, Max: 100000000, Meaning: "keys of a key file; other files are built anew"},
	{Name: "diskSpaceWarningLevelRatio", Kind: Int, Default: "90", Min: 35, Max: 99, Meaning: "percent of disk used at which sends are refused"},
	{Name: "fileReservedTime", Kind: Int, Default: "72", Max: 1 << 20, Meaning: "hours that a commit-log segment is kept after its last message"},
	{Name: "deleteWhen", Default: "04", Meaning: "hours of the day, local time, when expired segments are removed, such as 04;16"},
	{Name: "diskMaxUsedSpaceRatio", Kind: Int, Default: "75", Min: 1, Max: 99, Meaning: "percent of disk used above which expired segments are removed at any hour"},
	{Name: "diskSpaceCleanForciblyRatio", Kind: Int, Default: "85", Min: 1, Max: 99, Meaning: "percent of disk used above which the oldest segments are removed, expired or not"},
	{Name: "cleanFileForciblyEnable", Kind: Bool, Default: "true", Meaning: "false: no segment is removed before it is expired"},
	{Name: "cleanResourceInterval", Kind: Int, Default: "10000", Min: 10, Max: 86400000, Meaning: "ms between two looks for segments to be removed"},
	{Name: "deleteCommitLogFilesInterval", Kind: Int, Default: "100", Max: 3600000, Meaning: "ms between two removals"},
	{Name: "deleteConsumeQueueFilesInterval", Kind: Int, Default: "100", Max: 3600000, Meaning: "ms behind a queue of which files were removed"},
	{Name: "deleteFileBatchMax", Kind: Int, Default: "10", Min: 1, Max: 1 << 20, Meaning: "segments removed at one look"},
	{Name: "storeType", Kind: Choice, Default: "default", Allowed: []string{"default"}, Meaning: "queues in files; RocksDB is not built"},

	// When it flushes.
	{Name: "flushDiskType", Kind: Choice, Default: "ASYNC_FLUSH", Allowed: []string{"ASYNC_FLUSH", "SYNC_FLUSH"}, Meaning: "SYNC_FLUSH answers when the device has the message"},
	{Name: "syncFlushTimeout", Kind: Int, Default: "5000", Min: 1, Max: 3600000, Meaning: "ms after which a waiting send is answered FLUSH_DISK_TIMEOUT"},
	{Name: "waitTimeMillsInSendQueue", Kind: Int, Default: "1000", Min: 1, Max: 3600000, Meaning: "ms after which a send that waits for room in the commit log is refused (SYSTEM_BUSY) and not stored"},
	{Name: "flushIntervalCommitLog", Kind: Int, Default: "500", Min: 1, Max: 3600000, Meaning: "ms between flushes with ASYNC_FLUSH"},
	{Name: "flushCommitLogTimed", Kind: Bool, Default: "true", Meaning: "flush only by the clock"},
	{Name: "flushCommitLogLeastPages", Kind: Int, Default: "4", Max: 1 << 20, Meaning: "4 KiB pages that make a flush worth while"},
	{Name: "flushCommitLogThoroughInterval", Kind: Int, Default: "10000", Min: 1, Max: 3600000, Meaning: "ms after which any amount is flushed"},
	{Name: "transientStorePoolEnable", Kind: Bool, Default: "false", Meaning: "ASYNC_FLUSH only: answer when the message is in the pool; a kill loses what the commit settings have not written yet"},
	{Name: "transientStorePoolSize", Kind: Int, Default: "5", Min: 1, Max: 1 << 20, Meaning: "the transient pool has so many times mappedFileSizeCommitLog, locked in memory"},
	{Name: "fastFailIfNoBufferInStorePool", Kind: Bool, Default: "false", Meaning: "a send that finds the transient pool full is refused (SYSTEM_BUSY) instead of waiting"},
	{Name: "commitIntervalCommitLog", Kind: Int, Default: "200", Min: 1, Max: 3600000, Meaning: "ms between looks for what the transient pool has to write"},
	{Name: "commitCommitLogLeastPages", Kind: Int, Default: "4", Max: 1 << 20, Meaning: "4 KiB pages that make writing the transient pool out worth while"},
	{Name: "commitCommitLogThoroughInterval", Kind: Int, Default: "200", Min: 1, Max: 3600000, Meaning: "ms after which any amount of the transient pool is written out"},
	{Name: "flushIntervalConsumeQueue", Kind: Int, Default: "1000", Min: 1, Max: 3600000, Meaning: "ms between queue flushes"},
	{Name: "flushConsumeQueueLeastPages", Kind: Int, Default: "2", Max: 1 << 20, Meaning: "4 KiB pages of queue entries that make a flush worth while"},
	{Name: "flushConsumeQueueThoroughInterval", Kind: Int, Default: "60000", Min: 1, Max: 3600000, Meaning: "ms after which any amount of queue entries is flushed"},
	{Name: "flushConsumerOffsetInterval", Kind: Int, Default: "5000", Min: 100, Max: 3600000, Meaning: "ms between saves of consumer offsets"},

	// What clients may do.
	{Name: "maxMessageSize", Kind: Int, Default: "4194304", Min: 1, Max: 1<<30 - 128<<10, Meaning: "bytes of a message body"},
	{Name: "autoCreateTopicEnable", Kind: Bool, Default: "true", Meaning: "a send to an unknown topic makes it after TBW102"},
	{Name: "defaultTopicQueueNums", Kind: Int, Default: "8", Min: 1, Max: 65536, Meaning: "queues of a topic made by a send"},
	{Name: "autoCreateSubscriptionGroup", Kind: Bool, Default: "true", Meaning: "an unknown consumer group is made with defaults"},
	{Name: "clusterTopicEnable", Kind: Bool, Default: "true", Meaning: "a topic named as the cluster exists"},
	{Name: "brokerTopicEnable", Kind: Bool, Default: "true", Meaning: "a topic named as the broker exists"},
	{Name: "messageDelayLevel", Default: "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", Meaning: "lengths of the delay levels (read from Java stores)"},
	{Name: "notifyConsumerIdsChangedEnable", Kind: Bool, Default: "true", Meaning: "tell consumers when their group changes"},
	{Name: "traceOn", Kind: Bool, Default: "true", Meaning: "TRACE_ON of answers"},
	{Name: "traceTopicEnable", Kind: Bool, Default: "false", Meaning: "there is a topic for the clients' message traces"},
	{Name: "msgTraceTopicName", Default: "RMQ_SYS_TRACE_TOPIC", Meaning: "name of the topic for message traces"},

	// How pulls are served.
	{Name: "longPollingEnable", Kind: Bool, Default: "true", Meaning: "a pull at the end of a queue waits"},
	{Name: "shortPollingTimeMills", Kind: Int, Default: "1000", Min: 1, Max: 60000, Meaning: "ms a pull waits without long polling"},
	{Name: "maxTransferCountOnMessageInMemory", Kind: Int, Default: "32", Min: 1, Max: 1 << 20, Meaning: "messages of one pull"},
	{Name: "maxTransferBytesOnMessageInMemory", Kind: Int, Default: "262144", Min: 1, Max: 1 << 30, Meaning: "bytes of one pull; one message always fits"},
	{Name: "litePullMessageEnable", Kind: Bool, Default: "true", Meaning: "serve LITE_PULL_MESSAGE"},

	// ringmq's own.
	{Name: "ringmq.namesrvListenPort", Kind: Int, Default: "9876", Min: 1, Max: 65535, Meaning: "port of the embedded name server"},
	{Name: "ringmq.httpAddress", Kind: Address, Default: "127.0.0.1:10913", Meaning: "metrics, health and pprof; port 0 picks a free one"},
	{Name: "ringmq.appendPath", Kind: Choice, Default: "pool", Allowed: []string{"pool", "mmap"}, Meaning: "pool: appends are copied to locked memory and written out; mmap: stored into the mapped segment"},
	{Name: "ringmq.commitPath", Kind: Choice, Default: "auto", Allowed: []string{"auto", "buffered"}, Meaning: "how the pool is written out; direct is not built yet"},
	{Name: "ringmq.poolSize", Kind: Int, Default: "33554432", Min: 1 << 20, Max: 1 << 36, Meaning: "bytes of the pool that appends are copied to"},
	{Name: "ringmq.zeroSegments", Kind: Bool, Default: "true", Meaning: "write zeros into the next segment ahead of time; doubles the device's writes, keeps flushes short"},
	{Name: "ringmq.groupCommitInterval", Kind: Int, Default: "0", Max: 10000, Meaning: "ms to wait for more senders before a sync flush"},
	{Name: "ringmq.uring", Kind: Choice, Default: "auto", Allowed: []string{"auto", "off"}, Meaning: "io_uring for batches of flushes"},
	{Name: "ringmq.scrubRate", Kind: Int, Default: "16777216", Max: 1 << 40, Meaning: "bytes a second that are read again from full commit-log segments to find bit rot; 0: off"},
	{Name: "ringmq.scrubInterval", Kind: Int, Default: "24", Min: 1, Max: 1 << 16, Meaning: "hours between two looks at the same segment"},
	{Name: "ringmq.allowPending", Kind: Bool, Default: "false", Meaning: "open a Java store that holds delayed, half, timer or pop messages; they stay untouched"},
	{Name: "ringmq.openQueueFiles", Kind: Int, Default: "1024", Min: 16, Max: 1 << 20, Meaning: "descriptors of queue files kept open"},
	{Name: "ringmq.eventLoops", Kind: Int, Default: "0", Max: 1024, Meaning: "network threads; 0: one per CPU"},
	{Name: "ringmq.maxConnections", Kind: Int, Default: "0", Max: 1 << 20, Meaning: "connections beyond it are closed at once; 0: no limit"},
	{Name: "ringmq.outboundLimit", Kind: Int, Default: "16777216", Min: 1 << 16, Max: 1 << 32, Meaning: "bytes that may wait for one connection to read them"},
	{Name: "ringmq.memoryLimit", Kind: Int, Default: "536870912", Min: 1 << 24, Max: 1 << 40, Meaning: "bytes of requests and answers of all connections together"},
}

// namesrvKeys are the settings of `ringmq namesrv`.
var namesrvKeys = []Key{
	{Name: "listenPort", Kind: Int, Default: "9876", Min: 1, Max: 65535, Meaning: "port of the name server"},
	{Name: "bindAddress", Default: "127.0.0.1", Meaning: "address to listen on"},
	{Name: "kvConfigPath", Meaning: "file of the key-value table; none: it is lost at the end"},
}

// absent are keys of RocketMQ for what is not built, with the value that says so. GET_BROKER_CONFIG shows them beside our own: tools take some
// of them for granted. The other keys of RocketMQ, such as the sizes of thread pools, have no value that would be true here.
var absent = map[string]string{
	"enablePropertyFilter":     "false",
	"filterServerNums":         "0",
	"rejectTransactionMessage": "true",
	"slaveReadEnable":          "false",
	"timerWheelEnable":         "false",
}

// refusal is a key of RocketMQ whose absence would weaken durability or access: every value but the harmless one stops the start.
type refusal struct {
	name     string
	harmless string
	why      string
}

var refusals = []refusal{
	{"aclEnable", "false", "access control is not built: the broker would be open to everyone"},
	{"authenticationEnabled", "false", "authentication is not built: the broker would be open to everyone"},
	{"authorizationEnabled", "false", "authorization is not built: the broker would be open to everyone"},
	{"migrateAuthFromV1Enabled", "false", "access control is not built"},
	{"useTLS", "false", "TLS is not built: traffic would be readable"},
	{"enableDLegerCommitLog", "false", "DLedger stores are not supported"},
	{"enableControllerMode", "false", "controller mode is not built: there would be no automatic failover"},
	{"inBrokerContainer", "false", "broker containers are not built"},
	{"readOnlyCommitLogStorePaths", "", "a commit log on several paths is not built"},
	{"messageStorePlugIn", "", "store plug-ins are Java classes"},
}
