package remoting

// Codes of requests. Names are the original's, for operators read them in logs and metrics.
const (
	SendMessage                          = 10
	PullMessage                          = 11
	QueryMessage                         = 12
	QueryConsumerOffset                  = 14
	UpdateConsumerOffset                 = 15
	UpdateAndCreateTopic                 = 17
	UpdateAndCreateTopicList             = 18
	GetAllTopicConfig                    = 21
	UpdateBrokerConfig                   = 25
	GetBrokerConfig                      = 26
	GetBrokerRuntimeInfo                 = 28
	SearchOffsetByTimestamp              = 29
	GetMaxOffset                         = 30
	GetMinOffset                         = 31
	GetEarliestMsgStoreTime              = 32
	ViewMessageByID                      = 33
	HeartBeat                            = 34
	UnregisterClient                     = 35
	ConsumerSendMsgBack                  = 36
	EndTransaction                       = 37
	GetConsumerListByGroup               = 38
	CheckTransactionState                = 39
	NotifyConsumerIDsChanged             = 40
	LockBatchMQ                          = 41
	UnlockBatchMQ                        = 42
	GetAllConsumerOffset                 = 43
	GetAllDelayOffset                    = 45
	CheckClientConfig                    = 46
	GetTimerCheckPoint                   = 60
	GetTimerMetrics                      = 61
	PutKVConfig                          = 100
	GetKVConfig                          = 101
	DeleteKVConfig                       = 102
	RegisterBroker                       = 103
	UnregisterBroker                     = 104
	GetRouteInfoByTopic                  = 105
	GetBrokerClusterInfo                 = 106
	UpdateAndCreateSubscriptionGroup     = 200
	GetAllSubscriptionGroupConfig        = 201
	GetTopicStatsInfo                    = 202
	GetConsumerConnectionList            = 203
	GetProducerConnectionList            = 204
	WipeWritePermOfBroker                = 205
	GetAllTopicListFromNameServer        = 206
	DeleteSubscriptionGroup              = 207
	GetConsumeStats                      = 208
	DeleteTopicInBroker                  = 215
	DeleteTopicInNamesrv                 = 216
	RegisterTopicInNamesrv               = 217
	GetKVListByNamespace                 = 219
	ResetConsumerClientOffset            = 220
	GetConsumerStatusFromClient          = 221
	InvokeBrokerToResetOffset            = 222
	InvokeBrokerToGetConsumerStatus      = 223
	GetTopicsByCluster                   = 224
	UpdateAndCreateSubscriptionGroupList = 225
	QueryTopicConsumeByWho               = 300
	QueryConsumeTimeSpan                 = 303
	GetSystemTopicListFromNS             = 304
	GetSystemTopicListFromBroker         = 305
	CleanExpiredConsumeQueue             = 306
	GetConsumerRunningInfo               = 307
	QueryCorrectionOffset                = 308
	ConsumeMessageDirectly               = 309
	SendMessageV2                        = 310
	GetUnitTopicList                     = 311
	GetHasUnitSubTopicList               = 312
	GetHasUnitSubUnunitTopicList         = 313
	CloneGroupOffset                     = 314
	ViewBrokerStatsData                  = 315
	CleanUnusedTopic                     = 316
	GetBrokerConsumeStats                = 317
	UpdateNamesrvConfig                  = 318
	GetNamesrvConfig                     = 319
	SendBatchMessage                     = 320
	QueryConsumeQueue                    = 321
	QueryDataVersion                     = 322
	ResumeCheckHalfMessage               = 323
	SendReplyMessage                     = 324
	SendReplyMessageV2                   = 325
	PushReplyMessageToClient             = 326
	AddWritePermOfBroker                 = 327
	GetAllProducerInfo                   = 328
	DeleteExpiredCommitLog               = 329
	QueryTopicsByConsumer                = 343
	QuerySubscriptionByConsumer          = 345
	GetTopicConfig                       = 351
	GetSubscriptionGroupConfig           = 352
	UpdateAndGetGroupForbidden           = 353
	LitePullMessage                      = 361
	RecallMessage                        = 370
	QueryAssignment                      = 400
	SetMessageRequestMode                = 401
	GetAllMessageRequestMode             = 402
	UpdateAndCreateStaticTopic           = 513
	GetBrokerMemberGroup                 = 901
	AddBroker                            = 902
	RemoveBroker                         = 903
	BrokerHeartbeat                      = 904
	NotifyMinBrokerIDChange              = 905
	ExchangeBrokerHAInfo                 = 906
	GetBrokerHAStatus                    = 907
	ResetMasterFlushOffset               = 908
	UpdateColdDataFlowCtrConfig          = 2001
	RemoveColdDataFlowCtrConfig          = 2002
	GetColdDataFlowCtrInfo               = 2003
	SetCommitLogReadMode                 = 2004
	PopMessage                           = 200050
	AckMessage                           = 200051
	PeekMessage                          = 200052
	ChangeMessageInvisibleTime           = 200053
	Notification                         = 200054
	PollingInfo                          = 200055
	BatchAckMessage                      = 200151
)

