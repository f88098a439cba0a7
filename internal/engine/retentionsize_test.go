package engine_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/store/storetest"
)

// bounded is a world whose server keeps at most so many bytes of a user. It is on for a
// moment of each day, and removes what is too much when it starts.
type bounded struct {
	*archive
	most int64
	log  bytes.Buffer // what the server says
}

// inBounded runs a scenario in a synctest bubble.
func inBounded(t *testing.T, most int64, scenario func(b *bounded)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scenario(&bounded{
			archive: &archive{world: &world{t: t, start: time.Now()}, fs: vfs.NewMem(), random: rand.NewChaCha8([32]byte{4})},
			most:    most,
		})
	})
}

// day lives through one day in which things happen. In the end all is in its place on
// disk, where its size is known.
func (b *bounded) day(happens func()) {
	b.t.Helper()
	s, err := ledger.Over(lsm.Open("data", lsm.Options{FS: b.fs}))
	if err != nil {
		b.t.Fatal(err)
	}
	b.opened, b.disk, b.store = time.Now(), s, s
	b.Engine = engine.New(engine.Options{
		Store:      s,
		Dispatcher: destinations{fateByURL},
		Logger:     slog.New(slog.NewTextHandler(&b.log, nil)),
		Retention:  engine.Retention{Log: 300 * day, Size: b.most},
	})
	b.Start()
	b.pass(time.Second)
	happens()
	b.compact()
	b.Stop(b.t.Context())
	if err := s.Close(); err != nil {
		b.t.Error(err)
	}
	time.Sleep(day - time.Since(b.opened))
}

// send publishes messages of 16 KiB.
func (b *bounded) send(n int, p engine.Publication) {
	b.t.Helper()
	for range n {
		p.Body = make([]byte, 16<<10)
		_, _ = b.random.Read(p.Body) // never fails, by its contract
		b.publish(p)
	}
	b.pass(time.Second)
}

