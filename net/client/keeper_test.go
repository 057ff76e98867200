package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestKeeperConnectsOnDemandAndAfterALoss(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *serverSide) {
		req := s.next()
		if req == nil {
			return
		}
		s.answer(req, string(req.Body)) // and hangs up
	})
	k := NewKeeper(s.addr())
	defer k.Close()
	if n := s.open.Load(); n != 0 {
		t.Errorf("%d connections before the first call", n)
	}
	for i := range int32(3) {
		a, err := k.Call(soon(t), request("hello"))
		if err != nil || string(a.Body) != "hello" {
			t.Fatalf("call %d: %v", i, err)
		}
		<-k.client.Done()
		if n := s.open.Load(); n != i+1 {
			t.Errorf("%d connections, want %d", n, i+1)
		}
	}
	if err := k.Oneway(soon(t), request("")); err != nil {
		t.Error(err)
	}
}

func TestKeeperBacksOff(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	attempts, down := 0, true
	s := serve(t, (*serverSide).echoAll)
	k := NewKeeper(s.addr())
	defer k.Close()
	k.now = func() time.Time { return now }
	refused := errors.New("refused")
	k.dial = func(ctx context.Context, o Options) (*Client, error) {
		attempts++
		if down {
			return nil, refused
		}
		return Dial(ctx, o)
	}
	pause := backoffMin
	for i := range 8 {
		for range 3 { // one attempt, then its error at once
			if _, err := k.Call(soon(t), request("")); !errors.Is(err, refused) {
				t.Fatalf("error %v, want that of the attempt", err)
			}
		}
		if attempts != i+1 {
			t.Fatalf("%d attempts, want %d", attempts, i+1)
		}
		now = now.Add(pause - 1)
		if _, err := k.Call(soon(t), request("")); err == nil || attempts != i+1 {
			t.Fatalf("tried again %v after attempt %d", pause-1, i+1)
		}
		now = now.Add(1)
		pause = min(2*pause, backoffMax)
	}
	down = false
	if _, err := k.Call(soon(t), request("")); err != nil {
		t.Error(err)
	}
}

func TestKeeperClose(t *testing.T) {
	t.Parallel()
	dialing := make(chan struct{})
	k := NewKeeper("nowhere:1")
	k.dial = func(ctx context.Context, _ Options) (*Client, error) {
		close(dialing)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ended := make(chan error)
	go func() {
		_, err := k.Call(context.Background(), request(""))
		ended <- err
	}()
	<-dialing
	// A second call waits for the attempt, but not longer than its context.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := k.Call(ctx, request("")); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), k.Address()) {
		t.Errorf("second call: %v, want Canceled with the address", err)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("call during Close: %v", err)
	}
	if _, err := k.Call(soon(t), request("")); !errors.Is(err, ErrClosed) {
		t.Errorf("call after Close: %v, want ErrClosed", err)
	}
}