// Codes of answers.
const (
	Success                    = 0
	SystemError                = 1
	SystemBusy                 = 2
	RequestCodeNotSupported    = 3
	TransactionFailed          = 4
	FlushDiskTimeout           = 10
	SlaveNotAvailable          = 11
	FlushSlaveTimeout          = 12
	MessageIllegal             = 13
	ServiceNotAvailable        = 14
	VersionNotSupported        = 15
	NoPermission               = 16
	TopicNotExist              = 17
	TopicExistAlready          = 18
	PullNotFound               = 19
	PullRetryImmediately       = 20
	PullOffsetMoved            = 21
	QueryNotFound              = 22
	SubscriptionParseFailed    = 23
	SubscriptionNotExist       = 24
	SubscriptionNotLatest      = 25
	SubscriptionGroupNotExist  = 26
	FilterDataNotExist         = 27
	FilterDataNotLatest        = 28
	InvalidParameter           = 29
	TransactionShouldCommit    = 200
	TransactionShouldRollback  = 201
	TransactionStateUnknown    = 202
	TransactionStateGroupWrong = 203
	NoBuyerID                  = 204
	NotInCurrentUnit           = 205
	ConsumerNotOnline          = 206
	ConsumeMsgTimeout          = 207
	NoMessage                  = 208
	PollingFull                = 209
	PollingTimeout             = 210
	BrokerNotExist             = 211
	BrokerDispatchNotComplete  = 212
	BroadcastConsumption       = 213
	FlowControl                = 215
	NotLeaderForQueue          = 501
	IllegalOperation           = 604
	GoAway                     = 1500
)

// CodeName is the name of a request code in the original's spelling, "" for one that nobody has defined.
func CodeName(code int32) string { return requestNames[code] }

