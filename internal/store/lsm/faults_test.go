package lsm_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

var errDisk = errors.New("the disk is broken")

// failingDisk is a disk that loses what was not synced when it is crashed, and that
// fails from the n-th operation on that is selected.
type failingDisk struct {
	*vfs.MemFS
	selects func(errorfs.Op) bool
	err     error

	mu     sync.Mutex
	n      int // of the operation that fails
	count  int
	failed bool
}

func (d *failingDisk) fs() vfs.FS {
	return errorfs.Wrap(d.MemFS, errorfs.InjectorFunc(func(op errorfs.Op) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.selects(op) {
			return nil
		}
		if d.count++; d.count < d.n {
			return nil
		}
		d.failed = true
		return d.err
	}))
}

func isSync(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
}

func isWrite(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileWriteAt
}

// TestFailingDisk lets syncs and writes fail: what they were for is not acknowledged,
// the process stops, and all that was acknowledged is there after a new start.
func TestFailingDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	of := func(kind func(errorfs.Op) bool, name string) func(errorfs.Op) bool {
		return func(op errorfs.Op) bool { return kind(op) && strings.Contains(op.Path, name) }
	}
	tests := []struct {
		name    string
		selects func(errorfs.Op) bool
	}{
		{"a sync of the log fails", of(isSync, ".log")},
		{"a write to the log fails", of(isWrite, ".log")},
		{"a write of the guard fails", of(isWrite, "guard")},
		{"a sync of the guard or of a manifest fails", func(op errorfs.Op) bool {
			return isSync(op) && (strings.Contains(op.Path, "guard") || strings.Contains(op.Path, "MANIFEST"))
		}},
	}
	for _, test := range tests {
		for n := 1; n <= 40; n += 3 {
			t.Run(fmt.Sprintf("%s from number %d on", test.name, n), func(t *testing.T) {
				d := &failingDisk{MemFS: vfs.NewCrashableMem(), selects: test.selects, err: errDisk, n: n}
				acknowledged := publishUntilStopped(t, d)
				crashed := d.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(n), 0))})
				s := open(t, crashed)
				for _, m := range acknowledged {
					if status, err := s.Message(t.Context(), m.User, m.ID); err != nil || !bytes.Equal(status.Message.Body, m.Body) {
						t.Errorf("acknowledged message %s: %v", m.ID, err)
					}
				}
			})
		}
	}
}

// publishUntilStopped publishes from several goroutines until the store stops its
// process, which must happen if the disk has failed, and returns what was acknowledged.
func publishUntilStopped(t *testing.T, d *failingDisk) []*posthaste.Message {
	t.Helper()
	var acknowledged []*posthaste.Message
	stopped := make(chan string, 100)
	ended := make(chan struct{})
	stop := func(message string) {
		stopped <- message
		select {} // as good as the end of the process
	}
	var mu sync.Mutex
	go func() {
		defer close(ended)
		s, err := openRuled("data", lsm.Options{FS: d.fs(), Fatal: stop, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			stopped <- err.Error() // the program ends with this sentence
			return
		}
		var publishing sync.WaitGroup
		for range 4 {
			publishing.Go(func() {
				for range 30 {
					m := anyMessage(noon)
					if _, err := s.Accept(t.Context(), noon, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
						return
					}
					mu.Lock()
					acknowledged = append(acknowledged, m)
					mu.Unlock()
				}
			})
		}
		publishing.Wait()
		if err := s.Compact(t.Context()); err == nil {
			if err := s.Close(); err != nil {
				stopped <- err.Error()
			}
		}
	}()
	select {
	case message := <-stopped:
		if !strings.Contains(message, errDisk.Error()) {
			t.Errorf("the process stops with %q, want the cause %q", message, errDisk)
		}
	case <-ended:
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.failed && len(stopped) == 0 {
			t.Error("the disk failed and the process goes on")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(acknowledged)
}

// anyMessage returns a message with an id of its own.
func anyMessage(at time.Time) *posthaste.Message {
	id, err := posthaste.NewMessageID(at, randReader{})
	if err != nil {
		panic(err)
	}
	return &posthaste.Message{ID: id, User: "ann", URL: "http://a.example/", Body: []byte(id.String()), CreatedAt: at, NotBefore: at}
}

// stallingDisk is a disk that can stop to answer.
type stallingDisk struct {
	mu   sync.Mutex
	wait chan struct{} // closed when it goes on; nil while it answers
}

func (d *stallingDisk) fs() vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		d.mu.Lock()
		wait := d.wait
		d.mu.Unlock()
		if wait != nil && isSync(op) {
			<-wait
		}
		return nil
	}))
}

// stall stops the disk until resume is called.
func (d *stallingDisk) stall() (resume func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	wait := make(chan struct{})
	d.wait = wait
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.wait = nil
		close(wait)
	}
}

