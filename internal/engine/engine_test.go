package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/store/storetest"
)

const user = "ann"

var (
	ok       = posthaste.Outcome{Class: posthaste.OutcomeDelivered}
	broken   = posthaste.Outcome{Error: "500 Internal Server Error", Response: &posthaste.Response{Status: 500}}
	refusing = posthaste.Outcome{Class: posthaste.OutcomePermanent, Error: "489", Response: &posthaste.Response{Status: 489}}
)

// destinations is a Dispatcher whose destinations answer as they are told.
type destinations struct {
	attempt func(ctx context.Context, m *posthaste.Message, retried int) posthaste.Outcome
}

func (d destinations) Attempt(ctx context.Context, m *posthaste.Message, retried int) posthaste.Outcome {
	return d.attempt(ctx, m, retried)
}

// answers makes destinations that give these outcomes to the attempts of a
// message, the last one again and again, each after 10 ms.
func answers(outcomes ...posthaste.Outcome) destinations {
	return destinations{func(_ context.Context, _ *posthaste.Message, retried int) posthaste.Outcome {
		time.Sleep(10 * time.Millisecond)
		return outcomes[min(retried, len(outcomes)-1)]
	}}
}

// world is an engine on an embedded store in memory, on virtual time.
type world struct {
	*engine.Engine
	t     *testing.T
	store store.Store
	start time.Time
	ids   []posthaste.MessageID
}

// sequential skips a test under the race detector (make test), in which nothing new happens at the same time.
func sequential(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it is run without the race detector")
	}
}

// inWorld runs a scenario in a synctest bubble and audits what it left.
func inWorld(t *testing.T, d engine.Dispatcher, options engine.Options, scenario func(w *world)) {
	t.Helper()
	inWorldOn(t, func(s store.Store) store.Store { return s }, d, options, scenario)
}

// inWorldOn is inWorld for an engine that sees another store in front of its own.
func inWorldOn(t *testing.T, front func(store.Store) store.Store, d engine.Dispatcher, options engine.Options, scenario func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := ledger.Over(lsm.Open("data", lsm.Options{FS: vfs.NewMem()}))
		if err != nil {
			t.Fatal(err)
		}
		options.Store, options.Dispatcher = front(s), d
		w := &world{Engine: engine.New(options), t: t, store: s, start: time.Now()}
		w.Start()
		scenario(w)
		w.Stop(t.Context())
		storetest.Audit(t, s, user, w.ids)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// pass lets time go by, until everything that is to happen has happened.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) publish(p engine.Publication) posthaste.MessageID {
	w.t.Helper()
	if p.Destination == "" {
		p.Destination = "http://a.example/x"
	}
	receipts, err := w.Publish(w.t.Context(), user, p)
	if err != nil {
		w.t.Fatal(err)
	}
	w.ids = append(w.ids, receipts[0].MessageID)
	return receipts[0].MessageID
}

// log returns the log of a message: times since the start and states.
func (w *world) log(id posthaste.MessageID) []string {
	w.t.Helper()
	page, err := store.ReadEvents(w.t.Context(), w.store, user, store.EventQuery{
		Filter:      posthaste.Filter{MessageIDs: []posthaste.MessageID{id}},
		High:        posthaste.MaxPosition,
		OldestFirst: true,
		Limit:       1000,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	var lines []string
	for _, e := range page.Entries {
		line := fmt.Sprintf("%s %s", e.Position.Time().Sub(w.start), e.State)
		if !e.NextDeliveryAt.IsZero() {
			line += " next " + e.NextDeliveryAt.Sub(w.start).String()
		}
		if e.Response != nil {
			line += fmt.Sprint(" status ", e.Response.Status)
		}
		lines = append(lines, line)
	}
	return lines
}

func (w *world) wantLog(id posthaste.MessageID, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.log(id)); diff != "" {
		w.t.Errorf("log of %s (-want +got):\n%s", id, diff)
	}
}

// deadLetters returns all there are, the oldest first.
func (w *world) deadLetters() []*posthaste.DeadLetter {
	w.t.Helper()
	query := store.DeadLetterQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: 1000}
	page, err := w.DeadLetters(w.t.Context(), user, query)
	if err != nil {
		w.t.Fatal(err)
	}
	return page.DeadLetters
}

