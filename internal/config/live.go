package config

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/internal/durable"
	"ringmq/internal/properties"
)

// Sources are where the settings of a broker come from. Later ones win: defaults, Below, what requests have changed, Above.
//
// A request wins over the file, since that is what it is for. The command line wins over a request, since whoever starts the broker is
// there, and must be able to put right what a request has done.
type Sources struct {
	Below []Setting // environment and file
	Above []Setting // command line
	// Check says what is wrong with settings that are good one by one; nil: nothing is.
	Check func(*Values) error
}

// Live is the settings of a broker: those it starts with, and while it runs what requests change. What a request changes is kept in a file
// of the store, never in the user's.
type Live struct {
	sources Sources
	below   *Values // of Below alone: an override that says the same is none
	path    string
	log     *slog.Logger
	now     func() int64

	values atomic.Pointer[Values] // in effect; what it points to never changes

	mu      sync.Mutex // one change at a time, until it is on the device and everybody follows it
	owned   bool
	read    []byte            // the file as it was read
	damage  error             // why it was not believed
	kept    map[string]string // what it says, with entries that this version does not take
	next    *Values           // what a restart would bring
	follow  func(*Values)
	changes int64
	changed int64 // ms
	unsure  bool  // the last save failed: nobody knows what the file says
}

// Open makes the settings of a broker. It writes nothing.
func Open(s Sources) (*Live, error) {
	if s.Check == nil {
		s.Check = func(*Values) error { return nil }
	}
	first, err := Server(slices.Concat(s.Below, s.Above))
	if err != nil {
		return nil, err
	}
	l := &Live{sources: s, now: func() int64 { return time.Now().UnixMilli() }, follow: func(*Values) {}}
	l.changed = l.now()
	if l.below, err = load(serverKeys, s.Below); err != nil {
		return nil, err
	}
	for _, key := range []string{"storePathRootDir", "storePathCommitLog"} {
		if err := checkFolder(key, first.Text(key)); err != nil {
			return nil, err
		}
	}
	l.path = filepath.Join(first.Text("storePathRootDir"), "ringmq", overridesName)
	if l.read, l.kept, l.damage, err = readOverrides(l.path); err != nil {
		return nil, err
	}
	values, err := l.with(l.kept)
	if err != nil {
		return nil, fmt.Errorf("%w (%s has %d settings changed by request)", err, l.path, len(l.kept))
	}
	keys := byName(serverKeys)
	for _, name := range slices.Sorted(maps.Keys(l.kept)) {
		if _, err := changeable(keys, Setting{name, l.kept[name], overridesSource}); err != nil {
			values.warn("%s: passed over: %v", l.path, err)
		}
	}
	l.values.Store(values)
	l.next = values
	return l, nil
}

// checkFolder finds a file where a folder belongs. One that is not there is made by whoever needs it.
func checkFolder(key, path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() || errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("config: %s=%s: a file is in the way; allowed is a folder, or a name that is free", key, path)
	}
	return nil
}

// with is the settings that a start finds with these overrides. Entries that are not taken stay in the file: another version may take them.
func (l *Live) with(overrides map[string]string) (*Values, error) {
	keys := byName(serverKeys)
	list := slices.Clone(l.sources.Below)
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if s, err := changeable(keys, Setting{name, overrides[name], overridesSource}); err == nil {
			list = append(list, s)
		}
	}
	return Server(append(list, l.sources.Above...))
}

// Values are the settings in effect.
func (l *Live) Values() *Values { return l.values.Load() }

// Damage is why the file of overrides is not believed; nil if it is, or there is none.
func (l *Live) Damage() error {
	if l.damage == nil {
		return nil
	}
	return fmt.Errorf("config: %s is damaged, what requests have changed is not in effect: %w", l.path, l.damage)
}

// Own lets requests change settings. The caller holds the lock of the store: nobody else writes the file from now on. What another broker has
// written since Open is an error, for then the store was opened with the wrong settings. A damaged file is put aside.
func (l *Live) Own(log *slog.Logger) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = log
	text, _, _, err := readOverrides(l.path)
	if err != nil {
		return err
	}
	if !bytes.Equal(text, l.read) {
		return fmt.Errorf("config: %s was changed by another broker while this one started: start again", l.path)
	}
	if l.damage != nil {
		aside, err := durable.SetAside(l.path, time.Now())
		if err != nil {
			return err
		}
		log.Error("SETTINGS CHANGED BY REQUEST ARE LOST: their file is damaged", "file", l.path, "damage", l.damage, "kept", aside)
	}
	for _, name := range slices.Sorted(maps.Keys(l.kept)) {
		log.Info("a setting was changed by request", "key", name, "value", l.kept[name], "file", l.path)
	}
	l.owned = true
	return nil
}

