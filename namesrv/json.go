package namesrv

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"ringmq/net/remoting"
)

// form is how integer keys of a map are written. Java's library writes {0:"..."}, which is no JSON; clients since 4.9.4, and those
// that ask for it, get {"0":"..."}.
type form bool

const (
	plain    form = false
	standard form = true
)

// appendRoute writes who has a topic, in the original's order of keys and sorted by broker names; false when nobody has it.
func (r *routes) appendRoute(dst []byte, topic, orderConf string, f form) ([]byte, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	names := make([]string, 0, 8)
	for name := range r.topics[topic] {
		if r.groups[name] != nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return dst, false
	}
	slices.Sort(names)
	dst = append(dst, `{"brokerDatas":[`...)
	for i, name := range names {
		dst = comma(dst, i)
		dst = appendGroup(dst, name, r.groups[name], f)
	}
	dst = append(dst, `],"filterServerTable":{`...)
	dst = r.appendFiltersLocked(dst, names)
	dst = append(dst, '}')
	if orderConf != "" {
		dst = append(dst, `,"orderTopicConf":`...)
		dst = remoting.AppendQuoted(dst, orderConf)
	}
	dst = append(dst, `,"queueDatas":[`...)
	for i, name := range names {
		dst = comma(dst, i)
		dst = appendQueues(dst, name, r.topics[topic][name])
	}
	dst = append(dst, ']')
	if mappings := r.mappings[topic]; len(mappings) > 0 {
		dst = append(dst, `,"topicQueueMappingByBroker":{`...)
		for i, name := range slices.Sorted(maps.Keys(mappings)) {
			dst = comma(dst, i)
			dst = remoting.AppendQuoted(dst, name)
			dst = append(dst, ':')
			dst = append(dst, mappings[name]...)
		}
		dst = append(dst, '}')
	}
	return append(dst, '}'), true
}

func appendGroup(dst []byte, name string, g *brokerGroup, f form) []byte {
	dst = append(dst, `{"brokerAddrs":`...)
	dst = appendAddrs(dst, g, f)
	dst = append(dst, `,"brokerName":`...)
	dst = remoting.AppendQuoted(dst, name)
	dst = append(dst, `,"cluster":`...)
	dst = remoting.AppendQuoted(dst, g.cluster)
	dst = append(dst, `,"enableActingMaster":`...)
	dst = strconv.AppendBool(dst, g.actingMaster)
	return append(dst, '}')
}

func appendAddrs(dst []byte, g *brokerGroup, f form) []byte {
	dst = append(dst, '{')
	for i, id := range slices.Sorted(maps.Keys(g.addrs)) {
		dst = comma(dst, i)
		if f == standard {
			dst = append(dst, '"')
		}
		dst = strconv.AppendInt(dst, id, 10)
		if f == standard {
			dst = append(dst, '"')
		}
		dst = append(dst, ':')
		dst = remoting.AppendQuoted(dst, g.addrs[id])
	}
	return append(dst, '}')
}

func (r *routes) appendFiltersLocked(dst []byte, names []string) []byte {
	if len(r.filters) == 0 {
		return dst
	}
	n := 0
	for _, name := range names {
		group := r.groups[name]
		for _, id := range slices.Sorted(maps.Keys(group.addrs)) {
			filters := r.filters[brokerKey{group.cluster, group.addrs[id]}]
			if len(filters) == 0 {
				continue
			}
			dst = comma(dst, n)
			n++
			dst = remoting.AppendQuoted(dst, group.addrs[id])
			dst = append(dst, ':')
			dst = appendStrings(dst, filters)
		}
	}
	return dst
}

func appendQueues(dst []byte, name string, q queueData) []byte {
	dst = append(dst, `{"brokerName":`...)
	dst = remoting.AppendQuoted(dst, name)
	dst = append(dst, `,"perm":`...)
	dst = strconv.AppendInt(dst, int64(q.perm), 10)
	dst = append(dst, `,"readQueueNums":`...)
	dst = strconv.AppendInt(dst, int64(q.readQueues), 10)
	dst = append(dst, `,"topicSysFlag":`...)
	dst = strconv.AppendInt(dst, int64(q.sysFlag), 10)
	dst = append(dst, `,"writeQueueNums":`...)
	dst = strconv.AppendInt(dst, int64(q.writeQueues), 10)
	return append(dst, '}')
}