func retries(n int) posthaste.Settings { return posthaste.Settings{Retries: &n} }

// Contract, messages 2.10.
func TestDelivered(t *testing.T) {
	inWorld(t, answers(ok), engine.Options{}, func(w *world) {
		id := w.publish(engine.Publication{})
		w.pass(time.Second)
		w.wantLog(id, "0s CREATED", "0s ACTIVE", "10ms DELIVERED")
	})
}

// Contract, messages 1.3 and U-46.
func TestDelayed(t *testing.T) {
	inWorld(t, answers(ok), engine.Options{}, func(w *world) {
		relative := w.publish(engine.Publication{Delay: time.Hour})
		absolute := w.publish(engine.Publication{Delay: time.Hour, NotBefore: w.start.Add(time.Minute)})
		past := w.publish(engine.Publication{NotBefore: w.start.Add(-time.Minute)})
		w.pass(2 * time.Hour)
		w.wantLog(relative, "0s CREATED next 1h0m0s", "1h0m0s ACTIVE", "1h0m0.01s DELIVERED")
		w.wantLog(absolute, "0s CREATED next 1m0s", "1m0s ACTIVE", "1m0.01s DELIVERED")
		w.wantLog(past, "0s CREATED", "0s ACTIVE", "10ms DELIVERED")
	})
}

// Contract, messages 3 and U-46.
func TestRetriedWithDefaultBackoff(t *testing.T) {
	inWorld(t, answers(broken, broken, ok), engine.Options{}, func(w *world) {
		id := w.publish(engine.Publication{})
		w.pass(time.Hour)
		w.wantLog(id,
			"0s CREATED",
			"0s ACTIVE", "10ms ERROR next 12.192s status 500", "10ms RETRY next 12.192s",
			"12.192s ACTIVE", "12.202s ERROR next 2m40.615s status 500", "12.202s RETRY next 2m40.615s",
			"2m40.615s ACTIVE", "2m40.625s DELIVERED")
	})
}

// TestRetryDelayIsEvaluatedEachTime checks that an expression sees how often the
// message was retried before (contract, messages 1.4 and 3).
func TestRetryDelayIsEvaluatedEachTime(t *testing.T) {
	inWorld(t, answers(broken, broken, broken, ok), engine.Options{}, func(w *world) {
		id := w.publish(engine.Publication{Settings: posthaste.Settings{RetryDelay: "1000 * (1 + retried)"}})
		w.pass(time.Minute)
		w.wantLog(id,
			"0s CREATED",
			"0s ACTIVE", "10ms ERROR next 1.01s status 500", "10ms RETRY next 1.01s",
			"1.01s ACTIVE", "1.02s ERROR next 3.02s status 500", "1.02s RETRY next 3.02s",
			"3.02s ACTIVE", "3.03s ERROR next 6.03s status 500", "3.03s RETRY next 6.03s",
			"6.03s ACTIVE", "6.04s DELIVERED")
	})
}

