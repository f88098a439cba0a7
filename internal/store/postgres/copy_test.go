package postgres_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/store/storetest"
)

func TestCopy(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	storetest.RunCopy(t, openEmbedded, openDatabase(0), openDatabase(4), openEmbedded)
}

// TestCopyRefusesADatabaseInUse has another node live.
func TestCopyRefusesADatabaseInUse(t *testing.T) {
	url := emptyDatabase(t)
	other, s := open(t, url), open(t, url)
	calls := map[string]func() error{
		"Export": func() error { return s.Export(t.Context(), start, func(store.Item) error { return nil }) },
		"Import": func() error { return s.Import(t.Context(), nil) },
	}
	for name, call := range calls {
		if err := call(); err == nil || !strings.Contains(err.Error(), "other nodes use the database") {
			t.Errorf("%s beside another node = %v, want that it is refused", name, err)
		}
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	for name, call := range calls {
		if err := call(); err != nil {
			t.Errorf("%s when the other node is gone = %v", name, err)
		}
	}
}

func openDatabase(partitions store.Partitions) func(t *testing.T) storetest.Opened {
	return func(t *testing.T) storetest.Opened {
		t.Helper()
		url := emptyDatabase(t)
		s := openDivided(t, url, partitions)
		return storetest.Opened{Store: s.Ledger, Reopen: func() *ledger.Ledger {
			if err := s.Ledger.Close(); err != nil {
				t.Fatal(err)
			}
			return openDivided(t, url, partitions).Ledger
		}}
	}
}

func openEmbedded(t *testing.T) storetest.Opened {
	t.Helper()
	options := lsm.Options{FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)}
	s, err := lsm.Open("data", options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return storetest.Opened{Store: ledger.New(s), Reopen: func() *ledger.Ledger {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := lsm.Open("data", options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = again.Close() })
		return ledger.New(again)
	}}
}
