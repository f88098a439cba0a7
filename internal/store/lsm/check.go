package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/lsm/disk"
)

// Report is what Check has looked at and what it found.
type Report struct {
	Commits    uint64 `json:"commits"` // that are in the store
	Tables     int    `json:"tables"`  // files whose every block was read
	TableBytes uint64 `json:"tableBytes"`
	Keys       int64  `json:"keys"`
	store.Checked
}

// Check looks at everything in a directory that nobody has open, and changes nothing: at
// the checksums of all tables, at whether what was acknowledged is there, at every
// record, and at whether indexes, lanes and numbers agree with what they are about. What
// does not fit is in the report; an error says that it could not be made.
func Check(dir string, options Options) (Report, error) {
	options = options.withDefaults()
	if err := mayHoldStore(options.FS, dir); err != nil {
		return Report{}, err
	}
	lockFile := options.FS.PathJoin(dir, "LOCK")
	_, noLock := options.FS.Stat(lockFile)
	lock, err := lockDirectory(dir, options.FS)
	if err != nil {
		return Report{}, err
	}
	report, err := checkLocked(dir, options, lock)
	if noLock != nil { // a backup has none
		err = errors.Join(err, options.FS.Remove(lockFile))
	}
	return report, errors.Join(err, lock.Close())
}

// mayHoldStore returns an error if there has never been a store in a directory. One that
// has lost its database still has its guard.
func mayHoldStore(fs vfs.FS, dir string) error {
	if _, err := fs.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("check %s: %w", dir, err)
	}
	found, err := pebble.Peek(dir, fs)
	if err != nil || found.Exists {
		return nil // the check reports what is wrong
	}
	if _, err := fs.Stat(fs.PathJoin(dir, GuardFile)); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is neither a data directory nor a backup: there is no database in it", dir)
	}
	return nil
}

func checkLocked(dir string, options Options, lock *pebble.Lock) (report Report, err error) {
	report.Problems = []string{} // not null in JSON
	fs, err := disk.Read(options.FS, dir, options.Logger)
	if err != nil {
		return report, err
	}
	if err := fs.CheckManifest(); err != nil {
		report.Add("%v", err)
		return report, nil
	}
	settings := pebble.Options{
		FS:            fs,
		Lock:          lock,
		ReadOnly:      true,
		Logger:        pebbleLogger{options.Logger, func(string) {}},
		EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}, // the reader gets the error
	}
	db, err := pebble.Open(dir, &settings)
	if err != nil {
		report.Add("open %s: %v; the last file that was read is %s", dir, err, fs.LastRead())
		return report, nil
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c := &checker{db: db, report: &report}
	c.commits(fs)
	if err := c.tables(options.FS, dir, &settings); err != nil {
		return report, err
	}
	if len(report.Problems) == 0 { // else it would be reported again and again
		c.records()
	}
	return report, nil
}

// commits compares the end of the store with what the guard knows.
func (c *checker) commits(fs *disk.FS) {
	found, last, err := readEnd(c.db)
	_, formatErr := readFormat(c.db)
	if err = errors.Join(err, formatErr); err == nil {
		err = fs.CheckCommits(found)
	}
	if err != nil {
		c.report.Add("%v", err)
	}
	c.report.Commits, c.last = found, posthaste.Position(last)
}

// tables reads every block of every table and compares its checksum.
func (c *checker) tables(fs vfs.FS, dir string, settings *pebble.Options) error {
	levels, err := c.db.SSTables()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, level := range levels {
		for _, table := range level {
			name := fs.PathJoin(dir, table.BackingSSTNum.String()+".sst")
			if seen[name] {
				continue
			}
			seen[name] = true
			if err := checkTable(fs, name, settings.MakeReaderOptions()); err != nil {
				c.report.Add("%s: %v", name, err)
			}
			c.report.Tables++
			c.report.TableBytes += table.Size
		}
	}
	return nil
}

func checkTable(fs vfs.FS, name string, options sstable.ReaderOptions) error {
	file, err := fs.Open(name)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	reader, err := sstable.NewReader(context.Background(), readable, options)
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	return errors.Join(reader.ValidateBlockChecksums(), reader.Close())
}

// checker reads the records of a store in the order of their keys.
type checker struct {
	db     *pebble.DB
	report *Report

	last      posthaste.Position            // that was given to an event
	day       day                           // of the current key
	lastNoted postingID                     // was found in the day index last
	messages  map[messageID]*checkedMessage // read lately
	counts    map[string]int64              // what the keys of numbers should say, by key
	series    index.CountCheck              // of the current day
	unread    bool                          // not all events of the day were counted
	sums      map[string]uint64             // entries minus postings, by the index that has both; see agree
}

// records looks at every key.
func (c *checker) records() {
	c.counts, c.sums, c.series = map[string]int64{}, map[string]uint64{}, index.CountCheck{}
	c.messages = map[messageID]*checkedMessage{}
	iter, err := c.db.NewIter(nil)
	if err != nil {
		c.report.Add("read: %v", err)
		return
	}
	for valid := iter.First(); valid; valid = iter.Next() {
		c.report.Keys++
		if err := c.record(iter.Key(), iter.Value()); err != nil {
			c.report.Add("key %x: %v", iter.Key(), err)
		}
	}
	if err := errors.Join(iter.Error(), iter.Close()); err != nil {
		c.report.Add("read: %v", err)
	}
	c.endDay()
	for key, n := range c.counts {
		if n != 0 {
			c.report.Add("number under %x: it is wrong by %d", key, -n)
		}
	}
	for index := range c.sums {
		c.report.Add("index of the %s: it does not agree with what it is of", index)
	}
}

// record looks at one key.
func (c *checker) record(key, value []byte) error {
	value = bytes.Clone(value) // decoders may keep parts of it
	switch key[0] {
	case kindMeta:
		return nil
	case kindWaiting:
		return c.waiting(key, value)
	case kindSegment:
		return c.segment(key, value)
	case kindDayIndex:
		return checkDayIndexKey(key)
	case kindCount:
		return c.count(key, value)
	default:
		return c.inTables(key, value)
	}
}

// exists returns an error unless there is the key, which is described for it.
func (c *checker) exists(key []byte, format string, args ...any) error {
	if err := get(c.db, key, func([]byte) error { return nil }); err != nil {
		return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
	}
	return nil
}

// agree adds to the sum of an index an entry or, negative, a posting. When each entry
// has its postings and no other has any, it ends at zero.
func (c *checker) agree(index string, change uint64) {
	if c.sums[index] += change; c.sums[index] == 0 {
		delete(c.sums, index)
	}
}

// userKey divides what comes behind the kind and the part of a key.
func userKey(rest []byte) (user string, tail []byte, err error) {
	if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
		return "", nil, errCorrupt
	}
	n := int(rest[0])
	return string(rest[1 : 1+n]), rest[1+n:], nil
}