// Contract, messages 2.10.
func TestFailed(t *testing.T) {
	t.Run("no retries", func(t *testing.T) {
		inWorld(t, answers(broken), engine.Options{}, func(w *world) {
			id := w.publish(engine.Publication{Settings: retries(0)})
			w.pass(time.Second)
			w.wantLog(id, "0s CREATED", "0s ACTIVE", "10ms ERROR status 500", "10ms FAILED")
		})
	})
	t.Run("retries spent", func(t *testing.T) {
		inWorld(t, answers(broken), engine.Options{}, func(w *world) {
			settings := retries(1)
			settings.RetryDelay = "2000"
			id := w.publish(engine.Publication{Settings: settings})
			w.pass(time.Minute)
			w.wantLog(id, "0s CREATED",
				"0s ACTIVE", "10ms ERROR next 2.01s status 500", "10ms RETRY next 2.01s",
				"2.01s ACTIVE", "2.02s ERROR status 500", "2.02s FAILED")
		})
	})
	t.Run("not retryable", func(t *testing.T) {
		inWorld(t, answers(refusing), engine.Options{}, func(w *world) {
			id := w.publish(engine.Publication{})
			w.pass(time.Hour)
			w.wantLog(id, "0s CREATED", "0s ACTIVE", "10ms ERROR status 489", "10ms FAILED")
		})
	})
}

// Contract, U-78 and decision 20.
func TestCancel(t *testing.T) {
	t.Run("delayed", func(t *testing.T) {
		inWorld(t, answers(ok), engine.Options{}, func(w *world) {
			id := w.publish(engine.Publication{Delay: time.Hour})
			w.pass(time.Second)
			w.wantCancelled(1, id)
			w.wantCancelled(0, id)
			w.pass(2 * time.Hour)
			w.wantLog(id, "0s CREATED next 1h0m0s", "1s CANCEL_REQUESTED", "1s CANCELLED")
		})
	})
	t.Run("waiting for a retry", func(t *testing.T) {
		inWorld(t, answers(broken), engine.Options{}, func(w *world) {
			id := w.publish(engine.Publication{})
			w.pass(time.Second)
			w.wantCancelled(1, id)
			w.pass(time.Hour)
			w.wantLog(id, "0s CREATED", "0s ACTIVE", "10ms ERROR next 12.192s status 500", "10ms RETRY next 12.192s",
				"1s CANCEL_REQUESTED", "1s CANCELLED")
		})
	})
	for name, c := range map[string]struct {
		outcome  posthaste.Outcome
		settings posthaste.Settings
		end      []string
	}{
		"in flight, then delivered":   {ok, posthaste.Settings{}, []string{"10ms DELIVERED"}},
		"in flight, then failed":      {broken, posthaste.Settings{}, []string{"10ms ERROR status 500", "10ms CANCELLED"}},
		"last attempt, delivered":     {ok, retries(0), []string{"10ms DELIVERED"}},
		"last attempt, failed":        {broken, retries(0), []string{"10ms ERROR status 500", "10ms CANCELLED"}},
		"last attempt, not retryable": {refusing, posthaste.Settings{}, []string{"10ms ERROR status 489", "10ms CANCELLED"}},
	} {
		t.Run(name, func(t *testing.T) {
			observer := reports{finished: make(chan engine.AttemptReport, 1)}
			inWorld(t, answers(c.outcome), engine.Options{Observer: observer}, func(w *world) {
				id := w.publish(engine.Publication{Settings: c.settings})
				w.pass(5 * time.Millisecond)
				w.wantCancelled(1, id)
				w.pass(time.Hour)
				w.wantLog(id, append([]string{"0s CREATED", "0s ACTIVE", "5ms CANCEL_REQUESTED"}, c.end...)...)
				report := <-observer.finished
				if got, want := "10ms "+string(report.State), c.end[len(c.end)-1]; got != want || report.FailedForGood() || !report.NextAt.IsZero() {
					t.Errorf("reported as %q, failed for good: %v, next %v, want %q", got, report.FailedForGood(), report.NextAt, want)
				}
				if letters := w.deadLetters(); len(letters) != 0 {
					t.Errorf("dead letters %v of a message that was cancelled", letters)
				}
			})
		})
	}
	t.Run("ended or unknown", func(t *testing.T) {
		inWorld(t, answers(ok), engine.Options{}, func(w *world) {
			id := w.publish(engine.Publication{})
			w.pass(time.Second)
			w.wantCancelled(0, id)
			w.wantCancelled(0, posthaste.MessageID{1})
		})
	})
}

