// Package partition divides what belongs to a user into partitions, each of which is a user to the
// backend below. It implements store.Backend: a change is made in the partitions that it turns out to
// need, in one commit; what is read of all of a user is merged.
package partition

import (
	"context"
	"slices"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Store is a backend whose users are divided.
type Store struct {
	store.Backend // its users are partitions
	below         store.Divisible
	growing       growing
}

var _ store.Backend = (*Store)(nil)

// New divides the users of a backend, which says into how many partitions. A single partition is the user
// itself, and costs nothing.
func New(backend store.Divisible) store.Backend {
	return &Store{Backend: backend, below: backend}
}

// Over is New for what has just been opened.
func Over[B store.Divisible](backend B, err error) (store.Backend, error) {
	if err != nil {
		return nil, err
	}
	return New(backend), nil
}

// Below returns the backend, whose users are partitions.
func (s *Store) Below() store.Divisible { return s.below }

// slotOfPrefix returns the slot of all records of a kind whose keys begin with a prefix, if they have
// one in common.
func slotOfPrefix(kind store.ItemKind, prefix []byte) (slot posthaste.Slot, ok bool) {
	switch kind {
	case store.ItemRunEntry, store.ItemIdempotencyRecord, store.ItemRunEvent, store.ItemWaiter:
		ok = len(prefix) >= 8
	case store.ItemTopic:
		ok = len(prefix) >= 16
	}
	if ok {
		slot = store.RecordKey{Kind: kind, Key: prefix}.Slot()
	}
	return slot, ok
}

// of returns a message as the partition has it that it is in.
func of(d store.Division, m *posthaste.Message) *posthaste.Message {
	own := *m
	own.User = d.Of(m.User, m.ID.Slot())
	return &own
}

// whole returns a message of a partition as that of its user.
func whole(m *posthaste.Message) *posthaste.Message {
	if m == nil || !strings.Contains(m.User, store.PartitionMark) {
		return m
	}
	own := *m
	own.User = store.UserOf(m.User)
	return &own
}

// scopesOf divides a scope among the partitions of a set.
func scopesOf(d store.Division, scope store.Scope, in set) []store.Scope {
	all := d.All(scope.User)
	var scopes []store.Scope
	for n := range in.each() {
		scopes = append(scopes, store.Scope{User: all[n], Hint: hintOf(d, scope.Hint, n), Partitions: d.Partitions})
	}
	return scopes
}

// hintOf returns the part of a hint that is about a partition.
func hintOf(d store.Division, hint store.Hint, n int) (own store.Hint) {
	if d.Growing {
		return own // what is read ahead might be moved before it is looked for
	}
	for _, r := range hint.Records {
		if d.Number(r.Slot()) == n {
			own.Records = append(own.Records, r)
		}
	}
	within := func(ids []posthaste.MessageID) (own []posthaste.MessageID) {
		for _, id := range ids {
			if d.Number(id.Slot()) == n {
				own = append(own, id)
			}
		}
		return own
	}
	own.Places, own.Messages = within(hint.Places), within(hint.Messages)
	for _, m := range hint.Accepts {
		if d.Number(m.ID.Slot()) == n {
			own.Accepts = append(own.Accepts, m)
		}
	}
	return own
}

// named returns the partitions that a hint names.
func named(d store.Division, hint store.Hint) (in set) {
	for _, r := range hint.Records {
		in.add(d.Number(r.Slot()))
	}
	for _, id := range slices.Concat(hint.Places, hint.Messages) {
		in.add(d.Number(id.Slot()))
	}
	for _, m := range hint.Accepts {
		in.add(d.Number(m.ID.Slot()))
	}
	return in
}

// Due implements store.Backend.
func (s *Store) Due(ctx context.Context, kind store.ItemKind, now time.Time, limit int, except ...string) ([]store.Record, time.Time, error) {
	var excepted []string
	for _, user := range except {
		excepted = append(excepted, s.below.Division().All(user)...)
	}
	due, next, err := s.Backend.Due(ctx, kind, now, limit, excepted...)
	for i := range due {
		due[i].User = store.UserOf(due[i].User)
	}
	return due, next, err
}

// Claim implements store.Backend.
func (s *Store) Claim(ctx context.Context, now time.Time, limit int) ([]store.Claim, time.Time, error) {
	claims, next, err := s.Backend.Claim(ctx, now, limit)
	for i := range claims {
		claims[i].Message = whole(claims[i].Message)
	}
	return claims, next, err
}

// Release implements store.Backend.
func (s *Store) Release(ctx context.Context, now time.Time, claims []store.Claim) error {
	own := slices.Clone(claims)
	for i := range own {
		d, err := s.below.DivisionOf(ctx, own[i].Message.User, false)
		if err != nil { // then the release fails, too, which the backend has to know of
			d = s.below.Division()
		}
		own[i].Message = of(d, own[i].Message)
	}
	return s.Backend.Release(ctx, now, own)
}

// Stats implements store.Backend.
func (s *Store) Stats(ctx context.Context, now time.Time) (store.Stats, error) {
	stats, err := s.Backend.Stats(ctx, now)
	for i := range stats.Queues {
		stats.Queues[i].User = store.UserOf(stats.Queues[i].User)
	}
	return stats, err
}

// Export implements store.Backend. The backend merges the logs of a user's partitions.
func (s *Store) Export(ctx context.Context, now time.Time, yield func(store.Item) error) error {
	return s.Backend.Export(ctx, now, func(item store.Item) error {
		item.User = store.UserOf(item.User)
		return yield(item)
	})
}

// Import implements store.Backend.
func (s *Store) Import(ctx context.Context, items []store.Item) error {
	own := slices.Clone(items)
	for i := range own {
		own[i].User = s.below.Division().Of(own[i].User, store.RecordKey{Kind: own[i].Kind, Key: own[i].Key}.Slot())
	}
	return s.Backend.Import(ctx, own)
}
