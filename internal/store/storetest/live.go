package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var livePromises = []promise{
	{"what has not ended is found", func(tr *trial) {
		delivered, failed, retrying, claimed := tr.accept(), tr.accept(), tr.accept(), tr.accept()
		claims := tr.claimThese(delivered, failed, retrying, claimed)
		tr.settle(store.Delivered(claims[0]))
		tr.settle(store.Failed(claims[1], refused))
		tr.settle(store.RetryAt(claims[2], tr.now.Add(time.Hour), refused))
		requested := tr.accept()
		tr.claimThese(requested)
		tr.wantCancels(1, requested)
		waits, later, cancelled := tr.accept(), tr.accept(delayed(time.Hour)), tr.accept()
		tr.wantCancels(1, cancelled)
		tr.accept(ownedBy(anna))
		tr.wantLive(store.LiveQuery{Limit: plenty}, retrying, claimed, waits, later)
	}},
	{"creation times include both ends", func(tr *trial) {
		var messages []*posthaste.Message
		for range 5 {
			messages = append(messages, tr.accept())
			tr.wait(6 * time.Hour)
		}
		from, until := messages[1].CreatedAt, messages[3].CreatedAt
		tr.wantLive(store.LiveQuery{CreatedFrom: from, CreatedUntil: until, Limit: plenty}, messages[1:4]...)
		tr.wantLive(store.LiveQuery{CreatedFrom: from, Limit: plenty}, messages[1:]...)
		tr.wantLive(store.LiveQuery{CreatedUntil: until, Limit: plenty}, messages[:4]...)
		tr.wantLive(store.LiveQuery{CreatedFrom: from.Add(1 * time.Millisecond), CreatedUntil: from.Add(time.Hour), Limit: plenty})
	}},
	{"every filter finds what matches", func(tr *trial) {
		rng := rand.New(rand.NewPCG(7, 8))
		messages := tr.acceptMany(60, variety(rng))
		tr.acceptMany(20, variety(rng), ownedBy(anna))
		for range 200 {
			query := store.LiveQuery{Limit: 1 + rng.IntN(30)}
			for range rng.IntN(4) {
				messageFields[rng.IntN(len(messageFields))].ask(&query.Filter, messages[rng.IntN(len(messages))])
			}
			if len(query.Filter.MessageIDs) > 0 {
				query.Filter.MessageIDs = []posthaste.MessageID{messages[rng.IntN(len(messages))].ID, {1}}
			}
			var want []*posthaste.Message
			for _, m := range messages {
				if query.Matches(m) {
					want = append(want, m)
				}
			}
			tr.wantLive(query, want...)
		}
	}},
	{"a cursor of all messages goes on among those of a queue", func(tr *trial) {
		for range 2 {
			tr.accept()
			tr.wait(time.Second)
		}
		queued := tr.accept(through("q"))
		_, cursor, err := tr.store.LiveMessages(tr.Context(), ann, store.LiveQuery{Limit: 1})
		if err != nil {
			tr.Fatal(err)
		}
		tr.wantLive(store.LiveQuery{Filter: posthaste.Filter{Queues: []string{"q"}}, Limit: 1, Cursor: cursor}, queued)
	}},
	{"a few messages are in one page, wherever they are", func(tr *trial) { // so that they can be changed in one commit
		for i := range 12 {
			tr.accept(through(fmt.Sprint("q", i)))
		}
		ids, cursor, err := tr.store.LiveMessages(tr.Context(), ann, store.LiveQuery{Limit: plenty})
		if err != nil || len(ids) != 12 || cursor != "" {
			tr.Errorf("LiveMessages = %d messages, %q, %v, want all 12 and no cursor", len(ids), cursor, err)
		}
	}},
	{"messages that end while a reader pages do not disturb it", func(tr *trial) {
		messages := tr.acceptMany(30, delayed(time.Hour))
		seen := map[posthaste.MessageID]int{}
		query := store.LiveQuery{Limit: 4}
		for range 1000 {
			ids, cursor, err := tr.store.LiveMessages(tr.Context(), ann, query)
			if err != nil {
				tr.Fatal(err)
			}
			for _, id := range ids {
				seen[id]++
			}
			tr.ok(errorOf(tr.store.Cancel(tr.Context(), tr.now, ann, ids, nil)))
			if query.Cursor = cursor; cursor == "" {
				break
			}
		}
		for _, m := range messages {
			if seen[m.ID] != 1 {
				tr.Errorf("message %s was seen %d times, want once", m.ID, seen[m.ID])
			}
		}
	}},
}

// wantLive requires a query to find these messages of ann, each once, in any order.
func (tr *trial) wantLive(query store.LiveQuery, want ...*posthaste.Message) {
	tr.Helper()
	wantLive(tr, tr.store, query, want)
}

func wantLive(t testing.TB, s interface {
	LiveMessages(ctx context.Context, user string, query store.LiveQuery) (ids []posthaste.MessageID, cursor string, err error)
}, query store.LiveQuery, want []*posthaste.Message,
) {
	t.Helper()
	var got, wanted []string
	for range 10_000 {
		ids, cursor, err := s.LiveMessages(t.Context(), ann, query)
		if err != nil || len(ids) > query.Limit {
			t.Fatalf("LiveMessages = %d ids, %v, at most %d were asked for", len(ids), err, query.Limit)
		}
		for _, id := range ids {
			got = append(got, id.String())
		}
		if query.Cursor = cursor; cursor == "" {
			break
		}
	}
	for _, m := range want {
		wanted = append(wanted, m.ID.String())
	}
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Errorf("live messages for %+v: %v, want %v", query, got, wanted)
	}
}
