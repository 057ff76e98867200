package api

import (
	"encoding/json"
	"maps"
	"slices"

	"ringmq/broker/configfile"
	"ringmq/broker/group"
	"ringmq/internal/fastjson"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

func groupRoutes() map[int32]route {
	return map[int32]route{
		remoting.UpdateAndCreateSubscriptionGroup: {handle: (*API).putGroup, slow: true},
		remoting.GetAllSubscriptionGroupConfig:    {handle: (*API).allGroups, slow: true},
		remoting.GetSubscriptionGroupConfig:       {handle: (*API).groupConfig},
	}
}

// putGroup handles 200. The group is on the disk before the answer.
func (a *API) putGroup(c *remoting.Command, r server.Reply) {
	var next group.Config
	if err := fastjson.Unmarshal(c.Body, &next); err != nil {
		refuse(r, remoting.InvalidParameter, "body is no subscription group: %v", err)
		return
	}
	if _, err := a.opts.Groups.Put(next); err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	if err := a.opts.Groups.Save(); err != nil {
		refuse(r, remoting.SystemError, "group %s is in use but could not be saved: %v", next.Name, err)
		return
	}
	a.log.Info("api: group set", "group", next.Name, "by", r.Conn().Remote())
	succeed(r)
}

// allGroups handles 201, whole or in pages.
func (a *API) allGroups(c *remoting.Command, r server.Reply) {
	all, forbidden, version := a.opts.Groups.Snapshot()
	names, err := page(c, slices.Sorted(maps.Keys(all)), "groupSeq", "maxGroupNum")
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	part := make(map[string]*group.Config, len(names))
	for _, name := range names {
		part[name] = all[name]
	}
	if forbidden == nil {
		forbidden = json.RawMessage(`{}`)
	}
	var answer remoting.Command
	answer.Reset()
	answer.SetInt("totalGroupNum", int64(len(all)))
	answerJSON(r, &answer, struct {
		DataVersion configfile.DataVersion   `json:"dataVersion"`
		Forbidden   json.RawMessage          `json:"forbiddenTable"`
		Groups      map[string]*group.Config `json:"subscriptionGroupTable"`
	}{version, forbidden, part})
}

// groupConfig handles 352.
func (a *API) groupConfig(c *remoting.Command, r server.Reply) {
	name, err := need(c, "group")
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	config := a.opts.Groups.FindOrCreate([]byte(name))
	if config == nil {
		refuse(r, remoting.SubscriptionGroupNotExist, "consumer group %.255q does not exist", name)
		return
	}
	var answer remoting.Command
	answer.Reset()
	answerJSON(r, &answer, config)
}
