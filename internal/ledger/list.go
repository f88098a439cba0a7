package ledger

import (
	"context"
	"errors"
	"time"

	"posthaste/internal/store"
)

// one returns a value of a user, or store.ErrNotFound.
func (r records[T]) one(ctx context.Context, l *Ledger, user, name string) (value *T, err error) {
	err = l.View(ctx, r.scope(user, name), func(from store.Reader) (err error) {
		value, err = r.get(from, user, name)
		return err
	})
	return value, err
}

// scope is that of a transaction on one value.
func (r records[T]) scope(user, name string) store.Scope {
	return store.Scope{User: user, Hint: store.Hint{Records: []store.RecordKey{r.key(name)}}}
}

// listedOverhead is what a value of a list takes in memory beside its record, and listedAtOnce the
// most values of a part.
const (
	listedOverhead = 512
	listedAtOnce   = 10_000
)

// part returns values of a user whose names come after one, in order, as many as a part of a list may
// have. An error names a value that cannot be read: without it the list would not be complete.
func (r records[T]) part(from store.Reader, user, after string) (list store.List[*T], err error) {
	budget, last := store.NewPageBudget(0), ""
	more, err := from.Scan(r.kind, nil, []byte(after), listedAtOnce, func(key, data []byte) error {
		if !budget.Take(listedOverhead + len(key) + len(data)) {
			return store.ErrStop
		}
		last = string(key)
		value, err := r.read(user, last, data)
		list.Items = append(list.Items, value)
		return err
	})
	if errors.Is(err, store.ErrStop) {
		more, err = true, nil
	}
	if err != nil {
		return store.List[*T]{}, err
	}
	if more {
		list.Next = last
	}
	return list, nil
}

// list is part for a transaction of its own.
func (r records[T]) list(ctx context.Context, l *Ledger, user, after string) (list store.List[*T], err error) {
	err = l.View(ctx, store.Scope{User: user}, func(from store.Reader) (err error) {
		list, err = r.part(from, user, after)
		return err
	})
	return list, err
}

// all returns all values of a user, in the order of their names.
func (r records[T]) all(ctx context.Context, l *Ledger, user string) (all []*T, err error) {
	for after, more := "", true; more; {
		part, err := r.list(ctx, l, user, after)
		if err != nil {
			return nil, err
		}
		all = append(all, part.Items...)
		after, more = part.Next, part.Next != ""
	}
	return all, nil
}

// names returns the names of all values of a user, in order.
func (r records[T]) names(ctx context.Context, l *Ledger, user string) (names []string, err error) {
	err = l.View(ctx, store.Scope{User: user}, func(from store.Reader) (err error) {
		names = nil
		for after, more := []byte(nil), true; more && err == nil; {
			more, err = from.Scan(r.kind, nil, after, listedAtOnce, func(key, _ []byte) error {
				names = append(names, string(key))
				return nil
			})
			if more {
				after = []byte(names[len(names)-1])
			}
		}
		return err
	})
	return names, err
}

// due returns up to limit values that are due, of all users except some, the earliest first, and when
// the next other one is. Unreadable ones are returned as an error together with the others, and do
// not count.
func (r records[T]) due(ctx context.Context, l *Ledger, now time.Time, limit int, except ...string) (due []*T, next time.Time, err error) {
	for count := limit; ; count *= 2 {
		found, next, err := l.Due(ctx, r.kind, now, count, except...)
		if err != nil {
			return nil, time.Time{}, err
		}
		due, damage := r.readable(found)
		if len(due) > limit {
			return due[:limit], now, damage
		}
		if len(due) == limit || len(found) < count {
			return due, next, damage
		}
	}
}

// readable decodes what can be read of some values. The error names the others.
func (r records[T]) readable(found []store.Record) (values []*T, damage error) {
	var damaged []error
	for _, f := range found {
		value, err := r.read(f.User, string(f.Key), f.Value)
		if err != nil {
			damaged = append(damaged, err)
			continue
		}
		values = append(values, value)
	}
	return values, errors.Join(damaged...)
}
