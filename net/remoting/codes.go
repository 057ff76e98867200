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
func CodeName(code int32) string {
	switch code {
	case SendMessage:
		return "SEND_MESSAGE"
	case PullMessage:
		return "PULL_MESSAGE"
	case QueryMessage:
		return "QUERY_MESSAGE"
	case QueryConsumerOffset:
		return "QUERY_CONSUMER_OFFSET"
	case UpdateConsumerOffset:
		return "UPDATE_CONSUMER_OFFSET"
	case UpdateAndCreateTopic:
		return "UPDATE_AND_CREATE_TOPIC"
	case UpdateAndCreateTopicList:
		return "UPDATE_AND_CREATE_TOPIC_LIST"
	case GetAllTopicConfig:
		return "GET_ALL_TOPIC_CONFIG"
	case UpdateBrokerConfig:
		return "UPDATE_BROKER_CONFIG"
	case GetBrokerConfig:
		return "GET_BROKER_CONFIG"
	case GetBrokerRuntimeInfo:
		return "GET_BROKER_RUNTIME_INFO"
	case SearchOffsetByTimestamp:
		return "SEARCH_OFFSET_BY_TIMESTAMP"
	case GetMaxOffset:
		return "GET_MAX_OFFSET"
	case GetMinOffset:
		return "GET_MIN_OFFSET"
	case GetEarliestMsgStoreTime:
		return "GET_EARLIEST_MSG_STORETIME"
	case ViewMessageByID:
		return "VIEW_MESSAGE_BY_ID"
	case HeartBeat:
		return "HEART_BEAT"
	case UnregisterClient:
		return "UNREGISTER_CLIENT"
	case ConsumerSendMsgBack:
		return "CONSUMER_SEND_MSG_BACK"
	case EndTransaction:
		return "END_TRANSACTION"
	case GetConsumerListByGroup:
		return "GET_CONSUMER_LIST_BY_GROUP"
	case CheckTransactionState:
		return "CHECK_TRANSACTION_STATE"
	case NotifyConsumerIDsChanged:
		return "NOTIFY_CONSUMER_IDS_CHANGED"
	case LockBatchMQ:
		return "LOCK_BATCH_MQ"
	case UnlockBatchMQ:
		return "UNLOCK_BATCH_MQ"
	case GetAllConsumerOffset:
		return "GET_ALL_CONSUMER_OFFSET"
	case GetAllDelayOffset:
		return "GET_ALL_DELAY_OFFSET"
	case CheckClientConfig:
		return "CHECK_CLIENT_CONFIG"
	case GetTimerCheckPoint:
		return "GET_TIMER_CHECK_POINT"
	case GetTimerMetrics:
		return "GET_TIMER_METRICS"
	case PutKVConfig:
		return "PUT_KV_CONFIG"
	case GetKVConfig:
		return "GET_KV_CONFIG"
	case DeleteKVConfig:
		return "DELETE_KV_CONFIG"
	case RegisterBroker:
		return "REGISTER_BROKER"
	case UnregisterBroker:
		return "UNREGISTER_BROKER"
	case GetRouteInfoByTopic:
		return "GET_ROUTEINFO_BY_TOPIC"
	case GetBrokerClusterInfo:
		return "GET_BROKER_CLUSTER_INFO"
	case UpdateAndCreateSubscriptionGroup:
		return "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP"
	case GetAllSubscriptionGroupConfig:
		return "GET_ALL_SUBSCRIPTIONGROUP_CONFIG"
	case GetTopicStatsInfo:
		return "GET_TOPIC_STATS_INFO"
	case GetConsumerConnectionList:
		return "GET_CONSUMER_CONNECTION_LIST"
	case GetProducerConnectionList:
		return "GET_PRODUCER_CONNECTION_LIST"
	case WipeWritePermOfBroker:
		return "WIPE_WRITE_PERM_OF_BROKER"
	case GetAllTopicListFromNameServer:
		return "GET_ALL_TOPIC_LIST_FROM_NAMESERVER"
	case DeleteSubscriptionGroup:
		return "DELETE_SUBSCRIPTIONGROUP"
	case GetConsumeStats:
		return "GET_CONSUME_STATS"
	case DeleteTopicInBroker:
		return "DELETE_TOPIC_IN_BROKER"
	case DeleteTopicInNamesrv:
		return "DELETE_TOPIC_IN_NAMESRV"
	case RegisterTopicInNamesrv:
		return "REGISTER_TOPIC_IN_NAMESRV"
	case GetKVListByNamespace:
		return "GET_KVLIST_BY_NAMESPACE"
	case ResetConsumerClientOffset:
		return "RESET_CONSUMER_CLIENT_OFFSET"
	case GetConsumerStatusFromClient:
		return "GET_CONSUMER_STATUS_FROM_CLIENT"
	case InvokeBrokerToResetOffset:
		return "INVOKE_BROKER_TO_RESET_OFFSET"
	case InvokeBrokerToGetConsumerStatus:
		return "INVOKE_BROKER_TO_GET_CONSUMER_STATUS"
	case GetTopicsByCluster:
		return "GET_TOPICS_BY_CLUSTER"
	case UpdateAndCreateSubscriptionGroupList:
		return "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST"
	case QueryTopicConsumeByWho:
		return "QUERY_TOPIC_CONSUME_BY_WHO"
	case QueryConsumeTimeSpan:
		return "QUERY_CONSUME_TIME_SPAN"
	case GetSystemTopicListFromNS:
		return "GET_SYSTEM_TOPIC_LIST_FROM_NS"
	case GetSystemTopicListFromBroker:
		return "GET_SYSTEM_TOPIC_LIST_FROM_BROKER"
	case CleanExpiredConsumeQueue:
		return "CLEAN_EXPIRED_CONSUMEQUEUE"
	case GetConsumerRunningInfo:
		return "GET_CONSUMER_RUNNING_INFO"
	case QueryCorrectionOffset:
		return "QUERY_CORRECTION_OFFSET"
	case ConsumeMessageDirectly:
		return "CONSUME_MESSAGE_DIRECTLY"
	case SendMessageV2:
		return "SEND_MESSAGE_V2"
	case GetUnitTopicList:
		return "GET_UNIT_TOPIC_LIST"
	case GetHasUnitSubTopicList:
		return "GET_HAS_UNIT_SUB_TOPIC_LIST"
	case GetHasUnitSubUnunitTopicList:
		return "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST"
	case CloneGroupOffset:
		return "CLONE_GROUP_OFFSET"
	case ViewBrokerStatsData:
		return "VIEW_BROKER_STATS_DATA"
	case CleanUnusedTopic:
		return "CLEAN_UNUSED_TOPIC"
	case GetBrokerConsumeStats:
		return "GET_BROKER_CONSUME_STATS"
	case UpdateNamesrvConfig:
		return "UPDATE_NAMESRV_CONFIG"
	case GetNamesrvConfig:
		return "GET_NAMESRV_CONFIG"
	case SendBatchMessage:
		return "SEND_BATCH_MESSAGE"
	case QueryConsumeQueue:
		return "QUERY_CONSUME_QUEUE"
	case QueryDataVersion:
		return "QUERY_DATA_VERSION"
	case ResumeCheckHalfMessage:
		return "RESUME_CHECK_HALF_MESSAGE"
	case SendReplyMessage:
		return "SEND_REPLY_MESSAGE"
	case SendReplyMessageV2:
		return "SEND_REPLY_MESSAGE_V2"
	case PushReplyMessageToClient:
		return "PUSH_REPLY_MESSAGE_TO_CLIENT"
	case AddWritePermOfBroker:
		return "ADD_WRITE_PERM_OF_BROKER"
	case GetAllProducerInfo:
		return "GET_ALL_PRODUCER_INFO"
	case DeleteExpiredCommitLog:
		return "DELETE_EXPIRED_COMMITLOG"
	case QueryTopicsByConsumer:
		return "QUERY_TOPICS_BY_CONSUMER"
	case QuerySubscriptionByConsumer:
		return "QUERY_SUBSCRIPTION_BY_CONSUMER"
	case GetTopicConfig:
		return "GET_TOPIC_CONFIG"
	case GetSubscriptionGroupConfig:
		return "GET_SUBSCRIPTIONGROUP_CONFIG"
	case UpdateAndGetGroupForbidden:
		return "UPDATE_AND_GET_GROUP_FORBIDDEN"
	case LitePullMessage:
		return "LITE_PULL_MESSAGE"
	case RecallMessage:
		return "RECALL_MESSAGE"
	case QueryAssignment:
		return "QUERY_ASSIGNMENT"
	case SetMessageRequestMode:
		return "SET_MESSAGE_REQUEST_MODE"
	case GetAllMessageRequestMode:
		return "GET_ALL_MESSAGE_REQUEST_MODE"
	case UpdateAndCreateStaticTopic:
		return "UPDATE_AND_CREATE_STATIC_TOPIC"
	case GetBrokerMemberGroup:
		return "GET_BROKER_MEMBER_GROUP"
	case AddBroker:
		return "ADD_BROKER"
	case RemoveBroker:
		return "REMOVE_BROKER"
	case BrokerHeartbeat:
		return "BROKER_HEARTBEAT"
	case NotifyMinBrokerIDChange:
		return "NOTIFY_MIN_BROKER_ID_CHANGE"
	case ExchangeBrokerHAInfo:
		return "EXCHANGE_BROKER_HA_INFO"
	case GetBrokerHAStatus:
		return "GET_BROKER_HA_STATUS"
	case ResetMasterFlushOffset:
		return "RESET_MASTER_FLUSH_OFFSET"
	case UpdateColdDataFlowCtrConfig:
		return "UPDATE_COLD_DATA_FLOW_CTR_CONFIG"
	case RemoveColdDataFlowCtrConfig:
		return "REMOVE_COLD_DATA_FLOW_CTR_CONFIG"
	case GetColdDataFlowCtrInfo:
		return "GET_COLD_DATA_FLOW_CTR_INFO"
	case SetCommitLogReadMode:
		return "SET_COMMITLOG_READ_MODE"
	case PopMessage:
		return "POP_MESSAGE"
	case AckMessage:
		return "ACK_MESSAGE"
	case PeekMessage:
		return "PEEK_MESSAGE"
	case ChangeMessageInvisibleTime:
		return "CHANGE_MESSAGE_INVISIBLETIME"
	case Notification:
		return "NOTIFICATION"
	case PollingInfo:
		return "POLLING_INFO"
	case BatchAckMessage:
		return "BATCH_ACK_MESSAGE"
	}
	return ""
}

