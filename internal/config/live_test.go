package config

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// bench is a broker's settings over a store and a file of a user.
type bench struct {
	t         *testing.T
	store     string
	conf      string
	confText  string
	overrides string
	lines     bytes.Buffer
}

func newBench(t *testing.T, lines ...string) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t, store: filepath.Join(dir, "store"), conf: filepath.Join(dir, "broker.conf")}
	b.overrides = filepath.Join(b.store, "ringmq", "overrides")
	b.confText = strings.Join(append([]string{"# of the user", "storePathRootDir = " + b.store}, lines...), "\r\n") + "\n"
	for _, err := range []error{os.MkdirAll(filepath.Dir(b.overrides), 0o755), os.WriteFile(b.conf, []byte(b.confText), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) sources(above ...string) Sources {
	b.t.Helper()
	var s Sources
	var err error
	if s.Below, err = File(b.conf); err != nil {
		b.t.Fatal(err)
	}
	for _, arg := range above {
		set, err := Flag(arg)
		if err != nil {
			b.t.Fatal(err)
		}
		s.Above = append(s.Above, set)
	}
	return s
}

// start is what a start does.
func (b *bench) start(above ...string) *Live {
	b.t.Helper()
	l, err := Open(b.sources(above...))
	if err == nil {
		err = l.Own(slog.New(slog.NewTextHandler(&b.lines, nil)))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

func (b *bench) change(l *Live, text string) string {
	b.t.Helper()
	remark, err := l.Update([]byte(text), "test")
	if err != nil {
		b.t.Fatalf("%q: %v", text, err)
	}
	return remark
}

// refuse checks that a request changes nothing, and what is said of it.
func (b *bench) refuse(l *Live, text string, kind error, words ...string) {
	b.t.Helper()
	before, was := l.Text(), b.file()
	count, _ := l.Version()
	remark, err := l.Update([]byte(text), "test")
	if !errors.Is(err, kind) {
		b.t.Errorf("%.80q: remark %q, error %v, want %v", text, remark, err, kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			b.t.Errorf("%.80q: %q does not say %q", text, err, w)
		}
	}
	if again, _ := l.Version(); l.Text() != before || b.file() != was || again != count {
		b.t.Errorf("%.80q: refused, but something has changed", text)
	}
}

// file is the text of the overrides, "" if there are none.
func (b *bench) file() string {
	text, err := os.ReadFile(b.overrides)
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	return string(text)
}

func (b *bench) has(v *Values, name, text, source string) {
	b.t.Helper()
	if value := v.value(name); value.Text != text || !strings.HasPrefix(value.Source, source) {
		b.t.Errorf("%s is %s (%s), want %s (%s)", name, value.Text, value.Source, text, source)
	}
}

func TestUpdateNowAndAfterARestart(t *testing.T) {
	b := newBench(t, "flushIntervalCommitLog=300")
	l := b.start()
	var followed []string
	l.Follow(func(v *Values) { followed = append(followed, v.Text("flushIntervalCommitLog")) })

	remark := b.change(l, "flushIntervalCommitLog = 200 \nmaxIndexNum=1000000\n")
	if remark != "in effect now: flushIntervalCommitLog=200; in effect after a restart: maxIndexNum=1000000" {
		t.Error(remark)
	}
	b.has(l.Values(), "flushIntervalCommitLog", "200", "overrides")
	b.has(l.Values(), "maxIndexNum", "20000000", "default")
	if text := l.Text(); !strings.Contains(text, "\nflushIntervalCommitLog=200\n") || !strings.HasSuffix(text, "\nringmq.afterRestart=maxIndexNum=1000000\n") {
		t.Errorf("shown:\n%s", text)
	}
	if got := strings.Join(followed, " "); got != "300 200" {
		t.Errorf("followed %s", got)
	}
	if count, changed := l.Version(); count != 1 || changed == 0 {
		t.Errorf("version %d, %d", count, changed)
	}
	if !strings.Contains(b.lines.String(), "key=flushIntervalCommitLog was=300 is=200 from=test") || !strings.Contains(b.lines.String(), `"will be"=1000000`) {
		t.Errorf("lines:\n%s", b.lines.String())
	}

	l = b.start() // a restart
	b.has(l.Values(), "flushIntervalCommitLog", "200", "overrides")
	b.has(l.Values(), "maxIndexNum", "1000000", "overrides")
	if text := l.Text(); strings.Contains(text, "afterRestart") {
		t.Errorf("shown after the restart:\n%s", text)
	}
	if text := l.Values().String(); !strings.Contains(text, "(overrides)\nflushIntervalCommitLog=200\n") {
		t.Errorf("origin is not shown:\n%s", text)
	}

	// What says the same as the file is no override any more.
	b.change(l, "flushIntervalCommitLog=300\nmaxIndexNum=20000000")
	b.has(l.Values(), "flushIntervalCommitLog", "300", "file")
	if text := b.file(); text != "" {
		t.Errorf("overrides that say nothing new:\n%s", text)
	}
	if text, err := os.ReadFile(b.conf); err != nil || string(text) != b.confText {
		t.Errorf("the user's file has changed: %q, %v", text, err)
	}
}

func TestAliasesAreOneKey(t *testing.T) {
	b := newBench(t)
	l := b.start()
	b.refuse(l, "mapedFileSizeCommitLog=4096", ErrFixed, "mappedFileSizeCommitLog")
}

func TestUpdateRefusals(t *testing.T) {
	b := newBench(t)
	l := b.start()
	b.change(l, "deleteWhen=03")
	long := strings.Repeat("x", maxText+1)
	for _, c := range []struct {
		text  string
		kind  error
		words string // separated by |
	}{
		{"", ErrBad, "no key"},
		{"# nothing\n", ErrBad, "no key"},
		{"=", ErrBad, `""|not a known setting`},
		{"$(id)=$(id)", ErrBad, "$(id)|not a known setting"},
		{"a\nb=a\nb", ErrBad, `"a"|"b"`},
		{"noSuchKey=1", ErrBad, `"noSuchKey"="1"|allowed`},
		{"a\\u12=1", ErrBad, "line 1"},
		{"a=\xff", ErrBad, "UTF-8"},
		{"sendMessageThreadPoolNums=16", ErrBad, "sendMessageThreadPoolNums|no effect here"},
		{"rocketmqHome=/tmp\nstorePathRootDir=/tmp", nil, "rocketmqHome|storePathRootDir|/tmp|where files are"},
		{"brokerConfigPath=/etc/passwd", ErrBad, "brokerConfigPath"},
		{"listenPort=1", ErrFixed, `listenPort="1"|allowed`},
		{"storePathCommitLog=../../x", ErrFixed, "storePathCommitLog"},
		{"ringmq.httpAddress=0.0.0.0:1", ErrFixed, "ringmq.httpAddress"},
		{"mappedFileSizeCommitLog=4096", ErrFixed, "mappedFileSizeCommitLog"},
		{"brokerRole=SLAVE", ErrFixed, "brokerRole"},
		{"aclEnable=false", ErrFixed, "aclEnable"},
		{"flushIntervalCommitLog=0", ErrBad, "flushIntervalCommitLog=0|from 1 to 3600000"},
		{"flushIntervalCommitLog=1e3", ErrBad, "flushIntervalCommitLog=1e3|whole number"},
		{"flushIntervalCommitLog=", ErrBad, "flushIntervalCommitLog"},
		{"flushIntervalCommitLog=1\\n2", ErrBad, `"1\n2"`},
		{"flushCommitLogTimed=yes", ErrBad, "flushCommitLogTimed=yes|true or false"},
		{"regionId=a\\u0000b", ErrBad, `regionId="a\x00b"|control`},
		{"regionId=" + long, ErrBad, "regionId|4097|4096"},
		{"flushIntervalCommitLog=7\ndeleteFileBatchMax=0", ErrBad, "deleteFileBatchMax=0"}, // nothing of it
		{"flushDiskType=SYNC_FLUSH\nlistenPort=1", ErrFixed, "listenPort"},
		{strings.Repeat("#", maxRequest+1), ErrBad, "65537|65536"},
		{strings.Repeat("x=1\ny=1\n", 8000), ErrBad, `"x"|"y"`},
	} {
		kind := c.kind
		if kind == nil {
			kind = ErrFixed
		}
		b.refuse(l, c.text, kind, strings.Split(c.words, "|")...)
	}
	var many strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&many, "k%d=%s\n", i, "v")
	}
	if _, err := l.Update([]byte(many.String()), "test"); err == nil || len(err.Error()) > 4096 {
		t.Errorf("the answer to many faults has %d bytes", len(err.Error()))
	}
	if got, _ := filepath.Glob(filepath.Join(b.store, "*", "*")); len(got) != 1 {
		t.Errorf("files of the store: %q", got)
	}
}

// What is good key by key may be wrong as a whole.
func TestUpdateIsCheckedAsAWhole(t *testing.T) {
	b := newBench(t)
	s := b.sources()
	s.Check = func(v *Values) error {
		if v.Text("deleteWhen") == "24" {
			return errors.New("deleteWhen is 24, allowed are hours")
		}
		return nil
	}
	l, err := Open(s)
	if err == nil {
		err = l.Own(slog.New(slog.DiscardHandler))
	}
	if err != nil {
		t.Fatal(err)
	}
	b.refuse(l, "flushIntervalCommitLog=200\ndeleteWhen=24", ErrBad, "deleteWhen is 24")
}

// The command line wins over overrides, and is told when a request meets it.
func TestCommandLineWins(t *testing.T) {
	b := newBench(t, "flushIntervalCommitLog=300")
	l := b.start("flushIntervalCommitLog=400", "maxIndexNum=500")
	if remark := b.change(l, "flushIntervalCommitLog=200"); remark != "in effect now, but after a restart the command line wins: flushIntervalCommitLog=200 (--set)" {
		t.Error(remark)
	}
	b.has(l.Values(), "flushIntervalCommitLog", "200", "overrides")
	if text := l.Text(); !strings.Contains(text, "\nringmq.afterRestart=flushIntervalCommitLog=400\n") {
		t.Errorf("shown:\n%s", text)
	}
	b.refuse(l, "maxIndexNum=600", ErrFixed, "maxIndexNum", "600", "--set wins")
	b.has(b.start("flushIntervalCommitLog=400").Values(), "flushIntervalCommitLog", "400", "--set")
	b.has(b.start().Values(), "flushIntervalCommitLog", "200", "overrides")
}

// A damaged file is put aside with one line, by the one who has the lock and nobody else.
func TestDamagedOverridesArePutAside(t *testing.T) {
	b := newBench(t, "flushIntervalCommitLog=300")
	b.change(b.start(), "flushIntervalCommitLog=200")
	broken := strings.Replace(b.file(), "200", "100", 1)
	if err := os.WriteFile(b.overrides, []byte(broken), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := Open(b.sources())
	if err != nil || l.Damage() == nil || !strings.Contains(l.Damage().Error(), b.overrides) {
		t.Fatalf("damage %v, %v", l.Damage(), err)
	}
	b.has(l.Values(), "flushIntervalCommitLog", "300", "file")
	if b.file() != broken {
		t.Error("a look has changed the file")
	}
	b.lines.Reset()
	l = b.start()
	if text := b.lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "ARE LOST") || !strings.Contains(text, ".bad-") {
		t.Errorf("lines:\n%s", text)
	}
	aside, _ := filepath.Glob(b.overrides + ".bad-*")
	if len(aside) != 1 {
		t.Fatalf("kept aside: %q", aside)
	}
	if text, err := os.ReadFile(aside[0]); err != nil || string(text) != broken {
		t.Errorf("kept aside: %q, %v", text, err)
	}
	b.change(l, "flushIntervalCommitLog=200")
	b.has(b.start().Values(), "flushIntervalCommitLog", "200", "overrides")
}

// Entries of another version, or put there by somebody who can make the checksum, have no effect and stay.
func TestStrangeEntriesArePassedOver(t *testing.T) {
	b := newBench(t)
	text := encodeOverrides(map[string]string{"listenPort": "1", "storePathRootDir": "/tmp", "fromTheFuture": "1", "deleteWhen": "03", "maxIndexNum": "x"})
	if err := os.WriteFile(b.overrides, text, 0o644); err != nil {
		t.Fatal(err)
	}
	l := b.start()
	b.has(l.Values(), "listenPort", "10911", "default")
	b.has(l.Values(), "storePathRootDir", b.store, "file")
	b.has(l.Values(), "deleteWhen", "03", "overrides")
	if got := strings.Join(l.Values().Warnings, "\n"); strings.Count(got, "passed over") != 4 {
		t.Errorf("warnings:\n%s", got)
	}
	b.change(l, "deleteWhen=05\nmaxIndexNum=70")
	values, err := decodeOverrides([]byte(b.file()))
	if err != nil || values["fromTheFuture"] != "1" || values["deleteWhen"] != "05" || values["maxIndexNum"] != "70" {
		t.Errorf("%q, %v", values, err)
	}
}

// Killed between write and rename, the old settings are found, and the next change is kept.
func TestKilledBeforeTheRename(t *testing.T) {
	b := newBench(t)
	b.change(b.start(), "deleteWhen=03")
	for _, left := range []string{"", "half", string(encodeOverrides(map[string]string{"deleteWhen": "07"}))} {
		if err := os.WriteFile(b.overrides+".tmp", []byte(left), 0o644); err != nil {
			t.Fatal(err)
		}
		l := b.start()
		b.has(l.Values(), "deleteWhen", "03", "overrides")
		b.change(l, "deleteWhen=04\nmaxIndexNum=99")
		b.has(b.start().Values(), "maxIndexNum", "99", "overrides")
		b.change(b.start(), "deleteWhen=03")
	}
}

// What cannot be kept is not in effect either.
func TestChangeThatCannotBeKept(t *testing.T) {
	b := newBench(t)
	l := b.start()
	if err := os.Mkdir(b.overrides+".tmp", 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := l.Update([]byte("deleteWhen=03"), "test")
	if err == nil || errors.Is(err, ErrBad) || errors.Is(err, ErrFixed) {
		t.Errorf("error %v", err)
	}
	b.has(l.Values(), "deleteWhen", "04", "default")
	if count, _ := l.Version(); count != 0 {
		t.Errorf("version %d", count)
	}
}

// A change fails behind its rename, as when the folder cannot be synced: whoever then asks for what is in effect is answered when the file says so.
func TestChangeBackAfterOneThatFailed(t *testing.T) {
	for _, c := range []struct{ kept, asked string }{{"deleteWhen=04", "deleteWhen=03"}, {"deleteWhen=03", "deleteWhen=04"}} {
		b := newBench(t)
		l := b.start()
		b.change(l, "flushIntervalCommitLog=300")
		b.change(l, c.kept)
		was := b.file()
		if err := os.Mkdir(b.overrides+".tmp", 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Update([]byte(c.asked), "test"); err == nil {
			t.Fatal("no error")
		}
		if err := os.Remove(b.overrides + ".tmp"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(b.overrides, encodeOverrides(map[string]string{"deleteWhen": "03"}), 0o644); err != nil { // what it may have left
			t.Fatal(err)
		}
		b.change(l, c.kept)
		if b.file() != was {
			t.Errorf("%s was answered, but the file says\n%s", c.kept, b.file())
		}
		b.has(b.start().Values(), "deleteWhen", strings.TrimPrefix(c.kept, "deleteWhen="), "")
	}
}

// Two brokers that start on one store: the second one finds that what it read is not what counts any more.
func TestAnotherBrokerChangesSettingsDuringAStart(t *testing.T) {
	b := newBench(t)
	running := b.start()
	second, err := Open(b.sources())
	if err != nil {
		t.Fatal(err)
	}
	b.change(running, "deleteWhen=03")
	if err := second.Own(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "start again") {
		t.Errorf("error %v", err)
	}
}

// Changes at once come one after the other, and each is in the file before it is in effect.
func TestConcurrentUpdates(t *testing.T) {
	b := newBench(t)
	l := b.start()
	l.log = slog.New(slog.DiscardHandler)
	var entered atomic.Int32
	l.Follow(func(v *Values) {
		if entered.Add(1) != 1 {
			t.Error("followed twice at a time")
		}
		values, err := decodeOverrides([]byte(b.file()))
		if err != nil && b.file() != "" || values["deleteFileBatchMax"] != "" && values["deleteFileBatchMax"] != v.Text("deleteFileBatchMax") {
			t.Errorf("in effect before it is kept: %q, %v", values, err)
		}
		entered.Add(-1)
	})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 10 {
				text := fmt.Sprintf("deleteFileBatchMax=%d\ndeleteCommitLogFilesInterval=%d", 11+i*10+n, 11+i*10+n)
				if _, err := l.Update([]byte(text), "test"); err != nil {
					t.Error(err)
				}
				if v := l.Values(); v.Text("deleteFileBatchMax") != v.Text("deleteCommitLogFilesInterval") {
					t.Error("half of a change is seen")
				}
				_ = l.Text()
			}
		})
	}
	all.Wait()
	if count, _ := l.Version(); count != 80 {
		t.Errorf("%d changes", count)
	}
	b.has(b.start().Values(), "deleteFileBatchMax", l.Values().Text("deleteFileBatchMax"), "overrides")
}

// Whatever a request says, the settings stay ones that a start takes.
func FuzzUpdate(f *testing.F) {
	for _, text := range []string{"deleteWhen=03", "rocketmqHome=/\n$(id)=1", "flushIntervalCommitLog:\\u0031\\\n 2", "regionId=\\t"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b := newBench(t)
		l := b.start()
		_, err := l.Update(text, "fuzz")
		again := b.start()
		if len(again.Values().Warnings) > 0 || again.Damage() != nil {
			t.Errorf("%q: %v; a start says %q, %v", text, err, again.Values().Warnings, again.Damage())
		}
		if got, _ := filepath.Glob(filepath.Join(b.store, "*", "*")); len(got) > 1 {
			t.Errorf("%q: files %q", text, got)
		}
	})
}

func TestFileInThePlaceOfAFolder(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ key, path string }{
		{"storePathRootDir", b.conf}, {"storePathCommitLog", b.conf}, {"storePathRootDir", filepath.Join(b.conf, "store")},
	} {
		_, err := Open(b.sources(c.key + "=" + c.path))
		if want := "config: " + c.key + "=" + c.path + ": a file is in the way"; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
