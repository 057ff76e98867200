package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ringmq/internal/config"
	"ringmq/namesrv"
)

func values(t *testing.T, settings ...string) *config.Values {
	t.Helper()
	return live(t, settings...).Values()
}

// live is what a start with these lines in its file has.
func live(t *testing.T, settings ...string) *config.Live {
	t.Helper()
	s := config.Sources{Check: check}
	for _, text := range settings {
		set, err := config.Flag(text)
		if err != nil {
			t.Fatal(err)
		}
		s.Below = append(s.Below, set)
	}
	l, err := config.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// What the table of keys allows the store takes, at both ends of every range.
func TestKeysFitTheStore(t *testing.T) {
	for _, value := range values(t).All() {
		k := value.Key
		if k.Kind != config.Int {
			continue
		}
		for _, n := range []int64{k.Min, k.Max} {
			if n == 0 || k.Name == "listenPort" {
				continue
			}
			v := values(t, "storePathRootDir=/store", k.Name+"="+strconv.FormatInt(n, 10))
			if err := storeOptions(v, newTuning(v), quiet()).Validate(); err != nil {
				t.Errorf("%s=%d: %v", k.Name, n, err)
			}
		}
	}
}

// What the store refuses is wrong usage, told with key, value and what is allowed, before anything is touched.
func TestSettingsOfTheStoreAreCheckedFirst(t *testing.T) {
	for key, value := range map[string]string{"messageDelayLevel": "1s 5x", "deleteWhen": "04;24", "transientStorePoolSize": "1048576"} {
		dir := filepath.Join(t.TempDir(), "store")
		err := runServer(context.Background(), live(t, "storePathRootDir="+dir, "transientStorePoolEnable=true", key+"="+value), quiet(), new(bytes.Buffer))
		var usage usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), value[3:]) {
			t.Errorf("%s=%s: got %v", key, value, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the store was touched: %v", key, err)
		}
	}
}

// The embedded name server is announced only if it runs here: not when its port is taken by another one, which is used then.
func TestBannerNamesTheEmbeddedNameServerOnly(t *testing.T) {
	other, err := namesrv.Listen(namesrv.Options{Address: "127.0.0.1:0", Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	ports := freePorts(t, 2)
	run := func(namesrvPort string) string {
		v := live(t, "storePathRootDir="+t.TempDir(), "mappedFileSizeCommitLog=65536", "ringmq.httpAddress=off",
			"listenPort="+ports[1], "ringmq.namesrvListenPort="+namesrvPort, "diskSpaceWarningLevelRatio=99")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		out := &banner{started: cancel}
		if err := runServer(ctx, v, quiet(), out); err != nil {
			t.Error(err)
		}
		return out.text.String()
	}
	const announced = "The Name Server boot success"
	if text := run(fmt.Sprint(other.Addr().Port())); strings.Contains(text, announced) || !strings.Contains(text, "name server is "+other.Addr().String()) {
		t.Errorf("with another name server:\n%s", text)
	}
	if text := run(ports[0]); !strings.Contains(text, announced) {
		t.Errorf("with the embedded one:\n%s", text)
	}
}

// banner keeps what the server prints and ends it when it has started.
type banner struct {
	text    bytes.Buffer
	started func()
}

func (b *banner) Write(text []byte) (int, error) {
	if strings.HasPrefix(string(text), "The broker[") {
		b.started()
	}
	return b.text.Write(text)
}

// freePorts are ports that nobody had a moment ago, with the one two below each free as well.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for len(ports) < n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		fast, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port-2))
		if err == nil {
			fast.Close()
			ports = append(ports, fmt.Sprint(port))
		}
		defer l.Close()
	}
	return ports
}