func (w *world) wantCancelled(want int, ids ...posthaste.MessageID) {
	w.t.Helper()
	if got, err := w.Cancel(w.t.Context(), user, ids); got != want || err != nil {
		w.t.Errorf("Cancel(%v) = %d, %v, want %d", ids, got, err, want)
	}
}

// Contract, messages 9 and U-82.
func TestLimits(t *testing.T) {
	options := engine.Options{Limits: engine.Limits{Retries: 5, Delay: time.Hour, Timeout: time.Minute}}
	inWorld(t, answers(ok), options, func(w *world) {
		for name, p := range map[string]engine.Publication{
			"retries":    {Settings: retries(6)},
			"delay":      {Delay: 2 * time.Hour},
			"not before": {NotBefore: w.start.Add(2 * time.Hour)},
			"timeout":    {Settings: posthaste.Settings{Timeout: time.Minute + 1}},
		} {
			p.Destination = "http://a.example"
			if _, err := w.Publish(w.t.Context(), user, p); posthaste.ErrorCode(err) != posthaste.CodeLimit {
				t.Errorf("%s over the limit: %v, want code limit", name, err)
			}
		}
		w.publish(engine.Publication{Delay: time.Hour, Settings: retries(5)})
	})
}

// TestDefaultRetriesKeepToTheLimit checks that the limit is for what was given, and that
// nothing is retried more often than it allows.
func TestDefaultRetriesKeepToTheLimit(t *testing.T) {
	sequential(t)
	inWorld(t, answers(broken), engine.Options{Limits: engine.Limits{Retries: 2}}, func(w *world) {
		w.publish(engine.Publication{})
		w.pass(24 * time.Hour)
		letters := w.deadLetters()
		if len(letters) != 1 || letters[0].Message.MaxRetries() != 2 {
			t.Errorf("dead letters %+v, want that of a message with 2 retries", letters)
		}
		schedule := posthaste.Schedule{User: user, ID: "s", Cron: "0 0 1 1 *", Destination: "http://a.example/"}
		if _, err := w.PutSchedule(w.t.Context(), schedule); err != nil {
			t.Fatal(err)
		}
		if shown, err := w.Schedule(w.t.Context(), user, "s"); err != nil || shown.MaxRetries() != 2 {
			t.Errorf("the schedule is shown with %d retries, %v, want 2", shown.MaxRetries(), err)
		}
	})
}

// TestCallbackLimits checks that a callback may ask for no more than a message.
func TestCallbackLimits(t *testing.T) {
	options := engine.Options{Limits: engine.Limits{Retries: 5, Delay: time.Hour, Timeout: time.Minute}}
	inWorld(t, answers(ok), options, func(w *world) {
		for name, callback := range map[string]posthaste.Callback{
			"retries": {Settings: retries(6)},
			"delay":   {Delay: 2 * time.Hour},
			"timeout": {Settings: posthaste.Settings{Timeout: time.Minute + 1}},
		} {
			callback.URL = "http://c.example"
			for part, settings := range map[string]posthaste.Settings{
				"callback":         {Callback: &callback},
				"failure callback": {FailureCallback: &callback},
			} {
				_, err := w.Publish(w.t.Context(), user, engine.Publication{Destination: "http://a.example", Settings: settings})
				if posthaste.ErrorCode(err) != posthaste.CodeLimit || !strings.HasPrefix(err.Error(), part+" "+name) {
					t.Errorf("%s over the limit: %v, want code limit and that the %s is named", name, err, part)
				}
			}
		}
	})
}

