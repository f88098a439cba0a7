package storetest_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/store/storetest"
)

func TestTmpLSM(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s, err := lsm.Open("data", lsm.Options{FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	})
}
