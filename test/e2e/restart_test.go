package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A message that was acknowledged is there after kill -9, whatever the flush mode: the page cache outlives the process.
func TestNothingAcknowledgedIsLostOnKill(t *testing.T) {
	for _, mode := range []string{"ASYNC_FLUSH", "SYNC_FLUSH"} {
		t.Run(mode, func(t *testing.T) {
			b := startBroker(t, "flushDiskType="+mode)
			b.createTopic("T", 4)
			p := b.producer()
			acked := map[string]bool{}
			for round := range 3 {
				for i := range 200 {
					body := fmt.Sprintf("%d-%d", round, i)
					if r, err := p.SendSync(background, primitive.NewMessage("T", []byte(body))); err == nil && r.Status == primitive.SendOK {
						acked[body] = true
					}
				}
				b.kill()
				b.start()
			}
			if len(acked) < 500 {
				t.Fatalf("only %d of 600 sends were acknowledged", len(acked))
			}
			got := newInbox()
			b.consume("G", "T", "", got)
			eventually(t, func() error {
				got.mu.Lock()
				defer got.mu.Unlock()
				for body := range acked {
					if got.count[body] == 0 {
						return fmt.Errorf("%s was acknowledged and is not there (%d of %d)", body, len(got.count), len(acked))
					}
				}
				return nil
			})
		})
	}
}

func TestConsumersGoOnAcrossARestart(t *testing.T) {
	b := startBroker(t)
	b.createTopic("T", 4)
	p := b.producer()
	got := newInbox()
	b.consume("G", "T", "", got)
	want := map[string]bool{}
	send := func(from, to int) {
		for i := from; i < to; i++ {
			body := fmt.Sprintf("m%d", i)
			eventually(t, func() error {
				r, err := p.SendSync(background, primitive.NewMessage("T", []byte(body)))
				if err == nil && r.Status != primitive.SendOK {
					err = fmt.Errorf("status %v", r.Status)
				}
				return err
			})
			want[body] = true
		}
	}
	send(0, 100)
	waitFor(t, 100, got)
	b.kill()
	b.start()
	send(100, 200)
	waitFor(t, len(want), got)
}
