package partition_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/store/partition"
	"posthaste/internal/store/storetest"
	"posthaste/internal/store/storetest/model"
)

// divided opens a store in memory whose users are divided.
func divided(t *testing.T, partitions store.Partitions) store.Backend {
	t.Helper()
	s, err := lsm.Open("data", lsm.Options{
		FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler), Memory: storetest.Memory, Partitions: partitions,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return partition.New(s)
}

// Who uses the API cannot tell how many partitions there are. More seeds are tried by make torture.
func TestHistories(t *testing.T) {
	storetest.RunHistories(t, 1, func(t *testing.T) (names []string, stores []store.Store) {
		names, stores = []string{"model"}, []store.Store{model.New()}
		for _, partitions := range []store.Partitions{4, 16} {
			names = append(names, fmt.Sprintf("%d partitions", partitions))
			stores = append(stores, ledger.New(divided(t, partitions)))
		}
		return names, stores
	})
}

func TestConformance(t *testing.T) {
	storetest.RunBackend(t, func(t *testing.T) store.Store {
		for _, promise := range leftOut {
			if strings.Contains(t.Name(), promise) {
				t.Skip("each partition keeps it by itself")
			}
		}
		return ledger.New(divided(t, 4))
	})
}

// leftOut are promises that the embedded store, which is not divided where it is used, keeps for a
// partition and not for a user; and those that have many large things, or ask for each field, of the
// backend.
var leftOut = []string{
	"leaves_room_for_others", "leaves_memory_for_others", "too_many_series",
	"/Pages/", "each_field_filters_alone", "many_values_of_two_fields_filter", "kept_whole,_with_bodies_of_every_size",
}

func TestSeam(t *testing.T) {
	storetest.RunSeam(t, func(t *testing.T) store.Backend {
		for _, promise := range leftOut {
			if strings.Contains(t.Name(), promise) {
				t.Skip("the backend keeps it")
			}
		}
		return divided(t, 4)
	})
}
