// Package fastjson reads the JSON that RocketMQ's Java side writes. Its library leaves the quotes away from map keys that are
// numbers ({0:1,1:2}) and writes a map whose keys are objects as {{"queueId":0}:1}; neither is JSON. The package rewrites such
// text to legal JSON and leaves the rest to encoding/json. It writes nothing: what ringmq writes is legal JSON, which the Java
// side reads.
package fastjson

import (
	"encoding/json"
	"fmt"
)

const (
	// MaxSize bounds the text in bytes; the rewritten copy is at most about twice as large.
	MaxSize = 256 << 20
	// MaxDepth bounds how deep objects and lists may be nested, keys included.
	MaxDepth = 64
)

// Unmarshal is json.Unmarshal for text of fastjson. A key that is a number or an object becomes a string key with the same text
// (an object key: its text as legal JSON).
func Unmarshal(data []byte, v any) error {
	text, err := Standard(data)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("fastjson: %w", err)
	}
	return nil
}

// Standard returns data with every key quoted: data itself when there is nothing to rewrite, else a copy. It does not check that
// the rest is JSON; it fails only for text that is too large, too deep, or ends inside a key.
func Standard(data []byte) ([]byte, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("fastjson: text of %d bytes, at most %d are read", len(data), MaxSize)
	}
	w := rewriter{in: data}
	if err := w.run(0, len(data)); err != nil {
		return nil, err
	}
	if w.out == nil {
		return data, nil
	}
	return append(w.out, data[w.done:]...), nil
}

// rewriter copies in to out as soon as a first key needs quotes. in[:done] stands in out already.
type rewriter struct {
	in    []byte
	done  int
	out   []byte
	depth int // open containers, those around an object key included
}

// run walks in[from:to], which is the whole text or one object that serves as a key.
func (w *rewriter) run(from, to int) error {
	var objects [MaxDepth + 1]bool // by depth: an object, not a list
	base := w.depth
	key := false // the next token is a key
	for i := from; i < to; {
		switch c := w.in[i]; {
		case c == '"':
			i = stringEnd(w.in, i, to)
			key = false
		case key && (c == '-' || c >= '0' && c <= '9'):
			end := numberEnd(w.in, i, to)
			w.quote(i, end, w.in[i:end])
			i, key = end, false
		case key && c == '{':
			end, err := w.objectKey(i, to)
			if err != nil {
				return err
			}
			i, key = end, false
		case c == '{' || c == '[':
			if w.depth == MaxDepth {
				return fmt.Errorf("fastjson: byte %d: nested deeper than %d", i, MaxDepth)
			}
			w.depth++
			objects[w.depth] = c == '{'
			key = c == '{'
			i++
		case c == '}' || c == ']':
			if w.depth > base {
				w.depth--
			}
			key = false
			i++
		case c == ',':
			key = w.depth > base && objects[w.depth]
			i++
		default:
			i++
		}
	}
	w.depth = base
	return nil
}

// objectKey replaces the object that begins at from and stands where a key belongs by a string with its text, and returns its end.
func (w *rewriter) objectKey(from, to int) (int, error) {
	end, err := objectEnd(w.in, from, to)
	if err != nil {
		return 0, err
	}
	inner := rewriter{in: w.in[:end], done: from, depth: w.depth}
	if err := inner.run(from, end); err != nil {
		return 0, err
	}
	text := append(inner.out, w.in[inner.done:end]...)
	w.quote(from, end, text)
	return end, nil
}

// quote writes text as a string in place of in[from:to].
func (w *rewriter) quote(from, to int, text []byte) {
	if w.out == nil {
		w.out = make([]byte, 0, len(w.in)+len(w.in)/4+16)
	}
	w.out = append(w.out, w.in[w.done:from]...)
	w.out = append(w.out, '"')
	for _, c := range text {
		if c == '"' || c == '\\' {
			w.out = append(w.out, '\\')
		}
		w.out = append(w.out, c)
	}
	w.out = append(w.out, '"')
	w.done = to
}

// stringEnd returns the place behind the string that begins at i, to if it does not end.
func stringEnd(b []byte, i, to int) int {
	for i++; i < to; i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return to
}

func numberEnd(b []byte, i, to int) int {
	for i++; i < to && b[i] >= '0' && b[i] <= '9'; i++ {
	}
	return i
}

// objectEnd returns the place behind the object that begins at from. Brackets of lists are counted as well, so that text that
// opens more than it closes is never taken for a key.
func objectEnd(b []byte, from, to int) (int, error) {
	depth := 0
	for i := from; i < to; {
		switch b[i] {
		case '"':
			i = stringEnd(b, i, to)
			continue
		case '{', '[':
			if depth++; depth > MaxDepth {
				return 0, fmt.Errorf("fastjson: byte %d: nested deeper than %d", i, MaxDepth)
			}
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, nil
			}
		}
		i++
	}
	return 0, fmt.Errorf("fastjson: byte %d: the object that serves as a key does not end", from)
}