// appendClusters writes all clusters with their brokers.
func (r *routes) appendClusters(dst []byte, f form) []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	dst = append(dst, `{"brokerAddrTable":{`...)
	for i, name := range slices.Sorted(maps.Keys(r.groups)) {
		dst = comma(dst, i)
		dst = remoting.AppendQuoted(dst, name)
		dst = append(dst, ':')
		dst = appendGroup(dst, name, r.groups[name], f)
	}
	dst = append(dst, `},"clusterAddrTable":{`...)
	for i, cluster := range slices.Sorted(maps.Keys(r.clusters)) {
		dst = comma(dst, i)
		dst = remoting.AppendQuoted(dst, cluster)
		dst = append(dst, ':')
		dst = appendStrings(dst, slices.Sorted(maps.Keys(r.clusters[cluster])))
	}
	return append(dst, "}}"...)
}

// appendMembers writes the brokers of one name.
func (r *routes) appendMembers(dst []byte, cluster, name string, f form) []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	dst = append(dst, `{"brokerMemberGroup":{"brokerAddrs":`...)
	if group := r.groups[name]; group != nil {
		dst = appendAddrs(dst, group, f)
	} else {
		dst = append(dst, "{}"...)
	}
	dst = append(dst, `,"brokerName":`...)
	dst = remoting.AppendQuoted(dst, name)
	dst = append(dst, `,"cluster":`...)
	dst = remoting.AppendQuoted(dst, cluster)
	return append(dst, "}}"...)
}

// appendTopics writes the names of all topics, or of those that brokers of one cluster have.
func (r *routes) appendTopics(dst []byte, cluster string) []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	names := make([]string, 0, len(r.topics))
	for topic, brokers := range r.topics {
		if cluster == "" || r.anyInLocked(brokers, cluster) {
			names = append(names, topic)
		}
	}
	slices.Sort(names)
	dst = append(dst, `{"topicList":`...)
	dst = appendStrings(dst, names)
	return append(dst, '}')
}

func (r *routes) anyInLocked(brokers map[string]queueData, cluster string) bool {
	for name := range brokers {
		if r.clusters[cluster][name] {
			return true
		}
	}
	return false
}

// appendSystemTopics writes the topics that are named like clusters and brokers, and the address of one broker that knows the rest.
func (r *routes) appendSystemTopics(dst []byte) []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	names := slices.Concat(slices.Collect(maps.Keys(r.clusters)), slices.Collect(maps.Keys(r.groups)))
	slices.Sort(names)
	dst = append(dst, '{')
	if groups := slices.Sorted(maps.Keys(r.groups)); len(groups) > 0 {
		group := r.groups[groups[0]]
		dst = append(dst, `"brokerAddr":`...)
		dst = remoting.AppendQuoted(dst, group.addrs[group.minID()])
		dst = append(dst, ',')
	}
	dst = append(dst, `"topicList":`...)
	dst = appendStrings(dst, slices.Compact(names))
	return append(dst, '}')
}

func appendVersion(dst []byte, v dataVersion) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: namesrv: three numbers cannot be written: " + err.Error())
	}
	return append(dst, text...)
}

// appendTable writes a map of strings as the body of key-value answers.
func appendTable(dst []byte, table map[string]string) []byte {
	dst = append(dst, `{"table":{`...)
	for i, key := range slices.Sorted(maps.Keys(table)) {
		dst = comma(dst, i)
		dst = remoting.AppendQuoted(dst, key)
		dst = append(dst, ':')
		dst = remoting.AppendQuoted(dst, table[key])
	}
	return append(dst, "}}"...)
}

func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, text := range list {
		dst = comma(dst, i)
		dst = remoting.AppendQuoted(dst, text)
	}
	return append(dst, ']')
}

func comma(dst []byte, i int) []byte {
	if i == 0 {
		return dst
	}
	return append(dst, ',')
}
