// Package client is one connection to a remoting server: requests by opaque, callbacks, timeouts.
package client

import (
	"context"

	"ringmq/net/remoting"
)

type Client struct{}

type Options struct {
	Address string
	// Request is called for requests of the server (notifications); may be nil.
	Request func(c *remoting.Command)
}

func Dial(ctx context.Context, o Options) (*Client, error) { panic("unbuilt") }

// Call sends c and waits for its answer, which the caller owns. ctx bounds it.
func (c *Client) Call(ctx context.Context, req *remoting.Command) (*remoting.Command, error) {
	panic("unbuilt")
}

// Go sends req; done is called exactly once, with the answer or an error.
func (c *Client) Go(ctx context.Context, req *remoting.Command, done func(*remoting.Command, error)) {
	panic("unbuilt")
}
func (c *Client) Oneway(req *remoting.Command) error { panic("unbuilt") }
func (c *Client) Close() error                       { panic("unbuilt") }
