package lock

import (
	"slices"
	"testing"
)

func TestLock(t *testing.T) {
	t.Parallel()
	now := int64(1000)
	table := New(func() int64 { return now })
	a, b, c := Queue{"T", "b", 0}, Queue{"T", "b", 1}, Queue{"T", "b", 2}
	check := func(what string, got, want []Queue) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("first", table.Lock("G", "c1", []Queue{a, b}), []Queue{a, b})
	check("again", table.Lock("G", "c1", []Queue{a}), []Queue{a})
	check("other client", table.Lock("G", "c2", []Queue{a, b, c}), []Queue{c})
	check("other group", table.Lock("H", "c2", []Queue{a}), []Queue{a})
	table.Unlock("G", "c2", []Queue{a}) // not its own
	check("still held", table.Lock("G", "c2", []Queue{a}), nil)
	table.Unlock("G", "c1", []Queue{a})
	check("given back", table.Lock("G", "c2", []Queue{a}), []Queue{a})
	now += Life.Milliseconds() - 1
	check("not over yet", table.Lock("G", "c2", []Queue{b}), nil)
	now++
	check("over", table.Lock("G", "c2", []Queue{b}), []Queue{b})
	check("nothing asked", table.Lock("X", "c", nil), nil)
	table.Expire()
	if len(table.groups) != 1 || len(table.groups["G"]) != 1 {
		t.Errorf("left %v", table.groups)
	}
	table.Unlock("G", "c2", []Queue{b})
	table.Unlock("nobody", "c2", []Queue{b})
	if len(table.groups) != 0 {
		t.Errorf("left %v", table.groups)
	}
}
