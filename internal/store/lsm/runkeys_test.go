package lsm

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"posthaste"
	"posthaste/internal/store"
)

// drawUser draws short names of few letters, so that one is often the beginning of
// another.
func drawUser(t *rapid.T) string {
	return rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00")), 0, 3, -1).Draw(t, "user")
}

func drawText(t *rapid.T) string {
	return rapid.OneOf(rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00\x01")), 0, 4, -1), rapid.String()).Draw(t, "text")
}

func drawPosition(t *rapid.T) posthaste.Position {
	return posthaste.Position(rapid.OneOf(rapid.Uint64Max(3), rapid.Uint64Max(1<<63-1)).Draw(t, "position"))
}

func drawWaiter(t *rapid.T) *posthaste.Waiter {
	return &posthaste.Waiter{
		Position: drawPosition(t),
		Run:      posthaste.RunRef{Position: drawPosition(t)},
		Deadline: time.UnixMilli(rapid.Int64Range(0, 1<<47).Draw(t, "deadline")),
	}
}

func TestDeadlineKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		user, a, b := drawUser(t), drawWaiter(t), drawWaiter(t)
		keyA, keyB := appendDeadlineKey(nil, user, a), appendDeadlineKey(nil, drawUser(t), b)
		deadline, due, err := parseDeadlineKey(keyA)
		if err != nil || !deadline.Equal(a.Deadline) || due.User != user || due.Run != a.Run.Position || due.Position != a.Position {
			t.Fatalf("key of %q %+v is read as %v %+v, %v", user, a, deadline, due, err)
		}
		if a.Deadline.Before(b.Deadline) && bytes.Compare(keyA, keyB) >= 0 {
			t.Fatalf("keys of %v and %v are not in the order of the deadlines", a.Deadline, b.Deadline)
		}
	})
}

func FuzzParseDeadlineKey(f *testing.F) {
	f.Add(appendDeadlineKey(nil, "ann", &posthaste.Waiter{Position: 7, Run: posthaste.RunRef{Position: 3}, Deadline: time.UnixMilli(1 << 41)}))
	f.Add([]byte{kindRun, runDeadline, 0, 0, 0, 0, 0, 0, 0, 0, 200})
	f.Fuzz(func(t *testing.T, key []byte) {
		deadline, due, err := parseDeadlineKey(key)
		if err != nil {
			return
		}
		w := &posthaste.Waiter{Position: due.Position, Run: posthaste.RunRef{Position: due.Run}, Deadline: deadline}
		if again := appendDeadlineKey(nil, due.User, w); !bytes.Equal(again[2:], key[2:]) {
			t.Errorf("key %x is read as %v %+v, which is another key", key, deadline, due)
		}
	})
}

// What is found under a prefix is what has that name, not what has a longer one or
// belongs to somebody else.
func TestPrefixesOfRunsDoNotMix(t *testing.T) {
	type named struct {
		user string
		run  posthaste.Position
		text string
	}
	for name, kind := range map[string]struct {
		prefix func(named) []byte
		key    func(named, posthaste.Position) []byte
		same   func(a, b named) bool
	}{
		"topics": {
			func(n named) []byte { return appendTopicPrefix(nil, n.user, posthaste.Topic(n.text)) },
			func(n named, at posthaste.Position) []byte {
				return appendTopicKey(nil, n.user, posthaste.Topic(n.text), at)
			},
			func(a, b named) bool { return a.user == b.user && a.text == b.text },
		},
		"events": {
			func(n named) []byte { return (&runTx{user: n.user}).eventPrefix(n.run, n.text) },
			func(n named, at posthaste.Position) []byte {
				return append((&runTx{user: n.user}).eventPrefix(n.run, n.text), make([]byte, at%9)...)
			},
			func(a, b named) bool { return a == b },
		},
		"waiters": {
			func(n named) []byte { return appendRunKey(nil, runWaiter, n.user, n.run) },
			func(n named, at posthaste.Position) []byte { return appendWaiterKey(nil, n.user, n.run, at) },
			func(a, b named) bool { return a.user == b.user && a.run == b.run },
		},
		"lists": {
			func(n named) []byte { return appendRunKey(nil, runEntry, n.user, n.run) },
			func(n named, at posthaste.Position) []byte { return appendEntryKey(nil, n.user, n.run, int(at%1000)) },
			func(a, b named) bool { return a.user == b.user && a.run == b.run },
		},
		"postings": {
			func(n named) []byte {
				return appendRunPostingPrefix(nil, runPosting, n.user, store.Term{Field: 'n', Hash: uint64(n.run)})
			},
			func(n named, at posthaste.Position) []byte {
				return appendRunPostingKey(nil, runPosting, n.user, store.Term{Field: 'n', Hash: uint64(n.run)}, at)
			},
			func(a, b named) bool { return a.user == b.user && a.run == b.run },
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				draw := func() named { return named{drawUser(t), drawPosition(t), drawText(t)} }
				a, b := draw(), draw()
				if has := bytes.HasPrefix(kind.key(b, drawPosition(t)), kind.prefix(a)); has != kind.same(a, b) {
					t.Fatalf("a key of %+v has the prefix of %+v: %t", b, a, has)
				}
			})
		})
	}
}

// What is kept in order has keys in that order.
func TestKeysOfRunsAreInOrder(t *testing.T) {
	for name, key := range map[string]func(posthaste.Position) []byte{
		"runs":      func(at posthaste.Position) []byte { return appendRunKey(nil, runEnvelope, "ann", at) },
		"waiters":   func(at posthaste.Position) []byte { return appendWaiterKey(nil, "ann", 7, at) },
		"of topics": func(at posthaste.Position) []byte { return appendTopicKey(nil, "ann", "topic", at) },
		"postings": func(at posthaste.Position) []byte {
			return appendRunPostingKey(nil, runPosting, "ann", store.Term{Field: 'n', Hash: 7}, at)
		},
		"entries": func(at posthaste.Position) []byte { return appendEntryKey(nil, "ann", 7, int(at>>32)) },
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				a, b := drawPosition(t), drawPosition(t)
				if order := bytes.Compare(key(a), key(b)); a < b && order > 0 || a > b && order < 0 {
					t.Fatalf("keys of %d and %d are not in their order", a, b)
				}
			})
		})
	}
}

// An id is found by everything it begins with, and only by its owner.
func TestPrefixesOfIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, user, other := drawText(t), drawUser(t), drawUser(t)
		key := appendLetterIDKey(nil, user, id, posthaste.DeadLetterID(drawPosition(t)))
		begins := id[:rapid.IntRange(0, len(id)).Draw(t, "length")]
		if !bytes.HasPrefix(key, appendLetterIDPrefix(nil, user, begins)) {
			t.Fatalf("key of %q is not found by %q", id, begins)
		}
		if prefix := drawText(t); !strings.Contains(prefix, "\x00") && !strings.HasPrefix(id, prefix) && bytes.HasPrefix(key, appendLetterIDPrefix(nil, user, prefix)) {
			t.Fatalf("key of %q is found by %q", id, prefix)
		}
		if other != user && bytes.HasPrefix(key, appendLetterIDPrefix(nil, other, "")) {
			t.Fatalf("key of %q is found by %q", user, other)
		}
	})
}
