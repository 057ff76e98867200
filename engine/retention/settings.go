// Package retention decides which segments of the log may go: the oldest first, when their time is over or the disk is too full. It
// knows no file; what is removed, and what must stay whatever the settings say, is the affair of the Store that it is given.
package retention

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Settings have the original's names and meaning; they are read before each round, so they may change while running.
type Settings struct {
	ReservedMS     int64   // fileReservedTime, which is in hours: 72 of them
	DeleteWhen     string  // deleteWhen: hours of the day, local time, "04" or "04;16"
	IntervalMS     int64   // cleanResourceInterval 10000
	PauseMS        int64   // deleteCommitLogFilesInterval 100: between two removals
	QueuePauseMS   int64   // deleteConsumeQueueFilesInterval 100: behind a queue of which files were removed
	BatchMax       int     // deleteFileBatchMax 10: removals of one round
	MaxUsed        float64 // diskMaxUsedSpaceRatio 0.75: above it the hour does not matter
	CleanForcibly  float64 // diskSpaceCleanForciblyRatio 0.85: above it the age does not matter either
	ForciblyEnable bool    // cleanFileForciblyEnable true: whether that is so
}

const hourMS = int64(time.Hour / time.Millisecond)

// Defaults are those of RocketMQ.
func Defaults() Settings {
	return Settings{
		ReservedMS: 72 * hourMS, DeleteWhen: "04", IntervalMS: 10_000, PauseMS: 100, QueuePauseMS: 100, BatchMax: 10,
		MaxUsed: 0.75, CleanForcibly: 0.85, ForciblyEnable: true,
	}
}

// Validate tells the first setting that cannot work: its key, its value and what is allowed.
func (s *Settings) Validate() error {
	if _, err := parseHours(s.DeleteWhen); err != nil {
		return err
	}
	for _, c := range []struct {
		key   string
		value int64
		least int64
	}{
		{"fileReservedTime", s.ReservedMS, 0},
		{"cleanResourceInterval", s.IntervalMS, 1},
		{"deleteCommitLogFilesInterval", s.PauseMS, 0},
		{"deleteConsumeQueueFilesInterval", s.QueuePauseMS, 0},
		{"deleteFileBatchMax", int64(s.BatchMax), 1},
	} {
		if c.value < c.least {
			return fmt.Errorf("retention: %s is %d, allowed is %d and above", c.key, c.value, c.least)
		}
	}
	for _, c := range []struct {
		key   string
		ratio float64
	}{
		{"diskMaxUsedSpaceRatio", s.MaxUsed},
		{"diskSpaceCleanForciblyRatio", s.CleanForcibly},
	} {
		if !(c.ratio > 0 && c.ratio <= 1) {
			return fmt.Errorf("retention: %s is %g, allowed is above 0 and up to 1", c.key, c.ratio)
		}
	}
	return nil
}

// hours has a bit for each hour of the day.
type hours uint32

func (h hours) has(hour int) bool { return h>>hour&1 != 0 }

func parseHours(text string) (hours, error) {
	var set hours
	for part := range strings.SplitSeq(text, ";") {
		hour, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || hour < 0 || hour > 23 {
			return 0, fmt.Errorf("retention: deleteWhen is %q, allowed are hours from 00 to 23, separated by ';'", text)
		}
		set |= 1 << hour
	}
	return set, nil
}