func (b *bounded) compact() {
	b.t.Helper()
	if err := b.disk.Backend.(*lsm.Store).Compact(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bounded) usage() store.Usage {
	b.t.Helper()
	u, err := b.store.Usage(b.t.Context(), user)
	if err != nil {
		b.t.Fatal(err)
	}
	return u
}

// TestRetentionBySize has twenty days of traffic on a server that keeps five days' worth
// of bytes: the disk holds no more than that and a little, and the log is as long as
// fits. Nothing that is alive goes, however old it is.
func TestRetentionBySize(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	const days, daily = 20, 40 * 16 << 10 // bytes of bodies
	inBounded(t, 5*daily, func(b *bounded) {
		var waits posthaste.MessageID
		for n := range days {
			b.day(func() {
				if n == 0 {
					waits = b.publish(engine.Publication{Destination: urlOK, Delay: 60 * day})
				}
				b.send(40, engine.Publication{Destination: urlOK})
				if n < 8 {
					return
				}
				b.wantWithin(13 * b.most / 10)
				if left := len(b.usage().Days); left < 4 {
					b.t.Errorf("day %d: %d days of the log are left, more fit", n, left)
				}
				if status, err := b.store.Message(t.Context(), user, waits); err != nil || status.State != posthaste.StateCreated {
					b.t.Errorf("day %d: the message that waits is %s, %v", n, status.State, err)
				}
				if n == days-1 {
					storetest.Audit(t, b.store, user, nil)
					t.Logf("%d of %d bytes on disk, %d days", b.size("data"), b.most, len(b.usage().Days))
				}
			})
		}
		if strings.Contains(b.log.String(), "over_size") {
			b.t.Errorf("the server tells of too much:\n%s", b.log.String())
		}
	})
}

// wantWithin wants no more than so many bytes on disk.
func (b *bounded) wantWithin(most int64) {
	b.t.Helper()
	b.compact()
	b.pass(time.Second) // for the files that are not needed any more to be deleted
	if size := b.size("data"); size > most {
		b.t.Errorf("day %d: %d bytes on disk, want at most %d", b.today(), size, most)
	}
}

// What happened today and yesterday stays, whatever it takes, and the log says so.
func TestRetentionBySizeKeepsTwoDays(t *testing.T) {
	inBounded(t, 1, func(b *bounded) {
		for range 4 {
			b.day(func() { b.send(10, engine.Publication{Destination: urlOK}) })
		}
		b.day(func() {
			b.send(10, engine.Publication{Destination: urlOK})
			if days := b.usage().Days; len(days) != 2 || !days[1].Start.Equal(time.Now().UTC().Truncate(day)) {
				b.t.Errorf("of the log %+v is left, want two days", days)
			}
		})
		if !strings.Contains(b.log.String(), "retention.over_size") {
			b.t.Error("the server does not tell of too much")
		}
	})
}

// Where dropping the log is not enough, dead letters and ended runs go, the oldest days
// first, as many as have to; never those of today and yesterday, and no run that goes on.
// The log says so.
func TestRetentionBySizeDropsDeadLettersAndRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	const daily = 10
	tests := map[string]struct {
		days      int64 // of dead letters and runs that the bound has room for, and the log of two
		low, high int   // dead letters that are left on the tenth day
	}{
		"all but two days":    {0, daily, 2 * daily},
		"as many as have to":  {4, 3 * daily, 6 * daily},
		"none, as there fits": {20, 9 * daily, 9 * daily},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			const perDay = 2 * daily * 16 << 10
			inBounded(t, 1+test.days*perDay*3/2, func(b *bounded) {
				var lives posthaste.Position
				for n := range 9 {
					b.day(func() {
						if n == 0 {
							lives = b.run(posthaste.RunStarted)
						}
						b.send(daily, engine.Publication{Destination: urlFails})
						for range daily {
							b.run(posthaste.RunSuccess)
						}
					})
				}
				b.day(func() {
					letters, runs := len(b.deadLetters()), b.usage().Runs.Entries
					if letters < test.low || letters > test.high || int(runs) < test.low || int(runs) > test.high+1 {
						t.Errorf("%d dead letters and %d runs are left, want %d to %d", letters, runs, test.low, test.high)
					}
					b.wantRun(lives)
				})
				if told := strings.Contains(b.log.String(), "retention.trimmed_by_size"); told != (test.days < 20) {
					t.Errorf("the server tells of it: %v", told)
				}
			})
		})
	}
}

// run begins a run, and ends it unless it is to go on.
func (b *bounded) run(state posthaste.RunState) posthaste.Position {
	b.t.Helper()
	body := make([]byte, 16<<10)
	_, _ = b.random.Read(body) // never fails, by its contract
	run := posthaste.Run{RunRef: posthaste.RunRef{ID: fmt.Sprint("run-", b.random.Uint64()), URL: urlOK}, User: user}
	err := b.store.Transact(b.t.Context(), time.Now(), user, func(tx store.RunTx) error {
		run.State, run.Position = posthaste.RunStarted, tx.NextPosition(run.Slot())
		run.CreatedAt = run.Position.Time()
		tx.Start(&run)
		if err := tx.Append(&run, posthaste.RunEntry{CallType: posthaste.CallStep, Body: body}, nil); err != nil {
			return err
		}
		if run.State = state; !run.Active() {
			run.CompletedAt = tx.Now()
		}
		tx.Save(&run)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return run.Position
}

// wantRun wants a run to be there.
func (b *bounded) wantRun(at posthaste.Position) {
	b.t.Helper()
	page, err := b.store.Runs(b.t.Context(), user, store.RunQuery{Low: at, High: at, Limit: 1})
	if err != nil || len(page.Runs) != 1 {
		b.t.Errorf("the run that goes on: %d of them, %v", len(page.Runs), err)
	}
}