// Follow has apply called with the settings in effect, now and after every change, never twice at a time. Close to a change comes its call:
// when Update returns, it has been made.
func (l *Live) Follow(apply func(*Values)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow = apply
	apply(l.values.Load())
}

// Update changes what the text of a request names, all of it or, with an error, nothing, and says when it takes effect. from is who asks.
func (l *Live) Update(text []byte, from string) (remark string, err error) {
	asked, err := requested(text)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.owned {
		panic("BUG: config: settings are changed before the store is locked")
	}
	var done outcome
	kept, running := maps.Clone(l.kept), l.values.Load().clone()
	for _, s := range asked {
		above := l.above(s.Name)
		if above != "" && changes[s.Name].when == restart {
			return "", fmt.Errorf("config: %s=%.200q would take effect after a restart only, and there %s wins; allowed is another value there: %w",
				s.Name, s.Text, above, ErrFixed)
		}
		source := overridesSource
		if below := l.below.value(s.Name); below.Text == s.Text {
			source = below.Source
			delete(kept, s.Name)
		} else {
			kept[s.Name] = s.Text
		}
		if changes[s.Name].when == now {
			running.put(s.Name, s.Text, source)
		}
		done.add(s, changes[s.Name], above)
	}
	next, err := l.with(kept)
	for _, values := range []*Values{running, next} {
		if err == nil {
			err = l.sources.Check(values)
		}
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", err, ErrBad)
	}
	if err := l.save(kept); err != nil {
		return "", err
	}
	l.publish(running, next, kept, from)
	return done.String(), nil
}

// above is the source on the command line that names a key, "" if none does.
func (l *Live) above(name string) string {
	keys := byName(serverKeys)
	for _, s := range l.sources.Above {
		if k := keys[s.Name]; k != nil && k.Name == name {
			return s.Source
		}
	}
	return ""
}

// save makes kept durable. After an error nothing is in effect, but a file whose folder could not be synced may be found by the next start:
// so the next save writes, even if it is what was kept before.
func (l *Live) save(kept map[string]string) (err error) {
	if maps.Equal(kept, l.kept) && !l.unsure {
		return nil
	}
	if len(kept) == 0 {
		err = durable.Remove(l.path)
	} else {
		err = durable.WriteFile(l.path, encodeOverrides(kept))
	}
	l.unsure = err != nil
	return err
}

func (l *Live) publish(running, next *Values, kept map[string]string, from string) {
	was, wasNext := l.values.Load(), l.next
	for _, value := range next.All() {
		name := value.Key.Name
		if is := running.Text(name); is != was.Text(name) {
			l.log.Info("a setting is changed by request", "key", name, "was", was.Text(name), "is", is, "from", from)
		} else if value.Text != wasNext.Text(name) && value.Text != is {
			l.log.Info("a setting is changed by request, from the next start on", "key", name, "is", is, "will be", value.Text, "from", from)
		}
	}
	l.kept, l.next = kept, next
	l.values.Store(running)
	l.changes++
	l.changed = max(l.changed, l.now())
	l.follow(running)
}

// Text is the settings in effect as a properties file, with those that say what is not built, and under ringmq.afterRestart those that a restart would change.
func (l *Live) Text() string {
	l.mu.Lock()
	running, next := l.values.Load(), l.next
	l.mu.Unlock()
	shown := maps.Clone(absent)
	for _, r := range refusals {
		shown[r.name] = r.harmless // any other stops the start
	}
	var waiting []string
	for _, value := range running.All() {
		shown[value.Key.Name] = value.Text
		if will := next.Text(value.Key.Name); will != value.Text {
			waiting = append(waiting, value.Key.Name+"="+will)
		}
	}
	var text []byte
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		text = properties.Append(text, name, shown[name])
	}
	if len(waiting) > 0 {
		text = properties.Append(text, "ringmq.afterRestart", strings.Join(waiting, ", "))
	}
	return string(text)
}

// Version tells how often settings were changed since the start, and when last, in ms.
func (l *Live) Version() (count, changedMS int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes, l.changed
}
