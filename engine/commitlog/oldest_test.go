package commitlog

import (
	"errors"
	"testing"
	"time"

	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

func TestOldest(t *testing.T) {
	storage := mem()
	o := testOptions(storage)
	clock := new(manualClock)
	clock.ms.Store(1000)
	o.Now = clock.now
	l := started(t, o)
	if _, ok, err := l.Oldest(); ok || err != nil {
		t.Errorf("an empty log has an oldest segment, %v", err)
	}
	var next message.QueueOffset
	var last []int64 // of each segment
	for number := 0; l.End() < 3*testSegment+5000; number++ {
		clock.ms.Add(10)
		a := put(t, l, record(t, number, 1000+number), &next)
		if i := int(a.Start / testSegment); i == len(last) {
			last = append(last, 0)
		}
		last[a.Start/testSegment] = a.StoreTimeMS
		if _, ok, err := l.Oldest(); ok != (a.End > testSegment) || err != nil {
			t.Fatalf("with records up to %d there is an oldest one: %v, %v", a.End, ok, err)
		}
	}
	flush(t, l)
	modified := time.UnixMilli(123_456)
	storage.SetModTime(segment.Name(0), modified)
	for i := range 3 {
		oldest, ok, err := l.Oldest()
		if !ok || err != nil || oldest.Name != segment.Name(int64(i)*testSegment) || oldest.End != message.Offset(i+1)*testSegment || oldest.Left != 3-i {
			t.Fatalf("oldest %d: %+v, %v, %v", i, oldest, ok, err)
		}
		if i == 0 && oldest.ModifiedMS != modified.UnixMilli() {
			t.Errorf("modified at %d", oldest.ModifiedMS)
		}
		if got := l.LastStored(); got != last[i] {
			t.Errorf("segment %d: last stored at %d, want %d", i, got, last[i])
		}
		if err := l.RemoveFirst(); err != nil {
			t.Fatal(err)
		}
	}
	if oldest, ok, err := l.Oldest(); ok || err != nil {
		t.Errorf("the one that is appended to may go: %+v, %v", oldest, err)
	}
}

func TestOldestOfAFolderThatFails(t *testing.T) {
	storage, _ := filled(t, 3, 1000)
	l := open(t, testOptions(storage))
	_, _, end := scan(t, l, 0)
	if err := l.Start(end); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	storage.Inject(&memstore.Fault{Op: memstore.OpList, Err: broken})
	if _, ok, err := l.Oldest(); ok || !errors.Is(err, broken) {
		t.Errorf("%v, %v", ok, err)
	}
}

// Damage at the end leads to the last record before it; a body that holds a record does not.
func TestLastStored(t *testing.T) {
	inner := record(t, 1, 300)
	message.Stamp(inner, 0, 12345, 99_999) // whole, but not of this place
	cases := []struct {
		name string
		harm func(b []byte, last message.Offset)
		want int64
	}{
		{"whole", func([]byte, message.Offset) {}, 1000},
		{"last record damaged", func(b []byte, last message.Offset) { b[last+500] ^= 1 }, 900},
		{"a record in its body", func(b []byte, last message.Offset) { copy(b[last+400:], inner) }, 900},
		{"a magic in the first bytes", func(b []byte, _ message.Offset) { clear(b); copy(b[2:], magicPrefix()) }, 0},
		{"zeros", func(b []byte, _ message.Offset) { clear(b) }, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			storage, placed := filled(t, 3, 1000)
			var lastOf message.Offset
			change(storage, segment.Name(0), func(b []byte) {
				for i, a := range placed {
					if a.Start >= testSegment {
						break
					}
					// Store times that tell the records apart: the last one at 1000, the one before at 900.
					back := int64(0)
					for _, later := range placed[i+1:] {
						if later.Start < testSegment {
							back++
						}
					}
					message.Stamp(b[a.Start:a.End], a.QueueOffset, a.Start, 1000-100*back)
					lastOf = a.Start
				}
				c.harm(b, lastOf)
			})
			l := open(t, testOptions(storage))
			if got := l.LastStored(); got != c.want {
				t.Errorf("last stored at %d, want %d", got, c.want)
			}
		})
	}
	l := open(t, testOptions(mem()))
	if got := l.LastStored(); got != 0 {
		t.Errorf("an empty log: %d", got)
	}
}
