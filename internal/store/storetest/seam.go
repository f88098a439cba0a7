package storetest

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// RunSeam tests the promises of store.Backend, and what its transactions do to messages that
// wait in lanes. It calls open for each test; open returns an empty backend that has Memory, and
// sees to it that it is closed in the end. What the tests leave behind need not make sense: only
// queues, flow-control keys and messages have records that can be decoded.
func RunSeam(t *testing.T, open func(t *testing.T) store.Backend) {
	for _, group := range seamPromises {
		t.Run(group.name, func(t *testing.T) {
			for _, p := range group.trials {
				t.Run(p.name, func(t *testing.T) {
					t.Parallel()
					p.check(newSeam(t, open(t)))
				})
			}
		})
	}
}

// CrashableBackend is Crashable for a backend.
type CrashableBackend interface {
	Open() (store.Backend, error)
	Crash(seed int64)
}

// RunSeamCrash tests that what Update wrote survives a crash.
func RunSeamCrash(t *testing.T, newCrashable func(t *testing.T) CrashableBackend) {
	c := newCrashable(t)
	reopen := func() store.Backend {
		b, err := c.Open()
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return b
	}
	s := newSeam(t, reopen())
	s.survives(func() {
		c.Crash(1)
		s.Backend = reopen()
	})
}

var seamPromises = []struct {
	name   string
	trials []seamPromise
}{
	{"Atomic", seamAtomicPromises},
	{"Records", seamRecordPromises},
	{"Find", seamFindPromises},
	{"Due", seamDuePromises},
	{"Log", seamLogPromises},
	{"Places", seamPlacePromises},
	{"Queues", seamQueuePromises},
	{"Lanes", seamLanePromises},
	{"Counts", seamCountPromises},
	{"FlowKeys", seamFlowKeyPromises},
}

type seamPromise struct {
	name  string
	check func(*seam)
}

// seam is a backend under test.
type seam struct {
	bench
	store.Backend
}

func newSeam(t testing.TB, b store.Backend) *seam { return &seam{newBench(t), b} }

var errNoChange = errors.New("no change")

// survives writes something of each kind, crashes the backend, and reads it.
func (s *seam) survives(crash func()) {
	s.Helper()
	s.putFindable(store.ItemDeadLetter)
	s.putQueue(posthaste.Queue{Name: "q", Parallelism: 1, Paused: true})
	s.putFlowKey(posthaste.FlowKey{Key: "k", FlowLimit: posthaste.FlowLimit{Rate: 9, Period: time.Minute}})
	s.put(ann, store.ItemURLGroup, "g", "value")
	s.put("", store.ItemSecret, "token", "secret")
	s.put(ann, store.ItemURLGroup, "gone", "value")
	s.delete(ann, store.ItemURLGroup, "gone")
	due := store.Found{DueAt: s.now}
	s.update(ann, func(tx store.Tx) error {
		tx.Put(store.ItemSchedule, []byte("s"), []byte("value of s"), store.Found{}, due)
		tx.Count(deadLetters, findables, 0)
		return nil
	})
	ended, claimed, asked, paused := s.accept(), s.accept(), s.accept(delayed(time.Hour)), s.accept(through("q"))
	s.end(ended, posthaste.StateCancelled)
	s.claimThese(claimed)
	for _, m := range []*posthaste.Message{claimed, asked} {
		s.save(m, func(p *store.Place) { p.CancelRequested = true })
	}
	var before posthaste.Position
	s.update(ann, func(tx store.Tx) error {
		before = tx.NextPosition(0)
		tx.Put(store.ItemURLGroup, []byte("position"), positionKey(before), store.Found{}, store.Found{})
		return nil
	})

	crash()

	s.wantFound(findQuery(func(q *store.FindQuery) { q.Terms = [][]store.Term{{colour(1)}, {size(1)}} }), func(i int) bool { return i%3 == 1 && i%2 == 1 })
	s.wantDue(time.Time{}, []string{"ann/s"})
	s.view("", func(r store.Reader) { s.wantValue(r, store.ItemSecret, "token", "secret") })
	s.view(ann, func(r store.Reader) {
		s.wantValue(r, store.ItemURLGroup, "g", "value")
		s.wantNone(r, store.ItemURLGroup, "gone")
		if k := s.flowKey(r, "k"); k.Rate != 9 || k.Period != time.Minute {
			s.Errorf("flow-control key %+v", k)
		}
	})
	if usage, err := s.Usage(s.Context(), ann); err != nil || usage.DeadLetters.Entries != findables {
		s.Errorf("Usage = %+v, %v, want %d dead letters", usage.DeadLetters, err, findables)
	}
	s.wantPlace(ended, func(p store.Place) bool { return p.State == posthaste.StateCancelled })
	for _, m := range []*posthaste.Message{claimed, asked} {
		s.wantPlace(m, func(p store.Place) bool { return p.Waits() && p.CancelRequested })
	}
	s.wantPlace(paused, func(p store.Place) bool { return p.Waits() })
	s.update(ann, func(tx store.Tx) error {
		if at := tx.NextPosition(0); at <= before {
			s.Errorf("position %d after the crash, %d before it", at, before)
		}
		return nil
	})
	if claim := s.claimThese(claimed)[0]; !claim.CancelRequested {
		s.Error("the claim does not say that its cancellation was requested")
	}
	s.putQueue(posthaste.Queue{Name: "q", Parallelism: 1})
	s.claimThese(paused)
}

