package lsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"posthaste"
	"posthaste/internal/store"
)

// TestUsageAndFailedReads lets each read from the disk that measuring needs fail once: what
// is told is right, or it is the error. Sizes are the storage engine's estimates, which leave
// out what it cannot read.
func TestUsageAndFailedReads(t *testing.T) {
	var left atomic.Int64 // reads until one fails
	failure := errors.New("the disk cannot read")
	options := &pebble.Options{
		FS:                          failingReads(&left, failure),
		Logger:                      quiet{},
		DisableAutomaticCompactions: true,
		DisableTableStats:           true,
		FormatMajorVersion:          pebble.FormatNewest,
	}
	fillUsage(t, options)
	open := func() *pebble.DB {
		t.Helper()
		db, err := pebble.Open("", options)
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	want, err := measure(db, nil)
	if err != nil || want.Log.Entries != 4 || want.DeadLetters.Entries != 2 {
		t.Fatalf("what is kept is %+v, %v; want 4 entries of the log and 2 dead letters", want, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for n, failed := int64(1), true; failed; n++ {
		db := open()
		left.Store(n)
		got, err := measure(db, nil)
		failed = left.Swap(0) <= 0
		if err == nil && !reflect.DeepEqual(withoutBytes(got), withoutBytes(want)) {
			t.Errorf("read %d fails: what is kept is %+v, want %+v or the error", n, got, want)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// withoutBytes returns what is known exactly.
func withoutBytes(u store.Usage) store.Usage {
	u.Days = slices.Clone(u.Days)
	for i := range u.Days {
		u.Days[i].Bytes = 0
	}
	u.Log.Bytes, u.DeadLetters.Bytes = 0, 0
	return u
}

// fillUsage writes two days of a log and dead letters, each to a file of its own.
func fillUsage(t *testing.T, options *pebble.Options) {
	t.Helper()
	db, err := pebble.Open("", options)
	if err != nil {
		t.Fatal(err)
	}
	keep := func(count []byte, n int64, entries ...[]byte) {
		t.Helper()
		batch := db.NewBatch()
		_ = batch.Set(count, binary.AppendVarint(nil, n), nil)
		for _, key := range entries {
			_ = batch.Set(key, make([]byte, 100), nil)
		}
		if err := errors.Join(batch.Commit(pebble.NoSync), db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	for d := day(20_000); d < 20_002; d++ {
		at := posthaste.FirstPosition(time.UnixMilli(int64(d) * dayMS))
		keep(appendSegment(nil, d, segmentCount, "ann"), 2,
			appendPositionKey(nil, segmentLog, "ann", at), appendPositionKey(nil, segmentLog, "ann", at+1))
	}
	letters := tableOf(store.ItemDeadLetter)
	keep(appendCountKey(nil, countedDeadLetters, "ann"), 2,
		letters.appendRecord(nil, "ann", make([]byte, 8)), letters.appendRecord(nil, "ann", bytes.Repeat([]byte{1}, 8)))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

// failingReads is a file system in memory whose read fails that brings what is left to 0.
func failingReads(left *atomic.Int64, failure error) vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && left.Add(-1) == 0 {
			return failure
		}
		return nil
	}))
}