// TestQueueLimit checks that a queue too many is refused whoever would make it, and
// that those that are there stay in use (contract, messages 2.6 and 9).
func TestQueueLimit(t *testing.T) {
	inWorld(t, answers(ok), engine.Options{Limits: engine.Limits{Queues: 1}}, func(w *world) {
		w.publish(engine.Publication{Queue: "first"})
		w.publish(engine.Publication{Queue: "first"})
		w.publish(engine.Publication{})
		another := engine.Publication{Destination: "http://a.example", Queue: "second"}
		if _, err := w.Publish(w.t.Context(), user, another); posthaste.ErrorCode(err) != posthaste.CodeLimit {
			t.Errorf("a message for a queue too many: %v, want code limit", err)
		}
		if err := w.PutQueue(w.t.Context(), user, "second", engine.QueueChange{}); posthaste.ErrorCode(err) != posthaste.CodeLimit {
			t.Errorf("a queue too many: %v, want code limit", err)
		}
	})
}

// uncounted is a store that fails to count what waits in queues.
type uncounted struct{ store.Store }

func (uncounted) Queue(context.Context, string, string) (store.QueueStatus, error) {
	return store.QueueStatus{}, errors.New("the backlog was counted")
}

func (s uncounted) Queues(ctx context.Context, user, after string) (store.List[store.QueueStatus], error) {
	status, err := s.Queue(ctx, user, after)
	return store.List[store.QueueStatus]{Items: []store.QueueStatus{status}}, err
}

// The limit of queues costs no more the longer they are.
func TestQueueLimitReadsNoBacklog(t *testing.T) {
	front := func(s store.Store) store.Store { return uncounted{s} }
	inWorldOn(t, front, answers(ok), engine.Options{Limits: engine.Limits{Queues: 1}}, func(w *world) {
		w.publish(engine.Publication{Queue: "first"})
		w.publish(engine.Publication{Queue: "first"})
		if err := w.PutQueue(w.t.Context(), user, "first", engine.QueueChange{Parallelism: 2}); err != nil {
			t.Error(err)
		}
		if err := w.PutQueue(w.t.Context(), user, "second", engine.QueueChange{}); posthaste.ErrorCode(err) != posthaste.CodeLimit {
			t.Errorf("a queue too many: %v, want code limit", err)
		}
	})
}

// Contract, U-64.
func TestConcurrencyBoundsAttempts(t *testing.T) {
	var mu sync.Mutex
	inFlight, most := 0, 0
	slow := destinations{func(context.Context, *posthaste.Message, int) posthaste.Outcome {
		mu.Lock()
		inFlight++
		most = max(most, inFlight)
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		inFlight--
		mu.Unlock()
		return ok
	}}
	inWorld(t, slow, engine.Options{Concurrency: 8}, func(w *world) {
		for i := range 64 {
			w.publish(engine.Publication{Destination: fmt.Sprintf("http://host-%d.example/", i)})
		}
		for i := range 8 { // of those who leave nothing to one user alone
			if _, err := w.Publish(w.t.Context(), fmt.Sprintf("user-%d", i), engine.Publication{Destination: "http://other.example/"}); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(time.Minute)
		if most != 8 {
			t.Errorf("%d attempts were in flight at once, want 8", most)
		}
		for _, id := range w.ids {
			if status, err := w.Message(w.t.Context(), user, id); err != nil || status.State != posthaste.StateDelivered {
				t.Errorf("message %s is %s, %v", id, status.State, err)
			}
		}
	})
}

func TestHangingDestinationsLeaveRoom(t *testing.T) {
	d := destinations{func(ctx context.Context, m *posthaste.Message, _ int) posthaste.Outcome {
		if m.URL != "http://healthy.example/" {
			<-ctx.Done()
		}
		return ok
	}}
	inWorld(t, d, engine.Options{Concurrency: 512}, func(w *world) {
		for host := range 30 {
			for range 100 {
				w.publish(engine.Publication{Destination: fmt.Sprintf("http://hangs-%d.example/", host)})
			}
		}
		w.pass(time.Second)
		healthy := w.publish(engine.Publication{Destination: "http://healthy.example/"})
		w.pass(time.Millisecond)
		w.wantLog(healthy, "1s CREATED", "1s ACTIVE", "1s DELIVERED")
		abandoned, cancel := context.WithCancel(w.t.Context())
		cancel()
		w.Stop(abandoned)
	})
}

func TestStopReleasesWhatIsInFlight(t *testing.T) {
	hangs := destinations{func(ctx context.Context, _ *posthaste.Message, _ int) posthaste.Outcome {
		<-ctx.Done()
		return broken
	}}
	inWorld(t, hangs, engine.Options{}, func(w *world) {
		id := w.publish(engine.Publication{})
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
		defer cancel()
		w.Stop(ctx)
		if waited := time.Since(w.start); waited != 11*time.Second {
			t.Errorf("Stop gave up after %s, want 10s", waited-time.Second)
		}
		w.wantLog(id, "0s CREATED", "0s ACTIVE")
		next := engine.New(engine.Options{Store: w.store, Dispatcher: answers(ok)})
		next.Start()
		w.pass(time.Second)
		next.Stop(w.t.Context())
		w.wantLog(id, "0s CREATED", "0s ACTIVE", "11s ACTIVE", "11.01s DELIVERED")
	})
}

// TestStopWaitsForAClaim checks that no message is attempted, or left leased,
// without a word in the log because its claim was cut short.
func TestStopWaitsForAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := ledger.Over(lsm.Open("data", lsm.Options{FS: vfs.NewMem()}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = inner.Close() }()
		w := &world{t: t, store: inner, start: time.Now()}
		w.Engine = engine.New(engine.Options{Store: slowToClaim{inner}, Dispatcher: answers(ok)})
		w.Start()
		id := w.publish(engine.Publication{})
		time.Sleep(500 * time.Millisecond)
		w.Stop(t.Context())
		w.wantLog(id, "0s CREATED", "0s ACTIVE", "1.01s DELIVERED")
	})
}