// ResponseName is the name of an answer's code in the original's spelling, "" for one that nobody has defined.
func ResponseName(code int32) string {
	switch code {
	case Success:
		return "SUCCESS"
	case SystemError:
		return "SYSTEM_ERROR"
	case SystemBusy:
		return "SYSTEM_BUSY"
	case RequestCodeNotSupported:
		return "REQUEST_CODE_NOT_SUPPORTED"
	case TransactionFailed:
		return "TRANSACTION_FAILED"
	case FlushDiskTimeout:
		return "FLUSH_DISK_TIMEOUT"
	case SlaveNotAvailable:
		return "SLAVE_NOT_AVAILABLE"
	case FlushSlaveTimeout:
		return "FLUSH_SLAVE_TIMEOUT"
	case MessageIllegal:
		return "MESSAGE_ILLEGAL"
	case ServiceNotAvailable:
		return "SERVICE_NOT_AVAILABLE"
	case VersionNotSupported:
		return "VERSION_NOT_SUPPORTED"
	case NoPermission:
		return "NO_PERMISSION"
	case TopicNotExist:
		return "TOPIC_NOT_EXIST"
	case TopicExistAlready:
		return "TOPIC_EXIST_ALREADY"
	case PullNotFound:
		return "PULL_NOT_FOUND"
	case PullRetryImmediately:
		return "PULL_RETRY_IMMEDIATELY"
	case PullOffsetMoved:
		return "PULL_OFFSET_MOVED"
	case QueryNotFound:
		return "QUERY_NOT_FOUND"
	case SubscriptionParseFailed:
		return "SUBSCRIPTION_PARSE_FAILED"
	case SubscriptionNotExist:
		return "SUBSCRIPTION_NOT_EXIST"
	case SubscriptionNotLatest:
		return "SUBSCRIPTION_NOT_LATEST"
	case SubscriptionGroupNotExist:
		return "SUBSCRIPTION_GROUP_NOT_EXIST"
	case FilterDataNotExist:
		return "FILTER_DATA_NOT_EXIST"
	case FilterDataNotLatest:
		return "FILTER_DATA_NOT_LATEST"
	case InvalidParameter:
		return "INVALID_PARAMETER"
	case TransactionShouldCommit:
		return "TRANSACTION_SHOULD_COMMIT"
	case TransactionShouldRollback:
		return "TRANSACTION_SHOULD_ROLLBACK"
	case TransactionStateUnknown:
		return "TRANSACTION_STATE_UNKNOW"
	case TransactionStateGroupWrong:
		return "TRANSACTION_STATE_GROUP_WRONG"
	case NoBuyerID:
		return "NO_BUYER_ID"
	case NotInCurrentUnit:
		return "NOT_IN_CURRENT_UNIT"
	case ConsumerNotOnline:
		return "CONSUMER_NOT_ONLINE"
	case ConsumeMsgTimeout:
		return "CONSUME_MSG_TIMEOUT"
	case NoMessage:
		return "NO_MESSAGE"
	case PollingFull:
		return "POLLING_FULL"
	case PollingTimeout:
		return "POLLING_TIMEOUT"
	case BrokerNotExist:
		return "BROKER_NOT_EXIST"
	case BrokerDispatchNotComplete:
		return "BROKER_DISPATCH_NOT_COMPLETE"
	case BroadcastConsumption:
		return "BROADCAST_CONSUMPTION"
	case FlowControl:
		return "FLOW_CONTROL"
	case NotLeaderForQueue:
		return "NOT_LEADER_FOR_QUEUE"
	case IllegalOperation:
		return "ILLEGAL_OPERATION"
	case GoAway:
		return "GO_AWAY"
	}
	return ""
}
