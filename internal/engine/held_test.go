package engine_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// leasing is a store whose claims last as long as it is told.
type leasing struct {
	store.Store
	leaseContext []context.Context // of the claims, one after the other
}

func (l *leasing) Claim(ctx context.Context, now time.Time, limit int) ([]store.Claim, time.Time, error) {
	claims, next, err := l.Store.Claim(ctx, now, limit)
	for i := range claims {
		claims[i].Held, l.leaseContext = l.leaseContext[0], l.leaseContext[1:]
	}
	return claims, next, err
}

// An attempt ends when its message may be somebody else's, and does not begin after that.
func TestAttemptsEndWithTheirClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := ledger.Over(lsm.Open("data", lsm.Options{FS: vfs.NewMem()}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		start := time.Now()
		var begun, ended []time.Duration
		hangs := destinations{func(ctx context.Context, _ *posthaste.Message, _ int) posthaste.Outcome {
			begun = append(begun, time.Since(start))
			select {
			case <-ctx.Done():
				ended = append(ended, time.Since(start))
			case <-time.After(time.Minute):
			}
			return ok
		}}
		lapses, lapse := context.WithCancel(t.Context())
		lapsed, cancel := context.WithCancel(t.Context())
		cancel()
		leases := &leasing{s, []context.Context{lapses, lapsed, t.Context()}}
		w := &world{Engine: engine.New(engine.Options{Store: leases, Dispatcher: hangs}), t: t, store: s, start: start}
		w.Start()
		defer w.Stop(t.Context())
		id := w.publish(engine.Publication{})
		w.pass(10 * time.Second)
		lapse()
		w.pass(2 * time.Minute)
		if want := []time.Duration{0, 10 * time.Second}; !slices.Equal(begun, want) {
			t.Errorf("attempts begin at %v, want %v", begun, want)
		}
		if want := []time.Duration{10 * time.Second}; !slices.Equal(ended, want) {
			t.Errorf("attempts are ended at %v, want %v", ended, want)
		}
		w.wantLog(id, "0s CREATED", "0s ACTIVE", "10s ACTIVE", "10s ACTIVE", "1m10s DELIVERED")
	})
}
