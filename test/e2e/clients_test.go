package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

var background = context.Background()

func TestSyncAsyncOnewayAndBatchArriveOnce(t *testing.T) {
	b := startBroker(t)
	b.createTopic("T", 4)
	p := b.producer()
	want := map[string]bool{}
	for i := range 100 {
		body := fmt.Sprintf("sync-%d", i)
		want[body] = true
		m := primitive.NewMessage("T", []byte(body)).WithTag("A").WithKeys([]string{"k1", "k2"})
		r, err := p.SendSync(background, m)
		if err != nil || r.Status != primitive.SendOK {
			t.Fatal(r, err)
		}
	}
	var answered sync.WaitGroup
	for i := range 100 {
		body := fmt.Sprintf("async-%d", i)
		want[body] = true
		answered.Add(1)
		err := p.SendAsync(background, func(_ context.Context, r *primitive.SendResult, err error) {
			defer answered.Done()
			if err != nil || r.Status != primitive.SendOK {
				t.Error(r, err)
			}
		}, primitive.NewMessage("T", []byte(body)))
		if err != nil {
			t.Fatal(err)
		}
	}
	answered.Wait()
	for i := range 50 {
		body := fmt.Sprintf("oneway-%d", i)
		want[body] = true
		if err := p.SendOneWay(background, primitive.NewMessage("T", []byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	var batch []*primitive.Message
	for i := range 50 {
		body := fmt.Sprintf("batch-%d", i)
		want[body] = true
		batch = append(batch, primitive.NewMessage("T", []byte(body)))
	}
	if r, err := p.SendSync(background, batch...); err != nil || r.Status != primitive.SendOK {
		t.Fatal(r, err)
	}
	got := newInbox()
	b.consume("G", "T", "", got)
	waitFor(t, len(want), got)
	got.holdsExactly(t, want)
}

func TestTagsSelect(t *testing.T) {
	b := startBroker(t)
	b.createTopic("T", 2)
	p := b.producer()
	want := map[string]bool{}
	for i := range 90 {
		body, tag := fmt.Sprintf("m%d", i), fmt.Sprintf("T%d", i%3)
		if tag != "T1" {
			want[body] = true
		}
		if _, err := p.SendSync(background, primitive.NewMessage("T", []byte(body)).WithTag(tag)); err != nil {
			t.Fatal(err)
		}
	}
	got := newInbox()
	b.consume("G", "T", "T0 || T2", got)
	waitFor(t, len(want), got)
	got.holdsExactly(t, want)
}

func TestConsumersOfOneGroupShareQueues(t *testing.T) {
	b := startBroker(t)
	b.createTopic("T", 8)
	first, second := newInbox(), newInbox()
	b.consume("G", "T", "", first)
	b.consume("G", "T", "", second)
	p := b.producer()
	// Messages are sent until both consumers have had some: the second gets its queues when the notice of the change arrives.
	want := map[string]bool{}
	deadline := time.Now().Add(patience) // the client may take 20 s to share anew
	for i := 0; first.len() == 0 || second.len() == 0; i++ {
		if time.Now().After(deadline) {
			t.Fatalf("after %d messages the consumers have %d and %d", i, first.len(), second.len())
		}
		body := fmt.Sprintf("m%d", i)
		want[body] = true
		if _, err := p.SendSync(background, primitive.NewMessage("T", []byte(body))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	seen := func() int {
		first.mu.Lock()
		second.mu.Lock()
		defer first.mu.Unlock()
		defer second.mu.Unlock()
		n := 0
		for body := range want {
			if first.count[body]+second.count[body] > 0 {
				n++
			}
		}
		return n
	}
	eventually(t, func() error {
		if n := seen(); n != len(want) {
			return fmt.Errorf("%d of %d messages arrived", n, len(want))
		}
		return nil
	})
}
