package api

import (
	"bytes"
	"encoding/json"
	"fmt"

	"ringmq/net/remoting"
	"ringmq/net/server"
)

// refuse answers with a code and a remark, which says for what field or setting a request is refused.
func refuse(r server.Reply, code int32, format string, args ...any) {
	var c remoting.Command
	c.Reset()
	c.Code = code
	c.Remark = fmt.Sprintf(format, args...)
	r.Write(&c)
}

// refuseUnknown answers a request that nobody handles.
func refuseUnknown(c *remoting.Command, r server.Reply) {
	if name := remoting.CodeName(c.Code); name != "" {
		refuse(r, remoting.RequestCodeNotSupported, "request code %d (%s) is not supported by this version of ringmq", c.Code, name)
		return
	}
	refuse(r, remoting.RequestCodeNotSupported, "request code %d is not known", c.Code)
}

// succeed answers with nothing but success.
func succeed(r server.Reply) {
	var c remoting.Command
	c.Reset()
	r.Write(&c)
}

// answerBody answers with a body that is the answer's own.
func answerBody(r server.Reply, c *remoting.Command, body []byte) {
	c.Code = remoting.Success
	c.Body = body
	r.Write(c)
}

// answerJSON answers with a value as JSON.
func answerJSON(r server.Reply, c *remoting.Command, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic("BUG: api: answer cannot be encoded: " + err.Error())
	}
	answerBody(r, c, body)
}

// clone copies a request that outlives its Handle.
func clone(c *remoting.Command) *remoting.Command {
	d := &remoting.Command{
		Code: c.Code, Language: c.Language, Version: c.Version, Opaque: c.Opaque, Flag: c.Flag, Serialize: c.Serialize,
		Remark: c.Remark, Body: bytes.Clone(c.Body), Fields: make([]remoting.Field, len(c.Fields)),
	}
	for i, f := range c.Fields {
		d.Fields[i] = remoting.Field{Key: bytes.Clone(f.Key), Value: bytes.Clone(f.Value)}
	}
	return d
}

// need is an ext field that must be there and not be empty.
func need(c *remoting.Command, name string) (string, error) {
	value, ok := c.Field(name)
	if !ok || len(value) == 0 {
		return "", fmt.Errorf("ext field %q is missing", name)
	}
	return string(value), nil
}

// int32Of is an ext field that must be a number of 32 bits.
func int32Of(c *remoting.Command, name string) (int32, error) {
	n, err := c.Int(name)
	if err != nil {
		return 0, err
	}
	if n != int64(int32(n)) {
		return 0, fmt.Errorf("ext field %q is %d: an integer of 32 bits is needed", name, n)
	}
	return int32(n), nil
}
