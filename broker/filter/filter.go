// Package filter holds what a consumer subscribes to: tags, compared by their hash as the queue entries keep it. What compares
// equal by hash but not by text is sorted out by the client.
package filter

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ringmq/engine/message"
)

// Types of expressions.
const (
	TypeTag = "TAG"
	TypeSQL = "SQL92"
)

// MaxTags bounds the tags of one expression; the clients' own habit is a handful.
const MaxTags = 1024

// Tags is a subscription by tags; nil and the zero value match everything. It never changes.
type Tags struct {
	Names []string // as in the expression, without doubles; empty: every message
	codes []int32
}

// Parse reads an expression of tags: nothing, or "*" anywhere in it, for all, else names joined by "||".
func Parse(expression string) (*Tags, error) {
	expression = strings.TrimSpace(expression)
	if expression == "" {
		return &Tags{}, nil
	}
	t := &Tags{}
	for name := range strings.SplitSeq(expression, "||") {
		name = strings.TrimSpace(name)
		if name == "*" {
			return &Tags{}, nil
		}
		if name == "" || slices.Contains(t.Names, name) {
			continue
		}
		if len(t.Names) == MaxTags {
			return nil, fmt.Errorf("filter: expression with more than %d tags", MaxTags)
		}
		t.Names = append(t.Names, name)
		t.codes = append(t.codes, message.JavaHash(0, []byte(name)))
	}
	if len(t.Names) == 0 {
		return nil, errors.New(`filter: expression of nothing but "||": at least one tag is needed`)
	}
	return t, nil
}

// Match tells whether an entry with that tags code may be of interest.
func (t *Tags) Match(tagsCode int64) bool {
	if t == nil || len(t.codes) == 0 {
		return true
	}
	return slices.Contains(t.codes, int32(tagsCode))
}

// All tells that every message matches, so that nobody needs to ask.
func (t *Tags) All() bool { return t == nil || len(t.codes) == 0 }

// Codes are the hashes of Names, in the same order.
func (t *Tags) Codes() []int32 {
	if t == nil {
		return nil
	}
	return slices.Clone(t.codes)
}
