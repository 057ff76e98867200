package namesrv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"ringmq/internal/fastjson"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

const (
	scanIntervalMS = 5000
	maxTopicName   = 255
	// versionStandardJSON is the ordinal of V4_9_4: clients from there on are given legal JSON.
	versionStandardJSON = 401
	maxKeptAnswer       = 256 << 10
	maxSaves            = 64 // at the same time; one write to disk serves all that wait for it
)

// Server answers the requests of brokers and clients. It is a server.Handler: everything it does is done on the event loop, but the
// writing of its key-value file.
type Server struct {
	log      *slog.Logger
	now      func() int64
	routes   *routes
	kv       *kvTable
	settings *settings
	answers  sync.Pool      // *answer
	saving   sync.WaitGroup // saves of kv whose answer is open
	places   chan struct{}  // taken by them
}

// answer is a response under construction, reused.
type answer struct {
	command remoting.Command
	body    []byte
}

// New makes a name server without a port. It fails when its key-value file cannot be read or a setting is not possible.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	set, err := newSettings(o.Settings)
	if err != nil {
		return nil, err
	}
	kv, err := newKVTable(o.KVPath, o.Logger)
	if err != nil {
		return nil, err
	}
	s := &Server{log: o.Logger, now: o.Now, routes: newRoutes(o.Logger), kv: kv, settings: set, places: make(chan struct{}, maxSaves)}
	s.answers.New = func() any { return new(answer) }
	return s, nil
}

// Handle answers one request; see server.Handler.
func (s *Server) Handle(c *remoting.Command, r server.Reply) {
	a := s.answers.Get().(*answer)
	a.command.Answer(c, remoting.Success)
	a.body = a.body[:0]
	if s.saves(c.Code) {
		s.handleSaved(a, c, r)
		return
	}
	if err := s.dispatch(a, c, r); err != nil {
		s.refuse(a, c, err)
	}
	s.write(a, r)
}

// saves tells the requests that end with a write to disk, which must not stop the event loop.
func (s *Server) saves(code int32) bool {
	return code == remoting.PutKVConfig || code == remoting.DeleteKVConfig
}

func (s *Server) handleSaved(a *answer, c *remoting.Command, r server.Reply) {
	select {
	case s.places <- struct{}{}:
	default:
		s.refuse(a, c, refuse(remoting.SystemBusy, "namesrv: %d changes of the key-value table wait for the disk already: try again later", maxSaves))
		s.write(a, r)
		return
	}
	err := s.changeKV(c)
	code := c.Code
	s.saving.Go(func() {
		defer func() { <-s.places }()
		if err == nil {
			err = s.kv.save()
		}
		if err != nil {
			s.refuse(a, &remoting.Command{Code: code}, err)
		}
		s.write(a, r)
	})
}

func (s *Server) write(a *answer, r server.Reply) {
	a.command.Body = a.body
	r.Write(&a.command)
	a.command.Body = nil
	if cap(a.body) > maxKeptAnswer {
		a.body = nil
	}
	s.answers.Put(a)
}

// refusal is an error with the code that the answer carries; other errors are answered with SYSTEM_ERROR.
type refusal struct {
	code int32
	text string
}

func (e *refusal) Error() string { return e.text }

