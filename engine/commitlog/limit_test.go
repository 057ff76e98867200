package commitlog

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"ringmq/engine/message"
)

func TestLimit(t *testing.T) {
	t.Parallel()
	asked := 0
	o := testOptions(mem())
	o.LimitNear = func() { asked++ }
	l := started(t, o)
	l.SetLimit(4000)
	var next message.QueueOffset
	for i := range 4 {
		put(t, l, record(t, i, 1000), &next)
		if want := min(i/2, 1); asked != want {
			t.Fatalf("at %d asked %d times, want %d", l.End(), asked, want)
		}
	}
	if _, err := l.Append(record(t, 4, 1000), &next, nil); !errors.Is(err, ErrBusy) || l.End() != 4000 || next != 4 || l.Reached() != 5000 || asked != 2 {
		t.Errorf("beyond the limit: %v, end %d, next %d, reached %d, asked %d times", err, l.End(), next, l.Reached(), asked)
	}
	if _, err := l.Append(record(t, 4, 1000), &next, nil); !errors.Is(err, ErrBusy) || asked != 2 {
		t.Errorf("again: %v, asked %d times", err, asked)
	}

	// Who waits for room waits for the limit, too.
	room := make(chan error, 1)
	go func() { room <- l.Room(1000) }()
	for l.waiting.Load() == 0 {
	}
	l.SetLimit(5000)
	if err := <-room; err != nil {
		t.Error(err)
	}
	put(t, l, record(t, 4, 1000), &next)

	broken := errors.New("no mark")
	l.LimitFailed(broken)
	if _, err := l.Append(record(t, 5, 1000), &next, nil); !errors.Is(err, broken) {
		t.Errorf("without a limit: %v", err)
	}
	if err := l.Room(1000); !errors.Is(err, broken) {
		t.Errorf("room without a limit: %v", err)
	}
	if l.End() != 5000 || next != 5 {
		t.Errorf("end %d, next %d", l.End(), next)
	}

	// A roll needs the limit to be above the whole segment, and then what follows to be below it.
	l.SetLimit(testSegment + 500)
	for i := 5; l.End()+1000+message.BlankLen <= testSegment; i++ {
		put(t, l, record(t, i, 1000), &next)
	}
	// While the next segment is being made, that is why it is busy.
	var err error
	for err = ErrBusy; errors.Is(err, ErrBusy) && l.End() < testSegment; {
		_, err = l.Append(record(t, 99, 1000), &next, nil)
	}
	if !errors.Is(err, ErrBusy) || l.End() != testSegment || l.Reached() != testSegment+1000 {
		t.Errorf("roll: %v, end %d, reached %d", err, l.End(), l.Reached())
	}
	l.SetLimit(testSegment + 1000)
	put(t, l, record(t, 99, 1000), &next)
	if l.End() != testSegment+1000 {
		t.Errorf("end %d", l.End())
	}
}

// TestCutLooksUpToTheLimit: what stands behind it is not looked for, what stands before it is found.
func TestCutLooksUpToTheLimit(t *testing.T) {
	t.Parallel()
	storage, _ := filled(t, 3, 1000)
	change(storage, secondName, func(b []byte) { clear(b[5000:]); b[9000], b[12000] = 1, 1 })
	change(storage, thirdName, func(b []byte) { clear(b); b[100] = 1 })
	second, third := storage.Live(secondName), storage.Live(thirdName)
	l := open(t, testOptions(storage))
	dir := filepath.Join(t.TempDir(), "cut")
	saved, err := l.Cut(testSegment+5000, testSegment+10000, dir)
	if saved != 4001 || err != nil {
		t.Errorf("saved %d, %v, want the 4001 bytes up to the last one below the limit", saved, err)
	}
	second[9000] = 0
	if !bytes.Equal(storage.Live(secondName), second) || !bytes.Equal(storage.Live(thirdName), third) {
		t.Error("more was changed than what stands below the limit")
	}
	if saved, err := l.Cut(testSegment+5000, 0, dir); saved != 7001+testSegment || err != nil {
		t.Errorf("without a limit: saved %d, %v", saved, err)
	}
}
