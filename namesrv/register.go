package namesrv

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"ringmq/internal/fastjson"
	"ringmq/net/remoting"
)

const (
	maxInflated     = 64 << 20 // bytes of a compressed registration when inflated
	maxPiece        = 1 << 20  // bytes of one piece of it
	maxTopicsAtOnce = 1 << 18  // topics of one registration
	maxName         = 255      // bytes of the name of a cluster or broker, and of an address
	maxBrackets     = 4 * maxTopicsAtOnce
)

// registration is what a broker says of itself with code 103.
type registration struct {
	cluster, name, addr, haAddr string
	id                          int64
	isNew                       bool // 5.x: the broker told whether a slave may act as master
	actingMaster                bool
	expiryMS                    int64
	version                     dataVersion
	topics                      map[string]queueData
	mappings                    map[string]json.RawMessage
	filters                     []string
}

// decodeRegistration reads header and body. Nothing of it points into the request.
func decodeRegistration(c *remoting.Command) (*registration, error) {
	reg := &registration{cluster: c.Str("clusterName"), name: c.Str("brokerName"), addr: c.Str("brokerAddr"), haAddr: c.Str("haServerAddr")}
	err := errors.Join(checkName("clusterName", reg.cluster), checkName("brokerName", reg.name), checkName("brokerAddr", reg.addr))
	if err != nil {
		return nil, err
	}
	if reg.id, err = c.Int("brokerId"); err != nil {
		return nil, err
	}
	if reg.id < 0 {
		return nil, fmt.Errorf("namesrv: brokerId is %d: 0 (master) or more is allowed", reg.id)
	}
	if reg.expiryMS, err = c.IntOr("heartbeatTimeoutMillis", DefaultExpiryMS); err != nil {
		return nil, err
	}
	if reg.expiryMS <= 0 {
		reg.expiryMS = DefaultExpiryMS
	}
	_, reg.isNew = c.Field("enableActingMaster")
	reg.actingMaster = c.Bool("enableActingMaster")
	if err := checkCRC(c); err != nil {
		return nil, err
	}
	if len(c.Body) == 0 {
		return reg, nil
	}
	if c.Bool("compressed") {
		return reg, reg.inflate(c.Body)
	}
	return reg, reg.parse(c.Body)
}

func checkName(field, value string) error {
	if value == "" || len(value) > maxName {
		return fmt.Errorf("namesrv: ext field %s of %d bytes: 1 to %d are needed", field, len(value), maxName)
	}
	return nil
}

// checkCRC compares the body with its sum, whose top bit Java drops; 0 means that there is none.
func checkCRC(c *remoting.Command) error {
	want, err := c.IntOr("bodyCrc32", 0)
	if err != nil || want == 0 {
		return err
	}
	if got := crc32.ChecksumIEEE(c.Body) & 0x7fffffff; int64(got) != want {
		return fmt.Errorf("namesrv: body has CRC %d, bodyCrc32 says %d", got, want)
	}
	return nil
}

type topicConfig struct {
	TopicName      string `json:"topicName"`
	ReadQueueNums  int32  `json:"readQueueNums"`
	WriteQueueNums int32  `json:"writeQueueNums"`
	Perm           int32  `json:"perm"`
	TopicSysFlag   int32  `json:"topicSysFlag"`
}

type registerBody struct {
	Wrapper struct {
		DataVersion dataVersion                `json:"dataVersion"`
		Topics      map[string]*topicConfig    `json:"topicConfigTable"`
		Mappings    map[string]json.RawMessage `json:"topicQueueMappingInfoMap"`
	} `json:"topicConfigSerializeWrapper"`
	Filters []string `json:"filterServerList"`
}

// parse reads the JSON form.
func (reg *registration) parse(body []byte) error {
	if n := bytes.Count(body, []byte{'{'}); n > maxBrackets {
		return fmt.Errorf("namesrv: registration with %d objects: at most %d are read", n, maxBrackets)
	}
	var parsed registerBody
	if err := fastjson.Unmarshal(body, &parsed); err != nil {
		return fmt.Errorf("namesrv: body of registration: %w", err)
	}
	reg.version = parsed.Wrapper.DataVersion
	reg.filters = parsed.Filters
	reg.mappings = parsed.Wrapper.Mappings
	reg.topics = make(map[string]queueData, len(parsed.Wrapper.Topics))
	for key, config := range parsed.Wrapper.Topics {
		if config == nil {
			continue
		}
		if config.TopicName == "" {
			config.TopicName = key
		}
		if err := reg.add(config); err != nil {
			return err
		}
	}
	return nil
}

func (reg *registration) add(config *topicConfig) error {
	if config.TopicName == "" || len(config.TopicName) > maxTopicName {
		return fmt.Errorf("namesrv: topic name of %d bytes: 1 to %d are allowed", len(config.TopicName), maxTopicName)
	}
	if len(reg.topics) >= maxTopicsAtOnce {
		return fmt.Errorf("namesrv: registration of more than %d topics", maxTopicsAtOnce)
	}
	reg.topics[config.TopicName] = queueData{readQueues: config.ReadQueueNums, writeQueues: config.WriteQueueNums, perm: config.Perm,
		sysFlag: config.TopicSysFlag}
	return nil
}

