package postgres_test

import (
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/store/storetest"
	"posthaste/internal/store/storetest/model"
)

// Who uses the API cannot tell which backend is behind it.
func TestHistories(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	storetest.RunHistories(t, 3, func(t *testing.T) ([]string, []store.Store) {
		embedded, err := lsm.Open("data", lsm.Options{FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = embedded.Close() })
		return []string{"model", "embedded", "postgres"}, []store.Store{model.New(), ledger.New(embedded), open(t, emptyDatabase(t))}
	})
}
