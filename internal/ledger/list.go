package ledger

import (
	"context"
	"errors"

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
	err = l.View(ctx, store.Scope{User: user}, func(from store.Reader) error {
		names = nil
		for after, more := []byte(nil), true; more; {
			if more, err = from.Scan(r.kind, nil, after, listedAtOnce, func(key, _ []byte) error {
				names = append(names, string(key))
				return nil
			}); err != nil {
				return err
			}
			if more {
				after = []byte(names[len(names)-1])
			}
		}
		return nil
	})
	return names, err
}
