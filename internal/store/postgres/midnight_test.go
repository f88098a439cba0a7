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
	now := func() time.Time { // the clock of all; midnight is half-way
		return midnight.Add(time.Duration(steps.Add(1)-clients*rounds*3/2) * 2 * time.Millisecond)
	}

	var mu sync.Mutex
	delivered := map[posthaste.MessageID]int{}
	var working, following sync.WaitGroup
	for client := range clients {
		s := nodes[client%len(nodes)]
		working.Go(func() {
			for range rounds {
				if err := acceptOne(t.Context(), s, newMessage(now())); err != nil {
					t.Error(err)
				}
				claims, _, err := s.Claim(t.Context(), now(), 10)
				if err != nil {
					t.Error(err)
				}
				for _, claim := range claims {
					if _, err := s.Settle(t.Context(), now(), store.Delivered(claim)); err != nil {
						t.Error(err)
					}
					mu.Lock()
					delivered[claim.Message.ID]++
					mu.Unlock()
				}
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	var followed []posthaste.Position
	following.Go(func() { followed = followLog(ctx, t, nodes[0]) })
	working.Wait()
	last := midnight.Add(time.Hour)
	for claims, _, err := nodes[1].Claim(t.Context(), last, 100); err != nil || len(claims) > 0; claims, _, err = nodes[1].Claim(t.Context(), last, 100) {
		if err != nil {
			t.Fatal(err)
		}
		for _, claim := range claims {
			settle(t, nodes[1], store.Delivered(claim))
			delivered[claim.Message.ID]++
		}
	}
	stop()
	following.Wait()

	page, err := store.ReadEvents(t.Context(), nodes[1], ann, store.EventQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: 10 * clients * rounds})
	if err != nil {
		t.Fatal(err)
	}
	logged := make([]posthaste.Position, len(page.Entries))
	ends, before := 0, 0
	for i, e := range page.Entries {
		logged[i] = e.Position
		if e.State == posthaste.StateDelivered {
			ends++
		}
		if e.Position.Time().Before(midnight) {
			before++
		}
	}
	if len(delivered) != clients*rounds || ends != clients*rounds {
		t.Errorf("%d messages were delivered and %d say so in the log, want %d", len(delivered), ends, clients*rounds)
	}
	for id, times := range delivered {
		if times != 1 {
			t.Errorf("%s was delivered %d times", id, times)
		}
	}
	if !slices.IsSorted(logged) || before == 0 || before == len(logged) {
		t.Errorf("the log has %d entries, sorted %t, %d of the day before", len(logged), slices.IsSorted(logged), before)
	}
	if !slices.Equal(followed, logged) {
		t.Errorf("the follower saw %d entries, want the %d of the log, in order", len(followed), len(logged))
	}
	if report, err := postgres.Check(t.Context(), url); err != nil || len(report.Problems) > 0 {
		t.Errorf("problems %q, %v", report.Problems, err)
	}
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
