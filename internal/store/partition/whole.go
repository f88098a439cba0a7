package partition

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// LiveMessages implements store.Backend: one partition after the other, until there are as many as are
// wanted, so that a few are changed in one commit wherever they are. A cursor begins with the first
// slot of the one in which it goes on.
func (s *Store) LiveMessages(ctx context.Context, user string, query store.LiveQuery) (ids []posthaste.MessageID, cursor string, err error) {
	d, done, err := s.below.Reading(ctx)
	if err != nil {
		return nil, "", err
	}
	defer done(&err)
	all := d.All(user)
	n, most, known := 0, query.Limit, map[posthaste.MessageID]bool{}
	if query.Cursor != "" {
		first, own, found := strings.Cut(query.Cursor, ".")
		slot, err := strconv.Atoi(first)
		if err != nil || !found || slot < 0 || slot >= posthaste.Slots {
			return nil, "", posthaste.Invalidf("cursor %q is not one that this server made", query.Cursor)
		}
		n, query.Cursor = d.Number(posthaste.Slot(slot)), own
	}
	for {
		query.Limit = most - len(ids)
		some, next, err := s.Backend.LiveMessages(ctx, all[n], query)
		if err != nil {
			return nil, "", err
		}
		if d.Growing { // some may have been moved
			some = slices.DeleteFunc(some, func(id posthaste.MessageID) bool {
				again := known[id]
				known[id] = true
				return again
			})
		}
		ids = append(ids, some...)
		if next == "" {
			n++
		}
		switch {
		case n == len(all):
			return ids, "", nil
		case next != "" || len(ids) >= most:
			return ids, strconv.Itoa(int(store.FirstSlot(all[n]))) + "." + next, nil
		}
		query.Cursor = ""
	}
}

// DropDays implements store.Backend. A day counts once.
func (s *Store) DropDays(ctx context.Context, user string, before time.Time) (days int, err error) {
	d, done, err := s.below.Reading(ctx)
	if err != nil {
		return 0, err
	}
	done(&err) // it may last, and the days of other partitions can go the next time
	usage, err := s.Usage(ctx, user)
	if err != nil {
		return 0, err
	}
	for _, partition := range d.All(user) {
		if _, err := s.Backend.DropDays(ctx, partition, before); err != nil {
			return 0, err
		}
	}
	for _, day := range usage.Days {
		if !day.Start.Add(24 * time.Hour).After(before) {
			days++
		}
	}
	return days, nil
}

// Usage implements store.Backend.
func (s *Store) Usage(ctx context.Context, user string) (total store.Usage, err error) {
	if user == "" {
		usage, err := s.Backend.Usage(ctx, "")
		for i := range usage.Users {
			usage.Users[i] = store.UserOf(usage.Users[i])
		}
		usage.Users = slices.Compact(usage.Users)
		return usage, err
	}
	d, done, err := s.below.Reading(ctx)
	if err != nil {
		return store.Usage{}, err
	}
	defer done(&err)
	for _, partition := range d.All(user) {
		own, err := s.Backend.Usage(ctx, partition)
		if err != nil {
			return store.Usage{}, err
		}
		total.Add(own)
	}
	return total, nil
}
