package message_test

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"ringmq/engine/message"
)

func TestOffsetID(t *testing.T) {
	f := func(host string, at message.Offset, want string) {
		t.Helper()
		addr := netip.MustParseAddrPort(host)
		got := string(message.AppendOffsetID([]byte("x"), addr, at))
		if got != "x"+want {
			t.Errorf("AppendOffsetID(%s, %d) = %s, want x%s", host, at, got, want)
		}
		for _, id := range []string{want, strings.ToLower(want)} {
			if h, o, err := message.ParseOffsetID(id); h != addr || o != at || err != nil {
				t.Errorf("ParseOffsetID(%s) = %v, %d, %v", id, h, o, err)
			}
		}
	}
	f("127.0.0.1:10911", 0, "7F000001"+"00002A9F"+"0000000000000000")
	f("10.171.205.239:65535", 1<<40+0xAB, "0AABCDEF"+"0000FFFF"+"00000100000000AB")
	f("[2001:db8::1]:80", 255, "20010DB8000000000000000000000001"+"00000050"+"00000000000000FF")
}

func TestParseOffsetIDRefuses(t *testing.T) {
	for _, id := range []string{
		"", "7F000001", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("0", 57), strings.Repeat("G", 32),
		"7F000001" + "00010000" + "0000000000000000", // port 65536
		"7F000001" + "00002A9F" + "8000000000000000", // below 0
		strings.Repeat("z", 100_000),
	} {
		if _, _, err := message.ParseOffsetID(id); err == nil || len(err.Error()) > 300 {
			t.Errorf("ParseOffsetID(%.40q): %v", id, err)
		}
	}
}

func TestUniqueID(t *testing.T) {
	at := time.Date(2024, 2, 1, 0, 0, 0, 258e6, time.UTC)
	u := message.NewUniqueIDs(netip.MustParseAddr("127.0.0.1"), 0x12345, 0xCAFEBABE, func() time.Time { return at })
	if got, want := string(u.AppendTo(nil)), "7F000001"+"2345"+"CAFEBABE"+"00000102"+"0001"; got != want {
		t.Errorf("id %s, want %s", got, want)
	}
	at = time.Date(2024, 2, 29, 23, 59, 59, 999e6, time.UTC)
	if got, want := string(u.AppendTo(nil)), "7F000001"+"2345"+"CAFEBABE"+"95586BFF"+"0002"; got != want {
		t.Errorf("id at the end of February %s, want %s", got, want)
	}
	at = time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	if got, want := string(u.AppendTo(nil)), "7F000001"+"2345"+"CAFEBABE"+"00000000"+"0003"; got != want {
		t.Errorf("id in the next month %s, want %s", got, want)
	}
	v6 := message.NewUniqueIDs(netip.MustParseAddr("::1"), 1, 2, func() time.Time { return at })
	if got, want := string(v6.AppendTo(nil)), strings.Repeat("0", 31)+"1"+"0001"+"00000002"+"00000000"+"0001"; got != want {
		t.Errorf("IPv6 id %s, want %s", got, want)
	}
}

func TestUniqueIDsDiffer(t *testing.T) {
	at := time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC)
	u := message.NewUniqueIDs(netip.MustParseAddr("127.0.0.1"), 1, 2, func() time.Time { return at })
	var seen sync.Map
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if _, again := seen.LoadOrStore(string(u.AppendTo(nil)), true); again {
					t.Error("an id came twice")
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestIDsNoAllocation(t *testing.T) {
	u := message.NewUniqueIDs(netip.MustParseAddr("::1"), 1, 2, nil)
	buf := make([]byte, 0, 64)
	host := netip.MustParseAddrPort("[::1]:10911")
	if n := testing.AllocsPerRun(100, func() {
		buf = u.AppendTo(buf[:0])
		buf = message.AppendOffsetID(buf[:0], host, 12345)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
