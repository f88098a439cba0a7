package lsm_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.RunRules(t, func(t *testing.T) store.Store {
		fs, dir := disk(t)
		s, err := lsm.Open(dir, lsm.Options{FS: fs, Memory: storetest.Memory})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = s.Close()
			checkWhole(t, fs, dir)
		})
		return ledger.New(s)
	})
}

func TestSeam(t *testing.T) {
	storetest.RunSeam(t, func(t *testing.T) store.Backend {
		fs, dir := disk(t)
		s, err := lsm.Open(dir, lsm.Options{FS: fs, Memory: storetest.Memory})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	})
}

func TestSeamCrash(t *testing.T) {
	storetest.RunSeamCrash(t, func(t *testing.T) storetest.CrashableBackend {
		c := &crashableSeam{crashable{fs: vfs.NewCrashableMem()}}
		t.Cleanup(func() { _ = c.store.Close() })
		return c
	})
}

// crashableSeam is crashable without the rules, so that what it keeps need not make sense.
type crashableSeam struct{ crashable }

func (c *crashableSeam) Open() (_ store.Backend, err error) {
	c.store, err = lsm.Open("data", lsm.Options{FS: c.fs})
	return c.store, err
}

// disk returns a directory in memory, or, where commits of many megabytes are tried, one of the system:
// with the race detector the storage engine inverts whatever was written to its memory, byte
// by byte, to find who relies on it, and a commit of some megabytes takes seconds.
func disk(t *testing.T) (fs vfs.FS, dir string) {
	if strings.Contains(t.Name(), "/Pages/") || strings.HasSuffix(t.Name(), "bounded_in_bytes") {
		return vfs.Default, t.TempDir()
	}
	return vfs.NewMem(), "data"
}

func TestCrowdedMoment(t *testing.T) {
	storetest.RunCrowdedMoment(t, func(t *testing.T) store.Store {
		return open(t, vfs.NewMem())
	})
}

func TestCrash(t *testing.T) {
	seeds := int64(20)
	if testing.Short() {
		seeds = 1
	}
	storetest.RunCrash(t, seeds, func(t *testing.T) storetest.Crashable {
		c := &crashable{fs: vfs.NewCrashableMem()}
		t.Cleanup(func() { _ = c.store.Close() })
		return c
	})
}

// crashable is a store in memory that can lose its power.
type crashable struct {
	fs    *vfs.MemFS
	store *lsm.Store
}

func (c *crashable) Open() (s store.Store, err error) {
	if c.store != nil {
		if err := problems(c.fs, "data"); err != nil {
			return nil, err
		}
	}
	c.store, err = lsm.Open("data", lsm.Options{FS: c.fs})
	return ledger.New(c.store), err
}

// Crash goes on with what a power failure leaves: all that was synced, and of the
// rest what the seed decides. The store that ran on the other disk is of no
// interest any more; closing it lets the calls in progress return.
func (c *crashable) Crash(seed int64) {
	c.fs = c.fs.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: 50,
		RNG:                 rand.New(rand.NewPCG(uint64(seed), 0)),
	})
	_ = c.store.Close()
}

// checkWhole fails the test if lsm.Check finds a problem in a directory.
func checkWhole(t *testing.T, fs vfs.FS, dir string) {
	t.Helper()
	if err := problems(fs, dir); err != nil {
		t.Error(err)
	}
}

func problems(fs vfs.FS, dir string) error {
	report, err := lsm.Check(dir, lsm.Options{FS: fs})
	if err != nil || len(report.Problems) > 0 {
		return fmt.Errorf("check: %v, %s", err, strings.Join(report.Problems, "\n"))
	}
	return nil
}
