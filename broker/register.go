package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"log/slog"
	"sync"
	"time"

	"ringmq/broker/configfile"
	"ringmq/broker/topic"
	"ringmq/net/client"
	"ringmq/net/remoting"
)

const (
	// retryAfter is when a name server that failed is tried again.
	retryAfter = 2 * time.Second
	// lostPause is how long after the loss of its connection a name server is told again.
	lostPause = 500 * time.Millisecond
	// unregisterLimit is how long one name server may take at the end.
	unregisterLimit = 3 * time.Second
)

// registrar tells each name server of the broker: at the start, every period and at once after a change. Each server has a goroutine and
// a connection of its own, so that one that hangs delays no other.
type registrar struct {
	opts    *Options
	topics  *topic.Table
	log     *slog.Logger
	servers []*nameServer
	ended   sync.WaitGroup
	running context.Context // ends with stop, and with it what is under way
	quit    context.CancelFunc

	mu       sync.Mutex // the encoded table, shared by all servers
	version  configfile.DataVersion
	body     []byte
	withheld int32 // of reading and writing, for all topics
}

// nameServer is one of them. All but wake belongs to its goroutine.
type nameServer struct {
	address string
	changed chan struct{} // one slot
	tried   chan struct{} // closed after the first attempt
	conn    *client.Client
	failing bool // the last attempt failed, and was told
	known   bool // it took a registration once
}

// lost is closed when the connection has ended; nil, which never is, without one.
func (s *nameServer) lost() <-chan struct{} {
	if s.conn == nil {
		return nil
	}
	return s.conn.Done()
}

func (s *nameServer) forget() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

func newRegistrar(o *Options, topics *topic.Table) *registrar {
	r := &registrar{opts: o, topics: topics, log: o.Logger, withheld: o.Withheld}
	r.running, r.quit = context.WithCancel(context.Background())
	for _, address := range o.NameServers {
		r.servers = append(r.servers, &nameServer{address: address, changed: make(chan struct{}, 1), tried: make(chan struct{})})
	}
	return r
}

// wake registers at once. It never blocks.
func (r *registrar) wake() {
	for _, s := range r.servers {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
}

// start begins, and waits until every server was tried once, or for limit.
func (r *registrar) start(limit time.Duration) {
	for _, s := range r.servers {
		r.ended.Go(func() { r.run(s) })
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for _, s := range r.servers {
		select {
		case <-s.tried:
		case <-timer.C:
			return
		}
	}
}

func (r *registrar) run(s *nameServer) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	first := true
	for {
		select {
		case <-timer.C:
		case <-s.changed:
		case <-s.lost(): // it may have been started anew, and know nothing
			s.forget()
			timer.Reset(lostPause)
			continue
		case <-r.running.Done():
			return
		}
		wait := r.opts.RegisterPeriod
		if err := r.register(s); err != nil {
			wait = min(wait, retryAfter)
		}
		if first {
			close(s.tried)
			first = false
		}
		timer.Reset(wait)
	}
}

func (r *registrar) register(s *nameServer) error {
	ctx, cancel := context.WithTimeout(r.running, r.opts.RegisterTimeout)
	defer cancel()
	err := r.call(ctx, s, r.request())
	switch {
	case r.running.Err() != nil:
	case err != nil && !s.failing:
		r.log.Warn("broker: name server does not take the registration, trying again", "server", s.address, "every", retryAfter, "error", err)
	case err == nil && s.failing:
		r.log.Info("broker: name server takes the registration again", "server", s.address)
	}
	s.failing = err != nil
	s.known = s.known || err == nil
	return err
}

// call sends a request on the server's connection, made anew if need be.
func (r *registrar) call(ctx context.Context, s *nameServer, request *remoting.Command) error {
	if s.conn == nil {
		conn, err := client.Dial(ctx, client.Options{Address: s.address})
		if err != nil {
			return err
		}
		s.conn = conn
	}
	answer, err := s.conn.Call(ctx, request)
	if err != nil {
		s.forget()
		return err
	}
	if answer.Code != remoting.Success {
		return fmt.Errorf("broker: name server %s answers %s with code %d %s: %s", s.address, remoting.CodeName(request.Code), answer.Code,
			remoting.ResponseName(answer.Code), answer.Remark)
	}
	return nil
}

// request is a registration with the whole table, uncompressed.
func (r *registrar) request() *remoting.Command {
	body := r.table()
	c := r.command(remoting.RegisterBroker)
	c.SetStr("haServerAddr", r.opts.HAAddress)
	c.SetBool("compressed", false)
	c.SetBool("enableActingMaster", false)
	c.SetInt("bodyCrc32", int64(crc32.ChecksumIEEE(body)&0x7fffffff)) // the original's CRC is a signed number without its sign
	c.Body = body
	return c
}

func (r *registrar) command(code int32) *remoting.Command {
	c := new(remoting.Command)
	c.Reset()
	c.Code = code
	c.SetStr("brokerName", r.opts.Name)
	c.SetStr("brokerAddr", r.opts.Address)
	c.SetStr("clusterName", r.opts.Cluster)
	c.SetInt("brokerId", r.opts.ID)
	return c
}

// registration is the body of REGISTER_BROKER.
type registration struct {
	FilterServers []string `json:"filterServerList"`
	Wrapper       struct {
		DataVersion    configfile.DataVersion   `json:"dataVersion"`
		MappingVersion configfile.DataVersion   `json:"mappingDataVersion"`
		Topics         map[string]*topic.Config `json:"topicConfigTable"`
		MappingDetails struct{}                 `json:"topicQueueMappingDetailMap"`
		MappingInfos   struct{}                 `json:"topicQueueMappingInfoMap"`
	} `json:"topicConfigSerializeWrapper"`
}

// table is the present topics as JSON. What the whole broker does not allow, no topic is registered with.
func (r *registrar) table() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	topics, version := r.topics.Snapshot()
	if r.body != nil && version == r.version {
		return r.body
	}
	if r.withheld != 0 {
		for name, c := range topics {
			limited := *c
			limited.Perm &^= r.withheld
			topics[name] = &limited
		}
	}
	body := registration{FilterServers: []string{}}
	body.Wrapper.DataVersion, body.Wrapper.Topics = version, topics
	text, err := json.Marshal(body)
	if err != nil {
		panic("BUG: broker: " + err.Error())
	}
	r.version, r.body = version, text
	return text
}

// withhold says what no topic is registered with from the next version of the table on.
func (r *registrar) withhold(permission int32) {
	r.mu.Lock()
	r.withheld, r.body = permission, nil
	r.mu.Unlock()
}

// stop ends the registrations and takes the broker off all name servers, side by side.
func (r *registrar) stop(ctx context.Context) {
	r.quit()
	r.ended.Wait()
	ctx, cancel := context.WithTimeout(ctx, unregisterLimit)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range r.servers {
		all.Go(func() {
			if !s.known {
				return
			}
			if err := r.call(ctx, s, r.command(remoting.UnregisterBroker)); err != nil {
				r.log.Warn("broker: name server was not told of the end", "server", s.address, "error", err)
			}
			s.forget()
		})
	}
	all.Wait()
}
