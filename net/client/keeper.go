package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ringmq/net/remoting"
)

const (
	backoffMin = 200 * time.Millisecond
	backoffMax = 10 * time.Second
)

// Keeper calls a peer that may come and go, such as a name server: it connects when there is something to say and again after
// a loss. After a failed attempt calls fail at once, with its error, until a growing pause has passed.
type Keeper struct {
	opts Options
	now  func() time.Time
	dial func(context.Context, Options) (*Client, error)

	connecting chan struct{} // one slot, held by who connects or changes what follows
	client     *Client       // nil: never connected or the last attempt failed
	failed     error         // of the last attempt
	pause      time.Duration
	next       time.Time // no attempt before

	closeOnce sync.Once
	closed    chan struct{}
}

// NewKeeper does not connect yet.
func NewKeeper(address string) *Keeper { return NewKeeperOptions(Options{Address: address}) }

// NewKeeperOptions is NewKeeper with all options of the connections.
func NewKeeperOptions(o Options) *Keeper {
	return &Keeper{
		opts:       o,
		now:        time.Now,
		dial:       Dial,
		connecting: make(chan struct{}, 1),
		closed:     make(chan struct{}),
	}
}

// Address is the peer's.
func (k *Keeper) Address() string { return k.opts.Address }

// Call is Client.Call on a living connection. A request that a loss has hit is not repeated: the peer may have done it.
func (k *Keeper) Call(ctx context.Context, req *remoting.Command) (*remoting.Command, error) {
	c, err := k.connect(ctx)
	if err != nil {
		return nil, err
	}
	return c.Call(ctx, req)
}

// Oneway is Client.Oneway on a living connection; ctx bounds the connecting.
func (k *Keeper) Oneway(ctx context.Context, req *remoting.Command) error {
	c, err := k.connect(ctx)
	if err != nil {
		return err
	}
	return c.Oneway(req)
}

// Close ends the connection and all later calls.
func (k *Keeper) Close() error {
	k.closeOnce.Do(func() { close(k.closed) })
	k.connecting <- struct{}{}
	defer func() { <-k.connecting }()
	if k.client == nil {
		return nil
	}
	return k.client.Close()
}

func (k *Keeper) connect(ctx context.Context) (*Client, error) {
	select {
	case k.connecting <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("client: connect to %s: %w", k.opts.Address, ctx.Err())
	}
	defer func() { <-k.connecting }()
	select {
	case <-k.closed:
		return nil, ErrClosed
	default:
	}
	if k.client != nil && k.client.Err() == nil {
		return k.client, nil
	}
	k.client = nil // it has ended by itself
	if k.failed != nil && k.now().Before(k.next) {
		return nil, k.failed
	}
	return k.attempt(ctx)
}

func (k *Keeper) attempt(ctx context.Context) (*Client, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-k.closed: // Close waits for us
			cancel()
		case <-ctx.Done():
		}
	}()
	c, err := k.dial(ctx, k.opts)
	cancel()
	<-watched
	if err != nil {
		k.pause = min(max(2*k.pause, backoffMin), backoffMax)
		k.next, k.failed = k.now().Add(k.pause), err
		return nil, err
	}
	k.client, k.failed, k.pause = c, nil, 0
	return c, nil
}
