package api

import (
	"encoding/json"
	"errors"

	"ringmq/broker/configfile"
	"ringmq/internal/config"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

// Settings is the configuration of the running broker; *config.Live satisfies it.
type Settings interface {
	// Text is the configuration in effect, as a properties file.
	Text() string
	// Version counts the changes since the start; changedMS is when the last one was, or the start.
	Version() (count, changedMS int64)
	// Update changes what a properties file names, all of it or nothing, and says when that takes effect.
	Update(text []byte, from string) (remark string, err error)
}

var _ Settings = (*config.Live)(nil)

func configRoutes() map[int32]route {
	return map[int32]route{
		remoting.GetBrokerConfig:    {handle: (*API).brokerConfig, slow: true},
		remoting.UpdateBrokerConfig: {handle: (*API).updateBrokerConfig, slow: true},
	}
}

// brokerConfig handles 26.
func (a *API) brokerConfig(_ *remoting.Command, r server.Reply) {
	if a.opts.Settings == nil {
		refuse(r, remoting.SystemError, "broker %s has no configuration to be shown", a.opts.Broker)
		return
	}
	var answer remoting.Command
	answer.Reset()
	count, changedMS := a.opts.Settings.Version()
	version, err := json.Marshal(configfile.DataVersion{Counter: count, Timestamp: changedMS})
	if err != nil {
		panic("BUG: api: " + err.Error())
	}
	answer.SetBytes("version", version)
	answerBody(r, &answer, []byte(a.opts.Settings.Text()))
}

// updateBrokerConfig handles 25. The original answers 0 whatever the keys and values are. Here 0 means that each of them is kept, and
// the remark says when it takes effect; any other code means that nothing has changed.
func (a *API) updateBrokerConfig(c *remoting.Command, r server.Reply) {
	if a.opts.Settings == nil {
		refuse(r, remoting.SystemError, "broker %s has no configuration to be changed", a.opts.Broker)
		return
	}
	remark, err := a.opts.Settings.Update(c.Body, r.Conn().Remote().String())
	switch {
	case errors.Is(err, config.ErrFixed):
		refuse(r, remoting.NoPermission, "%v", err)
	case errors.Is(err, config.ErrBad):
		refuse(r, remoting.InvalidParameter, "%v", err)
	case err != nil:
		a.log.Error("api: settings could not be changed", "error", err)
		refuse(r, remoting.SystemError, "%v", err)
	default:
		refuse(r, remoting.Success, "%s", remark)
	}
}
