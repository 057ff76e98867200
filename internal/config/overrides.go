package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/cespare/xxhash/v2"

	"ringmq/internal/properties"
)

// The overrides are what requests have changed, a properties file under two lines of comment:
//
//	# Settings changed by request ...
//	# xxhash=<16 hex digits, of all bytes behind this line>
//	deleteWhen=03
//	flushIntervalCommitLog=200
//
// It is replaced in one step, so it is whole unless a disk, or somebody, has changed it; then it is not believed.
const (
	overridesName   = "overrides" // in the folder ringmq of the store
	overridesHead   = "# Settings changed by request (mqadmin updateBrokerConfig). Only ringmq writes here: what is changed by hand is not believed.\n"
	overridesSum    = "# xxhash=%016x\n"
	overridesSource = "overrides"
)

// encodeOverrides makes the file of names and values.
func encodeOverrides(values map[string]string) []byte {
	var lines []byte
	for _, name := range slices.Sorted(maps.Keys(values)) {
		lines = properties.Append(lines, name, values[name])
	}
	return append(fmt.Appendf([]byte(overridesHead), overridesSum, xxhash.Sum64(lines)), lines...)
}

// decodeOverrides is strict: any byte that is not as it was written is an error.
func decodeOverrides(text []byte) (map[string]string, error) {
	rest, ok := bytes.CutPrefix(text, []byte(overridesHead))
	end := bytes.IndexByte(rest, '\n') + 1
	if !ok || end == 0 {
		return nil, errors.New("its first lines are not those that ringmq writes")
	}
	sum, lines := rest[:end], rest[end:]
	if want := fmt.Sprintf(overridesSum, xxhash.Sum64(lines)); string(sum) != want {
		return nil, errors.New("its checksum does not fit its lines")
	}
	pairs, err := properties.Parse(lines)
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(pairs))
	for _, p := range pairs {
		values[p.Key] = p.Value
	}
	return values, nil
}

// readOverrides returns the bytes of the file, nil if there is none, and what they say, or why they are not believed. An error means that it
// is there but cannot be read: to go on without it would leave out what somebody has asked for.
func readOverrides(path string) (text []byte, values map[string]string, damage, err error) {
	text, err = os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, map[string]string{}, nil, nil
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("config: settings changed by request: %w", err)
	}
	if values, damage = decodeOverrides(text); damage != nil {
		values = map[string]string{}
	}
	return text, values, damage, nil
}