// TestStalledDisk stops the disk from answering for a while.
func TestStalledDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &stallingDisk{}
		var log bytes.Buffer
		s, err := openRuled("data", lsm.Options{FS: disk.fs(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		accept := func(m *posthaste.Message) error {
			_, err := s.Accept(t.Context(), noon, []store.Submission{{Messages: []*posthaste.Message{m}}})
			return err
		}
		before, during, refused := anyMessage(noon), anyMessage(noon), anyMessage(noon)
		if err := accept(before); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the guard is synced
		synctest.Wait()

		resume := disk.stall()
		began := time.Now()
		if err := accept(during); !errors.Is(err, store.ErrUnavailable) || posthaste.ErrorCode(err) != posthaste.CodeUnavailable {
			t.Errorf("Accept while the disk does not answer = %v, want ErrUnavailable with a code for callers", err)
		}
		if waited := time.Since(began); waited != 5*time.Second {
			t.Errorf("Accept waited for %v", waited)
		}
		began = time.Now()
		_, readErr := s.Message(t.Context(), before.User, before.ID)
		for name, err := range map[string]error{"Accept": accept(refused), "Message": readErr, "Ping": s.Ping(t.Context())} {
			if !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s on a disk known not to answer = %v, want ErrUnavailable", name, err)
			}
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("calls on a disk known not to answer took %v", waited)
		}
		time.Sleep(10 * time.Second)
		if stats, err := s.Stats(t.Context(), noon); err != nil || stats.Stalled != 15*time.Second {
			t.Errorf("Stats: stalled for %v, %v, want 15s", stats.Stalled, err)
		}

		resume()
		synctest.Wait()
		for name, m := range map[string]*posthaste.Message{"before": before, "during": during} {
			if _, err := s.Message(t.Context(), m.User, m.ID); err != nil {
				t.Errorf("the message of %s the stall, after it: %v", name, err)
			}
		}
		if _, err := s.Message(t.Context(), refused.User, refused.ID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the message that was refused: %v, want ErrNotFound", err)
		}
		if err := accept(anyMessage(noon)); err != nil {
			t.Error(err)
		}
		if stats, err := s.Stats(t.Context(), noon); err != nil || stats.Stalled != 0 {
			t.Errorf("Stats after the stall: stalled for %v, %v", stats.Stalled, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, line := range []string{"store.stalled", "store.resumed"} {
			if strings.Count(log.String(), line) != 1 {
				t.Errorf("log has not one line %s:\n%s", line, log.String())
			}
		}
	})
}

// A trim that is not waited for any longer counts nothing that it does later.
func TestTrimOnStalledDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &stallingDisk{}
		s, err := openRuled("data", lsm.Options{FS: disk.fs(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		err = ledger.New(s).Transact(t.Context(), noon, "ann", func(tx store.RunTx) error {
			run := &posthaste.Run{
				RunRef:      posthaste.RunRef{ID: "run", Position: tx.NextPosition(0)},
				RunProgress: posthaste.RunProgress{State: posthaste.RunFailed, CompletedAt: noon},
			}
			tx.Start(run)
			run.DeadLetterID = posthaste.DeadLetterID(tx.NextPosition(0))
			tx.AddToDLQ(run, &posthaste.DeadLetter{ID: run.DeadLetterID, Message: &posthaste.Message{}})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the guard is synced
		resume := disk.stall()
		later := noon.Add(time.Hour)
		trimmed, err := s.Trim(t.Context(), "ann", store.Horizon{DeadLetters: later})
		if !trimmed.Empty() || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Trim while the disk does not answer = %+v, %v, want ErrUnavailable alone", trimmed, err)
		}
		resume()
		synctest.Wait()
		want := store.Trimmed{Runs: 1}
		if trimmed, err := s.Trim(t.Context(), "ann", store.Horizon{DeadLetters: later, Runs: later}); err != nil || trimmed != want {
			t.Errorf("Trim after the stall = %+v, %v, want %+v: the dead letter has gone", trimmed, err, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestStallEndsAllWaiting has calls in every place where they can wait when the disk
// stops to answer.
func TestStallEndsAllWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &stallingDisk{}
		s, err := openRuled("data", lsm.Options{FS: disk.fs(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the guard is synced
		synctest.Wait()
		resume := disk.stall()
		began := time.Now()
		var calls sync.WaitGroup
		call := func(name string, do func() error) {
			calls.Go(func() {
				if err := do(); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("%s = %v, want ErrUnavailable", name, err)
				}
			})
		}
		accept := func() error {
			_, err := s.Accept(t.Context(), noon, []store.Submission{{Messages: []*posthaste.Message{anyMessage(noon)}}})
			return err
		}
		call("Accept, the commit of which is not synced", accept)
		synctest.Wait()
		call("a read of what is not durable yet", func() error {
			_, err := s.Message(t.Context(), "ann", posthaste.MessageID{})
			return err
		})
		call("Accept, the commit of which waits for the one before", accept)
		synctest.Wait()
		for range 600 { // more than the writer takes at once
			call("Accept, which waits for its turn", accept)
		}
		calls.Wait()
		if waited := time.Since(began); waited != 5*time.Second {
			t.Errorf("they waited for %v", waited)
		}
		resume()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// meteredDisk is a disk with so much free space.
type meteredDisk struct {
	vfs.FS
	free uint64
}

func (d *meteredDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: d.free, TotalBytes: 10 << 30}, nil
}

// TestFullDisk leaves less of the disk than is reserved: nothing new is accepted, and
// what was accepted goes on.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &meteredDisk{vfs.NewMem(), 1 << 30}
		s, err := openRuled("data", lsm.Options{FS: disk, Reserve: 256 << 20, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		waits, runs, fails := anyMessage(noon), anyMessage(noon), anyMessage(noon)
		waits.NotBefore, fails.URL = noon.Add(time.Hour), "http://b.example/" // a host of its own
		if _, err := s.Accept(t.Context(), noon, []store.Submission{{Messages: []*posthaste.Message{waits, runs, fails}}}); err != nil {
			t.Fatal(err)
		}

		disk.free = 100 << 20
		time.Sleep(time.Second)
		tick := &posthaste.Schedule{ID: "s", User: "ann", NextAt: noon}
		newWork := []struct {
			name string
			err  func() error
		}{
			{"a message", func() error {
				_, err := s.Accept(t.Context(), noon, []store.Submission{{Messages: []*posthaste.Message{anyMessage(noon)}}})
				return err
			}},
			{"a run", func() error {
				return ledger.New(s).Transact(t.Context(), noon, "ann", func(tx store.RunTx) error {
					at := tx.NextPosition(0)
					tx.Start(&posthaste.Run{RunRef: posthaste.RunRef{ID: "wfr_1", Position: at, CreatedAt: at.Time()}, User: "ann"})
					return nil
				})
			}},
			{"a retry of a dead letter", func() error {
				_, err := ledger.New(s).RetryDeadLetters(t.Context(), noon, "ann", []posthaste.DeadLetterID{1}, nil, nil)
				return err
			}},
			{"a tick", func() error { return s.Tick(t.Context(), noon, tick, tick, []*posthaste.Message{anyMessage(noon)}) }},
		}
		for _, work := range newWork {
			if err := work.err(); posthaste.ErrorCode(err) != posthaste.CodeUnavailable || !strings.Contains(err.Error(), "100 MiB are left") {
				t.Errorf("%s on a full disk: %v, want a sentence with code %s", work.name, err, posthaste.CodeUnavailable)
			}
		}
		if stats, err := s.Stats(t.Context(), noon); err != nil || !stats.Full || stats.FreeBytes != 100<<20 {
			t.Errorf("Stats = %+v, %v, want a full disk", stats, err)
		}

		claims, _, err := s.Claim(t.Context(), noon, 10)
		if err != nil || len(claims) != 2 {
			t.Fatalf("Claim on a full disk: %d claims, %v, want 2", len(claims), err)
		}
		if _, err := ledger.New(s).Settle(t.Context(), noon, store.Delivered(claims[0])); err != nil {
			t.Errorf("Settle on a full disk: %v", err)
		}
		if _, err := ledger.New(s).Settle(t.Context(), noon, store.Failed(claims[1], posthaste.Outcome{Error: "broken"})); err != nil {
			t.Errorf("Settle of a failure on a full disk: %v", err)
		}
		if changed, err := s.Cancel(t.Context(), noon, "ann", []posthaste.MessageID{waits.ID}, nil); err != nil || len(changed) != 1 {
			t.Errorf("Cancel on a full disk: %v, %v", changed, err)
		}
		if page, err := store.ReadEvents(t.Context(), s, "ann", store.EventQuery{High: posthaste.MaxPosition, Limit: 100}); err != nil || len(page.Entries) == 0 {
			t.Errorf("Events on a full disk: %d, %v", len(page.Entries), err)
		}
		if _, err := s.Trim(t.Context(), "ann", store.Horizon{Log: noon}); err != nil {
			t.Errorf("Trim on a full disk: %v", err)
		}

		disk.free = 300 << 20
		time.Sleep(time.Second)
		if _, err := s.Accept(t.Context(), noon, []store.Submission{{Messages: []*posthaste.Message{anyMessage(noon)}}}); err != nil {
			t.Errorf("Accept a second after there was room: %v", err)
		}
	})
}
