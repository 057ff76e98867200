package message

import (
	"bytes"
	"hash/crc32"
	"iter"
)

// Properties are the text that a record keeps of them: name, 0x01, value, 0x02, repeated; the last 0x02 may be missing.
// An item counts only if name and value have at least one byte; the first 0x01 of an item splits it; of two items with
// one name the last counts. The order has no meaning.
const (
	nameEnd  = 0x01
	valueEnd = 0x02
)

// Names of properties that store, broker or clients act on.
const (
	PropertyTags                = "TAGS"
	PropertyKeys                = "KEYS" // separated by blanks
	PropertyUniqueKey           = "UNIQ_KEY"
	PropertyWait                = "WAIT" // "false": the sender does not wait for the store
	PropertyDelay               = "DELAY"
	PropertyRealTopic           = "REAL_TOPIC"
	PropertyRealQueueID         = "REAL_QID"
	PropertyRetryTopic          = "RETRY_TOPIC"
	PropertyOriginMessageID     = "ORIGIN_MESSAGE_ID"
	PropertyReconsumeTime       = "RECONSUME_TIME"
	PropertyMaxReconsumeTimes   = "MAX_RECONSUME_TIMES"
	PropertyConsumeStartTime    = "CONSUME_START_TIME"
	PropertyPrepared            = "TRAN_MSG"
	PropertyProducerGroup       = "PGROUP"
	PropertyCheckTimes          = "TRANSACTION_CHECK_TIMES"
	PropertyPreparedQueueOffset = "TRAN_PREPARED_QUEUE_OFFSET"
	PropertyCheckImmunity       = "CHECK_IMMUNITY_TIME_IN_SECONDS"
	PropertyTransactionID       = "__transactionId__"
	PropertyCluster             = "CLUSTER"
	PropertyRegion              = "MSG_REGION"
	PropertyTraceOn             = "TRACE_ON"
	PropertyInnerNum            = "INNER_NUM"
	PropertyInnerBase           = "INNER_BASE"
	PropertyMultiDispatch       = "INNER_MULTI_DISPATCH"
	PropertyMultiQueueOffset    = "INNER_MULTI_QUEUE_OFFSET"
	PropertyMinOffset           = "MIN_OFFSET"
	PropertyMaxOffset           = "MAX_OFFSET"
	PropertyDupInfo             = "DUP_INFO"
	PropertyTimerDelaySeconds   = "TIMER_DELAY_SEC"
	PropertyTimerDelayMS        = "TIMER_DELAY_MS"
	PropertyTimerDeliverMS      = "TIMER_DELIVER_MS"
	PropertyTimerOutMS          = "TIMER_OUT_MS"
	PropertyTimerEnqueueMS      = "TIMER_ENQUEUE_MS"
	PropertyTimerDequeueMS      = "TIMER_DEQUEUE_MS"
	PropertyTimerRollTimes      = "TIMER_ROLL_TIMES"
	PropertyTimerDeleteKey      = "TIMER_DEL_UNIQKEY"
	PropertyPopCheckPoint       = "POP_CK"
	PropertyFirstPopTime        = "1ST_POP_TIME"
	PropertyCRC                 = "__CRC32#"
	PropertyDLQOriginTopic      = "DLQ_ORIGIN_TOPIC"
	PropertyDLQOriginMessageID  = "DLQ_ORIGIN_MESSAGE_ID"
	PropertyBornHost            = "__BORNHOST"
	PropertyShardingKey         = "__SHARDINGKEY"
)

// Property returns the value of name, as a slice of props.
func Property(props []byte, name string) ([]byte, bool) {
	for end := len(props); end > 0; { // from the back: the last of equal names counts
		if props[end-1] == valueEnd {
			end--
		}
		start := bytes.LastIndexByte(props[:end], valueEnd) + 1
		item := props[start:end:end]
		if len(item) > len(name)+1 && item[len(name)] == nameEnd && string(item[:len(name)]) == name && len(name) > 0 {
			return item[len(name)+1:], true
		}
		end = start
	}
	return nil, false
}

// Properties goes over all items that count, in the order they stand in; both slices are of props. A name may come more
// than once: the last one counts.
func Properties(props []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for len(props) > 0 {
			var item []byte
			item, props = cutItem(props)
			if name, value, ok := splitItem(item); ok && !yield(name, value) {
				return
			}
		}
	}
}

// cutItem takes the first item, without its 0x02, off props.
func cutItem(props []byte) (item, rest []byte) {
	i := bytes.IndexByte(props, valueEnd)
	if i < 0 {
		return props, nil
	}
	return props[:i:i], props[i+1:]
}

func splitItem(item []byte) (name, value []byte, ok bool) {
	i := bytes.IndexByte(item, nameEnd)
	if i <= 0 || i == len(item)-1 {
		return nil, nil, false
	}
	return item[:i:i], item[i+1:], true
}

// AppendProperty appends one item to the properties dst, after the 0x02 that dst may lack at its end. name has neither
// 0x01 nor 0x02, value no 0x02. Without name or value nothing is appended, as no reader would count it.
func AppendProperty(dst []byte, name, value string) []byte {
	if name == "" || value == "" {
		return dst
	}
	if len(dst) > 0 && dst[len(dst)-1] != valueEnd {
		dst = append(dst, valueEnd)
	}
	dst = append(dst, name...)
	dst = append(dst, nameEnd)
	dst = append(dst, value...)
	return append(dst, valueEnd)
}

// AppendPropertiesWithout appends to dst all items of props that count but those of the given names. dst and props do not
// overlap, except that dst may be props[:0].
func AppendPropertiesWithout(dst, props []byte, names ...string) []byte {
	for len(props) > 0 {
		var item []byte
		item, props = cutItem(props)
		name, _, ok := splitItem(item)
		if !ok || contains(names, name) {
			continue
		}
		if len(dst) > 0 && dst[len(dst)-1] != valueEnd {
			dst = append(dst, valueEnd)
		}
		dst = append(dst, item...)
		dst = append(dst, valueEnd)
	}
	return dst
}

func contains(names []string, name []byte) bool {
	for _, n := range names {
		if n == string(name) {
			return true
		}
	}
	return false
}

// propertyCRCLen is the length of the item a 5.x broker may put last into a record: name, 0x01, ten digits, 0x02.
const propertyCRCLen = len(PropertyCRC) + 1 + 10 + 1

// VerifyPropertyCRC looks for the checksum that a 5.x broker with enabledAppendPropCRC writes as the last property of a
// record: over all of the record before that item, in decimal, the least significant digit first, filled with zeros to
// ten. rec is the whole record.
func VerifyPropertyCRC(rec []byte) (present, ok bool) {
	var r Record
	if Decode(rec, &r) != nil || len(r.Properties) < propertyCRCLen {
		return false, false
	}
	item := r.Properties[len(r.Properties)-propertyCRCLen:]
	if before := r.Properties[:len(r.Properties)-propertyCRCLen]; len(before) > 0 && before[len(before)-1] != valueEnd {
		return false, false
	}
	name, digits, _ := splitItem(item[:propertyCRCLen-1])
	if string(name) != PropertyCRC || item[propertyCRCLen-1] != valueEnd {
		return false, false
	}
	crc := crc32.ChecksumIEEE(rec[:len(rec)-propertyCRCLen]) & crcMask
	for _, d := range digits {
		if d != byte('0'+crc%10) {
			return true, false
		}
		crc /= 10
	}
	return true, crc == 0
}
