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
// wanted, so that a few are changed in one commit wherever they are. A cursor says in which it goes on.
func (s *Store) LiveMessages(ctx context.Context, user string, query store.LiveQuery) (ids []posthaste.MessageID, cursor string, err error) {
	d := s.below.Division()
	all := d.All(user)
	n, most := 0, query.Limit
	if query.Cursor != "" {
		number, own, found := strings.Cut(query.Cursor, ".")
		if n, err = strconv.Atoi(number); err != nil || !found || n < 0 || n >= len(all) {
			return nil, "", posthaste.Invalidf("cursor %q is not one that this server made", query.Cursor)
		}
		query.Cursor = own
	}
	for {
		query.Limit = most - len(ids)
		some, next, err := s.Backend.LiveMessages(ctx, all[n], query)
		if err != nil {
			return nil, "", err
		}
		ids = append(ids, some...)
		if next == "" {
			n++
		}
		switch {
		case n == len(all):
			return ids, "", nil
		case next != "" || len(ids) >= most:
			return ids, strconv.Itoa(n) + "." + next, nil
		}
		query.Cursor = ""
	}
}

// DropDays implements store.Backend. A day counts once.
func (s *Store) DropDays(ctx context.Context, user string, before time.Time) (days int, err error) {
	d := s.below.Division()
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
func (s *Store) Usage(ctx context.Context, user string) (store.Usage, error) {
	if user == "" {
		usage, err := s.Backend.Usage(ctx, "")
		for i := range usage.Users {
			usage.Users[i] = store.UserOf(usage.Users[i])
		}
		usage.Users = slices.Compact(usage.Users)
		return usage, err
	}
	d := s.below.Division()
	var total store.Usage
	for _, partition := range d.All(user) {
		own, err := s.Backend.Usage(ctx, partition)
		if err != nil {
			return store.Usage{}, err
		}
		total.InFlight += own.InFlight
		add(&total.Log, own.Log)
		add(&total.DeadLetters, own.DeadLetters)
		add(&total.FailedRuns, own.FailedRuns)
		add(&total.Runs, own.Runs)
		for _, day := range own.Days {
			i, found := slices.BinarySearchFunc(total.Days, day.Start, func(d store.DayUsage, at time.Time) int { return d.Start.Compare(at) })
			if !found {
				total.Days = slices.Insert(total.Days, i, store.DayUsage{Start: day.Start})
			}
			add(&total.Days[i].KindUsage, day.KindUsage)
		}
	}
	return total, nil
}

// add adds what a partition has.
func add(total *store.KindUsage, own store.KindUsage) {
	total.Entries += own.Entries
	total.Bytes += own.Bytes
	if total.Oldest.IsZero() || !own.Oldest.IsZero() && own.Oldest.Before(total.Oldest) {
		total.Oldest = own.Oldest
	}
}
