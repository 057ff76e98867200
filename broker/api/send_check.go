package api

import (
	"ringmq/engine/message"
	"ringmq/net/remoting"
)

// hostFlags are set by the codec from the addresses, whatever the client says.
const hostFlags = message.SysFlagBornHostV6 | message.SysFlagStoreHostV6

// timerPrefix begins the properties of messages that are to be delivered at a moment.
const timerPrefix = "TIMER_"

// checkSysFlag refuses kinds of messages that are not built: to store one as if it were another would change its meaning.
func checkSysFlag(sysFlag int32) *refusal {
	switch {
	case sysFlag&message.SysFlagTransactionMask != 0:
		return refused(remoting.NoPermission,
			"sysFlag %#x says transaction: transactional messages are not supported by this version of ringmq", sysFlag)
	case sysFlag&(message.SysFlagInnerBatch|message.SysFlagNeedUnwrap) != 0:
		return refused(remoting.SystemError,
			"sysFlag %#x says inner batch: batches in one record are not supported by this version of ringmq", sysFlag)
	}
	return nil
}

// scanned is what a message's properties mean to the broker.
type scanned struct {
	noWait bool // WAIT=false
	unique bool // has a UNIQ_KEY
	own    bool // has a property that the broker sets itself
}

// scan looks at all properties once, and refuses the message for one that asks for something that is not built.
func scan(properties []byte) (found scanned, why *refusal) {
	for name, value := range message.Properties(properties) {
		switch string(name) {
		case message.PropertyWait:
			found.noWait = !remoting.IsTrue(value)
		case message.PropertyUniqueKey:
			found.unique = true
		case message.PropertyRegion, message.PropertyTraceOn, message.PropertyCluster:
			found.own = true
		case message.PropertyDelay:
			if string(value) != "0" && value[0] != '-' { // as in the original, no level below 1 is a delay
				return found, refused(remoting.SystemError,
					"property DELAY is %.32q: delayed messages are not supported by this version of ringmq", value)
			}
		case message.PropertyPrepared:
			if remoting.IsTrue(value) {
				return found, refused(remoting.NoPermission,
					"property TRAN_MSG is true: transactional messages are not supported by this version of ringmq")
			}
		default:
			if len(name) > len(timerPrefix) && string(name[:len(timerPrefix)]) == timerPrefix {
				return found, refused(remoting.SystemError,
					"property %.64s is set: timer messages are not supported by this version of ringmq", name)
			}
		}
	}
	return found, nil
}
