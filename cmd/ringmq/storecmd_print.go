package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"ringmq/engine/checkpoint"
	"ringmq/engine/inspect"
	"ringmq/engine/message"
)

// printer prints what a dump visits, an object a line.
type printer struct {
	out  io.Writer
	json bool
	body bool
}

// plainText keeps what stands in a store from speaking to the terminal: text with unprintable characters is quoted.
func plainText(text string) string {
	quoted := strconv.Quote(text)
	if quoted[1:len(quoted)-1] == strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `"`, `\"`) {
		return text
	}
	return quoted
}

func (p *printer) line(object any) error {
	e := json.NewEncoder(p.out)
	e.SetEscapeHTML(false)
	return e.Encode(object)
}

func (p *printer) textf(format string, args ...any) error {
	_, err := fmt.Fprintf(p.out, format, args...)
	return err
}

type recordLine struct {
	Type           string            `json:"type"`
	Offset         message.Offset    `json:"offset"`
	Size           int32             `json:"size"`
	Magic          string            `json:"magic"`
	Topic          string            `json:"topic"`
	QueueID        int32             `json:"queueId"`
	QueueOffset    int64             `json:"queueOffset"`
	StoreTimeMS    int64             `json:"storeTimeMS"`
	StoreHost      string            `json:"storeHost"`
	BornTimeMS     int64             `json:"bornTimeMS"`
	BornHost       string            `json:"bornHost"`
	Flag           int32             `json:"flag"`
	SysFlag        int32             `json:"sysFlag"`
	BodyCRC        uint32            `json:"bodyCRC"`
	BodyLen        int               `json:"bodyLen"`
	ReconsumeTimes int32             `json:"reconsumeTimes"`
	PreparedOffset message.Offset    `json:"preparedOffset"`
	Properties     map[string]string `json:"properties"`
	Body           []byte            `json:"body,omitempty"`
}

func (p *printer) record(r *message.Record) error {
	if p.json {
		line := recordLine{
			Type: "record", Offset: r.Offset, Size: r.Size, Magic: fmt.Sprintf("%08x", r.Magic), Topic: string(r.Topic), QueueID: r.QueueID,
			QueueOffset: int64(r.QueueOffset), StoreTimeMS: r.StoreTime, StoreHost: r.StoreHost.String(), BornTimeMS: r.BornTime,
			BornHost: r.BornHost.String(), Flag: r.Flag, SysFlag: r.SysFlag, BodyCRC: r.BodyCRC, BodyLen: len(r.Body),
			ReconsumeTimes: r.ReconsumeTimes, PreparedOffset: r.PreparedOffset, Properties: make(map[string]string),
		}
		for name, value := range message.Properties(r.Properties) {
			line.Properties[string(name)] = string(value)
		}
		if p.body {
			line.Body = r.Body
		}
		return p.line(&line)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "record %d size %d %s/%d number %d stored %s by %s born %s at %s", r.Offset, r.Size, plainText(string(r.Topic)), r.QueueID,
		r.QueueOffset, storeTime(r.StoreTime), r.StoreHost, storeTime(r.BornTime), r.BornHost)
	if r.Magic != message.MagicV1 {
		fmt.Fprintf(&b, " magic %08x", r.Magic)
	}
	if r.Flag != 0 || r.SysFlag != 0 {
		fmt.Fprintf(&b, " flag %d sysflag %#x", r.Flag, r.SysFlag)
	}
	if r.ReconsumeTimes != 0 || r.PreparedOffset != 0 {
		fmt.Fprintf(&b, " reconsumed %d prepared %d", r.ReconsumeTimes, r.PreparedOffset)
	}
	fmt.Fprintf(&b, " body %d bytes", len(r.Body))
	for name, value := range message.Properties(r.Properties) {
		fmt.Fprintf(&b, " %s=%q", plainText(string(name)), value)
	}
	if p.body {
		fmt.Fprintf(&b, " body=%q", r.Body)
	}
	return p.textf("%s\n", b.String())
}

func (p *printer) hole(h inspect.Hole) error {
	if p.json {
		return p.line(struct {
			Type string `json:"type"`
			From int64  `json:"from"`
			To   int64  `json:"to"`
			Why  string `json:"why"`
		}{"hole", h.From, h.To, h.Why})
	}
	return p.textf("hole %d to %d, %d bytes: %s\n", h.From, h.To, h.To-h.From, h.Why)
}

