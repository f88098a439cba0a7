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
	return partition.New(s, partitions)
}

// Who uses the API cannot tell how many partitions there are.
func TestHistories(t *testing.T) {
	storetest.RunHistories(t, 3, func(t *testing.T) (names []string, stores []store.Store) {
		names, stores = []string{"model"}, []store.Store{model.New()}
		for _, partitions := range []store.Partitions{1, 4, 16} {
			names = append(names, fmt.Sprintf("%d partitions", partitions))
			stores = append(stores, ledger.New(divided(t, partitions)))
		}
		return names, stores
	})
}

func TestConformance(t *testing.T) {
	storetest.RunRules(t, func(t *testing.T) store.Store {
		for _, promise := range byPartition {
			if strings.Contains(t.Name(), promise) {
				t.Skip("each partition keeps it by itself")
			}
		}
		return ledger.New(divided(t, 4))
	})
}

// byPartition are promises that the embedded store, which is not divided where it is used, keeps for a
// partition and not for a user.
var byPartition = []string{"leaves_room_for_others", "leaves_memory_for_others", "too_many_series"}

func TestSeam(t *testing.T) {
	storetest.RunSeam(t, func(t *testing.T) store.Backend { return divided(t, 4) })
}
