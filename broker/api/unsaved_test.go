package api

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"ringmq/net/remoting"
)

// TestNewTopicIsSavedFirst: the first sends to a topic are answered when the topic is on the disk, all others at once.
func TestNewTopicIsSavedFirst(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.saving.Lock()
	send := func(topic string) *fakeReply {
		return b.begin(request(remoting.SendMessageV2, []byte("x"), sendFields("b", topic, "e", "0")...))
	}
	first, second := send("New1"), send("New1")
	if a := send("T").wait(t); a.Code != remoting.Success {
		t.Errorf("a topic that is saved: %d %s", a.Code, a.Remark)
	}
	first.none(t, "before the topic is saved")
	second.none(t, "before the topic is saved")
	b.TopicsSaved(nil) // of a save that began before the topic was made
	first.none(t, "after an older save")

	b.saving.Unlock()
	for i, r := range []*fakeReply{first, second} {
		if a := r.wait(t); a.Code != remoting.Success || a.Str("queueOffset") != []string{"0", "1"}[i] {
			t.Errorf("send %d: %d %s, queueOffset %s", i, a.Code, a.Remark, a.Str("queueOffset"))
		}
	}
	if a := send("New1").wait(t); a.Code != remoting.Success {
		t.Errorf("afterwards: %d %s", a.Code, a.Remark)
	}
}

// TestNewTopicCannotBeSaved: what is stored without the promise is answered so.
func TestNewTopicCannotBeSaved(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.saving.Lock()
	defer b.saving.Unlock()
	r := b.begin(request(remoting.SendMessageV2, []byte("x"), sendFields("b", "New2", "e", "0")...))
	r.none(t, "before the topic is saved")
	b.settle(t) // stored
	for {
		b.TopicsSaved(errors.New("disk is full"))
		select {
		case a := <-r.answer:
			if a.Code != remoting.FlushDiskTimeout || a.Remark != "the message is stored, but its new topic could not be saved: disk is full" {
				t.Errorf("got %d %q", a.Code, a.Remark)
			}
			return
		case <-t.Context().Done():
			t.Fatal("no answer")
		default:
			runtime.Gosched()
		}
	}
}

// TestUnsavedSendsAreBounded: while the disk hangs, no more sends wait than may; those beyond are stored and told that the promise is missing.
func TestUnsavedSendsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.saving.Lock()
	large := strings.Repeat("x", 3<<20)
	var waiting []*fakeReply
	for {
		r := b.begin(request(remoting.SendMessageV2, []byte(large), sendFields("b", "New3", "e", "0")...))
		if a := b.answeredOrHeld(r, len(waiting)+1); a != nil {
			if a.Code != remoting.FlushDiskTimeout || !strings.Contains(a.Remark, fmt.Sprintf("and %d sends wait", len(waiting))) {
				t.Errorf("got %d %q", a.Code, a.Remark)
			}
			break
		}
		if waiting = append(waiting, r); len(waiting)*len(large) > unsavedBytes {
			t.Fatalf("%d sends of %d bytes wait", len(waiting), len(large))
		}
	}
	b.saving.Unlock()
	for i, r := range waiting {
		if a := r.wait(t); a.Code != remoting.Success {
			t.Errorf("send %d: %d %s", i, a.Code, a.Remark)
		}
	}
	b.unsaved.mu.Lock()
	defer b.unsaved.mu.Unlock()
	if n := b.unsaved.bytes; n != 0 {
		t.Errorf("%d bytes are counted still", n)
	}
}

// answeredOrHeld returns the answer to a send, or nil when it is one of n that are held.
func (b *broker) answeredOrHeld(r *fakeReply, n int) *remoting.Command {
	for {
		select {
		case a := <-r.answer:
			return a
		default:
		}
		b.unsaved.mu.Lock()
		held := len(b.unsaved.sends)
		b.unsaved.mu.Unlock()
		if held == n {
			return nil
		}
		runtime.Gosched()
	}
}
