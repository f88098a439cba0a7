package postgres_test

import (
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste/internal/store/lsm"
	"posthaste/internal/store/postgres"
	"posthaste/internal/store/storetest"
)

func TestCopy(t *testing.T) {
	storetest.RunCopy(t, openEmbedded, openDatabase, openEmbedded)
}

func openDatabase(t *testing.T) storetest.Opened {
	t.Helper()
	url := emptyDatabase(t)
	s := open(t, url)
	return storetest.Opened{Store: s, Reopen: func() storetest.Copying {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return open(t, url)
	}}
}

func openEmbedded(t *testing.T) storetest.Opened {
	t.Helper()
	options := lsm.Options{FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)}
	s, err := lsm.Open("data", options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return storetest.Opened{Store: s, Reopen: func() storetest.Copying {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := lsm.Open("data", options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = again.Close() })
		return again
	}}
}

var _ storetest.Copying = (*postgres.Store)(nil)
