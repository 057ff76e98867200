package config

// when tells when a change of a key by request takes effect.
type when uint8

const (
	never   when = iota // the file or the command line alone can change it
	now                 // while the broker runs
	restart             // kept, and in effect from the next start on
)

// change is what a request may do to a key.
type change struct {
	when when
	why  string // of never
}

const (
	identity  = "clients, other brokers and the files of the store know the broker by it"
	reachable = "it decides who reaches the broker"
	place     = "it says where files are"
	cut       = "the files that are there are cut by it"
	oneStart  = "it is consent to one start"
)

// changes has a line for every key of serverKeys.
var changes = map[string]change{
	"brokerClusterName":               {never, identity},
	"brokerName":                      {never, identity},
	"brokerId":                        {never, identity},
	"brokerRole":                      {never, identity},
	"brokerPermission":                {when: now},
	"regionId":                        {when: restart},
	"listenPort":                      {never, reachable},
	"haListenPort":                    {never, reachable},
	"bindAddress":                     {never, reachable},
	"brokerIP1":                       {never, reachable},
	"brokerIP2":                       {never, reachable},
	"namesrvAddr":                     {never, reachable},
	"registerNameServerPeriod":        {when: restart},
	"registerBrokerTimeoutMills":      {when: restart},
	"serverChannelMaxIdleTimeSeconds": {when: restart},
	"channelExpiredTimeout":           {when: restart},

	"storePathRootDir":                {never, place},
	"storePathCommitLog":              {never, place},
	"mappedFileSizeCommitLog":         {never, cut},
	"mappedFileSizeConsumeQueue":      {never, cut},
	"messageIndexEnable":              {when: restart},
	"maxHashSlotNum":                  {when: restart},
	"maxIndexNum":                     {when: restart},
	"diskSpaceWarningLevelRatio":      {when: now},
	"fileReservedTime":                {when: now},
	"deleteWhen":                      {when: now},
	"diskMaxUsedSpaceRatio":           {when: now},
	"diskSpaceCleanForciblyRatio":     {when: now},
	"cleanFileForciblyEnable":         {when: now},
	"cleanResourceInterval":           {when: now},
	"deleteCommitLogFilesInterval":    {when: now},
	"deleteFileBatchMax":              {when: now},
	"deleteConsumeQueueFilesInterval": {when: now},
	"storeType":                       {never, cut},

	"flushDiskType":                     {when: restart},
	"syncFlushTimeout":                  {when: now},
	"waitTimeMillsInSendQueue":          {when: now},
	"flushIntervalCommitLog":            {when: now},
	"flushCommitLogTimed":               {when: now},
	"flushCommitLogLeastPages":          {when: now},
	"flushCommitLogThoroughInterval":    {when: now},
	"transientStorePoolEnable":          {when: restart},
	"transientStorePoolSize":            {when: restart},
	"fastFailIfNoBufferInStorePool":     {when: now},
	"commitIntervalCommitLog":           {when: now},
	"commitCommitLogLeastPages":         {when: now},
	"commitCommitLogThoroughInterval":   {when: now},
	"flushIntervalConsumeQueue":         {when: now},
	"flushConsumeQueueLeastPages":       {when: now},
	"flushConsumeQueueThoroughInterval": {when: now},
	"flushConsumerOffsetInterval":       {when: restart},

	"maxMessageSize":                 {when: now},
	"autoCreateTopicEnable":          {when: now},
	"defaultTopicQueueNums":          {when: restart},
	"autoCreateSubscriptionGroup":    {when: now},
	"clusterTopicEnable":             {when: restart},
	"brokerTopicEnable":              {when: restart},
	"messageDelayLevel":              {when: restart},
	"notifyConsumerIdsChangedEnable": {when: now},
	"traceOn":                        {when: now},
	"traceTopicEnable":               {when: restart},
	"msgTraceTopicName":              {when: restart},

	"longPollingEnable":                 {when: now},
	"shortPollingTimeMills":             {when: now},
	"maxTransferCountOnMessageInMemory": {when: now},
	"maxTransferBytesOnMessageInMemory": {when: now},
	"litePullMessageEnable":             {when: now},

	"ringmq.namesrvListenPort":   {never, reachable},
	"ringmq.httpAddress":         {never, reachable},
	"ringmq.appendPath":          {when: restart},
	"ringmq.commitPath":          {when: restart},
	"ringmq.poolSize":            {when: restart},
	"ringmq.zeroSegments":        {when: restart},
	"ringmq.groupCommitInterval": {when: now},
	"ringmq.uring":               {when: restart},
	"ringmq.scrubRate":           {when: now},
	"ringmq.scrubInterval":       {when: now},
	"ringmq.allowPending":        {never, oneStart},
	"ringmq.eventLoops":          {when: restart},
	"ringmq.outboundLimit":       {when: restart},
	"ringmq.memoryLimit":         {when: restart},
	"ringmq.maxConnections":      {when: restart},
	"ringmq.openQueueFiles":      {when: restart},
}
