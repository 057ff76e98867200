// Package configfile keeps one JSON file of the store's config folder so that there is a readable version of it at every moment,
// also after a power cut. Both versions of the Java broker read what it writes, and it reads what they write.
//
// On disk: name (the newest version), name.bak (the one before), name.tmp (being written), name.bad-<time> (what could not be
// read, kept for a human). A Save makes name.bak another name of the present file, writes and syncs name.tmp, renames it over
// name and syncs the folder. Stop it anywhere: name is the old or the new version, or missing with name.bak whole.
package configfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"ringmq/internal/durable"
	"ringmq/internal/fastjson"
)

const backupSuffix = ".bak"

// File is one file. Load comes first, once; then Save may be called from any goroutine.
type File struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	mu     sync.Mutex // one Save at a time, its snapshot included
	loaded bool
	intact bool   // path holds a version that was read or written whole: worth keeping as backup
	saved  uint64 // the count of changes that is in the file
}

// New is a file that is not read yet. log may be nil.
func New(path string, log *slog.Logger) *File {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &File{path: path, log: log, now: time.Now}
}

// Load reads f, or its backup when f is missing or damaged, or gives an empty T when there is neither. Damage is said in one
// line and kept aside under another name. An error means that a file is there but could not be read (no permission, a failing
// disk): to go on as if it were empty would lose it.
func Load[T any](f *File) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loaded {
		panic("BUG: configfile: " + f.path + " is loaded twice")
	}
	value, damage, err := read[T](f.path)
	if err != nil {
		return *new(T), err
	}
	if value != nil {
		f.loaded, f.intact = true, true
		return *value, nil
	}
	backup, backupDamage, err := read[T](f.path + backupSuffix)
	if err != nil {
		return *new(T), err
	}
	aside, err := f.setAside(f.path, damage)
	if err != nil {
		return *new(T), err
	}
	backupAside, err := f.setAside(f.path+backupSuffix, backupDamage)
	if err != nil {
		return *new(T), err
	}
	f.loaded = true
	f.report(damage, aside, backup != nil, backupDamage, backupAside)
	if backup != nil {
		return *backup, nil
	}
	return *new(T), nil
}

// report says in one line what was found, nothing when there was nothing.
func (f *File) report(damage error, aside string, fromBackup bool, backupDamage error, backupAside string) {
	switch {
	case fromBackup && damage == nil:
		f.log.Warn("configfile: file is missing, its backup is used", "file", f.path)
	case fromBackup:
		f.log.Warn("configfile: file is damaged, its backup is used", "file", f.path, "damage", damage, "kept", aside)
	case damage != nil || backupDamage != nil:
		f.log.Error("configfile: FILE AND BACKUP ARE LOST, starting with empty settings",
			"file", f.path, "damage", damage, "kept", aside, "backupDamage", backupDamage, "backupKept", backupAside)
	}
}

// read returns the value of a good file; damage for one that holds no value; neither when there is none.
func read[T any](path string) (value *T, damage, err error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
			return nil, errors.New("a folder has this name"), nil
		}
		return nil, nil, fmt.Errorf("configfile: read %s: %w", path, err)
	case len(text) == 0:
		return nil, errors.New("the file is empty"), nil
	case !utf8.Valid(text):
		return nil, errors.New("the text is not UTF-8"), nil
	case string(bytes.TrimSpace(text)) == "null": // which would be taken for any type
		return nil, errors.New("the text is null"), nil
	}
	value = new(T)
	if err := fastjson.Unmarshal(text, value); err != nil {
		return nil, err, nil
	}
	return value, nil, nil
}

// setAside renames what is damaged, so that no later Save destroys it.
func (f *File) setAside(path string, damage error) (string, error) {
	if damage == nil {
		return "", nil
	}
	return durable.SetAside(path, f.now())
}

// Save writes what snapshot returns unless the file has it already: changes counts every change of the owner's state. A change that is
// counted must be shown by a snapshot taken later, so it is counted after it is made, or both under a lock that the snapshot takes. What
// snapshot returned is durable when Save returns nil; after an error the old version is.
func (f *File) Save(changes *atomic.Uint64, snapshot func() any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.loaded {
		panic("BUG: configfile: " + f.path + " is saved before it was loaded")
	}
	count := changes.Load() // before the snapshot: what changes from here on is saved next time, perhaps twice
	if count == f.saved {
		return nil
	}
	text, err := json.MarshalIndent(snapshot(), "", "\t")
	if err != nil {
		panic("BUG: configfile: " + f.path + ": " + err.Error())
	}
	if err := f.write(text); err != nil {
		return fmt.Errorf("configfile: save %s: %w", f.path, err)
	}
	f.saved = count
	return nil
}

func (f *File) write(text []byte) error {
	if err := durable.MkdirAll(filepath.Dir(f.path)); err != nil {
		return err
	}
	if f.intact {
		if err := f.keepBackup(); err != nil {
			return err
		}
	}
	// From here until it is whole again the file is not taken as a backup: a failed sync says nothing of what is on the disk.
	f.intact = false
	if err := durable.WriteFile(f.path, text); err != nil {
		return err
	}
	f.intact = true
	return nil
}

// keepBackup makes name.bak the present version, by a second name for the same file: name never goes away. Where the file
// system has no hard links, name is renamed instead, and a reader finds only the backup until the new version is there.
func (f *File) keepBackup() error {
	backup := f.path + backupSuffix
	temp := backup + ".tmp"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(f.path, temp); err != nil {
		if errors.Is(err, fs.ErrNotExist) { // somebody took the file away: the backup that is there stays
			return nil
		}
		return os.Rename(f.path, backup)
	}
	if err := os.Rename(temp, backup); err != nil {
		return err
	}
	// A rename between two names of one file does nothing, not even to the first name.
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
