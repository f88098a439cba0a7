package lsm_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/store/storetest"
)

// fillAll makes a store with something of every kind, and closes it.
func fillAll(t *testing.T) image {
	t.Helper()
	fs := vfs.NewCrashableMem()
	_, s := fillWithAll(t, fs)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return imageOf(t, fs)
}

// fillWithAll is fillStore for a store that has something of every kind.
func fillWithAll(t *testing.T, fs vfs.FS) (acknowledged, *ruled) {
	t.Helper()
	_, s := fillStore(t, fs)
	failing := anyMessage(noon)
	failing.URL, failing.Labels = "http://fails.example/", []string{"label"}
	large := anyMessage(noon)
	large.Body, large.NotBefore = make([]byte, 10<<10), noon.Add(time.Hour)
	if _, err := s.Accept(t.Context(), noon, []store.Submission{{Messages: []*posthaste.Message{failing, large}, DedupKey: "once"}}); err != nil {
		t.Fatal(err)
	}
	settle(t, s, failing.ID, func(c store.Claim) store.Settlement {
		return store.Failed(c, posthaste.Outcome{Error: "broken", Response: &posthaste.Response{Status: 500}})
	})
	if err := errors.Join(
		s.UpdateQueue(t.Context(), noon, "ann", "q", func(*posthaste.Queue) error { return nil }),
		s.UpdateSchedule(t.Context(), noon, "ann", "s", func(s *posthaste.Schedule) error { s.NextAt = noon; return nil }),
		ledger.New(s).Transact(t.Context(), noon, "ann", storetest.TwoRuns("ann", noon, anyMessage)),
	); err != nil {
		t.Fatal(err)
	}
	know, err := readLedger(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return know, s
}

// settle ends the claim of one message.
func settle(t *testing.T, s *ruled, id posthaste.MessageID, how func(store.Claim) store.Settlement) {
	t.Helper()
	claims, _, err := s.Claim(t.Context(), noon, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, claim := range claims {
		if claim.Message.ID == id {
			_, err = ledger.New(s).Settle(t.Context(), noon, how(claim))
		} else {
			err = s.Release(t.Context(), noon, []store.Claim{claim})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheckFindsNothingWrong(t *testing.T) {
	report, err := lsm.Check("data", lsm.Options{FS: fillAll(t).fs()})
	if err != nil || len(report.Problems) > 0 {
		t.Fatalf("Check: %v, %v", err, report.Problems)
	}
	for what, n := range map[string]int64{
		"commits": int64(report.Commits), "tables": int64(report.Tables), "keys": report.Keys, "messages": report.Messages,
		"waiting messages": report.Waiting, "events": report.Events, "dead letters": report.DeadLetters,
		"runs": report.Runs, "failed runs": report.FailedRuns,
	} {
		if n == 0 {
			t.Errorf("Check looked at no %s: %+v", what, report)
		}
	}
}

// A check leaves a directory as it was, also one that is none of ours.
func TestCheckChangesNothing(t *testing.T) {
	empty, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	if _, err := lsm.Check(empty, lsm.Options{}); err == nil || !strings.Contains(err.Error(), "neither a data directory nor a backup") {
		t.Errorf("Check of an empty directory = %v", err)
	}
	s, err := openRuled(t.TempDir(), lsm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Backup(t.Context(), backup), s.Close()); err != nil {
		t.Fatal(err)
	}
	before := namesIn(t, backup)
	if report, err := lsm.Check(backup, lsm.Options{}); err != nil || len(report.Problems) > 0 {
		t.Errorf("Check of a backup: %q, %v", report.Problems, err)
	}
	if after := namesIn(t, backup); !slices.Equal(before, after) || len(namesIn(t, empty)) > 0 {
		t.Errorf("of %q a check makes %q, and of an empty directory %q", before, after, namesIn(t, empty))
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestCheckMissesNoKey deletes one key of each kind. Check notices, unless nothing else
// speaks of what was deleted.
func TestCheckMissesNoKey(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	whole := fillAll(t)
	alone := map[string]bool{
		"m format": true, "v": true, // settings
		"q": true, "x": true, "n k": true, "n s": true, // what is remembered of nothing else
		"s r": true, // responses of events, which need not have one
		"s o": true, // a hint for retention
		"i":   true, // responses, which are given for as long as they are there
	}
	for kind, key := range oneOfEach(t, whole) {
		fs := whole.fs()
		change(t, fs, func(db *pebble.DB) error { return db.Delete(key, pebble.Sync) })
		report, err := lsm.Check("data", lsm.Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		if noticed := len(report.Problems) > 0; noticed == alone[kind] {
			t.Errorf("without a key of kind %q (%x): problems %q", kind, key, report.Problems)
		}
	}
}

// TestCheckReadsEveryRecord replaces the value of one key of each kind.
func TestCheckReadsEveryRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	whole := fillAll(t)
	opaque := map[string]bool{
		"v": true, "s b": true, "n s": true, // texts of others
		"k": true, "t": true, "d p": true, "s o": true, "n k": true, "n t": true, "n x": true, "n y": true, "n o": true, // the key is all there is, or an id
		"m format": true,
	}
	for kind, key := range oneOfEach(t, whole) {
		if opaque[kind] {
			continue
		}
		fs := whole.fs()
		change(t, fs, func(db *pebble.DB) error { return db.Set(key, []byte{0xff, 0xff, 0xff}, pebble.Sync) })
		report, err := lsm.Check("data", lsm.Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Problems) == 0 {
			t.Errorf("with a damaged record of kind %q (%x) Check finds nothing", kind, key)
		}
	}
}

// Pages of the log pass over hours by the counts of a series: check notices counts of another one,
// although their sum is right.
func TestCheckComparesEachSeries(t *testing.T) {
	whole := fillAll(t)
	fs, key := whole.fs(), oneOfEach(t, whole)["s h"]
	change(t, fs, func(db *pebble.DB) error {
		value, closer, err := db.Get(key)
		if err != nil {
			return err
		}
		defer closer.Close()
		other := bytes.Replace(key, []byte(".example"), []byte(".elsewhe"), 1)
		if bytes.Equal(key, other) {
			t.Fatalf("no host in %q", key)
		}
		return errors.Join(db.Set(other, value, pebble.Sync), db.Delete(key, pebble.Sync))
	})
	report, err := lsm.Check("data", lsm.Options{FS: fs})
	if err != nil || len(report.Problems) != 1 || !strings.Contains(report.Problems[0], "fewer events of a series than are counted") {
		t.Errorf("Check: %v, %q", err, report.Problems)
	}
}

// oneOfEach returns a key of each kind that keys.go knows.
func oneOfEach(t *testing.T, files image) map[string][]byte {
	t.Helper()
	kinds := map[string][]byte{}
	change(t, files.fs(), func(db *pebble.DB) error {
		iter, err := db.NewIter(nil)
		if err != nil {
			return err
		}
		for valid := iter.First(); valid; valid = iter.Next() {
			key := bytes.Clone(iter.Key())
			switch kind := string(key[:1]); kind {
			case "m":
				kinds["m "+string(key[1:])] = key
			case "d", "n", "u":
				kinds[kind+" "+string(key[1:2])] = key
			case "s":
				kinds[kind+" "+string(key[3:4])] = key
			default:
				kinds[kind] = key
			}
		}
		return errors.Join(iter.Error(), iter.Close())
	})
	if len(kinds) < 25 {
		t.Fatalf("only %d kinds of keys", len(kinds))
	}
	return kinds
}

// change opens the database below a store.
func change(t *testing.T, fs vfs.FS, do func(*pebble.DB) error) {
	t.Helper()
	db, err := pebble.Open("data", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(do(db), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// quiet logs nothing.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

// TestCheckNamesDamagedFiles flips bits, of which each is told with its file or does not
// matter.
func TestCheckNamesDamagedFiles(t *testing.T) {
	whole := fillAll(t)
	for name, content := range whole {
		if len(content) == 0 || !strings.HasSuffix(name, ".sst") {
			continue
		}
		for i := 0; i < len(content); i += 97 {
			damaged := bytes.Clone(content)
			damaged[i] ^= 4
			report, err := lsm.Check("data", lsm.Options{FS: whole.with(name, damaged).fs(), Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(report.Problems, "\n"); !strings.Contains(text, name) {
				t.Errorf("%s is damaged at %d, and Check says %q", name, i, text)
			}
		}
	}
}

// TestBackup backs up a store while it is used, and restores it.
func TestBackup(t *testing.T) {
	fs := vfs.NewMem()
	know, s := fillStore(t, fs)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = s.Accept(t.Context(), noon.Add(time.Hour), []store.Submission{{Messages: []*posthaste.Message{anyMessage(noon.Add(time.Hour))}}})
			}
		}
	}()
	err := s.Backup(t.Context(), "backup")
	close(stop)
	<-stopped
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), "backup"); !errors.Is(err, lsm.ErrNotEmpty) {
		t.Errorf("a second backup to the same place = %v, want ErrNotEmpty", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	report, err := lsm.Restore("backup", "restored", lsm.Options{FS: fs})
	if err != nil || len(report.Problems) > 0 {
		t.Fatalf("Restore: %v, %q", err, report.Problems)
	}
	for _, target := range []string{"restored", "data"} {
		if _, err := lsm.Restore("backup", target, lsm.Options{FS: fs}); !errors.Is(err, lsm.ErrNotEmpty) {
			t.Errorf("Restore to %s = %v, want ErrNotEmpty", target, err)
		}
	}
	restored, err := openRuled("restored", lsm.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = restored.Close() }()
	found, err := readLedger(t.Context(), restored)
	if err != nil {
		t.Fatal(err)
	}
	found.log = found.log[:len(know.log)] // what was accepted meanwhile comes later
	if err := know.compare(found); err != nil {
		t.Error(err)
	}
}

// TestBackupIsForNobodyElse backs up on a disk that has permissions.
func TestBackupIsForNobodyElse(t *testing.T) {
	data, backup := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	s, err := openRuled(data, lsm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Backup(t.Context(), backup), s.Close()); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{data, backup} {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v, want 0700", dir, info.Mode())
		}
	}
}

// TestRestoreKeepsADirectory fills one that is there, as if a disk were mounted on it.
func TestRestoreKeepsADirectory(t *testing.T) {
	backup, to := filepath.Join(t.TempDir(), "backup"), t.TempDir()
	s, err := openRuled(filepath.Join(t.TempDir(), "data"), lsm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Backup(t.Context(), backup), s.Close(), os.Mkdir(filepath.Join(to, ".partial"), 0o700)); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(to)
	if err != nil {
		t.Fatal(err)
	}
	if report, err := lsm.Restore(backup, to, lsm.Options{}); err != nil || len(report.Problems) > 0 {
		t.Fatalf("Restore: %v, %q", err, report.Problems)
	}
	if after, err := os.Stat(to); err != nil || !os.SameFile(before, after) {
		t.Errorf("the directory is another one, %v", err)
	}
	if _, err := os.Stat(filepath.Join(to, ".partial")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was not checked yet is still there: %v", err)
	}
	if exists, err := lsm.Exists(to); err != nil || !exists {
		t.Errorf("Exists = %t, %v, want that there is a store", exists, err)
	}
}

// TestRestoreThatIsBrokenOff stops while the checked files are moved to their place. The
// directory is then never taken for a new one.
func TestRestoreThatIsBrokenOff(t *testing.T) {
	fs := vfs.NewMem()
	_, s := fillStore(t, fs)
	if err := errors.Join(s.Backup(t.Context(), "backup"), s.Close()); err != nil {
		t.Fatal(err)
	}
	names, err := fs.List("backup")
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(names) {
		to, moved := fmt.Sprint("restored", n), 0
		failing := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind != errorfs.OpRename {
				return nil
			}
			if moved++; moved > n {
				return errDisk
			}
			return nil
		}))
		if _, err := lsm.Restore("backup", to, lsm.Options{FS: failing}); !errors.Is(err, errDisk) {
			t.Fatalf("Restore that can move %d files = %v, want %v", n, err, errDisk)
		}
		if n == 0 { // it can be begun anew
			if _, err := lsm.Restore("backup", to, lsm.Options{FS: fs}); err != nil {
				t.Error(err)
			}
			continue
		}
		if _, err := openRuled(to, lsm.Options{FS: fs}); !errors.Is(err, lsm.ErrDamaged) {
			t.Errorf("Open of what has %d of %d files = %v, want ErrDamaged", n, len(names), err)
		}
	}
}

// TestRestoreRefusesADamagedBackup leaves nothing behind.
func TestRestoreRefusesADamagedBackup(t *testing.T) {
	fs := vfs.NewMem()
	_, s := fillStore(t, fs)
	if err := errors.Join(s.Backup(t.Context(), "backup"), s.Close()); err != nil {
		t.Fatal(err)
	}
	names, err := fs.List("backup")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		file, err := fs.OpenReadWrite("backup/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte("damage"), 200); err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
	}
	report, err := lsm.Restore("backup", "restored", lsm.Options{FS: fs, Logger: slog.New(slog.DiscardHandler)})
	if err != nil || len(report.Problems) == 0 {
		t.Errorf("Restore of a damaged backup: %v, %q", err, report.Problems)
	}
	if _, err := fs.Stat("restored"); err == nil {
		t.Error("a directory was left behind")
	}
	if _, err := lsm.Restore("nowhere", "restored", lsm.Options{FS: fs}); err == nil {
		t.Error("Restore from a place where there is nothing succeeds")
	}
}
