package lsm

import (
	"errors"
	"fmt"
	"strings"

	"posthaste/internal/store"
	"posthaste/internal/store/index"
)

// inTables looks at a key of a record of a table, or of what such a record is found by.
func (c *checker) inTables(key, value []byte) error {
	text := string(key)
	for i := range tables {
		kind := store.ItemKind(i)
		t := tableOf(kind)
		if strings.HasPrefix(text, t.record) && t.record != "" {
			user, tail, err := userKey(key[len(t.record):])
			if err != nil {
				return err
			}
			return c.item(&store.Item{Kind: kind, User: user, Key: tail, Value: value})
		}
		if strings.HasPrefix(text, t.postings) {
			user, tail, err := userKey(key[len(t.postings):])
			if err != nil {
				return err
			}
			return c.lonePosting(indexOf(kind, user), tail)
		}
		if strings.HasPrefix(text, t.due) {
			return c.dueKey(kind, key)
		}
	}
	return errors.New("keys of this kind are not known")
}

func indexOf(kind store.ItemKind, user string) string {
	return fmt.Sprintf("%s of user %q", kind, user)
}

// item: a record is found as it should be, and agrees with those it belongs to.
func (c *checker) item(item *store.Item) error {
	reader := &view{&Store{db: c.db}, item.User}
	filed, err := index.Of(reader, item)
	if err != nil && item.Kind == store.ItemSecret { // that of a copy
		c.report.Add("%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	t := tableOf(item.Kind)
	if t.counted != 0 {
		c.counts[string(appendCountKey(nil, t.counted, item.User))]++
	}
	if len(item.Key) == 8 {
		c.indexed(indexOf(item.Kind, item.User), filed.At, filed.Terms)
	}
	if !filed.DueAt.IsZero() {
		if err := c.exists(t.appendDue(nil, filed.DueAt, item.User, item.Key), "one of the %s, %.200q, would never be due", item.Kind, item.Key); err != nil {
			return err
		}
	}
	switch item.Kind {
	case store.ItemDeadLetter:
		c.report.DeadLetters++
	case store.ItemRun:
		c.report.Runs++
	case store.ItemRunDeadLetter:
		c.report.FailedRuns++
	}
	return index.Check(reader, item, filed)
}

// dueKey: what is due is a record that says the same.
func (c *checker) dueKey(kind store.ItemKind, key []byte) error {
	t := tableOf(kind)
	at, user, tail, err := t.parseDue(key)
	if err != nil {
		return err
	}
	reader := &view{&Store{db: c.db}, user}
	value, err := reader.Get(kind, tail)
	if err != nil {
		return fmt.Errorf("due time of one of the %s, %.200q: %w", kind, tail, err)
	}
	filed, err := index.Of(reader, &store.Item{Kind: kind, User: user, Key: tail, Value: value})
	if err == nil && !sameMilli(filed.DueAt, at) {
		err = fmt.Errorf("one of the %s, %.200q, would be due at another time than it says", kind, tail)
	}
	return err
}
