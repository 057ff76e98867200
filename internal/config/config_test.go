package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func server(t *testing.T, lines ...string) *Values {
	t.Helper()
	v, err := Server(settings(t, lines...))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func settings(t *testing.T, lines ...string) []Setting {
	t.Helper()
	path := filepath.Join(t.TempDir(), "broker.conf")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	list, err := File(path)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestPropertiesAreReadAsJavaDoes(t *testing.T) {
	v := server(t,
		"# a comment", "! another",
		"brokerName = broker-a", "brokerClusterName:C1", "listenPort   20911 ",
		"namesrvAddr=127.0.0.1:9876;\\", "    127.0.0.1:9877",
		"maxMessageSize=1024", "maxMessageSize = 2048",
		"mapedFileSizeCommitLog=1048576",
		"regionId=\\u0041${user.home}",
	)
	for name, want := range map[string]string{
		"brokerName": "broker-a", "brokerClusterName": "C1", "listenPort": "20911", "haListenPort": "20912",
		"maxMessageSize": "2048", "mappedFileSizeCommitLog": "1048576", "regionId": "A${user.home}",
	} {
		if got := v.Text(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if got := v.NameServers(); !slices.Equal(got, []string{"127.0.0.1:9876", "127.0.0.1:9877"}) {
		t.Errorf("name servers %q", got)
	}
	if len(v.Warnings) != 0 {
		t.Errorf("warnings %q", v.Warnings)
	}
}

func TestDistributionFileOfAMasterStarts(t *testing.T) {
	v := server(t, "brokerClusterName = DefaultCluster", "brokerName = broker-a", "brokerId = 0", "deleteWhen = 04",
		"fileReservedTime = 48", "brokerRole = ASYNC_MASTER", "flushDiskType = ASYNC_FLUSH")
	if len(v.Warnings) != 0 {
		t.Errorf("warnings %q", v.Warnings)
	}
	if v.Text("deleteWhen") != "04" || v.Int("fileReservedTime") != 48 {
		t.Errorf("deleteWhen=%s, fileReservedTime=%d", v.Text("deleteWhen"), v.Int("fileReservedTime"))
	}
}

func TestUnknownAndIneffectiveKeysAreNamed(t *testing.T) {
	v := server(t, "sendMessageThreadPoolNums=16", "noSuchKey=1")
	if len(v.Warnings) != 2 || !strings.Contains(v.Warnings[0], "has no effect") || !strings.Contains(v.Warnings[1], "not a known setting") {
		t.Errorf("warnings %q", v.Warnings)
	}
}

func TestBadValuesStopTheStart(t *testing.T) {
	for _, line := range []string{
		"listenPort=abc", "listenPort=0", "listenPort=65536", "listenPort=2", "flushDiskType=SYNC", "autoCreateTopicEnable=yes",
		"mappedFileSizeCommitLog=12", "maxMessageSize=99999999999999999999", "ringmq.httpAddress=10913", "ringmq.commitPath=direct",
		"brokerRole=SLAVE", "brokerRole=SYNC_MASTER", "storeType=defaultRocksDB", "enableDLegerCommitLog=true", "aclEnable=true",
		"authenticationEnabled=true", "authorizationEnabled=true", "useTLS=true", "enableControllerMode=true", "bindAddress=elsewhere",
		"brokerIP1=1.2.3", "namesrvAddr=127.0.0.1", "storePathCommitLog=/a,/b", `brokerName=a\tb`,
		"transientStorePoolEnable=1", "transientStorePoolSize=0", "fastFailIfNoBufferInStorePool=no", "commitIntervalCommitLog=0",
		"commitCommitLogLeastPages=-1", "commitCommitLogThoroughInterval=x",
	} {
		_, err := Server(settings(t, line))
		name, value, _ := strings.Cut(line, "=")
		if err == nil {
			t.Errorf("%s: started", line)
		} else if text := err.Error(); !strings.Contains(text, name) || !strings.Contains(text, strings.Split(value, ",")[0]) || !strings.Contains(text, "allowed") && !strings.Contains(text, "not host:port") {
			t.Errorf("%s: %q does not name key, value and what is allowed", line, text)
		}
	}
}

func TestHarmlessValuesOfRefusedKeysPass(t *testing.T) {
	v := server(t, "aclEnable=false", "enableDLegerCommitLog = false", "storeType=default")
	if v.Text("storeType") != "default" {
		t.Error(v.Text("storeType"))
	}
}

func TestAddressesStayOnLoopbackUntilAnotherHostIsNamed(t *testing.T) {
	for _, c := range []struct{ line, bind, ip string }{
		{"", "127.0.0.1", "127.0.0.1"},
		{"namesrvAddr=localhost:9876", "127.0.0.1", "127.0.0.1"},
		{"namesrvAddr=[::1]:9876", "127.0.0.1", "127.0.0.1"},
		{"brokerIP1=192.0.2.7", "0.0.0.0", "192.0.2.7"},
		{"brokerIP1=127.0.0.2", "127.0.0.1", "127.0.0.2"},
		{"bindAddress=::", "::", outsideAddress()},
		{"namesrvAddr=192.0.2.1:9876", "0.0.0.0", outsideAddress()},
	} {
		v := server(t, c.line)
		if v.Text("bindAddress") != c.bind || v.Text("brokerIP1") != c.ip || v.Text("brokerIP2") != c.ip {
			t.Errorf("%q: bind %s, ip %s/%s, want %s, %s", c.line, v.Text("bindAddress"), v.Text("brokerIP1"), v.Text("brokerIP2"), c.bind, c.ip)
		}
	}
}

func TestLaterSourcesWinAndAreNamed(t *testing.T) {
	flag, err := Flag("listenPort=30911")
	if err != nil {
		t.Fatal(err)
	}
	v, err := Server(append(settings(t, "listenPort=20911"), flag))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(v.String(), "(--set)\nlistenPort=30911\n") {
		t.Error(v.String())
	}
	if _, err := Flag("listenPort"); err == nil {
		t.Error("--set without = accepted")
	}
}

func TestRegistryIsSound(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range slices.Concat(serverKeys) {
		if seen[k.Name] || k.Meaning == "" {
			t.Errorf("%s: twice or without meaning", k.Name)
		}
		seen[k.Name] = true
		if k.Default != "" {
			if _, err := k.check(k.Default); err != nil {
				t.Errorf("default: %v", err)
			}
		}
		if _, ok := changes[k.Name]; !ok {
			t.Errorf("%s: nothing says what a request may do to it", k.Name)
		}
		if !strings.HasPrefix(k.Name, "ringmq.") && !slices.Contains(strings.Fields(originalNames), k.Name) && k.Name != "aclEnable" {
			t.Errorf("%s is no setting of the original", k.Name)
		}
	}
}

func TestEveryChangeIsOfAKey(t *testing.T) {
	keys := byName(serverKeys)
	for name, c := range changes {
		k := keys[name]
		if k == nil || k.Name != name {
			t.Errorf("%s: no key", name)
			continue
		}
		if (c.when == never) != (c.why != "") {
			t.Errorf("%s: a key that cannot be changed has a reason, others have none", name)
		}
		if c.when != never && k.Default == "" {
			t.Errorf("%s: without a default of its own nobody could tell whether an override is one", name)
		}
	}
}

func TestAbsentKeysAreOfTheOriginal(t *testing.T) {
	for name := range absent {
		if !isOriginal(name) {
			t.Errorf("%s is no setting of the original", name)
		}
	}
}

// What mqadmin exportConfigs of both versions reads: 4.9.7 ends with a NullPointerException when one is missing.
func TestTextHasWhatToolsRead(t *testing.T) {
	text := "\n" + newBench(t).start().Text()
	for _, name := range strings.Fields(`brokerClusterName brokerId brokerName brokerRole fileReservedTime filterServerNums flushDiskType
		maxMessageSize messageDelayLevel msgTraceTopicName slaveReadEnable traceOn traceTopicEnable useTLS autoCreateTopicEnable
		autoCreateSubscriptionGroup`) {
		if !strings.Contains(text, "\n"+name+"=") {
			t.Errorf("%s is not shown", name)
		}
	}
}

func TestQueueFileSizeIsRounded(t *testing.T) {
	v := server(t, "mappedFileSizeConsumeQueue=1003")
	if v.Int("mappedFileSizeConsumeQueue") != 1020 || len(v.Warnings) != 1 {
		t.Error(v.Int("mappedFileSizeConsumeQueue"), v.Warnings)
	}
}

func TestTransientPoolOnlyWhereItHasAPlace(t *testing.T) {
	v := server(t, "transientStorePoolEnable=true")
	if !v.Bool("transientStorePoolEnable") || v.Int("transientStorePoolSize") != 5 || v.Bool("fastFailIfNoBufferInStorePool") ||
		v.Int("commitIntervalCommitLog") != 200 || v.Int("commitCommitLogLeastPages") != 4 || v.Int("commitCommitLogThoroughInterval") != 200 ||
		len(v.Warnings) != 0 {
		t.Errorf("settings\n%s\nwarnings %q", v, v.Warnings)
	}
	for _, other := range []string{"flushDiskType=SYNC_FLUSH", "ringmq.appendPath=mmap"} {
		v := server(t, "transientStorePoolEnable=true", other)
		if v.Bool("transientStorePoolEnable") || len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], "transientStorePoolEnable=true") ||
			!strings.Contains(v.Warnings[0], other) {
			t.Errorf("%s: %v, warnings %q", other, v.Bool("transientStorePoolEnable"), v.Warnings)
		}
		if v := server(t, "transientStorePoolSize=3", other); len(v.Warnings) != 0 {
			t.Errorf("%s: warnings %q", other, v.Warnings)
		}
	}
	if noTransientPool("ASYNC_FLUSH", "SLAVE", "pool") == "" || noTransientPool("ASYNC_FLUSH", "SYNC_MASTER", "pool") != "" {
		t.Error("a slave has no transient pool, a master may")
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("listenPort=1\nbrokerName:x\\\n y")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "f")
		if os.WriteFile(path, []byte(text), 0o600) != nil {
			return
		}
		if list, err := File(path); err == nil {
			_, _ = Server(list)
		}
	})
}