// inflate reads the compressed form, a zlib stream of pieces with 4 bytes of length each: the data version in JSON; after their
// number (4 bytes) the topics as text; the filter servers in JSON; from 5.x, after their number, the static topics in JSON.
func (reg *registration) inflate(body []byte) error {
	stream, err := zlib.NewReader(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("namesrv: compressed registration: %w", err)
	}
	defer stream.Close() // it holds nothing
	p := &pieces{from: stream, left: maxInflated}
	if err := reg.readPieces(p); err != nil {
		return fmt.Errorf("namesrv: compressed registration, byte %d: %w", maxInflated-p.left, err)
	}
	return nil
}

func (reg *registration) readPieces(p *pieces) error {
	piece, err := p.next()
	if err != nil {
		return fmt.Errorf("dataVersion: %w", err)
	}
	if err := fastjson.Unmarshal(piece, &reg.version); err != nil {
		return fmt.Errorf("dataVersion: %w", err)
	}
	count, err := p.count("topics")
	if err != nil {
		return err
	}
	reg.topics = map[string]queueData{}
	for i := range count {
		if piece, err = p.next(); err != nil {
			return fmt.Errorf("topic %d of %d: %w", i, count, err)
		}
		config, err := parseTopicText(string(piece))
		if err != nil {
			return err
		}
		if err := reg.add(config); err != nil {
			return err
		}
	}
	if piece, err = p.next(); err != nil {
		return fmt.Errorf("filterServerList: %w", err)
	}
	if err := fastjson.Unmarshal(piece, &reg.filters); err != nil {
		return fmt.Errorf("filterServerList: %w", err)
	}
	return reg.readMappings(p)
}

// readMappings reads the static topics; before 5.x the stream ends where their number would be.
func (reg *registration) readMappings(p *pieces) error {
	count, err := p.count("static topics")
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	reg.mappings = map[string]json.RawMessage{}
	for i := range count {
		piece, err := p.next()
		if err != nil {
			return fmt.Errorf("static topic %d of %d: %w", i, count, err)
		}
		var named struct {
			Topic string `json:"topic"`
		}
		legal, err := fastjson.Standard(bytes.Clone(piece))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(legal, &named); err != nil {
			return fmt.Errorf("static topic %d: %w", i, err)
		}
		if named.Topic == "" {
			return fmt.Errorf("static topic %d has no name", i)
		}
		reg.mappings[named.Topic] = legal
	}
	switch _, err := p.uint32(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return errors.New("there are bytes behind the last static topic")
}

// parseTopicText reads `name readQueues writeQueues perm filterType [attributes]`.
func parseTopicText(text string) (*topicConfig, error) {
	parts := strings.SplitN(text, " ", 6)
	if len(parts) < 5 {
		return nil, fmt.Errorf("topic %.80q has %d parts: name, read queues, write queues, permission and filter type are needed", text,
			len(parts))
	}
	config := &topicConfig{TopicName: strings.Clone(parts[0])} // the name must not hold the rest of the text
	for i, to := range []*int32{&config.ReadQueueNums, &config.WriteQueueNums, &config.Perm} {
		n, err := strconv.ParseInt(parts[i+1], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("topic %.80q: part %d: an integer of 32 bits is needed", text, i+1)
		}
		*to = int32(n)
	}
	return config, nil
}

// pieces reads the inflated stream without ever holding more than one piece of it, so that lengths that lie cost no memory.
type pieces struct {
	from io.Reader
	left int
	buf  bytes.Buffer
}

// next reads a length and as many bytes, valid until the following call.
func (p *pieces) next() ([]byte, error) {
	n, err := p.uint32()
	if err != nil {
		return nil, unexpected(err)
	}
	if n > maxPiece || int(n) > p.left {
		return nil, fmt.Errorf("piece of %d bytes: at most %d, and %d in all, are read", n, maxPiece, maxInflated)
	}
	p.buf.Reset()
	got, err := io.CopyN(&p.buf, p.from, int64(n)) // grows with what is there, not with what is said
	p.left -= int(got)
	return p.buf.Bytes(), unexpected(err)
}

func (p *pieces) count(what string) (int, error) {
	n, err := p.uint32()
	if err != nil {
		return 0, err
	}
	if n > maxTopicsAtOnce {
		return 0, fmt.Errorf("%d %s: at most %d are read", n, what, maxTopicsAtOnce)
	}
	return int(n), nil
}

// uint32 gives io.EOF only at the whole end of a stream whose check sum is right.
func (p *pieces) uint32() (uint32, error) {
	var b [4]byte
	n, err := io.ReadFull(p.from, b[:])
	p.left -= n
	return binary.BigEndian.Uint32(b[:]), err
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
