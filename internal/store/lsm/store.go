// Package lsm keeps Posthaste's state in one directory, in a log-structured
// merge tree (Pebble). It is the backend of a single process.
//
// One goroutine writes (writer), any number read. What waits and what is claimed
// is known in memory (package lanes) and can be read again from disk, so opening a
// store after a crash is the same as opening it after a clean stop. keys.go is
// the whole schema, kinds.go the table of records; tx.go and txread.go are the
// transactions, commit.go and logread.go the log and its index.
package lsm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm/disk"
	"posthaste/internal/store/lsm/lanes"
)

// Errors of Open that an operator can do something about.
var (
	// ErrLocked: another process has the directory open.
	ErrLocked = errors.New("the data directory is in use by another process")
	// ErrNewer: a newer version of the program wrote the directory.
	ErrNewer = errors.New("the data directory was written by a newer version of posthaste")
	// ErrDamaged: something that was acknowledged is no longer in the directory. Its text names the file.
	ErrDamaged = disk.ErrDamaged
)

// ErrNotEmpty is returned, wrapped, when a copy would be written where there is something already.
var ErrNotEmpty = disk.ErrNotEmpty

// GuardFile is a file that a directory still has when it has lost its database.
const GuardFile = disk.GuardFile

// Options configure a store. The zero value is good for tests.
type Options struct {
	FS        vfs.FS       // nil: the operating system's
	CacheSize int64        // bytes of the block cache, beside the write buffers; 0: DefaultCacheSize
	Logger    *slog.Logger // nil: slog.Default()
	Observer  Observer     // nil: nobody
	// Reserve is how many bytes of the disk are kept for what was accepted: when less
	// is left, nothing new is. 0: none are.
	Reserve int64
	// Memory is how many bytes of large messages may be claimed at the same time. Half as
	// many are kept of messages that wait. 0: DefaultMemory.
	Memory int
	// Partitions says what is a partition of a user. Only package partition divides users.
	Partitions store.Partitions
	// Fatal is called when the disk can no longer be trusted: a failed sync, a
	// damaged file. It must not return. nil: log and exit the process.
	Fatal func(message string)
}

// DefaultCacheSize is the size of the block cache: 32 MiB.
const DefaultCacheSize = 32 << 20

// DefaultMemory is what messages get unless Options say otherwise: 64 MiB.
const DefaultMemory = 64 << 20

// Observer sees every commit.
type Observer interface {
	// Committed reports the operations that shared a commit, how long applying
	// it took, and how long its sync.
	Committed(operations int, apply, sync time.Duration)
}

// Store implements store.Backend. Make one with Open.
type Store struct {
	db         *pebble.DB
	fs         *disk.FS
	reserve    *disk.Reserve
	writer     *writer
	scheduler  *lanes.Scheduler
	reads      logReads
	unreadable unreadableRecords
	partitions store.Partitions
	countsFrom int // blocks, from which on a page of the log looks at counts

	mu      sync.RWMutex // held for reading while the database is read
	closing bool
	stop    chan struct{} // closed when the store is
	counted chan struct{} // closed when nobody counts lanes any more
}

var _ store.Divisible = (*Store)(nil)

// Open opens the store in a directory, and makes it if there is none. It returns
// ErrLocked, ErrNewer or ErrDamaged, wrapped, where they apply.
func Open(dir string, options Options) (*Store, error) {
	options = options.withDefaults()
	if err := options.FS.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	lock, err := lockDirectory(dir, options.FS)
	if err != nil {
		return nil, err
	}
	s, err := openLocked(dir, options, lock)
	return s, errors.Join(err, lock.Close()) // the database has its own hold on it until it is closed
}

// Exists reports whether there is a store in a directory, which must be there itself.
func Exists(dir string) (bool, error) {
	found, err := pebble.Peek(dir, vfs.Default)
	if err != nil {
		return false, fmt.Errorf("look into %s: %w", dir, err)
	}
	return found.Exists, nil
}

func openLocked(dir string, options Options, lock *pebble.Lock) (*Store, error) {
	s := &Store{
		reserve:    disk.NewReserve(options.FS, dir, options.Reserve, options.Logger),
		unreadable: unreadableRecords{logger: options.Logger},
		partitions: options.Partitions,
		countsFrom: countsFrom,
		stop:       make(chan struct{}),
		counted:    make(chan struct{}),
	}
	var err error
	if s.fs, err = disk.Open(options.FS, dir, options.Logger, options.fail); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	if s.db, err = openPebble(dir, s.fs, lock, options); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w; the last file that was read is %s", dir, err, s.fs.LastRead()), s.fs.Close())
	}
	s.scheduler = lanes.New(s, options.Memory)
	last, commits, err := s.recover()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", dir, err), s.db.Close(), s.fs.Close())
	}
	s.fs.Trust()
	if err := s.countLanes(options.Logger); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: count what waits: %w", dir, err), s.db.Close(), s.fs.Close())
	}
	s.writer = newWriter(s.db, s.fs, posthaste.Position(last), commits, options)
	return s, nil
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.CacheSize == 0 {
		o.CacheSize = DefaultCacheSize
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	if o.Fatal == nil {
		logger := o.Logger
		o.Fatal = func(message string) {
			logger.Error("store.fatal", "error", message)
			os.Exit(1)
		}
	}
	return o
}

