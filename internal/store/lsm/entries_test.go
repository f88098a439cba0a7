package lsm

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// TestPagesAmongDeletedLetters deletes dead letters, a hundred at a time, and lists what is left:
// a page skips what was deleted.
func TestPagesAmongDeletedLetters(t *testing.T) {
	const letters, deletion, page = 2000, 100, 10
	labelled := posthaste.Filter{Labels: []string{"odd"}}
	tests := map[string]struct {
		kept  func(n int) bool // of deletions
		query store.DeadLetterQuery
		want  int
	}{
		"the oldest":           {func(n int) bool { return n == 19 }, store.DeadLetterQuery{OldestFirst: true}, page},
		"the oldest, by label": {func(n int) bool { return n == 19 }, store.DeadLetterQuery{Filter: labelled, OldestFirst: true}, page},
		"the newest":           {func(n int) bool { return n == 0 }, store.DeadLetterQuery{}, page},
		"the newest, by label": {func(n int) bool { return n == 0 }, store.DeadLetterQuery{Filter: labelled}, page},
		"all":                  {func(n int) bool { return false }, store.DeadLetterQuery{}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := openMem(t)
			ids := addLettersToDLQ(t, s, letters)
			if err := s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
				t.Fatal(err)
			}
			for n := range letters / deletion {
				if test.kept(n) {
					continue
				}
				if _, err := ledger.New(s).DeleteDeadLetters(t.Context(), "ann", ids[n*deletion:(n+1)*deletion], nil); err != nil {
					t.Fatal(err)
				}
			}
			test.query.Limit = page
			const most = 2*page + 2*letters/deletion
			if found, steps := stepsOfPage(t, s, test.query); found != test.want || steps > most {
				t.Errorf("a page of %d stepped over %d keys, want %d and at most %d", found, steps, test.want, most)
			}
		})
	}
}

// addLettersToDLQ makes dead letters of ann, every other one with a label, and returns their
// ids, which ascend.
func addLettersToDLQ(t *testing.T, s *Store, n int) (ids []posthaste.DeadLetterID) {
	t.Helper()
	err := s.Update(t.Context(), noonOfRuns, store.Scope{User: "ann"}, func(tx store.Tx) error {
		for i := range n {
			id, err := posthaste.NewMessageID(noonOfRuns.Add(time.Duration(i)*time.Millisecond), zeros{})
			if err != nil {
				return err
			}
			m := &posthaste.Message{ID: id, User: "ann", URL: "http://a.example/", CreatedAt: noonOfRuns}
			if i%2 == 1 {
				m.Labels = []string{"odd"}
			}
			at := tx.Log(m, posthaste.Event{MessageID: id, State: posthaste.StateFailed})
			ids = append(ids, posthaste.DeadLetterID(at))
			d := &posthaste.DeadLetter{ID: posthaste.DeadLetterID(at), Message: m}
			tx.Put(store.ItemDeadLetter, binary.BigEndian.AppendUint64(nil, uint64(at)), record.AppendDeadLetter(nil, d),
				store.Found{}, store.Found{Terms: index.DeadLetter(d)})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// stepsOfPage reads a page and returns how many dead letters it has, and how many keys
// were stepped over in all the sets it was found by.
func stepsOfPage(t *testing.T, s *Store, query store.DeadLetterQuery) (shown, steps int) {
	t.Helper()
	visible := s.visible()
	query.High = visible
	letters := tableOf(store.ItemDeadLetter)
	counted := &countedIterators{Reader: s.db}
	in, err := found(counted, "ann", letters, &store.FindQuery{Terms: index.DeadLetters(&query.Filter), OldestFirst: query.OldestFirst})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = in.Walk(0, visible, func(posthaste.Position) (bool, error) {
		shown++
		return shown == query.Limit, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, iter := range counted.opened {
		stats := iter.Stats()
		steps += stats.ForwardStepCount[pebble.InternalIterCall] + stats.ReverseStepCount[pebble.InternalIterCall]
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	return shown, steps
}

// countedIterators keeps the iterators that were opened.
type countedIterators struct {
	pebble.Reader
	opened []*pebble.Iterator
}

func (c *countedIterators) NewIter(options *pebble.IterOptions) (*pebble.Iterator, error) {
	iter, err := c.Reader.NewIter(options)
	c.opened = append(c.opened, iter)
	return iter, err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