// deadLetters and runs are what is counted.
var (
	deadLetters = store.RecordKey{Kind: store.ItemDeadLetter, Key: positionKey(0)}
	runs        = store.RecordKey{Kind: store.ItemRun, Key: positionKey(0)}
)

func scopeOf(user string) store.Scope { return store.Scope{User: user} }

func positionKey(p posthaste.Position) []byte { return binary.BigEndian.AppendUint64(nil, uint64(p)) }

func queueRecord(q posthaste.Queue) []byte { return record.AppendQueue(nil, &q) }

// update makes a change that must succeed.
func (s *seam) update(user string, change func(store.Tx) error) {
	s.Helper()
	s.ok(s.Update(s.Context(), s.now, scopeOf(user), change))
}

func (s *seam) view(user string, read func(store.Reader)) {
	s.Helper()
	err := s.View(s.Context(), scopeOf(user), func(r store.Reader) error {
		read(r)
		return nil
	})
	if err != nil {
		s.Fatalf("View: %v", err)
	}
}

func (s *seam) put(user string, kind store.ItemKind, key, value string) {
	s.Helper()
	s.update(user, func(tx store.Tx) error {
		tx.Put(kind, []byte(key), []byte(value), store.Found{}, store.Found{})
		return nil
	})
}

func (s *seam) delete(user string, kind store.ItemKind, key string) {
	s.Helper()
	s.update(user, func(tx store.Tx) error {
		tx.Delete(kind, []byte(key), store.Found{})
		return nil
	})
}

func (s *seam) putQueue(q posthaste.Queue) {
	s.Helper()
	s.put(ann, store.ItemQueue, q.Name, string(queueRecord(q)))
}

func (s *seam) putFlowKey(k posthaste.FlowKey) {
	s.Helper()
	s.put(ann, store.ItemFlowKey, k.Key, string(record.AppendFlowKey(nil, &k)))
}

func (s *seam) updateFlowKey(key string, change func(*posthaste.FlowKey)) {
	s.Helper()
	s.update(ann, func(tx store.Tx) error {
		k := s.flowKey(tx, key)
		change(k)
		tx.Put(store.ItemFlowKey, []byte(key), record.AppendFlowKey(nil, k), store.Found{}, store.Found{})
		return nil
	})
}

func (s *seam) flowKey(r store.Reader, key string) *posthaste.FlowKey {
	s.Helper()
	value, err := r.Get(store.ItemFlowKey, []byte(key))
	if err != nil {
		s.Fatalf("flow-control key %q: %v", key, err)
	}
	k, err := record.DecodeFlowKey(key, value)
	if err != nil {
		s.Fatalf("flow-control key %q: %v", key, err)
	}
	return k
}

func (s *seam) wantValue(r store.Reader, kind store.ItemKind, key, want string) {
	s.Helper()
	if value, err := r.Get(kind, []byte(key)); err != nil || string(value) != want {
		s.Errorf("%s %q: %.100q, %v, want %.100q", kind, key, value, err, want)
	}
}

func (s *seam) wantNone(r store.Reader, kind store.ItemKind, key string) {
	s.Helper()
	if value, err := r.Get(kind, []byte(key)); !errors.Is(err, store.ErrNotFound) {
		s.Errorf("%s %q: %.100q, %v, want ErrNotFound", kind, key, value, err)
	}
}

// wantScan requires the URL groups of one scan.
func (s *seam) wantScan(r store.Reader, prefix, after string, limit int, want ...string) {
	s.Helper()
	var keys []string
	_, err := r.Scan(store.ItemURLGroup, []byte(prefix), []byte(after), limit, func(key, _ []byte) error {
		keys = append(keys, string(key))
		return nil
	})
	if err != nil || !slices.Equal(keys, want) {
		s.Errorf("Scan of %q after %q: %q, %v, want %q", prefix, after, keys, err, want)
	}
}

// scanAll returns the keys of all parts, each of which has something if more follow.
func (s *seam) scanAll(r store.Reader, kind store.ItemKind, prefix, after []byte, limit int) (keys []string) {
	s.Helper()
	for {
		n := len(keys)
		more, err := r.Scan(kind, prefix, after, limit, func(key, _ []byte) error {
			keys = append(keys, string(key))
			return nil
		})
		if err != nil || len(keys)-n > limit || more && len(keys) == n {
			s.Fatalf("Scan of %s after %q with limit %d: %d keys, more %v, %v", kind, after, limit, len(keys)-n, more, err)
		}
		if !more {
			return keys
		}
		after = []byte(keys[len(keys)-1])
	}
}