// fail stops the process: an error of the disk leaves it open what the disk has, and
// to write or sync once more would not show it.
func (o Options) fail(err error) {
	o.Fatal(fmt.Sprintf("the disk failed, and what it has is known only after a new start: %v", err))
}

func lockDirectory(dir string, fs vfs.FS) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(dir, fs)
	switch {
	case err == nil:
		return lock, nil
	case isLockHeld(err):
		err = ErrLocked
	case errors.Is(err, syscall.EACCES):
		err = fmt.Errorf("the data directory may not be written by this user: %w", err)
	}
	return nil, fmt.Errorf("open %s: %w", dir, err)
}

// flushDropped is how soon a day that was dropped begins to leave the disk, long before
// retention asks for sizes again.
const flushDropped = 10 * time.Second

// Of the cache the storage engine takes what its write buffers have grown to: the one that
// is written to, and one that is written to its place, or kept for the next turn.
const (
	writeBuffer  = 32 << 20
	writeBuffers = 2 * writeBuffer
)

func openPebble(dir string, fs *disk.FS, lock *pebble.Lock, options Options) (*pebble.DB, error) {
	cache := pebble.NewCache(options.CacheSize + writeBuffers)
	defer cache.Unref() // the database holds its own reference
	return pebble.Open(dir, &pebble.Options{
		FS:                          fs,
		EventListener:               &pebble.EventListener{BackgroundError: fs.BackgroundFailed},
		Lock:                        lock,
		Cache:                       cache,
		Logger:                      pebbleLogger{options.Logger, options.Fatal},
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                writeBuffer,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       1000,
		FlushDelayDeleteRange:       flushDropped,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
	})
}

// isLockHeld recognises a lock held by another process by its errno, and one held
// by this process by its text, for which there is no error value.
func isLockHeld(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "held by current process")
}

// recover checks the format and that nothing acknowledged is missing at the end, and
// finds the lanes. It returns the last event and the number of commits.
func (s *Store) recover() (last, commits uint64, err error) {
	version, err := readFormat(s.db)
	if err == nil {
		commits, last, err = readEnd(s.db)
	}
	if err == nil {
		err = s.fs.CheckCommits(commits)
	}
	if err != nil {
		return 0, 0, err
	}
	if err := s.findLanes(); err != nil {
		return 0, 0, fmt.Errorf("find lanes: %w", err)
	}
	if version == 0 {
		err = s.db.Set(keyFormat, binary.AppendUvarint(nil, formatVersion), pebble.Sync)
	}
	return last, commits, err
}

// readEnd returns how many commits there were and the highest position, 0 if there were none.
func readEnd(r pebble.Reader) (commits, last uint64, err error) {
	err = get(r, keyEnd, func(value []byte) error {
		if len(value) != 16 {
			return errCorrupt
		}
		commits, last = binary.BigEndian.Uint64(value), binary.BigEndian.Uint64(value[8:])
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return 0, 0, nil
	}
	return commits, last, err
}

// readFormat returns the version of the format of a store, 0 if there is nothing yet, or
// ErrNewer.
func readFormat(r pebble.Reader) (version uint64, err error) {
	err = get(r, keyFormat, func(value []byte) error {
		var n int
		if version, n = binary.Uvarint(value); n <= 0 || version == 0 {
			return errCorrupt
		}
		return nil
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return 0, nil
	case err == nil && version > formatVersion:
		err = fmt.Errorf("%w: its format is %d, this program knows %d", ErrNewer, version, formatVersion)
	}
	return version, err
}

// findLanes looks at the first message of each lane and skips the others. A place that
// cannot be read is set aside.
func (s *Store) findLanes() error {
	iter, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: []byte{kindWaiting},
		UpperBound: []byte{kindWaiting + 1},
	})
	if err != nil {
		return err
	}
	for valid := iter.First(); valid; {
		lane, _, ok := parseWaitingKey(iter.Key())
		waiting, err := parseWaiting(iter.Value())
		if !ok || err != nil {
			s.unreadable.add(iter.Key(), errCorrupt)
			valid = iter.Next()
			continue
		}
		s.scheduler.Restore(lane, waiting.ReadyMS)
		valid = iter.SeekGE(store.PrefixEnd(appendLane(nil, lane)))
	}
	return errors.Join(iter.Error(), iter.Close())
}

