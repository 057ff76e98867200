package engine

import (
	"errors"
	"fmt"
	"slices"

	"ringmq/engine/index"
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// Kinds of keys that Query knows.
const (
	ByKey       = index.Key    // one of KEYS, or the unique key
	ByUniqueKey = index.Unique // the unique key
	ByTag       = index.Tag    // the tags
)

// QueryResult is what a Query found. Release gives back every view, exactly once.
type QueryResult struct {
	Offsets []message.Offset // in the order of the log
	Views   []segment.View   // the whole record of each

	LastOffset message.Offset // the newest record with a key, and
	LastTimeMS int64          // when it was stored
}

// Release gives back the views. A second call does nothing.
func (r *QueryResult) Release() {
	for i := range r.Views {
		r.Views[i].Release()
	}
	r.Views = nil
}

// Query finds the newest messages of a topic with a key that were stored within [beginMS, endMS]: at most max, and maxBytes together unless
// it is one. What retention has removed is not found. It may wait for the disk. An error comes with what was found in spite of it.
func (s *Store) Query(topic, key []byte, kind index.Kind, beginMS, endMS int64, max, maxBytes int) (QueryResult, error) {
	var res QueryResult
	if s.index == nil {
		return res, ErrNoIndex
	}
	res.LastOffset, res.LastTimeMS = s.index.Last()
	total := 0
	visit := func(at message.Offset) bool {
		if at < s.log.Min() {
			return false // and so are all that come behind
		}
		if slices.Contains(res.Offsets, at) {
			return true
		}
		var r message.Record
		view, ok := s.record(at, &r)
		if !ok {
			return true
		}
		if !index.Has(&r, topic, key, kind) || r.StoreTime < beginMS || r.StoreTime > endMS {
			view.Release()
			return true
		}
		if total += int(r.Size); total > maxBytes && len(res.Views) > 0 {
			view.Release()
			return false
		}
		res.Offsets, res.Views = append(res.Offsets, at), append(res.Views, view)
		return len(res.Views) < max
	}
	var err error
	if max > 0 {
		err = s.index.Lookup(index.Hash(topic, key, kind), beginMS, endMS, visit)
	}
	slices.Reverse(res.Offsets)
	slices.Reverse(res.Views)
	if err != nil {
		err = fmt.Errorf("engine: %w", err)
	}
	if errors.Is(err, index.ErrBroken) {
		s.rebuildIndex(err)
	}
	return res, err
}
