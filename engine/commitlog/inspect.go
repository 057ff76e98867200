package commitlog

import (
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// Inspect walks all of a segment that is full and flushed, at any time, and calls each for every whole record, in order; each may stop it
// by an error. What is not whole is damage, told to damaged before the next record. With zerosInText a record with message.ErrZerosInText
// counts as whole if another one follows, see ScanForeign. The caller holds f, and brings what is behind a record into memory if a page fault
// should not wait for the device.
func (l *Log) Inspect(f *segment.File, zerosInText bool, each func(r *message.Record) error, damaged func(Damage)) error {
	s := &scanner{log: l, mark: f.End(), foreign: zerosInText, each: each, damaged: damaged}
	for at, more := f.Base(), true; more && at < f.End(); {
		var err error
		if at, more, err = s.segment(f, at); err != nil {
			return err
		}
	}
	s.settle()
	return nil
}