func refuse(code int32, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

func (s *Server) refuse(a *answer, c *remoting.Command, err error) {
	code := int32(remoting.SystemError)
	var known *refusal
	if errors.As(err, &known) {
		code = known.code
	}
	level := slog.LevelDebug // clients can provoke it as often as they like
	if c.Code == remoting.RegisterBroker {
		level = slog.LevelWarn
	}
	s.log.Log(context.Background(), level, "request refused", "code", c.Code, "name", remoting.CodeName(c.Code), "error", err)
	a.command.Code, a.command.Remark = code, err.Error()
	a.command.Fields, a.body = a.command.Fields[:0], a.body[:0]
}

func (s *Server) dispatch(a *answer, c *remoting.Command, r server.Reply) error {
	switch c.Code {
	case remoting.GetRouteInfoByTopic:
		return s.route(a, c)
	case remoting.RegisterBroker:
		return s.register(a, c, r.Conn())
	case remoting.UnregisterBroker:
		return s.unregister(c)
	case remoting.BrokerHeartbeat:
		s.routes.touch(c.Str("clusterName"), c.Str("brokerAddr"), s.now())
		return nil
	case remoting.QueryDataVersion:
		return s.queryVersion(a, c)
	case remoting.GetBrokerClusterInfo:
		a.body = s.routes.appendClusters(a.body, form(c.Bool("acceptStandardJsonOnly")))
		return nil
	case remoting.GetBrokerMemberGroup:
		a.body = s.routes.appendMembers(a.body, c.Str("clusterName"), c.Str("brokerName"), plain)
		return nil
	case remoting.GetAllTopicListFromNameServer, remoting.GetTopicsByCluster, remoting.GetSystemTopicListFromNS:
		return s.topics(a, c)
	case remoting.DeleteTopicInNamesrv:
		return s.deleteTopic(c)
	case remoting.WipeWritePermOfBroker, remoting.AddWritePermOfBroker:
		return s.changePerm(a, c)
	case remoting.GetKVConfig, remoting.GetKVListByNamespace:
		return s.getKV(a, c)
	case remoting.UpdateNamesrvConfig:
		return s.changeSettings(c)
	case remoting.GetNamesrvConfig:
		a.body = s.settings.appendTo(a.body)
		return nil
	}
	return refuse(remoting.RequestCodeNotSupported, "namesrv: request code %d %s is not supported here", c.Code, remoting.CodeName(c.Code))
}

func (s *Server) route(a *answer, c *remoting.Command) error {
	topic := c.Str("topic")
	if topic == "" {
		return errors.New("namesrv: ext field topic is missing")
	}
	f := form(c.Version >= versionStandardJSON || c.Bool("acceptStandardJsonOnly"))
	orderConf := ""
	if s.settings.on("orderMessageEnable") {
		orderConf, _ = s.kv.get(orderNamespace, topic)
	}
	var found bool
	if a.body, found = s.routes.appendRoute(a.body, topic, orderConf, f); found {
		return nil
	}
	if err := checkTopicName(topic); err != nil {
		return err
	}
	return refuse(remoting.TopicNotExist, "namesrv: no broker has registered topic %s", topic)
}

// checkTopicName explains why a topic cannot exist, with the code for one that does not: clients know what to do with that.
func checkTopicName(topic string) error {
	if len(topic) > maxTopicName {
		return refuse(remoting.TopicNotExist, "namesrv: topic name of %d bytes: at most %d are allowed", len(topic), maxTopicName)
	}
	for i := range len(topic) {
		b := topic[i]
		letter := b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9'
		if !letter && b != '%' && b != '|' && b != '_' && b != '-' && b != '+' {
			return refuse(remoting.TopicNotExist, "namesrv: topic %.80q has %q at byte %d: letters, digits and %%|_-+ are allowed", topic, b, i)
		}
	}
	return nil
}

func (s *Server) register(a *answer, c *remoting.Command, conn server.Conn) error {
	reg, err := decodeRegistration(c)
	if err != nil {
		return err
	}
	haAddr, masterAddr, err := s.routes.register(reg, conn, s.now(), s.settings.on("deleteTopicWithBrokerRegistration"))
	if err != nil {
		return err
	}
	if masterAddr != "" {
		a.command.SetStr("haServerAddr", haAddr)
		a.command.SetStr("masterAddr", masterAddr)
	}
	if s.settings.on("returnOrderTopicConfigToBroker") {
		if table := s.kv.namespace(orderNamespace); len(table) > 0 {
			a.body = appendTable(a.body, table)
		}
	}
	return nil
}

func (s *Server) unregister(c *remoting.Command) error {
	cluster, name, addr := c.Str("clusterName"), c.Str("brokerName"), c.Str("brokerAddr")
	if cluster == "" || name == "" || addr == "" {
		return fmt.Errorf("namesrv: unregistration of cluster %q, broker %q, address %q: all three are needed", cluster, name, addr)
	}
	s.routes.unregister(cluster, name, addr)
	return nil
}

// queryVersion lets a broker ask whether a registration is needed at all; asking counts as a sign of life.
func (s *Server) queryVersion(a *answer, c *remoting.Command) error {
	var theirs dataVersion
	if err := fastjson.Unmarshal(c.Body, &theirs); err != nil {
		return fmt.Errorf("namesrv: body of a data version: %w", err)
	}
	ours, known := s.routes.touch(c.Str("clusterName"), c.Str("brokerAddr"), s.now())
	if known {
		a.body = appendVersion(a.body, ours)
	}
	a.command.SetBool("changed", !known || ours != theirs)
	return nil
}

func (s *Server) topics(a *answer, c *remoting.Command) error {
	switch c.Code {
	case remoting.GetSystemTopicListFromNS:
		a.body = s.routes.appendSystemTopics(a.body)
	case remoting.GetTopicsByCluster:
		cluster := c.Str("cluster")
		if cluster == "" {
			return errors.New("namesrv: ext field cluster is missing")
		}
		if !s.settings.on("enableTopicList") {
			return errors.New("namesrv: enableTopicList=false: topic lists are switched off")
		}
		a.body = s.routes.appendTopics(a.body, cluster)
	default:
		if !s.settings.on("enableAllTopicList") {
			return errors.New("namesrv: enableAllTopicList=false: the topic list is switched off")
		}
		a.body = s.routes.appendTopics(a.body, "")
	}
	return nil
}

func (s *Server) deleteTopic(c *remoting.Command) error {
	topic := c.Str("topic")
	if topic == "" {
		return errors.New("namesrv: ext field topic is missing")
	}
	s.routes.deleteTopic(topic, c.Str("clusterName"))
	s.log.Info("topic deleted from routes", "topic", topic, "cluster", c.Str("clusterName"))
	return nil
}

func (s *Server) changePerm(a *answer, c *remoting.Command) error {
	name := c.Str("brokerName")
	if name == "" {
		return errors.New("namesrv: ext field brokerName is missing")
	}
	if c.Code == remoting.WipeWritePermOfBroker {
		n := s.routes.changePerm(name, func(perm int32) int32 { return perm &^ permWrite })
		a.command.SetInt("wipeTopicCount", int64(n))
		s.log.Info("write permission wiped", "broker", name, "topics", n)
		return nil
	}
	n := s.routes.changePerm(name, func(int32) int32 { return permRead | permWrite })
	a.command.SetInt("addTopicCount", int64(n))
	s.log.Info("write permission added", "broker", name, "topics", n)
	return nil
}

func (s *Server) changeKV(c *remoting.Command) error {
	namespace, key := c.Str("namespace"), c.Str("key")
	if c.Code == remoting.PutKVConfig {
		return s.kv.put(namespace, key, c.Str("value"))
	}
	s.kv.delete(namespace, key)
	return nil
}

func (s *Server) getKV(a *answer, c *remoting.Command) error {
	namespace, key := c.Str("namespace"), c.Str("key")
	if c.Code == remoting.GetKVListByNamespace {
		table := s.kv.namespace(namespace)
		if len(table) == 0 {
			return refuse(remoting.QueryNotFound, "namesrv: namespace %q has no keys", namespace)
		}
		a.body = appendTable(a.body, table)
		return nil
	}
	value, ok := s.kv.get(namespace, key)
	if !ok {
		return refuse(remoting.QueryNotFound, "namesrv: namespace %q has no key %q", namespace, key)
	}
	a.command.SetStr("value", value)
	return nil
}

func (s *Server) changeSettings(c *remoting.Command) error {
	given, err := parseProperties(c.Body)
	if err == nil {
		err = s.settings.change(given)
	}
	if err != nil {
		return refuse(remoting.InvalidParameter, "%v", err)
	}
	s.log.Info("settings changed", "settings", given)
	return nil
}

// Closed forgets the brokers of a connection; see server.Handler.
func (s *Server) Closed(conn server.Conn) { s.routes.lost(conn.ID()) }

// Expire forgets brokers that were silent for too long and closes their connections. It is called every few seconds.
func (s *Server) Expire() {
	for _, conn := range s.routes.expire(s.now()) {
		conn.Close()
	}
}

var _ server.Handler = (*Server)(nil)
