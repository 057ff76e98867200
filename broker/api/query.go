package api

import (
	"fmt"

	"ringmq/engine"
	"ringmq/engine/index"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

const (
	// uniqueKeyMax is how many messages are asked for by a unique key, whatever the request says (defaultQueryMaxNum).
	uniqueKeyMax = 32
	// queryMax is the most that one query is answered with (maxMsgsNumBatch), and queryBytes the most bytes if it is more than one: clients
	// take no frame above 16 MiB.
	queryMax   = 64
	queryBytes = 15 << 20
)

func queryRoutes() map[int32]route {
	return map[int32]route{remoting.QueryMessage: {handle: (*API).queryMessage, slow: true}}
}

// query is what a QUERY_MESSAGE asks.
type query struct {
	topic, key     []byte
	kind           index.Kind
	max            int32
	beginMS, endMS int64
}

// queryOf reads the fields. indexType came with 5.x; before it _UNIQUE_KEY_QUERY told the two kinds apart.
func queryOf(c *remoting.Command) (q query, err error) {
	var ok bool
	if q.topic, ok = c.Field("topic"); !ok || len(q.topic) == 0 {
		return q, fmt.Errorf(`ext field "topic" is missing`)
	}
	if q.key, ok = c.Field("key"); !ok || len(q.key) == 0 {
		return q, fmt.Errorf(`ext field "key" is missing`)
	}
	if q.max, err = int32Of(c, "maxNum"); err != nil {
		return q, err
	}
	if q.beginMS, err = c.Int("beginTimestamp"); err != nil {
		return q, err
	}
	if q.endMS, err = c.Int("endTimestamp"); err != nil {
		return q, err
	}
	unique, _ := c.Field("_UNIQUE_KEY_QUERY")
	switch kind := c.Str("indexType"); {
	case kind == "T":
		q.kind = engine.ByTag
	case kind == "U" || remoting.IsTrue(unique):
		q.kind, q.max = engine.ByUniqueKey, uniqueKeyMax
	case kind == "" || kind == "K":
		q.kind = engine.ByKey
	default:
		return q, fmt.Errorf("indexType is %.32q, allowed are K, U and T", kind)
	}
	q.max = min(max(q.max, 0), queryMax)
	return q, nil
}

// queryMessage handles 12: the newest messages with a key, in the order of the log.
func (a *API) queryMessage(c *remoting.Command, r server.Reply) {
	q, err := queryOf(c)
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	found, err := a.opts.Store.Query(q.topic, q.key, q.kind, q.beginMS, q.endMS, int(q.max), queryBytes)
	switch {
	case len(found.Views) > 0:
		a.answerQuery(r, &found)
	case err != nil:
		refuse(r, remoting.QueryNotFound, "can not find message: %v", err)
	default:
		refuse(r, remoting.QueryNotFound, "can not find message, maybe time range not correct")
	}
}

func (a *API) answerQuery(r server.Reply, found *engine.QueryResult) {
	var answer remoting.Command
	answer.Reset()
	answer.SetInt("indexLastUpdateTimestamp", found.LastTimeMS)
	answer.SetInt("indexLastUpdatePhyoffset", int64(found.LastOffset))
	pieces := make([][]byte, len(found.Views))
	for i := range found.Views {
		pieces[i] = found.Views[i].Bytes
	}
	r.WriteBody(&answer, pieces, found)
}