// slowToClaim takes a second to hand out messages, if it is given so long.
type slowToClaim struct{ store.Store }

func (s slowToClaim) Claim(ctx context.Context, now time.Time, limit int) ([]store.Claim, time.Time, error) {
	select {
	case <-time.After(time.Second):
		return s.Store.Claim(ctx, now, limit)
	case <-ctx.Done():
		return nil, time.Time{}, ctx.Err()
	}
}

func TestSettleIsTriedAgainWhileTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := ledger.Over(lsm.Open("data", lsm.Options{FS: vfs.NewMem()}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = inner.Close() }()
		s := &stubborn{Store: inner, refusals: 3}
		e := engine.New(engine.Options{Store: s, Dispatcher: answers(ok)})
		e.Start()
		receipts, err := e.Publish(t.Context(), user, engine.Publication{Destination: "http://a.example"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		e.Stop(t.Context())
		status, err := e.Message(t.Context(), user, receipts[0].MessageID)
		if err != nil || status.State != posthaste.StateDelivered || s.refusals != 0 {
			t.Errorf("state %s, %v, %d refusals left; want DELIVERED", status.State, err, s.refusals)
		}
	})
}

// stubborn refuses some settlements before it takes one.
type stubborn struct {
	store.Store
	refusals int
}

func (s *stubborn) Settle(ctx context.Context, now time.Time, settlement store.Settlement) (store.Settlement, error) {
	if s.refusals > 0 {
		s.refusals--
		return store.Settlement{}, errors.New("no")
	}
	return s.Store.Settle(ctx, now, settlement)
}

func TestHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := ledger.Over(lsm.Open("data", lsm.Options{FS: vfs.NewMem()}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		e := engine.New(engine.Options{Store: s, Dispatcher: answers(ok)})
		e.Start()
		time.Sleep(time.Hour)
		if err := e.Healthy(); err != nil {
			t.Errorf("idle engine: %v", err)
		}
		e.Stop(t.Context())
		time.Sleep(time.Hour)
		if err := e.Healthy(); !errors.Is(err, engine.ErrStalled) {
			t.Errorf("stopped engine: %v, want ErrStalled", err)
		}
	})
}