func (p *printer) entry(e inspect.QueueEntry) error {
	if p.json {
		return p.line(struct {
			Type     string         `json:"type"`
			Topic    string         `json:"topic"`
			QueueID  int32          `json:"queueId"`
			Number   int64          `json:"number"`
			Offset   message.Offset `json:"offset"`
			Size     int32          `json:"size"`
			TagsCode int64          `json:"tagsCode"`
			Filler   bool           `json:"filler,omitempty"`
		}{"entry", e.ID.Topic, e.ID.QueueID, e.Number, e.Offset, e.Size, e.TagsCode, e.Filler()})
	}
	if e.Filler() {
		return p.textf("entry %s/%d number %d filler\n", plainText(e.ID.Topic), e.ID.QueueID, e.Number)
	}
	return p.textf("entry %s/%d number %d offset %d size %d tags %d\n", plainText(e.ID.Topic), e.ID.QueueID, e.Number, e.Offset, e.Size, e.TagsCode)
}

func (p *printer) key(e inspect.KeyEntry) error {
	if p.json {
		return p.line(struct {
			Type        string         `json:"type"`
			File        string         `json:"file"`
			Number      int32          `json:"number"`
			Hash        int32          `json:"hash"`
			Offset      message.Offset `json:"offset"`
			Seconds     int32          `json:"seconds"`
			StoreTimeMS int64          `json:"storeTimeMS,omitempty"`
			Previous    int32          `json:"previous"`
		}{"key", e.File, e.Number, e.Hash, e.Offset, e.Seconds, e.StoreTimeMS, e.Previous})
	}
	return p.textf("key %s number %d hash %d offset %d seconds %d previous %d\n", e.File, e.Number, e.Hash, e.Offset, e.Seconds, e.Previous)
}

func (p *printer) config(item inspect.ConfigItem) error {
	if p.json {
		return p.line(struct {
			Type string `json:"type"`
			inspect.ConfigItem
		}{"config", item})
	}
	var value bytes.Buffer
	if json.Compact(&value, item.Value) != nil {
		value.Write(item.Value)
	}
	place := plainText(item.Key)
	if item.Table != "" {
		place = plainText(item.Table) + " " + place
	}
	return p.textf("config %s %s %s\n", plainText(item.File), place, plainText(value.String()))
}

func (p *printer) checkpoint(c *checkpoint.Checkpoint) error {
	if p.json {
		return p.line(struct {
			Type          string         `json:"type"`
			LogTimeMS     int64          `json:"logTimeMS"`
			QueueTimeMS   int64          `json:"queueTimeMS"`
			IndexTimeMS   int64          `json:"indexTimeMS"`
			MasterFlushed message.Offset `json:"masterFlushed"`
			Confirmed     message.Offset `json:"confirmed"`
			QueueOffset   message.Offset `json:"queueOffset"`
		}{"checkpoint", c.LogTimeMS, c.QueueTimeMS, c.IndexTimeMS, c.MasterFlushed, c.Confirmed, c.QueueOffset})
	}
	return p.textf("checkpoint log %s queues %s index %s masterFlushed %d confirmed %d queueOffset %d\n",
		storeTime(c.LogTimeMS), storeTime(c.QueueTimeMS), storeTime(c.IndexTimeMS), c.MasterFlushed, c.Confirmed, c.QueueOffset)
}

func (p *printer) mark(m *checkpoint.Mark) error {
	if p.json {
		type queue struct {
			Topic   string              `json:"topic"`
			QueueID int32               `json:"queueId"`
			Min     message.QueueOffset `json:"min"`
			Max     message.QueueOffset `json:"max"`
		}
		queues := make([]queue, 0, len(m.Queues))
		for _, q := range m.Queues {
			queues = append(queues, queue(q))
		}
		return p.line(struct {
			Type        string         `json:"type"`
			Flushed     message.Offset `json:"flushed"`
			Dispatched  message.Offset `json:"dispatched"`
			Last        message.Offset `json:"last"`
			StoreTimeMS int64          `json:"lastStoreTimeMS"`
			Limit       message.Offset `json:"limit"`
			Clean       bool           `json:"clean"`
			Queues      []queue        `json:"queues"`
		}{"mark", m.Flushed, m.Dispatched, m.Last, m.LastStoreTimeMS, m.Limit, m.Clean, queues})
	}
	if err := p.textf("mark flushed %d dispatched %d last %d stored %s limit %d clean %v\n",
		m.Flushed, m.Dispatched, m.Last, storeTime(m.LastStoreTimeMS), m.Limit, m.Clean); err != nil {
		return err
	}
	for _, q := range m.Queues {
		if err := p.textf("mark queue %s/%d min %d max %d\n", plainText(q.Topic), q.QueueID, q.Min, q.Max); err != nil {
			return err
		}
	}
	return nil
}
