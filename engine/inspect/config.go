package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ringmq/internal/fastjson"
)

// maxConfig is the largest file of settings that is read.
const maxConfig = 256 << 20

// backup is the end of the name under which brokers keep the file before the last one.
const backup = ".bak"

// ConfigItem is one setting: a row of a table, as a topic is of topics.json, or a single value.
type ConfigItem struct {
	File  string          `json:"file"`
	Table string          `json:"table,omitempty"` // "": Key stands in no table
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"` // legal JSON, also where the file's is not
}

// Config visits what the JSON files of config/ say, file by file, in the order of tables and keys. Of a file that is missing or cannot be read
// the backup is taken, as brokers do; broken tells of each such file why, and may be nil.
func (s *Store) Config(visit func(ConfigItem) error, broken func(file string, err error)) error {
	names := make(map[string]bool)
	for _, f := range s.State.Config {
		if name := strings.TrimSuffix(f.Name, backup); strings.HasSuffix(name, ".json") {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		items, err := s.configFile(name)
		if err != nil {
			if broken != nil {
				broken(name, err)
			}
			if items, err = s.configFile(name + backup); err != nil {
				if broken != nil && !errors.Is(err, fs.ErrNotExist) {
					broken(name+backup, err)
				}
				continue
			}
		}
		for _, item := range items {
			if err := visit(item); err != nil {
				return enough(err)
			}
		}
	}
	return nil
}

func (s *Store) configFile(name string) (items []ConfigItem, err error) {
	path := filepath.Join(s.dir, "config", name)
	if _, err := plain(path, maxConfig); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	var file map[string]json.RawMessage
	if err := fastjson.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("inspect: %s: %w", path, err)
	}
	if file == nil {
		return nil, fmt.Errorf("inspect: %s: it holds no settings", path)
	}
	for _, table := range slices.Sorted(maps.Keys(file)) {
		var rows map[string]json.RawMessage
		if table == "dataVersion" || json.Unmarshal(file[table], &rows) != nil || rows == nil {
			items = append(items, ConfigItem{File: name, Key: table, Value: file[table]})
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(rows)) {
			items = append(items, ConfigItem{File: name, Table: table, Key: key, Value: rows[key]})
		}
	}
	for i := range items {
		items[i].File = strings.TrimSuffix(items[i].File, backup)
	}
	return items, nil
}

// Topic is the topic that a row is about, "" if it is of none: rows of topics.json are named by it, offsets by topic@group.
func (c *ConfigItem) Topic() string {
	switch c.File {
	case "topics.json":
		if c.Table == "topicConfigTable" {
			return c.Key
		}
	case "consumerOffset.json", "consumerOrderInfo.json":
		topic, _, _ := strings.Cut(c.Key, "@")
		return topic
	case "topicQueueMapping.json", "consumerFilter.json":
		if c.Table != "" {
			return c.Key
		}
	}
	return ""
}