// ReadWaiting implements lanes.Disk.
func (s *Store) ReadWaiting(lane lanes.ID, after lanes.Spot, limit int) ([]*lanes.Item, error) {
	iter, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: append(appendWaitingKey(nil, lane, after), 0),
		UpperBound: store.PrefixEnd(appendLane(nil, lane)),
	})
	if err != nil {
		return nil, err
	}
	var items []*lanes.Item
	for valid := iter.First(); valid && len(items) < limit; valid = iter.Next() {
		waiting, err := parseWaiting(iter.Value())
		if err != nil {
			s.unreadable.add(iter.Key(), err)
			continue
		}
		items = append(items, &lanes.Item{Spot: parseSpot(iter.Key()), Waiting: waiting})
	}
	return items, errors.Join(iter.Error(), iter.Close())
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return nil
	}
	s.closing = true
	s.mu.Unlock()
	close(s.stop)
	<-s.counted
	_ = s.writer.do(context.Background(), func(*commit) error { return nil }) // behind all that nobody waits for: ACTIVE events
	s.writer.close()
	s.writer.grown.send()
	return errors.Join(s.db.Close(), s.fs.Close())
}

// reading lets the caller read the database until it calls done with its error, which
// returns when what was there is durable, or changes the error: nobody learns what a
// crash could take back.
func (s *Store) reading() (done func(*error), err error) {
	if err := s.writer.stall.Err(); err != nil {
		return nil, err
	}
	release, err := s.hold()
	if err != nil {
		return nil, err
	}
	return func(err *error) {
		release()
		if stalled := s.writer.settled(); stalled != nil {
			*err = stalled
		}
	}, nil
}

// read runs a reader while the store is open.
func read[T any](s *Store, reader func() (T, error)) (_ T, err error) {
	done, err := s.reading()
	if err != nil {
		var none T
		return none, err
	}
	defer done(&err)
	return reader()
}

// hold keeps the database open until the caller calls release.
func (s *Store) hold() (release func(), err error) {
	s.mu.RLock()
	if s.closing {
		s.mu.RUnlock()
		return nil, store.ErrClosed
	}
	return s.mu.RUnlock, nil
}

// Room returns nil, or why the store accepts nothing new now.
func (s *Store) Room() error { return s.reserve.Check() }

// Ping implements store.Backend.
func (s *Store) Ping(ctx context.Context) error {
	return s.writer.do(ctx, func(c *commit) error {
		c.delete(keyFormat[:1]) // a key that is never set
		return nil
	})
}

// TryLease implements store.Backend: a directory is open in one process.
func (s *Store) TryLease(context.Context, string, time.Duration) (bool, error) {
	return read(s, func() (bool, error) { return true, nil })
}

// Stats implements store.Backend.
func (s *Store) Stats(_ context.Context, now time.Time) (store.Stats, error) {
	done, err := s.hold()
	if err != nil {
		return store.Stats{}, err
	}
	defer done()
	stats := s.scheduler.Stats(now)
	stats.LogReads, stats.SetAside = s.reads.sum(), s.unreadable.count()
	metrics := s.db.Metrics()
	stats.DiskBytes, stats.WrittenBytes = int64(metrics.DiskSpaceUsage()), writtenBytes(metrics)
	stats.FreeBytes, stats.Full = s.reserve.Left()
	stats.Stalled = s.writer.stall.Duration()
	return stats, nil
}

// writtenBytes adds up what went to the write-ahead log, what was written to its place
// from there, and what was written again in compactions.
func writtenBytes(m *pebble.Metrics) int64 {
	sum := m.WAL.BytesWritten
	for _, level := range m.Levels {
		sum += level.TableBytesFlushed + level.TableBytesCompacted + level.BlobBytesFlushed + level.BlobBytesCompacted
	}
	return int64(sum)
}

// Compact rewrites all that is stored into its smallest form and returns when
// that is done. It is for measuring: compaction goes on by itself.
func (s *Store) Compact(ctx context.Context) error {
	done, err := s.hold()
	if err != nil {
		return err
	}
	defer done()
	if err := s.db.Flush(); err != nil {
		return err
	}
	return s.db.Compact(ctx, []byte{0}, []byte{0xff}, true)
}

// nobody observes nothing.
type nobody struct{}

func (nobody) Committed(int, time.Duration, time.Duration) {}

// pebbleLogger carries the storage engine's words into our log.
type pebbleLogger struct {
	logger *slog.Logger
	fatal  func(string)
}

func (l pebbleLogger) Infof(format string, args ...any) {
	l.logger.Debug("store.engine", "message", fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.logger.Error("store.engine", "error", fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Fatalf(format string, args ...any) { l.fatal(fmt.Sprintf(format, args...)) }
