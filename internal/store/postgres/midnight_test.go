package postgres_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

// The day changes while two nodes work and a follower reads. Nothing is lost, twice in the log or out of
// order there, the follower sees what is there, and the day before can go.
func TestMidnightUnderLoad(t *testing.T) {
	const day, clients, rounds = 24 * time.Hour, 4, 25
	url := emptyDatabase(t)
	nodes := []*ruled{open(t, url), open(t, url)}
	midnight := start.Truncate(day).Add(day)
	var steps atomic.Int64
	work := work{delivered: map[posthaste.MessageID]int{}, now: func() time.Time { // midnight is half-way
		return midnight.Add(time.Duration(steps.Add(1)-clients*rounds*3/2) * 2 * time.Millisecond)
	}}

	var working, following sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	var followed []posthaste.Position
	following.Go(func() { followed = followLog(ctx, t, nodes[0]) })
	for client := range clients {
		working.Go(func() {
			for range rounds {
				if err := acceptOne(t.Context(), nodes[client%len(nodes)], newMessage(work.now())); err != nil {
					t.Error(err)
				}
				work.deliver(t, nodes[client%len(nodes)])
			}
		})
	}
	working.Wait()
	for deadline := time.Now().Add(time.Minute); len(work.delivered) < clients*rounds && time.Now().Before(deadline); {
		work.deliver(t, nodes[0])
		work.deliver(t, nodes[1])
	}
	stop()
	following.Wait()

	if len(work.delivered) != clients*rounds {
		t.Errorf("%d messages were delivered, want %d", len(work.delivered), clients*rounds)
	}
	for id, times := range work.delivered {
		if times != 1 {
			t.Errorf("%s was delivered %d times", id, times)
		}
	}
	logged, ends := wholeLog(t, nodes[1])
	if ends != clients*rounds {
		t.Errorf("%d messages end in the log, want %d", ends, clients*rounds)
	}
	if !slices.IsSorted(logged) || !slices.Equal(followed, logged) {
		t.Errorf("the follower saw %d entries, want the %d of the log, in order", len(followed), len(logged))
	}
	before := len(logged) - len(from(midnight, logged))
	if before == 0 || before == len(logged) {
		t.Errorf("%d of %d entries are of the day before", before, len(logged))
	}
	if days, err := nodes[0].DropDays(t.Context(), ann, midnight); err != nil || days != 1 {
		t.Errorf("dropped %d days, %v", days, err)
	}
	if left, _ := wholeLog(t, nodes[1]); !slices.Equal(left, from(midnight, logged)) {
		t.Errorf("%d entries are left, want the %d from midnight on", len(left), len(logged)-before)
	}
	if report, err := postgres.Check(t.Context(), url); err != nil || len(report.Problems) > 0 {
		t.Errorf("problems %q, %v", report.Problems, err)
	}
}

// work is what several nodes deliver.
type work struct {
	now       func() time.Time
	mu        sync.Mutex
	delivered map[posthaste.MessageID]int // how often
}

// deliver delivers some of what is due.
func (w *work) deliver(t *testing.T, s *ruled) {
	claims, _, err := s.Claim(t.Context(), w.now(), 10)
	if err != nil {
		t.Error(err)
	}
	for _, claim := range claims {
		if _, err := s.Settle(t.Context(), w.now(), store.Delivered(claim)); err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		w.delivered[claim.Message.ID]++
		w.mu.Unlock()
	}
}

// wholeLog returns the positions of ann's log, and how many of its entries say that a message was delivered.
func wholeLog(t *testing.T, s *ruled) (positions []posthaste.Position, delivered int) {
	t.Helper()
	page, err := store.ReadEvents(t.Context(), s, ann, store.EventQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: 10000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		positions = append(positions, e.Position)
		if e.State == posthaste.StateDelivered {
			delivered++
		}
	}
	return positions, delivered
}

// from returns those of sorted positions that are of a time or later.
func from(when time.Time, sorted []posthaste.Position) []posthaste.Position {
	i := slices.IndexFunc(sorted, func(p posthaste.Position) bool { return !p.Time().Before(when) })
	if i < 0 {
		return nil
	}
	return sorted[i:]
}

// followLog returns the positions of a log's entries as they come, until some time after ctx has ended.
func followLog(ctx context.Context, t *testing.T, s *ruled) (seen []posthaste.Position) {
	for next := posthaste.Position(0); ; {
		ended := ctx.Err() != nil
		end, grown, err := s.Watch(t.Context(), ann)
		if err != nil {
			t.Error(err)
			return seen
		}
		page, err := store.ReadEvents(t.Context(), s, ann, store.EventQuery{Low: next, High: end, OldestFirst: true, Limit: 1000})
		if err != nil {
			t.Error(err)
			return seen
		}
		for _, e := range page.Entries {
			seen = append(seen, e.Position)
			next = e.Position + 1
		}
		if ended {
			return seen
		}
		select {
		case <-grown:
		case <-ctx.Done():
		}
	}
}