var requestNames = map[int32]string{
	SendMessage:                          "SEND_MESSAGE",
	PullMessage:                          "PULL_MESSAGE",
	QueryMessage:                         "QUERY_MESSAGE",
	QueryConsumerOffset:                  "QUERY_CONSUMER_OFFSET",
	UpdateConsumerOffset:                 "UPDATE_CONSUMER_OFFSET",
	UpdateAndCreateTopic:                 "UPDATE_AND_CREATE_TOPIC",
	UpdateAndCreateTopicList:             "UPDATE_AND_CREATE_TOPIC_LIST",
	GetAllTopicConfig:                    "GET_ALL_TOPIC_CONFIG",
	UpdateBrokerConfig:                   "UPDATE_BROKER_CONFIG",
	GetBrokerConfig:                      "GET_BROKER_CONFIG",
	GetBrokerRuntimeInfo:                 "GET_BROKER_RUNTIME_INFO",
	SearchOffsetByTimestamp:              "SEARCH_OFFSET_BY_TIMESTAMP",
	GetMaxOffset:                         "GET_MAX_OFFSET",
	GetMinOffset:                         "GET_MIN_OFFSET",
	GetEarliestMsgStoreTime:              "GET_EARLIEST_MSG_STORETIME",
	ViewMessageByID:                      "VIEW_MESSAGE_BY_ID",
	HeartBeat:                            "HEART_BEAT",
	UnregisterClient:                     "UNREGISTER_CLIENT",
	ConsumerSendMsgBack:                  "CONSUMER_SEND_MSG_BACK",
	EndTransaction:                       "END_TRANSACTION",
	GetConsumerListByGroup:               "GET_CONSUMER_LIST_BY_GROUP",
	CheckTransactionState:                "CHECK_TRANSACTION_STATE",
	NotifyConsumerIDsChanged:             "NOTIFY_CONSUMER_IDS_CHANGED",
	LockBatchMQ:                          "LOCK_BATCH_MQ",
	UnlockBatchMQ:                        "UNLOCK_BATCH_MQ",
	GetAllConsumerOffset:                 "GET_ALL_CONSUMER_OFFSET",
	GetAllDelayOffset:                    "GET_ALL_DELAY_OFFSET",
	CheckClientConfig:                    "CHECK_CLIENT_CONFIG",
	GetTimerCheckPoint:                   "GET_TIMER_CHECK_POINT",
	GetTimerMetrics:                      "GET_TIMER_METRICS",
	PutKVConfig:                          "PUT_KV_CONFIG",
	GetKVConfig:                          "GET_KV_CONFIG",
	DeleteKVConfig:                       "DELETE_KV_CONFIG",
	RegisterBroker:                       "REGISTER_BROKER",
	UnregisterBroker:                     "UNREGISTER_BROKER",
	GetRouteInfoByTopic:                  "GET_ROUTEINFO_BY_TOPIC",
	GetBrokerClusterInfo:                 "GET_BROKER_CLUSTER_INFO",
	UpdateAndCreateSubscriptionGroup:     "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP",
	GetAllSubscriptionGroupConfig:        "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
	GetTopicStatsInfo:                    "GET_TOPIC_STATS_INFO",
	GetConsumerConnectionList:            "GET_CONSUMER_CONNECTION_LIST",
	GetProducerConnectionList:            "GET_PRODUCER_CONNECTION_LIST",
	WipeWritePermOfBroker:                "WIPE_WRITE_PERM_OF_BROKER",
	GetAllTopicListFromNameServer:        "GET_ALL_TOPIC_LIST_FROM_NAMESERVER",
	DeleteSubscriptionGroup:              "DELETE_SUBSCRIPTIONGROUP",
	GetConsumeStats:                      "GET_CONSUME_STATS",
	DeleteTopicInBroker:                  "DELETE_TOPIC_IN_BROKER",
	DeleteTopicInNamesrv:                 "DELETE_TOPIC_IN_NAMESRV",
	RegisterTopicInNamesrv:               "REGISTER_TOPIC_IN_NAMESRV",
	GetKVListByNamespace:                 "GET_KVLIST_BY_NAMESPACE",
	ResetConsumerClientOffset:            "RESET_CONSUMER_CLIENT_OFFSET",
	GetConsumerStatusFromClient:          "GET_CONSUMER_STATUS_FROM_CLIENT",
	InvokeBrokerToResetOffset:            "INVOKE_BROKER_TO_RESET_OFFSET",
	InvokeBrokerToGetConsumerStatus:      "INVOKE_BROKER_TO_GET_CONSUMER_STATUS",
	GetTopicsByCluster:                   "GET_TOPICS_BY_CLUSTER",
	UpdateAndCreateSubscriptionGroupList: "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST",
	QueryTopicConsumeByWho:               "QUERY_TOPIC_CONSUME_BY_WHO",
	QueryConsumeTimeSpan:                 "QUERY_CONSUME_TIME_SPAN",
	GetSystemTopicListFromNS:             "GET_SYSTEM_TOPIC_LIST_FROM_NS",
	GetSystemTopicListFromBroker:         "GET_SYSTEM_TOPIC_LIST_FROM_BROKER",
	CleanExpiredConsumeQueue:             "CLEAN_EXPIRED_CONSUMEQUEUE",
	GetConsumerRunningInfo:               "GET_CONSUMER_RUNNING_INFO",
	QueryCorrectionOffset:                "QUERY_CORRECTION_OFFSET",
	ConsumeMessageDirectly:               "CONSUME_MESSAGE_DIRECTLY",
	SendMessageV2:                        "SEND_MESSAGE_V2",
	GetUnitTopicList:                     "GET_UNIT_TOPIC_LIST",
	GetHasUnitSubTopicList:               "GET_HAS_UNIT_SUB_TOPIC_LIST",
	GetHasUnitSubUnunitTopicList:         "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST",
	CloneGroupOffset:                     "CLONE_GROUP_OFFSET",
	ViewBrokerStatsData:                  "VIEW_BROKER_STATS_DATA",
	CleanUnusedTopic:                     "CLEAN_UNUSED_TOPIC",
	GetBrokerConsumeStats:                "GET_BROKER_CONSUME_STATS",
	UpdateNamesrvConfig:                  "UPDATE_NAMESRV_CONFIG",
	GetNamesrvConfig:                     "GET_NAMESRV_CONFIG",
	SendBatchMessage:                     "SEND_BATCH_MESSAGE",
	QueryConsumeQueue:                    "QUERY_CONSUME_QUEUE",
	QueryDataVersion:                     "QUERY_DATA_VERSION",
	ResumeCheckHalfMessage:               "RESUME_CHECK_HALF_MESSAGE",
	SendReplyMessage:                     "SEND_REPLY_MESSAGE",
	SendReplyMessageV2:                   "SEND_REPLY_MESSAGE_V2",
	PushReplyMessageToClient:             "PUSH_REPLY_MESSAGE_TO_CLIENT",
	AddWritePermOfBroker:                 "ADD_WRITE_PERM_OF_BROKER",
	GetAllProducerInfo:                   "GET_ALL_PRODUCER_INFO",
	DeleteExpiredCommitLog:               "DELETE_EXPIRED_COMMITLOG",
	QueryTopicsByConsumer:                "QUERY_TOPICS_BY_CONSUMER",
	QuerySubscriptionByConsumer:          "QUERY_SUBSCRIPTION_BY_CONSUMER",
	GetTopicConfig:                       "GET_TOPIC_CONFIG",
	GetSubscriptionGroupConfig:           "GET_SUBSCRIPTIONGROUP_CONFIG",
	UpdateAndGetGroupForbidden:           "UPDATE_AND_GET_GROUP_FORBIDDEN",
	LitePullMessage:                      "LITE_PULL_MESSAGE",
	RecallMessage:                        "RECALL_MESSAGE",
	QueryAssignment:                      "QUERY_ASSIGNMENT",
	SetMessageRequestMode:                "SET_MESSAGE_REQUEST_MODE",
	GetAllMessageRequestMode:             "GET_ALL_MESSAGE_REQUEST_MODE",
	UpdateAndCreateStaticTopic:           "UPDATE_AND_CREATE_STATIC_TOPIC",
	GetBrokerMemberGroup:                 "GET_BROKER_MEMBER_GROUP",
	AddBroker:                            "ADD_BROKER",
	RemoveBroker:                         "REMOVE_BROKER",
	BrokerHeartbeat:                      "BROKER_HEARTBEAT",
	NotifyMinBrokerIDChange:              "NOTIFY_MIN_BROKER_ID_CHANGE",
	ExchangeBrokerHAInfo:                 "EXCHANGE_BROKER_HA_INFO",
	GetBrokerHAStatus:                    "GET_BROKER_HA_STATUS",
	ResetMasterFlushOffset:               "RESET_MASTER_FLUSH_OFFSET",
	UpdateColdDataFlowCtrConfig:          "UPDATE_COLD_DATA_FLOW_CTR_CONFIG",
	RemoveColdDataFlowCtrConfig:          "REMOVE_COLD_DATA_FLOW_CTR_CONFIG",
	GetColdDataFlowCtrInfo:               "GET_COLD_DATA_FLOW_CTR_INFO",
	SetCommitLogReadMode:                 "SET_COMMITLOG_READ_MODE",
	PopMessage:                           "POP_MESSAGE",
	AckMessage:                           "ACK_MESSAGE",
	PeekMessage:                          "PEEK_MESSAGE",
	ChangeMessageInvisibleTime:           "CHANGE_MESSAGE_INVISIBLETIME",
	Notification:                         "NOTIFICATION",
	PollingInfo:                          "POLLING_INFO",
	BatchAckMessage:                      "BATCH_ACK_MESSAGE",
}

