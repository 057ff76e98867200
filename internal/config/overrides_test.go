package config

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Made by hand; the sum by another implementation of XXH64.
const goldenOverrides = "# Settings changed by request (mqadmin updateBrokerConfig). Only ringmq writes here: what is changed by hand is not believed.\n" +
	"# xxhash=cb528824d2f398c6\n" +
	"deleteWhen=03\nflushIntervalCommitLog=200\nregionId=a \\\\b\n"

func goldenValues() map[string]string {
	return map[string]string{"deleteWhen": "03", "flushIntervalCommitLog": "200", "regionId": `a \b`}
}

func TestOverridesGolden(t *testing.T) {
	if got := string(encodeOverrides(goldenValues())); got != goldenOverrides {
		t.Errorf("written\n%s\nwant\n%s", got, goldenOverrides)
	}
	got, err := decodeOverrides([]byte(goldenOverrides))
	if err != nil || !maps.Equal(got, goldenValues()) {
		t.Errorf("read %q, %v", got, err)
	}
}

// No file that was cut off or has another byte is believed.
func TestOverridesDamaged(t *testing.T) {
	whole := []byte(goldenOverrides)
	for n := range whole {
		if values, err := decodeOverrides(whole[:n]); err == nil {
			t.Errorf("the first %d bytes are read as %q", n, values)
		}
		for _, flip := range []byte{1, 0x20, 0x80} {
			whole[n] ^= flip
			if values, err := decodeOverrides(whole); err == nil {
				t.Errorf("byte %d flipped: read as %q", n, values)
			}
			whole[n] ^= flip
		}
	}
	for _, more := range []string{"\n", "x=y\n", "\x00"} {
		if values, err := decodeOverrides([]byte(goldenOverrides + more)); err == nil {
			t.Errorf("with %q behind it: read as %q", more, values)
		}
	}
}

func FuzzOverrides(f *testing.F) {
	f.Add([]byte(goldenOverrides))
	f.Add([]byte(overridesHead + "# xxhash=ef46db3751d8e999\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		values, err := decodeOverrides(text)
		if err != nil {
			return
		}
		again, err := decodeOverrides(encodeOverrides(values))
		if err != nil || !maps.Equal(again, values) {
			t.Errorf("%q: again %q, %v", values, again, err)
		}
	})
}

// A file that is there but cannot be read stops the start: what was asked for must not be left out.
func TestUnreadableOverrides(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "ringmq", overridesName), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Sources{Below: []Setting{{"storePathRootDir", dir, "test"}}})
	if err == nil || !strings.Contains(err.Error(), overridesName) {
		t.Errorf("a folder in place of the file: %v", err)
	}
}