// ResponseName is the name of an answer's code in the original's spelling, "" for one that nobody has defined.
func ResponseName(code int32) string { return responseNames[code] }

var responseNames = map[int32]string{
	Success:                    "SUCCESS",
	SystemError:                "SYSTEM_ERROR",
	SystemBusy:                 "SYSTEM_BUSY",
	RequestCodeNotSupported:    "REQUEST_CODE_NOT_SUPPORTED",
	TransactionFailed:          "TRANSACTION_FAILED",
	FlushDiskTimeout:           "FLUSH_DISK_TIMEOUT",
	SlaveNotAvailable:          "SLAVE_NOT_AVAILABLE",
	FlushSlaveTimeout:          "FLUSH_SLAVE_TIMEOUT",
	MessageIllegal:             "MESSAGE_ILLEGAL",
	ServiceNotAvailable:        "SERVICE_NOT_AVAILABLE",
	VersionNotSupported:        "VERSION_NOT_SUPPORTED",
	NoPermission:               "NO_PERMISSION",
	TopicNotExist:              "TOPIC_NOT_EXIST",
	TopicExistAlready:          "TOPIC_EXIST_ALREADY",
	PullNotFound:               "PULL_NOT_FOUND",
	PullRetryImmediately:       "PULL_RETRY_IMMEDIATELY",
	PullOffsetMoved:            "PULL_OFFSET_MOVED",
	QueryNotFound:              "QUERY_NOT_FOUND",
	SubscriptionParseFailed:    "SUBSCRIPTION_PARSE_FAILED",
	SubscriptionNotExist:       "SUBSCRIPTION_NOT_EXIST",
	SubscriptionNotLatest:      "SUBSCRIPTION_NOT_LATEST",
	SubscriptionGroupNotExist:  "SUBSCRIPTION_GROUP_NOT_EXIST",
	FilterDataNotExist:         "FILTER_DATA_NOT_EXIST",
	FilterDataNotLatest:        "FILTER_DATA_NOT_LATEST",
	InvalidParameter:           "INVALID_PARAMETER",
	TransactionShouldCommit:    "TRANSACTION_SHOULD_COMMIT",
	TransactionShouldRollback:  "TRANSACTION_SHOULD_ROLLBACK",
	TransactionStateUnknown:    "TRANSACTION_STATE_UNKNOW",
	TransactionStateGroupWrong: "TRANSACTION_STATE_GROUP_WRONG",
	NoBuyerID:                  "NO_BUYER_ID",
	NotInCurrentUnit:           "NOT_IN_CURRENT_UNIT",
	ConsumerNotOnline:          "CONSUMER_NOT_ONLINE",
	ConsumeMsgTimeout:          "CONSUME_MSG_TIMEOUT",
	NoMessage:                  "NO_MESSAGE",
	PollingFull:                "POLLING_FULL",
	PollingTimeout:             "POLLING_TIMEOUT",
	BrokerNotExist:             "BROKER_NOT_EXIST",
	BrokerDispatchNotComplete:  "BROKER_DISPATCH_NOT_COMPLETE",
	BroadcastConsumption:       "BROADCAST_CONSUMPTION",
	FlowControl:                "FLOW_CONTROL",
	NotLeaderForQueue:          "NOT_LEADER_FOR_QUEUE",
	IllegalOperation:           "ILLEGAL_OPERATION",
	GoAway:                     "GO_AWAY",
}
